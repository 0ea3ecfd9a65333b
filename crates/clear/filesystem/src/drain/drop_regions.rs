//! Deletes the rows of regions of large holes, in bounded steps.
//!
//! Takes   regions that nobody reads as content any more
//! Gives   freed references to their blocks
//! Never   changes an unbounded number of rows while it holds the lock of the open transaction

use std::ops::Range;

use strongroom_metadata::{InodeId, Transaction};

use crate::content::extents;
use crate::core::Core;
use crate::limits::HOLES_MAX;
use crate::{Error, Result};

/// Purges holes until few enough are left: a caller that makes them faster than the background purges them does its work.
pub(crate) fn bound_holes(core: &Core) -> Result<()> {
    if core.content.holes.count() <= HOLES_MAX {
        return Ok(());
    }
    for inode in core.content.holes.inodes() {
        while hole_step(core, inode)? {}
        if core.content.holes.count() <= HOLES_MAX {
            break;
        }
    }
    Ok(())
}

/// One step of the lowest hole of `inode`; gives whether more is left. Takes the writer, and no gate: no operation of
/// anybody begins or ends by it, so it may run within one, and within a barrier.
pub(crate) fn hole_step(core: &Core, inode: InodeId) -> Result<bool> {
    if core.options.read_only || core.durability.has_failed() {
        return Ok(false);
    }
    let mut writer = core.store.lock();
    let Some(hole) = core.content.holes.first(inode) else {
        return Ok(false);
    };
    let node = match core.node_in(&mut writer, inode) {
        // Its rows stay, and `check` names them.
        Err(Error::Stale) => return Ok(false),
        node => node?,
    };
    let mut state = node.lock();
    let dropped = drop_regions(core, &mut writer, inode, hole.clone())?;
    let shrunk = core
        .content
        .holes
        .shrink(&mut writer, inode, dropped.next.unwrap_or(hole.end));
    core.durability.fail_on_error(shrunk)?;
    state.inode.allocated = state.inode.allocated.saturating_sub(dropped.bytes);
    state.attributes_dirty = true;
    core.content.list_dirty(&node, &mut state);
    drop(state);
    core.changed();
    Ok(core.content.holes.first(inode).is_some())
}

/// Rows of regions that went.
#[derive(Default)]
pub(crate) struct Dropped {
    /// The region to go on from, if more are left.
    pub(crate) next: Option<u64>,
    pub(crate) extents: usize,
    /// What the rows held.
    pub(crate) bytes: u64,
}

/// Drops rows of `regions`, up to the bound of one step.
pub(crate) fn drop_regions(
    core: &Core,
    writer: &mut Transaction<'_>,
    inode: InodeId,
    regions: Range<u64>,
) -> Result<Dropped> {
    let thresholds = &core.options.thresholds;
    let (regions_max, extents_max) = (
        thresholds.purge_regions_per_step,
        thresholds.purge_extents_per_step,
    );
    let mut dropped = Dropped::default();
    let found = writer.regions_from(inode, regions.start, regions_max + 1)?;
    for (index, region) in found.into_iter().enumerate() {
        if region >= regions.end {
            return Ok(dropped);
        }
        let before = match writer.region(inode, region) {
            // A damaged row ends the step, so that what was dropped before it is accounted for.
            Err(_) if index > 0 => {
                dropped.next = Some(region);
                return Ok(dropped);
            }
            before => before?,
        };
        if index > 0 && (index == regions_max || dropped.extents + before.len() > extents_max) {
            dropped.next = Some(region);
            return Ok(dropped);
        }
        dropped.extents += before.len();
        dropped.bytes += extents::bytes(&before);
        for (block, count) in extents::references(&before) {
            match writer.change_references(block, -count) {
                // Lost already: nothing to give back.
                Err(error) if error.is_callers() => {}
                result => drop(result?),
            }
        }
        writer.put_region(inode, region, &[])?;
    }
    Ok(dropped)
}
