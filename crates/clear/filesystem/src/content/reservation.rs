//! Space that `fallocate` reserved: other writers get `NoSpace` before they use it up.
//!
//! Takes   ranges of a file that are not written yet
//! Gives   permission to write them later, however full the vault has become
//! Never   reserves space on the disk against other programs: reserved bytes take space on the disk only once they are written
//!
//! Invariants
//!  (1) `Content::reserved` is the sum over all inodes; `inode.reserved` is the sum of that node's ranges.
//!  (2) A reserved range ends when it is written, copied to, punched or truncated, and when its file is removed. If a file would
//!      have too many ranges, the smallest gap between two is reserved too: more may be reserved than asked for, never less.

use std::ops::Range;

use strongroom_metadata::limits::RESERVED_RANGES_MAX;

/// Reserved ranges of one file: sorted, apart, none empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reserved {
    ranges: Vec<Range<u64>>,
}

impl Reserved {
    pub(crate) fn new(ranges: Vec<Range<u64>>) -> Self {
        Self { ranges }
    }

    pub(crate) fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.ranges
            .iter()
            .map(|range| range.end - range.start)
            .sum()
    }

    /// How many bytes of `range` are reserved.
    pub(crate) fn overlap(&self, range: &Range<u64>) -> u64 {
        let first = self.ranges.partition_point(|r| r.end <= range.start);
        self.ranges[first..]
            .iter()
            .take_while(|r| r.start < range.end)
            .map(|r| r.end.min(range.end) - r.start.max(range.start))
            .sum()
    }

    pub(crate) fn add(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let first = self.ranges.partition_point(|r| r.end < range.start);
        let past = self.ranges.partition_point(|r| r.start <= range.end);
        let joined = match self.ranges.get(first..past) {
            Some([one]) => range.start.min(one.start)..range.end.max(one.end),
            Some([low, .., high]) => range.start.min(low.start)..range.end.max(high.end),
            _ => range,
        };
        self.ranges.splice(first..past, [joined]);
        self.bound();
    }

    pub(crate) fn remove(&mut self, range: &Range<u64>) {
        let first = self.ranges.partition_point(|r| r.end <= range.start);
        let past = self.ranges.partition_point(|r| r.start < range.end);
        if first >= past || range.is_empty() {
            return;
        }
        let head = self.ranges[first].start..range.start;
        let tail = range.end..self.ranges[past - 1].end;
        let left = [head, tail].into_iter().filter(|part| !part.is_empty());
        self.ranges.splice(first..past, left);
        self.bound();
    }

    /// (2)
    fn bound(&mut self) {
        if self.ranges.len() <= RESERVED_RANGES_MAX {
            return;
        }
        let gap = |index: &usize| self.ranges[index + 1].start - self.ranges[*index].end;
        if let Some(smallest) = (0..self.ranges.len() - 1).min_by_key(gap) {
            self.ranges[smallest].end = self.ranges[smallest + 1].end;
            self.ranges.remove(smallest + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the ranges equal an array of flags under any sequence of changes, while they are few.
    #[test]
    fn behaves_as_an_array_of_flags() {
        let mut seed = 11_u64;
        let mut next = move |bound: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % bound
        };
        let mut reserved = Reserved::default();
        let mut model = vec![false; 500];
        for round in 0..3_000 {
            let start = next(500);
            let range = start..(start + next(60)).min(500);
            let flag = next(2) == 0;
            let place = range.start as usize..range.end as usize;
            let set = model[place.clone()].iter().filter(|flag| **flag).count();
            assert_eq!(reserved.overlap(&range), set as u64, "round {round}");
            match flag {
                true => reserved.add(range),
                false => reserved.remove(&range),
            }
            model[place].fill(flag);
            let count = model.iter().filter(|flag| **flag).count();
            assert_eq!(reserved.bytes(), count as u64, "round {round}");
            let ranges = reserved.ranges();
            assert!(
                ranges.iter().all(|range| range.start < range.end),
                "round {round}"
            );
            assert!(
                ranges.windows(2).all(|pair| pair[0].end < pair[1].start),
                "round {round}"
            );
        }
    }

    #[test]
    fn too_many_ranges_hold_more_never_less() {
        let mut reserved = Reserved::default();
        reserved.add(0..1 << 30);
        for hole in 0..3_000_u64 {
            reserved.remove(&(hole * 100..hole * 100 + 1 + hole % 50));
        }
        assert_eq!(reserved.ranges().len(), RESERVED_RANGES_MAX);
        for hole in 0..3_000_u64 {
            let left = hole * 100 + 1 + hole % 50..hole * 100 + 100;
            assert_eq!(reserved.overlap(&left), left.end - left.start);
        }
    }
}
