//! Turns dirty ranges into sealed blocks, and into extents of the open transaction.
//!
//! Takes   nodes with pending content
//! Gives   the same content as extents of the transaction; durable with the next commit
//! Never   commits
//!
//! Invariants
//!  (1) A drain takes all content of a node that is pending at one moment. It installs that content and the file's size at
//!      that moment while the open transaction stays locked. So the stored file is always the result of a prefix of the
//!      file's operations.
//!  (2) While a drain runs, its content stays readable (`NodeState::draining`). If the drain fails, the content is
//!      pending again and nothing is lost.
//!  (3) A block row exists only for sealed bytes that the commit makes durable: appended to a segment that is synced
//!      before, or stored in the commit itself.

use std::sync::Arc;

use parking_lot::MutexGuard;
use strongroom_metadata::{Extent, Transaction};

use crate::Result;
use crate::blocks::equal_blocks::number_of;
use crate::blocks::place::{Placed, Placement, Reason};
use crate::blocks::stream;
use crate::content::node::{Node, NodeState};
use crate::content::overlay::{Overlay, Piece};
use crate::content::reservation::Reserved;
use crate::core::Core;
use crate::drain::drop_regions::bound_holes;
use crate::drain::edit::RegionEdit;

/// One node's content on its way down.
struct Draining<'a> {
    node: &'a Arc<Node>,
    content: Arc<Overlay>,
    size: u64,
    version: u64,
    reserved: Reserved,
}

/// Drains one node, if it has anything pending.
pub(crate) fn drain_node(core: &Core, node: &Arc<Node>, reason: Reason) -> Result<()> {
    drain_nodes(core, std::slice::from_ref(node), reason)
}

/// Drains every node that is dirty now, in the order of their numbers: files that were made one after the other, as those of a
/// directory mostly are, come to lie side by side, so that who reads them in that order fetches many at once.
pub(crate) fn drain_all(core: &Core) -> Result<()> {
    drain_grouped(core, core.content.dirty_nodes())
}

/// Drains `nodes`, so many at a time that what is sealed at once is bounded. Goes on after an error, and gives the first.
pub(crate) fn drain_grouped(core: &Core, nodes: Vec<Arc<Node>>) -> Result<()> {
    let mut first_error = Ok(());
    let mut group = Vec::new();
    let mut group_bytes = 0;
    for node in nodes {
        let bytes = node.lock().active.cost();
        group.push(node);
        group_bytes += bytes;
        // Small files share a batch; the group's size bounds what is sealed at once.
        if group_bytes >= core.options.thresholds.drain_bytes || group.len() >= 1024 {
            first_error = first_error.and(drain_nodes(core, &group, Reason::Background));
            group.clear();
            group_bytes = 0;
        }
    }
    first_error.and(drain_nodes(core, &group, Reason::Background))
}

/// Drains `nodes` together: one batch of sealed blocks, one hold of the writer.
///
/// # Errors
/// The content of all of them is pending again.
pub(crate) fn drain_nodes(core: &Core, nodes: &[Arc<Node>], reason: Reason) -> Result<()> {
    let mut sorted: Vec<&Arc<Node>> = nodes.iter().collect();
    sorted.sort_by_key(|node| node.id);
    sorted.dedup_by_key(|node| node.id);
    let _holds: Vec<MutexGuard<'_, ()>> = sorted.iter().map(|node| node.flush.lock()).collect();
    let drains: Vec<Draining<'_>> = sorted.into_iter().filter_map(begin).collect();
    if drains.is_empty() {
        return Ok(());
    }
    let result = seal_and_install(core, &drains, reason);
    core.content.note_drain(&result);
    if result.is_err() {
        for drain in &drains {
            take_back(core, drain);
        }
    }
    core.content.wake();
    result
}

/// (1): takes all that is pending, and the size that goes with it.
fn begin(node: &Arc<Node>) -> Option<Draining<'_>> {
    let mut state = node.lock();
    if let Some(left) = state.draining.take() {
        // `flush` is held, so no drain runs: an earlier one ended in a panic. Its content is still pending.
        state.active.lay_below(&left);
        state.held_back = state.held_back_draining.take().or(state.held_back.take());
    }
    if state.active.is_empty() {
        state.held_back = None;
        return None;
    }
    state.held_back_draining = state.held_back.take();
    state.unlogged.note_drain();
    let content = Arc::new(std::mem::take(&mut state.active));
    state.draining = Some(Arc::clone(&content));
    Some(Draining {
        node,
        content,
        size: state.inode.size,
        version: state.inode.content_version,
        reserved: state.reserved.clone(),
    })
}

