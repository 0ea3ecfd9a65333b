//! The turn to move something to or from a remote: a vault gives it to one call at a time.
//!
//! Takes   a call that wants the turn
//! Gives   the turn, when the call before has ended
//! Never   lets a thread wait for itself: if the progress function of a call that has the turn asks for the turn again,
//!         it gets an error

use std::thread::{self, ThreadId};

use parking_lot::{Mutex, MutexGuard};

use crate::{Error, Result};

/// The turns of one vault.
#[derive(Debug, Default)]
pub(crate) struct RemoteTurns {
    turn: Mutex<()>,
    holder: Mutex<Option<ThreadId>>,
}

/// One of them; it ends when this is dropped.
pub(crate) struct RemoteTurn<'a> {
    turns: &'a RemoteTurns,
    _held: MutexGuard<'a, ()>,
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
            _held: held,
        })
    }

    /// Whether this thread has it.
    pub(crate) fn is_own(&self) -> bool {
        *self.holder.lock() == Some(thread::current().id())
    }
}

impl Drop for RemoteTurn<'_> {
    fn drop(&mut self) {
        *self.turns.holder.lock() = None;
    }
}
