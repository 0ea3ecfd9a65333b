//! Where a server keeps everything: in a folder, or in PostgreSQL and S3.
//!
//! Takes   a path, or URLs
//! Gives   the same, for the code that opens it
//! Never   shows a password or a key in them

use std::fmt;
use std::path::{Path, PathBuf};

use strongroom_remote::Address;

/// Where a server keeps everything.
#[derive(Clone, Debug)]
pub enum Storage {
    /// In a folder, on which one process serves.
    Folder(PathBuf),
    /// In a database and an object store, on which any number of processes serve.
    Shared(Shared),
}

/// A database of PostgreSQL, and a place in S3.
#[derive(Clone)]
pub struct Shared {
    /// The URL of the database, with its password.
    pub(crate) database: String,
    /// Certificates that sign that of the database; those of the system if `None`.
    pub(crate) authority: Option<PathBuf>,
    /// Connections to the database, at most.
    pub(crate) connections: usize,
    /// Where the bytes of objects are.
    pub(crate) objects: Address,
}

impl Storage {
    /// The folder, if it is one.
    pub(crate) fn folder(&self) -> Option<&Path> {
        match self {
            Self::Folder(folder) => Some(folder),
            Self::Shared(_) => None,
        }
    }
}

impl From<&Path> for Storage {
    fn from(folder: &Path) -> Self {
        Self::Folder(folder.to_owned())
    }
}

impl From<&PathBuf> for Storage {
    fn from(folder: &PathBuf) -> Self {
        Self::Folder(folder.clone())
    }
}

impl From<PathBuf> for Storage {
    fn from(folder: PathBuf) -> Self {
        Self::Folder(folder)
    }
}

impl From<&Storage> for Storage {
    fn from(storage: &Storage) -> Self {
        storage.clone()
    }
}

impl fmt::Debug for Shared {
    /// Nothing of the URL of the database, which has a password.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Shared({})", self.objects)
    }
}
