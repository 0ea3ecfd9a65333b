//! The turn to move something to or from a remote: a vault gives it to one call at a time.
//!
//! Takes   a call that wants the turn
//! Gives   the turn, once the call before has ended. The end of a turn waits for the threads that were told to end during it
//! Never   lets a thread wait for itself: if the progress function of a call that has the turn asks for the turn again,
//!         it gets an error

use std::mem;
use std::thread::{self, JoinHandle, ThreadId};

use parking_lot::{Mutex, MutexGuard};

use crate::{Error, Result};

/// The turns of one vault.
#[derive(Debug, Default)]
pub(crate) struct RemoteTurns {
    turn: Mutex<()>,
    holder: Mutex<Option<ThreadId>>,
    /// Threads that are to end and may want the turn: it is theirs before they are waited for.
    leaving: Mutex<Vec<JoinHandle<()>>>,
}

/// One of them; it ends when this is dropped.
pub(crate) struct RemoteTurn<'a> {
    turns: &'a RemoteTurns,
    held: Option<MutexGuard<'a, ()>>,
}

impl RemoteTurns {
    /// Waits for the turn.
    ///
    /// # Errors
    /// `CalledBack` if this thread has it.
    pub(crate) fn take(&self) -> Result<RemoteTurn<'_>> {
        if self.is_own() {
            return Err(Error::CalledBack);
        }
        let held = self.turn.lock();
        *self.holder.lock() = Some(thread::current().id());
        Ok(RemoteTurn {
            turns: self,
            held: Some(held),
        })
    }

    /// Whether this thread has it.
    pub(crate) fn is_own(&self) -> bool {
        *self.holder.lock() == Some(thread::current().id())
    }

    /// The turn of this thread waits for `ending` when it is over: before that the other one may wait for the turn.
    pub(crate) fn wait_later(&self, ending: JoinHandle<()>) {
        self.leaving.lock().push(ending);
    }
}

impl Drop for RemoteTurn<'_> {
    fn drop(&mut self) {
        *self.turns.holder.lock() = None;
        // Those that were left in this turn, and none of a later one.
        let leaving = mem::take(&mut *self.turns.leaving.lock());
        drop(self.held.take());
        for ending in leaving {
            // The thread of a sync may have left itself.
            if ending.thread().id() != thread::current().id() {
                // A panic there has been reported by the panic hook.
                let _ = ending.join();
            }
        }
    }
}
