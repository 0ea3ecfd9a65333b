//! Lets one session at a time push to a remote.
//!
//! Takes   the number of a remote
//! Gives   a turn, which lasts until it is dropped; other sessions wait for it, until the owner leaves
//! Never   delays pushes to other remotes
//! Spec    spec/11-sync.md, 11.4
//!
//! Two sessions of one device, such as a command and a mount that syncs, share the rows about a remote. Without turns, one session
//! could wrongly name or leave out an object that the other has uploaded and not published yet.

use std::collections::HashSet;
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
    are_over: bool,
}

/// The turn of a session; over when it goes.
pub(crate) struct PushTurn {
    turns: Arc<PushTurns>,
    remote: u64,
}

impl PushTurns {
    /// Waits until no other session pushes to that remote.
    ///
    /// # Errors
    /// `Closed` once there are no more turns.
    pub(crate) fn take(self: &Arc<Self>, remote: u64) -> Result<PushTurn> {
        let mut turns = self.turns.lock();
        while !turns.are_over {
            if turns.taken.insert(remote) {
                return Ok(PushTurn {
                    turns: Arc::clone(self),
                    remote,
                });
            }
            self.ended.wait(&mut turns);
        }
        Err(Error::Closed)
    }

    /// Gives no more turns: nobody waits for one any longer.
    pub(crate) fn end(&self) {
        self.turns.lock().are_over = true;
        self.ended.notify_all();
    }

    /// Whether somebody waits for a turn. He is woken, and waits on.
    #[cfg(test)]
    pub(crate) fn are_waited_for(&self) -> bool {
        self.ended.notify_one()
    }
}

impl Drop for PushTurn {
    fn drop(&mut self) {
        self.turns.turns.lock().taken.remove(&self.remote);
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
        let _held = turns.take(1).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| turns.take(1).map(drop));
            while !turns.are_waited_for() {
                std::thread::yield_now();
            }
            turns.end();
            assert!(matches!(waiting.join().unwrap(), Err(Error::Closed)));
        });
        assert!(matches!(turns.take(2).map(drop), Err(Error::Closed)));
    }
}
