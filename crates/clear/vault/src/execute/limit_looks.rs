//! Remembers the last look for content to evict because of the limit of this device: what it found, and what it cost.
//!
//! Takes   each look; later the segments that are here, and how often the vault has changed
//! Gives   whether another look is worth its cost
//! Never   looks itself, or prevents a look that a person asked for
//! Spec    spec/11-sync.md, [11.9.9]
//!
//! A look reads the rows of everything that is pinned. If more is pinned than the limit allows, content stays above the limit. Without
//! this module, each change would then cause another look.
//!
//! Invariants
//!  (1) Another look is due once the limit or the pins have changed, once the vault has changed as often as the last look has read rows, or
//!      once new segments take a tenth of the limit. So the looks read about as many rows as there are changes.

use std::collections::{HashMap, HashSet};

use parking_lot::Mutex;
use strongroom_format::SegmentId;
use strongroom_metadata::InodeId;

/// The last look at each remote, by their numbers.
#[derive(Default)]
pub(crate) struct LimitLooks(Mutex<HashMap<u64, Looked>>);

/// A look.
pub(crate) struct Looked {
    /// In bytes.
    pub(crate) limit: u64,
    pub(crate) pins: Vec<InodeId>,
    /// What it found to stay.
    pub(crate) stays: HashSet<SegmentId>,
    /// `Filesystem::changes_mark` before it.
    pub(crate) mark: u64,
    /// How many rows of what is pinned it has read.
    pub(crate) rows: u64,
}

impl LimitLooks {
    /// Whether another look is due. `here`: what is here and that remote is noted to have, with lengths.                   (1)
    pub(crate) fn is_due(
        &self,
        remote: u64,
        (limit, pins): (u64, &[InodeId]),
        here: &[(SegmentId, u64)],
        mark: u64,
    ) -> bool {
        let looks = self.0.lock();
        let Some(last) = looks.get(&remote) else {
            return true;
        };
        let is_other = last.limit != limit || last.pins != pins;
        if is_other || mark.saturating_sub(last.mark) >= last.rows {
            return true;
        }
        let came = here.iter().filter(|(id, _)| !last.stays.contains(id));
        let bytes: u64 = came.map(|(_, len)| len).sum();
        bytes > 0 && bytes >= limit / 10
    }

    /// Remembers a look at that remote.
    pub(crate) fn note(&self, remote: u64, looked: Looked) {
        self.0.lock().insert(remote, looked);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segments(numbers: std::ops::Range<u8>) -> Vec<(SegmentId, u64)> {
        numbers
            .map(|number| (SegmentId([number; 16]), 100))
            .collect()
    }

    #[test]
    fn a_look_is_due_once_enough_is_other_than_it_was() {
        let looks = LimitLooks::default();
        let pins = [InodeId(7)];
        let due = |limit, pins: &[InodeId], here: &[(SegmentId, u64)], mark| {
            looks.is_due(1, (limit, pins), here, mark)
        };
        assert!(due(1_000, &pins, &segments(0..3), 50), "there was none");
        looks.note(
            1,
            Looked {
                limit: 1_000,
                pins: pins.to_vec(),
                stays: segments(0..3).into_iter().map(|(id, _)| id).collect(),
                mark: 50,
                rows: 20,
            },
        );
        assert!(!due(1_000, &pins, &segments(0..3), 50));
        assert!(!due(1_000, &pins, &segments(1..2), 69));
        assert!(due(1_000, &pins, &segments(0..3), 70), "many changes");
        assert!(due(999, &pins, &segments(0..3), 51), "another limit");
        assert!(due(1_000, &[], &segments(0..3), 51), "other pins");
        assert!(due(1_000, &pins, &segments(0..4), 51), "a tenth came");
        let little = [(SegmentId([9; 16]), 99)];
        assert!(!due(1_000, &pins, &little, 51));
        assert!(looks.is_due(2, (1_000, &pins), &segments(0..3), 51));
    }
}
