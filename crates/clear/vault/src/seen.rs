//! Records, outside of every vault folder, the last state that was seen of each vault. So nobody who can write to a vault folder
//! can replace it unnoticed with an older state or a look-alike.
//!
//! Takes   an unlocked vault, and a folder of this user
//! Gives   permission to continue, or the reason against it; a record of what was seen
//! Never   writes into a vault folder, delays a sync, or records a state that a power cut could undo
//! Spec    spec/9-seen.md
//!
//! A record that cannot be read counts as missing, with a warning. Whoever can only write to the vault folder cannot have
//! spoiled the record: the disk did, or another version of Strongroom. Refusing would lock people out of a sound vault because of a file that
//! is not part of it. Without the record the vault is treated as seen for the first time. With an age or SSH key the fingerprint
//! must then be compared again.
//!
//! Invariants
//!  (1) What is recorded was already durable in the folder, so no power cut makes a sound folder look older.  [9.2.4]
//!  (2) A record is not replaced by an older one unless the user orders it: the two are compared under the lock.  [9.2.5]
//!  (3) Nothing of a vault is used before it is known to be the intended vault, and not an older state of it.  [9.3]

mod known;
mod place;
mod record;
mod shelf;
mod words;

use std::path::PathBuf;

use strongroom_crypto::{Fingerprint, Keyring, Random, Replica, SystemRandom};
use strongroom_filesystem::DurableState;
use strongroom_format::InstanceId;
use strongroom_metadata::{DATABASE_FILE, Store};

use crate::clock::now_s;
use crate::folder::{Folder, REPLICA};
use crate::keyring::copied;
use crate::keyring::unlocked::Unlocked;
use crate::older_folder::How;
use crate::request::Access;
use crate::{Error, Result};

pub use known::{LastSeen, SeenPlace, forget, last_seen};
use known::{Note, Records};
use place::{Here, Identity, Known, Place, State, Verdict, judge};

/// Where it is remembered what was last seen of each vault.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SeenRecords {
    /// `strongroom/vaults` in `$XDG_STATE_HOME`, by default `~/.local/state`.
    #[default]
    OfUser,
    /// A folder that is made when it is missing; the program's own, not below a vault.
    In(PathBuf),
    /// Nowhere: each vault is met for the first time, and an older one is not noticed.
    Nowhere,
}

impl SeenRecords {
    /// The folder; `None` if nothing is to be remembered, or this user has no home.
    fn folder(&self) -> Option<PathBuf> {
        match self {
            Self::OfUser => shelf::of_user(),
            Self::In(folder) => Some(folder.clone()),
            Self::Nowhere => None,
        }
    }
}

/// What is done about a vault that is older than what was seen of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IfOlder {
    /// It is refused.
    #[default]
    Refuse,
    /// It is taken for what the user put back: it gets a name of its own, and counts from now on.
    Accept,
}

/// What a vault must be before anything of it is used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// What it is compared with, and where what is seen is kept.
    pub seen: SeenRecords,
    /// The only vault that may be meant. It then needs no question when it is new to this user or to this path.
    pub expected_fingerprint: Option<Fingerprint>,
    /// Whether an older state may be put back.
    pub older: IfOlder,
}

/// A vault that is being opened, and what was seen of it before.
pub(crate) struct Watch {
    records: Records,
    path: PathBuf,
    identity: Identity,
    access: Access,
    older: IfOlder,
    found: Option<Found>,
}

/// What `judge` came to.
struct Found {
    state: State,
    /// Whether no power cut takes that state back.
    is_durable: bool,
    copy_of: Option<PathBuf>,
    needs_name: bool,
    note: Note,
}

impl Watch {
    /// Of the vault in `folder`, whose secret was right: refuses a look-alike.                                 (3)
    ///
    /// # Errors
    /// `OtherVault`, `PathOfAnother`, `UnknownVault`.
    pub(crate) fn begin(
        folder: &Folder,
        keyring: &Keyring,
        access: Access,
        trust: &Trust,
    ) -> Result<Self> {
        let watch = Self {
            records: Records::load(&trust.seen, keyring.vault_id()),
            path: folder.canonical()?,
            identity: folder.identity()?,
            access,
            older: trust.older,
            found: None,
        };
        watch
            .records
            .check_path(&watch.path, keyring.fingerprint(), trust)?;
        let is_unknown = watch.records.places().is_empty() && trust.expected_fingerprint.is_none();
        if is_unknown && keyring.needs_fingerprint_check() {
            let fingerprint = keyring.fingerprint();
            return Err(Error::UnknownVault { fingerprint });
        }
        Ok(watch)
    }

