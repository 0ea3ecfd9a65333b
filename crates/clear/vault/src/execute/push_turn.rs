//! Lets one session at a time push to a remote.
//!
//! Takes   the number of a remote
//! Gives   a turn, which lasts until it is dropped (other sessions wait for it, until the owner leaves); the number of waiting
//!         requests of a session; and whether a push is about a snapshot
//! Never   delays pushes to other remotes
//! Spec    spec/11-sync.md, 11.4
//!
//! Two sessions of one device, such as a command and a mount that syncs, share the rows about a remote. Without turns, one session
//! could wrongly name or leave out an object that the other has uploaded and not published yet.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::{Error, Result};

#[derive(Default)]
pub(crate) struct PushTurns {
    turns: Mutex<Turns>,
    ended: Condvar,
}

#[derive(Default)]
struct Turns {
    taken: HashSet<u64>,
    /// The snapshot that the push to a remote is about.
    heads: HashMap<u64, [u8; 32]>,
    /// The session and the remote of each request that waits.
    waiting: Vec<(u64, u64)>,
    are_over: bool,
}

/// The turn of a session; over when it goes.
pub(crate) struct PushTurn {
    turns: Arc<PushTurns>,
    remote: u64,
}

impl PushTurns {
    /// Waits until no other session than `session` pushes to that remote.
    ///
    /// # Errors
    /// `Closed` once there are no more turns.
    pub(crate) fn take(self: &Arc<Self>, session: u64, remote: u64) -> Result<PushTurn> {
        let waits = (session, remote);
        let mut turns = self.turns.lock();
        while !turns.are_over {
            if turns.taken.insert(remote) {
                return Ok(PushTurn {
                    turns: Arc::clone(self),
                    remote,
                });
            }
            turns.waiting.push(waits);
            self.ended.wait(&mut turns);
            if let Some(at) = turns.waiting.iter().position(|one| *one == waits) {
                turns.waiting.swap_remove(at);
            }
        }
        Err(Error::Closed)
    }

    /// How many requests of that session wait for pushes of others; none that can have its turn now.
    pub(crate) fn waiting_count(&self, session: u64) -> usize {
        let turns = self.turns.lock();
        let waits = |one: &&(u64, u64)| one.0 == session && turns.taken.contains(&one.1);
        turns.waiting.iter().filter(waits).count()
    }

    /// Whether a push that has not ended is about that snapshot: soon a remote may have it in common with this device.
    pub(crate) fn are_about(&self, head: &[u8; 32]) -> bool {
        self.turns.lock().heads.values().any(|one| one == head)
    }

    /// Gives no more turns: nobody waits for one any longer.
    pub(crate) fn end(&self) {
        self.turns.lock().are_over = true;
        self.ended.notify_all();
    }

    /// Whether somebody waits for a turn.
    #[cfg(test)]
    pub(crate) fn are_waited_for(&self) -> bool {
        !self.turns.lock().waiting.is_empty()
    }
}

impl PushTurn {
    /// Says which snapshot the push is about, until it ends.
    pub(crate) fn begin(&self, head: [u8; 32]) {
        self.turns.turns.lock().heads.insert(self.remote, head);
    }
}

impl Drop for PushTurn {
    fn drop(&mut self) {
        let mut turns = self.turns.turns.lock();
        turns.heads.remove(&self.remote);
        turns.taken.remove(&self.remote);
        drop(turns);
        self.turns.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: an owner that leaves waits for nobody who waits for a push. Method: the turn is held all the time. Failed before: who
    /// waited for it waited until it ended.
    #[test]
    fn who_waits_for_a_turn_waits_no_longer_once_there_are_no_more() {
        let turns = Arc::new(PushTurns::default());
        let _held = turns.take(10, 1).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| turns.take(11, 1).map(drop));
            while !turns.are_waited_for() {
                std::thread::yield_now();
            }
            assert_eq!((turns.waiting_count(10), turns.waiting_count(11)), (0, 1));
            turns.end();
            assert!(matches!(waiting.join().unwrap(), Err(Error::Closed)));
        });
        assert_eq!(turns.waiting_count(11), 0);
        assert!(matches!(turns.take(10, 2).map(drop), Err(Error::Closed)));
    }
}
