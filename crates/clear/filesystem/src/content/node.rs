//! The nodes in use: their current state in memory, and their reference counts.
//!
//! Takes   the row of an inode
//! Gives   one shared `Node` per inode, as long as anything uses it
//! Never   reads or writes the store
//!
//! Invariants
//!  (1) At most one `Node` per inode exists at a time, so its state is in one place.
//!  (2) A node with changes that are not stored is in the dirty set and is not evicted.
//!  (3) References outlive the node: an evicted node that the kernel still refers to keeps its count.
//!  (4) Between commits each shard of `NodeTable` searches for idle nodes only when it has grown by a quarter. So the
//!      cost of a new node is bounded even if all nodes are in use.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};
use strongroom_metadata::{Inode, InodeId, Timestamp};

use crate::content::overlay::{Overlay, Part};
use crate::content::region_cache::{Gauge, RegionCache};
use crate::content::reservation::Reserved;
use crate::content::unlogged::Unlogged;
use crate::limits::NODE_SHARDS;
use crate::rules::attributes::{check_kind, content_changed, with_pending};
use crate::{Attributes, Error, Result};

/// One inode in use.
pub(crate) struct Node {
    pub(crate) id: InodeId,
    state: Mutex<NodeState>,
    /// Held while this node's content is drained; taken before the writer and before `state`.
    pub(crate) flush: Mutex<()>,
}

/// What is known of an inode now. `inode` is the truth for callers, the store follows at commits.
pub(crate) struct NodeState {
    /// Current attributes.
    pub(crate) inode: Inode,
    /// `inode` differs from the row in the transaction.
    pub(crate) attributes_dirty: bool,
    /// The size that fits the extents in the transaction: what a commit may write while content is pending.
    pub(crate) stored_size: u64,
    /// The content version of the extents in the transaction: what goes with `stored_size`.
    pub(crate) stored_version: u64,
    /// What only the intent log needs to know.
    pub(crate) unlogged: Unlogged,
    /// Content written and not yet being drained.
    pub(crate) active: Overlay,
    /// What `fallocate` reserved and nothing was written to since.
    pub(crate) reserved: Reserved,
    /// What goes with the extents in the transaction, as `stored_size` does.
    pub(crate) stored_reserved: Reserved,
    /// `reserved` differs from the row in the transaction.
    pub(crate) reserved_dirty: bool,
    /// Attributes from before the first change of length in `active`: what a commit writes until that is stored.
    pub(crate) held_back: Option<Box<Inode>>,
    /// The same for `draining`.
    pub(crate) held_back_draining: Option<Box<Inode>>,
    /// Content that a drain is sealing now; older than `active`, newer than the extents.
    pub(crate) draining: Option<Arc<Overlay>>,
    /// Extents per region as the transaction has them, for regions read lately.
    pub(crate) regions: RegionCache,
    /// Rows are gone; a caller that still holds the node gets `Stale`.
    pub(crate) purged: bool,
    /// In the dirty set.
    pub(crate) listed_dirty: bool,
    /// Whether the xattr `security.capability` is set; `None` until somebody asks. Every write asks.
    pub(crate) has_capability: Option<bool>,
    /// Made without a name, and none given yet: only then may a node without names get one.
    pub(crate) may_get_first_name: bool,
}

impl NodeState {
    /// Whether content waits in memory.
    pub(crate) fn has_pending_content(&self) -> bool {
        !self.active.is_empty() || self.draining.is_some()
    }

    /// Refuses what has no content, or is gone.
    pub(crate) fn check_file(&self) -> Result<()> {
        if self.purged {
            return Err(Error::Stale);
        }
        check_kind(&self.inode)
    }

