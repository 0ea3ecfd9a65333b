//! The index of the log, in memory: only one process has a database open, so the index needs no file.
//!
//! Takes   the requests for shared memory that SQLite makes, from every connection of a store
//! Gives   regions of zeroed memory that all connections share, and locks between the connections
//! Never   touches a file: nobody who can write to the vault folder can change the index of a running process
//! Spec    spec/4-metadata.md, 4.8.7
//!
//! Invariants
//!  (1) A region stays allocated until the last connection has released it. The next connection starts without regions, and
//!      recovers the index from the log.
//!  (2) A lock is either exclusive to one connection or shared by several.

use std::sync::atomic::AtomicU64;

use libsqlite3_sys as ffi;
use parking_lot::Mutex;

/// Bytes of a region, as SQLite asks for them.
pub(crate) const REGION_BYTES: usize = 32 * 1024;

/// The most regions: the index of `LOG_FRAMES_MAX` frames, 4096 in each.
const REGIONS_MAX: usize = crate::limits::LOG_FRAMES_MAX / 4096 + 2;

const SLOTS: usize = ffi::SQLITE_SHM_NLOCK as usize;

type Region = Box<[AtomicU64; REGION_BYTES / 8]>;

/// The index of one store's log.
#[derive(Default)]
pub(crate) struct LogIndex {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    regions: Vec<Region>,
    connections: usize,
    slots: [Slot; SLOTS],
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Slot {
    #[default]
    Free,
    Shared(usize),
    Exclusive,
}

/// What one connection holds of the index.
#[derive(Debug, Default)]
pub(crate) struct Hold {
    attached: bool,
    shared: [bool; SLOTS],
    exclusive: [bool; SLOTS],
}

impl LogIndex {
    /// The region with this number, made if `extend` asks for it; `None` if there is none, or there may be no more.
    pub(crate) fn region(
        &self,
        hold: &mut Hold,
        number: usize,
        extend: bool,
    ) -> Option<*const AtomicU64> {
        let mut state = self.state.lock();
        if !hold.attached {
            hold.attached = true;
            state.connections += 1;
        }
        if extend && number < REGIONS_MAX {
            while state.regions.len() <= number {
                let region: Vec<AtomicU64> = std::iter::repeat_with(AtomicU64::default)
                    .take(REGION_BYTES / 8)
                    .collect();
                let region: Region = region
                    .into_boxed_slice()
                    .try_into()
                    .expect("it has the length of a region");
                state.regions.push(region);
            }
        }
        state.regions.get(number).map(|region| region.as_ptr())
    }

    /// Takes or gives back `count` locks from `first` on; whether it could.                                      (2)
    pub(crate) fn lock(&self, hold: &mut Hold, first: usize, count: usize, flags: i32) -> bool {
        let Some(range) = first
            .checked_add(count)
            .filter(|end| *end <= SLOTS)
            .map(|end| first..end)
        else {
            return false;
        };
        let mut state = self.state.lock();
        if flags & ffi::SQLITE_SHM_UNLOCK != 0 {
            range.for_each(|slot| state.release(hold, slot));
            return true;
        }
        let exclusive = flags & ffi::SQLITE_SHM_EXCLUSIVE != 0;
        if !range
            .clone()
            .all(|slot| state.can_take(hold, slot, exclusive))
        {
            return false;
        }
        range.for_each(|slot| state.take(hold, slot, exclusive));
        true
    }

    /// The connection lets go of the index.                                                                     (1)
    pub(crate) fn detach(&self, hold: &mut Hold) {
        let mut state = self.state.lock();
        (0..SLOTS).for_each(|slot| state.release(hold, slot));
        if std::mem::take(&mut hold.attached) {
            state.connections -= 1;
        }
        if state.connections == 0 {
            state.regions.clear();
        }
    }
}

impl State {
    fn can_take(&self, hold: &Hold, slot: usize, exclusive: bool) -> bool {
        match self.slots[slot] {
            Slot::Free => true,
            Slot::Shared(_) => !exclusive,
            Slot::Exclusive => hold.exclusive[slot],
        }
    }

