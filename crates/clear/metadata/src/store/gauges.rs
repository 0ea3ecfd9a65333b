//! Counts that the writing connection keeps, readable without its lock.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::rows::Segment;

/// How much the open transaction holds, for those who do not hold it.
#[derive(Default)]
pub(crate) struct Gauges {
    pub(super) dirty_pages: AtomicU64,
    pub(super) waiting_bytes: AtomicU64,
    pub(super) stored_bytes: AtomicU64,
    pub(super) live_bytes: AtomicU64,
    pub(super) total_bytes: AtomicU64,
    pub(super) hold_changes_max: AtomicU64,
}

/// Sealed bytes in segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SegmentBytes {
    /// That blocks have.
    pub(crate) live: u64,
    /// That were ever appended to segments which are still there.
    pub(crate) total: u64,
}

impl SegmentBytes {
    pub(crate) fn add(&mut self, segment: &Segment) {
        self.live = self.live.saturating_add(segment.live_bytes);
        self.total = self.total.saturating_add(segment.total_bytes);
    }

    pub(crate) fn remove(&mut self, segment: &Segment) {
        self.live = self.live.saturating_sub(segment.live_bytes);
        self.total = self.total.saturating_sub(segment.total_bytes);
    }
}

impl Gauges {
    pub(crate) fn set(
        &self,
        dirty_pages: u64,
        waiting_bytes: u64,
        stored_bytes: u64,
        of_segments: SegmentBytes,
    ) {
        self.dirty_pages.store(dirty_pages, Ordering::Relaxed);
        self.waiting_bytes.store(waiting_bytes, Ordering::Relaxed);
        self.stored_bytes.store(stored_bytes, Ordering::Relaxed);
        self.live_bytes.store(of_segments.live, Ordering::Relaxed);
        self.total_bytes.store(of_segments.total, Ordering::Relaxed);
    }

    pub(crate) fn note_hold(&self, changes: u64) {
        self.hold_changes_max.fetch_max(changes, Ordering::Relaxed);
    }
}
