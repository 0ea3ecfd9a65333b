//! Room for new content: how many bytes the disk and the quota still allow.
//!
//! Takes   the number of bytes that a caller wants to store
//! Gives   permission, or the error `NoSpace` or `QuotaExceeded`
//! Never   remembers a refusal: before each refusal the disk is asked again
//! Spec    spec/5-crash-contract.md, [5.8] and [5.11]
//!
//! Reading, removing, punching holes and writing into space that `fallocate` reserved need no permission.
//! `DISK_RESERVE_BYTES` are kept free, so that these operations still work on a full disk.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use strongroom_metadata::{BlockNumber, InodeId, Segment, SegmentNumber};

use crate::core::Core;
use crate::limits::DISK_RESERVE_BYTES;
use crate::{Error, Result};

/// The disk is asked again after this many admitted bytes.
const PROBE_BYTES: u64 = 4 * 1024 * 1024;

/// ... or after this many questions.
const PROBE_QUESTIONS: u64 = 256;

/// What content costs beyond its bytes once sealed, at most: tags, index, padding, rows. 1/8 is enough for pieces of a page ...
const OVERHEAD_SHIFT: u32 = 3;

/// ... which up to this many bytes may be; more is taken for content in whole blocks, ...
const OVERHEAD_BYTES: u64 = 8 * 1024 * 1024;

/// ... which costs less than 1/64.
const OVERHEAD_WHOLE_SHIFT: u32 = 6;

/// What is remembered of the disk, and of reclaiming.
#[derive(Default)]
pub(crate) struct RoomState {
    probe: Mutex<Probe>,
    /// A thread that moves blocks out of segments excludes the others; holds what they remember.
    pub(crate) reclaiming: Mutex<Reclaiming>,
    /// The waste that was left when nothing more could be done about it.
    pub(crate) stuck_bytes: AtomicU64,
    /// The fewest bytes that segments, with what is to go into them, have taken since there is too much waste; 0 while there is not.
    pub(crate) least_taken: AtomicU64,
    /// Bytes of pending content that have their room on the disk already: they are appended, and their rows are not written yet.
    pub(crate) on_way: AtomicU64,
    /// Segments that are removed, or just being so, and still have their rows, with their bytes: they make no room any more.
    pub(crate) removed: Mutex<HashMap<SegmentNumber, u64>>,
}

/// What reclaiming remembers.
#[derive(Default)]
pub(crate) struct Reclaiming {
    /// Empty segments that may go, as they were when they were listed.
    pub(crate) going: VecDeque<Segment>,
    /// `changes` when a segment was made leaving: once that is durable, it may go.
    pub(crate) left: HashMap<SegmentNumber, u64>,
    /// Segments with blocks that do not open: compaction takes others.
    pub(crate) passed_over: HashSet<SegmentNumber>,
    pub(crate) resealing: Resealing,
}

/// How far sealing again has come, see `reseal.rs`.
#[derive(Default)]
pub(crate) struct Resealing {
    /// The segment at hand, and the last block of it that was looked at.
    pub(crate) at: Option<(SegmentNumber, BlockNumber)>,
    /// Segments that were gone through and hold blocks that do not open.
    pub(crate) unreadable: HashSet<SegmentNumber>,
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
    pub(crate) fn free_now(&self, core: &Core) -> Option<u64> {
        let now = Probe::now(core);
        let (_, free) = now.last?;
        *self.probe.lock() = now;
        Some(free.saturating_add(core.blocks.segments.room_aside()))
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
pub(crate) fn overhead(bytes: u64) -> u64 {
    let whole = OVERHEAD_BYTES.saturating_add(bytes >> OVERHEAD_WHOLE_SHIFT);
    (bytes >> OVERHEAD_SHIFT).min(whole)
}

/// The most content that fits `room` bytes with its overhead.
pub(crate) fn fitting(room: u64) -> u64 {
    let little = room - room.div_ceil((1 << OVERHEAD_SHIFT) + 1);
    let much = room.saturating_sub(OVERHEAD_BYTES);
    let much = much - much.div_ceil((1 << OVERHEAD_WHOLE_SHIFT) + 1);
    little.max(much)
}

impl Core {
    /// Bytes that have been accepted and are not stored: pending content and what is reserved.
    pub(crate) fn promised_bytes(&self) -> u64 {
        let pending = self.content.pending_bytes();
        pending.saturating_add(self.content.reserved_bytes())
    }

    /// Notes that `inode`, which has no name any more, may be purged. Call without locks.
    pub(crate) fn purge_soon(&self, inode: InodeId) {
        let node = self.content.nodes.find(inode);
        let stored = node.map_or(0, |node| node.lock().inode.allocated);
        self.work.purge(inode, stored);
    }

    /// Of `promised` bytes those that the disk still has to find room for.
    pub(crate) fn without_room(&self, promised: u64) -> u64 {
        promised.saturating_sub(self.room.on_way.load(Ordering::Acquire))
    }

    /// Refuses `len` more bytes if the disk or the quota could not hold them with all that is promised.
    pub(crate) fn admit(&self, len: u64) -> Result<()> {
        // Before the disk is asked: what is appended meanwhile is counted twice, and not left out.
        let promised = self.promised_bytes().saturating_add(len);
        let left = self.without_room(promised);
        let needed = left.saturating_add(overhead(left));
        let lacks = |free: u64| free < needed.saturating_add(DISK_RESERVE_BYTES);
        let room = &self.room;
        if room.free_lately(self, len).is_some_and(lacks) && room.free_now(self).is_some_and(lacks)
        {
            return Err(Error::NoSpace);
        }
        let needed = promised.saturating_add(overhead(promised));
        if let Some(quota) = self.quota.bytes()
            && self.store.stored_bytes().saturating_add(needed) > quota
        {
            return Err(Error::QuotaExceeded);
        }
        Ok(())
    }

    /// Whether the disk has room for `len` bytes that come back: the quota counts no room of the disk that was there before.
    pub(crate) fn has_disk_room(&self, len: u64) -> bool {
        let needed = len.saturating_add(DISK_RESERVE_BYTES);
        self.room.free_now(self).is_none_or(|free| free >= needed)
    }

    /// Whether there is room for `len` more bytes without giving anything back.
    pub(crate) fn has_room(&self, len: u64) -> bool {
        !matches!(self.admit(len), Err(Error::NoSpace | Error::QuotaExceeded))
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
