//! Arranges sealed blocks and their index as one batch, in memory that direct I/O accepts.
//!
//! Takes   space for the blocks, filled in place; their sealed tail; and at last the length of the file so far
//! Gives   the bytes of the batch and the place of each block
//! Never   writes them
//! Spec    spec/3-segment.md
//!
//! Invariants
//!  (1) A batch and all offsets in it are below SEGMENT_BYTES_MAX: its lengths are checked before it is made. The
//!      space left in the file is checked before the batch is placed there.                                [3.7]
//!  (2) Blocks follow one another in the order in which they were added; the first follows the header.

use std::ops::Range;
use std::sync::Arc;

use strongroom_format::limits::{BLOCK_BYTES_MAX, SECTOR_BYTES, sealed_len};
use strongroom_format::segment::{BATCH_HEADER_BYTES, BatchHeader, BatchSize, Checksum, batch_len};
use strongroom_format::{Location, SealedBlock, SegmentId};

use crate::buffer::{Buffer, Pool};
use crate::limits::{BATCH_BYTES_MAX, INDEX_BYTES_MAX};
use crate::unfinished::Unfinished;
use crate::{Error, Result};

/// Sealed blocks on their way to a segment, in the memory that they are written from.
///
/// The code that seals does it here, so that no block is copied afterwards. Dropping it gives the memory back.
pub struct Batch {
    pool: Arc<Pool>,
    bytes: Buffer,
    /// Sealed length of each block.
    lens: Vec<u32>,
    /// Where the next block goes.
    end: usize,
    /// Of the blocks up to `checked`, taken while they are still in the cache.
    checksum: Checksum,
    checked: usize,
}

impl Batch {
    /// Room for `blocks_len` sealed bytes and a tail of about `tail_len` bytes.
    pub(crate) fn new(pool: &Arc<Pool>, blocks_len: usize, tail_len: usize) -> Result<Self> {
        check_len(tail_len, INDEX_BYTES_MAX)?;
        check_len(blocks_len.saturating_add(tail_len), BATCH_BYTES_MAX)?;
        let room = wide(batch_len(blocks_len as u64, tail_len as u64));
        Ok(Self {
            pool: Arc::clone(pool),
            bytes: pool.take(room),
            lens: Vec::new(),
            end: BATCH_HEADER_BYTES,
            checksum: Checksum::default(),
            checked: BATCH_HEADER_BYTES,
        })
    }

    /// Copies of `blocks`, with room for a tail of about `tail_len` bytes.
    pub(crate) fn of(pool: &Arc<Pool>, blocks: &[&SealedBlock], tail_len: usize) -> Result<Self> {
        let mut batch = Self::new(pool, check_lengths(blocks)?, tail_len)?;
        for block in blocks {
            let room = batch.add(wide(u64::from(block.clear_len)));
            room.copy_from_slice(&block.bytes);
        }
        Ok(batch)
    }

    /// The room of one more block of `clear_len` bytes, `sealed_len` bytes with whatever is in them. Fill all of it.
    ///
    /// # Panics
    /// If `clear_len` is more than a block holds, or there is no room for it: `SegmentStore::batch` was asked for less. What
    /// still fits the tail's room costs a copy of the batch later.
    pub fn add(&mut self, clear_len: usize) -> &mut [u8] {
        assert!(clear_len <= BLOCK_BYTES_MAX, "content is cut into blocks");
        self.note_filled();
        let len = sealed_len(clear_len);
        let place = self.end..self.end + len; // (2)
        self.lens.push(narrow(len as u64));
        self.end = place.end;
        &mut self.bytes[place]
    }

    /// Bytes of the blocks so far.
    #[must_use]
    pub fn blocks_len(&self) -> usize {
        self.end - BATCH_HEADER_BYTES
    }

    /// Takes the blocks away for which `is_wanted`, asked once for each in order, says no, and gives their bytes.
    /// Those behind move up.
    pub fn retain(&mut self, mut is_wanted: impl FnMut(usize) -> bool) -> Vec<Vec<u8>> {
        let mut gone = Vec::new();
        let mut kept = Vec::with_capacity(self.lens.len());
        let mut end = BATCH_HEADER_BYTES;
        for (number, place) in self.places().enumerate() {
            if is_wanted(number) {
                let len = place.len();
                kept.push(narrow(len as u64));
                if place.start != end {
                    self.bytes.copy_within(place, end);
                }
                end += len;
            } else {
                gone.push(self.bytes[place].to_vec());
            }
        }
        if !gone.is_empty() {
            self.checksum = Checksum::default();
            self.checked = BATCH_HEADER_BYTES;
        }
        (self.lens, self.end) = (kept, end);
        gone
    }

