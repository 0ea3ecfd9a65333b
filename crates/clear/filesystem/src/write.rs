//! Bytes become dirty ranges, bounded in total; sizes and times change with them.
//!
//! Takes   bytes for a range of a file
//! Gives   an acknowledgement; the bytes are in memory and readable
//! Never   seals or stores: that is `flush.rs`

use std::sync::atomic::Ordering;

use strongroom_metadata::{InodeId, NodeKind, Timestamp};

use crate::core::Core;
use crate::limits::{DISK_RESERVE_BYTES, FILE_BYTES_MAX};
use crate::node::NodeState;
use crate::{AllocateMode, Error, Filesystem, Result};

/// What a write costs beyond its bytes once sealed, at most: tags, index, padding, rows. 1/8 is generous.
const OVERHEAD_SHIFT: u32 = 3;

impl Filesystem {
    /// Takes all of `data` for `offset`, or nothing. Memory only (write-behind), unless the bound of dirty
    /// content is reached: then it waits for a drain.
    ///
    /// # Errors
    /// `NoSpace` or `QuotaExceeded` before anything is taken; an error of an earlier drain of this file, once.
    pub fn write(&self, inode: InodeId, offset: u64, data: &[u8]) -> Result<()> {
        self.write_at(inode, Some(offset), data).map(|_| ())
    }

    /// Appends `data` at the end, in one step however many append at once; gives the offset it went to.
    ///
    /// # Errors
    /// As `write`.
    pub fn append(&self, inode: InodeId, data: &[u8]) -> Result<u64> {
        self.write_at(inode, None, data)
    }

    fn write_at(&self, inode: InodeId, offset: Option<u64>, data: &[u8]) -> Result<u64> {
        let core = &self.core;
        let node = core.node(inode)?;
        core.wait_for_room(data.len() as u64)?;
        let _gate = core.mutate()?;
        core.admit(data.len() as u64)?;
        let now = core.now();
        let mut state = node.lock();
        check_is_file(&state)?;
        let offset = offset.unwrap_or(state.inode.size);
        let end = offset
            .checked_add(data.len() as u64)
            .filter(|end| *end <= FILE_BYTES_MAX);
        let end = end.ok_or(Error::FileTooLarge)?;
        if data.is_empty() {
            return Ok(offset);
        }
        let before = state.active.cost();
        state.active.write(offset, data);
        let after = state.active.cost();
        core.recount(before, after);
        state.inode.size = state.inode.size.max(end);
        content_changed(&mut state, now);
        core.list_dirty(&node, &mut state);
        drop(state);
        core.changed();
        let drain_bytes = core.options.thresholds.drain_bytes;
        if after >= drain_bytes && before / drain_bytes < after / drain_bytes {
            core.work.drain_soon(inode);
        }
        Ok(offset)
    }

    /// Whether a write of `len` bytes would wait for memory now.
    #[must_use]
    pub fn write_would_wait(&self, len: usize) -> bool {
        self.core.dirty_bytes.load(Ordering::Acquire) + len as u64
            > self.core.options.dirty_bytes_max
    }

    /// Reserves, punches or zeroes a range; the modes are those of `fallocate(2)`.
    ///
    /// # Errors
    /// `InvalidArgument` for an empty range, `FileTooLarge`, `NoSpace` if a reservation does not fit.
    pub fn allocate(
        &self,
        inode: InodeId,
        mode: AllocateMode,
        offset: u64,
        len: u64,
    ) -> Result<()> {
        let core = &self.core;
        if len == 0 {
            return Err(Error::InvalidArgument("an empty range"));
        }
        let end = offset.checked_add(len).filter(|end| *end <= FILE_BYTES_MAX);
        let end = end.ok_or(Error::FileTooLarge)?;
        let node = core.node(inode)?;
        let _gate = core.mutate()?;
        let reserve = matches!(mode, AllocateMode::Reserve | AllocateMode::ReserveKeepSize);
        if reserve {
            core.admit(len)?;
        }
        let now = core.now();
        let mut state = node.lock();
        check_is_file(&state)?;
        let extends = matches!(mode, AllocateMode::Reserve | AllocateMode::ZeroRange);
        if reserve {
            reserve_range(&mut state, end, extends);
        } else {
            // Beyond the end nothing is stored, so nothing needs a hole there.
            let until = end.min(state.inode.size);
            core.punch(&mut state, offset..until);
        }
        if extends {
            state.inode.size = state.inode.size.max(end);
        }
        content_changed(&mut state, now);
        core.list_dirty(&node, &mut state);
        drop(state);
        core.changed();
        Ok(())
    }
}

