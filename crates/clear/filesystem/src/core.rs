//! What all parts of an open file system share, and the way from an inode number to its node.
//!
//! Lock order, outermost first:
//!   the intent log → barrier gate (shared by every mutation, alone by a barrier and a transaction) → `Node::flush` → `Sealers`
//!   → `SpaceState::placing` → the writer (`store.lock()`) → `Node::lock`
//! Several nodes are locked in the order of their numbers.
//!
//! Invariants
//!  (1) Every namespace mutation happens under the writer, so that the namespace in the transaction is
//!      always the state after some prefix of the namespace operations.
//!  (2) `changes` rises after a mutation took effect and before it is acknowledged: a commit that read
//!      `changes` under the writer covers every mutation counted until then.

mod options;
mod work;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Condvar, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use strongroom_crypto::{Pool, Random};
use strongroom_format::{Kind, SealedBlock};
use strongroom_metadata::{Inode, InodeId, Store, Timestamp, Transaction};
use strongroom_segments::SegmentStore;

use crate::commit::CommitState;
use crate::content::node::{Node, NodeState, NodeTable};
use crate::content::reservation::Reserved;
use crate::names::lock::LockTable;
use crate::upkeep::epoch::{Sealers, Sealing};
pub use options::{Background, Clock, Disk, Options, Parts, Watcher, Work};
pub(crate) use work::{Notes, WorkQueue, Worker};

use crate::{Error, Result};

/// Counts of content sealed.
#[derive(Default)]
pub(crate) struct Sealed {
    pub(crate) blocks: AtomicU64,
    /// In clear.
    pub(crate) bytes: AtomicU64,
    /// How many fewer were sealed, for they were compressed.
    pub(crate) bytes_saved: AtomicU64,
}

/// The shared state of one open file system.
pub(crate) struct Core {
    pub(crate) store: Store,
    pub(crate) segments: SegmentStore,
    pub(crate) sealers: Sealers,
    pub(crate) pool: Pool,
    /// Reads that open blocks at the moment.
    pub(crate) opening: AtomicUsize,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) random: Arc<dyn Random>,
    pub(crate) options: Options,
    pub(crate) nodes: NodeTable,
    /// Nodes whose state the store lacks.
    pub(crate) dirty: Mutex<HashMap<InodeId, Arc<Node>>>,
    pub(crate) sealed: Sealed,
    /// Bytes of pending content over all nodes.
    pub(crate) dirty_bytes: AtomicU64,
    /// Bytes that are reserved over all nodes, see `reservation.rs`.
    pub(crate) reserved: AtomicU64,
    /// Writers wait here at the bound; told after each drain.
    pub(crate) room: (Mutex<()>, Condvar),
    /// A barrier takes it exclusively for a moment.
    pub(crate) gate: RwLock<()>,
    /// Counts mutations, see (2).
    pub(crate) changes: AtomicU64,
    /// A sync or commit failed: nothing more is accepted.
    pub(crate) failed: AtomicBool,
    pub(crate) commits: CommitState,
    pub(crate) intents: crate::commit::intents::Intents,
    pub(crate) locks: LockTable,
    /// Wakes the background thread: inodes to drain, orphans to purge.
    pub(crate) work: Arc<WorkQueue>,
    pub(crate) space: crate::upkeep::space::SpaceState,
    pub(crate) quota: crate::quota::Quota,
    pub(crate) holes: crate::content::holes::Holes,
    pub(crate) hashing: crate::hashes::content_hash::Hashing,
    pub(crate) history: crate::history::History,
}

