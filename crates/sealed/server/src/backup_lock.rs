//! The lock by which a backup keeps the files of objects that are removed while it is made.
//!
//! Takes   the folder of a server
//! Gives   whether a backup is being made; the lock, which ends with its process
//!
//! A backup holds it, shared with other backups, from before it copies the database until it has all files. A removal looks at it within
//! its change of the database. So each removal either is over before the database is copied, or keeps the file.

use std::fs::File;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::files::Aside;

/// Where it is.
#[derive(Debug)]
pub(crate) struct BackupLock(PathBuf);

impl BackupLock {
    pub(crate) fn of(folder: &Path) -> Self {
        Self(folder.join("backup"))
    }

    /// Where the file of a removed object goes. Only within a change of the database.
    pub(crate) fn aside(&self) -> Result<Aside> {
        let is_made = self.alone()?.is_none();
        Ok(if is_made { Aside::Kept } else { Aside::Moving })
    }

    /// Held by a backup while this lives.
    pub(crate) fn share(&self) -> Result<File> {
        // Nobody has it alone for longer than a change of the database takes.
        self.lock(FlockOperation::LockShared)?.map_err(failed)
    }

    /// No backup begins while this lives; `None` if one is being made.
    pub(crate) fn alone(&self) -> Result<Option<File>> {
        match self.lock(FlockOperation::NonBlockingLockExclusive)? {
            Err(Errno::WOULDBLOCK) => Ok(None),
            locked => locked.map(Some).map_err(failed),
        }
    }

    fn lock(&self, how: FlockOperation) -> Result<std::result::Result<File, Errno>> {
        let opened = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&self.0);
        let file = opened.map_err(Error::io("opening the lock of backups"))?;
        Ok(flock(&file, how).map(|()| file))
    }
}

fn failed(error: Errno) -> Error {
    Error::io("locking against backups")(error.into())
}
