//! Examines a segment that may be damaged: finds every batch that is still readable, and every byte that belongs to none.
//!
//! Takes   all bytes of a file, and its name
//! Gives   its batches, including those after damage, and the ranges of bytes that differ from what was written
//! Never   trusts a length that goes beyond the file, or reads a byte more often because of the file's content: O(n) time
//! Spec    spec/3-segment.md
//!
//! `scan` ends at the first part that is not whole, because the bytes after it were never acknowledged. Here that part
//! may be damaged, and the bytes after it may be whole. Batches begin on sector boundaries and have the id of the file
//! and rising numbers, so they can be found again.

use crate::block::SegmentId;
use crate::limits::SECTOR_BYTES;
use crate::segment::{
    BATCH_HEADER_BYTES, BatchHeader, BatchPayload, FIRST_BATCH_OFFSET, FOOTER_BYTES, Footer,
    SegmentFormatError, SegmentHeader, all_zero, checksum,
};

/// What a file holds, damaged or not.
#[derive(Clone, Debug)]
pub struct Survey<'a> {
    /// Its first record, or what is wrong with it.
    pub header: Result<SegmentHeader, SegmentFormatError>,
    /// The batches that have their place, in order.
    pub batches: Vec<SurveyedBatch<'a>>,
    /// The sealed table of contents, if its checksum fits and a footer names it.
    pub contents: Option<&'a [u8]>,
    /// End of the last batch, in bytes.
    pub end: u64,
    /// What is not as it was written, in order. What follows the last batch and is neither an ending nor zeros is
    /// among it: of a file that was being written, it may be a torn tail.
    pub faults: Vec<SegmentFault>,
}

/// A batch that has its place.
#[derive(Clone, Copy, Debug)]
pub struct SurveyedBatch<'a> {
    /// Its first byte in the file.
    pub offset: u32,
    /// Its first record.
    pub header: BatchHeader,
    /// What follows.
    pub payload: BatchPayload<'a>,
    /// Whether checksum and padding say that all of it is as it was written.
    pub is_whole: bool,
}

/// Bytes of a file that are not as they were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentFault {
    /// The first of them.
    pub start: u64,
    /// The first one behind them.
    pub end: u64,
    /// What is wrong.
    pub why: SegmentFormatError,
}

impl SurveyedBatch<'_> {
    /// First byte of its first block in the file.
    #[must_use]
    pub const fn blocks_offset(&self) -> u32 {
        self.offset + BATCH_HEADER_BYTES as u32
    }
}

impl Survey<'_> {
    fn fault(&mut self, start: u64, end: u64, why: SegmentFormatError) {
        match self.faults.last_mut() {
            Some(last) if last.end == start => last.end = end,
            _ => self.faults.push(SegmentFault { start, end, why }),
        }
    }
}

/// Looks at `bytes`, all bytes of the file `id`. O(n) time; allocates one entry per batch or fault found.
#[must_use]
pub fn survey(bytes: &[u8], id: SegmentId) -> Survey<'_> {
    let header = SegmentHeader::decode(bytes).and_then(|header| {
        if header.id == id {
            Ok(header)
        } else {
            Err(SegmentFormatError::OutOfPlace)
        }
    });
    let mut found = Survey {
        header,
        batches: Vec::new(),
        contents: None,
        end: FIRST_BATCH_OFFSET,
        faults: Vec::new(),
    };
    if let Err(why) = header {
        found.fault(0, FIRST_BATCH_OFFSET.min(bytes.len() as u64), why);
    }
    let zeros = zeros_from(bytes);
    let mut at = FIRST_BATCH_OFFSET;
    // What the next record says as `previous`; unknown behind damage.
    let mut chain = header.ok().map(|header| header.chain());
    while let Some(rest) = rest_of(bytes, at) {
        match batch(&found, rest, id, at) {
            Ok(batch) => {
                let end = at + batch.header.batch_len();
                let follows = chain.is_none_or(|chain| chain == batch.header.previous);
                if !batch.is_whole {
                    found.fault(at, end, SegmentFormatError::Checksum);
                } else if !follows {
                    // Batches of this file, but not these in this order: something between them is gone.
                    found.fault(at, at, SegmentFormatError::OutOfPlace);
                }
                chain = Some(batch.header.chain());
                found.end = end;
                found.batches.push(batch);
                at = end;
            }
            Err(_) if ending(&mut found, bytes, rest, id, at) || at >= zeros => break,
            Err(why) => {
                let end = (at + SECTOR_BYTES as u64).min(bytes.len() as u64);
                found.fault(at, end, why);
                chain = None;
                at = end;
            }
        }
    }
    found
}

