//! Room for new content: what the disk and the quota still take, and what is given back before anything is refused.
//!
//! Takes   how many bytes somebody wants to store
//! Gives   leave, once removed content was given back if it must be; `NoSpace` and `QuotaExceeded` only after that
//! Never   remembers a refusal: the disk is asked again before each
//! Spec    spec/5-crash-contract.md, [5.8], [5.11] and [5.12]
//!
//! Invariants
//!  (1) Whoever stores as much as `Filesystem::space` tells is not refused, unless others fill the disk meanwhile.  [5.11]
//!  (2) Waste, the sealed bytes in segments that no block has any more, is at most half of what lives and
//!      `waste_bytes_max`: the background sees to it, and whoever writes faster than that does it too.        [5.12]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::core::{Background, Core};
use crate::limits::{DISK_RESERVE_BYTES, LOG_ROOM_BYTES};
use crate::upkeep::space::{Eagerness, reclaim_until};
use crate::{Error, Filesystem, Result, Space};

/// The disk is asked again after this many admitted bytes.
const PROBE_BYTES: u64 = 4 * 1024 * 1024;

/// ... or after this many questions.
const PROBE_QUESTIONS: u64 = 256;

/// What content costs beyond its bytes once sealed, at most: tags, index, padding, rows. 1/8 is generous even for pieces of
/// a page, as the little that is pending may be ...
const OVERHEAD_SHIFT: u32 = 3;

/// ... so beyond this many bytes it is taken for content in whole blocks, ...
const OVERHEAD_BYTES: u64 = 8 * 1024 * 1024;

/// ... which costs less than 1/64.
const OVERHEAD_WHOLE_SHIFT: u32 = 6;

/// The background begins to reclaim this share of `waste_bytes_max` before writers have to.
const LEAD_SHIFT: u32 = 2;

/// Segments of which less than this share could be given back are not counted on.
const DEAD_SHARE_SHIFT: u32 = 3;

/// How long a writer waits for a drain before it looks again whether one failed.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// What is remembered of the disk, and of reclaiming.
#[derive(Default)]
pub(crate) struct RoomState {
    probe: Mutex<Probe>,
    /// The waste that was left when nothing more could be done about it.
    stuck_bytes: AtomicU64,
}

#[derive(Default)]
struct Probe {
    last: Option<(u64, u64)>,
    questions: u64,
    admitted: u64,
}

impl RoomState {
    /// Free bytes of the disk as it said some time ago, less what was admitted since.
    fn free_lately(&self, core: &Core, admitted: u64) -> Option<u64> {
        let mut probe = self.probe.lock();
        probe.questions += 1;
        probe.admitted += admitted;
        let due = probe.last.is_none()
            || probe.questions >= PROBE_QUESTIONS
            || probe.admitted >= PROBE_BYTES;
        if due {
            *probe = Probe::now(core);
        }
        let (_, free) = probe.last?;
        Some(free.saturating_sub(probe.admitted))
    }

    /// Free bytes of the disk now, with what is set aside for content already.
    fn free_now(&self, core: &Core) -> Option<u64> {
        let now = Probe::now(core);
        let (_, free) = now.last?;
        *self.probe.lock() = now;
        Some(free.saturating_add(core.segments.room_aside()))
    }
}

impl Probe {
    fn now(core: &Core) -> Self {
        Self {
            last: core.disk.space(),
            questions: 0,
            admitted: 0,
        }
    }
}

/// What `bytes` of content cost beyond their own number, at most.
fn overhead(bytes: u64) -> u64 {
    let whole = OVERHEAD_BYTES.saturating_add(bytes >> OVERHEAD_WHOLE_SHIFT);
    (bytes >> OVERHEAD_SHIFT).min(whole)
}

/// The most content that fits `room` bytes with its overhead.
fn fitting(room: u64) -> u64 {
    let little = room - room.div_ceil((1 << OVERHEAD_SHIFT) + 1);
    let much = room.saturating_sub(OVERHEAD_BYTES);
    let much = much - much.div_ceil((1 << OVERHEAD_WHOLE_SHIFT) + 1);
    little.max(much)
}

impl Core {
    /// Bytes that have been accepted and are not stored: pending content and what is reserved.
    pub(crate) fn promised_bytes(&self) -> u64 {
        let pending = self.dirty_bytes.load(Ordering::Acquire);
        pending.saturating_add(self.reserved.load(Ordering::Acquire))
    }

    /// Refuses `len` more bytes if the disk or the quota could not hold them with all that is promised.
    pub(crate) fn admit(&self, len: u64) -> Result<()> {
        let promised = self.promised_bytes().saturating_add(len);
        let needed = promised.saturating_add(overhead(promised));
        let lacks = |free: u64| free < needed.saturating_add(DISK_RESERVE_BYTES);
        let room = &self.space.room;
        if room.free_lately(self, len).is_some_and(lacks) && room.free_now(self).is_some_and(lacks)
        {
            return Err(Error::NoSpace);
        }
        if let Some(quota) = self.quota.bytes()
            && self.store.stored_bytes().saturating_add(needed) > quota
        {
            return Err(Error::QuotaExceeded);
        }
        Ok(())
    }

    /// Whether there is room for `len` more bytes without giving anything back.
    fn has_room(&self, len: u64) -> bool {
        !matches!(self.admit(len), Err(Error::NoSpace | Error::QuotaExceeded))
    }

    /// Sees to it that `len` more bytes find room, as far as giving back what was removed can. Whoever calls asks `admit`
    /// after that, and takes no locks before.
    pub(crate) fn make_room(&self, len: u64) {
        if self.options.read_only || self.has_room(len) {
            return;
        }
        // Whatever stands in the way stands in the way of the caller too, who says so.
        let _ = self.give_back(len);
    }

