//! Arithmetic on the extents of one region (4 MiB of a file): sorted by `start`, not overlapping, none empty.
//!
//! Takes   a list and a range
//! Gives   the list after the change, and the changes of the blocks' reference counts
//! Never   does I/O

use std::collections::BTreeMap;
use std::ops::Range;

use strongroom_metadata::{BlockNumber, Extent};

use crate::content::overlay::CELL_BYTES;

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

/// How often each block is named by `extents`.
pub(crate) fn references(extents: &[Extent]) -> BTreeMap<BlockNumber, i64> {
    let mut references = BTreeMap::new();
    for extent in extents {
        *references.entry(extent.block).or_insert(0) += 1;
    }
    references
}

/// A region while it changes. Each change costs by what it touches, not by what the region holds: a log that grows by small
/// parts has a thousand extents in a region.
pub(crate) struct Edited {
    extents: Vec<Extent>,
    references: BTreeMap<BlockNumber, i64>,
    bytes: i64,
}

impl Edited {
    /// A region that holds `extents`.
    pub(crate) fn new(extents: Vec<Extent>) -> Self {
        Self {
            extents,
            references: BTreeMap::new(),
            bytes: 0,
        }
    }

    /// What the region holds now.
    pub(crate) fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// Takes out what lies in `range`.
    pub(crate) fn remove(&mut self, range: &Range<u64>) {
        let touched = self.touched(range);
        let mut left = Vec::new();
        for index in touched.clone() {
            let extent = self.extents[index];
            self.count(&extent, -1);
            left.extend(part(&extent, &(0..range.start)));
            left.extend(part(&extent, &(range.end..u64::MAX)));
        }
        for extent in &left {
            self.count(extent, 1);
        }
        self.extents.splice(touched, left);
    }

    /// Makes `extent`, whose block already counts this reference, the content of its range.
    pub(crate) fn put(&mut self, extent: Extent) {
        self.remove(&(extent.start..end(&extent)));
        let index = self
            .extents
            .partition_point(|other| other.start < extent.start);
        self.extents.insert(index, extent);
        self.bytes += i64::from(extent.len);
    }

    /// The extents, how each block's references changed (zeros left out), and by how many bytes more they hold.
    pub(crate) fn finish(mut self) -> (Vec<Extent>, BTreeMap<BlockNumber, i64>, i64) {
        self.references.retain(|_, change| *change != 0);
        (self.extents, self.references, self.bytes)
    }

    /// The extents that lie in `range`, whole or in part.
    fn touched(&self, range: &Range<u64>) -> Range<usize> {
        let first = self
            .extents
            .partition_point(|extent| end(extent) <= range.start);
        let count = self.extents[first..].partition_point(|extent| extent.start < range.end);
        first..first + count
    }

    fn count(&mut self, extent: &Extent, change: i64) {
        *self.references.entry(extent.block).or_insert(0) += change;
        self.bytes += change * i64::from(extent.len);
    }
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
        let mut edited = Edited::new(vec![extent(100, 50, 1)]);
        edited.remove(&(110..120));
        let (left, references, bytes) = edited.finish();
        let tail = Extent {
            block_offset: 20,
            ..extent(120, 30, 1)
        };
        assert_eq!(left, [extent(100, 10, 1), tail]);
        assert_eq!(references, BTreeMap::from([(BlockNumber(1), 1)]));
        assert_eq!(bytes, -10);
    }

    #[test]
    fn a_cut_over_everything_takes_the_references() {
        let before = vec![extent(0, 10, 1), extent(10, 10, 2), extent(30, 5, 1)];
        let mut edited = Edited::new(before);
        edited.remove(&(0..100));
        let (left, references, bytes) = edited.finish();
        assert!(left.is_empty());
        let gone = BTreeMap::from([(BlockNumber(1), -2), (BlockNumber(2), -1)]);
        assert_eq!((references, bytes), (gone, -25));
    }

    #[test]
    fn what_is_put_takes_the_place_of_what_was_there_and_of_nothing_else() {
        let mut edited = Edited::new(vec![extent(0, 10, 1), extent(20, 10, 2)]);
        edited.put(extent(10, 10, 3));
        edited.put(extent(5, 20, 4));
        edited.put(extent(40, 10, 3));
        assert_eq!(fragments_in_cell(edited.extents(), 5), 4);
        let (left, references, bytes) = edited.finish();
        let tail = Extent {
            block_offset: 5,
            ..extent(25, 5, 2)
        };
        let expected = [extent(0, 5, 1), extent(5, 20, 4), tail, extent(40, 10, 3)];
        assert_eq!(left, expected);
        // Those that were put count already; one of them went again.
        assert_eq!(references, BTreeMap::from([(BlockNumber(3), -1)]));
        assert_eq!(bytes, 20);
    }

    /// Goal: whatever is done to a region, what is said of it agrees with it. Method: changes at random places, beside the
    /// same on an array of bytes that says which block holds each.
    #[test]
    fn an_edited_region_agrees_with_a_map_of_its_bytes() {
        const LEN: u64 = 600;
        let mut random = 1_u64;
        let mut next = |below: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (random >> 33) % below
        };
        for _ in 0..200 {
            let mut map = vec![None; LEN as usize];
            let mut edited = Edited::new(Vec::new());
            let mut counted = BTreeMap::new();
            for block in 1..40 {
                let start = next(LEN - 1);
                let len = 1 + next((LEN - start).min(50));
                let range = start as usize..(start + len) as usize;
                if next(3) == 0 {
                    edited.remove(&(start..start + len));
                    map[range].fill(None);
                } else {
                    let extent = extent(start, u32::try_from(len).unwrap(), block);
                    edited.put(extent);
                    counted.insert(BlockNumber(block), 1);
                    for at in range {
                        map[at] = Some((block, at as u64 - start));
                    }
                }
            }
            let (extents, changes, bytes) = edited.finish();
            let mut found = vec![None; LEN as usize];
            for extent in &extents {
                for at in 0..u64::from(extent.len) {
                    let place = &mut found[(extent.start + at) as usize];
                    let held = (extent.block.0, u64::from(extent.block_offset) + at);
                    assert_eq!(place.replace(held), None, "extents are apart");
                }
            }
            assert_eq!(found, map);
            assert!(extents.is_sorted_by_key(|extent| extent.start));
            assert_eq!(bytes, map.iter().flatten().count() as i64);
            for (block, change) in changes {
                *counted.entry(block).or_insert(0) += change;
            }
            counted.retain(|_, count| *count != 0);
            assert_eq!(counted, references(&extents));
        }
    }
}
