//! Reads a segment file from its beginning up to the first part that is not whole.
//!
//! Takes   all bytes of a file
//! Gives   its batches, and the kind of bytes that follow the last whole batch
//! Never   trusts a length that goes beyond the file
//! Spec    spec/3-segment.md; the invariants are those of `segment.rs`

use super::{
    BatchHeader, BatchPayload, FIRST_BATCH_OFFSET, FOOTER_BYTES, Footer, SegmentFormatError,
    SegmentHeader, all_zero, checksum,
};

/// What a file holds, up to where it ends or stops being whole.
#[derive(Clone, Debug)]
pub struct Scan<'a> {
    /// Its first record.
    pub header: SegmentHeader,
    /// The whole batches, in order.
    pub batches: Vec<Batch<'a>>,
    /// End of the last whole batch in bytes.
    pub end: u64,
    /// What the next batch says as `previous`.
    pub chain: u32,
    /// What follows.
    pub tail: ScanTail<'a>,
}

/// A whole batch.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// Its first byte in the file.
    pub offset: u32,
    /// Its first record.
    pub header: BatchHeader,
    /// What follows.
    pub payload: BatchPayload<'a>,
}

/// What follows the last whole batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanTail<'a> {
    /// The sealed table of contents and a footer that belong to exactly these batches.
    Finished(&'a [u8]),
    /// Nothing, or zeros.
    Open,
    /// Something that is not whole, for this reason.
    Torn(SegmentFormatError),
}

/// Reads a whole file, `bytes`, as far as it is whole. O(n) time; allocates one entry per batch found.
///
/// # Errors
/// If the header is no good: then nothing in the file can be found.
pub fn scan(bytes: &[u8]) -> Result<Scan<'_>, SegmentFormatError> {
    let header = SegmentHeader::decode(bytes)?;
    let mut found = Scan {
        header,
        batches: Vec::new(),
        end: FIRST_BATCH_OFFSET,
        chain: header.chain(),
        tail: ScanTail::Open,
    };
    let stopped_by = loop {
        let rest = usize::try_from(found.end)
            .ok()
            .and_then(|end| bytes.get(end..))
            .unwrap_or(&[]);
        match next_batch(&found, rest) {
            Ok(batch) => {
                found.end += batch.header.batch_len();
                found.chain = batch.header.chain();
                found.batches.push(batch);
            }
            Err(error) => break (error, rest),
        }
    };
    let (error, rest) = stopped_by;
    found.tail = match finished_contents(&found, bytes, rest) {
        Some(contents) => ScanTail::Finished(contents),
        None if all_zero(rest) => ScanTail::Open,
        None => ScanTail::Torn(error),
    };
    Ok(found)
}

/// The batch that `rest` begins with, if it is whole and the next one after those of `found`.
fn next_batch<'a>(found: &Scan<'_>, rest: &'a [u8]) -> Result<Batch<'a>, SegmentFormatError> {
    let header = BatchHeader::decode(rest)?;
    let number = u32::try_from(found.batches.len()).map_err(|_| SegmentFormatError::OutOfPlace)?;
    if header.segment != found.header.id
        || header.version() != found.header.version
        || header.number != number
        || header.previous != found.chain
    {
        return Err(SegmentFormatError::OutOfPlace);
    }
    let offset = u32::try_from(found.end).map_err(|_| SegmentFormatError::Length)?;
    let (payload, state) = header.payload(found.end, rest)?;
    state?;
    Ok(Batch {
        offset,
        header,
        payload,
    })
}

/// The table of contents, if `bytes` end with a footer for exactly the batches of `found`.
fn finished_contents<'a>(found: &Scan<'_>, bytes: &[u8], rest: &'a [u8]) -> Option<&'a [u8]> {
    let footer = Footer::decode(bytes, bytes.len() as u64).ok()?;
    let belongs = footer.header == found.header
        && u64::from(footer.contents_offset) == found.end
        && footer.batches as usize == found.batches.len()
        && footer.previous == found.chain;
    if !belongs {
        return None;
    }
    let padding_end = rest.len().checked_sub(FOOTER_BYTES)?;
    let (contents, padding) = rest
        .get(..padding_end)?
        .split_at_checked(footer.contents_len as usize)?;
    let whole = checksum(&[contents]) == footer.contents_checksum && all_zero(padding);
    whole.then_some(contents)
}
