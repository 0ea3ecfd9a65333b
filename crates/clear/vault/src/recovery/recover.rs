//! Recovers a vault whose database, header or replica file is lost or damaged.
//!
//! Takes   a vault folder that nobody has open, and a secret
//! Gives   a vault that opens, in the state of its newest readable revision; a report of what could not be recovered
//! Never   deletes or overwrites the old database: it is kept beside the new one
//! Spec    spec/7-recovery.md
//!
//! Invariants
//!  (1) After a kill at any moment, the folder is as it was before, or the next opening finishes the recovery.  [switch]
//!  (2) A second recovery finds a sound vault and changes nothing.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use strongroom_crypto::{Keyring, Random, Replica, Secret, SystemRandom};
use strongroom_filesystem::Timestamp;
use strongroom_format::{Epoch, SuiteId};
use strongroom_history::{Retention, Revision, RevisionId};
use strongroom_metadata::{self as metadata, Store};
use strongroom_segments::{
    Access as SegmentAccess, INTENT_LOG, INTENTS_UNREADABLE, SegmentStore, StoreOptions,
};

use crate::clock::now_s;
use crate::execute::history::{FOLLOWS, RETENTION};
use crate::execute::verify::intents_problem;
use crate::folder::owner_lock::{Attempt, OwnerLock};
use crate::folder::switch;
use crate::folder::{Folder, REPLICA, REVISIONS, SEGMENTS, below};
use crate::join::Joining;
use crate::keyring::known_records;
use crate::keyring::metadata_key;
use crate::keyring::own_replica::{save_copies, settle};
use crate::keyring::unlocked::Way;
use crate::open::{self, OpenOptions};
use crate::outline::Source;
use crate::owner::port::Port;
use crate::records::{open_revision, record_files, record_name};
use crate::recovery::header_files::{DatabaseKey, bring_header, bring_replica};
use crate::recovery::inventory::{FoundBlocks, Inventory};
use crate::recovery::misnamed;
use crate::recovery::rebuild::{Rebuilding, Rebuilt, Unnamed};
use crate::recovery::report::{Brought, RecoverReport};
use crate::request::Access;
use crate::request::history::RevisionInfo;
use crate::seen::{self, IfOlder, Trust, Watch};
use crate::{Error, FileProblem, Result, Vault};

/// When the database is rebuilt from the segments and the records of snapshots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rebuild {
    /// Never: `DatabaseLost` if it would be needed.
    Never,
    /// If it is lost or ruined.
    #[default]
    IfLost,
    /// Even if it is sound: it may be an older copy than the rest of the folder.
    Always,
}

/// How header, replica file and database are brought back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoverOptions {
    /// When the database is rebuilt.
    pub rebuild: Rebuild,
    /// What the vault must be before it is touched. A rebuilt database begins to count again: it is not taken for an older one.
    pub trust: Trust,
}

/// Whether anything is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trial {
    /// Everything is done.
    ForReal,
    /// Nothing stays that was not there before.
    OnlyLook,
}

/// How far a recovery is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoverProgress {
    /// So many of so many bytes of segments were read.
    Segments(u64, u64),
    /// So many nodes were brought back.
    Nodes(u64),
    /// So many of so many bytes came from remotes.
    FromRemotes(u64, u64),
}

/// Brings header, replica file and database of the vault in `folder` back, and mends nothing else: the first part of `repair`.
/// `told` hears of the progress.
///
/// # Errors
/// `InUse` if a process has the vault open; `HeaderLost`, `WrongSecret`, `DatabaseLost`; of the disk: then the folder is as it was,
/// but for a header or replica file that was put back.
pub fn recover(
    folder: impl AsRef<Path>,
    secret: &Secret,
    options: RecoverOptions,
    told: &mut dyn FnMut(RecoverProgress),
) -> Result<RecoverReport> {
    let folder = Folder::new(folder.as_ref()).absolute()?;
    let lock = begin(&folder, Trial::ForReal)?;
    // The log of small syncs may be gone: that of the database then says that the vault was not closed.
    let log = format!("{}-wal", metadata::DATABASE_FILE);
    let was_left = folder.has(INTENT_LOG) || folder.has(&log);
    let mut report = recover_locked(&folder, secret, &options, Trial::ForReal, told)?;
    if was_left && !matches!(report.database, Brought::Rebuilt(_)) {
        let fault = take_in_intents(&folder, lock, secret, options.trust)?;
        report.files.extend(fault);
    }
    Ok(report)
}

