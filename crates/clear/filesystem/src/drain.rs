//! Dirty ranges become sealed blocks and extents in the open transaction.
//!
//! Takes   nodes with pending content
//! Gives   the same content as extents of the transaction; durable with the next commit
//! Never   commits
//!
//! Invariants
//!  (1) A drain takes all pending content of a node at one moment and installs it in one hold of the
//!      writer, with the size of that moment: the stored file is always a prefix of the file's operations.
//!  (2) While a drain runs its content stays readable (`NodeState::draining`); if it fails, the content is
//!      pending again and nothing is lost.
//!  (3) A block row exists only for sealed bytes that the commit makes durable: appended to a segment that
//!      is synced before, or carried in the commit itself.

pub(crate) mod moving;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::MutexGuard;
use strongroom_format::limits::sealed_len;
use strongroom_metadata::{BlockNumber, Extent, REGION_BYTES, Transaction};

use crate::blocks::equal_blocks::replace_unproven;
use crate::blocks::place::{Placed, Placement};
use crate::blocks::stream;
use crate::content::extents::{self, Edited};
use crate::content::node::{Node, NodeState};
use crate::content::overlay::{Overlay, Piece};
use crate::content::reservation::Reserved;
use crate::core::Core;
use crate::upkeep::epoch::Sealing;
use crate::{Error, Result};

/// Who asks for a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Somebody waits for durability: small content is carried in the commit.
    Sync,
    /// A name is about to point at the content, or blocks are about to be shared.
    Namespace,
    /// A timer or a bound.
    Background,
}

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
    drain_grouped(core, core.dirty_nodes())
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
    core.space.note_drain(&result);
    if result.is_err() {
        for drain in &drains {
            take_back(core, drain);
        }
    }
    let _guard = core.room.0.lock();
    core.room.1.notify_all();
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
    core.recount(before, state.active.cost());
    core.list_dirty(drain.node, &mut state);
}

fn seal_and_install(core: &Core, drains: &[Draining<'_>], reason: Reason) -> Result<()> {
    let clear: Vec<DataPiece> = drains.iter().flat_map(data_pieces).collect();
    let sealing = core.sealers.sealing();
    let placement = if needs_batches(core, &clear) {
        stream::placed(core, &sealing, clear)?
    } else {
        place_few(core, &sealing, clear, reason)?
    };
    crate::upkeep::purge::bound_holes(core)?;
    let mut writer = core.store.lock();
    if core.failed.load(Ordering::Acquire) {
        return Err(Error::Failed);
    }
    let result = install_all(core, &mut writer, drains, placement);
    core.fail_on_error(result)
}

/// Whether `clear` may not fit one batch.
fn needs_batches(core: &Core, clear: &[DataPiece]) -> bool {
    let sealed_bytes = |piece: &DataPiece| sealed_len(piece.as_ref().len());
    clear.iter().map(sealed_bytes).sum::<usize>() > core.options.thresholds.batch_bytes
}

/// Seals what fits one batch; the commit carries it where somebody waits and it is little.
fn place_few<'a>(
    core: &'a Core,
    sealing: &Sealing<'_>,
    clear: Vec<DataPiece>,
    reason: Reason,
) -> Result<Placement<'a>> {
    let sealed = core.seal_content(sealing, clear);
    let total: usize = sealed.iter().map(|block| block.bytes.len()).sum();
    let carried = reason != Reason::Background
        && total <= core.options.thresholds.carried_bytes_max
        && core.may_carry(reason);
    match carried {
        true => Ok(Placement::carried(sealing, sealed)),
        false => Placement::appended(core, sealing, sealed),
    }
}

impl Core {
    /// Call with the writer held, on the result of changes to several rows: after an error they may be half
    /// written, so nothing of this transaction may be committed any more.
    pub(crate) fn fail_on_error<T>(&self, result: Result<T>) -> Result<T> {
        if result.is_err() {
            self.failed.store(true, Ordering::Release);
        }
        result
    }

    /// Whether the commit may carry a few more blocks: somebody waits, and this is sooner than another batch.
    /// What nobody needs durable at once stops earlier, so that it never makes an `fsync` cost two flushes.
    pub(crate) fn may_carry(&self, reason: Reason) -> bool {
        let waiting = self.store.waiting_bytes();
        let waiting_max = self.options.thresholds.waiting_bytes_max;
        if waiting > waiting_max {
            self.work.settle();
        }
        let most = if reason == Reason::Sync {
            4 * waiting_max
        } else {
            waiting_max
        };
        waiting <= most
    }
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
        core.recount(drain.content.cost(), 0);
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
                let number = number_of(core, writer, placed)?;
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
    core.list_dirty(drain.node, state);
    for cell in fragmented {
        core.work.defragment(drain.node.id, cell);
    }
    Ok(())
}

/// The block's number: that of an equal block, or of a new row with one reference.
pub(crate) fn number_of(
    core: &Core,
    writer: &mut Transaction<'_>,
    placed: Placed,
) -> Result<BlockNumber> {
    // What was appended found no equal block a moment ago: mostly there is none yet.
    if placed.is_appended() {
        match insert_block(writer, &placed) {
            Err(strongroom_metadata::Error::BlockExists) => {}
            number => return Ok(number?),
        }
    }
    if let Some(number) = writer.block_by_id(&placed.id)? {
        writer.change_references(number, 1)?;
        replace_unproven(core, writer, number, &placed)?;
        return Ok(number);
    }
    // A block that was known when it was sealed may have gone since: then its bytes are carried.
    Ok(insert_block(writer, &placed)?)
}

