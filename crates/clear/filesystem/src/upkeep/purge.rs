//! Removes, in bounded steps, the rows of large holes and of nodes that have neither names nor references.
//!
//! Takes   an inode without names, or an inode with holes
//! Gives   freed references to its blocks. The row of the inode or hole is removed last, so that opening after a crash
//!         finds the rest
//! Never   changes an unbounded number of rows while it holds the lock of the open transaction

use std::sync::Arc;

use parking_lot::MutexGuard;

use strongroom_metadata::{InodeId, Transaction};

use crate::commit::commits::commit_if_large;
use crate::content::node::Node;
use crate::core::{Core, Work};
use crate::drain::drop_regions::{drop_regions, hole_step};
use crate::limits::PURGE_NODES_PER_STEP;
use crate::{Error, Result};

/// Purges the holes of `inode`, and all of it unless it has a name or a reference by now.
pub(crate) fn purge(core: &Core, inode: InodeId) -> Result<()> {
    let _doing = core.options.doing(Work::Purge);
    while purge_step(core, inode)? || hole_step(core, inode)? {
        commit_if_large(core)?;
    }
    Ok(())
}

/// Purges each of `inodes`, which are in the order of their numbers. Goes on after an error, and gives the first.
///
/// Whoever removes a tree waits for the writer at each name, and so does this at each node: nodes of few rows share one hold
/// of it, so that the two change places once for many of them.
pub(crate) fn purge_all(core: &Core, inodes: &[InodeId]) -> Result<()> {
    let mut result = Ok(());
    for group in inodes.chunks(PURGE_NODES_PER_STEP) {
        let has_hole = |inode: &InodeId| core.content.holes.first(*inode).is_some();
        let (holed, whole): (Vec<InodeId>, Vec<InodeId>) =
            group.iter().copied().partition(has_hole);
        let (left, purged) = purge_group(core, &whole);
        result = result.and(purged);
        for inode in left.into_iter().chain(holed) {
            result = result.and(purge(core, inode));
        }
    }
    result
}

/// Purges `inodes`, and commits if the transaction has grown to its bound; gives those of which rows are left.
fn purge_group(core: &Core, inodes: &[InodeId]) -> (Vec<InodeId>, Result<()>) {
    let _doing = core.options.doing(Work::Purge);
    let (left, purged) = purge_together(core, inodes);
    (left, purged.and(commit_if_large(core)))
}

/// Purges `inodes` in one hold of the writer; gives those of which rows are left because the hold has dropped enough.
fn purge_together(core: &Core, inodes: &[InodeId]) -> (Vec<InodeId>, Result<()>) {
    let _gate = match core.mutate() {
        Ok(gate) => gate,
        Err(error) => return (Vec::new(), Err(error)),
    };
    let (mut left, mut result) = (Vec::new(), Ok(()));
    let mut nodes = Vec::with_capacity(inodes.len());
    for inode in inodes {
        match core.node(*inode) {
            Ok(node) => nodes.push(node),
            Err(Error::Stale) => {}
            Err(error) => result = result.and(Err(error)),
        }
    }
    let _flushes: Vec<MutexGuard<'_, ()>> = nodes.iter().map(|node| node.flush.lock()).collect();
    let mut writer = core.store.lock();
    let mut room = core.options.thresholds.purge_extents_per_step;
    for node in &nodes {
        if room == 0 {
            left.push(node.id);
            continue;
        }
        match purge_node(core, &mut writer, node) {
            Ok(step) => {
                room = room.saturating_sub(step.extents);
                if step.more {
                    left.push(node.id);
                }
            }
            Err(error) => result = result.and(Err(error)),
        }
    }
    (left, result)
}

/// Continues the holes that an earlier run left, in the background.
pub(crate) fn resume_holes(core: &Core) {
    for inode in core.content.holes.inodes() {
        core.work.purge(inode, 0);
    }
}

/// Purges all orphans that an earlier run left.
pub(crate) fn purge_orphans(core: &Core) -> Result<()> {
    let mut after = InodeId(0);
    loop {
        let orphans = core.store.lock().orphans(after, 256)?;
        let Some(last) = orphans.last() else {
            return Ok(());
        };
        after = *last;
        for inode in orphans {
            match purge(core, inode) {
                // Its rows are damaged: it stays, `check` names it, and the rest of the vault opens.
                Err(Error::Metadata(_)) if !core.store.has_failed() => {}
                result => result?,
            }
        }
    }
}

/// What one step did to a node.
#[derive(Default)]
struct Step {
    /// How many extents it dropped.
    extents: usize,
    /// Whether rows are left.
    more: bool,
}

/// One step; gives whether more is left.
fn purge_step(core: &Core, inode: InodeId) -> Result<bool> {
    let (left, purged) = purge_together(core, &[inode]);
    purged.map(|()| !left.is_empty())
}

/// One step for `node`, whose `flush` is held, unless it has a name or a reference by now.
fn purge_node(core: &Core, writer: &mut Transaction<'_>, node: &Arc<Node>) -> Result<Step> {
    let inode = node.id;
    let mut state = node.lock();
    // References are taken under the writer only, so this answer holds until it is released.
    if state.purged || state.inode.nlink > 0 || core.content.nodes.references(inode) > 0 {
        return Ok(Step::default());
    }
    // Whole regions at a time: an error in a later one leaves no row half written.
    let dropped = drop_regions(core, writer, inode, 0..u64::MAX)?;
    let more = dropped.next.is_some();
    state.inode.allocated = state.inode.allocated.saturating_sub(dropped.bytes);
    state.regions.clear();
    if more {
        state.attributes_dirty = true;
        core.content.list_dirty(node, &mut state);
    } else {
        let reserves = state.reserved_dirty || !state.stored_reserved.ranges().is_empty();
        let gone = writer
            .remove_all_xattrs(inode)
            .and_then(|()| match reserves {
                true => writer.put_reservation(inode, &[]),
                false => Ok(()),
            })
            .and_then(|()| writer.remove_inode(inode))
            .map_err(Error::from)
            .and_then(|()| core.content.holes.forget_all(writer, inode));
        core.durability.fail_on_error(gone)?;
        core.content.end_reservation(&mut state, &(0..u64::MAX));
        core.content.recount(state.active.cost(), 0);
        state.active = crate::content::overlay::Overlay::default();
        state.attributes_dirty = false;
        core.content.unlist_dirty(&mut state);
        state.purged = true;
        core.content.nodes.remove(inode);
    }
    drop(state);
    core.changed();
    let extents = dropped.extents;
    Ok(Step { extents, more })
}
