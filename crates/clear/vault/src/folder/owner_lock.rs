//! The lock that makes one process the owner of a vault.
//!
//! Takes   a vault folder
//! Gives   the lock, or the reason why it cannot be had
//! Never   waits. The kernel releases the lock when the process ends, however it ends

use std::fs::File;
use std::io::ErrorKind;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use strongroom_folder::Error as BelowError;

use crate::folder::{Folder, LOCK, below};
use crate::{Error, Result};

/// The lock of one vault folder, held until dropped.
#[derive(Debug)]
pub(crate) struct OwnerLock {
    file: File,
}

impl Drop for OwnerLock {
    fn drop(&mut self) {
        // A child that was forked meanwhile and has not begun its program yet has the same open file: closing this one alone
        // would not give the lock back.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

/// What trying to take the lock met.
#[derive(Debug)]
pub(crate) enum Attempt {
    Taken(OwnerLock),
    HeldByAnother,
    /// The folder cannot be written: read-only media, or not ours.
    NotWritable(std::io::Error),
}

impl OwnerLock {
    /// Tries to take the lock of `folder`.
    ///
    /// # Errors
    /// `Error::NoLocks` where a lock excludes nobody.
    pub(crate) fn attempt(folder: &Folder) -> Result<Attempt> {
        let file = match open(folder) {
            Ok(file) => file,
            Err(BelowError::Io(error)) if is_not_writable(&error) => {
                return Ok(Attempt::NotWritable(error));
            }
            Err(error) if error.is_missing() => return Err(Error::NotAVault),
            Err(error) => return Err(below("opening the lock of the vault")(error)),
        };
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(Attempt::HeldByAnother),
            Err(Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                return Err(Error::NoLocks);
            }
            Err(error) => return Err(Error::system("locking the vault")(error)),
        }
        // Some file systems grant every lock. One that grants it twice protects nothing.
        let second = open(folder).map_err(below("opening the lock of the vault"))?;
        match flock(&second, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => Ok(Attempt::Taken(Self { file })),
            _ => Err(Error::NoLocks),
        }
    }
}

fn open(folder: &Folder) -> strongroom_folder::Result<File> {
    folder.hold()?.open_or_create(LOCK)
}

fn is_not_writable(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_the_descriptor_in_a_child_does_not_keep_the_lock() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::new(place.path());
        let Attempt::Taken(lock) = OwnerLock::attempt(&folder).unwrap() else {
            panic!("nobody else has it");
        };
        let copy = lock.file.try_clone().unwrap();
        drop(lock);
        assert!(matches!(
            OwnerLock::attempt(&folder).unwrap(),
            Attempt::Taken(_)
        ));
        drop(copy);
    }

    #[test]
    fn one_lock_excludes_another_until_it_is_dropped() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::new(place.path());
        let Attempt::Taken(lock) = OwnerLock::attempt(&folder).unwrap() else {
            panic!("not taken")
        };
        assert!(matches!(
            OwnerLock::attempt(&folder).unwrap(),
            Attempt::HeldByAnother
        ));
        drop(lock);
        assert!(matches!(
            OwnerLock::attempt(&folder).unwrap(),
            Attempt::Taken(_)
        ));
    }

    #[test]
    fn a_missing_folder_is_no_vault() {
        let place = tempfile::tempdir().unwrap();
        let missing = Folder::new(&place.path().join("none"));
        assert!(matches!(
            OwnerLock::attempt(&missing),
            Err(Error::NotAVault)
        ));
    }
}
