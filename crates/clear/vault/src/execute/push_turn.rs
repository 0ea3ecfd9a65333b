//! Lets one session at a time push to a remote.
//!
//! Takes   the number of a remote
//! Gives   a turn, which lasts until it is dropped; other sessions wait for it
//! Never   delays pushes to other remotes
//! Spec    spec/11-sync.md, 11.4
//!
//! Two sessions of one device, such as a command and a mount that syncs, share the rows about a remote. Without turns, one session
//! could wrongly name or leave out an object that the other has uploaded and not published yet.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

#[derive(Default)]
pub(crate) struct PushTurns {
    taken: Mutex<HashSet<u64>>,
    ended: Condvar,
}

/// The turn of a session; over when it goes.
pub(crate) struct PushTurn {
    turns: Arc<PushTurns>,
    remote: u64,
}

impl PushTurns {
    /// Waits until no other session pushes to that remote.
    pub(crate) fn take(self: &Arc<Self>, remote: u64) -> PushTurn {
        let mut taken = self.taken.lock();
        while !taken.insert(remote) {
            self.ended.wait(&mut taken);
        }
        PushTurn {
            turns: Arc::clone(self),
            remote,
        }
    }
}

impl Drop for PushTurn {
    fn drop(&mut self) {
        self.turns.taken.lock().remove(&self.remote);
        self.turns.ended.notify_all();
    }
}
