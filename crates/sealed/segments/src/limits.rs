//! The bounds of the segment store, except those that one file alone uses: they are at the head of that file.

use strongroom_format::limits::{SECTOR_BYTES, SEGMENT_BYTES_MAX};
use strongroom_format::segment::{FIRST_BATCH_OFFSET, batch_len, ending_len};

/// The most bytes one batch holds: its blocks and its index together.
pub const BATCH_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The longest sealed index of one batch, in bytes.
pub const INDEX_BYTES_MAX: usize = 2 * 1024 * 1024;

/// The most open segment files kept for reading. Each costs a descriptor, and a process has 1024 by default.
pub const OPEN_FILES_MAX: usize = 256;

/// Of the descriptors that the process may have, they take one in so many.
pub const OPEN_FILES_SHARE: u64 = 4;

/// So many are kept in any case.
pub const OPEN_FILES_MIN: usize = 4;

/// The most memory that idle buffers keep, in bytes; beyond it they go back to the system.
/// Buffers in use are bounded by the callers: at most one run for a read, two rounds of batches for a drain (`filesystem/src/blocks/stream.rs`).
pub const IDLE_BUFFER_BYTES_MAX: usize = 32 * 1024 * 1024;

/// The longest run that `read_many` reads by one call, in bytes.
pub const RUN_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Two blocks with at most this many bytes between them are read by one call: moving so few costs less
/// than another request. It covers the index and the header between two batches of large blocks.
pub const RUN_GAP_BYTES_MAX: u64 = 16 * 1024;

/// The longest read, in bytes, that may be served from, or fetch, the stretch around it.
pub const NEAR_READ_BYTES_MAX: u64 = 32 * 1024;

/// A stretch around small reads, in bytes: some 25 files of 5 KB. A disk takes hardly twice as long for it as for a sector.
pub const STRETCH_BYTES: u64 = 128 * 1024;

/// How many stretches one read fetches where reads go on from one stretch to the next: 512 KiB, some 100 files of 5 KB.
pub const STRETCHES_AHEAD: u64 = 4;

/// The most runs of stretches kept: 4 MiB of memory.
pub const RUNS_MAX: usize = 8;

/// So many small reads are remembered, to see whether another one goes nearby.
pub const RECENT_READS_MAX: usize = 8;

/// What is fetched together where small reads are dense, in bytes: a disk takes hardly longer for it than for the 8 KiB of one.
pub const GRAIN_BYTES: u64 = 32 * 1024;

/// Small reads in a segment from which on they are dense: an eighth of its chunks. With fewer most grains would be fetched for
/// one read.
pub const DENSE_READS_MIN: u32 = 512;

/// The most segments whose small reads are counted: those of 64 GiB, in half a MiB.
pub const DENSE_SEGMENTS_MAX: usize = 4096;

/// The room kept at the end of a file for its table of contents, in bytes, when its batches' indexes sum
/// up to `index_bytes`: as many, an eighth for wider offsets and further tags, and one sector.
#[must_use]
pub const fn contents_bytes_max(index_bytes: u64) -> u64 {
    index_bytes + index_bytes / 8 + SECTOR_BYTES as u64
}

// The longest batch fits into an empty file.
const _: () = assert!(
    FIRST_BATCH_OFFSET
        + batch_len(BATCH_BYTES_MAX as u64, 0)
        + ending_len(contents_bytes_max(INDEX_BYTES_MAX as u64))
        <= SEGMENT_BYTES_MAX
);
