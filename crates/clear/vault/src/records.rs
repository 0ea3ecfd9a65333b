//! The records of revisions: each snapshot as a file in the vault folder, in addition to its row.
//!
//! Takes   a file system, and the vault folder
//! Gives   revisions taken and removed together with their records; which records exist, and what they say
//! Never   keeps a revision without its record, or reads more of a file than the greatest length of a record
//! Spec    spec/6-history.md, section 6.2
//!
//! Invariants
//!  (1) A record is a sealed file of its own. It is durable before the database knows its revision.  [6.2.6]

use std::collections::HashSet;
use std::path::Path;

use strongroom_crypto::BlockSealer;
use strongroom_crypto::record::padded_len;
use strongroom_filesystem::{Filesystem, Taken};
use strongroom_format::{Epoch, Kind, hex};
use strongroom_history::{self as history, NewRevision, RevisionId};
use strongroom_segments::Error as SegmentError;

use crate::folder::{Folder, REVISIONS, below, damage_in};
use crate::{Error, Result};

/// What an error of listing them is about.
pub(crate) const LISTING: &str = "listing the records of snapshots";

/// Above every record of a revision, sealed, in bytes: body, signature and seal.
const RECORD_BYTES_MAX: u64 = 128 * 1024;

/// The records of one vault.
#[derive(Debug)]
pub struct Records {
    folder: Folder,
}

impl Records {
    /// Those in the vault folder `folder`.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        Self {
            folder: Folder::new(folder),
        }
    }

    /// Takes a revision of everything; durable on return.                                            (1)
    ///
    /// # Errors
    /// As `Filesystem::take_revision`; of the disk.
    pub fn take(&self, filesystem: &Filesystem, new: &NewRevision) -> Result<Taken> {
        filesystem.take_revision(new, |revision| {
            let written = self.write(filesystem, &revision.id.to_string(), &revision.encode());
            if written.is_err() {
                // Whatever is left of it is removed by the next opening, if not now.
                let _ = self.remove_of(&revision.id);
            }
            written
        })
    }

    /// Removes a revision and its record; its space follows in the background.
    ///
    /// # Errors
    /// As `Filesystem::remove_revision`; of the disk.
    pub fn remove(&self, filesystem: &Filesystem, id: RevisionId) -> Result<()> {
        filesystem.remove_revision(id, || self.remove_of(&id))
    }

    /// Writes the records of snapshots that are not there: a removal was interrupted, or they were lost.
    ///
    /// # Errors
    /// Of the stores and the disk.
    pub fn mend(&self, filesystem: &Filesystem) -> Result<()> {
        filesystem.forget_interrupted(|id| self.remove_of(id))?;
        let rows = filesystem.engine().reader()?.revisions()?;
        if rows.is_empty() {
            return Ok(());
        }
        let there: HashSet<String> = self.names()?.into_iter().map(|(id, _)| id).collect();
        for row in rows {
            let id = hex::encode(&row.id);
            if !there.contains(&id) {
                self.write(filesystem, &id, &row.body)?;
            }
        }
        Ok(())
    }

    /// Writes the record of a revision again: sealed once more, it has other bytes.
    ///
    /// # Errors
    /// Of the stores and the disk.
    pub(crate) fn renew(&self, filesystem: &Filesystem, id: &[u8; 32]) -> Result<()> {
        let _turn = filesystem.hold_revisions();
        match filesystem.engine().reader()?.revision(id)? {
            Some(row) => self.write(filesystem, &hex::encode(id), &row.body),
            None => Ok(()),
        }
    }

    /// Re-seals every record that is of an epoch before the newest, and runs `then` before the next revision is taken:
    /// nothing that is sealed under an earlier epoch is on its way meanwhile.
    ///
    /// # Errors
    /// Of the stores and the disk; those of `then`.
    pub fn reseal(&self, filesystem: &Filesystem, then: impl FnOnce() -> Result<()>) -> Result<()> {
        let _turn = filesystem.hold_revisions();
        let engine = filesystem.engine();
        let newest = engine.sealer().epoch();
        let rows = engine.reader()?.revisions()?;
        for (id, epoch) in self.names()? {
            if epoch >= newest.0 {
                continue;
            }
            let name = format!("{id}.{epoch}");
            let row = rows.iter().find(|row| hex::encode(&row.id) == id);
            let body = match row {
                Some(row) => Some(row.body.clone()),
                // Of a revision that was about to be kept, or of another copy of the metadata.
                None => self.open(&engine.sealer(), Epoch(epoch), &name)?,
            };
            // One that does not open tells nobody anything, with the old keys or without.
            if let Some(body) = body {
                self.write(filesystem, &id, &body)?;
                self.remove_file(&name)?;
            }
        }
        self.inside().sync_if_there()?;
        then()
    }

    /// The records there are, as `record_files` gives them.
    pub(crate) fn files(&self) -> Result<Vec<(String, Option<Vec<u8>>)>> {
        record_files(&self.folder)
    }

    fn inside(&self) -> Folder {
        self.folder.inside(REVISIONS)
    }

    /// The id in hexadecimal and the epoch of every record.
    pub(crate) fn names(&self) -> Result<Vec<(String, u32)>> {
        let entries = self.inside().list(LISTING)?;
        let names = entries.iter().map(|entry| record_name(&entry.name));
        Ok(names
            .flatten()
            .map(|(id, epoch)| (id.to_owned(), epoch))
            .collect())
    }

    fn write(&self, filesystem: &Filesystem, id: &str, bytes: &[u8]) -> Result<()> {
        let mut padded = bytes.to_vec();
        padded.resize(padded_len(bytes.len(), 0), 0);
        let (epoch, sealed) = filesystem.engine().seal_record(Kind::Revision, &padded)?;
        let records = self.inside();
        records.make()?;
        records.replace(&format!("{id}.{}", epoch.0), &sealed)
    }

    /// What the record in the file `name` says; `None` if it does not open.
    fn open(&self, sealer: &BlockSealer, epoch: Epoch, name: &str) -> Result<Option<Vec<u8>>> {
        let sealed = match self.inside().read_file(name) {
            // What is no record of ours tells nothing.
            Ok(None) | Err(Error::Odd { .. }) => return Ok(None),
            Ok(Some(sealed)) => sealed,
            Err(error) => return Err(error),
        };
        Ok(open_revision(sealer, epoch, &sealed))
    }

    /// Removes the records of a revision, durably.
    fn remove_of(&self, id: &RevisionId) -> Result<()> {
        let id = id.to_string();
        for (of, epoch) in self.names()? {
            if of == id {
                self.remove_file(&format!("{id}.{epoch}"))?;
            }
        }
        self.inside().sync_if_there()
    }

    fn remove_file(&self, name: &str) -> Result<()> {
        match self.inside().remove(name) {
            // A folder of that name is none of ours; a verification names it.
            Ok(_) | Err(strongroom_folder::Error::Odd(_)) => Ok(()),
            Err(error) => Err(below("removing the record of a snapshot")(error)),
        }
    }
}