    /// Where each block lies in `bytes`.
    fn places(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let mut end = BATCH_HEADER_BYTES;
        self.lens.clone().into_iter().map(move |len| {
            let start = end;
            end += wide(u64::from(len));
            start..end
        })
    }

    fn note_filled(&mut self) {
        self.checksum.update(&self.bytes[self.checked..self.end]);
        self.checked = self.end;
    }

    /// Puts the tail behind the blocks: nothing changes any more but the header.
    pub(crate) fn close(mut self, tail: Tail<'_>) -> Result<Closed> {
        if self.lens.is_empty() {
            return Err(Error::EmptyBatch);
        }
        check_len(tail.bytes.len(), INDEX_BYTES_MAX)?;
        check_len(self.blocks_len() + tail.bytes.len(), BATCH_BYTES_MAX)?;
        let len = self.end + tail.bytes.len();
        if !len.is_multiple_of(SECTOR_BYTES) {
            return Err(Error::PartOfSector { len });
        }
        self.note_filled();
        if self.bytes.len() < len {
            let mut longer = self.pool.take(len);
            longer[..self.end].copy_from_slice(&self.bytes[..self.end]);
            self.bytes = longer;
        }
        self.bytes.shorten(len);
        self.bytes[self.end..].copy_from_slice(tail.bytes);
        self.checksum.update(tail.bytes);
        Ok(Closed {
            payload_checksum: self.checksum.value(),
            bytes: self.bytes,
            lens: self.lens,
            index_len: narrow(tail.index_len as u64),
        })
    }
}

/// What follows the blocks of a batch, sealed by the layer that has keys.
#[derive(Clone, Copy, Debug)]
pub struct Tail<'a> {
    /// With header and blocks they fill whole sectors, so that nothing has to be added whose length would show.
    pub bytes: &'a [u8],
    /// How many of them a table of contents will repeat. Not written.
    pub index_len: usize,
}

/// A batch as it will lie on the disk, except for its header, which depends on where that is.
pub(crate) struct Closed {
    pub(crate) bytes: Buffer,
    lens: Vec<u32>,
    pub(crate) index_len: u32,
    payload_checksum: u32,
}

impl Closed {
    pub(crate) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Puts the header for the next place in `file` in front.
    pub(crate) fn stamp(&mut self, file: &Unfinished) -> BatchHeader {
        let header = BatchHeader {
            segment: file.header.id,
            number: file.batches,
            size: BatchSize::Sectors(narrow(self.len() / SECTOR_BYTES as u64)),
            payload_checksum: self.payload_checksum,
            previous: file.chain,
        };
        self.bytes[..BATCH_HEADER_BYTES].copy_from_slice(&header.encode());
        header
    }

    pub(crate) fn locations(&self, segment: SegmentId, offset: u64) -> Vec<Location> {
        let mut next = narrow(offset + BATCH_HEADER_BYTES as u64);
        let place = |len: &u32| {
            let location = Location {
                segment,
                offset: next,
                len: *len,
            };
            next += location.len;
            location
        };
        self.lens.iter().map(place).collect()
    }
}

/// The sum of the lengths of `blocks`, each of which has the length of its content.
fn check_lengths(blocks: &[&SealedBlock]) -> Result<usize> {
    let mut blocks_len = 0;
    for block in blocks {
        let (len, clear_len) = (block.bytes.len(), wide(u64::from(block.clear_len)));
        let expected = sealed_len(clear_len.min(BLOCK_BYTES_MAX));
        if len != expected || clear_len > BLOCK_BYTES_MAX {
            return Err(Error::BlockLength { len, expected });
        }
        blocks_len += len;
    }
    Ok(blocks_len)
}

fn check_len(len: usize, max: usize) -> Result<()> {
    if len > max {
        return Err(Error::BatchTooLong { len, max });
    }
    Ok(())
}

