//! A savepoint: a point in the open transaction to which it can be rolled back, keeping the changes before that point.
//!
//! Takes   the transaction, while its guard is held
//! Gives   the same transaction with the changes since the savepoint kept, or without them
//! Never   lets a transaction be committed before its savepoint was kept or rolled back
//! Spec    spec/4-metadata.md, 4.7.6
//!
//! Invariants
//!  (1) A number that was assigned is not assigned again after a rollback.
//!  (2) The counts that the writing connection keeps in memory are rolled back together with the tables.

use std::collections::{BTreeMap, HashSet};

use crate::error::Result;
use crate::rows::SegmentNumber;
use crate::store::Store;
use crate::store::gauges::SegmentBytes;
use crate::store::transaction::{Growth, Transaction};
use crate::tables::history::History;
use crate::tables::sql::Statement;

/// A place in the open transaction. Give it to `keep` or `roll_back`, still under the same guard; dropping it
/// instead, as a panic does, fails the store, for nobody knows then what the transaction holds.
#[derive(Debug)]
#[must_use = "a savepoint that is dropped fails the store"]
pub struct Savepoint<'s> {
    store: &'s Store,
    resolved: bool,
    growth: BTreeMap<SegmentNumber, Growth>,
    segment_bytes: SegmentBytes,
    without_file: HashSet<SegmentNumber>,
    greatest_inode: u64,
    inodes: u64,
    waiting_bytes: u64,
    history: History,
}

impl Drop for Savepoint<'_> {
    fn drop(&mut self) {
        if !self.resolved {
            self.store.shared.fail();
        }
    }
}

impl<'s> Transaction<'s> {
    /// Marks this place. Only one mark at a time; no commit while there is one.
    pub fn savepoint(&mut self) -> Result<Savepoint<'s>> {
        // Through `change`, so that a transaction is open: outside of one, a savepoint would be its own.
        self.change(0, |writer| writer.run(Statement::Savepoint, []).map(drop))?;
        Ok(Savepoint {
            store: self.store,
            resolved: false,
            growth: self.writer.growth.clone(),
            segment_bytes: self.writer.segment_bytes,
            without_file: self.writer.without_file.clone(),
            greatest_inode: self.writer.greatest_inode,
            inodes: self.writer.numbers.inodes,
            waiting_bytes: self.writer.numbers.waiting_bytes,
            history: self.writer.history,
        })
    }

    /// Keeps what was changed since `savepoint`.
    pub fn keep(&mut self, mut savepoint: Savepoint<'s>) -> Result<()> {
        self.change(0, |writer| {
            writer.run(Statement::SavepointKeep, []).map(drop)
        })?;
        savepoint.resolved = true;
        Ok(())
    }

    /// Takes back what was changed since `savepoint`; what is older stays. Works on a store that has failed
    /// meanwhile too, so that nobody reads what was taken back.
    ///
    /// # Errors
    /// The disk's; then the store has failed.
    pub fn roll_back(&mut self, mut savepoint: Savepoint<'s>) -> Result<()> {
        let writer = &mut *self.writer;
        writer.run(Statement::SavepointRollBack, [])?;
        writer.run(Statement::SavepointKeep, [])?;
        // (2), and (1): what comes next is not among them.
        writer.growth = std::mem::take(&mut savepoint.growth);
        writer.segment_ids.clear();
        writer.segment_bytes = savepoint.segment_bytes;
        writer.without_file = std::mem::take(&mut savepoint.without_file);
        writer.greatest_inode = savepoint.greatest_inode;
        writer.numbers.inodes = savepoint.inodes;
        writer.numbers.waiting_bytes = savepoint.waiting_bytes;
        writer.history = savepoint.history;
        savepoint.resolved = true;
        self.publish();
        Ok(())
    }
}
