//! The owner's part of a backup: keeps all segments meanwhile, and copies the database of one moment to the backup.
//!
//! Takes   the session of a process that copies the vault folder
//! Gives   the database, the replica file and the records of revisions, all of one moment
//! Never   changes files of the earlier backup, except that it removes records that the vault no longer has
//! Spec    spec/10-folder.md, 10.4

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use strongroom_filesystem::KeptSegments;
use strongroom_format::{Header, ReplicaFile};
use strongroom_metadata::{Copying, DATABASE_FILE, ERASED_SEGMENT, Options, Store};

use crate::execute::session::Session;
use crate::folder::switch;
use crate::folder::{BACKUP, Folder, REPLICA, REVISIONS, below};
use crate::keyring::held_keys::HeldKeys;
use crate::keyring::metadata_key;
use crate::limits::SEGMENTS_PAGE;
use crate::records::record_name;
use crate::request::frame::{ByteBuffer, Bytes};
use crate::request::{BackupRequest, Response};
use crate::{Error, Result};

/// What the owner keeps for somebody who makes a backup.
pub(crate) struct Backup {
    _segments: KeptSegments,
    /// What the mark of the backup says at the end: the count of commits that it is of.
    commits: u64,
    /// The records of the revisions that the copied database knows.
    records: BTreeSet<String>,
    /// The segments that the copied database needs, by their ids, and the bytes that each has at least.
    needed: Vec<([u8; 16], u64)>,
}

/// Carries out what a backup asks of the owner.
pub(crate) fn execute(session: &Session, request: &BackupRequest<'_>) -> Result<Response> {
    let folder = |path: &Bytes<'_>| Folder::new(Path::new(OsStr::from_bytes(path.0)));
    match request {
        BackupRequest::Database { target } => {
            // A backup that lacks content is none. Nothing goes while segments are kept.
            let away = session.filesystem().away()?;
            if away.bytes > 0 {
                return Err(Error::ContentAway {
                    bytes: away.bytes,
                    what: "only at remotes, so the backup would lack them".to_owned(),
                });
            }
            let target = folder(target);
            // No snapshot is taken or goes, and no key changes meanwhile: all is of one moment.
            let _turn = session.filesystem().hold_revisions();
            let put = session
                .vault
                .with_keys(|keys| put_database(session, keys, &target));
            put.map(|header| Response::Backup(header.map(ByteBuffer)))
        }
        BackupRequest::Needed { after } => {
            let backup = session.backup.lock();
            let needed = backup.iter().flat_map(|backup| &backup.needed);
            let behind = needed.filter(|(id, _)| after.is_none_or(|after| *id > after));
            Ok(Response::Needed(
                behind.take(SEGMENTS_PAGE).copied().collect(),
            ))
        }
        BackupRequest::End { renewed } => {
            let backup = session.backup.lock().take();
            if let (Some(renewed), Some(backup)) = (renewed, backup) {
                remove_records(&folder(renewed), &backup.records)?;
                let commits = backup.commits.to_string();
                folder(renewed).replace(BACKUP, commits.as_bytes())?;
            }
            Ok(().into())
        }
        BackupRequest::Begin => {
            *session.backup.lock() = Some(Backup {
                _segments: session.filesystem().keep_segments(),
                commits: 0,
                records: BTreeSet::new(),
                needed: Vec::new(),
            });
            Ok(().into())
        }
    }
}

/// Puts database and replica file where they wait, and the records of revisions into the backup; gives the header, or what is
/// in the way.
fn put_database(
    session: &Session,
    keys: &HeldKeys,
    target: &Folder,
) -> Result<std::result::Result<Vec<u8>, String>> {
    if let Some(why) = is_other_than_a_backup(session, keys, target)? {
        return Ok(Err(why));
    }
    let making = switch::begun(target);
    making.replace(REPLICA, &keys.folder().replica()?)?;
    let into = making.hold();
    let into = into.map_err(below("making the database of the backup"))?;
    let needed = needed_segments(session)?;
    session.filesystem().copy_database(&Copying {
        key: keys.replica().metadata_key().bytes(),
        into: &into,
        progress: &|done, pages| log::debug!("{done} of {pages} pages are in the backup"),
    })?;
    let records = put_records(session, target)?;
    if let Some(backup) = session.backup.lock().as_mut() {
        backup.records = records;
        backup.needed = needed;
        backup.commits = session.filesystem().engine().reader()?.commits()?;
    }
    Ok(Ok(keys.folder().header()?))
}

