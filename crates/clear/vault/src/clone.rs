//! Makes a vault out of what a remote has, as a new device of it.
//!
//! Takes   the address of a remote, an empty folder, and a secret that opens the vault
//! Gives   a vault with everything that the last push named, snapshots too
//! Never   believes the remote: header, publications, records and segments prove themselves; touches a folder that holds anything
//! Spec    spec/11-sync.md, 11.5
//!
//! Invariants
//!  (1) Until the last step the folder is marked as unfinished and is no vault; a clone that was cut off goes on where it stopped.
//!  (2) Nothing is downloaded before the header proved to be of the vault that is meant.

use std::collections::HashSet;
use std::path::Path;

use strongroom_crypto::{Keyring, NewDeviceKeys, Secret, SystemRandom, unlock};
use strongroom_filesystem::DurableState;
use strongroom_folder::Folder as HeldFolder;
use strongroom_format::hex;
use strongroom_format::publication::{Publication, PublishedRevision};
use strongroom_metadata::{Options, Remote as RemoteRow, Store};
use strongroom_remote::{Address, Limited, ObjectName, Pace, Rates, Remote};
use strongroom_sync::limits::{REVISION_OBJECT_BYTES_MAX, SEGMENT_OBJECT_BYTES_MAX};
use strongroom_sync::{
    Live, Marker, RemoteState, in_parallel, object_hash, revision_name, segment_name,
};

use crate::create::{claim_for, leave_empty};
use crate::execute::published::put_published;
use crate::folder::switch;
use crate::folder::{CLONE_MARK, Folder, HEADER, REPLICA, REVISIONS, SEGMENTS, UNFINISHED, below};
use crate::newest_state::{Log, Opener, State, newest_state};
use crate::recovery::rebuild::Unnamed;
use crate::recovery::recover::{Rebuild, RecoverOptions, RecoverProgress, Trial, recover_from};
use crate::recovery::report::RecoverReport;
use crate::remotes::{RemoteProgress, go_on};
use crate::request::Access;
use crate::request::history::RevisionInfo;
use crate::seen::{self, Sight, Trust, Watch};
use crate::{Error, GoOn, Result};

/// What the remote that a vault was cloned from is called.
pub const CLONED_FROM: &str = "origin";

/// How a vault is cloned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CloneOptions {
    /// What the vault must be.
    pub trust: Trust,
    /// How fast it may come down.
    pub rates: Rates,
}

/// How far a clone is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloneProgress {
    /// Objects come down.
    Down(RemoteProgress),
    /// The database is made from them.
    Made(RecoverProgress),
}

/// What a clone brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloneReport {
    /// What tells this vault from any other.
    pub fingerprint: String,
    /// Objects that came down now, and their bytes; those of an earlier attempt are not counted.
    pub objects: u64,
    /// See `objects`.
    pub bytes: u64,
    /// What the database was made of.
    pub made: RecoverReport,
}

/// The device that another one let in, and the state in which it did.
#[derive(Clone, Copy)]
pub(crate) struct LetIn<'a> {
    pub(crate) keys: &'a NewDeviceKeys,
    /// The generation of its header.
    pub(crate) generation: u64,
    /// The newest publication then.
    pub(crate) publication: u64,
}

/// Makes a vault in `folder`, which must not exist or be empty, out of the remote at `address`. The remote is called `origin` there.
///
/// Interrupted at any moment, the same call goes on.
///
/// # Errors
/// `Remote`, `RemoteUntrue`; `WrongSecret`; `FolderNotEmpty`, `AlreadyAVault`; `RemoteStopped`; those of `recover`.
pub fn clone(
    address: &str,
    folder: impl AsRef<Path>,
    secret: &Secret,
    options: CloneOptions,
    told: &mut dyn FnMut(CloneProgress) -> GoOn,
) -> Result<CloneReport> {
    clone_as(address, folder.as_ref(), secret, None, &options, told)
}

