//! Removes the rows of nodes that have neither names nor references, and of large holes, in bounded steps.
//!
//! Takes   an inode without names, or with holes
//! Gives   its blocks' references back; the row of inode or hole goes last, so that a crash finds the rest at open
//! Never   touches an unbounded number of rows in one hold of the writer

use std::ops::Range;
use std::sync::atomic::Ordering;

use strongroom_metadata::{InodeId, Transaction};

use crate::core::{Core, Work};
use crate::extents;
use crate::limits::HOLES_MAX;
use crate::{Error, Result};

/// Notes that `inode` may be purged. Call without locks.
pub(crate) fn schedule(core: &Core, inode: InodeId) {
    core.work.purge(inode);
}

/// Purges the holes of `inode`, and all of it unless it has a name or a reference by now.
pub(crate) fn purge(core: &Core, inode: InodeId) -> Result<()> {
    let _doing = core.doing(Work::Purge);
    while purge_step(core, inode)? || hole_step(core, inode)? {
        if core.store.dirty_pages() > core.options.thresholds.dirty_pages_max {
            crate::commit::commit_covering(core, core.changes.load(Ordering::Acquire))?;
        }
    }
    Ok(())
}

/// Goes on with the holes that an earlier run left, in the background.
pub(crate) fn resume_holes(core: &Core) {
    for inode in core.holes.inodes() {
        schedule(core, inode);
    }
}

/// Purges holes until few enough are left: whoever makes them faster than the background purges them does its work.
pub(crate) fn bound_holes(core: &Core) -> Result<()> {
    if core.holes.count() <= HOLES_MAX {
        return Ok(());
    }
    for inode in core.holes.inodes() {
        while hole_step(core, inode)? {}
        if core.holes.count() <= HOLES_MAX {
            break;
        }
    }
    Ok(())
}

/// One step of the lowest hole of `inode`; gives whether more is left. Takes the writer, and no gate: no operation of
/// anybody begins or ends by it, so it may run within one, and within a barrier.
fn hole_step(core: &Core, inode: InodeId) -> Result<bool> {
    if core.options.read_only || core.failed.load(Ordering::Acquire) {
        return Ok(false);
    }
    let mut writer = core.store.lock();
    let Some(hole) = core.holes.first(inode) else {
        return Ok(false);
    };
    let node = match core.node_in(&mut writer, inode) {
        // Its rows stay, and `check` names them.
        Err(Error::Stale) => return Ok(false),
        node => node?,
    };
    let mut state = node.lock();
    let (next, bytes) = drop_regions(core, &mut writer, inode, hole.clone())?;
    let shrunk = core
        .holes
        .shrink(&mut writer, inode, next.unwrap_or(hole.end));
    core.fail_on_error(shrunk)?;
    state.inode.allocated = state.inode.allocated.saturating_sub(bytes);
    state.attributes_dirty = true;
    core.list_dirty(&node, &mut state);
    drop(state);
    core.changed();
    Ok(core.holes.first(inode).is_some())
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

/// One step; gives whether more is left.
fn purge_step(core: &Core, inode: InodeId) -> Result<bool> {
    let _gate = core.mutate()?;
    let node = match core.node(inode) {
        Err(Error::Stale) => return Ok(false),
        node => node?,
    };
    let _flush = node.flush.lock();
    let mut writer = core.store.lock();
    let mut state = node.lock();
    // References are taken under the writer only, so this answer holds until it is released.
    if state.purged || state.inode.nlink > 0 || core.nodes.references(inode) > 0 {
        return Ok(false);
    }
    // Whole regions at a time: an error in a later one leaves no row half written.
    let (next, bytes) = drop_regions(core, &mut writer, inode, 0..u64::MAX)?;
    let more = next.is_some();
    state.inode.allocated = state.inode.allocated.saturating_sub(bytes);
    state.regions.clear();
    if more {
        state.attributes_dirty = true;
        core.list_dirty(&node, &mut state);
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
            .and_then(|()| core.holes.forget_all(&mut writer, inode));
        core.fail_on_error(gone)?;
        core.end_reservation(&mut state, &(0..u64::MAX));
        core.recount(state.active.cost(), 0);
        state.active = crate::overlay::Overlay::default();
        state.attributes_dirty = false;
        state.listed_dirty = false;
        state.purged = true;
        core.dirty.lock().remove(&inode);
        core.nodes.remove(inode);
    }
    drop(state);
    core.changed();
    Ok(more)
}

/// Drops rows of `regions`, up to the bound of one step; gives the region to go on from, if more are left, and how many
/// bytes the rows held.
fn drop_regions(
    core: &Core,
    writer: &mut Transaction<'_>,
    inode: InodeId,
    regions: Range<u64>,
) -> Result<(Option<u64>, u64)> {
    let thresholds = &core.options.thresholds;
    let (regions_max, extents_max) = (
        thresholds.purge_regions_per_step,
        thresholds.purge_extents_per_step,
    );
    let (mut dropped, mut bytes) = (0, 0);
    let found = writer.regions_from(inode, regions.start, regions_max + 1)?;
    for (index, region) in found.into_iter().enumerate() {
        if region >= regions.end {
            return Ok((None, bytes));
        }
        let before = match writer.region(inode, region) {
            // A damaged row ends the step, so that what was dropped before it is accounted for.
            Err(_) if index > 0 => return Ok((Some(region), bytes)),
            before => before?,
        };
        dropped += before.len();
        if index > 0 && (index == regions_max || dropped > extents_max) {
            return Ok((Some(region), bytes));
        }
        bytes += extents::bytes(&before);
        for (block, count) in extents::references(&before) {
            match writer.change_references(block, -count) {
                // Lost already: nothing to give back.
                Err(error) if error.is_callers() => {}
                result => drop(result?),
            }
        }
        writer.put_region(inode, region, &[])?;
    }
    Ok((None, bytes))
}
