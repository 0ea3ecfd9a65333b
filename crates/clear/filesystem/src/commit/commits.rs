//! Makes all changes so far durable, in one commit for all callers that wait.
//!
//! Takes   the open transaction and the dirty attributes
//! Gives   a durable commit
//! Never   holds the connection while the disk syncs the database's log, or commits a row whose sealed bytes may be lost
//! Spec    spec/5-crash-contract.md
//!
//! Invariants
//!  (1) Order: sync segments → write attributes into the transaction → commit → sync the database's log → reply.
//!  (2) At the commit, the sealed bytes of every block row are durable or stored in the commit: `Blocks::installed`,
//!      the highest number of a batch that has block rows, is read under the lock of the open transaction, and all batches up to that
//!      number were synced.
//!  (3) After a failed sync or commit nothing is acknowledged any more.

use parking_lot::RwLockWriteGuard;
use strongroom_metadata::{Rekey, Transaction};

use crate::core::durability::{Committing, DurableState};
use crate::core::{Core, Work};
use crate::drain::drains::drain_all;
use crate::{Error, Filesystem, Result};

/// How often readers may keep a database from getting another key, or from being copied, before that is given up for now. Each
/// attempt waits for those who read then, however long they take; a hundred times there were new ones.
const QUIET_ATTEMPTS: usize = 100;

/// How long others go on between two attempts: a thread that checkpoints is not waited for otherwise.
const QUIET_PAUSE: std::time::Duration = std::time::Duration::from_millis(20);

impl Filesystem {
    /// Gives the database another key. What others write meanwhile waits; what they read does not.
    ///
    /// # Errors
    /// Until the new database is put in place every error leaves everything as it was; `Failed` after that.
    pub fn rekey(&self, rekey: &Rekey<'_>) -> Result<()> {
        once_nobody_reads(&self.core, || {
            behind_a_commit(&self.core, |writer| writer.rekey(rekey))
        })
    }

    /// Waits until everybody who reads the database now has come to an end: a snapshot that is taken, a check.
    pub fn wait_for_readers(&self) {
        self.core.store.wait_for_readers();
    }

    /// Whether this thread reads the database now: then it must not wait for somebody who waits for readers.
    #[must_use]
    pub fn is_read_here(&self) -> bool {
        self.core.store.is_read_here()
    }
}

/// Makes attempts until in one nobody reads. Between them the caller's locks must be free: a thread that reads may need them to end.
pub(crate) fn once_nobody_reads(
    core: &Core,
    mut attempt: impl FnMut() -> Result<()>,
) -> Result<()> {
    for _ in 1..QUIET_ATTEMPTS {
        match attempt() {
            Err(Error::Metadata(strongroom_metadata::Error::Busy)) => {}
            done => return done,
        }
        std::thread::sleep(QUIET_PAUSE);
        core.store.wait_for_readers();
    }
    attempt()
}

/// Commits, and does `work` before anybody else commits.
pub(crate) fn behind_a_commit(
    core: &Core,
    work: impl FnOnce(&mut Transaction<'_>) -> strongroom_metadata::Result<()>,
) -> Result<()> {
    // No count of changes is that high: this waits for its turn.
    let turn = core.durability.begin(u64::MAX)?;
    let turn = turn.expect("a count that is never reached is never durable");
    Ok(commit_in_turn(core, turn, work)??)
}

/// Commits, or waits for somebody's commit, until all mutations up to `target` are durable.
pub(crate) fn commit_covering(core: &Core, target: u64) -> Result<()> {
    while let Some(turn) = core.durability.begin(target)? {
        commit_in_turn(core, turn, |_| ())?;
    }
    Ok(())
}

/// Makes all that was counted so far durable.
pub(crate) fn commit_all(core: &Core) -> Result<()> {
    commit_covering(core, core.durability.changes())
}

/// The same if the open transaction has outgrown its bound.
pub(crate) fn commit_if_large(core: &Core) -> Result<()> {
    if core.store.dirty_pages() > core.options.thresholds.dirty_pages_max {
        return commit_all(core);
    }
    Ok(())
}

/// Holds up all mutations until the result is dropped: what was acknowledged before is in the transaction.
pub(crate) fn barrier(core: &Core) -> Result<RwLockWriteGuard<'_, ()>> {
    let alone = core.durability.enter_alone();
    drain_all(core)?;
    Ok(alone)
}

/// Commits, then does `then` while it still holds the writer, for a caller whose turn it is.
fn commit_in_turn<T>(
    core: &Core,
    turn: Committing<'_>,
    then: impl FnOnce(&mut Transaction<'_>) -> T,
) -> Result<T> {
    let (covered, state, done) = commit_once(core, then)?;
    turn.end(covered, state);
    Ok(done)
}

/// One commit, and `then` right behind it; gives the count of mutations that the commit covers, and the state that is durable then.
fn commit_once<T>(
    core: &Core,
    then: impl FnOnce(&mut Transaction<'_>) -> T,
) -> Result<(u64, DurableState, T)> {
    let mut synced = 0;
    for attempt in 0.. {
        let installed = core.blocks.installed();
        if installed > synced {
            core.blocks.segments.sync(installed)?;
            synced = installed;
        }
        let mut writer = core.store.lock();
        // Somebody's rows may be half written.
        core.durability.check()?;
        let installed = core.blocks.installed();
        if installed > synced {
            if attempt < 2 {
                // Somebody installed meanwhile: sync that too, without holding the writer.
                continue;
            }
            core.blocks.segments.sync(installed)?;
        }
        // Read before the attributes: what is counted until here is in memory or in the transaction.
        let covered = core.durability.changes();
        store_attributes(core, &mut writer, covered)?;
        core.durability.intents.note_acknowledged(&mut writer)?;
        writer.commit()?;
        // The only moment at which no transaction is open: without it a busy log never starts over.
        let moved = {
            let _doing = core.options.doing(Work::Checkpoint);
            writer.checkpoint()
        };
        let done = then(&mut writer);
        let state = DurableState {
            commits: writer.commits()?,
            root: core.store.root(),
        };
        drop(writer);
        if core.store.has_failed() {
            moved?;
        }
        core.store.sync_log()?;
        return Ok((covered, state, done));
    }
    unreachable!("the third attempt returns")
}

/// Writes the rows of all nodes whose attributes changed.
fn store_attributes(core: &Core, writer: &mut Transaction<'_>, covered: u64) -> Result<()> {
    for node in core.content.dirty_nodes() {
        let id = node.id;
        let mut state = node.lock();
        if state.attributes_dirty && !state.purged {
            let row = state.row();
            writer.put_inode(&row)?;
            if state.reserved_dirty {
                writer.put_reservation(id, state.stored_reserved.ranges())?;
                state.reserved_dirty = state.has_pending_content();
            }
        }
        state.attributes_dirty = false;
        if !state.has_pending_content() {
            let version = state.inode.content_version;
            state.unlogged.note_stored(covered, version);
            core.content.unlist_dirty(&mut state);
        }
    }
    core.content.nodes.look_again();
    Ok(())
}
