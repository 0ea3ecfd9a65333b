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

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::{Condvar, Mutex};
use strongroom_metadata::{InodeId, NodeKind, Transaction};

use crate::core::{Core, Work};
use crate::flush::{Reason, drain_all, drain_node};
use crate::node::Node;
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
}

impl Filesystem {
    /// `fsync`: the content, size, attributes and names of `inode` reached so far are durable on return.
    ///
    /// # Errors
    /// `NoSpace` leaves the content pending and the vault usable; `Failed` ends writing until it is opened again.
    pub fn sync_inode(&self, inode: InodeId) -> Result<()> {
        if self.core.options.read_only || crate::is_kept(inode) {
            return Ok(());
        }
        if let Some(node) = self.core.nodes.find(inode) {
            let is_file = node.lock().inode.kind == NodeKind::File;
            if is_file {
                if crate::intents::sync(&self.core, &node)? {
                    return Ok(());
                }
                drain_node(&self.core, &node, Reason::Sync)?;
            }
        }
        commit_covering(&self.core, self.core.changes.load(Ordering::Acquire))
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
        drain_all(core)?;
        let covered = {
            let _gate = core.gate.write();
            drain_all(core)?;
            core.changes.load(Ordering::Acquire)
        };
        commit_covering(core, covered)
    }
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
        progress.running = true;
        drop(progress);
        let result = commit_once(core);
        let mut progress = core.commits.progress.lock();
        progress.running = false;
        match result {
            Ok(covered) => progress.durable = progress.durable.max(covered),
            // (3): what is on the disk is unknown now.
            Err(_) => core.failed.store(true, Ordering::Release),
        }
        drop(progress);
        core.commits.done.notify_all();
        result?;
    }
}

/// How many mutations are durable.
pub(crate) fn durable(core: &Core) -> u64 {
    core.commits.progress.lock().durable
}

/// Whether something is not durable yet.
pub(crate) fn is_behind(core: &Core) -> bool {
    core.commits.progress.lock().durable < core.changes.load(Ordering::Acquire)
}

/// One commit; gives the count of mutations it covers.
fn commit_once(core: &Core) -> Result<u64> {
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
        crate::intents::note_acknowledged(core, &mut writer)?;
        writer.commit()?;
        // The only moment at which no transaction is open: without it a busy log never begins anew.
        let moved = {
            let _doing = core.doing(Work::Checkpoint);
            writer.checkpoint()
        };
        drop(writer);
        if core.store.has_failed() {
            moved?;
        }
        core.store.sync_log()?;
        return Ok(covered);
    }
    unreachable!("the third attempt returns")
}

/// Writes the rows of all nodes whose attributes changed.
fn store_attributes(core: &Core, writer: &mut Transaction<'_>, covered: u64) -> Result<()> {
    let nodes: Vec<(InodeId, Arc<Node>)> = core
        .dirty
        .lock()
        .iter()
        .map(|(id, node)| (*id, Arc::clone(node)))
        .collect();
    for (id, node) in nodes {
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
