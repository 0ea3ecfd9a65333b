//! Gives requests access to the file system, until the mount is closed.
//!
//! Takes   the open file system
//! Gives   it to each operation while the mount exists; after `close`, to none
//! Never   lets an operation begin on a file system in which another one panicked

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fuser::Errno;
use parking_lot::{MappedRwLockReadGuard, RwLock, RwLockReadGuard};
use strongroom::filesystem::Filesystem;

/// Holds the file system of one mount.
pub(crate) struct Gate {
    filesystem: RwLock<Option<Filesystem>>,
    failed: Arc<AtomicBool>,
}

/// One operation inside the gate: `close` waits until it is dropped.
pub(crate) struct Entered<'a> {
    filesystem: MappedRwLockReadGuard<'a, Filesystem>,
    failed: &'a AtomicBool,
}

impl Gate {
    pub(crate) fn new(filesystem: Filesystem) -> Self {
        Self {
            filesystem: RwLock::new(Some(filesystem)),
            failed: Arc::new(AtomicBool::new(false)),
        }
    }

    /// Lets an operation in. ENOTCONN after `close`, EIO after a panic.
    pub(crate) fn enter(&self) -> Result<Entered<'_>, Errno> {
        if self.has_failed() {
            return Err(Errno::EIO);
        }
        let filesystem = RwLockReadGuard::try_map(self.filesystem.read(), Option::as_ref)
            .map_err(|_| Errno::ENOTCONN)?;
        Ok(Entered {
            filesystem,
            failed: &self.failed,
        })
    }

    /// Whether an operation panicked: what it left half done must not be built upon.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// What a pool calls when a job of it panicked.
    pub(crate) fn failure_of_a_job(&self) -> impl Fn() + Send + Sync + use<> {
        let failed = Arc::clone(&self.failed);
        move || failed.store(true, Ordering::Release)
    }

    /// Waits for the operations inside, then takes the file system away. `None` the second time.
    pub(crate) fn close(&self) -> Option<Filesystem> {
        self.filesystem.write().take()
    }
}

impl Deref for Entered<'_> {
    type Target = Filesystem;

    fn deref(&self) -> &Filesystem {
        &self.filesystem
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.failed.store(true, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strongroom::{CreateOptions, Vault};

    fn gate() -> (tempfile::TempDir, Vault, Arc<Gate>) {
        let folder = tempfile::tempdir().unwrap();
        let vault = Vault::create(folder.path().join("vault"), CreateOptions::new())
            .unwrap()
            .vault;
        let gate = Arc::new(Gate::new(vault.filesystem().unwrap()));
        (folder, vault, gate)
    }

    #[test]
    fn after_the_end_nobody_gets_in_and_only_one_gets_the_file_system() {
        let (_folder, _vault, gate) = gate();
        assert!(gate.enter().is_ok());
        assert!(gate.close().is_some());
        assert_eq!(gate.enter().err(), Some(Errno::ENOTCONN));
        assert!(gate.close().is_none());
    }

    #[test]
    fn after_a_panic_inside_nothing_more_is_done() {
        let (_folder, _vault, gate) = gate();
        let inside = Arc::clone(&gate);
        let panicked = std::thread::spawn(move || {
            let _entered = inside.enter();
            panic!("an operation of a test");
        });
        assert!(panicked.join().is_err());
        assert!(gate.has_failed());
        assert_eq!(gate.enter().err(), Some(Errno::EIO));
    }

    #[test]
    fn a_panic_elsewhere_is_none_of_the_gates() {
        let (_folder, _vault, gate) = gate();
        assert!(std::thread::spawn(|| panic!("elsewhere")).join().is_err());
        assert!(gate.enter().is_ok());
    }
}
