//! Connections that read committed data; each is lent to one task at a time.
//!
//! Takes   a store
//! Gives   a `Reader`, whose queries see the newest commit, or one fixed commit through a `Snapshot`
//! Never   waits for the writing connection
//! Spec    spec/4-metadata.md, 4.7

use std::collections::BTreeMap;
use std::ops::Deref;
use std::thread::ThreadId;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use crate::error::{Error, Result};
use crate::limits::READERS_MAX;
use crate::store::shared::Shared;
use crate::tables::reads::Reads;
use crate::tables::sql::Statement;

/// The connections that nobody uses now, and how many there are in all.
#[derive(Default)]
pub(crate) struct Pool {
    state: Mutex<PoolState>,
    returned: Condvar,
}

#[derive(Default)]
struct PoolState {
    idle: Vec<Reads>,
    open: usize,
    /// The numbers of the readers that are lent, with the threads that took them, and the number of the next one.
    lent: BTreeMap<u64, ThreadId>,
    next: u64,
    /// Whether nobody is lent a connection, because all are to be closed.
    closing: bool,
}

impl PoolState {
    fn is_lent_here(&self) -> bool {
        let here = std::thread::current().id();
        self.lent.values().any(|thread| *thread == here)
    }
}

/// A pool whose connections are closed, and that lends none until this is dropped.
pub(crate) struct Closed<'p>(&'p Pool);

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.0.state.lock().closing = false;
        self.0.returned.notify_all();
    }
}

/// Questions on what was committed when each is asked.
pub struct Reader<'s> {
    pool: &'s Pool,
    number: u64,
    /// `Some` until dropped.
    reads: Option<Reads>,
}

impl Pool {
    /// Waits until nobody has a connection, and closes all. `None` if somebody still had one at `deadline`.
    pub(crate) fn close(&self, deadline: Instant) -> Option<Closed<'_>> {
        let mut state = self.state.lock();
        state.closing = true;
        let closed = Closed(self);
        while state.idle.len() < state.open {
            if self.returned.wait_until(&mut state, deadline).timed_out()
                && state.idle.len() < state.open
            {
                drop(state);
                return None;
            }
        }
        state.open = 0;
        let idle = std::mem::take(&mut state.idle);
        drop(state);
        drop(idle);
        Some(closed)
    }

    /// Waits until every reader that is lent now has been returned. Those that are lent meanwhile go on.
    pub(crate) fn wait_for_those_lent(&self) {
        let mut state = self.state.lock();
        let end = state.next;
        while (state.lent.first_key_value()).is_some_and(|(number, _)| *number < end) {
            self.returned.wait(&mut state);
        }
    }

    /// Whether this thread took a connection and has not returned it.
    pub(crate) fn is_lent_here(&self) -> bool {
        self.state.lock().is_lent_here()
    }

    pub(crate) fn take(&self, shared: &Shared) -> Result<Reader<'_>> {
        let mut state = self.state.lock();
        debug_assert!(
            !state.is_lent_here(),
            "a second reader: `READERS_MAX` threads that did this at once would wait for ever"
        );
        let idle = loop {
            if state.closing {
                self.returned.wait(&mut state);
                continue;
            }
            if let Some(reads) = state.idle.pop() {
                break Some(reads);
            }
            if state.open < READERS_MAX {
                state.open += 1;
                break None;
            }
            self.returned.wait(&mut state);
        };
        let number = state.next;
        state.next += 1;
        state.lent.insert(number, std::thread::current().id());
        drop(state);
        let taken = match idle {
            Some(reads) => Ok(reads),
            None => shared.connect(shared.options.reader_cache_bytes),
        };
        match taken {
            Ok(reads) => Ok(Reader {
                pool: self,
                number,
                reads: Some(reads),
            }),
            Err(error) => {
                self.closed(number);
                Err(error)
            }
        }
    }

    /// A connection was closed instead of returned.
    fn closed(&self, number: u64) {
        let mut state = self.state.lock();
        state.lent.remove(&number);
        state.open -= 1;
        drop(state);
        self.returned.notify_all();
    }
}

impl Deref for Reader<'_> {
    type Target = Reads;

    fn deref(&self) -> &Reads {
        self.reads
            .as_ref()
            .expect("the connection is there until the reader is dropped")
    }
}

impl<'s> Reader<'s> {
    /// Holds on to what is committed now: every question until the snapshot is dropped is about that.
    ///
    /// Keep it for one task: while it is held, the log cannot start over.
    ///
    /// # Errors
    /// The disk's; `Error::Invalid` while there is another snapshot of this reader.
    pub fn snapshot(&self) -> Result<Snapshot<'_, 's>> {
        if !self.connection.is_autocommit() {
            return Err(Error::Invalid("the reader has a snapshot already"));
        }
        self.prepare(Statement::SnapshotBegin)?.execute([])?;
        let snapshot = Snapshot { reader: self };
        // The state is chosen by the first question.
        self.commits()?;
        Ok(snapshot)
    }
}

/// A reader that stays with one committed state.
#[derive(Debug)]
pub struct Snapshot<'r, 's> {
    reader: &'r Reader<'s>,
}

impl<'s> Deref for Snapshot<'_, 's> {
    type Target = Reader<'s>;

    fn deref(&self) -> &Reader<'s> {
        self.reader
    }
}

impl Drop for Snapshot<'_, '_> {
    fn drop(&mut self) {
        // Should it fail, the reader is closed instead of being lent again.
        let _ = self
            .reader
            .prepare(Statement::SnapshotEnd)
            .and_then(|mut end| Ok(end.execute([])?));
    }
}

impl std::fmt::Debug for Reader<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Reader").finish_non_exhaustive()
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        let Some(reads) = self.reads.take() else {
            return;
        };
        // A snapshot that was forgotten, or could not be ended, must not go on with the next user.
        if reads.connection.is_autocommit() && !reads.is_spent() {
            let mut state = self.pool.state.lock();
            state.lent.remove(&self.number);
            state.idle.push(reads);
            drop(state);
            self.pool.returned.notify_all();
        } else {
            drop(reads);
            self.pool.closed(self.number);
        }
    }
}
