//! The options for opening a store, and the counts that it keeps.

use std::io;

use strongroom_format::limits::SEGMENT_BYTES_MAX;
use strongroom_format::{SegmentId, SuiteId};

/// What may be done with the segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everything.
    ReadWrite,
    /// Nothing on the disk changes, not even a folder.
    ReadOnly,
}

/// How bytes move between memory and the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// `O_DIRECT`: past the page cache.
    Direct,
    /// `RWF_DONTCACHE`: through the page cache, and out of it at once.
    DontCache,
    /// Through the page cache, and advised out of it after reads and syncs.
    Buffered,
}

/// How the store chooses its `Transfer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectIo {
    /// The first that the file system takes, in the order of `Transfer`.
    Auto,
    /// Like `Auto`, without `Direct`.
    Off,
    /// This one; opening fails if the file system does not take it.
    Only(Transfer),
}

/// Gives a fresh name for each segment; must not repeat.
pub type NameSource = Box<dyn Fn() -> io::Result<SegmentId> + Send + Sync>;

/// A name from the system's random generator: what a `NameSource` is outside of tests.
///
/// # Errors
/// If the generator is dead.
pub fn random_name() -> io::Result<SegmentId> {
    let mut name = [0; 16];
    getrandom::fill(&mut name).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(SegmentId(name))
}

/// How to open a store.
pub struct StoreOptions {
    /// Written into the header of each new segment.
    pub suite: SuiteId,
    /// What may be done.
    pub access: Access,
    /// How the store chooses its `Transfer`.
    pub direct: DirectIo,
    /// Where the names of new segments come from.
    pub names: NameSource,
    /// A batch that would make a file longer than this begins another, in bytes; at most `SEGMENT_BYTES_MAX`. The first
    /// batch of a file goes there in any case.
    pub segment_bytes_max: u64,
}

/// What a store did since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes of acknowledged batches, headers and padding included.
    pub bytes_appended: u64,
    /// Acknowledged batches.
    pub batches: u64,
    /// Segment files begun.
    pub segments_begun: u64,
    /// `fdatasync` calls on segment files.
    pub data_syncs: u64,
    /// `fsync` calls on folders.
    pub directory_syncs: u64,
    /// Read calls, one for each contiguous run.
    pub reads: u64,
    /// Bytes those calls moved, alignment included.
    pub bytes_read: u64,
    /// Small reads that the page cache answered, beside those calls.
    pub reads_cached: u64,
}

impl StoreOptions {
    /// For reading and writing, direct if the file system takes it, with random names.
    #[must_use]
    pub fn new(suite: SuiteId) -> Self {
        Self {
            suite,
            access: Access::ReadWrite,
            direct: DirectIo::Auto,
            names: Box::new(random_name),
            segment_bytes_max: SEGMENT_BYTES_MAX,
        }
    }
}
