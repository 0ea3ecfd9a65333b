//! The store. SIGNATURES for parallel work; bodies follow within the hour.
#![allow(clippy::todo, unused_variables, dead_code, missing_docs, clippy::allow_attributes_without_reason)]
use std::{ops::Range, path::Path, sync::Arc};
use strongroom_format::{Epoch, Location, SealedBlock, SegmentId, segment::SegmentHeader};
use crate::{Counters, Result, StoreOptions, Transfer};

/// The segment files of one vault. Used from many threads behind an `Arc`.
pub struct SegmentStore {}

/// Where a batch went.
#[derive(Clone, Debug)]
pub struct Appended {
    /// The file it went to.
    pub segment: SegmentId,
    /// One place per block, in the order given.
    pub locations: Vec<Location>,
    /// Whether this batch began the file: its row is to be inserted.
    pub started: bool,
    /// The file that this batch found no room in: call `finish` on it, now or later, even after a restart.
    pub full: Option<SegmentId>,
    /// End of the batch in the file: its `committed_len` once the caller has committed it.
    pub end: u64,
    /// Give this to `sync`.
    pub sequence: u64,
}

/// What `recover_open` found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Cut behind the last committed batch; the next append of `epoch` goes on there if it fits.
    Resumed { epoch: Epoch, cut_bytes: u64 },
    /// It was finished before the crash, with exactly the committed batches. Nothing to do but to say so.
    Finished,
    /// The committed part is not whole. Left untouched and not appended to: `valid_len` bytes of it are whole.
    Damaged { valid_len: u64 },
}

/// A part of a sealed block to read: `range` counts bytes within the sealed block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part { pub location: Location, pub range: Range<u32> }

/// Sealed bytes as they lie on the disk, in a buffer that returns to its pool when dropped.
#[derive(Clone)]
pub struct SealedBytes { bytes: Arc<Vec<u8>> }
impl std::ops::Deref for SealedBytes { type Target = [u8]; fn deref(&self) -> &[u8] { &self.bytes } }

/// What a file tells without any database.
#[derive(Clone, Debug)]
pub struct Scanned { pub header: SegmentHeader, pub batches: Vec<ScannedBatch>, pub end: u64, pub tail: Tail }

/// A whole batch.
#[derive(Clone, Debug)]
pub struct ScannedBatch {
    /// First byte of the batch in the file.
    pub offset: u64,
    /// First byte of its first block in the file: what the offsets in the index count from.
    pub blocks_offset: u32,
    pub blocks_len: u32,
    pub count: u32,
    /// The sealed index.
    pub sealed_index: Vec<u8>,
}

/// What follows the last whole batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tail {
    /// A table of contents and a footer.
    Finished { sealed_contents: Vec<u8> },
    /// Nothing, or zeros.
    Open,
    /// A batch or footer that is not whole.
    Torn,
}

impl SegmentStore {
    /// Opens the folder `segments` (made if missing and allowed).
    pub fn open(folder: &Path, options: StoreOptions) -> Result<Self> { todo!() }
    pub fn transfer(&self) -> Transfer { todo!() }
    /// Writes one batch; NOT durable before `sync`. All or nothing; never touches acknowledged bytes.
    pub fn append(&self, epoch: Epoch, blocks: &[&SealedBlock], sealed_index: &[u8]) -> Result<Appended> { todo!() }
    /// Everything acknowledged up to `sequence` (batches, finished files, new names) is durable on return.
    pub fn sync(&self, sequence: u64) -> Result<()> { todo!() }
    /// Writes the sealed table of contents and the footer; gives the sequence to `sync` before saying so in the database.
    pub fn finish(&self, id: SegmentId, sealed_contents: &[u8]) -> Result<u64> { todo!() }
    /// The segment that the next append goes on with, if it fits and has its epoch.
    pub fn open_segment(&self) -> Option<SegmentId> { todo!() }
    /// At open, for each segment whose row says Open, in the order they were begun; the last one is appended to.
    pub fn recover_open(&self, id: SegmentId, committed_len: u64) -> Result<Recovery> { todo!() }
    /// `range` counts bytes within the sealed block. `Error::Missing`: look the block up again.
    pub fn read(&self, location: Location, range: Range<u32>) -> Result<SealedBytes> { todo!() }
    /// Contiguous runs become one read each; same order as `parts`; each part fails alone.
    pub fn read_many(&self, parts: &[Part]) -> Vec<Result<SealedBytes>> { todo!() }
    /// Unlinks; reads under way go on. Not an error when it is gone already.
    pub fn remove(&self, id: SegmentId) -> Result<()> { todo!() }
    /// Makes removals durable (only needed where a key is destroyed after).
    pub fn sync_removals(&self) -> Result<()> { todo!() }
    pub fn list(&self) -> Result<Vec<SegmentId>> { todo!() }
    pub fn scan(&self, id: SegmentId) -> Result<Scanned> { todo!() }
    /// Length of the file in bytes.
    pub fn len(&self, id: SegmentId) -> Result<u64> { todo!() }
    pub fn counters(&self) -> Counters { todo!() }
}