/// (2): the drain failed before anything was installed.
fn take_back(core: &Core, drain: &Draining<'_>) {
    let mut state = drain.node.lock();
    if state.draining.take().is_none() {
        return;
    }
    let before = state.active.cost() + drain.content.cost();
    state.active.lay_below(&drain.content);
    state.held_back = state.held_back_draining.take().or(state.held_back.take());
    core.content.recount(before, state.active.cost());
    core.content.list_dirty(drain.node, &mut state);
}

fn seal_and_install(core: &Core, drains: &[Draining<'_>], reason: Reason) -> Result<()> {
    let clear: Vec<DataPiece> = drains.iter().flat_map(data_pieces).collect();
    // Before anything is appended: an error behind that leaves waste that no row shows.
    bound_holes(core)?;
    let sealing = core.blocks.sealers.sealing();
    let placement = stream::place_pending(core, &sealing, clear, reason)?;
    let mut writer = core.store.lock();
    core.durability.check()?;
    let result = install_all(core, &mut writer, drains, placement);
    core.durability.fail_on_error(result)
}

/// The bytes of one data piece, kept alive for the sealing threads.
struct DataPiece {
    content: Arc<Overlay>,
    start: u64,
}

impl AsRef<[u8]> for DataPiece {
    fn as_ref(&self) -> &[u8] {
        self.content.data_at(self.start)
    }
}

fn data_pieces(drain: &Draining<'_>) -> impl Iterator<Item = DataPiece> {
    drain
        .content
        .pieces()
        .filter(|(_, piece)| matches!(piece, Piece::Data(_)))
        .map(|(start, _)| DataPiece {
            content: Arc::clone(&drain.content),
            start,
        })
}

fn install_all(
    core: &Core,
    writer: &mut Transaction<'_>,
    drains: &[Draining<'_>],
    mut placement: Placement<'_>,
) -> Result<()> {
    placement.note_segments(core, writer)?;
    // From here on it is what is not pending any more: counted twice, and never left out.
    placement.end_on_way();
    let mut blocks = placement.take_blocks();
    let mut drops = core.options.thresholds.purge_extents_per_step;
    for drain in drains {
        let mut state = drain.node.lock();
        if !state.purged {
            install(core, writer, drain, &mut state, &mut blocks, &mut drops)?;
        } else {
            // The rows went while the content was being sealed; its share of the batch is waste.
            let pieces = drain.content.pieces();
            let count = pieces
                .filter(|(_, piece)| matches!(piece, Piece::Data(_)))
                .count();
            blocks.by_ref().take(count).for_each(drop);
        }
        state.draining = None;
        state.held_back_draining = None;
        if state.active.is_empty() {
            state.held_back = None;
        }
        core.content.recount(drain.content.cost(), 0);
    }
    core.changed();
    Ok(())
}

fn install(
    core: &Core,
    writer: &mut Transaction<'_>,
    drain: &Draining<'_>,
    state: &mut NodeState,
    blocks: &mut impl Iterator<Item = Placed>,
    drops: &mut usize,
) -> Result<()> {
    let mut edit = RegionEdit::new(core, drain.node, state, drops);
    for (start, piece) in drain.content.pieces() {
        match piece {
            Piece::Hole(len) => edit.punch(writer, start..start + len)?,
            Piece::Data(bytes) => {
                let placed = blocks.next().expect("one placed block per data piece");
                let (number, _) = number_of(core, writer, &placed, 1)?;
                let len =
                    u32::try_from(bytes.len()).expect("overlay (2) holds: a piece fits a cell");
                edit.put(
                    writer,
                    Extent {
                        start,
                        len,
                        block: number,
                        block_offset: 0,
                    },
                )?;
            }
        }
    }
    let fragmented = edit.finish(writer)?;
    state.stored_size = drain.size;
    state.stored_version = drain.version;
    state.stored_reserved.clone_from(&drain.reserved);
    state.attributes_dirty = true;
    core.content.list_dirty(drain.node, state);
    for cell in fragmented {
        core.work.defragment(drain.node.id, cell);
    }
    Ok(())
}
