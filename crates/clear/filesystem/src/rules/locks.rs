//! Advisory locks: who holds which bytes of a file, against whom.
//!
//! Takes   a range, a kind and an owner
//! Gives   the lock, or the lock that stands in the way
//! Never   waits: whoever wants to wait asks again
//!
//! Locks live in memory and end with the process that owns the vault, as they end with a reboot elsewhere.
//!
//! Invariants
//!  (1) No two locks of different owners overlap unless both are `Read`.
//!  (2) Locks of one owner do not overlap, and neighbours of one kind are one lock.
//!  (3) A file without locks has no row in the table.

use std::collections::HashMap;

use parking_lot::Mutex;
use strongroom_metadata::InodeId;

use crate::limits::LOCKS_PER_FILE_MAX;
use crate::{ByteRangeLock, Error, LockKind, Result};

/// Which of the two kinds of advisory locks: they ignore each other, as on Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Space {
    /// `fcntl`: ranges.
    Ranges,
    /// `flock`: always the whole file.
    Whole,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    owner: u64,
    lock: ByteRangeLock,
}

/// All locks of a vault.
pub(crate) struct LockTable {
    files: Mutex<HashMap<(InodeId, Space), Vec<Held>>>,
}

impl LockTable {
    pub(crate) fn new() -> Self {
        Self {
            files: Mutex::new(HashMap::new()),
        }
    }

    /// Takes, changes or gives back a range; all or nothing.
    pub(crate) fn set(
        &self,
        file: (InodeId, Space),
        owner: u64,
        lock: ByteRangeLock,
    ) -> Result<()> {
        let mut files = self.files.lock();
        let held = files.get(&file).map_or(&[][..], Vec::as_slice);
        if first_conflict(held, owner, &lock).is_some() {
            return Err(Error::WouldBlock);
        }
        let next = with_lock(held, owner, lock);
        if next.len() > LOCKS_PER_FILE_MAX && next.len() > held.len() {
            return Err(Error::InvalidArgument(
                "more locks than one file can hold".into(),
            ));
        }
        if next.is_empty() {
            files.remove(&file);
        } else {
            files.insert(file, next);
        }
        Ok(())
    }

    pub(crate) fn conflict(
        &self,
        file: (InodeId, Space),
        owner: u64,
        lock: &ByteRangeLock,
    ) -> Option<ByteRangeLock> {
        let files = self.files.lock();
        first_conflict(files.get(&file)?, owner, lock)
    }

    pub(crate) fn drop_owner(&self, file: (InodeId, Space), owner: u64) {
        let mut files = self.files.lock();
        let Some(held) = files.get_mut(&file) else {
            return;
        };
        held.retain(|held| held.owner != owner);
        if held.is_empty() {
            files.remove(&file);
        }
    }
}

/// The conflicting lock with the lowest start.
fn first_conflict(held: &[Held], owner: u64, lock: &ByteRangeLock) -> Option<ByteRangeLock> {
    if lock.kind == LockKind::Unlock {
        return None;
    }
    held.iter()
        .filter(|other| {
            other.owner != owner && other.lock.start <= lock.end && lock.start <= other.lock.end
        })
        .filter(|other| lock.kind == LockKind::Write || other.lock.kind == LockKind::Write)
        .map(|other| other.lock)
        .min_by_key(|lock| lock.start)
}

