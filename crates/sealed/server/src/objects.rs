//! Where the bytes of objects are: in the folder of the server, or in an object store that several instances share.
//!
//! Takes   bytes, piece by piece; ids of files
//! Gives   the bytes under an id
//! Never   decides which objects there are: the database does
//!
//! | | folder (`files.rs`) | object store (`bucket.rs`) |
//! |---|---|---|
//! | an upload that is cut off | a file in `moving`, which the next start removes | a row in `coming`, which `gc` takes |
//! | a removal that is cut off | a file in `moving` or `kept` | a row in `going`, which `gc` takes |

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::sync::Arc;

use crate::backup_lock::BackupLock;
use crate::bucket::{Bucket, NewObject, Pieces};
use crate::database::View;
use crate::error::{Error, Result};
use crate::file_id::FileId;
use crate::files::{Aside, Files, NewFile};
use crate::ledger::{Found, shared};

/// Where they are.
#[derive(Debug)]
pub(crate) enum Objects {
    Folder(Folder),
    Bucket(Arc<Bucket>),
}

/// A folder, and the lock of its backups.
#[derive(Debug)]
pub(crate) struct Folder {
    pub(crate) files: Arc<Files>,
    pub(crate) backups: BackupLock,
}

/// Bytes of an object on their way to a client.
pub(crate) enum Content {
    File(Arc<File>),
    Pieces(Pieces),
}

/// Bytes that come. They are gone again when this is dropped, unless they were kept.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) id: FileId,
    hasher: blake3::Hasher,
    len: u64,
    to: To,
}

#[derive(Debug)]
enum To {
    File(NewFile),
    Object(NewObject),
}

impl Objects {
    /// A place for so many bytes.
    pub(crate) fn begin(&self, len: u64) -> Result<Incoming> {
        let (id, to) = match self {
            Self::Folder(own) => {
                let file = own.files.begin()?;
                (file.id, To::File(file))
            }
            Self::Bucket(bucket) => {
                let object = bucket.begin(len)?;
                (object.id, To::Object(object))
            }
        };
        Ok(Incoming {
            id,
            hasher: blake3::Hasher::new(),
            len: 0,
            to,
        })
    }

    /// The bytes under that id, and how many they are; `None` if there are none.
    pub(crate) fn reader(&self, id: FileId) -> Result<Option<(u64, Box<dyn Read>)>> {
        match self {
            Self::Folder(own) => {
                let Some(file) = own.files.open_file(id)? else {
                    return Ok(None);
                };
                let found = file.metadata().map_err(Error::io("examining an object"))?;
                Ok(Some((found.len(), Box::new(file) as Box<dyn Read>)))
            }
            Self::Bucket(bucket) => {
                let found = bucket.reader(id)?;
                Ok(found.map(|(len, reader)| (len, Box::new(reader) as Box<dyn Read>)))
            }
        }
    }

    /// How many bytes there are under that id; `None` if there are none.
    pub(crate) fn len(&self, id: FileId) -> Result<Option<u64>> {
        match self {
            Self::Folder(_) => Ok(self.reader(id)?.map(|(len, _)| len)),
            Self::Bucket(bucket) => bucket.len(id),
        }
    }

    /// A part of an object, for a client; `None` if its bytes are gone.
    pub(crate) fn open(&self, found: &Found, part: Range<u64>) -> Result<Option<Content>> {
        match self {
            Self::Folder(own) => {
                let file = own.files.open_file(found.file)?;
                Ok(file.map(|file| Content::File(Arc::new(file))))
            }
            Self::Bucket(bucket) => {
                let pieces = bucket.pieces(found, part)?;
                Ok(pieces.map(Content::Pieces))
            }
        }
    }

    /// The object is there: so are its bytes, for good.
    pub(crate) fn settle(&self, id: FileId) {
        if let Self::Folder(own) = self {
            // They are found where they lie, too, and go to their place at the next start.
            let _ = own.files.settle(id);
        }
    }

    /// The objects of these files are about to go with that change; gives whether a backup may need them. `oldest_s`: the time of the
    /// oldest of them.
    pub(crate) fn leave(&self, change: &View<'_>, ids: &[FileId], oldest_s: u64) -> Result<Aside> {
        match self {
            Self::Folder(own) => {
                let aside = match own.backups.is_needed(oldest_s)? {
                    true => Aside::Kept,
                    false => Aside::Moving,
                };
                own.files.unsettle(ids, aside).map(|()| aside)
            }
            Self::Bucket(_) => Ok(match shared::leave(change, ids)? {
                true => Aside::Moving,
                false => Aside::Kept,
            }),
        }
    }

    /// The objects of these files are gone, and no backup needs them.
    pub(crate) fn left(&self, ids: &[FileId]) -> Result<()> {
        match self {
            Self::Folder(own) => ids.iter().try_for_each(|id| own.files.drop_file(*id)),
            Self::Bucket(bucket) => {
                // What cannot be removed now stays noted, and `gc` removes it.
                let _ = bucket.remove(ids);
                Ok(())
            }
        }
    }

    /// Refuses while bytes can neither be stored nor read.
    pub(crate) fn check_usable(&self) -> Result<()> {
        match self {
            Self::Folder(own) => own.files.check_usable(),
            Self::Bucket(bucket) => bucket.check_usable(),
        }
    }
}

impl Incoming {
    pub(crate) fn write(&mut self, piece: &[u8]) -> Result<()> {
        self.hasher.update(piece);
        self.len += piece.len() as u64;
        match &mut self.to {
            To::File(file) => file.write(piece),
            To::Object(object) => object.write(piece),
        }
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn hash(&self) -> blake3::Hash {
        self.hasher.finalize()
    }

    /// Makes them durable under their id. They have the length and the hash that they are to have: an object store gets the last piece
    /// only now, so it never has others.
    pub(crate) fn sync(&mut self) -> Result<()> {
        match &mut self.to {
            To::File(file) => file.sync(),
            To::Object(object) => object.finish(),
        }
    }

    /// They stay: the database has them, or may have them.
    pub(crate) fn keep(self) {
        match self.to {
            To::File(file) => file.keep(),
            To::Object(object) => object.keep(),
        }
    }
}
