//! The facts that a limit for the content on this device needs: how much is here, and when each segment was last used.
//!
//! Takes   an open file system
//! Gives   bytes of segments that are here; the order in which segments may be evicted
//! Never   evicts: the vault does, which asks a remote first
//! Spec    spec/11-sync.md, [11.9.9]

use strongroom_format::SegmentId;
use strongroom_metadata::{SegmentState, has_no_file};

use crate::upkeep::evict::AwaySize;
use crate::{Filesystem, Result};

/// When a segment was used last. What this process has read counts as later than everything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LastUse {
    /// The second since 1970 in which its file was last written, fetched or read, as far as the disk notes reading.
    File(u64),
    /// A place in the order of the reads of this process.
    Read(u64),
}

impl Filesystem {
    /// How many bytes of segments this device keeps at most; `None` if it keeps all that comes.
    #[must_use]
    pub fn keep_at_most(&self) -> Option<u64> {
        self.core.keep_limit.bytes()
    }

    /// What is away, and the bytes of all segments that are here, as their rows say.
    ///
    /// # Errors
    /// Of the store.
    pub fn away_and_here(&self) -> Result<(AwaySize, u64)> {
        let (mut away, mut here) = (AwaySize::default(), 0_u64);
        for row in self.core.store.lock().segments()? {
            if row.state == SegmentState::Away {
                away.segments += 1;
                away.bytes += row.live_bytes;
            } else if !has_no_file(&row.id) {
                here = here.saturating_add(row.committed_len);
            }
        }
        Ok((away, here))
    }

    /// When a segment was used last.
    #[must_use]
    pub fn last_use(&self, id: SegmentId) -> LastUse {
        match self.core.keep_limit.last_read(id) {
            Some(number) => LastUse::Read(number),
            None => LastUse::File(self.core.blocks.segments.last_used_s(id).unwrap_or(0)),
        }
    }

    /// Whether a segment is among the last that were read here: whoever reads it may be in the middle.
    #[must_use]
    pub fn is_just_read(&self, id: SegmentId) -> bool {
        self.core.keep_limit.is_just_read(id)
    }
}
