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
#[derive(Default)]
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
        let own = thread::current().id();
        if *self.holder.lock() == Some(own) {
            return Err(Error::CalledBack);
        }
        let held = self.turn.lock();
        *self.holder.lock() = Some(own);
        Ok(RemoteTurn {
            turns: self,
            _held: held,
        })
    }
}

impl Drop for RemoteTurn<'_> {
    fn drop(&mut self) {
        *self.turns.holder.lock() = None;
    }
}
