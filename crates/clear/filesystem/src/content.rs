//! The state of nodes in memory: attributes, content that is not stored yet, and extents.
//!
//! Takes   changes of nodes
//! Gives   the nodes with changes that are not stored; the sums of pending and reserved bytes
//! Never   seals, or appends to a segment; the invariants are those of `reservation.rs`
//!
//! Locks: `Node::flush`, then the lock of the open transaction, then `Node::lock`; several nodes in the order of their
//! numbers. Every other lock is held for memory work only, and is taken after `Node::lock`, one at a time.

pub(crate) mod extents;
pub(crate) mod holes;
pub(crate) mod node;
pub(crate) mod overlay;
pub(crate) mod region_cache;
pub(crate) mod reservation;
pub(crate) mod unlogged;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use strongroom_metadata::{Extent, Inode, InodeId, REGION_BYTES, Transaction};

use crate::content::holes::Holes;
use crate::content::node::{Node, NodeState, NodeTable};
use crate::content::overlay::Part;
use crate::content::reservation::Reserved;
use crate::limits::RESERVE_REGIONS_MAX;
use crate::{Error, Result};

/// The content of all nodes.
pub(crate) struct Content {
    pub(crate) nodes: NodeTable,
    pub(crate) holes: Holes,
    /// Nodes whose state the store lacks.
    dirty: Mutex<HashMap<InodeId, Arc<Node>>>,
    /// Bytes of pending content over all nodes.
    pending: AtomicU64,
    /// Bytes that are reserved over all nodes, see `reservation.rs`.
    reserved: AtomicU64,
    /// Writers wait here at the bound; told after each drain.
    drained: (Mutex<()>, Condvar),
    drain_without_space: AtomicBool,
    drain_failed: AtomicBool,
}

/// Bytes that count as reserved until it goes: somebody asks whether they fit.
pub(crate) struct Held<'a> {
    reserved: &'a AtomicU64,
    bytes: u64,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.reserved.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

impl Content {
    /// `reserved`: bytes that an earlier run left reserved.
    pub(crate) fn new(nodes: NodeTable, holes: Holes, reserved: u64) -> Self {
        Self {
            nodes,
            holes,
            dirty: Mutex::default(),
            pending: AtomicU64::new(0),
            reserved: AtomicU64::new(reserved),
            drained: (Mutex::new(()), Condvar::new()),
            drain_without_space: AtomicBool::new(false),
            drain_failed: AtomicBool::new(false),
        }
    }

    /// Bytes of pending content over all nodes.
    pub(crate) fn pending_bytes(&self) -> u64 {
        self.pending.load(Ordering::Acquire)
    }

    /// Bytes that are reserved over all nodes.
    pub(crate) fn reserved_bytes(&self) -> u64 {
        self.reserved.load(Ordering::Acquire)
    }

    // ---- drains

    /// A drain ended: wakes those who wait for room, and remembers how, for the next of them.
    pub(crate) fn note_drain(&self, result: &Result<()>) {
        let without_space = matches!(result, Err(Error::NoSpace));
        self.drain_without_space
            .store(without_space, Ordering::Release);
        self.drain_failed
            .store(result.is_err() && !without_space, Ordering::Release);
    }

    /// Wakes those who wait for room.
    pub(crate) fn wake(&self) {
        let _guard = self.drained.0.lock();
        self.drained.1.notify_all();
    }

    /// Waits for the end of a drain unless it `fits`, for `most` at the longest; gives the error of the last one, once.
    pub(crate) fn wait_for_drain(&self, fits: impl Fn() -> bool, most: Duration) -> Result<()> {
        let mut guard = self.drained.0.lock();
        if fits() {
            return Ok(());
        }
        self.drained.1.wait_for(&mut guard, most);
        drop(guard);
        if self.drain_without_space.swap(false, Ordering::AcqRel) {
            return Err(Error::NoSpace);
        }
        if self.drain_failed.swap(false, Ordering::AcqRel) {
            return Err(Error::Failed);
        }
        Ok(())
    }

    // ---- nodes

