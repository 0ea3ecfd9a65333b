//! The parts of an open file system, and the look-up of a node by its inode number.
//!
//! Takes   a store, segments, keys and the external services
//! Gives   three parts, each with its own locks, that do not use one another: `Content` (nodes in memory), `Blocks`
//!         (where sealed blocks are) and `Durability` (what is durable); and the fields that belong to none of them
//! Never   drains, appends or commits: the modules that use it do
//!
//! Lock order, outermost first:
//!   `hold_revisions` (no revision is taken or removed meanwhile) → the intent log → barrier gate (mutations hold it
//!   shared, barriers and transactions exclusively) → `Node::flush` → `Sealers` → `Blocks::placing` → lock of the open
//!   transaction (`store.lock()`) → `Node::lock`
//! The log and the gate belong to `Durability`, the nodes to `Content`, `Sealers` and `placing` to `Blocks`. Code that
//! moves blocks out of segments takes `RoomState::reclaiming` before the gate. All other locks are held for memory work
//! only, and are taken after these.
//!
//! Invariants
//!  (1) Every namespace mutation happens with the lock of the open transaction held, so that the namespace in the
//!      transaction is always the state after some prefix of the namespace operations.

pub(crate) mod away;
pub(crate) mod blocks;
pub(crate) mod durability;
pub(crate) mod hashing;
pub(crate) mod intents;
pub(crate) mod keep_limit;
pub(crate) mod opened_blocks;
mod options;
pub(crate) mod quota;
pub(crate) mod revisions;
pub(crate) mod room;
pub(crate) mod sealers;
pub(crate) mod snapshot_nodes;
mod work;

use std::sync::Arc;

use parking_lot::{RwLockReadGuard, RwLockWriteGuard};
use strongroom_crypto::Random;
use strongroom_metadata::{InodeId, Store, Timestamp, Transaction};

pub use options::{
    AtRemote, Background, Clock, Disk, NotFetched, Options, Parts, SegmentSource, Watcher, Work,
};
pub(crate) use work::{Notes, WorkQueue, Worker};

use crate::content::Content;
use crate::content::node::Node;
use crate::content::reservation::Reserved;
use crate::core::away::Away;
use crate::core::blocks::Blocks;
use crate::core::durability::Durability;
use crate::core::hashing::Hashing;
use crate::core::keep_limit::KeepLimit;
use crate::core::quota::Quota;
use crate::core::revisions::History;
use crate::core::room::RoomState;
use crate::core::snapshot_nodes::is_in_snapshot;
use crate::{Error, Result};

/// The shared state of one open file system.
pub(crate) struct Core {
    pub(crate) store: Store,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) random: Arc<dyn Random>,
    pub(crate) options: Options,
    pub(crate) content: Content,
    pub(crate) blocks: Blocks,
    pub(crate) away: Away,
    pub(crate) durability: Durability,
    /// Wakes the background thread: inodes to drain, orphans to purge.
    pub(crate) work: Arc<WorkQueue>,
    pub(crate) room: RoomState,
    pub(crate) quota: Quota,
    pub(crate) keep_limit: KeepLimit,
    pub(crate) hashing: Hashing,
    pub(crate) history: History,
}

impl Core {
    /// Lets a mutation begin: refused on a read-only or failed vault, held while a barrier passes.
    /// Keep the guard until the mutation is done and counted.
    pub(crate) fn mutate(&self) -> Result<RwLockReadGuard<'_, ()>> {
        self.writable()?;
        Ok(self.durability.enter())
    }

    /// Lets a list of mutations begin that must look like one: waits for those that run, holds up all others.
    pub(crate) fn mutate_alone(&self) -> Result<RwLockWriteGuard<'_, ()>> {
        self.writable()?;
        Ok(self.durability.enter_alone())
    }

    fn writable(&self) -> Result<()> {
        if self.options.read_only {
            return Err(Error::ReadOnly);
        }
        self.durability.check()
    }

    /// Counts a mutation that has taken effect.
    pub(crate) fn changed(&self) {
        self.durability.count_change();
        self.work.changed();
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
        if let Some(node) = self.content.nodes.find(id) {
            return Ok(node);
        }
        let mut writer = self.store.lock();
        self.node_in(&mut writer, id)
    }

    /// The node of `id`, with the writer held by the caller.
    pub(crate) fn node_in(&self, writer: &mut Transaction<'_>, id: InodeId) -> Result<Arc<Node>> {
        if let Some(node) = self.content.nodes.find(id) {
            return Ok(node);
        }
        // Whoever only reads has not come this way.
        if is_in_snapshot(id) {
            return Err(Error::InSnapshot);
        }
        let row = writer.inode(id)?.ok_or(Error::Stale)?;
        let reserved = match row.reserved {
            0 => Reserved::default(),
            _ => Reserved::new(writer.reservation(id)?),
        };
        Ok(self.content.nodes.insert(row, reserved))
    }
}

/// One open file system. Cheap to clone; usable from many threads. Close it with `close`; dropping the last
/// one without that is like a crash: what no sync covered may be lost, nothing is damaged.
#[derive(Clone, Debug)]
pub struct Filesystem {
    /// First, so that it is dropped first: the thread ends before the store closes.
    pub(crate) worker: Arc<Worker>,
    pub(crate) core: Arc<Core>,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").finish_non_exhaustive()
    }
}
