//! The index of a batch and the table of contents of a segment: they list the blocks in order. Both are stored sealed.
//!
//! Takes   entries, or bytes that a key holder has opened
//! Gives   bytes for entries, entries for bytes
//! Never   panics, or allocates more than in proportion to the given bytes
//! Spec    spec/3-segment.md
//!
//! Layout, little-endian: count u32, then for each entry id 32 ‖ kind u16 ‖ clear length u32. In a table of contents an
//! offset precedes each index. Offset 0 ends the table: only zeros follow.

use crate::BlockId;
use crate::limits::BLOCK_BYTES_MAX;
use crate::segment::all_zero;

/// Bytes of one entry.
pub const ENTRY_BYTES: usize = 32 + 2 + 4;

/// Bytes of an index of `count` blocks.
#[must_use]
pub const fn index_len(count: usize) -> usize {
    4 + count * ENTRY_BYTES
}

/// One block of a batch. Its offset follows from the sealed lengths of those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    /// The block's name.
    pub id: BlockId,
    /// What it is: a `Kind`, kept as a number so that an older reader can pass over newer kinds.
    pub kind: u16,
    /// Bytes of clear content.
    pub clear_len: u32,
}

/// Why bytes are no index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    /// The count and the length do not agree.
    #[error(
        "a batch index has {len} bytes, which does not match the number of entries that it states"
    )]
    Length {
        /// Bytes given.
        len: usize,
    },
    /// A block longer than any can be.
    #[error("a batch index names a block of {clear_len} bytes, longer than any block can be")]
    BlockTooLong {
        /// The length it gives.
        clear_len: u32,
    },
}

/// The bytes of an index.
#[must_use]
pub fn encode_index(entries: &[IndexEntry]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(index_len(entries.len()));
    let count = u32::try_from(entries.len()).unwrap_or(u32::MAX);
    bytes.extend_from_slice(&count.to_le_bytes());
    for entry in entries.iter().take(count as usize) {
        bytes.extend_from_slice(&entry.id.0);
        bytes.extend_from_slice(&entry.kind.to_le_bytes());
        bytes.extend_from_slice(&entry.clear_len.to_le_bytes());
    }
    bytes
}

/// The table of contents of a segment: per batch the offset of its first block, then its index.
#[must_use]
pub fn encode_contents(batches: &[(u32, Vec<IndexEntry>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (first, entries) in batches {
        bytes.extend_from_slice(&first.to_le_bytes());
        bytes.extend_from_slice(&encode_index(entries));
    }
    bytes
}

/// The batches of a table of contents.
///
/// # Errors
/// `IndexError` if the bytes are not exactly one table.
pub fn decode_contents(bytes: &[u8]) -> Result<Vec<(u32, Vec<IndexEntry>)>, IndexError> {
    let wrong = IndexError::Length { len: bytes.len() };
    let mut batches = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        if rest.iter().take(4).all(|&byte| byte == 0) {
            return if all_zero(rest) {
                Ok(batches)
            } else {
                Err(wrong)
            };
        }
        let (first, tail) = rest.split_first_chunk::<4>().ok_or(wrong)?;
        let count = u32::from_le_bytes(*tail.first_chunk::<4>().ok_or(wrong)?);
        let len = usize::try_from(count)
            .ok()
            .and_then(|count| count.checked_mul(ENTRY_BYTES)?.checked_add(4));
        let (index, tail) = len
            .and_then(|len| tail.split_at_checked(len))
            .ok_or(wrong)?;
        batches.push((u32::from_le_bytes(*first), decode_index(index)?));
        rest = tail;
    }
    Ok(batches)
}

/// The entries of an index.
///
/// # Errors
/// `IndexError` if the bytes are not exactly one index.
pub fn decode_index(bytes: &[u8]) -> Result<Vec<IndexEntry>, IndexError> {
    let wrong = IndexError::Length { len: bytes.len() };
    let (count, rest) = bytes.split_first_chunk::<4>().ok_or(wrong)?;
    let count = usize::try_from(u32::from_le_bytes(*count)).map_err(|_| wrong)?;
    if rest.len() % ENTRY_BYTES != 0 || rest.len() / ENTRY_BYTES != count {
        return Err(wrong);
    }
    rest.chunks_exact(ENTRY_BYTES)
        .map(|entry| decode_entry(entry).ok_or(wrong)?)
        .collect()
}

fn decode_entry(bytes: &[u8]) -> Option<Result<IndexEntry, IndexError>> {
    let (id, rest) = bytes.split_first_chunk::<32>()?;
    let (kind, rest) = rest.split_first_chunk::<2>()?;
    let clear_len = u32::from_le_bytes(*rest.first_chunk::<4>()?);
    if clear_len as usize > BLOCK_BYTES_MAX {
        return Some(Err(IndexError::BlockTooLong { clear_len }));
    }
    Some(Ok(IndexEntry {
        id: BlockId(*id),
        kind: u16::from_le_bytes(*kind),
        clear_len,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries() -> Vec<IndexEntry> {
        (0..3)
            .map(|n| IndexEntry {
                id: BlockId([n; 32]),
                kind: 1,
                clear_len: 65536,
            })
            .collect()
    }

    #[test]
    fn an_index_survives_the_way_through_bytes() {
        assert_eq!(decode_index(&encode_index(&entries())), Ok(entries()));
        assert_eq!(decode_index(&encode_index(&[])), Ok(Vec::new()));
    }

    #[test]
    fn an_index_cut_anywhere_or_with_a_byte_too_many_is_refused() {
        let bytes = encode_index(&entries());
        for len in 0..bytes.len() {
            assert!(decode_index(&bytes[..len]).is_err(), "{len}");
        }
        assert!(decode_index(&[bytes, vec![0]].concat()).is_err());
    }

    #[test]
    fn a_table_of_contents_survives_and_every_cut_inside_a_batch_is_refused() {
        let batches = vec![
            (4096, entries()),
            (200_000, Vec::new()),
            (300_000, entries()),
        ];
        let bytes = encode_contents(&batches);
        assert_eq!(decode_contents(&bytes).as_ref(), Ok(&batches));
        let mut padded = bytes.clone();
        padded.resize(bytes.len() + 5000, 0);
        assert_eq!(decode_contents(&padded).as_ref(), Ok(&batches));
        padded.push(1);
        assert!(decode_contents(&padded).is_err());
        // Cut behind its first byte, a zero, it is padding alone.
        let whole = [0, 1, 8 + 3 * ENTRY_BYTES, 16 + 3 * ENTRY_BYTES];
        for len in (0..bytes.len()).filter(|len| !whole.contains(len)) {
            assert!(decode_contents(&bytes[..len]).is_err(), "{len}");
        }
    }

    #[test]
    fn a_count_beyond_the_bytes_and_a_block_beyond_the_bound_are_refused() {
        assert!(decode_index(&u32::MAX.to_le_bytes()).is_err());
        let long = [IndexEntry {
            id: BlockId([0; 32]),
            kind: 1,
            clear_len: 65537,
        }];
        assert_eq!(
            decode_index(&encode_index(&long)),
            Err(IndexError::BlockTooLong { clear_len: 65537 })
        );
    }
}
