//! Notices when many small reads at random places go to one segment, so that the bytes around them are fetched too.
//!
//! Takes   the places of small reads that are not answered from memory
//! Gives   for each one the range to read, and whether the system should cache it
//! Never   leaves anything in memory while small reads are few: then sealed bytes are in memory only while they are opened
//!
//! A program that reads a large part of a file in small pieces at random reads several pieces of nearly every grain
//! (`GRAIN_BYTES`). It does not ask for the same piece twice, because the kernel caches that piece in clear. But it
//! will ask for the piece's neighbours. So once a segment has had many small reads, a grain is fetched whole. The page cache
//! keeps it for these reads, as long as the system has no better use for that memory (docs/adr/0017).
//!
//! Invariants
//!  (1) When any fetched bytes turn out to be no longer cached, the reads of their segment are counted from 0 again. So
//!      if memory is short and nothing stays cached, fewer than about one read in twenty fetches extra bytes.

use std::num::NonZeroUsize;

use lru::LruCache;
use parking_lot::Mutex;
use strongroom_format::SegmentId;
use strongroom_format::limits::SEGMENT_BYTES_MAX;

use crate::limits::{DENSE_READS_MIN, DENSE_SEGMENTS_MAX, GRAIN_BYTES};

/// Grains of a segment.
const GRAINS: usize = (SEGMENT_BYTES_MAX / GRAIN_BYTES) as usize;

/// How to read a few bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// By themselves, and nothing is kept.
    Alone,
    /// With the rest of their grains, which is kept.
    WithGrains,
    /// From memory: their grains were fetched.
    Kept,
}

/// What was read of the segments that were read lately.
pub(crate) struct Dense(Mutex<LruCache<SegmentId, Seen>>);

/// Of one segment.
#[derive(Default)]
struct Seen {
    /// Small reads, since something was gone last.
    reads: u32,
    /// One bit for each grain that was fetched since.
    fetched: [u64; GRAINS.div_ceil(64)],
}

impl Dense {
    pub(crate) fn new() -> Self {
        let segments = NonZeroUsize::new(DENSE_SEGMENTS_MAX).unwrap_or(NonZeroUsize::MIN);
        Self(Mutex::new(LruCache::new(segments)))
    }

    /// Hears of a small read of `segment`, from `start` to `end`.
    pub(crate) fn look(&self, segment: SegmentId, start: u64, end: u64) -> Way {
        let mut seen = self.0.lock();
        seen.get_or_insert_mut(segment, Seen::default)
            .look(start, end)
    }

    /// Call when something that was fetched of `segment` is in memory no more (1), or the segment was removed.
    pub(crate) fn forget(&self, segment: SegmentId) {
        self.0.lock().pop(&segment);
    }
}

impl Seen {
    fn look(&mut self, start: u64, end: u64) -> Way {
        self.reads = self.reads.saturating_add(1);
        if start >= end || end > SEGMENT_BYTES_MAX {
            return Way::Alone;
        }
        // Below `GRAINS`.
        let grains = (start / GRAIN_BYTES) as usize..=((end - 1) / GRAIN_BYTES) as usize;
        let bit = |grain: usize| 1 << (grain % 64);
        let is_fetched = |grain: usize| self.fetched[grain / 64] & bit(grain) != 0;
        if grains.clone().all(is_fetched) {
            return Way::Kept;
        }
        if self.reads <= DENSE_READS_MIN {
            return Way::Alone;
        }
        for grain in grains {
            self.fetched[grain / 64] |= bit(grain);
        }
        Way::WithGrains
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: SegmentId = SegmentId([7; 16]);

    #[test]
    fn few_reads_fetch_nothing_but_themselves_and_are_counted_by_segment() {
        let dense = Dense::new();
        for index in 0..u64::from(DENSE_READS_MIN) {
            assert_eq!(
                dense.look(SEGMENT, index * 8192, index * 8192 + 9),
                Way::Alone
            );
            assert_eq!(
                dense.look(SegmentId([1; 16]), index % 3 * 8192, 20_000),
                Way::Alone,
                "the same places over and over, but as few"
            );
        }
        assert_eq!(dense.look(SEGMENT, 0, 1), Way::WithGrains);
        dense.forget(SEGMENT);
        assert_eq!(dense.look(SEGMENT, 0, 1), Way::Alone);
    }

    #[test]
    fn among_many_reads_a_grain_is_fetched_once_until_something_is_gone() {
        let dense = Dense::new();
        let grains = GRAINS as u64;
        let fetches_of_many = || {
            // Every grain, over and over.
            let starts = (0..8 * grains).map(|read| read % grains * GRAIN_BYTES + 5);
            let fetches = starts.filter(|&at| dense.look(SEGMENT, at, at + 9) == Way::WithGrains);
            fetches.count() as u64
        };
        assert_eq!(fetches_of_many(), grains);
        assert_eq!(fetches_of_many(), 0);
        dense.forget(SEGMENT);
        assert_eq!(fetches_of_many(), grains);
    }

    #[test]
    fn a_place_that_no_segment_has_is_read_alone() {
        let dense = Dense::new();
        for _ in 0..2 * DENSE_READS_MIN {
            let end = SEGMENT_BYTES_MAX;
            assert_eq!(dense.look(SEGMENT, end, end + 1), Way::Alone);
            assert_eq!(dense.look(SEGMENT, end - 1, u64::MAX), Way::Alone);
            assert_eq!(dense.look(SEGMENT, 7, 7), Way::Alone);
        }
    }

    #[test]
    fn what_lies_across_two_grains_is_there_when_both_are() {
        let dense = Dense::new();
        for _ in 0..DENSE_READS_MIN {
            dense.look(SEGMENT, 0, 1);
        }
        assert_eq!(dense.look(SEGMENT, 0, 1), Way::WithGrains);
        let across = |border: u64| dense.look(SEGMENT, border - 1, border + 1);
        assert_eq!(across(GRAIN_BYTES), Way::WithGrains);
        assert_eq!(across(GRAIN_BYTES), Way::Kept);
        assert_eq!(across(2 * GRAIN_BYTES), Way::WithGrains);
        assert_eq!(
            dense.look(SEGMENT, 3 * GRAIN_BYTES - 9, 3 * GRAIN_BYTES),
            Way::Kept
        );
    }
}
