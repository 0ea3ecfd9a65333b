//! Reads a segment file without a database: its whole batches, and the state of its end.
//!
//! Takes   the name of a segment
//! Gives   its batches, in order, and its sealed table of contents
//! Never   changes the file, or uses more memory than the largest segment has bytes
//! Spec    spec/3-segment.md

use strongroom_format::SegmentId;
use strongroom_format::limits::{SECTOR_BYTES, SEGMENT_BYTES_MAX};
use strongroom_format::segment::{
    BATCH_HEADER_BYTES, Batch, SaidLengths, ScanTail, SegmentFormatError, SegmentHeader, scan,
};

use crate::batch::narrow;
use crate::buffer::Buffer;
use crate::counters::add;
use crate::disk::SegmentFile;
use crate::{Error, Result, SegmentStore};

/// What a file tells by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scanned {
    /// Its first record.
    pub header: SegmentHeader,
    /// Its whole batches, in order.
    pub batches: Vec<ScannedBatch>,
    /// End of the last whole batch in bytes.
    pub end: u64,
    /// What follows.
    pub tail: Tail,
}

/// A whole batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScannedBatch {
    /// First byte of the batch in the file.
    pub offset: u32,
    /// First byte of its first block in the file: the offsets in the index count from here.
    pub blocks_offset: u32,
    /// How many sectors it takes.
    pub sectors: u32,
    /// Its lengths, sealed; nothing where its header tells them.
    pub sealed_lengths: Vec<u8>,
}

/// What follows the last whole batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tail {
    /// A footer for exactly these batches: the file never changes again.
    Finished {
        /// The sealed table of contents.
        sealed_contents: Vec<u8>,
    },
    /// Nothing, or zeros.
    Open,
    /// Something that is not whole, for this reason.
    Torn(SegmentFormatError),
}

impl SegmentStore {
    /// Reads `id` as far as it is whole; stops at the first batch that is not. Verifies every checksum.
    ///
    /// # Errors
    /// `Missing`, or `Damaged` if even its header is no good or is that of another segment.
    pub fn scan(&self, id: SegmentId) -> Result<Scanned> {
        let file = self.files.get(&self.disk, id)?;
        let whole = read_whole(self, &file)?;
        let found = scan(&whole).map_err(|error| Error::Damaged(id, error))?;
        if found.header.id != id {
            return Err(Error::Damaged(id, SegmentFormatError::OutOfPlace));
        }
        let tail = match found.tail {
            ScanTail::Finished(contents) => Tail::Finished {
                sealed_contents: contents.to_vec(),
            },
            ScanTail::Open => Tail::Open,
            ScanTail::Torn(reason) => Tail::Torn(reason),
        };
        let batches = found.batches.iter().map(own).collect();
        Ok(Scanned {
            header: found.header,
            batches,
            end: found.end,
            tail,
        })
    }
}

fn own(batch: &Batch<'_>) -> ScannedBatch {
    ScannedBatch {
        offset: batch.offset,
        blocks_offset: batch.offset + BATCH_HEADER_BYTES as u32,
        sectors: narrow(batch.header.batch_len() / SECTOR_BYTES as u64),
        sealed_lengths: match batch.payload.lengths() {
            Some(SaidLengths::Sealed(sealed)) => sealed.to_vec(),
            _ => Vec::new(),
        },
    }
}

/// All bytes of `file`; of one that is longer than a segment may be, one sector more than that, so that it
/// never looks finished.
pub(crate) fn read_whole(store: &SegmentStore, file: &SegmentFile) -> Result<Buffer> {
    let longest = SEGMENT_BYTES_MAX + SECTOR_BYTES as u64;
    let len = file.len().map_err(Error::Io)?.min(longest);
    let len = usize::try_from(len).expect("holds: cut to little more than SEGMENT_BYTES_MAX above");
    let mut whole = store.pool.take(len.next_multiple_of(SECTOR_BYTES));
    let count = file.read_at(&mut whole, 0).map_err(Error::Io)?;
    whole.shorten(count.min(len));
    add(&store.counting.reads, 1);
    add(&store.counting.bytes_read, count as u64);
    Ok(whole)
}