    fn take(&mut self, hold: &mut Hold, slot: usize, exclusive: bool) {
        if hold.exclusive[slot] || (hold.shared[slot] && !exclusive) {
            return;
        }
        self.slots[slot] = match (self.slots[slot], exclusive) {
            (_, true) => Slot::Exclusive,
            (Slot::Shared(holders), false) => Slot::Shared(holders + 1),
            (_, false) => Slot::Shared(1),
        };
        hold.exclusive[slot] = exclusive;
        hold.shared[slot] = !exclusive;
    }

    fn release(&mut self, hold: &mut Hold, slot: usize) {
        let shared = std::mem::take(&mut hold.shared[slot]);
        let exclusive = std::mem::take(&mut hold.exclusive[slot]);
        self.slots[slot] = match self.slots[slot] {
            Slot::Shared(holders) if shared && holders > 1 => Slot::Shared(holders - 1),
            Slot::Shared(_) if shared => Slot::Free,
            Slot::Exclusive if exclusive => Slot::Free,
            other => other,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: i32 = ffi::SQLITE_SHM_LOCK;
    const UNLOCK: i32 = ffi::SQLITE_SHM_UNLOCK;
    const SHARED: i32 = ffi::SQLITE_SHM_SHARED;
    const EXCLUSIVE: i32 = ffi::SQLITE_SHM_EXCLUSIVE;

    #[test]
    fn an_exclusive_lock_keeps_others_out_and_shared_ones_keep_it_out() {
        let index = LogIndex::default();
        let (mut one, mut other) = (Hold::default(), Hold::default());
        assert!(index.lock(&mut one, 3, 1, LOCK | SHARED));
        assert!(index.lock(&mut other, 3, 1, LOCK | SHARED));
        assert!(!index.lock(&mut other, 0, 5, LOCK | EXCLUSIVE));
        assert!(index.lock(&mut one, 3, 1, UNLOCK | SHARED));
        assert!(!index.lock(&mut one, 3, 1, LOCK | EXCLUSIVE));
        assert!(index.lock(&mut other, 3, 1, UNLOCK | SHARED));
        assert!(index.lock(&mut one, 0, 5, LOCK | EXCLUSIVE));
        assert!(!index.lock(&mut other, 4, 1, LOCK | SHARED));
        assert!(index.lock(&mut other, 5, 1, LOCK | SHARED));
        index.detach(&mut one);
        assert!(index.lock(&mut other, 4, 1, LOCK | SHARED));
        assert!(
            !index.lock(&mut other, 7, 2, LOCK | SHARED),
            "there are eight"
        );
    }

    #[test]
    fn what_an_exclusive_attempt_could_not_have_is_not_half_taken() {
        let index = LogIndex::default();
        let (mut one, mut other) = (Hold::default(), Hold::default());
        assert!(index.lock(&mut one, 4, 1, LOCK | EXCLUSIVE));
        assert!(!index.lock(&mut other, 3, 2, LOCK | EXCLUSIVE));
        assert!(index.lock(&mut one, 3, 1, LOCK | EXCLUSIVE));
    }

    #[test]
    fn regions_are_shared_and_go_with_the_last_connection() {
        let index = LogIndex::default();
        let (mut one, mut other) = (Hold::default(), Hold::default());
        assert!(index.region(&mut one, 0, false).is_none());
        let region = index.region(&mut one, 1, true).unwrap();
        assert_eq!(index.region(&mut other, 1, false), Some(region));
        assert!(index.region(&mut one, REGIONS_MAX, true).is_none());
        index.detach(&mut one);
        assert_eq!(index.region(&mut other, 1, false), Some(region));
        index.detach(&mut other);
        assert!(index.region(&mut one, 1, false).is_none());
    }
}