    fn give_back(&self, len: u64) -> Result<()> {
        // Others may have removed something that is not purged yet, and know how much they store only once it is stored.
        crate::upkeep::background::finish(self)?;
        self.drain_what_fits()?;
        let mut has_more = true;
        while !self.has_room(len) {
            // What is removed no longer counts for the quota, wherever it lies.
            if matches!(self.admit(len), Err(Error::NoSpace))
                && reclaim_until(self, Eagerness::Room, &|| self.has_room(len))?
            {
                break;
            }
            if !has_more {
                break;
            }
            has_more = crate::history::give_back(self)?;
        }
        Ok(())
    }

    /// Drains what is pending, if the disk has room for it.
    fn drain_what_fits(&self) -> Result<()> {
        let pending = self.dirty_bytes.load(Ordering::Acquire);
        let needed = pending.saturating_add(overhead(pending));
        let free = self.space.room.free_now(self);
        if pending == 0 || free.is_some_and(|free| free < needed) {
            return Ok(());
        }
        crate::drain::drain_all(self)
    }

    /// Runs `store`, once more if the disk was full and removed content could be given back meanwhile. Take no locks.
    pub(crate) fn with_room(&self, store: impl Fn() -> Result<()>) -> Result<()> {
        match store() {
            Err(Error::NoSpace) => {
                self.make_room(0);
                store()
            }
            stored => stored,
        }
    }

    // ---- waste

    /// Whether there is more waste than there may be, less `lead`.
    fn wastes(&self, lead: u64) -> bool {
        let (live, waste) = self.store.segment_bytes();
        let most = self.options.thresholds.waste_bytes_max;
        let stuck = self.space.room.stuck_bytes.load(Ordering::Relaxed);
        if stuck > waste {
            self.space.room.stuck_bytes.store(0, Ordering::Relaxed);
        }
        waste > (live / 2).max(stuck).saturating_add(most - lead)
    }

    /// (2), for the background.
    pub(crate) fn bound_waste_early(&self) -> Result<()> {
        self.bound_waste(self.options.thresholds.waste_bytes_max >> LEAD_SHIFT)
    }

    /// (2). Take no locks.
    fn bound_waste(&self, lead: u64) -> Result<()> {
        if self.options.read_only || !self.wastes(lead) {
            return Ok(());
        }
        // Only finished segments can be compacted.
        crate::upkeep::background::finish(self)?;
        let reclaimed = reclaim_until(self, Eagerness::Bound, &|| !self.wastes(lead));
        if !matches!(reclaimed, Ok(true)) {
            // Blocks that do not open, or a disk without room to move any: tried again once there is more.
            let (_, waste) = self.store.segment_bytes();
            let stuck = &self.space.room.stuck_bytes;
            stuck.store(waste, Ordering::Relaxed);
        }
        reclaimed.map(drop)
    }

    /// Whether a write of `len` bytes has to wait: for memory, for room, or because it has to reclaim.
    pub(crate) fn would_wait(&self, len: u64) -> bool {
        let pending = self.dirty_bytes.load(Ordering::Acquire);
        pending + len > self.options.dirty_bytes_max || self.wastes(0) || !self.has_room(len)
    }

    /// Waits until `len` more bytes of dirty content are within the bound, and there is room for them as far as giving back
    /// helps. A single write larger than the bound passes when nothing else is dirty. Take no locks.
    pub(crate) fn wait_for_room(&self, len: u64) -> Result<()> {
        self.make_room(len);
        // What stands in its way is no reason to refuse this write.
        let _ = self.bound_waste(0);
        let max = self.options.dirty_bytes_max;
        let fits = || {
            let held = self.dirty_bytes.load(Ordering::Acquire);
            held == 0 || held + len <= max
        };
        let mut may_retry = true;
        while !fits() {
            if self.failed.load(Ordering::Acquire) {
                return Err(Error::Failed);
            }
            if self.options.background == Background::Manual {
                self.with_room(|| crate::drain::drain_all(self))?;
                continue;
            }
            self.work.drain_everything();
            let mut guard = self.room.0.lock();
            if fits() {
                break;
            }
            // A bounded wait: a drain that fails tells nobody, and the flag above must be seen.
            self.room.1.wait_for(&mut guard, LOOK_AGAIN);
            drop(guard);
            match self.space.take_drain_error() {
                Err(Error::NoSpace) if may_retry => {
                    may_retry = false;
                    self.make_room(len);
                }
                drained => drained?,
            }
        }
        Ok(())
    }

    /// Bytes that reclaiming gives back for certain: not those in segments that are not worth it, nor in the open one.
    fn reclaimable_bytes(&self) -> u64 {
        let (live, waste) = self.store.segment_bytes();
        let kept = (live >> DEAD_SHARE_SHIFT).saturating_add(self.segments.segment_bytes_max());
        waste.saturating_sub(kept)
    }
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
        let aside = core.segments.room_aside();
        let room = free
            .saturating_add(aside)
            .saturating_add(core.reclaimable_bytes())
            .saturating_sub(DISK_RESERVE_BYTES + LOG_ROOM_BYTES);
        let mut space = Space {
            total_bytes: total,
            free_bytes: fitting(room).saturating_sub(promised),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: what `statfs` tells and what `admit` asks for are two sides of one rule, at every size.
    #[test]
    fn what_fits_has_room_with_its_overhead_and_little_is_given_away() {
        for shift in 0..60 {
            for room in [(1_u64 << shift) - 1, 1 << shift, (1 << shift) * 3 / 2] {
                let most = fitting(room);
                assert!(most + overhead(most) <= room, "{room}");
                let more = most + most / 100 + 16;
                assert!(more + overhead(more) > room, "{room}");
            }
        }
    }
}