impl Core {
    /// Lets a mutation begin: refused on a read-only or failed vault, held while a barrier passes.
    /// Keep the guard until the mutation is done and counted.
    pub(crate) fn mutate(&self) -> Result<RwLockReadGuard<'_, ()>> {
        self.writable()?;
        Ok(self.gate.read())
    }

    fn writable(&self) -> Result<()> {
        if self.options.read_only {
            return Err(Error::ReadOnly);
        }
        if self.failed.load(Ordering::Acquire) {
            return Err(Error::Failed);
        }
        Ok(())
    }

    /// Lets a list of mutations begin that must look like one: waits for those that run, holds up all others.
    pub(crate) fn mutate_alone(&self) -> Result<RwLockWriteGuard<'_, ()>> {
        self.writable()?;
        Ok(self.gate.write())
    }

    /// Seals content of files on all cores, and counts it.
    pub(crate) fn seal_content<B>(&self, sealing: &Sealing<'_>, clear: Vec<B>) -> Vec<SealedBlock>
    where
        B: AsRef<[u8]> + Send + 'static,
    {
        let pairs = sealing.seal_all(&self.pool, Kind::Data, clear);
        let (mut blocks, mut bytes, mut stored) = (Vec::with_capacity(pairs.len()), 0, 0);
        for (block, clear) in pairs {
            bytes += clear.as_ref().len() as u64;
            stored += u64::from(block.clear_len);
            blocks.push(block);
        }
        self.count_sealed(blocks.len(), bytes, stored);
        blocks
    }

    /// Counts blocks of content that were sealed; `stored` of their `bytes` are left after compression.
    pub(crate) fn count_sealed(&self, blocks: usize, bytes: u64, stored: u64) {
        let counts = &self.sealed;
        counts.blocks.fetch_add(blocks as u64, Ordering::Relaxed);
        counts.bytes.fetch_add(bytes, Ordering::Relaxed);
        counts
            .bytes_saved
            .fetch_add(bytes - stored, Ordering::Relaxed);
    }

    /// Counts a mutation that has taken effect.
    pub(crate) fn changed(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
        if self.store.dirty_pages() > self.options.thresholds.dirty_pages_max {
            self.work.commit_soon();
        }
    }

    /// A random number that names a node among devices.
    pub(crate) fn birth_id(&self) -> Result<u64> {
        let mut bytes = [0; 8];
        self.random.fill(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The node of `id`. Must not be called with the writer held: use `node_in` then.
    ///
    /// # Errors
    /// `Error::Stale` if no such inode exists.
    pub(crate) fn node(&self, id: InodeId) -> Result<Arc<Node>> {
        if let Some(node) = self.nodes.find(id) {
            return Ok(node);
        }
        let mut writer = self.store.lock();
        self.node_in(&mut writer, id)
    }

    /// The node of `id`, with the writer held by the caller.
    pub(crate) fn node_in(&self, writer: &mut Transaction<'_>, id: InodeId) -> Result<Arc<Node>> {
        if let Some(node) = self.nodes.find(id) {
            return Ok(node);
        }
        // Whoever only reads has not come this way.
        if crate::is_in_snapshot(id) {
            return Err(Error::InSnapshot);
        }
        let row = writer.inode(id)?.ok_or(Error::Stale)?;
        let reserved = match row.reserved {
            0 => Reserved::default(),
            _ => Reserved::new(writer.reservation(id)?),
        };
        Ok(self.nodes.insert(row, reserved))
    }

    /// Notes that `node` has changes the store lacks. Call with its state locked.
    pub(crate) fn list_dirty(&self, node: &Arc<Node>, state: &mut NodeState) {
        if !state.listed_dirty {
            state.listed_dirty = true;
            self.dirty.lock().insert(node.id, Arc::clone(node));
        }
    }

    /// Every node that is dirty now, in the order of their numbers, in which their rows lie side by side too.
    pub(crate) fn dirty_nodes(&self) -> Vec<Arc<Node>> {
        let mut nodes: Vec<Arc<Node>> = self.dirty.lock().values().map(Arc::clone).collect();
        nodes.sort_unstable_by_key(|node| node.id);
        nodes
    }

    /// Changes attributes of a node in memory; the next commit stores them.
    pub(crate) fn touch(&self, node: &Arc<Node>, change: impl FnOnce(&mut Inode)) {
        let mut state = node.lock();
        change(&mut state.inode);
        state.changed();
        self.list_dirty(node, &mut state);
    }
}

/// One open file system. Cheap to clone; usable from many threads. Close it with `close`; dropping the last
/// one without that is like a crash: what no sync covered may be lost, nothing is damaged.
#[derive(Clone)]
pub struct Filesystem {
    /// First, so that it is dropped first: the thread ends before the store closes.
    pub(crate) worker: Arc<Worker>,
    pub(crate) core: Arc<Core>,
}

impl std::fmt::Debug for Filesystem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Filesystem").finish_non_exhaustive()
    }
}