    /// Notes that `node` has changes the store lacks. Call with its state locked.
    pub(crate) fn list_dirty(&self, node: &Arc<Node>, state: &mut NodeState) {
        if !state.listed_dirty {
            state.listed_dirty = true;
            self.dirty.lock().insert(node.id, Arc::clone(node));
        }
    }

    /// The store has all of a node again. Call with its state locked.
    pub(crate) fn unlist_dirty(&self, state: &mut NodeState) {
        state.listed_dirty = false;
        self.dirty.lock().remove(&state.inode.id);
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

    // ---- content

    /// The extents of one region, from memory or from the transaction.
    pub(crate) fn region(
        &self,
        writer: &mut Transaction<'_>,
        inode: InodeId,
        state: &mut NodeState,
        region: u64,
    ) -> Result<Arc<Vec<Extent>>> {
        if let Some(extents) = state.regions.get(region) {
            return Ok(extents);
        }
        let in_hole = self.holes.around(inode, region).is_some();
        let extents = if in_hole {
            Vec::new()
        } else {
            writer.region(inode, region)?
        };
        let extents = Arc::new(extents);
        state.regions.insert(region, &extents);
        self.nodes.bound_extents(state);
        Ok(extents)
    }

    /// Lays a hole over `range` in memory. What was dirty there is forgotten at once.
    pub(crate) fn punch(&self, state: &mut NodeState, range: Range<u64>) {
        let before = state.active.cost();
        state.active.punch(range);
        self.recount(before, state.active.cost());
    }

    /// Pending content of a node changed its cost.
    pub(crate) fn recount(&self, before: u64, after: u64) {
        if after >= before {
            self.pending.fetch_add(after - before, Ordering::AcqRel);
        } else {
            self.pending.fetch_sub(before - after, Ordering::AcqRel);
        }
    }

    // ---- reservations

    /// Counts `bytes` as reserved until the answer is dropped, so that of two who ask at once not both get the last.
    pub(crate) fn hold(&self, bytes: u64) -> Held<'_> {
        self.reserved.fetch_add(bytes, Ordering::AcqRel);
        Held {
            reserved: &self.reserved,
            bytes,
        }
    }

    /// (1): changes what a node has reserved. The caller lists the node as dirty.
    pub(crate) fn edit_reserved(&self, state: &mut NodeState, edit: impl FnOnce(&mut Reserved)) {
        let before = state.inode.reserved;
        edit(&mut state.reserved);
        let after = state.reserved.bytes();
        self.reserved
            .fetch_add(after.wrapping_sub(before), Ordering::AcqRel);
        state.inode.reserved = after;
        state.reserved_dirty = true;
        state.changed();
    }

    /// (2): nothing of `range` is reserved any more.
    pub(crate) fn end_reservation(&self, state: &mut NodeState, range: &Range<u64>) {
        if state.reserved.overlap(range) > 0 {
            self.edit_reserved(state, |reserved| reserved.remove(range));
        }
    }

    /// The parts of `range` that hold nothing, in memory or stored. Looks at a bounded count of rows; what lies behind
    /// them counts as holding nothing.
    pub(crate) fn unwritten(
        &self,
        writer: &mut Transaction<'_>,
        inode: InodeId,
        state: &NodeState,
        range: Range<u64>,
    ) -> Result<Reserved> {
        let mut found = Reserved::default();
        let mut below = Vec::new();
        state.visit(range, |range, part| match part {
            Part::Data(_) => {}
            Part::Hole => found.add(range),
            Part::Below => below.push(range),
        });
        let mut looks = RESERVE_REGIONS_MAX;
        for range in below {
            found.add(range.clone());
            let mut from = range.start / REGION_BYTES;
            while looks > 0 {
                let next = self.holes.next_region(writer, inode, from)?;
                let Some(region) = next.filter(|region| region * REGION_BYTES < range.end) else {
                    break;
                };
                for extent in writer.region(inode, region)? {
                    let held = extent.start.max(range.start)..extents::end(&extent).min(range.end);
                    found.remove(&held);
                }
                looks -= 1;
                from = region + 1;
            }
        }
        Ok(found)
    }
}