/// The same as a device that was let in; without one, as a device that the slot of the secret adds.
pub(crate) fn clone_as(
    address: &str,
    folder: &Path,
    secret: &Secret,
    let_in: Option<LetIn<'_>>,
    options: &CloneOptions,
    told: &mut dyn FnMut(CloneProgress) -> GoOn,
) -> Result<CloneReport> {
    let place = Address::parse(address)?;
    let remote = Limited::new(place.open()?, Pace::new(options.rates));
    let remote: &dyn Remote = &remote;
    let marker = Marker::read(remote)?.ok_or(strongroom_sync::Error::NoVault)?;
    let folder = Folder::new(folder);
    let made_folder = folder.make()?;
    let folder = folder.absolute()?;
    let mark = [CLONE_MARK, hex::encode(&marker.remote.0).as_bytes(), b"\n"].concat();
    let was_begun = folder.has(UNFINISHED);
    let lock = claim_for(&folder, &mark)?;
    // What an earlier attempt made of an earlier state.
    switch::start_over(&folder)?;
    let mut opener = let_in.map_or(Opener::Secret(secret), |let_in| Opener::LetIn(let_in.keys));
    let mut found = newest_state(remote, &opener, &marker);
    if let Err(Error::WrongSecret(_) | Error::PassphraseWithheld(_)) = &found
        && let Some(known) = left_here(&folder, secret)
    {
        opener = Opener::Known(Box::new(known));
        found = newest_state(remote, &opener, &marker);
    }
    let (header, keyring, log) = match check_let_in(found, let_in) {
        Ok(found) => found,
        Err(error) => {
            // What came down earlier stays, for the next attempt; else the folder is as it was.
            if !was_begun {
                leave_empty(&folder, made_folder);
            }
            return Err(error);
        }
    };
    seen::begin_new(&folder, &options.trust)?;
    // (2)
    Watch::begin(&folder, &keyring, Access::ReadOnly, &options.trust)?.check_head(&keyring)?;
    if let_in.is_some() {
        write_let_in(&folder, &keyring)?;
    }
    let (objects, bytes) = download(remote, &folder, &log.joined, told)?;
    remove_strangers(&folder, &log.joined)?;
    let wanted = log.header_for_folder(remote, &opener, (&header, &keyring))?;
    folder.replace(HEADER, &wanted)?;
    let recovering = RecoverOptions {
        rebuild: Rebuild::IfLost,
        trust: options.trust.clone(),
    };
    let made = recover_from(
        &folder,
        secret,
        &recovering,
        (Trial::ForReal, Unnamed::LeftOut),
        &mut |progress| {
            // It cannot be stopped here: it takes seconds, and the next attempt would do it again.
            let _ = told(CloneProgress::Made(progress));
        },
    )?;
    let is_head = |one: &RevisionInfo| one.id.0 == log.last.body.head;
    if made.is_whole() && made.revision.as_ref().is_some_and(|one| !is_head(one)) {
        let why = "its newest snapshot is not the one that was published last";
        return Err(Error::RemoteUntrue(why.to_owned()));
    }
    note_remote(&folder, secret, &options.trust, address, &log)?;
    folder.remove_if_there(UNFINISHED)?; // (1)
    folder.sync()?;
    drop(lock);
    Ok(CloneReport {
        fingerprint: strongroom_crypto::Fingerprint::of(marker.vault).to_string(),
        objects,
        bytes,
        made,
    })
}

/// Gives the state if a device that was let in is a member in it, and it is not older than what it was let into.    [11.7.9]
fn check_let_in(found: Result<State>, let_in: Option<LetIn<'_>>) -> Result<State> {
    let Some(let_in) = let_in else {
        return found;
    };
    let is_older = match &found {
        Ok((_, keyring, log)) => {
            keyring.generation() < let_in.generation || log.newest < let_in.publication
        }
        // This device is a member in no header that the remote shows.
        Err(Error::Damaged { what: REPLICA, .. }) => true,
        // It has nothing at all.
        Err(Error::Remote(strongroom_sync::Error::Empty | strongroom_sync::Error::OtherVault)) => {
            true
        }
        Err(_) => false,
    };
    match is_older {
        false => found,
        true => {
            let why = "it shows an older state than the one in which this device was let in";
            Err(Error::RemoteUntrue(why.to_owned()))
        }
    }
}