/// Notes a reservation: `reserved` is the span up to its end that extents need not hold yet.
fn reserve_range(state: &mut NodeState, end: u64, extends: bool) {
    let covered = if extends {
        end.max(state.inode.size)
    } else {
        end
    };
    let held = state.inode.allocated;
    state.inode.reserved = state.inode.reserved.max(covered.saturating_sub(held));
}

/// Sets the length of a file, within its bounds: cuts what lies beyond, or extends by a hole. Permissions are checked;
/// times are set here.
pub(crate) fn resize(core: &Core, state: &mut NodeState, size: u64, now: Timestamp) {
    let old = state.inode.size;
    if size < old || state.has_pending_content() {
        // The length is stored by a drain only.
        state.hold_back();
    }
    if size < old {
        core.punch(state, size..old);
        state.inode.reserved = 0;
    }
    state.inode.size = size;
    content_changed(state, now);
}

fn check_is_file(state: &NodeState) -> Result<()> {
    if state.purged {
        return Err(Error::Stale);
    }
    match state.inode.kind {
        NodeKind::File => Ok(()),
        NodeKind::Directory => Err(Error::IsADirectory),
        _ => Err(Error::InvalidArgument("not a regular file")),
    }
}

/// A user changed the content: times and version follow.
pub(crate) fn content_changed(state: &mut NodeState, now: Timestamp) {
    state.inode.mtime = now;
    state.inode.ctime = now;
    state.inode.content_version += 1;
    state.attributes_dirty = true;
}

impl Core {
    /// Lays a hole over `range` in memory. What was dirty there is forgotten at once.
    pub(crate) fn punch(&self, state: &mut NodeState, range: std::ops::Range<u64>) {
        let before = state.active.cost();
        state.active.punch(range);
        self.recount(before, state.active.cost());
    }

    /// Pending content of a node changed its cost.
    pub(crate) fn recount(&self, before: u64, after: u64) {
        if after >= before {
            self.dirty_bytes.fetch_add(after - before, Ordering::AcqRel);
        } else {
            self.dirty_bytes.fetch_sub(before - after, Ordering::AcqRel);
        }
    }

    /// Waits until `len` more bytes of dirty content are within the bound. A single write larger than the
    /// bound passes when nothing else is dirty.
    fn wait_for_room(&self, len: u64) -> Result<()> {
        let max = self.options.dirty_bytes_max;
        let fits = || {
            let held = self.dirty_bytes.load(Ordering::Acquire);
            held == 0 || held + len <= max
        };
        while !fits() {
            if self.failed.load(Ordering::Acquire) {
                return Err(Error::Failed);
            }
            if self.options.background == crate::core::Background::Manual {
                crate::flush::drain_all(self)?;
                continue;
            }
            self.work.drain_everything();
            let mut guard = self.room.0.lock();
            if fits() {
                break;
            }
            // A bounded wait: a drain that fails tells nobody, and the flag above must be seen.
            self.room
                .1
                .wait_for(&mut guard, std::time::Duration::from_millis(200));
            drop(guard);
            self.space.take_drain_error()?;
        }
        Ok(())
    }

    /// Refuses `len` more bytes if the disk or the quota could not hold them with all that is pending.
    pub(crate) fn admit(&self, len: u64) -> Result<()> {
        let pending = self.dirty_bytes.load(Ordering::Acquire) + len;
        let needed = pending + (pending >> OVERHEAD_SHIFT);
        if let Some((_, free)) = self.space.disk_space(self, len)
            && free < needed + DISK_RESERVE_BYTES
        {
            return Err(Error::NoSpace);
        }
        if let Some(quota) = self.quota.bytes()
            && self.store.stored_bytes() + needed > quota
        {
            return Err(Error::QuotaExceeded);
        }
        Ok(())
    }
}