fn insert_block(
    writer: &mut Transaction<'_>,
    placed: &Placed,
) -> strongroom_metadata::Result<BlockNumber> {
    let (place, waiting) = placed.row();
    writer.insert_block_of(
        placed.kind,
        &placed.id,
        placed.clear_len,
        placed.epoch,
        1,
        place,
        waiting,
    )
}

/// Changes the extents of one node, region by region, and keeps references and `allocated` right.
pub(crate) struct RegionEdit<'a> {
    core: &'a Core,
    node: &'a Arc<Node>,
    state: &'a mut NodeState,
    /// How many more extents holes may drop in this hold of the writer; the purge drops the rest.
    drops: &'a mut usize,
    /// The region at hand, and its number.
    open: Option<(u64, Edited)>,
    fragmented: Vec<u64>,
}

impl<'a> RegionEdit<'a> {
    pub(crate) fn new(
        core: &'a Core,
        node: &'a Arc<Node>,
        state: &'a mut NodeState,
        drops: &'a mut usize,
    ) -> Self {
        Self {
            core,
            node,
            state,
            drops,
            open: None,
            fragmented: Vec::new(),
        }
    }

    /// Makes `extent` (whose block already counts this reference) the content of its range.
    pub(crate) fn put(&mut self, writer: &mut Transaction<'_>, extent: Extent) -> Result<()> {
        let edited = self.region(writer, extent.start / REGION_BYTES)?;
        edited.put(extent);
        let fragments = extents::fragments_in_cell(edited.extents(), extent.start);
        if fragments > self.core.options.thresholds.cell_fragments_max {
            self.fragmented
                .push(extent.start - extent.start % crate::content::overlay::CELL_BYTES);
        }
        Ok(())
    }

    /// Removes what `range` holds: a bounded part of the rows now, and what else lies in whole regions later.
    pub(crate) fn punch(
        &mut self,
        writer: &mut Transaction<'_>,
        range: std::ops::Range<u64>,
    ) -> Result<()> {
        self.close(writer)?;
        let last = (range.end - 1) / REGION_BYTES;
        let whole = range.start.div_ceil(REGION_BYTES)..range.end / REGION_BYTES;
        let mut from = range.start / REGION_BYTES;
        loop {
            let holes = &self.core.holes;
            let region = match holes.next_region(writer, self.node.id, from)? {
                Some(region) if region <= last => region,
                _ => return Ok(()),
            };
            if *self.drops == 0 && whole.contains(&region) {
                self.leave_to_purge(writer, region..whole.end)?;
                from = whole.end;
                continue;
            }
            let edited = self.region(writer, region)?;
            let count = edited.extents().len();
            edited.remove(&range);
            *self.drops = self.drops.saturating_sub(count);
            from = region + 1;
        }
    }

    /// Makes `regions` a hole whose rows go later. None of them may be open.
    fn leave_to_purge(
        &mut self,
        writer: &mut Transaction<'_>,
        regions: std::ops::Range<u64>,
    ) -> Result<()> {
        let core = self.core;
        self.state
            .regions
            .retain(|region| !regions.contains(&region));
        core.holes.add(writer, self.node.id, regions)?;
        core.work.purge(self.node.id);
        Ok(())
    }

    fn region(&mut self, writer: &mut Transaction<'_>, region: u64) -> Result<&mut Edited> {
        if self.open.as_ref().is_none_or(|(open, _)| *open != region) {
            self.close(writer)?;
            // Content comes to a region of a hole: what the row still says, and memory does not, is dropped with it.
            let was_hole = self.core.holes.take_out(writer, self.node.id, region)?;
            // Nothing was ever stored of a file without bytes, neither now nor by its row: so there is nothing to look for.
            let is_new = self.state.stored_size == 0 && self.state.inode.allocated == 0;
            let mut edited = match self.state.regions.get(region) {
                Some(extents) if !was_hole => Edited::new(extents.to_vec()),
                None if is_new && !was_hole => Edited::new(Vec::new()),
                _ => Edited::new(writer.region(self.node.id, region)?),
            };
            if was_hole {
                edited.remove(&(0..u64::MAX));
            }
            self.open = Some((region, edited));
        }
        let (_, edited) = self.open.as_mut().expect("opened just above");
        Ok(edited)
    }

    fn close(&mut self, writer: &mut Transaction<'_>) -> Result<()> {
        let Some((region, edited)) = self.open.take() else {
            return Ok(());
        };
        let (extents, references, bytes) = edited.finish();
        for (block, change) in references {
            writer.change_references(block, change)?;
        }
        let inode = &mut self.state.inode;
        inode.allocated = inode.allocated.saturating_add_signed(bytes);
        writer.put_region(self.node.id, region, &extents)?;
        self.state.regions.insert(region, &Arc::new(extents));
        self.core.nodes.bound_extents(self.state);
        Ok(())
    }

    /// Writes the last region; gives the cells that have too many fragments.
    pub(crate) fn finish(mut self, writer: &mut Transaction<'_>) -> Result<Vec<u64>> {
        self.close(writer)?;
        self.fragmented.dedup();
        Ok(self.fragmented)
    }
}
