//! Connections that read what was committed, lent one task at a time.
//!
//! Takes   a store
//! Gives   a `Reader`: one consistent state, until it is dropped
//! Never   waits for the writer
//! Spec    spec/4-metadata.md, 4.7

use std::ops::Deref;

use parking_lot::{Condvar, Mutex};

use crate::error::Result;
use crate::limits::READERS_MAX;
use crate::reads::Reads;
use crate::sql::Statement;
use crate::store::Shared;

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
}

/// Questions on one committed state: that of the moment it was taken.
pub struct Reader<'s> {
    pool: &'s Pool,
    /// `Some` until dropped.
    reads: Option<Reads>,
}

impl Pool {
    pub(crate) fn take(&self, shared: &Shared) -> Result<Reader<'_>> {
        let mut state = self.state.lock();
        let idle = loop {
            if let Some(reads) = state.idle.pop() {
                break Some(reads);
            }
            if state.open < READERS_MAX {
                state.open += 1;
                break None;
            }
            self.returned.wait(&mut state);
        };
        drop(state);
        let taken = match idle {
            Some(reads) => Ok(reads),
            None => shared.connect(shared.options.reader_cache_bytes),
        };
        let begun = taken.and_then(|reads| {
            reads.prepare(Statement::SnapshotBegin)?.execute([])?;
            Ok(reads)
        });
        match begun {
            Ok(reads) => Ok(Reader {
                pool: self,
                reads: Some(reads),
            }),
            Err(error) => {
                self.closed();
                Err(error)
            }
        }
    }

    /// A connection was closed instead of returned.
    fn closed(&self) {
        self.state.lock().open -= 1;
        self.returned.notify_one();
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
        let ended = reads
            .prepare(Statement::SnapshotEnd)
            .and_then(|mut end| Ok(end.execute([])?));
        if ended.is_ok() && !reads.is_damaged() {
            self.pool.state.lock().idle.push(reads);
            self.pool.returned.notify_one();
        } else {
            drop(reads);
            self.pool.closed();
        }
    }
}
