//! Advisory locks on files, as `fcntl` and `flock` take them.
//!
//! Takes   a file, a range and an owner
//! Gives   the lock, or the lock that stands in the way
//! Never   decides anything: `rules/locks.rs` does

use strongroom_metadata::InodeId;

use crate::rules::locks::Space;
use crate::{ByteRangeLock, Error, Filesystem, LockKind, Result};

impl Filesystem {
    /// Takes, changes or gives back a byte range for `owner`, as `fcntl(F_SETLK)` does. Never waits.
    ///
    /// # Errors
    /// `WouldBlock` if another owner's lock stands in the way; then nothing has changed.
    pub fn lock(&self, inode: InodeId, owner: u64, lock: ByteRangeLock) -> Result<()> {
        check_range(&lock)?;
        self.core.node(inode)?;
        self.core.locks.set((inode, Space::Ranges), owner, lock)
    }

    /// Takes, changes or gives back a lock on the whole file for `owner`, as `flock(LOCK_NB)` does.
    /// Neither its locks nor its owners have to do with those of `lock`.
    ///
    /// # Errors
    /// `WouldBlock` if another owner's lock stands in the way; then nothing has changed.
    pub fn lock_whole(&self, inode: InodeId, owner: u64, kind: LockKind) -> Result<()> {
        self.core.node(inode)?;
        self.core.locks.set(
            (inode, Space::Whole),
            owner,
            ByteRangeLock {
                start: 0,
                end: u64::MAX,
                kind,
                pid: 0,
            },
        )
    }

    /// The first lock that stands in the way of `lock`, if any.
    ///
    /// # Errors
    /// `InvalidArgument` for a range that ends before it starts.
    pub fn conflicting_lock(
        &self,
        inode: InodeId,
        owner: u64,
        lock: ByteRangeLock,
    ) -> Result<Option<ByteRangeLock>> {
        check_range(&lock)?;
        self.core.node(inode)?;
        Ok(self
            .core
            .locks
            .conflict((inode, Space::Ranges), owner, &lock))
    }

    /// Drops all byte-range locks of `owner` on `inode`, as the end of a process does.
    pub fn unlock_owner(&self, inode: InodeId, owner: u64) {
        self.core.locks.drop_owner((inode, Space::Ranges), owner);
    }
}

fn check_range(lock: &ByteRangeLock) -> Result<()> {
    if lock.start > lock.end {
        return Err(Error::InvalidArgument(
            "a range that ends before it starts".into(),
        ));
    }
    Ok(())
}
