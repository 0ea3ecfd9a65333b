//! Locks of open files in the public API.

use std::sync::atomic::Ordering;

use crate::owner::port::Port;
use crate::request::Request;
use crate::request::lock::{LockKind, Patience};
use crate::{Error, File, Result};

impl File {
    /// Waits for a lock that nobody else has beside it, as `std::fs::File::lock`.
    ///
    /// Locks are advisory and belong to this open file, in whichever process: it gives its lock back by `unlock` or when it is
    /// closed. One that has a shared lock gets an exclusive one in its place, and the other way round; another may come
    /// in between, and two that wait for one another wait for ever. Locks of programs on a mount are kept by the kernel; they and these do not
    /// know of each other.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let place = tempfile::tempdir()?;
    /// # let folder = place.path().join("vault");
    /// # use strongroom::{CreateOptions, Error, FileOptions, Vault};
    /// # let vault = Vault::create(&folder, CreateOptions::new())?.vault;
    /// let options = FileOptions::new().write().create();
    /// let (one, other) = (vault.open_file("/lock", options)?, vault.open_file("/lock", options)?);
    /// one.lock()?;
    /// assert!(matches!(other.try_lock(), Err(Error::Locked)));
    /// one.unlock()?;
    /// other.try_lock()?;
    /// # drop((one, other));
    /// # vault.close()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of `attributes`.
    pub fn lock(&self) -> Result<()> {
        self.wait_for_lock(LockKind::Exclusive)
    }

    /// Waits for a lock that others may share.
    ///
    /// # Errors
    /// Those of `attributes`.
    pub fn lock_shared(&self) -> Result<()> {
        self.wait_for_lock(LockKind::Shared)
    }

    /// As `lock`, without waiting.
    ///
    /// # Errors
    /// `Locked` if another open file has a lock.
    pub fn try_lock(&self) -> Result<()> {
        self.try_for_lock(LockKind::Exclusive)
    }

    /// As `lock_shared`, without waiting.
    ///
    /// # Errors
    /// `Locked` if another open file has an exclusive lock.
    pub fn try_lock_shared(&self) -> Result<()> {
        self.try_for_lock(LockKind::Shared)
    }

    /// Gives the lock back; without one it does nothing.
    ///
    /// # Errors
    /// `LockLost` if the process that kept it has gone.
    pub fn unlock(&self) -> Result<()> {
        self.ask::<()>(|handle| Request::Unlock { handle })?;
        self.locked.store(false, Ordering::Release);
        Ok(())
    }

    fn wait_for_lock(&self, kind: LockKind) -> Result<()> {
        while !self.ask_lock(kind, Patience::None)? {
            // One at a time: many that wait must not take every connection from the one that would unlock.
            let is_client = matches!(self.at().0, Port::Client(_));
            let _turn = is_client.then(|| self.vault.shared.lock_turn.lock());
            if self.ask_lock(kind, Patience::AMoment)? {
                break;
            }
        }
        Ok(())
    }

    fn try_for_lock(&self, kind: LockKind) -> Result<()> {
        match self.ask_lock(kind, Patience::None)? {
            true => Ok(()),
            false => Err(Error::Locked),
        }
    }

    fn ask_lock(&self, kind: LockKind, patience: Patience) -> Result<bool> {
        loop {
            let (port, response) = self.ask_at(|handle| Request::Lock {
                handle,
                kind,
                patience,
            })?;
            if !bool::try_from(response)? {
                return Ok(false);
            }
            self.locked.store(true, Ordering::Release);
            // Another thread may have gone on to the next owner before it could know of the lock.
            if self.at().0.is_same(&port) {
                return Ok(true);
            }
        }
    }
}
