//! Counts the operations of the store, cheaply enough to be always on.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::Counters;

/// The running counts.
#[derive(Default)]
pub(crate) struct Counting {
    pub(crate) bytes_appended: AtomicU64,
    pub(crate) batches: AtomicU64,
    pub(crate) segments_begun: AtomicU64,
    pub(crate) data_syncs: AtomicU64,
    pub(crate) directory_syncs: AtomicU64,
    pub(crate) reads: AtomicU64,
    pub(crate) bytes_read: AtomicU64,
    pub(crate) reads_cached: AtomicU64,
}

impl Counting {
    /// The counts as they are now, each by itself.
    pub(crate) fn now(&self) -> Counters {
        Counters {
            bytes_appended: self.bytes_appended.load(Relaxed),
            batches: self.batches.load(Relaxed),
            segments_begun: self.segments_begun.load(Relaxed),
            data_syncs: self.data_syncs.load(Relaxed),
            directory_syncs: self.directory_syncs.load(Relaxed),
            reads: self.reads.load(Relaxed),
            bytes_read: self.bytes_read.load(Relaxed),
            reads_cached: self.reads_cached.load(Relaxed),
        }
    }
}

/// Adds `amount` to one count.
pub(crate) fn add(count: &AtomicU64, amount: u64) {
    count.fetch_add(amount, Relaxed);
}