/// Writes header and replica file of a device that was let in: an attempt that goes on finds them, opens the header with the secret of
/// this device, also if that is a passphrase, and adds no other device.
fn write_let_in(folder: &Folder, keyring: &Keyring) -> Result<()> {
    folder.replace(HEADER, &keyring.header_bytes()?)?;
    let replica = keyring.new_replica(&SystemRandom)?;
    folder.replace(REPLICA, &keyring.seal_replica(&replica, &SystemRandom)?)
}

/// The keys of the header that an earlier attempt left, if the secret opens it.
fn left_here(folder: &Folder, secret: &Secret) -> Option<Keyring> {
    unlock(&folder.header().ok()?, secret, None).ok()
}

/// One object to come down: its name, hash, greatest length, and where it goes.
struct Wanted {
    object: ObjectName,
    hash: [u8; 32],
    bytes_max: u64,
    /// `segments` or `revisions`, the folder in it, and the name.
    to: (&'static str, Option<String>, String),
}

/// Brings down what is live and not here yet; gives objects and bytes.
fn download(
    remote: &dyn Remote,
    folder: &Folder,
    live: &Live,
    told: &mut dyn FnMut(CloneProgress) -> GoOn,
) -> Result<(u64, u64)> {
    let failed = || below("writing what comes from the remote");
    let mut wanted = Vec::new();
    let mut progress = RemoteProgress::default();
    for segment in live.segments.values() {
        let id = hex::encode(&segment.id.0);
        progress.bytes_total += segment.len;
        wanted.push(Wanted {
            object: segment_name(&segment.hash),
            hash: segment.hash,
            bytes_max: segment.len.min(SEGMENT_OBJECT_BYTES_MAX),
            to: (SEGMENTS, Some(id[..2].to_owned()), id),
        });
    }
    for revision in live.revisions.values() {
        let id = hex::encode(&revision.id);
        wanted.push(Wanted {
            object: revision_name(&revision.id, revision.epoch, &revision.hash),
            hash: revision.hash,
            bytes_max: REVISION_OBJECT_BYTES_MAX,
            to: (REVISIONS, None, format!("{id}.{}", revision.epoch.0)),
        });
    }
    let held = folder.hold().map_err(failed())?;
    for kind in [SEGMENTS, REVISIONS] {
        held.make_folder(kind).map_err(failed())?;
    }
    held.sync().map_err(failed())?;
    let (mut objects, mut bytes) = (0, 0);
    in_parallel(
        wanted.into_iter(),
        remote.transfers(),
        |one| -> Result<(bool, u64)> {
            let (kind, below_it, name) = &one.to;
            let into = held.folder(kind).map_err(failed())?;
            let into = match below_it {
                Some(below_it) => made(&into, below_it).map_err(failed())?,
                None => into,
            };
            // What an earlier attempt brought is read and compared, not fetched.
            if let Ok(Some(there)) = into.read(name, one.bytes_max)
                && object_hash(&there) == one.hash
            {
                return Ok((false, there.len() as u64));
            }
            let found = remote.read(&one.object, one.bytes_max)?;
            let found = found.ok_or_else(|| strongroom_sync::Error::Missing {
                object: one.object.to_string(),
            })?;
            if object_hash(&found) != one.hash {
                return Err(Error::from(strongroom_sync::Error::Damaged {
                    object: one.object.to_string(),
                    why: "its bytes are others than were pushed",
                }));
            }
            into.replace(name, &found).map_err(failed())?;
            Ok((true, found.len() as u64))
        },
        &mut |(is_new, len): (bool, u64)| {
            progress.bytes = (progress.bytes + len).min(progress.bytes_total);
            objects += u64::from(is_new);
            bytes += if is_new { len } else { 0 };
            go_on(told(CloneProgress::Down(progress)))
        },
    )?;
    Ok((objects, bytes))
}

/// Removes what an earlier attempt brought down and nobody publishes any more: it would come back to all.
fn remove_strangers(folder: &Folder, live: &Live) -> Result<()> {
    let failed = || below("removing what an earlier attempt left");
    let held = folder.hold().map_err(failed())?;
    let named = live.segments.values().map(|one| hex::encode(&one.id.0));
    let named: HashSet<String> = named.collect();
    let segments = held.folder(SEGMENTS).map_err(failed())?;
    for entry in segments.list().map_err(failed())? {
        let Ok(below_it) = segments.folder(&entry.name) else {
            continue;
        };
        for file in below_it.list().map_err(failed())? {
            if !named.contains(&file.name) {
                below_it.remove(&file.name).map_err(failed())?;
            }
        }
        below_it.sync().map_err(failed())?;
    }
    let record = |one: &PublishedRevision| format!("{}.{}", hex::encode(&one.id), one.epoch.0);
    let named: HashSet<String> = live.revisions.values().map(record).collect();
    let records = held.folder(REVISIONS).map_err(failed())?;
    for file in records.list().map_err(failed())? {
        if !named.contains(&file.name) {
            records.remove(&file.name).map_err(failed())?;
        }
    }
    records.sync().map_err(failed())
}

/// The folder of that name in `held`, made if it is missing.
fn made(held: &HeldFolder, name: &str) -> strongroom_folder::Result<HeldFolder> {
    if held.make_folder(name)? {
        held.sync()?;
    }
    held.folder(name)
}

/// Notes in the new database where the vault came from, and what is there.
fn note_remote(
    folder: &Folder,
    secret: &Secret,
    trust: &Trust,
    address: &str,
    log: &Log,
) -> Result<()> {
    let files = crate::keyring::own_replica::Files::read(folder)?;
    let mut keyring = files.unlock(secret)?;
    let replica = files.replica_of(&mut keyring)?;
    let store = Store::open(
        folder.path(),
        replica.metadata_key().bytes(),
        Options::default(),
    )
    .map_err(strongroom_filesystem::Error::from)?;
    let Publication {
        base, header, head, ..
    } = &log.last.body;
    let state = RemoteState {
        last: (log.last.body.number, log.last.id),
        base: *base,
        header: header.1,
        head: *head,
        joined: log.joined_up_to,
        ..RemoteState::new(address.to_owned())
    };
    let row = RemoteRow {
        number: 0,
        name: CLONED_FROM.to_owned(),
        id: log.last.body.remote.0,
        state: state.encode(),
    };
    let mut writer = store.lock();
    let noted = writer.put_remote(&row).and_then(|number| {
        for signed in &log.publications {
            let live = Publication {
                segments: signed
                    .body
                    .segments
                    .iter()
                    .filter(|one| log.live.segments.contains_key(&one.hash))
                    .copied()
                    .collect(),
                revisions: signed
                    .body
                    .revisions
                    .iter()
                    .filter(|one| log.live.revisions.contains_key(&one.hash))
                    .copied()
                    .collect(),
                ..signed.body.clone()
            };
            put_published(&mut writer, number, &live)?;
        }
        writer.commit()
    });
    noted.map_err(strongroom_filesystem::Error::from)?;
    let commits = writer.commits();
    drop(writer);
    // It is known from now on, and no copy of a vault that stands beside it.
    let durable = commits.ok().map(|commits| DurableState {
        commits,
        root: None,
    });
    Sight::of_new(folder, &keyring, replica.instance(), durable, trust)?;
    store.finish().map_err(strongroom_filesystem::Error::from)?;
    Ok(())
}
