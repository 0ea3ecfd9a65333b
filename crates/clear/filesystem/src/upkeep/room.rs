//! Frees the space of removed content before a write is refused, and bounds waste.
//!
//! Takes   the number of bytes that a caller wants to store
//! Gives   space for them, as far as removed content can be freed
//! Never   waits for memory or space with a lock held
//! Spec    spec/5-crash-contract.md, [5.11] and [5.12]
//!
//! Invariants
//!  (1) A program that stores as much as `Filesystem::space` shows is not refused, unless others fill the disk
//!      meanwhile.                                                                                               [5.11]
//!  (2) Sealed bytes in segments are waste if they belong to no block any more. Waste is at most the sum of
//!      `waste_bytes_max` and half of the live bytes. The background keeps this bound. A removal can exceed it at once.
//!      Until the background has reclaimed the excess, callers may write a quarter of `waste_bytes_max`. Before
//!      they write more, they must reclaim about half of `waste_bytes_max`.                                      [5.12]

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::core::room::{fitting, overhead};
use crate::core::{Background, Core};
use crate::drain::drains::drain_all;
use crate::limits::{DISK_RESERVE_BYTES, LOG_ROOM_BYTES};
use crate::upkeep::compact::{Eagerness, reclaim_until, remove_some};
use crate::upkeep::urgent::finish;
use crate::{Error, Filesystem, Result, Space};

/// The background begins to reclaim this share of `waste_bytes_max` before writers have to.
const LEAD_SHIFT: u32 = 2;

/// What callers may write beyond the bound before they have to reclaim, as a share of `waste_bytes_max`.
const FREE_SHIFT: u32 = 2;

/// Segments of which less than this share could be given back are not counted on.
const DEAD_SHARE_SHIFT: u32 = 3;

/// How long a writer waits for a drain before it looks again whether one failed.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Sees to it that `len` more bytes find room, as far as giving back what was removed can. The caller asks `admit`
/// after that, and takes no locks before.
pub(crate) fn make_room(core: &Core, len: u64) {
    if core.options.read_only || core.has_room(len) {
        return;
    }
    // Whatever fails here fails for the caller too, who reports it.
    let _ = give_back(core, len);
}

fn give_back(core: &Core, len: u64) -> Result<()> {
    // First what others have removed or written: it is purged and stored, and only then known how much room that takes or makes.
    finish(core)?;
    drain_what_fits(core)?;
    let mut has_more = true;
    while !core.has_room(len) {
        // Only a full disk gains by it: a quota counts no removed content, whether its bytes are still on the disk or not.
        if matches!(core.admit(len), Err(Error::NoSpace))
            && reclaim_until(core, Eagerness::Room, &|| core.has_room(len))?
        {
            break;
        }
        if !has_more {
            break;
        }
        has_more = crate::trees::give_back::give_back(core)?;
    }
    Ok(())
}

/// Drains what is pending, if the disk has room for it.
fn drain_what_fits(core: &Core) -> Result<()> {
    let pending = core.content.pending_bytes();
    let left = core.without_room(pending);
    let needed = left.saturating_add(overhead(left));
    let free = core.room.free_now(core);
    if pending == 0 || free.is_some_and(|free| free < needed) {
        return Ok(());
    }
    drain_all(core)
}

/// Runs `store`, once more if the disk was full and removed content could be given back meanwhile. Take no locks.
pub(crate) fn with_room(core: &Core, store: impl Fn() -> Result<()>) -> Result<()> {
    match store() {
        Err(Error::NoSpace) => {
            make_room(core, 0);
            store()
        }
        stored => stored,
    }
}

// ---- waste

/// Whether there is more waste than there may be, less `lead`.
fn wastes(core: &Core, lead: u64) -> bool {
    let (live, waste) = core.store.segment_bytes();
    let most = core.options.thresholds.waste_bytes_max;
    let stuck = core.room.stuck_bytes.load(Ordering::Relaxed);
    if stuck > waste {
        core.room.stuck_bytes.store(0, Ordering::Relaxed);
    }
    // To those who look from outside what was removed lives no more.
    let removed = core.work.purge_bytes().min(live);
    let (live, waste) = (live - removed, waste + removed);
    waste > (live / 2).max(stuck).saturating_add(most - lead)
}

/// Whether the background has to reclaim. (2)
pub(crate) fn wastes_early(core: &Core) -> bool {
    wastes(core, core.options.thresholds.waste_bytes_max >> LEAD_SHIFT)
}

/// (2), for the background: until `is_due`, which is other work. Gives whether there is more to reclaim.
pub(crate) fn bound_waste_early(core: &Core, is_due: &dyn Fn() -> bool) -> Result<bool> {
    if !wastes(core, 0) {
        core.room.least_taken.store(0, Ordering::Relaxed);
    }
    bound_waste(core, &|| !wastes_early(core) || is_due())?;
    Ok(wastes_early(core) && !core.blocks.keeps_segments())
}

/// Bytes of segments, with what is to go into them.
fn taken(core: &Core) -> u64 {
    let (live, waste) = core.store.segment_bytes();
    live + waste + core.content.pending_bytes()
}

