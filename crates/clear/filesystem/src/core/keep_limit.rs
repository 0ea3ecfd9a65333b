//! The limit for the content that this device keeps, and which segments were read last.
//!
//! Takes   a limit in bytes, or none; segments as they are read
//! Gives   the same limit at every later opening; the order in which segments were read
//! Never   stores which segments were read, because then reading would cost commits; notes no reads while there is no limit
//! Spec    spec/11-sync.md, [11.9.9]
//!
//! The order covers the reads of this process. For a segment that this process has not read, the times of its file are used: see
//! `last_use` in `upkeep/limit.rs`.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use strongroom_format::SegmentId;
use strongroom_metadata::{Reads, Transaction};

use crate::limits::{JUST_READ_SEGMENTS, LAST_READS_MAX};
use crate::{Error, Result};

/// The setting that holds the limit: 8 bytes, little-endian; no bytes for no limit.
const KEEP_AT_MOST: &str = "keep_at_most";

/// Stands for no limit.
const NONE: u64 = u64::MAX;

/// The limit of this device, and what it read last.
pub(crate) struct KeepLimit {
    bytes: AtomicU64,
    reads: Mutex<LastReads>,
}

/// At most `LAST_READS_MAX` segments in each map: the older one goes as a whole.
#[derive(Default)]
struct LastReads {
    /// Counts reads of another segment than the one before.
    count: u64,
    recent: HashMap<SegmentId, u64>,
    older: HashMap<SegmentId, u64>,
    /// The last `JUST_READ_SEGMENTS`, the newest at the end.
    just_read: VecDeque<SegmentId>,
}

impl KeepLimit {
    /// As the last run left it.
    ///
    /// # Errors
    /// Of the store; damage if the setting is not as written.
    pub(crate) fn load(reads: &Reads) -> Result<Self> {
        let value = reads.setting(KEEP_AT_MOST)?.unwrap_or_default();
        let bytes = match value.is_empty() {
            true => NONE,
            false => <[u8; 8]>::try_from(value)
                .map(u64::from_le_bytes)
                .map_err(|_| {
                    Error::Metadata(strongroom_metadata::Error::Damaged(
                        "the stored limit for content on this device is invalid",
                    ))
                })?,
        };
        Ok(Self {
            bytes: AtomicU64::new(bytes),
            reads: Mutex::default(),
        })
    }

    /// The limit, if there is one.
    pub(crate) fn bytes(&self) -> Option<u64> {
        Some(self.bytes.load(Ordering::Acquire)).filter(|bytes| *bytes != NONE)
    }

    /// Takes a new limit into the transaction and into memory, in one step.
    pub(crate) fn put(&self, writer: &mut Transaction<'_>, bytes: Option<u64>) -> Result<()> {
        let encoded = bytes.map(u64::to_le_bytes);
        let encoded = encoded.as_ref().map_or(&[][..], |bytes| bytes);
        writer.put_setting(KEEP_AT_MOST, encoded)?;
        self.bytes.store(bytes.unwrap_or(NONE), Ordering::Release);
        if bytes.is_none() {
            *self.reads.lock() = LastReads::default();
        }
        Ok(())
    }

    /// These segments are read now.
    pub(crate) fn note_reads(&self, segments: impl Iterator<Item = SegmentId>) {
        if self.bytes().is_none() {
            return;
        }
        let mut reads = self.reads.lock();
        for id in segments {
            reads.note(id);
        }
    }

    /// When a segment was read last, in the order of this process; `None` if that is not known.
    pub(crate) fn last_read(&self, id: SegmentId) -> Option<u64> {
        let reads = self.reads.lock();
        reads
            .recent
            .get(&id)
            .or_else(|| reads.older.get(&id))
            .copied()
    }

    /// Whether a segment is among the last that were read.
    pub(crate) fn is_just_read(&self, id: SegmentId) -> bool {
        self.reads.lock().just_read.contains(&id)
    }
}

impl LastReads {
    fn note(&mut self, id: SegmentId) {
        // Most reads are of the segment that was read before.
        if self.just_read.back() == Some(&id) {
            return;
        }
        self.just_read.retain(|other| *other != id);
        if self.just_read.len() >= JUST_READ_SEGMENTS {
            self.just_read.pop_front();
        }
        self.just_read.push_back(id);
        if self.recent.len() >= LAST_READS_MAX {
            self.older = std::mem::take(&mut self.recent);
        }
        self.count += 1;
        self.recent.insert(id, self.count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(bytes: u64) -> KeepLimit {
        KeepLimit {
            bytes: AtomicU64::new(bytes),
            reads: Mutex::default(),
        }
    }

    fn segment(number: usize) -> SegmentId {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&number.to_le_bytes()[..8]);
        SegmentId(id)
    }

    #[test]
    fn what_was_read_last_is_known_in_order_and_nothing_without_a_limit() {
        let (limited, unlimited) = (limit(1), limit(NONE));
        for limit in [&limited, &unlimited] {
            limit.note_reads([1, 2, 3, 1].into_iter().map(segment));
        }
        assert!(limited.last_read(segment(1)) > limited.last_read(segment(3)));
        assert!(limited.last_read(segment(3)) > limited.last_read(segment(2)));
        assert_eq!(limited.last_read(segment(4)), None);
        assert_eq!(unlimited.last_read(segment(1)), None);
        assert!(limited.is_just_read(segment(2)) && !unlimited.is_just_read(segment(2)));
        limited.note_reads((10..10 + JUST_READ_SEGMENTS).map(segment));
        assert!(!limited.is_just_read(segment(1)));
        assert!(limited.is_just_read(segment(10)));
        assert!(limited.last_read(segment(1)).is_some());
    }

    /// Goal: memory is bounded, and what was read last is remembered.
    #[test]
    fn what_was_read_long_ago_is_forgotten() {
        let limit = limit(1);
        limit.note_reads((0..3 * LAST_READS_MAX).map(segment));
        let reads = limit.reads.lock();
        assert!(reads.recent.len() + reads.older.len() <= 2 * LAST_READS_MAX);
        assert_eq!(reads.just_read.len(), JUST_READ_SEGMENTS);
        drop(reads);
        assert_eq!(limit.last_read(segment(0)), None);
        let last = 3 * LAST_READS_MAX - 1;
        assert!(limit.last_read(segment(last)) > limit.last_read(segment(last - 1)));
    }
}