    /// Cuts `range` into parts, in order, and hands each to `visit`: what memory holds of it, and what it does not.
    pub(crate) fn visit(&self, range: Range<u64>, mut visit: impl FnMut(Range<u64>, Part<'_>)) {
        self.active
            .visit(range, |range, part| match (part, &self.draining) {
                (Part::Below, Some(draining)) => draining.visit(range, &mut visit),
                (part, _) => visit(range, part),
            });
    }

    /// The extents in the transaction are those of now: what goes with them follows. Call while no content is pending.
    pub(crate) fn note_stored(&mut self) {
        self.stored_size = self.inode.size;
        self.stored_version = self.inode.content_version;
        self.stored_reserved.clone_from(&self.reserved);
    }

    /// The row a commit may write now: attributes of now, size of the stored content.
    pub(crate) fn row(&mut self) -> Inode {
        if !self.has_pending_content() {
            self.note_stored();
        }
        let mut row = self.inode.clone();
        if row.kind == strongroom_metadata::NodeKind::File {
            row.size = self.stored_size;
            row.content_version = self.stored_version;
            row.reserved = self.stored_reserved.bytes();
        }
        let oldest = self.held_back_draining.as_ref().or(self.held_back.as_ref());
        if let Some(before) = oldest.filter(|_| self.has_pending_content()) {
            (row.mode, row.uid, row.gid) = (before.mode, before.uid, before.gid);
            (row.atime, row.mtime, row.ctime) = (before.atime, before.mtime, before.ctime);
        }
        row
    }

    /// The attributes that it shows: what is written and not yet stored counts.
    pub(crate) fn attributes(&self) -> Attributes {
        let draining = self
            .draining
            .as_ref()
            .map_or(0, |overlay| overlay.data_bytes());
        with_pending(
            &self.inode,
            self.active.data_bytes().saturating_add(draining),
        )
    }

    /// A user changed the content, in a way that only a commit can tell: times and version follow.
    pub(crate) fn content_changed(&mut self, now: Timestamp) {
        content_changed(&mut self.inode, now);
        self.changed();
    }

    /// Notes that attributes changed, or content in a way that only a commit can tell.
    pub(crate) fn changed(&mut self) {
        self.attributes_dirty = true;
        self.unlogged.note_other();
    }

    /// Notes that mtime or ctime changed, and nothing else.
    pub(crate) fn times_changed(&mut self) {
        self.attributes_dirty = true;
        self.unlogged.note_times();
    }

    /// Whether a commit writes older attributes than these.
    pub(crate) fn holds_back(&self) -> bool {
        self.held_back.is_some() || self.held_back_draining.is_some()
    }

    /// Call before a change of length that leaves pending content: it is stored with its attributes or not at all.
    pub(crate) fn hold_back(&mut self) {
        if self.held_back.is_none() {
            self.held_back = Some(Box::new(self.inode.clone()));
        }
    }
}

impl Node {
    pub(crate) fn new(inode: Inode, reserved: Reserved, extents: &Arc<Gauge>) -> Self {
        Self {
            id: inode.id,
            flush: Mutex::new(()),
            state: Mutex::new(NodeState {
                stored_size: inode.size,
                stored_version: inode.content_version,
                unlogged: Unlogged::default(),
                inode,
                attributes_dirty: false,
                active: Overlay::default(),
                stored_reserved: reserved.clone(),
                reserved,
                reserved_dirty: false,
                held_back: None,
                held_back_draining: None,
                draining: None,
                regions: RegionCache::new(Arc::clone(extents)),
                purged: false,
                listed_dirty: false,
                has_capability: None,
                may_get_first_name: false,
            }),
        }
    }

    /// Locks the state. Taken after the writer, never before it; held for memory work only.
    pub(crate) fn lock(&self) -> MutexGuard<'_, NodeState> {
        self.state.lock()
    }

    /// The same.
    ///
    /// # Errors
    /// `Stale` if its rows are gone.
    pub(crate) fn living(&self) -> Result<MutexGuard<'_, NodeState>> {
        let state = self.lock();
        if state.purged {
            Err(Error::Stale)
        } else {
            Ok(state)
        }
    }

    /// What `stat` shows of it.
    ///
    /// # Errors
    /// As `living`.
    pub(crate) fn attributes(&self) -> Result<Attributes> {
        Ok(self.living()?.attributes())
    }
}