    /// Refuses a header that does not go on from the newest record that was seen of the vault, wherever that was. For who must
    /// do without the metadata: a recovery would take the header, with its members, for the vault's.
    ///
    /// # Errors
    /// `OlderFolder`.
    pub(crate) fn check_head(&self, keyring: &Keyring) -> Result<()> {
        let states = self
            .records
            .places()
            .iter()
            .filter_map(|place| Some((place, place.state?)));
        let mut ahead = states.filter(|(_, seen)| !keyring.has_record(seen.head));
        match ahead.next() {
            Some((place, seen)) if self.older == IfOlder::Refuse => {
                let state = state_of(keyring, seen.commits, None);
                let older = words::older(How::Keys, place, state);
                Err(Error::OlderFolder(Box::new(older)))
            }
            _ => Ok(()),
        }
    }

    /// Compares the vault, whose metadata is open and was not written to, with what was seen.                  (3)
    ///
    /// # Errors
    /// `OlderFolder`.
    pub(crate) fn judge(
        &mut self,
        folder: &Folder,
        keyring: &Keyring,
        replica: &Replica,
        store: &Store,
    ) -> Result<()> {
        // Without changes it gives the count of the last one.
        let commits = store.lock().commit()?;
        let state = state_of(keyring, commits, store.root());
        let here = Here {
            path: self.path.clone(),
            identity: self.identity,
            instance: replica.instance(),
            state,
            has_record: &|id| keyring.has_record(id),
        };
        let known: Vec<Known<'_>> = self.records.places().iter().map(stands).collect();
        let verdict = judge(&known, &here);
        let is_named_alike =
            |place: &Place| place.identity != self.identity && place.instance == replica.instance();
        let recorded = self.records.at(&self.path, self.identity, here.instance);
        let mut found = Found {
            state,
            is_durable: self.access == Access::ReadWrite || is_durable(folder),
            copy_of: recorded.and_then(|place| place.copy_of.clone()),
            needs_name: recorded.is_some_and(|place| place.copy_of.is_some())
                && self.records.places().iter().any(is_named_alike),
            note: Note::Newer,
        };
        match verdict {
            Verdict::First | Verdict::Known => {}
            Verdict::Copy(of) => {
                words::tell_copy(&of);
                found.copy_of = Some(of);
                found.needs_name = true;
            }
            Verdict::Behind(index, how) => {
                let seen = &self.records.places()[index];
                let older = words::older(how, seen, state);
                if self.older == IfOlder::Refuse {
                    return Err(Error::OlderFolder(Box::new(older)));
                }
                log::warn!("an older state of the vault is accepted: {}", older.facts());
                found.needs_name = true;
                found.note = Note::Replace;
            }
        }
        self.found = Some(found);
        Ok(())
    }

    /// Whether the folder is, or the user says that it is, an older state or a copy.
    pub(crate) fn may_be_copy(&self) -> bool {
        self.older == IfOlder::Accept || self.found.as_ref().is_some_and(|found| found.needs_name)
    }

    /// Gives a copy, or a state that was put back, a name of its own, durably; its device is one that another copy may have. [9.4.2]
    pub(crate) fn name_anew(
        &self,
        folder: &Folder,
        unlocked: &mut Unlocked,
        store: &Store,
    ) -> Result<()> {
        let Some(found) = &self.found else {
            return Ok(());
        };
        if self.access == Access::ReadOnly {
            return Ok(());
        }
        let instance = unlocked.replica.instance();
        let recorded = self.records.at(&self.path, self.identity, instance);
        let header = |seen: &State| (seen.head, seen.generation);
        let recorded = recorded.and_then(|place| place.state);
        if recorded.as_ref().map(header) != Some(header(&found.state)) {
            // Whoever changed the keys may have died before the name of the header was durable.               (1)
            folder.sync()?;
        }
        if !found.needs_name {
            return Ok(());
        }
        let mut random = [0; 16];
        SystemRandom.fill(&mut random)?;
        let mut transaction = store.lock();
        copied::need_under_other_names(&mut transaction, random)?;
        transaction.commit()?;
        drop(transaction);
        store.sync_log()?;
        copied::mark(store, unlocked.replica.device())?;
        let replica = unlocked.replica.clone().with_new_instance(&SystemRandom)?;
        let sealed = unlocked.keyring.seal_replica(&replica, &SystemRandom)?;
        folder.replace(REPLICA, &sealed)?;
        unlocked.replica = replica;
        Ok(())
    }

    /// Records what was found where the record says something else, and goes on recording.
    pub(crate) fn sight(self, instance: InstanceId) -> Sight {
        let place = Place {
            path: self.path,
            identity: self.identity,
            instance,
            state: None,
            copy_of: None,
            seen_s: now_s(),
        };
        let Some(found) = self.found else {
            return Sight::new(self.records, place, None);
        };
        // Read only, an older state that was accepted is accepted for this time.
        let note = match self.access {
            Access::ReadOnly => Note::Newer,
            Access::ReadWrite => found.note,
        };
        let place = Place {
            state: Some(found.state).filter(|_| found.is_durable),
            copy_of: found.copy_of,
            ..place
        };
        let is_reader = self.access == Access::ReadOnly;
        let recorded = self.records.at(&place.path, place.identity, place.instance);
        let is_recorded = recorded.is_some_and(|recorded| {
            recorded.path == place.path
                && recorded.identity == place.identity
                && recorded.instance == place.instance
                && (!is_reader || recorded.state == place.state || place.state.is_none())
        });
        let is_news = !is_recorded || note == Note::Replace;
        let is_for_once = is_reader && found.note == Note::Replace;
        let sight = Sight::new(
            self.records,
            place,
            Some(found.state).filter(|_| !is_reader),
        );
        if is_news && !is_for_once {
            sight.note_as(note);
        }
        sight
    }
}

