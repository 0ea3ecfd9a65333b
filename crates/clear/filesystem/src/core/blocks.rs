//! Where sealed blocks are stored, the keys that seal them, and their known state.
//!
//! Takes   clear bytes to seal; notes of blocks that opened or did not
//! Gives   sealed blocks; the segments; which blocks new content may share
//! Never   sees nodes or directory entries
//!
//! Locks, outermost first: `Sealers` → `placing`. The others are taken one at a time, for memory work only; but `contents` is
//! held during each append.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, RwLock};
use strongroom_crypto::{BlockSealer, Pool};
use strongroom_format::index::IndexEntry;
use strongroom_format::{Epoch, Kind, SealedBlock, SegmentId};
use strongroom_metadata::{Block, BlockNumber, Place, SegmentNumber, Transaction};
use strongroom_segments::SegmentStore;

use crate::Result;
use crate::core::opened_blocks::OpenedBlocks;
use crate::core::sealers::{Sealers, Sealing};

/// Per batch of a segment the offset of its first block, and its index.
pub(crate) type Contents = Vec<(u32, Vec<IndexEntry>)>;

/// Counts of content sealed.
#[derive(Default)]
pub(crate) struct SealedCounts {
    pub(crate) blocks: AtomicU64,
    /// In clear.
    pub(crate) bytes: AtomicU64,
    /// How many fewer were sealed, for they were compressed.
    pub(crate) bytes_saved: AtomicU64,
}

/// What stores sealed blocks.
pub(crate) struct Blocks {
    pub(crate) segments: SegmentStore,
    pub(crate) sealers: Sealers,
    pub(crate) pool: Pool,
    /// Reads that open blocks at the moment.
    pub(crate) opening: AtomicUsize,
    pub(crate) sealed: SealedCounts,
    /// Highest sequence of a batch whose blocks are installed.
    installed: AtomicU64,
    /// Epoch and batch indexes of segments begun in this session, for their tables of contents. Held over each
    /// append.
    pub(crate) contents: Mutex<HashMap<SegmentId, (Epoch, Contents)>>,
    /// Shared from an append until its rows are written; exclusive for unlinking.
    pub(crate) placing: RwLock<()>,
    /// How many want every segment file to stay, see `backup.rs`.
    pub(crate) keepers: AtomicUsize,
    /// Blocks that did not open, and segments that are lost or damaged: no new content is named after them.
    suspects: Mutex<Suspects>,
    /// Counted, because jobs of the pool ask it.
    pub(crate) opened: Arc<OpenedBlocks>,
}

#[derive(Default)]
struct Suspects {
    blocks: HashSet<BlockNumber>,
    segments: HashSet<SegmentNumber>,
}

impl Blocks {
    pub(crate) fn new(segments: SegmentStore, sealer: BlockSealer, pool: Pool) -> Self {
        Self {
            segments,
            sealers: Sealers::new(sealer),
            pool,
            opening: AtomicUsize::new(0),
            sealed: SealedCounts::default(),
            installed: AtomicU64::new(0),
            contents: Mutex::default(),
            placing: RwLock::default(),
            keepers: AtomicUsize::new(0),
            suspects: Mutex::default(),
            opened: Arc::default(),
        }
    }

    /// Seals content of files on all cores, and counts it.
    pub(crate) fn seal<B>(&self, sealing: &Sealing<'_>, clear: Vec<B>) -> Vec<SealedBlock>
    where
        B: AsRef<[u8]> + Send + 'static,
    {
        let pairs = sealing.seal_all(&self.pool, Kind::Data, clear);
        let (mut blocks, mut bytes, mut stored) = (Vec::with_capacity(pairs.len()), 0, 0);
        for (block, clear) in pairs {
            bytes += clear.as_ref().len() as u64;
            stored += u64::from(block.clear_len);
            blocks.push(block);
        }
        self.count_sealed(blocks.len(), bytes, stored);
        blocks
    }

    /// Counts blocks of content that were sealed; `stored` of their `bytes` are left after compression.
    pub(crate) fn count_sealed(&self, blocks: usize, bytes: u64, stored: u64) {
        let counts = &self.sealed;
        counts.blocks.fetch_add(blocks as u64, Ordering::Relaxed);
        counts.bytes.fetch_add(bytes, Ordering::Relaxed);
        counts
            .bytes_saved
            .fetch_add(bytes - stored, Ordering::Relaxed);
    }

    /// Rows name the blocks of the batch `sequence` now.
    pub(crate) fn note_installed(&self, sequence: u64) {
        self.installed.fetch_max(sequence, Ordering::AcqRel);
    }

    /// The last batch that must be synced before a commit.
    pub(crate) fn installed(&self) -> u64 {
        self.installed.load(Ordering::Acquire)
    }

    /// Whether every segment file is to stay. Hold the writer where that is to last.
    pub(crate) fn keeps_segments(&self) -> bool {
        self.keepers.load(Ordering::Acquire) > 0
    }

    /// This block did not open.
    pub(crate) fn suspect_block(&self, number: BlockNumber) {
        self.suspects.lock().blocks.insert(number);
        self.opened.forget(number);
    }

    /// The blocks that did not open: for a transaction, which may trust some and be rolled back.
    pub(crate) fn suspected_blocks(&self) -> Vec<BlockNumber> {
        self.suspects.lock().blocks.iter().copied().collect()
    }

    /// This segment is lost or damaged.
    pub(crate) fn suspect_segment(&self, number: SegmentNumber) {
        self.suspects.lock().segments.insert(number);
        self.opened.forget_all();
    }

    /// This block has good bytes again.
    pub(crate) fn trust(&self, number: BlockNumber) {
        self.suspects.lock().blocks.remove(&number);
    }

    /// Whether the stored bytes of a block are known to be damaged or lost.
    pub(crate) fn is_suspect(&self, reads: &Transaction<'_>, number: BlockNumber) -> Result<bool> {
        {
            let suspects = self.suspects.lock();
            if suspects.blocks.is_empty() && suspects.segments.is_empty() {
                return Ok(false);
            }
        }
        let block = reads.block(number)?;
        Ok(block.is_some_and(|block| self.is_suspect_block(&block)))
    }

    /// The same of a block whose row is at hand.
    pub(crate) fn is_suspect_block(&self, block: &Block) -> bool {
        let suspects = self.suspects.lock();
        let lost = matches!(block.place, Place::Segment(segment, _) if suspects.segments.contains(&segment));
        lost || suspects.blocks.contains(&block.number)
    }
}