/// From where on there are only zeros.
fn zeros_from(bytes: &[u8]) -> u64 {
    let last = bytes.iter().rposition(|byte| *byte != 0);
    last.map_or(0, |last| last as u64 + 1)
}

fn rest_of(bytes: &[u8], at: u64) -> Option<&[u8]> {
    let rest = bytes.get(usize::try_from(at).ok()?..)?;
    (!rest.is_empty()).then_some(rest)
}

/// The batch that `rest`, the file from `at` on, begins with: of this file, and behind those found before.
fn batch<'a>(
    found: &Survey<'_>,
    rest: &'a [u8],
    id: SegmentId,
    at: u64,
) -> Result<SurveyedBatch<'a>, SegmentFormatError> {
    let header = BatchHeader::decode(rest)?;
    let least = found
        .batches
        .last()
        .map_or(0, |last| last.header.number + 1);
    if header.segment != id || header.number < least || header.number == u32::MAX {
        return Err(SegmentFormatError::OutOfPlace);
    }
    let offset = u32::try_from(at).map_err(|_| SegmentFormatError::Length)?;
    let (payload, state) = header.payload(at, rest)?;
    Ok(SurveyedBatch {
        offset,
        header,
        payload,
        is_whole: state.is_ok(),
    })
}

/// Whether `rest`, the file from `at` on, is contents and footer of this file; what of it is damaged is noted.
fn ending<'a>(
    found: &mut Survey<'a>,
    bytes: &[u8],
    rest: &'a [u8],
    id: SegmentId,
    at: u64,
) -> bool {
    let len = bytes.len() as u64;
    let Ok(footer) = Footer::decode(bytes, len) else {
        return false;
    };
    if footer.header.id != id || u64::from(footer.contents_offset) != at {
        return false;
    }
    let padding_end = rest.len().saturating_sub(FOOTER_BYTES);
    let Some((contents, padding)) = rest
        .get(..padding_end)
        .and_then(|rest| rest.split_at_checked(footer.contents_len as usize))
    else {
        return false;
    };
    if checksum(&[contents]) == footer.contents_checksum && all_zero(padding) {
        found.contents = Some(contents);
    } else {
        found.fault(at, len, SegmentFormatError::Checksum);
    }
    let batches = found
        .batches
        .last()
        .map_or(0, |last| last.header.number + 1);
    let belongs = footer.batches == batches && found.header.is_ok_and(|own| own == footer.header);
    if !belongs && found.faults.is_empty() {
        found.fault(at, len, SegmentFormatError::OutOfPlace);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a disk that cannot be read any more leaves of a segment. Failed before: whether only zeros follow was asked again at every
    /// sector, which took minutes.
    #[test]
    fn a_long_run_of_zeros_in_the_middle_is_one_fault() {
        let mut bytes = vec![0; 64 << 20];
        bytes[(64 << 20) - 1] = 1;
        let found = survey(&bytes, SegmentId([1; 16]));
        let ranges: Vec<_> = found
            .faults
            .iter()
            .map(|fault| (fault.start, fault.end))
            .collect();
        assert_eq!(ranges, [(0, bytes.len() as u64)]);
        assert!(found.batches.is_empty());
    }

    #[test]
    fn zeros_to_the_end_are_no_fault() {
        let bytes = vec![0; 1 << 20];
        let found = survey(&bytes, SegmentId([1; 16]));
        let ranges: Vec<_> = found
            .faults
            .iter()
            .map(|fault| (fault.start, fault.end))
            .collect();
        assert_eq!(
            ranges,
            [(0, FIRST_BATCH_OFFSET)],
            "the header, which is missing"
        );
    }
}