#[derive(Default)]
struct Shard {
    nodes: HashMap<InodeId, Arc<Node>>,
    references: HashMap<InodeId, u64>,
    /// With fewer nodes nobody looks for idle ones.                                                            (4)
    evict_from: usize,
    /// Nodes that were looked at for that.
    looked_at: u64,
}

/// All nodes in use.
pub(crate) struct NodeTable {
    shards: Vec<Mutex<Shard>>,
    per_shard_max: usize,
    /// Bytes of extents that all nodes hold, and what they may hold.
    extents: Arc<Gauge>,
    extent_bytes_max: usize,
    /// The shard at which the next eviction of extents begins.
    hand: AtomicUsize,
}

impl NodeTable {
    pub(crate) fn new(nodes_max: usize, extent_bytes_max: usize) -> Self {
        Self {
            shards: (0..NODE_SHARDS)
                .map(|_| Mutex::new(Shard::default()))
                .collect(),
            per_shard_max: (nodes_max / NODE_SHARDS).max(8),
            extents: Arc::default(),
            extent_bytes_max,
            hand: AtomicUsize::new(0),
        }
    }

    fn shard(&self, id: InodeId) -> MutexGuard<'_, Shard> {
        let index = usize::try_from(id.0 % NODE_SHARDS as u64).unwrap_or(0);
        self.shards[index].lock()
    }

    /// The node, if it is in use.
    pub(crate) fn find(&self, id: InodeId) -> Option<Arc<Node>> {
        self.shard(id).nodes.get(&id).cloned()
    }

    /// The node for this row; an existing one wins, because its state is newer.
    pub(crate) fn insert(&self, inode: Inode, reserved: Reserved) -> Arc<Node> {
        let mut shard = self.shard(inode.id);
        if let Some(node) = shard.nodes.get(&inode.id) {
            return Arc::clone(node);
        }
        if shard.nodes.len() >= self.per_shard_max.max(shard.evict_from) {
            let share = self.per_shard_max / 4 + 1;
            evict(&mut shard, self.per_shard_max - share);
            shard.evict_from = shard.nodes.len() + shard.nodes.len() / 4 + 1;
        }
        let node = Arc::new(Node::new(inode, reserved, &self.extents));
        shard.nodes.insert(node.id, Arc::clone(&node));
        node
    }

    /// Tells that nodes may be idle now that were not: the next new one looks for them.
    pub(crate) fn look_again(&self) {
        for shard in &self.shards {
            shard.lock().evict_from = 0;
        }
    }

    /// A node of its own, that nobody finds: for a draft.
    pub(crate) fn detached(&self, inode: Inode) -> Arc<Node> {
        Arc::new(Node::new(inode, Reserved::default(), &self.extents))
    }

    /// Forgets a purged node.
    pub(crate) fn remove(&self, id: InodeId) {
        self.shard(id).nodes.remove(&id);
    }

    /// Takes `count` references.
    pub(crate) fn retain(&self, id: InodeId, count: u64) {
        *self.shard(id).references.entry(id).or_insert(0) += count;
    }

    /// Gives back `count` references; gives how many remain.
    pub(crate) fn release(&self, id: InodeId, count: u64) -> u64 {
        let mut shard = self.shard(id);
        let Some(held) = shard.references.get_mut(&id) else {
            return 0;
        };
        *held = held.saturating_sub(count);
        let left = *held;
        if left == 0 {
            shard.references.remove(&id);
        }
        left
    }

    /// How many references are held.
    pub(crate) fn references(&self, id: InodeId) -> u64 {
        self.shard(id).references.get(&id).copied().unwrap_or(0)
    }

    /// Bytes of extents that all nodes hold.
    pub(crate) fn extent_bytes(&self) -> usize {
        self.extents.bytes()
    }

    /// Makes room if all nodes together hold more extents than they may: those not used since the last pass go first.
    /// `own` is the node whose state the caller has locked; others that are in use at the moment are passed over.
    pub(crate) fn bound_extents(&self, own: &mut NodeState) {
        if self.extent_bytes() <= self.extent_bytes_max {
            return;
        }
        let enough = self.extent_bytes_max / 8 * 7;
        // Twice around: the first pass may find everything used.
        for _ in 0..2 * NODE_SHARDS {
            let hand = self.hand.fetch_add(1, Ordering::Relaxed) % NODE_SHARDS;
            let Some(shard) = self.shards[hand].try_lock() else {
                continue;
            };
            for node in shard.nodes.values() {
                if let Some(mut state) = node.state.try_lock() {
                    state.regions.evict();
                }
            }
            if self.extent_bytes() <= enough {
                return;
            }
        }
        if self.extent_bytes() > self.extent_bytes_max {
            own.regions.clear();
        }
    }

    /// How many nodes are in memory.
    pub(crate) fn len(&self) -> usize {
        self.shards
            .iter()
            .map(|shard| shard.lock().nodes.len())
            .sum()
    }
}

