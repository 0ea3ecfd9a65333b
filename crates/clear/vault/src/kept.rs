//! Joins the history to a file system, and keeps the records of revisions in the vault folder.
//!
//! Takes   an open file system, what signs, and the vault folder
//! Gives   revisions taken, listed, looked into and removed
//! Never   removes what a kept revision needs, or keeps a revision without its record
//! Spec    spec/6-history.md, section 6.2
//!
//! Invariants
//!  (1) One revision is taken or removed at a time.
//!  (2) A record is a file of its own, sealed, durable before the database knows its revision.    [6.2.6]

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use strongroom_crypto::{BlockSealer, RevisionSigner};
use strongroom_filesystem::{self as filesystem, Filesystem, History};
use strongroom_format::{BlockId, Epoch, Kind, SealedBlock, hex};
use strongroom_history::{
    self as history, Engine, GiveBack, NewRevision, Revision, RevisionId, Taken,
};
use strongroom_metadata::{BlockNumber, Reader, Transaction};

use crate::folder::{Folder, REVISIONS};
use crate::{Error, Result};

/// The history of one open vault.
pub struct Kept {
    signer: Mutex<RevisionSigner>,
    folder: Folder,
    /// (1)
    turn: Mutex<()>,
    giving_back: Mutex<GiveBack>,
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Kept").finish_non_exhaustive()
    }
}

/// The file system below a history.
#[derive(Clone, Copy)]
pub(crate) struct Below<'a>(pub(crate) filesystem::Engine<'a>);