/// An open vault, and how it is recorded.
pub(crate) struct Sight {
    records: Records,
    place: parking_lot::Mutex<Place>,
    /// What the folder held when it was opened; `None` if it is not recorded any further: a reader sees no more than that.
    opened: Option<State>,
}

impl Sight {
    fn new(records: Records, place: Place, opened: Option<State>) -> Self {
        Self {
            records,
            place: parking_lot::Mutex::new(place),
            opened,
        }
    }

    /// Of a vault that was just made in `folder`: it is known from now on, and no other one at this path.      [9.5.3]
    pub(crate) fn of_new(
        folder: &Folder,
        keyring: &Keyring,
        instance: InstanceId,
        durable: Option<DurableState>,
        trust: &Trust,
    ) -> Result<Self> {
        let durable = durable.map(|durable| state_of(keyring, durable.commits, durable.root));
        let place = Place {
            path: folder.canonical()?,
            identity: folder.identity()?,
            instance,
            state: durable,
            copy_of: None,
            seen_s: now_s(),
        };
        let records = Records::load(&trust.seen, keyring.vault_id());
        let sight = Self::new(records, place, durable);
        sight.note_as(Note::Replace);
        Ok(sight)
    }

    /// Whether anything is recorded.
    pub(crate) fn keeps(&self) -> bool {
        self.records.folder().is_some() && self.opened.is_some()
    }

    /// Records how far the folder is durable now, if that is further than before.                              (1)
    pub(crate) fn note(&self, keyring: &Keyring, durable: Option<DurableState>) {
        let Some(opened) = self.opened else { return };
        let (commits, root) = durable.map_or((opened.commits, opened.root), |durable| {
            (durable.commits, durable.root)
        });
        let state = state_of(keyring, commits, root);
        {
            let mut place = self.place.lock();
            if place.state == Some(state) && now_s() < place.seen_s.saturating_add(TIME_GRAIN_S) {
                return;
            }
            place.state = Some(state);
            place.seen_s = now_s();
        }
        self.note_as(Note::Newer);
    }

    fn note_as(&self, note: Note) {
        let place = self.place.lock().clone();
        if let Err(error) = self.records.note(place, note) {
            log::debug!("the seen state of the vault could not be recorded: {error}");
        }
    }
}

/// A record that differs only in its time is written again after this long, in seconds.
const TIME_GRAIN_S: u64 = 3600;

fn state_of(keyring: &Keyring, commits: u64, root: Option<[u8; 32]>) -> State {
    State {
        head: keyring.newest_change(),
        epoch: keyring.epoch().0,
        generation: keyring.generation(),
        commits,
        root,
    }
}

/// Whether what a reader finds in `folder` is durable: a log may be in memory only, a header in a folder that is not synced.
fn is_durable(folder: &Folder) -> bool {
    let log = format!("{DATABASE_FILE}-wal");
    let len = folder.hold().and_then(|held| held.check_file(&log));
    len.is_ok_and(|len| len.unwrap_or(0) == 0) && folder.sync().is_ok()
}

/// What a recorded place is now.
fn stands(place: &Place) -> Known<'_> {
    let is_there = Folder::new(&place.path).identity();
    Known {
        place,
        stands: is_there.is_ok_and(|identity| identity == place.identity),
    }
}

/// Before a process that has the vault open is asked for anything: whether its vault is the one that is meant.    [9.5.5]
pub(crate) fn check_owned(folder: &Folder, fingerprint: &str, trust: &Trust) -> Result<()> {
    let fingerprint = Fingerprint::parse(fingerprint)
        .ok_or(Error::Protocol("a fingerprint of another version"))?;
    known::check_path_of(folder, fingerprint, trust)
}

/// Before the database of a vault is rebuilt by order of the user: its count of commits begins again.          [9.4.4]
pub(crate) fn expect_rebuilt(folder: &Folder, keyring: &Keyring, trust: &Trust) -> Result<()> {
    let records = Records::load(&trust.seen, keyring.vault_id());
    let noted = records.forget_state(&folder.canonical()?, folder.identity()?);
    noted.map_err(Error::io("recording that the vault is rebuilt"))
}

/// Before a vault is made in `folder`, which holds none: whatever was seen at its path is no more.                [9.5.3]
pub(crate) fn begin_new(folder: &Folder, trust: &Trust) -> Result<()> {
    let path = folder.canonical()?;
    if let Some(Err(error)) = trust
        .seen
        .folder()
        .map(|kept| known::forget_path(&kept, &path))
    {
        log::debug!("the records of other vaults stay as they are: {error}");
    }
    Ok(())
}