/// The records in a vault folder, by the names of their files, with their bytes; `None` for one that cannot be read, or that
/// is longer than any record.
pub(crate) fn record_files(folder: &Folder) -> Result<Vec<(String, Option<Vec<u8>>)>> {
    let records = folder.inside(REVISIONS);
    let mut found = Vec::new();
    for entry in records.list(LISTING)? {
        if record_name(&entry.name).is_some() {
            let bytes = records
                .hold()
                .and_then(|held| held.read(&entry.name, RECORD_BYTES_MAX));
            let bytes = match bytes {
                Err(error) => damage_in(SegmentError::of_io(error.into())).map(|_| None)?,
                bytes => bytes.unwrap_or_default(),
            };
            found.push((entry.name, bytes));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// The stored form of a revision from the bytes of its record; `None` if it does not open. Records of earlier versions are not
/// padded.
pub(crate) fn open_revision(sealer: &BlockSealer, epoch: Epoch, sealed: &[u8]) -> Option<Vec<u8>> {
    let clear = sealer.open_record(epoch, Kind::Revision, sealed).ok()?;
    history::stored_form(&clear).map(<[u8]>::to_vec)
}

/// Id and epoch of a record, from its name.
pub(crate) fn record_name(name: &str) -> Option<(&str, u32)> {
    let (id, epoch) = name.split_once('.')?;
    let is_id = id.len() == 64 && id.bytes().all(|digit| digit.is_ascii_hexdigit());
    Some((id, epoch.parse().ok()?)).filter(|_| is_id)
}