impl Engine for Below<'_> {
    type Error = Error;

    fn sealer(&self) -> BlockSealer {
        self.0.sealer()
    }

    fn open(&self, kind: Kind, id: &BlockId) -> Result<Vec<u8>> {
        let opened = self.0.open(kind, id)?;
        opened.ok_or_else(|| history::Error::MissingBlock.into())
    }

    fn reader(&self) -> Result<Reader<'_>> {
        Ok(self.0.reader()?)
    }

    fn change<T>(&self, work: impl FnOnce(&mut Transaction<'_>) -> Result<T>) -> Result<T> {
        self.0.change(work)
    }

    fn store(
        &self,
        epoch: Epoch,
        blocks: Vec<(Kind, SealedBlock)>,
        note: impl FnMut(&mut Transaction<'_>, usize, BlockNumber, bool) -> Result<()>,
    ) -> Result<()> {
        self.0.store(epoch, blocks, note)
    }

    fn barrier<S, T>(
        &self,
        work: impl FnOnce(&mut Transaction<'_>) -> Result<S>,
        then: impl FnOnce() -> Result<T>,
    ) -> Result<(S, T)> {
        self.0.barrier(work, then)
    }

    fn commit(&self) -> Result<()> {
        Ok(self.0.commit()?)
    }

    fn commit_if_large(&self) -> Result<()> {
        Ok(self.0.commit_if_large()?)
    }
}

impl History for Kept {
    fn give_back(&self, engine: filesystem::Engine<'_>) -> filesystem::Result<bool> {
        // Somebody else is at it: enough.
        let Some(mut giving_back) = self.giving_back.try_lock() else {
            return Ok(false);
        };
        giving_back.step(&Below(engine)).map_err(below)
    }

    fn references(
        &self,
        engine: filesystem::Engine<'_>,
        reader: &Reader<'_>,
    ) -> filesystem::Result<(HashMap<BlockNumber, u32>, u64)> {
        history::references(&Below(engine), reader).map_err(below)
    }
}

/// An error as the file system has it.
fn below(error: Error) -> filesystem::Error {
    match error {
        Error::File(error) => error,
        _ => filesystem::Error::DamagedHistory,
    }
}

impl Kept {
    /// Joins a history to `filesystem`, and writes the records that are missing.
    ///
    /// # Errors
    /// Of the stores and the disk.
    #[doc(hidden)]
    pub fn attach(filesystem: &Filesystem, signer: RevisionSigner, folder: &Path) -> Arc<Self> {
        let kept = Arc::new(Self {
            signer: Mutex::new(signer),
            folder: Folder::new(folder),
            turn: Mutex::new(()),
            giving_back: Mutex::new(GiveBack::default()),
        });
        filesystem.attach_history(Arc::<Self>::clone(&kept));
        kept
    }

    /// Writes the records of kept revisions that are not there: a removal was interrupted, or they were lost.
    ///
    /// # Errors
    /// Of the stores and the disk.
    #[doc(hidden)]
    pub fn mend_records(&self, filesystem: &Filesystem) -> Result<()> {
        let rows = filesystem.engine().reader()?.revisions()?;
        if rows.is_empty() {
            return Ok(());
        }
        let there = self.records()?;
        for row in rows {
            if !there.contains(&hex::encode(&row.id)) {
                self.write_record(filesystem, &RevisionId(row.id), &row.body)?;
            }
        }
        Ok(())
    }

    /// Signs with `signer` from now on: the keys of the vault changed.
    #[doc(hidden)]
    pub fn sign_with(&self, signer: RevisionSigner) {
        *self.signer.lock() = signer;
    }

    /// Takes a revision of everything; durable on return.
    ///
    /// # Errors
    /// `Invalid` for a message or tags beyond their bounds; those of the stores and the disk.
    #[doc(hidden)]
    pub fn take(&self, filesystem: &Filesystem, new: &NewRevision) -> Result<Taken> {
        let _turn = self.turn();
        let engine = filesystem.engine();
        let signer = self.signer.lock().clone();
        history::take(&Below(engine), &signer, engine.now(), new, |revision| {
            self.write_record(filesystem, &revision.id, &revision.encode())
        })
    }

    /// The kept revisions, oldest first; each proven.
    ///
    /// # Errors
    /// Of the store; `Damaged` for one that does not prove itself.
    #[doc(hidden)]
    pub fn revisions(&self, filesystem: &Filesystem) -> Result<Vec<Revision>> {
        let signer = self.signer.lock().clone();
        let rows = filesystem.engine().reader()?.revisions()?;
        rows.iter()
            .map(|row| {
                let revision = Revision::decode(&row.body, &signer)?;
                if revision.id.0 == row.id {
                    Ok(revision)
                } else {
                    Err(history::Error::Forged.into())
                }
            })
            .collect()
    }

    /// Lets a revision go; its space follows in the background.
    ///
    /// # Errors
    /// `UnknownRevision`; those of the stores and the disk.
    #[doc(hidden)]
    pub fn remove(&self, filesystem: &Filesystem, id: RevisionId) -> Result<()> {
        let _turn = self.turn();
        history::remove(&Below(filesystem.engine()), id, || self.remove_record(&id))
    }

    fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock()
    }

    // ---- records

    fn records_folder(&self) -> PathBuf {
        self.folder.part(REVISIONS)
    }

    /// The ids of all records, in hexadecimal.
    fn records(&self) -> Result<HashSet<String>> {
        let entries = match std::fs::read_dir(self.records_folder()) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(HashSet::new()),
            Err(error) => return Err(Error::io("listing the records of revisions")(error)),
        };
        let mut found = HashSet::new();
        for entry in entries {
            let entry = entry.map_err(Error::io("listing the records of revisions"))?;
            if let Some((id, _)) = entry.file_name().to_str().and_then(record_name) {
                found.insert(id.to_owned());
            }
        }
        Ok(found)
    }

    /// (2)
    fn write_record(&self, filesystem: &Filesystem, id: &RevisionId, bytes: &[u8]) -> Result<()> {
        let engine = filesystem.engine();
        let (epoch, sealed) = engine.seal_record(Kind::Revision, bytes)?;
        let records = Folder::new(&self.records_folder());
        records.make()?;
        records.replace(&format!("{id}.{}", epoch.0), &sealed)
    }

    fn remove_record(&self, id: &RevisionId) -> Result<()> {
        let records = self.records_folder();
        let entries = match std::fs::read_dir(&records) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(Error::io("listing the records of revisions")(error)),
        };
        let id = id.to_string();
        for entry in entries {
            let entry = entry.map_err(Error::io("listing the records of revisions"))?;
            let name = entry.file_name();
            if name
                .to_str()
                .and_then(record_name)
                .is_some_and(|(of, _)| of == id)
            {
                std::fs::remove_file(entry.path())
                    .map_err(Error::io("removing the record of a revision"))?;
            }
        }
        Folder::new(&records).sync()
    }
}

/// Id and epoch of a record, from its name.
fn record_name(name: &str) -> Option<(&str, u32)> {
    let (id, epoch) = name.split_once('.')?;
    let is_id = id.len() == 64 && id.bytes().all(|digit| digit.is_ascii_hexdigit());
    Some((id, epoch.parse().ok()?)).filter(|_| is_id)
}

impl From<history::Error> for Error {
    fn from(error: history::Error) -> Self {
        match error {
            history::Error::Metadata(error) => error.into(),
            history::Error::Invalid(why) => Self::File(filesystem::Error::InvalidArgument(why)),
            history::Error::NotFound => Self::File(filesystem::Error::NotFound),
            history::Error::NotADirectory => Self::File(filesystem::Error::NotADirectory),
            history::Error::UnknownRevision => Self::Revision(error.to_string()),
            error => Self::Damaged {
                what: "history",
                why: error.to_string(),
            },
        }
    }
}
