//! A file that may still grow: how far it is written, and what is appended next.
//!
//! Takes   a batch, or the table of contents that ends the file
//! Gives   the same file with these bytes appended
//! Never   overwrites acknowledged bytes
//! Spec    spec/3-segment.md
//!
//! Invariants
//!  (1) `end` rises only after all bytes before it were written. A failed write leaves `end` as it was, and the next
//!      batch overwrites the bytes of the failed one.                                      [3.6]
//!  (2) Space for the table of contents and the footer is always left.                     [3.7]

use std::io;
use std::sync::Arc;

use strongroom_folder::is_full;
use strongroom_format::limits::{SECTOR_BYTES, SEGMENT_BYTES_MAX};
use strongroom_format::segment::{
    FIRST_BATCH_OFFSET, FOOTER_BYTES, Footer, SegmentHeader, checksum, ending_len,
};

use crate::batch::{Closed, narrow, wide};
use crate::buffer::{Buffer, Pool};
use crate::disk::{Allocated, SegmentFile};
use crate::limits::contents_bytes_max;
use crate::{Error, Result};

/// How far a file is written.
#[derive(Clone, Debug)]
pub(crate) struct Unfinished {
    pub(crate) header: SegmentHeader,
    /// End of the last acknowledged batch.
    pub(crate) end: u64,
    pub(crate) batches: u32,
    /// What the next record says as `previous`.
    pub(crate) chain: u32,
    /// Sum of the lengths of the sealed indexes.
    pub(crate) index_bytes: u64,
    /// Room on the disk is set aside up to here.
    pub(crate) allocated: u64,
}

impl Unfinished {
    pub(crate) fn new(header: SegmentHeader) -> Self {
        Self {
            header,
            end: FIRST_BATCH_OFFSET,
            batches: 0,
            chain: header.chain(),
            index_bytes: 0,
            allocated: 0,
        }
    }

    /// Whether `batch` and the table of contents after it fit a file of `bytes_max`.
    pub(crate) fn has_room(&self, batch: &Closed, bytes_max: u64) -> bool {
        let contents = contents_bytes_max(self.index_bytes + u64::from(batch.index_len));
        self.end + batch.len() + ending_len(contents) <= bytes_max
    }

    /// The longest table of contents that still fits, in bytes.
    pub(crate) fn contents_room(&self) -> u64 {
        // `has_room` left the first; the second bounds a file that another writer filled further.
        let left = SEGMENT_BYTES_MAX.saturating_sub(self.end + FOOTER_BYTES as u64);
        // They fill their last sector.
        let room = ending_len(contents_bytes_max(self.index_bytes)) - FOOTER_BYTES as u64;
        room.min(left)
    }

    /// Bytes that are set aside behind the last batch; 0 if nobody knows.
    pub(crate) fn room_aside(&self) -> u64 {
        match self.allocated {
            u64::MAX => 0,
            allocated => allocated.saturating_sub(self.end),
        }
    }

    /// Writes `batch` behind the last acknowledged one, and acknowledges it.
    pub(crate) fn write(&mut self, file: &SegmentFile, batch: &mut Closed) -> Result<()> {
        let end = self.end + batch.len();
        self.set_room_aside(file, end)?;
        let header = batch.stamp(self);
        file.write_at(&batch.bytes, self.end).map_err(write_error)?;
        self.end = end;
        self.batches += 1;
        self.chain = header.chain();
        self.index_bytes += u64::from(batch.index_len);
        Ok(())
    }

    /// Sets room aside up to the longest a file may be, or up to `end` if the disk has no more.
    pub(crate) fn set_room_aside(&mut self, file: &SegmentFile, end: u64) -> Result<()> {
        if self.allocated >= end {
            return Ok(());
        }
        let mut reached = SEGMENT_BYTES_MAX;
        let mut tried = file.allocate(reached);
        if tried.as_ref().is_err_and(is_full) {
            // What a failed attempt took goes back first: others need it on a full disk.
            file.cut(file.len().map_err(Error::Io)?)
                .map_err(Error::Io)?;
            reached = end;
            tried = file.allocate(reached);
        }
        self.allocated = match tried.map_err(write_error)? {
            Allocated::Yes => reached,
            Allocated::Unknown => u64::MAX,
        };
        Ok(())
    }

    /// The bytes behind the last batch of a finished file.
    pub(crate) fn ending(&self, pool: &Arc<Pool>, sealed_contents: &[u8]) -> Result<Buffer> {
        let max = usize::try_from(self.contents_room()).unwrap_or(usize::MAX);
        let len = sealed_contents.len();
        if len > max {
            return Err(Error::ContentsTooLong { len, max });
        }
        let whole = len + FOOTER_BYTES;
        if !whole.is_multiple_of(SECTOR_BYTES) {
            return Err(Error::PartOfSector { len: whole });
        }
        let footer = Footer {
            header: self.header,
            contents_offset: narrow(self.end),
            contents_len: narrow(len as u64),
            contents_checksum: checksum(&[sealed_contents]),
            batches: self.batches,
            previous: self.chain,
        };
        let mut ending = pool.take(wide(ending_len(len as u64)));
        let footer_start = ending.len() - FOOTER_BYTES;
        ending[..len].copy_from_slice(sealed_contents);
        ending[footer_start..].copy_from_slice(&footer.encode());
        Ok(ending)
    }
}

/// What an error of creating, setting room aside or writing means.
pub(crate) fn write_error(error: io::Error) -> Error {
    if is_full(&error) {
        Error::NoSpace
    } else {
        Error::of_io(error)
    }
}
