//! Takes written bytes into memory as dirty ranges, bounded in total; sizes and times change with them.
//!
//! Takes   bytes for a range of a file
//! Gives   an acknowledgement; the bytes are in memory and readable
//! Never   seals or stores: `drain/drains.rs` does

use std::ops::Range;

use strongroom_metadata::{InodeId, Timestamp};

use crate::content::Held;
use crate::content::node::{Node, NodeState};
use crate::content::reservation::Reserved;
use crate::core::Core;
use crate::rules::attributes::{content_changed, end_in_file};
use crate::upkeep::room::{make_room, wait_for_room, would_wait};
use crate::{AllocateMode, Error, Filesystem, Result};

/// Where a write goes.
#[derive(Clone, Copy)]
enum Place {
    At(u64),
    /// At the end of the file of that moment, but not before `from`.
    End {
        from: u64,
    },
}

impl Place {
    /// Of a file of `size` bytes.
    fn offset(self, size: u64) -> u64 {
        match self {
            Self::At(offset) => offset,
            Self::End { from } => size.max(from),
        }
    }
}

impl Filesystem {
    /// Takes all of `data` for `offset`, or nothing. Memory only (write-behind), unless the bound of dirty
    /// content is reached, or the disk is full: then it waits for a drain, or until removed content was given back.
    ///
    /// # Errors
    /// `NoSpace` or `QuotaExceeded` before anything is taken; an error of an earlier drain of this file, once.
    pub fn write(&self, inode: InodeId, offset: u64, data: &[u8]) -> Result<()> {
        self.write_at(inode, Place::At(offset), data).map(|_| ())
    }

    /// Appends `data` at the end, in one step however many append at once; gives the offset it went to.
    ///
    /// # Errors
    /// As `write`.
    pub fn append(&self, inode: InodeId, data: &[u8]) -> Result<u64> {
        self.append_from(inode, 0, data)
    }

    /// As `append`, but not before `from`: a shorter file gets a hole first.
    ///
    /// # Errors
    /// As `write`.
    pub fn append_from(&self, inode: InodeId, from: u64, data: &[u8]) -> Result<u64> {
        self.write_at(inode, Place::End { from }, data)
    }

    fn write_at(&self, inode: InodeId, place: Place, data: &[u8]) -> Result<u64> {
        let core = &self.core;
        let node = core.node(inode)?;
        wait_for_room(core, data.len() as u64)?;
        let _gate = core.mutate()?;
        admit_write(core, &node, place, data.len() as u64)?;
        let now = core.now();
        let mut state = node.lock();
        state.check_file()?;
        let offset = place.offset(state.inode.size);
        let end = end_in_file(offset, data.len() as u64)?;
        if data.is_empty() {
            return Ok(offset);
        }
        let before = state.active.cost();
        state.active.write(offset, data);
        let after = state.active.cost();
        core.content.recount(before, after);
        core.content.end_reservation(&mut state, &(offset..end));
        state.inode.size = state.inode.size.max(end);
        content_changed(&mut state.inode, now);
        state.attributes_dirty = true;
        state.unlogged.note_write(offset..end);
        core.content.list_dirty(&node, &mut state);
        drop(state);
        core.changed();
        let drain_bytes = core.options.thresholds.drain_bytes;
        if after >= drain_bytes && before / drain_bytes < after / drain_bytes {
            core.work.drain_soon(inode);
        }
        Ok(offset)
    }

    /// Whether a write of `len` bytes would wait now: for memory, or until removed content was given back.
    #[must_use]
    pub fn write_would_wait(&self, len: usize) -> bool {
        would_wait(&self.core, len as u64)
    }

    /// Reserves, punches or zeroes a range; the modes are those of `fallocate(2)`.
    ///
    /// What is reserved is counted as used until it is written once, punched, cut off or deleted: writing there meets
    /// `NoSpace` and `QuotaExceeded` only if other programs fill the disk. It outlives reopening.
    ///
    /// # Errors
    /// `InvalidArgument` for an empty range, `FileTooLarge`, `NoSpace` or `QuotaExceeded` if a reservation does not fit.
    pub fn allocate(
        &self,
        inode: InodeId,
        mode: AllocateMode,
        offset: u64,
        len: u64,
    ) -> Result<()> {
        let core = &self.core;
        if len == 0 {
            return Err(Error::InvalidArgument("an empty range".into()));
        }
        let end = end_in_file(offset, len)?;
        let node = core.node(inode)?;
        let reserve = matches!(mode, AllocateMode::Reserve | AllocateMode::ReserveKeepSize);
        if reserve {
            make_room(core, len);
        }
        let _gate = core.mutate()?;
        let admitted = reserve.then(|| admit_reservation(core, &node, offset..end));
        let admitted = admitted.transpose()?;
        let now = core.now();
        let mut state = node.lock();
        state.check_file()?;
        let extends = matches!(mode, AllocateMode::Reserve | AllocateMode::ZeroRange);
        if let Some((unwritten, _held)) = &admitted {
            core.content.edit_reserved(&mut state, |reserved| {
                for range in unwritten.ranges() {
                    reserved.add(range.clone());
                }
            });
        } else {
            core.content.end_reservation(&mut state, &(offset..end));
            // Beyond the end nothing is stored, so nothing needs a hole there.
            let until = end.min(state.inode.size);
            core.content.punch(&mut state, offset..until);
        }
        if extends {
            state.inode.size = state.inode.size.max(end);
        }
        state.content_changed(now);
        core.content.list_dirty(&node, &mut state);
        drop(state);
        core.changed();
        Ok(())
    }
}

/// Refuses a write that neither the disk and the quota nor a reservation of the file have room for.
fn admit_write(core: &Core, node: &Node, place: Place, len: u64) -> Result<()> {
    let mut reserved = 0;
    if core.content.reserved_bytes() > 0 {
        let state = node.lock();
        let start = place.offset(state.inode.size);
        reserved = state.reserved.overlap(&(start..start.saturating_add(len)));
    }
    match len - reserved {
        0 if reserved > 0 => Ok(()),
        more => core.admit(more),
    }
}

/// What of `range` is to be reserved, if it fits; held until it is.
fn admit_reservation<'a>(
    core: &'a Core,
    node: &Node,
    range: Range<u64>,
) -> Result<(Reserved, Held<'a>)> {
    let (unwritten, more) = {
        let mut writer = core.store.lock();
        let state = node.lock();
        state.check_file()?;
        let unwritten = core
            .content
            .unwritten(&mut writer, node.id, &state, range)?;
        let mut all = state.reserved.clone();
        for range in unwritten.ranges() {
            all.add(range.clone());
        }
        (unwritten, all.bytes().saturating_sub(state.inode.reserved))
    };
    let held = core.content.hold(more);
    core.admit(0)?;
    Ok((unwritten, held))
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
        core.content.punch(state, size..old);
    }
    if size <= old {
        core.content.end_reservation(state, &(size..u64::MAX));
    }
    state.inode.size = size;
    state.content_changed(now);
}
