//! Every bound of the format, in one place.

/// The most plaintext one sealed block holds, in bytes. Also the grid that file content is cut on.
pub const BLOCK_BYTES_MAX: usize = 64 * 1024;

/// Plaintext bytes per AEAD chunk inside a block: what a read must open at least.
pub const CHUNK_BYTES: usize = 16 * 1024;

/// Bytes of one AEAD tag.
pub const TAG_BYTES: usize = 16;

/// The longest sealed block, in bytes: a full block and a tag for each of its chunks.
pub const SEALED_BYTES_MAX: usize = sealed_len(BLOCK_BYTES_MAX);

/// A segment is finished before it grows past this, in bytes.
pub const SEGMENT_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Batches begin and end on this boundary, in bytes, so that a torn write touches no older batch.
pub const SECTOR_BYTES: usize = 4096;

/// Length in bytes of a block sealed from `clear_len` bytes.
///
/// A block of no bytes still has one chunk, so that its tag exists.
#[must_use]
pub const fn sealed_len(clear_len: usize) -> usize {
    let chunks = if clear_len == 0 { 1 } else { clear_len.div_ceil(CHUNK_BYTES) };
    clear_len + chunks * TAG_BYTES
}