/// Drops nodes that nobody uses and that the store fully has, until `left` are left.
fn evict(shard: &mut Shard, left: usize) {
    let count = shard.nodes.len().saturating_sub(left);
    shard.looked_at += shard.nodes.len() as u64;
    let idle: Vec<InodeId> = shard
        .nodes
        .iter()
        // Only the table holds it: nobody can get it while the shard is locked.
        .filter(|(_, node)| Arc::strong_count(node) == 1)
        .filter(|(_, node)| {
            let state = node.lock();
            // (2) holds: a dirty node is also held by the dirty set; this guards the moment between.
            // A nameless node stays too: `forget` must see that its last reference went.
            let named = state.inode.nlink > 0;
            named && !state.listed_dirty && !state.attributes_dirty && !state.has_pending_content()
        })
        .map(|(id, _)| *id)
        .take(count)
        .collect();
    for id in idle {
        shard.nodes.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use strongroom_metadata::NodeKind;

    use super::*;

    fn inode(number: u64) -> Inode {
        Inode {
            id: InodeId(number),
            birth_id: 0,
            kind: NodeKind::File,
            mode: 0,
            uid: 0,
            gid: 0,
            rdev: 0,
            nlink: 1,
            size: 0,
            allocated: 0,
            atime: Timestamp(0),
            mtime: Timestamp(0),
            ctime: Timestamp(0),
            btime: Timestamp(0),
            content_version: 0,
            parent: InodeId(0),
            target: Vec::new(),
            reserved: 0,
        }
    }

    fn looked_at(table: &NodeTable) -> u64 {
        table
            .shards
            .iter()
            .map(|shard| shard.lock().looked_at)
            .sum()
    }

    /// Goal: a burst of new files, all dirty until the next commit, must not cost more per file the longer it is.
    #[test]
    fn a_new_node_costs_a_few_looks_however_many_are_in_use() {
        const MAX: usize = 1024;
        const COUNT: usize = 4 * MAX;
        let table = NodeTable::new(MAX, 0);
        let insert = |number: usize| table.insert(inode(number as u64), Reserved::default());
        let used: Vec<_> = (0..COUNT).map(insert).collect();
        assert_eq!(table.len(), COUNT, "what is used stays");
        // Each look at all is at a quarter more: 1 + 4/5 + (4/5)² + … = 5 for every node, and the last quarter's own.
        let looks = looked_at(&table);
        assert!(looks <= 6 * COUNT as u64, "{looks} looks");
        drop(used);
        table.look_again();
        (COUNT..COUNT + NODE_SHARDS).for_each(|number| drop(insert(number)));
        assert!(table.len() <= MAX, "idle ones go at once: {}", table.len());
    }
}
