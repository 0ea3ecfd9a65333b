//! Arithmetic on the extents of one region: sorted by `start`, not overlapping, none empty.
//!
//! Takes   a list and a range
//! Gives   the list after the change, and what it does to the reference counts of blocks
//! Never   does I/O

use std::collections::BTreeMap;
use std::ops::Range;

use strongroom_metadata::{BlockNumber, Extent};

use crate::overlay::CELL_BYTES;

/// The end of an extent in the file.
pub(crate) fn end(extent: &Extent) -> u64 {
    extent.start + u64::from(extent.len)
}

/// The part of `extent` inside `range`, if any.
pub(crate) fn part(extent: &Extent, range: &Range<u64>) -> Option<Extent> {
    let from = extent.start.max(range.start);
    let to = end(extent).min(range.end);
    if from >= to {
        return None;
    }
    // Both differences are below one cell, because an extent lies inside one.
    let skipped = u32::try_from(from - extent.start).ok()?;
    let len = u32::try_from(to - from).ok()?;
    Some(Extent {
        start: from,
        len,
        block: extent.block,
        block_offset: extent.block_offset + skipped,
    })
}

/// `extents` without what lies in `range`.
pub(crate) fn without(extents: &[Extent], range: &Range<u64>) -> Vec<Extent> {
    let mut left = Vec::with_capacity(extents.len() + 1);
    for extent in extents {
        if end(extent) <= range.start || extent.start >= range.end {
            left.push(*extent);
            continue;
        }
        left.extend(part(extent, &(0..range.start)));
        left.extend(part(extent, &(range.end..u64::MAX)));
    }
    left
}

/// Puts `extent` where nothing is.
pub(crate) fn insert(extents: &mut Vec<Extent>, extent: Extent) {
    let index = extents.partition_point(|other| other.start < extent.start);
    extents.insert(index, extent);
}

/// How each block's references change from `before` to `after`; zeros left out.
pub(crate) fn reference_changes(before: &[Extent], after: &[Extent]) -> Vec<(BlockNumber, i64)> {
    let mut changes = BTreeMap::new();
    for extent in after {
        *changes.entry(extent.block).or_insert(0_i64) += 1;
    }
    for extent in before {
        *changes.entry(extent.block).or_insert(0_i64) -= 1;
    }
    changes.retain(|_, change| *change != 0);
    changes.into_iter().collect()
}

/// Bytes that `extents` hold.
pub(crate) fn bytes(extents: &[Extent]) -> u64 {
    extents.iter().map(|extent| u64::from(extent.len)).sum()
}

/// How many extents lie in the cell of `offset`.
pub(crate) fn fragments_in_cell(extents: &[Extent], offset: u64) -> usize {
    let cell = offset - offset % CELL_BYTES;
    let first = extents.partition_point(|extent| end(extent) <= cell);
    extents[first..]
        .iter()
        .take_while(|extent| extent.start < cell + CELL_BYTES)
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(start: u64, len: u32, block: u64) -> Extent {
        Extent {
            start,
            len,
            block: BlockNumber(block),
            block_offset: 0,
        }
    }

    #[test]
    fn a_cut_in_the_middle_leaves_both_ends_and_their_place_in_the_block() {
        let left = without(&[extent(100, 50, 1)], &(110..120));
        assert_eq!(
            left,
            [
                extent(100, 10, 1),
                Extent {
                    block_offset: 20,
                    ..extent(120, 30, 1)
                }
            ]
        );
        assert_eq!(
            reference_changes(&[extent(100, 50, 1)], &left),
            [(BlockNumber(1), 1)]
        );
    }

    #[test]
    fn a_cut_over_everything_takes_the_references() {
        let before = [extent(0, 10, 1), extent(10, 10, 2), extent(30, 5, 1)];
        let left = without(&before, &(0..100));
        assert!(left.is_empty());
        assert_eq!(
            reference_changes(&before, &left),
            [(BlockNumber(1), -2), (BlockNumber(2), -1)]
        );
    }

    #[test]
    fn inserting_keeps_the_order() {
        let mut list = vec![extent(0, 10, 1), extent(20, 10, 2)];
        insert(&mut list, extent(10, 10, 3));
        assert_eq!(
            list.iter().map(|extent| extent.start).collect::<Vec<_>>(),
            [0, 10, 20]
        );
        assert_eq!(fragments_in_cell(&list, 5), 3);
    }
}
