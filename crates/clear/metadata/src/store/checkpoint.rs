//! Shortens the log: moves its committed pages into the database file.
//!
//! Takes   a store whose log is longer than its limit
//! Gives   a log that the next commit starts from the beginning
//! Never   blocks the writing connection while most of the log is copied, or commits anything
//! Spec    spec/4-metadata.md, 4.9

use std::time::Duration;

use crate::error::{Error, Result};
use crate::limits::{CHECKPOINT_WAIT_MS, LOG_EXCESS_FACTOR};
use crate::store::Store;
use crate::store::shared::Shared;
use crate::store::transaction::Transaction;
use crate::tables::reads::Reads;
use crate::tables::sql::Statement;

/// What became of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checkpoint {
    /// The log is below its limit.
    NotDue,
    /// Pages were moved, but a transaction is open or a reader looks at the log: it goes on growing.
    Partial,
    /// The next commit starts the log over.
    Done,
}

/// The connection that checkpoints, opened when first needed.
#[derive(Default)]
pub(crate) struct Checkpointer {
    reads: Option<Reads>,
}

impl Checkpointer {
    /// Closes its connection; the next checkpoint opens one.
    pub(crate) fn close(&mut self) {
        self.reads = None;
    }

    /// Runs one checkpoint; whether all of the log was moved (and, if asked for, the log restarts).
    pub(crate) fn run(&mut self, shared: &Shared, mode: Statement) -> Result<bool> {
        if self.reads.is_none() {
            let reads = shared.connect(shared.options.reader_cache_bytes)?;
            // The writer waits while the log restarts: rather not restart than wait long for a reader.
            reads
                .connection
                .busy_timeout(Duration::from_millis(CHECKPOINT_WAIT_MS))?;
            self.reads = Some(reads);
        }
        let reads = self.reads.as_ref().expect("the connection was just opened");
        let result = move_log(reads, mode);
        if result.is_err() {
            // SQLCipher refuses all that follows on a connection whose disk failed; a new one may succeed.
            self.reads = None;
        }
        result
    }
}

fn move_log(reads: &Reads, mode: Statement) -> Result<bool> {
    let mut prepared = reads.prepare(mode)?;
    let (busy, frames, moved) = prepared.query_row([], |row| {
        Ok((
            row.get::<_, i64>(0)?,
            row.get::<_, i64>(1)?,
            row.get::<_, i64>(2)?,
        ))
    })?;
    Ok(busy == 0 && frames == moved)
}

impl Store {
    /// Moves the log into the database if it is longer than its limit, so that it can start over.
    ///
    /// The bulk is moved while others work; the writer waits for the rest only, and not at all while a
    /// transaction is open: then call again after a commit, or `Transaction::checkpoint`.
    ///
    /// # Errors
    /// The disk's. After a failed sync the store is `Error::Failed`; after any other nothing is lost, and a
    /// later call may succeed.
    pub fn checkpoint(&self) -> Result<Checkpoint> {
        self.shared.writable()?;
        if self.log_bytes() <= self.shared.options.log_bytes {
            return Ok(Checkpoint::NotDue);
        }
        let mut checkpointer = self.checkpointer.lock();
        checkpointer.run(&self.shared, Statement::CheckpointPassive)?;
        let writer = self.writer.lock();
        if writer.open {
            Ok(Checkpoint::Partial)
        } else {
            restart(&self.shared, &mut checkpointer)
        }
    }

    /// Ends a store that is to be moved as one file: all of the log is in the database, durably, on return.
    ///
    /// # Errors
    /// The disk's; `Error::Busy` if somebody reads.
    pub fn finish(self) -> Result<()> {
        self.lock().commit()?;
        self.sync_log()?;
        self.checkpoint_now()
    }

    /// Moves all of the log into the database and empties it, whatever its length.
    pub(crate) fn checkpoint_now(&self) -> Result<()> {
        let mut checkpointer = self.checkpointer.lock();
        let done = checkpointer.run(&self.shared, Statement::CheckpointTruncate)?;
        if done { Ok(()) } else { Err(Error::Busy) }
    }
}

impl Transaction<'_> {
    /// As `Store::checkpoint`, for a caller that holds the writer and has just committed.
    ///
    /// # Errors
    /// As `Store::checkpoint`.
    pub fn checkpoint(&mut self) -> Result<Checkpoint> {
        let shared = &self.store.shared;
        shared.writable()?;
        if self.store.log_bytes() <= shared.options.log_bytes {
            return Ok(Checkpoint::NotDue);
        }
        if self.is_dirty() {
            return Ok(Checkpoint::Partial);
        }
        // Invariant (2) of the store: whoever holds the checkpointer may be waiting for this very guard.
        let Some(mut checkpointer) = self.store.checkpointer.try_lock() else {
            return Ok(Checkpoint::Partial);
        };
        restart(shared, &mut checkpointer)
    }
}

/// Moves the rest of the log; nobody writes meanwhile, so that the next commit starts the log over.
fn restart(shared: &Shared, checkpointer: &mut Checkpointer) -> Result<Checkpoint> {
    let excess = shared.options.log_bytes.saturating_mul(LOG_EXCESS_FACTOR);
    let done = if shared.files().disk().log_len() > excess {
        checkpointer.run(shared, Statement::CheckpointTruncate)?
    } else {
        // Keeps the file's length: overwriting allocated blocks syncs faster than growing.
        checkpointer.run(shared, Statement::CheckpointRestart)?
    };
    if done {
        shared.files().disk().set_log_len(0);
    }
    Ok(if done {
        Checkpoint::Done
    } else {
        Checkpoint::Partial
    })
}