/// Opens and closes a vault that was not closed, so that its log of small syncs is taken in; says what of it is lost.
fn take_in_intents(
    folder: &Folder,
    lock: OwnerLock,
    secret: &Secret,
    trust: Trust,
) -> Result<Option<FileProblem>> {
    let joining = OpenOptions {
        trust,
        ..OpenOptions::default()
    };
    let owner = open::open(
        folder,
        Some(lock),
        Way::Secret(secret),
        Access::ReadWrite,
        &joining,
    )?;
    let fault = intents_problem(owner.session.filesystem());
    let joining = Joining::new(folder.path(), joining, None)?;
    Vault::new(Port::Owner(Arc::new(owner)), joining).close()?;
    Ok(fault)
}

/// As `recover`, for who holds the lock.
pub(crate) fn recover_locked(
    folder: &Folder,
    secret: &Secret,
    options: &RecoverOptions,
    trial: Trial,
    told: &mut dyn FnMut(RecoverProgress),
) -> Result<RecoverReport> {
    recover_from(folder, secret, options, (trial, Source::Folder), told)
}

/// The same, also of what came from a remote.
pub(crate) fn recover_from(
    folder: &Folder,
    secret: &Secret,
    options: &RecoverOptions,
    (trial, source): (Trial, Source<'_>),
    told: &mut dyn FnMut(RecoverProgress),
) -> Result<RecoverReport> {
    let report = bring_back(folder, secret, options, (trial, source), told)?;
    if trial == Trial::ForReal {
        // Not before: the key of the old database may be in a second copy alone.
        save_copies(folder)?;
    }
    Ok(report)
}

/// The same, but for the second copies.
fn bring_back(
    folder: &Folder,
    secret: &Secret,
    options: &RecoverOptions,
    (trial, source): (Trial, Source<'_>),
    told: &mut dyn FnMut(RecoverProgress),
) -> Result<RecoverReport> {
    let mut writes = Vec::new();
    let (mut keyring, header) = bring_header(folder, secret, &options.trust, &mut writes)?;
    let accepts = options.trust.older == IfOlder::Accept;
    let (mut keys, mut replica, database_key) =
        bring_replica(folder, &mut keyring, accepts, &mut writes)?;
    let mut state = match (options.rebuild, database_key) {
        (Rebuild::Always, _) => DatabaseState::Ruined(String::new()),
        (_, DatabaseKey::KnownToRemoved) => DatabaseState::Ruined(MADE_BY_REMOVED.to_owned()),
        _ => look(folder, &keyring, &keys, trial)?,
    };
    if options.rebuild != Rebuild::Always
        && replica == Brought::Sound
        && matches!(state, DatabaseState::Ruined(_))
        && let Some(second) = second_replica(folder, &mut keyring, trial)?
    {
        writes.push((REPLICA, second.bytes));
        (keys, state, replica) = (second.replica, second.state, Brought::PutBack);
    }
    refuse_rebuild(&state, options.rebuild)?;
    // A sound database judges the header better, when the vault is opened: it may only lack a record that another device made.
    let check_head = |keyring: &Keyring| {
        Watch::begin(folder, keyring, Access::ReadOnly, &options.trust)?.check_head(keyring)
    };
    if replica != Brought::Sound || matches!(state, DatabaseState::Ruined(_)) {
        check_head(&keyring)?;
    }
    if trial == Trial::ForReal {
        for (name, bytes) in &writes {
            folder.replace(name, bytes)?;
        }
        if replica == Brought::Sound {
            settle(folder, &keyring, &keys)?;
        }
    }
    let renamed = misnamed::put_right(folder, trial)?;
    let mut report = RecoverReport {
        header,
        replica,
        renamed,
        ..RecoverReport::default()
    };
    if state == DatabaseState::Surplus {
        report.database = Brought::Cut;
        if trial == Trial::ForReal {
            cut(folder, &keys)?;
            state = look(folder, &keyring, &keys, trial)?;
            // Only now every page of it could be looked at.
            refuse_rebuild(&state, options.rebuild)?;
        }
    }
    if !matches!(state, DatabaseState::Ruined(_)) {
        if matches!(report.replica, Brought::Rebuilt(_)) && trial == Trial::ForReal {
            note_device(folder, &keyring, &keys)?;
        }
        return Ok(report);
    }
    check_head(&keyring)?;
    if trial == Trial::ForReal {
        seen::expect_rebuilt(folder, &keyring, &options.trust)?;
    }
    rebuild(folder, &keyring, &keys, (trial, source), &mut report, told)?;
    Ok(report)
}

/// Takes the lock of a vault folder that is to be recovered or looked at, and finishes a change of databases that was cut off.
///
/// # Errors
/// `NotAVault`, before anything is made in a folder that is none of a vault's; `InterruptedRecovery` if a change of databases was
/// cut off and nothing may be finished.
pub(crate) fn begin(folder: &Folder, trial: Trial) -> Result<OwnerLock> {
    folder.check_finished()?;
    if !folder.has(SEGMENTS)
        && let Err(error @ Error::NotAVault) = folder.header()
    {
        return Err(error);
    }
    if trial == Trial::ForReal {
        folder.check_is_no_backup()?;
    }
    let lock = take_lock(folder)?;
    folder.check()?;
    match trial {
        Trial::ForReal => {
            folder.remove_unfinished()?;
            switch::finish(folder)?;
        }
        Trial::OnlyLook if switch::is_pending(folder)? => return Err(Error::InterruptedRecovery),
        Trial::OnlyLook => {}
    }
    Ok(lock)
}

fn take_lock(folder: &Folder) -> Result<OwnerLock> {
    match OwnerLock::attempt(folder)? {
        Attempt::Taken(lock) => Ok(lock),
        Attempt::HeldByAnother => Err(Error::InUse),
        Attempt::NotWritable(source) => Err(Error::Io {
            what: "recovering the vault",
            source,
        }),
    }
}

/// A second copy of the replica file that opens the database.
struct Second {
    bytes: Vec<u8>,
    replica: Replica,
    state: DatabaseState,
}

/// The second copy of the replica file, if the database opens with it: then an older one was put in the place of the first.
fn second_replica(folder: &Folder, keyring: &mut Keyring, trial: Trial) -> Result<Option<Second>> {
    let Some(bytes) = folder.saved(REPLICA).ok().flatten() else {
        return Ok(None);
    };
    if folder.replica().is_ok_and(|present| present == bytes) {
        return Ok(None);
    }
    let Ok(replica) = keyring.open_replica(&bytes) else {
        return Ok(None);
    };
    let state = look(folder, keyring, &replica, trial)?;
    let serves = !matches!(state, DatabaseState::Ruined(_)) && keyring.act_as(&replica).is_ok();
    Ok(serves.then_some(Second {
        bytes,
        replica,
        state,
    }))
}

// ---- the database

/// What a look at the database came to.
#[derive(PartialEq, Eq)]
enum DatabaseState {
    /// It opens, and every page and tree of it is as it was written.
    Sound,
    /// The same, as far as can be seen before what is behind its last page is cut off.
    Surplus,
    /// It is none of them, for this reason.
    Ruined(String),
}

/// Why the database may not be this vault's own.
const MADE_BY_REMOVED: &str = "somebody whose key was removed from the vault knows the key of this database, and may have forged the database; if you know that this folder is yours and unchanged, keep the database with `--accept-older`";

fn refuse_rebuild(state: &DatabaseState, rebuild: Rebuild) -> Result<()> {
    match (state, rebuild) {
        (DatabaseState::Ruined(why), Rebuild::Never) => {
            Err(Error::DatabaseLost { why: why.clone() })
        }
        _ => Ok(()),
    }
}

/// How the database is opened to be looked at or mended.
fn to_mend(keys: &Replica) -> metadata::Options {
    metadata::Options {
        reserve_bytes: 0,
        missing_tree: metadata_key::missing_tree(keys),
        ..metadata::Options::default()
    }
}

/// In a trial, a database of an earlier version is not brought up to date, and is an error.
fn look(folder: &Folder, keyring: &Keyring, keys: &Replica, trial: Trial) -> Result<DatabaseState> {
    let key = keys.metadata_key().bytes();
    let because = |why: &str| Ok(DatabaseState::Ruined(why.to_owned()));
    let below = |error| strongroom_filesystem::Error::from(error).into();
    let opened = match Store::open_read_only(folder.path(), key, to_mend(keys)) {
        Err(metadata::Error::OlderVersion { .. }) if trial == Trial::ForReal => {
            Store::open(folder.path(), key, to_mend(keys))
        }
        opened => opened,
    };
    let store = match opened {
        Ok(store) => store,
        // Without the advice that goes with it elsewhere: here is what can be done.
        Err(metadata::Error::Damaged(why)) => return because(why),
        Err(error @ (metadata::Error::WrongKey | metadata::Error::Missing)) => {
            return because(&error.to_string());
        }
        // The database is there; that it cannot be read now is another matter.
        Err(error) => return Err(below(error)),
    };
    // What it keeps of the header may be ruined with the rest; that the header is an older one is another matter.
    match known_records::see(&store, keyring, Access::ReadOnly) {
        Err(error @ (Error::GenerationBehind { .. } | Error::HeaderForeign { .. })) => {
            return Err(error);
        }
        Err(error) => return because(&error.to_string()),
        Ok(_) => {}
    }
    match store.state_of_file() {
        Ok(metadata::FileState::Sound) => Ok(DatabaseState::Sound),
        Ok(metadata::FileState::Longer) => Ok(DatabaseState::Surplus),
        Ok(metadata::FileState::Damaged) => because("a page of it is damaged"),
        Err(metadata::Error::Damaged(why)) => because(why),
        Err(error @ metadata::Error::WrongKey) => because(&error.to_string()),
        Err(error) => Err(below(error)),
    }
}

/// Cuts the database to its pages.
fn cut(folder: &Folder, keys: &Replica) -> Result<()> {
    Store::cut_to_pages(folder.path(), keys.metadata_key().bytes(), to_mend(keys))
        .map_err(|error| strongroom_filesystem::Error::from(error).into())
}

/// What is said of the intent log of the old database, which the new one cannot take in: it goes out of the way when that takes its place.
fn intents_given_up(folder: &Folder, trial: Trial) -> Option<FileProblem> {
    if !folder.has(INTENT_LOG) {
        return None;
    }
    let lost = "this log has changes that were synced just before the vault stopped. Only the old database could replay it, so the rebuilt vault";
    let what = match trial {
        Trial::OnlyLook => format!("{lost} would not have these changes; the log would be kept"),
        Trial::ForReal => {
            let kept = INTENTS_UNREADABLE;
            format!("{lost} does not have these changes; the log is kept as `{kept}`")
        }
    };
    Some(FileProblem {
        file: INTENT_LOG.to_owned(),
        what,
        is_damage: true,
    })
}

/// Notes in a sound database that the newest record, which added a device, was made here.
fn note_device(folder: &Folder, keyring: &Keyring, keys: &Replica) -> Result<()> {
    let store = Store::open(folder.path(), keys.metadata_key().bytes(), to_mend(keys))
        .map_err(strongroom_filesystem::Error::from)?;
    known_records::about_to_make(&store, keyring)?;
    known_records::see(&store, keyring, Access::ReadWrite).map(drop)
}

fn rebuild(
    folder: &Folder,
    keyring: &Keyring,
    keys: &Replica,
    (trial, source): (Trial, Source<'_>),
    report: &mut RecoverReport,
    told: &mut dyn FnMut(RecoverProgress),
) -> Result<()> {
    let sealer = keyring.block_sealer();
    let segments = open_segments(folder, keyring.suite())?;
    let epochs: Vec<Epoch> = keyring.epochs().collect();
    let mut inventory = Inventory::take(&segments, &sealer, &epochs, &mut |bytes, total| {
        told(RecoverProgress::Segments(bytes, total));
    })?;
    let is_clone = matches!(source, Source::Remote(_));
    let unnamed = match source {
        Source::Folder => Unnamed::LostAndFound,
        Source::Remote(left) => {
            left.iter().for_each(|outline| inventory.add_away(outline));
            Unnamed::LeftOut
        }
    };
    let (revisions, lost) = revisions(folder, keyring)?;
    let making = switch::begin(folder)?;
    let options = metadata::Options {
        reserve_bytes: 0,
        ..metadata::Options::default()
    };
    let key = keys.metadata_key().bytes();
    let held = making.hold().map_err(below("making a new database"))?;
    let place = held.reach().unwrap_or_else(|| making.place());
    let store = Store::create(&place, key, options).map_err(strongroom_filesystem::Error::from)?;
    let blocks = FoundBlocks {
        store: &segments,
        sealer: &sealer,
        inventory: &inventory,
    };
    let random: &dyn Random = &SystemRandom;
    let rebuilt = Rebuilding {
        store: &store,
        blocks: &blocks,
        random,
        epoch: sealer.epoch(),
        unnamed,
        now: now(),
        owner: (
            rustix::process::geteuid().as_raw(),
            rustix::process::getegid().as_raw(),
        ),
        told: &mut |nodes| told(RecoverProgress::Nodes(nodes)),
    }
    .run(revisions)?;
    known_records::see(&store, keyring, Access::ReadWrite)?;
    keep_every_snapshot(&store, is_clone).map_err(strongroom_filesystem::Error::from)?;
    store.finish().map_err(strongroom_filesystem::Error::from)?;
    report.files.extend(intents_given_up(folder, trial));
    let aside = match trial {
        Trial::ForReal => switch::commit(folder, &making)?,
        Trial::OnlyLook => {
            switch::abandon(folder)?;
            None
        }
    };
    report.database = Brought::Rebuilt(aside);
    report.files.extend(inventory.problems);
    report.lost_revisions = lost;
    fill(report, rebuilt);
    Ok(())
}

/// The rule for snapshots was in the database that is lost, or is in that of another device: until one is set, nothing goes. On a new
/// device a shared one counts.                                                                    [6.10.4] [6.10.7]
fn keep_every_snapshot(store: &Store, is_clone: bool) -> metadata::Result<()> {
    let mut writer = store.lock();
    writer.put_setting(RETENTION, &Retention::EVERYTHING.encode())?;
    if is_clone {
        writer.put_setting(FOLLOWS, &[1])?;
    }
    writer.commit().map(drop)
}

fn fill(report: &mut RecoverReport, rebuilt: Rebuilt) {
    let rootless = rebuilt.rootless.iter().map(ToString::to_string);
    report.lost_revisions.extend(rootless);
    report.revision = rebuilt.newest.map(|newest| RevisionInfo::from(&newest));
    report.revisions = rebuilt.revisions;
    report.nodes = rebuilt.nodes;
    report.bytes = rebuilt.bytes;
    report.damages = rebuilt.damages;
    report.damages.sort_by(|one, next| one.path.cmp(&next.path));
    report.missing_blocks = rebuilt.missing;
    report.unlisted = rebuilt.unlisted;
    report.unnamed = rebuilt.unnamed;
}

pub(crate) fn open_segments(folder: &Folder, suite: SuiteId) -> Result<SegmentStore> {
    let options = StoreOptions {
        access: match folder.has(SEGMENTS) {
            true => SegmentAccess::ReadOnly,
            // A vault needs the folder, even if nothing is left in it.
            false => SegmentAccess::ReadWrite,
        },
        ..StoreOptions::new(suite)
    };
    let held = folder.hold().map_err(below("opening the vault folder"))?;
    SegmentStore::open_in(&held, SEGMENTS, options)
        .map_err(|error| strongroom_filesystem::Error::from(error).into())
}

/// The revisions whose records can be read, oldest first; and the names of the records that cannot.
fn revisions(folder: &Folder, keyring: &Keyring) -> Result<(Vec<Revision>, Vec<String>)> {
    let (sealer, signer) = (keyring.block_sealer(), keyring.revision_signer());
    let mut found: BTreeMap<RevisionId, Revision> = BTreeMap::new();
    let mut unread = Vec::new();
    for (name, bytes) in record_files(folder)? {
        let Some((id, epoch)) = record_name(&name) else {
            continue;
        };
        let opened = bytes.and_then(|bytes| open_revision(&sealer, Epoch(epoch), &bytes));
        let revision = opened.and_then(|clear| Revision::decode(&clear, &signer).ok());
        match revision.filter(|revision| revision.id.to_string() == id) {
            Some(revision) => drop(found.insert(revision.id, revision)),
            None => unread.push((id.to_owned(), format!("{REVISIONS}/{name}"))),
        }
    }
    // A record may be there twice, sealed under two epochs.
    let known = |id: &str| found.keys().any(|known| known.to_string() == id);
    let lost = unread
        .iter()
        .filter(|(id, _)| !known(id))
        .map(|(_, file)| file.clone())
        .collect();
    let mut all: Vec<Revision> = found.into_values().collect();
    all.sort_by_key(|revision| (revision.body.sequence, revision.body.time, revision.id));
    Ok((all, lost))
}

fn now() -> Timestamp {
    let nanoseconds = now_s().saturating_mul(1_000_000_000);
    Timestamp(i64::try_from(nanoseconds).unwrap_or(i64::MAX))
}