/// A length or offset inside one segment.
pub(crate) fn narrow(len: u64) -> u32 {
    u32::try_from(len).expect("(1) holds: nothing in a segment reaches beyond SEGMENT_BYTES_MAX")
}

/// A length inside one segment, in memory.
pub(crate) fn wide(len: u64) -> usize {
    usize::try_from(len).expect("(1) holds: nothing in a segment reaches beyond SEGMENT_BYTES_MAX")
}

#[cfg(test)]
mod tests {
    use strongroom_format::Epoch;

    use super::*;
    use crate::testing::{Folder, block};

    /// A batch of `blocks`, filled as one that seals does.
    fn filled(store: &crate::SegmentStore, blocks: &[SealedBlock], index_len: usize) -> Batch {
        let len = blocks.iter().map(|block| block.bytes.len()).sum();
        let mut batch = store.batch(len, index_len).expect("it may be so long");
        for block in blocks {
            let room = batch.add(block.clear_len as usize);
            room.copy_from_slice(&block.bytes);
        }
        batch
    }

    /// Asserts that `blocks` lie where they were said to lie, behind a checksum that fits them.
    fn assert_stored(store: &crate::SegmentStore, batch: Batch, blocks: &[&SealedBlock]) {
        let index = vec![7; 5000];
        let appended = store.put_batch(Epoch(0), batch, &index).expect("appended");
        assert_eq!(appended.locations.len(), blocks.len());
        for (block, location) in blocks.iter().zip(&appended.locations) {
            let read = store.read(*location, 0..location.len).expect("read");
            assert!(*read == *block.bytes, "{location:?}");
        }
        let scanned = store.scan(appended.segment).expect("whole");
        let last = scanned.batches.last().expect("it is there");
        assert!(last.sealed_lengths.iter().all(|byte| *byte == 7));
        let first = appended.locations[0].offset;
        assert_eq!(last.blocks_offset, first);
    }

    #[test]
    fn blocks_that_are_taken_away_leave_the_others_side_by_side() {
        let folder = Folder::new();
        let store = folder.open();
        let blocks: Vec<_> = [65_536, 100, 0, 4096, 65_536, 7]
            .into_iter()
            .map(block)
            .collect();
        for wanted in [0b11_1111, 0b01_0110, 0b10_0001, 0b00_1000] {
            let is_wanted = |number: usize| wanted >> number & 1 == 1;
            let mut batch = filled(&store, &blocks, 5000);
            let gone = batch.retain(is_wanted);
            let of = |kept: bool| {
                let numbered = blocks.iter().enumerate();
                numbered
                    .filter(|(number, _)| is_wanted(*number) == kept)
                    .map(|(_, block)| block)
                    .collect::<Vec<_>>()
            };
            let expected: Vec<_> = of(false).iter().map(|block| block.bytes.clone()).collect();
            assert!(gone == expected, "{wanted:b}");
            assert_eq!(batch.lens.len(), of(true).len());
            assert_stored(&store, batch, &of(true));
        }
    }

    #[test]
    fn an_index_longer_than_its_room_costs_a_copy_and_nothing_else() {
        let folder = Folder::new();
        let store = folder.open();
        let blocks: Vec<_> = (0..3).map(|_| block(65_536)).collect();
        let batch = filled(&store, &blocks, 0);
        assert_stored(&store, batch, &blocks.iter().collect::<Vec<_>>());
    }

    #[test]
    fn a_batch_beyond_its_limits_is_not_begun_and_an_empty_one_not_written() {
        let folder = Folder::new();
        let store = folder.open();
        for (blocks_len, index_len) in [
            (BATCH_BYTES_MAX + 1, 0),
            (BATCH_BYTES_MAX, 1),
            (0, INDEX_BYTES_MAX + 1),
            (usize::MAX, usize::MAX),
        ] {
            assert!(matches!(
                store.batch(blocks_len, index_len),
                Err(Error::BatchTooLong { .. })
            ));
        }
        let mut batch = filled(&store, &[block(10)], 0);
        batch.retain(|_| false);
        assert!(matches!(
            store.put_batch(Epoch(0), batch, b""),
            Err(Error::EmptyBatch)
        ));
        assert!(store.list().expect("listed").is_empty());
    }
}
