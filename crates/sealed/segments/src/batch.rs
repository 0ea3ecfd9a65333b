//! Lays sealed blocks and their index out as one batch, in memory that direct I/O takes.
//!
//! Takes   the blocks, their sealed index, and at last how far the file is written
//! Gives   the bytes of the batch and the place of each block
//! Never   writes them
//! Spec    spec/3-segment.md
//!
//! Invariants
//!  (1) A batch and all offsets in it are below SEGMENT_BYTES_MAX: its lengths are checked before it is
//!      made, and its room before it is placed.                                            [3.7]

use std::sync::Arc;

use strongroom_format::limits::{BLOCK_BYTES_MAX, sealed_len};
use strongroom_format::segment::{BATCH_HEADER_BYTES, BatchHeader, batch_len, checksum};
use strongroom_format::{Location, SealedBlock, SegmentId};

use crate::buffer::{Buffer, Pool};
use crate::limits::{BATCH_BYTES_MAX, INDEX_BYTES_MAX};
use crate::unfinished::Unfinished;
use crate::{Error, Result};

/// A batch as it will lie on the disk, except for its header, which depends on where that is.
pub(crate) struct Batch {
    pub(crate) bytes: Buffer,
    count: u32,
    blocks_len: u32,
    pub(crate) index_len: u32,
    payload_checksum: u32,
}

impl Batch {
    pub(crate) fn prepare(
        pool: &Arc<Pool>,
        blocks: &[&SealedBlock],
        sealed_index: &[u8],
    ) -> Result<Self> {
        let blocks_len = check_lengths(blocks, sealed_index)?;
        let mut bytes = pool.take(wide(batch_len(
            blocks_len as u64,
            sealed_index.len() as u64,
        )));
        let mut at = BATCH_HEADER_BYTES;
        for part in blocks
            .iter()
            .map(|block| block.bytes.as_slice())
            .chain([sealed_index])
        {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        bytes[at..].fill(0);
        let payload_checksum = checksum(&[&bytes[BATCH_HEADER_BYTES..at]]);
        Ok(Self {
            bytes,
            count: narrow(blocks.len() as u64),
            blocks_len: narrow(blocks_len as u64),
            index_len: narrow(sealed_index.len() as u64),
            payload_checksum,
        })
    }

    pub(crate) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Puts the header for the next place in `file` in front.
    pub(crate) fn stamp(&mut self, file: &Unfinished) -> BatchHeader {
        let header = BatchHeader {
            segment: file.header.id,
            number: file.batches,
            count: self.count,
            blocks_len: self.blocks_len,
            index_len: self.index_len,
            payload_checksum: self.payload_checksum,
            previous: file.chain,
        };
        self.bytes[..BATCH_HEADER_BYTES].copy_from_slice(&header.encode());
        header
    }

    pub(crate) fn locations(
        &self,
        segment: SegmentId,
        offset: u64,
        blocks: &[&SealedBlock],
    ) -> Vec<Location> {
        let mut next = narrow(offset + BATCH_HEADER_BYTES as u64);
        let place = |block: &&SealedBlock| {
            let location = Location {
                segment,
                offset: next,
                len: narrow(block.bytes.len() as u64),
            };
            next += location.len;
            location
        };
        blocks.iter().map(place).collect()
    }
}

/// The sum of the lengths of `blocks`, if the batch may be written.
fn check_lengths(blocks: &[&SealedBlock], sealed_index: &[u8]) -> Result<usize> {
    if blocks.is_empty() {
        return Err(Error::EmptyBatch);
    }
    if sealed_index.len() > INDEX_BYTES_MAX {
        return Err(Error::BatchTooLong {
            len: sealed_index.len(),
            max: INDEX_BYTES_MAX,
        });
    }
    let mut blocks_len = 0;
    for block in blocks {
        let (len, clear_len) = (block.bytes.len(), wide(u64::from(block.clear_len)));
        let expected = sealed_len(clear_len.min(BLOCK_BYTES_MAX));
        if len != expected || clear_len > BLOCK_BYTES_MAX {
            return Err(Error::BlockLength { len, expected });
        }
        blocks_len += len;
    }
    let len = blocks_len + sealed_index.len();
    if len > BATCH_BYTES_MAX {
        return Err(Error::BatchTooLong {
            len,
            max: BATCH_BYTES_MAX,
        });
    }
    Ok(blocks_len)
}

/// A length or offset inside one segment.
pub(crate) fn narrow(len: u64) -> u32 {
    u32::try_from(len).expect("(1) holds: nothing in a segment reaches beyond SEGMENT_BYTES_MAX")
}

/// A length inside one segment, in memory.
pub(crate) fn wide(len: u64) -> usize {
    usize::try_from(len).expect("(1) holds: nothing in a segment reaches beyond SEGMENT_BYTES_MAX")
}
