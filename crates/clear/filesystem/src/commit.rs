//! Makes what has happened durable, once for all who wait.
//!
//! Takes   the open transaction and the dirty attributes
//! Gives   a durable commit
//! Never   holds the connection while the disk syncs the log, nor commits a row whose sealed bytes may be lost
//!
//! Invariants
//!  (1) Order: segments synced → attributes into the transaction → commit → log synced → reply.
//!  (2) At the commit every block row's sealed bytes are durable or carried: `installed_sequence`, read
//!      under the writer, is not above what was synced.
//!  (3) After a failed sync or commit nothing is acknowledged any more.
//! Spec    spec/5-crash-contract.md

pub(crate) mod intents;

use std::sync::atomic::Ordering;

use parking_lot::{Condvar, Mutex, MutexGuard};
use strongroom_metadata::{InodeId, NodeKind, Rekey, Transaction};

use crate::core::{Core, Work};
use crate::drain::{Reason, drain_all, drain_node};
use crate::{Error, Filesystem, Result};

/// Who commits, and how far it is.
#[derive(Default)]
pub(crate) struct CommitState {
    progress: Mutex<Progress>,
    done: Condvar,
}

#[derive(Default)]
struct Progress {
    running: bool,
    /// All mutations counted up to here are durable.
    durable: u64,
    /// The newest commit of this run that is durable for certain.
    state: Option<DurableState>,
}

/// A state of the database that no power cut takes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DurableState {
    /// The count of commits that the database has ever seen.
    pub commits: u64,
    /// The one value that stands for all of its pages; `None` of a database that keeps none.
    pub root: Option<[u8; 32]>,
}

impl Filesystem {
    /// `fsync`: the content, size, attributes and names of `inode` reached so far are durable on return.
    ///
    /// # Errors
    /// `NoSpace` leaves the content pending and the vault usable; `Failed` ends writing until it is opened again.
    pub fn sync_inode(&self, inode: InodeId) -> Result<()> {
        if self.core.options.read_only || crate::is_in_snapshot(inode) {
            return Ok(());
        }
        let core = &self.core;
        let Some(node) = core.nodes.find(inode) else {
            return commit_covering(core, core.changes.load(Ordering::Acquire));
        };
        if intents::sync(core, &node)? {
            return Ok(());
        }
        let is_file = node.lock().inode.kind == NodeKind::File;
        if is_file {
            core.with_room(|| drain_node(core, &node, Reason::Sync))?;
        }
        let covered = core.changes.load(Ordering::Acquire);
        commit_covering(core, covered)?;
        let mut state = node.lock();
        if !state.attributes_dirty && !state.has_pending_content() {
            let version = state.inode.content_version;
            state.unlogged.note_unchanged(covered, version);
        }
        Ok(())
    }

    /// The newest commit of this run that is durable for certain; `None` before the first. Never ahead of the disk: a commit
    /// counts once the sync after it has returned.
    #[must_use]
    pub fn durable_state(&self) -> Option<DurableState> {
        self.core.commits.progress.lock().state
    }

    /// Barrier: everything that was acknowledged before is durable on return.
    ///
    /// # Errors
    /// As `sync_inode`.
    pub fn sync(&self) -> Result<()> {
        let core = &self.core;
        if core.options.read_only {
            return Ok(());
        }
        // Most of the work is done while others go on; the rest is small.
        core.with_room(|| drain_all(core))?;
        let covered = {
            let _gate = core.gate.write();
            drain_all(core)?;
            core.changes.load(Ordering::Acquire)
        };
        commit_covering(core, covered)
    }
}

/// How often readers may keep a database from getting another key, or from being copied, before that is given up for now. Each
/// time those have ended who read then, however long they take: there are always others, and it is the hundredth time.
const QUIET_ATTEMPTS: usize = 100;

/// How long others go on between two attempts: whoever checkpoints is not waited for otherwise.
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
}

/// Makes attempts until in one nobody reads. Between them the caller's locks must be free: whoever reads may need them to end.
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
    let mut progress = core.commits.progress.lock();
    while progress.running {
        core.commits.done.wait(&mut progress);
    }
    if core.failed.load(Ordering::Acquire) {
        return Err(Error::Failed);
    }
    Ok(commit_in_turn(core, progress, work)??)
}

/// Commits, or waits for somebody's commit, until all mutations up to `target` are durable.
pub(crate) fn commit_covering(core: &Core, target: u64) -> Result<()> {
    loop {
        let mut progress = core.commits.progress.lock();
        loop {
            if core.failed.load(Ordering::Acquire) {
                return Err(Error::Failed);
            }
            if progress.durable >= target {
                return Ok(());
            }
            if !progress.running {
                break;
            }
            core.commits.done.wait(&mut progress);
        }
        commit_in_turn(core, progress, |_| ())?;
    }
}

/// Commits, then does `then` while it still holds the writer, for a caller who saw that nobody commits.
fn commit_in_turn<T>(
    core: &Core,
    mut progress: MutexGuard<'_, Progress>,
    then: impl FnOnce(&mut Transaction<'_>) -> T,
) -> Result<T> {
    progress.running = true;
    drop(progress);
    let result = commit_once(core, then);
    let mut progress = core.commits.progress.lock();
    progress.running = false;
    let result = match result {
        Ok((covered, state, done)) => {
            progress.durable = progress.durable.max(covered);
            progress.state = Some(state);
            Ok(done)
        }
        Err(error) => {
            // (3): what is on the disk is unknown now.
            core.failed.store(true, Ordering::Release);
            Err(error)
        }
    };
    drop(progress);
    core.commits.done.notify_all();
    result
}

/// How many mutations are durable.
pub(crate) fn durable(core: &Core) -> u64 {
    core.commits.progress.lock().durable
}

/// Whether something is not durable yet.
pub(crate) fn is_behind(core: &Core) -> bool {
    core.commits.progress.lock().durable < core.changes.load(Ordering::Acquire)
}

/// One commit, and `then` right behind it; gives the count of mutations that the commit covers, and the state that is durable then.
fn commit_once<T>(
    core: &Core,
    then: impl FnOnce(&mut Transaction<'_>) -> T,
) -> Result<(u64, DurableState, T)> {
    let mut synced = 0;
    for attempt in 0.. {
        let installed = core.space.installed_sequence.load(Ordering::Acquire);
        if installed > synced {
            core.segments.sync(installed)?;
            synced = installed;
        }
        let mut writer = core.store.lock();
        if core.failed.load(Ordering::Acquire) {
            // Somebody's rows are half written.
            return Err(Error::Failed);
        }
        let installed = core.space.installed_sequence.load(Ordering::Acquire);
        if installed > synced {
            if attempt < 2 {
                // Somebody installed meanwhile: sync that too, without holding the writer.
                continue;
            }
            core.segments.sync(installed)?;
        }
        // Read before the attributes: what is counted until here is in memory or in the transaction.
        let covered = core.changes.load(Ordering::Acquire);
        store_attributes(core, &mut writer, covered)?;
        intents::note_acknowledged(core, &mut writer)?;
        writer.commit()?;
        // The only moment at which no transaction is open: without it a busy log never begins anew.
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
    for node in core.dirty_nodes() {
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
            state.listed_dirty = false;
            let version = state.inode.content_version;
            state.unlogged.note_stored(covered, version);
            core.dirty.lock().remove(&id);
        }
    }
    core.nodes.look_again();
    Ok(())
}