/// What callers may write beyond the bound before they have to reclaim.
fn free_bytes(core: &Core) -> u64 {
    core.options.thresholds.waste_bytes_max >> FREE_SHIFT
}

/// Whether a caller has to reclaim before it writes `len` bytes. Not while no segment may go. (2)
fn must_reclaim(core: &Core, len: u64) -> bool {
    let least_taken = &core.room.least_taken;
    if core.blocks.keeps_segments() || !wastes(core, 0) {
        least_taken.store(0, Ordering::Relaxed);
        return false;
    }
    let taken = taken(core);
    let least = match least_taken.load(Ordering::Relaxed) {
        0 => taken,
        least => least.min(taken),
    };
    least_taken.store(least, Ordering::Relaxed);
    taken + len > least + free_bytes(core)
}

/// Reclaims for a caller that writes `len` bytes, if it has to: as much as it writes more than what it may write. Take no locks. (2)
fn help(core: &Core, len: u64) -> Result<()> {
    if core.options.read_only || !must_reclaim(core, len) {
        return Ok(());
    }
    let least = core.room.least_taken.load(Ordering::Relaxed);
    let goal = least.saturating_sub(len.max(free_bytes(core)));
    let enough = || !wastes(core, 0) || taken(core) <= goal;
    // First what is empty already: that needs no purge to end.
    while !enough() && remove_some(core)? {}
    bound_waste(core, &enough)
}

/// Reclaims until there is `enough`, the rows of removed content first; later, if no segment may go now. Take no locks.
fn bound_waste(core: &Core, enough: &dyn Fn() -> bool) -> Result<()> {
    if core.options.read_only || core.blocks.keeps_segments() || enough() {
        return Ok(());
    }
    // Only finished segments can be compacted.
    finish(core)?;
    let reclaimed = reclaim_until(core, Eagerness::Bound, enough);
    if !matches!(reclaimed, Ok(true)) && !core.blocks.keeps_segments() {
        // Blocks that do not open, or a disk without room to move any: tried again once there is more.
        let (_, waste) = core.store.segment_bytes();
        let stuck = &core.room.stuck_bytes;
        stuck.store(waste, Ordering::Relaxed);
    }
    reclaimed.map(drop)
}

/// Whether a write of `len` bytes has to wait: for memory, for room, or because it has to reclaim.
pub(crate) fn would_wait(core: &Core, len: u64) -> bool {
    let pending = core.content.pending_bytes();
    pending + len > core.options.dirty_bytes_max || must_reclaim(core, len) || !core.has_room(len)
}

/// Waits until `len` more bytes of dirty content are within the bound, and there is room for them as far as giving back
/// helps. A single write larger than the bound passes when nothing else is dirty. Take no locks.
pub(crate) fn wait_for_room(core: &Core, len: u64) -> Result<()> {
    make_room(core, len);
    // What is in its way is no reason to refuse this write.
    let _ = help(core, len);
    let max = core.options.dirty_bytes_max;
    let fits = || {
        let held = core.content.pending_bytes();
        held == 0 || held + len <= max
    };
    let mut may_retry = true;
    while !fits() {
        core.durability.check()?;
        if core.options.background == Background::Manual {
            with_room(core, || drain_all(core))?;
            continue;
        }
        core.work.drain_everything();
        // A bounded wait: a drain that fails tells nobody, and the flag above must be seen.
        match core.content.wait_for_drain(fits, LOOK_AGAIN) {
            Err(Error::NoSpace) if may_retry => {
                may_retry = false;
                make_room(core, len);
            }
            drained => drained?,
        }
    }
    Ok(())
}

/// Bytes that reclaiming gives back for certain: not those in segments that are not worth it, nor in the open one.
fn reclaimable_bytes(core: &Core) -> u64 {
    // Before the rows: one that goes meanwhile is left out, and not counted beside the room that it made.
    let removed: u64 = core.room.removed.lock().values().sum();
    let (live, waste) = core.store.segment_bytes();
    let kept = (live >> DEAD_SHARE_SHIFT).saturating_add(core.blocks.segments.segment_bytes_max());
    waste.saturating_sub(kept.saturating_add(removed))
}

impl Filesystem {
    /// How much there is, and how much can be written. (1)
    ///
    /// # Errors
    /// Of the metadata store.
    pub fn space(&self) -> Result<Space> {
        let core = &self.core;
        let promised = core.promised_bytes();
        let (total, free) = core.disk.space().unwrap_or((0, 0));
        let aside = core.blocks.segments.room_aside();
        let room = free
            .saturating_add(aside)
            .saturating_add(reclaimable_bytes(core))
            .saturating_sub(DISK_RESERVE_BYTES + LOG_ROOM_BYTES);
        let mut space = Space {
            total_bytes: total,
            free_bytes: fitting(room).saturating_sub(core.without_room(promised)),
            inodes: core.store.lock().inode_count()?,
        };
        if let Some(quota) = core.quota.bytes() {
            let left = fitting(quota.saturating_sub(core.store.stored_bytes()));
            space.total_bytes = space.total_bytes.min(quota);
            space.free_bytes = space.free_bytes.min(left.saturating_sub(promised));
        }
        Ok(space)
    }
}
