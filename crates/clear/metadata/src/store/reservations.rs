//! Turns the reserved ranges of a file into the bytes of one row, and back.
//!
//! Takes   byte ranges of a file: sorted, disjoint, none empty; or the bytes of a row
//! Gives   the reverse: bytes for ranges, ranges for bytes
//! Never   panics on any input, or allocates more than its length
//! Spec    spec/4-metadata.md, 4.5.10

use std::ops::Range;

use crate::error::{Error, Result};
use crate::limits::RESERVED_RANGES_MAX;
use crate::rows::InodeId;
use crate::store::transaction::{Transaction, check_numbers};
use crate::tables::columns::{key, value_at, whole};
use crate::tables::marked::mark;
use crate::tables::reads::Reads;
use crate::tables::sql::Statement;

impl Transaction<'_> {
    /// Stores which ranges of `inode` are reserved, in place of those that were; none removes the row.
    ///
    /// # Errors
    /// `Error::Invalid` unless the ranges are sorted, apart and none of them empty, at most `RESERVED_RANGES_MAX`; as
    /// for every change.
    pub fn put_reservation(&mut self, inode: InodeId, ranges: &[Range<u64>]) -> Result<()> {
        let bytes = sum(ranges).ok_or(Error::Invalid("reserved ranges are not in order"))?;
        check_numbers(&[inode.0, bytes, ranges.last().map_or(0, |range| range.end)])?;
        let value = encode(ranges);
        self.change(value.len(), |writer| {
            if ranges.is_empty() {
                writer.run(Statement::ReservationRemove, [key(inode.0)])?;
            } else {
                let params = (key(inode.0), key(bytes), mark(&value));
                writer.run(Statement::ReservationPut, params)?;
            }
            Ok(())
        })
    }
}

impl Reads {
    /// Which ranges of `inode` are reserved.
    pub fn reservation(&self, inode: InodeId) -> Result<Vec<Range<u64>>> {
        let found = self.one(Statement::ReservationGet, [key(inode.0)], |row| {
            let ranges = decode(value_at(row, 1)?)?;
            match sum(&ranges) {
                Some(bytes) if bytes == whole(row, 0)? => Ok(ranges),
                _ => Err(Error::Damaged("a stored reservation is invalid")),
            }
        })?;
        Ok(found.unwrap_or_default())
    }

    /// How many bytes of which inodes are reserved.
    pub fn reservations(&self) -> Result<Vec<(InodeId, u64)>> {
        self.all(Statement::ReservationList, [], |row| {
            Ok((InodeId(whole(row, 0)?), whole(row, 1)?))
        })
    }
}

/// The bytes of all ranges; `None` unless they are in order and not too many.
fn sum(ranges: &[Range<u64>]) -> Option<u64> {
    let apart = ranges.windows(2).all(|pair| pair[0].end < pair[1].start);
    let some = ranges.iter().all(|range| range.start < range.end);
    (apart && some && ranges.len() <= RESERVED_RANGES_MAX)
        .then(|| ranges.iter().map(|range| range.end - range.start).sum())
}

fn encode(ranges: &[Range<u64>]) -> Vec<u8> {
    let numbers = ranges.iter().flat_map(|range| [range.start, range.end]);
    numbers.flat_map(u64::to_le_bytes).collect()
}

fn decode(bytes: &[u8]) -> Result<Vec<Range<u64>>> {
    let (pairs, rest) = bytes.as_chunks::<16>();
    if !rest.is_empty() {
        return Err(Error::Damaged("a stored reservation is invalid"));
    }
    Ok(pairs
        .iter()
        .map(|pair| {
            let (numbers, _) = pair.as_chunks::<8>();
            u64::from_le_bytes(numbers[0])..u64::from_le_bytes(numbers[1])
        })
        .collect())
}
