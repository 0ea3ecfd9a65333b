//! Locks on whole files, as `flock(2)` has them: advisory, shared or exclusive, each held by one open file.
//!
//! Takes   a request for a lock on a file
//! Gives   the lock, now or within a moment; or the answer that somebody else holds it
//! Never   keeps a lock for longer than its file is open, stores one (locks end with the process that owns the vault), or sees
//!         locks of programs on a mount (the kernel keeps those: `mount/src/capabilities.rs`)
//!
//! Invariants
//!  (1) One file is locked by any number of shared holders or by one exclusive one.
//!  (2) A waiting caller is answered after `LOCK_WAIT`, and asks again. So no connection is occupied for long.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use strongroom_filesystem::InodeId;

use crate::request::Handle;
use crate::request::lock::{LockKind, Patience};

/// How long one request waits for a lock at most.                                                           (2)
const LOCK_WAIT: Duration = Duration::from_millis(250);

/// An open file: its session, and its number there.
pub(crate) type Holder = (u64, Handle);

type Table = HashMap<InodeId, Vec<(Holder, LockKind)>>;

/// The locks of one vault.
#[derive(Default)]
pub(crate) struct Locks {
    table: Mutex<Table>,
    released: Condvar,
}

impl Locks {
    /// Locks `inode` for `holder`, in place of the lock that it may have on it. Gives false if somebody else has it.
    pub(crate) fn lock(
        &self,
        inode: InodeId,
        holder: Holder,
        kind: LockKind,
        patience: Patience,
    ) -> bool {
        let deadline = Instant::now() + LOCK_WAIT;
        let mut table = self.table.lock();
        while !is_free(&table, inode, holder, kind) {
            let waits = patience == Patience::AMoment;
            if !waits || self.released.wait_until(&mut table, deadline).timed_out() {
                return false;
            }
        }
        let holders = table.entry(inode).or_default();
        let changed = holders
            .iter()
            .any(|(other, held)| *other == holder && *held != kind);
        holders.retain(|(other, _)| *other != holder);
        holders.push((holder, kind));
        if changed {
            // An exclusive lock became a shared one.
            self.released.notify_all();
        }
        true
    }

    /// Gives back the lock of `holder` on `inode`, if it has one.
    pub(crate) fn unlock(&self, inode: InodeId, holder: Holder) {
        self.release(inode, |other| *other == holder);
    }

    /// Gives back every lock of a session.
    pub(crate) fn unlock_all(&self, session: u64) {
        let inodes: Vec<InodeId> = self.table.lock().keys().copied().collect();
        for inode in inodes {
            self.release(inode, |holder| holder.0 == session);
        }
    }

    fn release(&self, inode: InodeId, whose: impl Fn(&Holder) -> bool) {
        let mut table = self.table.lock();
        let Some(holders) = table.get_mut(&inode) else {
            return;
        };
        let before = holders.len();
        holders.retain(|(holder, _)| !whose(holder));
        let released = holders.len() < before;
        if holders.is_empty() {
            table.remove(&inode);
        }
        if released {
            self.released.notify_all();
        }
    }
}

/// (1)
fn is_free(table: &Table, inode: InodeId, holder: Holder, kind: LockKind) -> bool {
    let others = table.get(&inode).into_iter().flatten();
    let mut others = others.filter(|(other, _)| *other != holder);
    others.all(|(_, held)| kind == LockKind::Shared && *held == LockKind::Shared)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: InodeId = InodeId(7);

    fn holder(number: u64) -> Holder {
        (number, Handle(1))
    }

    #[test]
    fn shared_locks_go_together_and_an_exclusive_one_with_none() {
        let locks = Locks::default();
        let take = |number, kind| locks.lock(FILE, holder(number), kind, Patience::None);
        assert!(take(1, LockKind::Shared) && take(2, LockKind::Shared));
        assert!(!take(3, LockKind::Exclusive) && !take(1, LockKind::Exclusive));
        locks.unlock(FILE, holder(2));
        // One's own lock is no hindrance: it is changed.
        assert!(take(1, LockKind::Exclusive) && !take(2, LockKind::Shared));
        assert!(take(1, LockKind::Shared) && take(2, LockKind::Shared));
        assert!(locks.lock(InodeId(8), holder(3), LockKind::Exclusive, Patience::None));
        locks.unlock_all(1);
        locks.unlock_all(2);
        assert!(take(3, LockKind::Exclusive));
        locks.unlock_all(3);
        assert!(locks.table.lock().is_empty());
    }

    #[test]
    fn who_waits_has_the_lock_when_it_is_given_back() {
        let locks = Locks::default();
        assert!(locks.lock(FILE, holder(1), LockKind::Exclusive, Patience::None));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                while !locks.lock(FILE, holder(2), LockKind::Exclusive, Patience::AMoment) {}
            });
            locks.unlock(FILE, holder(1));
            waiting.join().unwrap();
        });
        assert!(!locks.lock(FILE, holder(1), LockKind::Shared, Patience::None));
    }
}
