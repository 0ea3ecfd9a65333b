//! Rewrites a cell (64 KiB of a file) that small overwrites split into many blocks, as one block per contiguous run.
//!
//! Takes   a cell with too many fragments
//! Gives   the same bytes in fewer blocks
//! Never   looks like an edit: no time, size or version changes

use std::ops::Range;
use std::sync::Arc;

use strongroom_metadata::{Extent, InodeId, REGION_BYTES, Transaction};

use crate::blocks::equal_blocks::number_of;
use crate::blocks::fetch::{Fetched, read_extents};
use crate::blocks::place::{Placed, Placement, Reason};
use crate::blocks::stream;
use crate::content::extents;
use crate::content::node::{Node, NodeState};
use crate::content::overlay::CELL_BYTES;
use crate::core::{Core, Work};
use crate::drain::edit::RegionEdit;
use crate::{Error, Result};

/// Rewrites the cell at `cell`, unless it has changed or healed meanwhile.
pub(crate) fn defragment(core: &Core, inode: InodeId, cell: u64) -> Result<()> {
    let _doing = core.options.doing(Work::Defragmentation);
    let _gate = core.mutate()?;
    let node = match core.node(inode) {
        Err(Error::Stale) => return Ok(()),
        node => node?,
    };
    // Nobody else drains this node meanwhile, so its extents change only by copies and truncation to
    // nothing, which `replace` notices.
    let _flush = node.flush.lock();
    let seen = cell_extents(core, &node, cell)?;
    for run in runs(&seen) {
        let mut clear = vec![0; usize::try_from(extents::bytes(run)).unwrap_or(0)];
        if read_extents(core, inode, run, &mut clear)? != Fetched::Whole {
            // The cell heals another time; nothing is fetched for it.
            return Ok(());
        }
        let sealing = core.blocks.sealers.sealing();
        let placement = stream::place(core, &sealing, vec![clear], Reason::Background)?;
        replace(core, &node, cell, run, placement)?;
    }
    Ok(())
}

fn cell_extents(core: &Core, node: &Node, cell: u64) -> Result<Vec<Extent>> {
    let mut writer = core.store.lock();
    let mut state = node.lock();
    if state.purged {
        return Ok(Vec::new());
    }
    let list = core
        .content
        .region(&mut writer, node.id, &mut state, cell / REGION_BYTES)?;
    let inside = |extent: &&Extent| extent.start >= cell && extent.start < cell + CELL_BYTES;
    Ok(list.iter().filter(inside).copied().collect())
}

/// Runs of at least two extents that follow one another without a gap.
fn runs(list: &[Extent]) -> impl Iterator<Item = &[Extent]> {
    list.chunk_by(|first, second| extents::end(first) == second.start)
        .filter(|run| run.len() > 1)
}

/// Installs the rewritten run, if the extents are still those that were read.
fn replace(
    core: &Core,
    node: &Arc<Node>,
    cell: u64,
    run: &[Extent],
    mut placement: Placement<'_>,
) -> Result<()> {
    let mut writer = core.store.lock();
    let mut state = node.lock();
    let noted = placement.note_segments(core, &mut writer);
    core.durability.fail_on_error(noted)?;
    if state.purged {
        return Ok(());
    }
    let list = core
        .content
        .region(&mut writer, node.id, &mut state, cell / REGION_BYTES)?;
    if !run.iter().all(|extent| list.contains(extent)) {
        return Ok(());
    }
    let placed = placement
        .take_blocks()
        .next()
        .expect("one block was sealed");
    let range = run[0].start..extents::end(&run[run.len() - 1]);
    let installed = install(core, &mut writer, node, &mut state, range, placed);
    core.durability.fail_on_error(installed)?;
    state.attributes_dirty = true;
    core.content.list_dirty(node, &mut state);
    core.changed();
    Ok(())
}

fn install(
    core: &Core,
    writer: &mut Transaction<'_>,
    node: &Arc<Node>,
    state: &mut NodeState,
    range: Range<u64>,
    placed: Placed,
) -> Result<()> {
    let (block, _) = number_of(core, writer, &placed, 1)?;
    // Nothing is punched here.
    let mut drops = 0;
    let mut edit = RegionEdit::new(core, node, state, &mut drops);
    let whole = Extent {
        start: range.start,
        len: u32::try_from(range.end - range.start).expect("a run lies in one cell"),
        block,
        block_offset: 0,
    };
    edit.put(writer, whole)?;
    edit.finish(writer).map(drop)
}
