//! Removes the rows of nodes that have neither names nor references, in bounded steps.
//!
//! Takes   an inode without names
//! Gives   its blocks' references back; the row goes last, so that a crash finds the rest at open
//! Never   touches an unbounded number of rows in one hold of the writer

use std::sync::atomic::Ordering;

use strongroom_metadata::{InodeId, Transaction};

use crate::core::Core;
use crate::extents;
use crate::limits::{DIRTY_PAGES_MAX, PURGE_REGIONS_PER_STEP};
use crate::{Error, Result};

/// Notes that `inode` may be purged. Call without locks.
pub(crate) fn schedule(core: &Core, inode: InodeId) {
    core.work.purge(inode);
}

/// Purges `inode`, unless it has a name or a reference by now.
pub(crate) fn purge(core: &Core, inode: InodeId) -> Result<()> {
    while purge_step(core, inode)? {
        if core.store.dirty_pages() > DIRTY_PAGES_MAX {
            crate::commit::commit_covering(core, core.changes.load(Ordering::Acquire))?;
        }
    }
    Ok(())
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
    let (more, bytes) = drop_regions(&mut writer, inode)?;
    state.inode.allocated = state.inode.allocated.saturating_sub(bytes);
    state.regions.clear();
    if more {
        state.attributes_dirty = true;
        core.list_dirty(&node, &mut state);
    } else {
        let gone = writer
            .remove_all_xattrs(inode)
            .and_then(|()| writer.remove_inode(inode));
        core.fail_on_error(gone.map_err(Error::from))?;
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

/// Gives back the references of up to `PURGE_REGIONS_PER_STEP` regions; tells whether more are left, and
/// how many bytes they held.
fn drop_regions(writer: &mut Transaction<'_>, inode: InodeId) -> Result<(bool, u64)> {
    let regions = writer.regions_from(inode, 0, PURGE_REGIONS_PER_STEP)?;
    let more = regions.len() == PURGE_REGIONS_PER_STEP;
    let mut bytes = 0;
    for region in regions {
        let before = writer.region(inode, region)?;
        bytes += extents::bytes(&before);
        for (block, change) in extents::reference_changes(&before, &[]) {
            match writer.change_references(block, change) {
                // Lost already: nothing to give back.
                Err(error) if error.is_callers() => {}
                result => drop(result?),
            }
        }
        writer.put_region(inode, region, &[])?;
    }
    Ok((more, bytes))
}