/// The segments with content that something refers to, and how far they are committed. While the database is copied they may grow, and
/// none becomes shorter.
fn needed_segments(session: &Session) -> Result<Vec<([u8; 16], u64)>> {
    let mut rows = session.filesystem().engine().reader()?.segments()?;
    rows.retain(|row| row.live_bytes > 0 && row.id != ERASED_SEGMENT);
    let mut needed: Vec<_> = rows
        .iter()
        .map(|row| (row.id.0, row.committed_len))
        .collect();
    needed.sort_unstable();
    Ok(needed)
}

/// Copies the records of revisions that are missing in the backup; gives the names of all.
fn put_records(session: &Session, target: &Folder) -> Result<BTreeSet<String>> {
    let there = target.inside(REVISIONS);
    let mut all = BTreeSet::new();
    for (name, bytes) in session.vault.records.files()? {
        // One that cannot be read is named by a verification of the vault; an earlier backup may have it.
        if let Some(bytes) = bytes {
            there.make()?;
            if there.read_file(&name)?.as_deref() != Some(&bytes[..]) {
                there.replace(&name, &bytes)?;
            }
        }
        all.insert(name);
    }
    Ok(all)
}

/// Removes the records of revisions that the backup has no more.
fn remove_records(backup: &Folder, records: &BTreeSet<String>) -> Result<()> {
    let failed = || below("removing from the backup files that the vault no longer has");
    let there = backup.inside(REVISIONS);
    for entry in there.list("listing the records of snapshots in the backup")? {
        if record_name(&entry.name).is_some() && !records.contains(&entry.name) {
            there.remove(&entry.name).map_err(failed())?;
        }
    }
    there.sync_if_there()
}

/// Whether a backup has keys that the vault has no more: of an epoch before all of its own, with no change of keys that the vault
/// does not know.
fn is_of_older_keys(keys: &HeldKeys, header: &[u8], replica: &[u8]) -> bool {
    let keyring = keys.keyring();
    match (Header::decode(header), ReplicaFile::decode(replica)) {
        (Ok(header), Ok(replica)) => {
            replica.vault == keyring.vault_id()
                && replica.instance == keys.instance()
                && keyring.epochs().all(|epoch| replica.epoch < epoch)
                && keyring.goes_on_from(&header.header.records)
        }
        _ => false,
    }
}

/// Whether the vault in `target` went its own way, or is of a later time than this one.
fn is_other_than_a_backup(
    session: &Session,
    keys: &HeldKeys,
    target: &Folder,
) -> Result<Option<String>> {
    if !target.has(DATABASE_FILE) || !target.has(REPLICA) {
        return Ok(None);
    }
    let replica = target.replica()?;
    let Ok(theirs) = keys.keyring().open_replica(&replica) else {
        if is_of_older_keys(keys, &target.header()?, &replica) {
            // Its database does not open any more; the mark says of how many commits it is.
            let mark = target.read_file(BACKUP)?.unwrap_or_default();
            let theirs = std::str::from_utf8(&mark)
                .ok()
                .and_then(|mark| mark.parse().ok());
            return is_newer(session, theirs.unwrap_or(0));
        }
        let why = "its replica file does not open with the keys of this vault; either keys were changed in the backup, or the file is damaged";
        return Ok(Some(why.to_owned()));
    };
    if theirs.instance() != keys.instance() {
        let why = "the folder and the vault have diverged: one of them was used as a separate copy, or an older state was put back; choose another folder";
        return Ok(Some(why.to_owned()));
    }
    let options = Options {
        missing_tree: metadata_key::missing_tree(&theirs),
        ..Options::default()
    };
    let key = theirs.metadata_key().bytes();
    // One that does not open is no better than none.
    let Ok(store) = Store::open_read_only(target.path(), key, options) else {
        return Ok(None);
    };
    is_newer(session, store.reader()?.commits()?)
}

/// Whether a backup of so many commits is of a later time than the vault.
fn is_newer(session: &Session, theirs: u64) -> Result<Option<String>> {
    let ours = session.filesystem().engine().reader()?.commits()?;
    if theirs > ours {
        let why = format!(
            "the folder is newer than the vault: {theirs} commits against {ours}; if an older state of the vault was put back, choose another folder"
        );
        return Ok(Some(why));
    }
    Ok(None)
}