/// The table after `owner` has set `lock`, which conflicts with nothing.
fn with_lock(held: &[Held], owner: u64, lock: ByteRangeLock) -> Vec<Held> {
    let mut next = Vec::with_capacity(held.len() + 2);
    let mut merged = lock;
    for &other in held {
        if other.owner != owner {
            next.push(other);
            continue;
        }
        let old = other.lock;
        let touches =
            old.start <= lock.end.saturating_add(1) && lock.start <= old.end.saturating_add(1);
        if touches && old.kind == lock.kind {
            merged.start = merged.start.min(old.start);
            merged.end = merged.end.max(old.end);
            continue;
        }
        if old.start > lock.end || lock.start > old.end {
            next.push(other);
            continue;
        }
        if old.start < lock.start {
            next.push(Held {
                owner,
                lock: ByteRangeLock {
                    end: lock.start - 1,
                    ..old
                },
            });
        }
        if old.end > lock.end {
            next.push(Held {
                owner,
                lock: ByteRangeLock {
                    start: lock.end + 1,
                    ..old
                },
            });
        }
    }
    if lock.kind != LockKind::Unlock {
        next.push(Held {
            owner,
            lock: merged,
        });
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: (InodeId, Space) = (InodeId(5), Space::Ranges);
    const FLOCK: (InodeId, Space) = (InodeId(5), Space::Whole);

    fn range(kind: LockKind, start: u64, end: u64) -> ByteRangeLock {
        ByteRangeLock {
            start,
            end,
            kind,
            pid: 9,
        }
    }

    fn read(start: u64, end: u64) -> ByteRangeLock {
        range(LockKind::Read, start, end)
    }

    fn write(start: u64, end: u64) -> ByteRangeLock {
        range(LockKind::Write, start, end)
    }

    fn unlock(start: u64, end: u64) -> ByteRangeLock {
        range(LockKind::Unlock, start, end)
    }

    /// What `owner` holds on `FILE`, sorted: `(start, end, kind)`.
    fn held(table: &LockTable, owner: u64) -> Vec<(u64, u64, LockKind)> {
        let files = table.files.lock();
        let mut found: Vec<_> = files
            .get(&FILE)
            .into_iter()
            .flatten()
            .filter(|held| held.owner == owner)
            .map(|held| (held.lock.start, held.lock.end, held.lock.kind))
            .collect();
        found.sort_by_key(|(start, ..)| *start);
        found
    }

    #[test]
    fn readers_share_and_a_writer_excludes() {
        let table = LockTable::new();
        table.set(FILE, 1, read(0, 9)).expect("free");
        table.set(FILE, 2, read(5, 20)).expect("readers share");
        assert!(matches!(
            table.set(FILE, 3, write(20, 20)),
            Err(Error::WouldBlock)
        ));
        table.set(FILE, 3, write(21, 30)).expect("beside them");
        assert!(matches!(
            table.set(FILE, 1, read(30, 40)),
            Err(Error::WouldBlock)
        ));
        assert_eq!(held(&table, 1), [(0, 9, LockKind::Read)]);
    }

    #[test]
    fn the_first_conflict_in_the_file_is_told() {
        let table = LockTable::new();
        table.set(FILE, 1, write(50, 59)).expect("free");
        table.set(FILE, 2, read(10, 19)).expect("free");
        assert_eq!(
            table.conflict(FILE, 3, &write(0, u64::MAX)),
            Some(read(10, 19))
        );
        assert_eq!(
            table.conflict(FILE, 3, &read(0, u64::MAX)),
            Some(write(50, 59))
        );
        assert_eq!(table.conflict(FILE, 3, &read(60, u64::MAX)), None);
        assert_eq!(table.conflict(FILE, 1, &write(20, u64::MAX)), None);
        assert_eq!(table.conflict(FILE, 3, &unlock(0, u64::MAX)), None);
    }

    #[test]
    fn an_owner_never_blocks_itself_and_changes_kinds_in_place() {
        let table = LockTable::new();
        table.set(FILE, 1, read(0, 99)).expect("free");
        table.set(FILE, 1, write(40, 59)).expect("its own");
        let expected = [
            (0, 39, LockKind::Read),
            (40, 59, LockKind::Write),
            (60, 99, LockKind::Read),
        ];
        assert_eq!(held(&table, 1), expected);
        table.set(FILE, 1, read(30, 70)).expect("its own");
        assert_eq!(held(&table, 1), [(0, 99, LockKind::Read)]);
    }

    #[test]
    fn neighbours_of_one_kind_become_one_lock() {
        let table = LockTable::new();
        table.set(FILE, 1, write(0, 9)).expect("free");
        table.set(FILE, 1, write(20, 29)).expect("free");
        table.set(FILE, 1, write(10, 19)).expect("free");
        assert_eq!(held(&table, 1), [(0, 29, LockKind::Write)]);
        table.set(FILE, 1, write(30, u64::MAX)).expect("free");
        assert_eq!(held(&table, 1), [(0, u64::MAX, LockKind::Write)]);
    }

    #[test]
    fn a_range_is_given_back_from_the_middle_and_at_both_ends() {
        let table = LockTable::new();
        table.set(FILE, 1, write(0, u64::MAX)).expect("free");
        table.set(FILE, 1, unlock(10, 19)).expect("unlocks");
        assert_eq!(
            held(&table, 1),
            [(0, 9, LockKind::Write), (20, u64::MAX, LockKind::Write)]
        );
        table.set(FILE, 2, write(10, 19)).expect("free now");
        table.set(FILE, 1, unlock(0, 0)).expect("unlocks");
        table.set(FILE, 1, unlock(30, u64::MAX)).expect("unlocks");
        assert_eq!(
            held(&table, 1),
            [(1, 9, LockKind::Write), (20, 29, LockKind::Write)]
        );
        assert_eq!(held(&table, 2), [(10, 19, LockKind::Write)]);
    }

    #[test]
    fn an_upgrade_that_another_reader_blocks_changes_nothing() {
        let table = LockTable::new();
        table.set(FILE, 1, read(0, 9)).expect("free");
        table.set(FILE, 2, read(9, 9)).expect("shared");
        assert!(matches!(
            table.set(FILE, 1, write(0, 9)),
            Err(Error::WouldBlock)
        ));
        assert_eq!(held(&table, 1), [(0, 9, LockKind::Read)]);
        table.set(FILE, 1, write(0, 8)).expect("nobody else there");
    }

    #[test]
    fn whole_file_locks_and_ranges_ignore_each_other() {
        let table = LockTable::new();
        table.set(FILE, 1, write(0, u64::MAX)).expect("free");
        table
            .set(FLOCK, 2, write(0, u64::MAX))
            .expect("another space");
        assert!(matches!(
            table.set(FLOCK, 1, read(0, u64::MAX)),
            Err(Error::WouldBlock)
        ));
    }

    #[test]
    fn a_file_without_locks_leaves_the_table() {
        let table = LockTable::new();
        table.set(FILE, 1, read(0, 9)).expect("free");
        table.set(FILE, 2, read(0, 9)).expect("shared");
        table.drop_owner(FILE, 1);
        assert_eq!(held(&table, 1), []);
        table.set(FILE, 2, unlock(0, u64::MAX)).expect("unlocks");
        table
            .set(FILE, 3, unlock(0, u64::MAX))
            .expect("nothing to unlock");
        assert!(table.files.lock().is_empty());
    }

    #[test]
    fn one_file_holds_a_bounded_number_of_locks() {
        let table = LockTable::new();
        table.set(FILE, 1, write(0, u64::MAX)).expect("free");
        for index in 1..LOCKS_PER_FILE_MAX as u64 {
            table
                .set(FILE, 1, unlock(index * 2, index * 2))
                .expect("within the bound");
        }
        assert_eq!(held(&table, 1).len(), LOCKS_PER_FILE_MAX);
        let split = unlock(1 << 40, 1 << 40);
        assert!(matches!(
            table.set(FILE, 1, split),
            Err(Error::InvalidArgument(_))
        ));
        assert_eq!(held(&table, 1).len(), LOCKS_PER_FILE_MAX);
        table
            .set(FILE, 1, unlock(0, u64::MAX))
            .expect("giving back is always possible");
    }

    /// Goal: interval arithmetic equals bytes one by one. Method: a pseudo-random walk over 64 bytes and
    /// three owners, compared after each step with a table that has one cell per byte.
    #[test]
    fn ranges_agree_with_a_table_of_bytes() {
        let table = LockTable::new();
        let mut bytes = [[LockKind::Unlock; 64]; 3];
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let mut draw = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        let (mut taken, mut refused) = (0, 0);
        for _ in 0..20_000 {
            let owner = usize::try_from(draw(3)).expect("below 3");
            let start = draw(64);
            let end = (start + draw(12)).min(63);
            let kind = [LockKind::Read, LockKind::Write, LockKind::Unlock]
                [usize::try_from(draw(3)).expect("below 3")];
            let cells =
                usize::try_from(start).expect("below 64")..=usize::try_from(end).expect("below 64");
            let blocked = kind != LockKind::Unlock
                && (0..3).filter(|other| *other != owner).any(|other| {
                    bytes[other][cells.clone()].iter().any(|held| match held {
                        LockKind::Unlock => false,
                        LockKind::Read => kind == LockKind::Write,
                        LockKind::Write => true,
                    })
                });
            let result = table.set(FILE, owner as u64, range(kind, start, end));
            assert_eq!(result.is_err(), blocked);
            if blocked {
                refused += 1;
            } else {
                taken += 1;
                bytes[owner][cells].fill(kind);
            }
            for (owner, row) in bytes.iter().enumerate() {
                let mut spread = [LockKind::Unlock; 64];
                let ranges = held(&table, owner as u64);
                for pair in ranges.windows(2) {
                    let apart = pair[0].1 + 1 < pair[1].0;
                    assert!(
                        apart || (pair[0].1 < pair[1].0 && pair[0].2 != pair[1].2),
                        "(2) broken: {pair:?}"
                    );
                }
                for (start, end, kind) in ranges {
                    spread[usize::try_from(start).expect("below 64")
                        ..=usize::try_from(end).expect("below 64")]
                        .fill(kind);
                }
                assert_eq!(&spread, row);
            }
        }
        assert!(
            taken > 1000 && refused > 1000,
            "the walk must meet both: {taken} {refused}"
        );
    }
}
