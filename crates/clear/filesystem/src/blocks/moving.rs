//! Moves sealed blocks into another segment, and re-seals those that are sealed under keys of an older epoch.
//!
//! Takes   rows of blocks, and the places of their bytes
//! Gives   the same blocks in the open segment, and rows with the new places
//! Never   changes an id, or spreads damage: a block that does not open stays where it is
//!
//! Invariants
//!  (1) A moved block has one row at every moment. Old bytes stay until their segment is removed; then a read looks the block up again.

use strongroom_crypto::BlockSealer;
use strongroom_format::{Epoch, Location, SealedBlock, SegmentId};
use strongroom_metadata::{Block, BlockNumber, Place, SegmentNumber, Transaction};
use strongroom_segments::{Appended, Part, SealedBytes};

use crate::Result;
use crate::blocks::place::{SealedBatch, append_batch, copied, note_batch};
use crate::core::Core;
use crate::core::sealers::Sealing;

/// Appends `sealed` and points the rows of `numbers` there, where `still` holds for them.
pub(crate) fn move_blocks(
    core: &Core,
    sealing: &Sealing<'_>,
    numbers: &[BlockNumber],
    sealed: &[SealedBlock],
    still: impl Fn(&Block) -> bool,
) -> Result<()> {
    let _placing = core.blocks.placing.read();
    let SealedBatch { batch, heads, .. } = copied(core, sealed)?;
    let appended = append_batch(core, sealing, batch, &heads)?;
    let mut writer = core.store.lock();
    let moved = point_at(
        core,
        &mut writer,
        sealing.epoch(),
        numbers,
        &appended,
        still,
    );
    core.durability.fail_on_error(moved)?;
    core.changed();
    Ok(())
}

fn point_at(
    core: &Core,
    writer: &mut Transaction<'_>,
    epoch: Epoch,
    numbers: &[BlockNumber],
    appended: &Appended,
    still: impl Fn(&Block) -> bool,
) -> Result<()> {
    let segment = note_batch(core, writer, epoch, appended)?;
    for (number, location) in numbers.iter().zip(&appended.locations) {
        // Freed meanwhile: its copy is waste in the new segment.
        if writer.block(*number)?.is_some_and(|block| still(&block)) {
            writer.move_block(*number, epoch, Place::Segment(segment, location.offset))?;
        }
    }
    Ok(())
}

/// Moves the next blocks of a segment, those behind `after` that still open; gives the last that was looked at, and whether any
/// moved. `None`: there is none left. Opens and seals on all cores.
///
/// # Errors
/// As `move_blocks`; where nobody knows whether they open, because the process lacks descriptors or memory.
pub(crate) fn move_next(
    core: &Core,
    segment: SegmentNumber,
    id: SegmentId,
    after: BlockNumber,
) -> Result<Option<(BlockNumber, bool)>> {
    move_next_of(core, segment, id, after, &|_| true)
}

/// The same for those blocks that `is_meant` names; the others stay.
///
/// # Errors
/// As `move_next`.
pub(crate) fn move_next_of(
    core: &Core,
    segment: SegmentNumber,
    id: SegmentId,
    after: BlockNumber,
    is_meant: &dyn Fn(&Block) -> bool,
) -> Result<Option<(BlockNumber, bool)>> {
    let _gate = core.mutate()?;
    let limit = core.options.thresholds.move_blocks;
    let blocks = core.store.lock().blocks_in_segment(segment, after, limit)?;
    let Some(last) = blocks.last().map(|last| last.number) else {
        return Ok(None);
    };
    let sealing = core.blocks.sealers.sealing();
    let blocks = blocks.into_iter().filter(|block| is_meant(block));
    let placed = blocks.filter_map(|block| Some((part_of(id, &block)?, block)));
    let mut jobs = Vec::new();
    for (block, bytes) in read_each(core, placed.map(|(part, block)| (block, part)).unzip())? {
        let sealer = BlockSealer::clone(&sealing);
        jobs.push(move || {
            let current = under_newest_epoch(&sealer, &block, bytes?.as_ref())?;
            Some((block.number, current))
        });
    }
    let sealed = core.blocks.pool.run_all(jobs);
    let (numbers, sealed): (Vec<_>, Vec<_>) = sealed.into_iter().flatten().unzip();
    let moves = !numbers.is_empty();
    if moves {
        move_blocks(
            core,
            &sealing,
            &numbers,
            &sealed,
            |block| matches!(block.place, Place::Segment(at, _) if at == segment),
        )?;
    }
    Ok(Some((last, moves)))
}

/// The sealed bytes of each block, `None` if they cannot be read. Take no locks: the disk is waited for.
///
/// # Errors
/// Only a shortage of the process, which says nothing about the block.
pub(crate) fn read_each(
    core: &Core,
    (blocks, parts): (Vec<Block>, Vec<Part>),
) -> Result<Vec<(Block, Option<SealedBytes>)>> {
    let mut each = Vec::with_capacity(blocks.len());
    let read = core.blocks.segments.read_many(&parts);
    for (block, read) in blocks.into_iter().zip(read) {
        match read {
            Err(error) if error.is_shortage() => return Err(error.into()),
            read => each.push((block, read.ok())),
        }
    }
    Ok(each)
}

/// Where a block lies, all of it.
pub(crate) fn part_of(segment: SegmentId, block: &Block) -> Option<Part> {
    let Place::Segment(_, offset) = block.place else {
        return None;
    };
    let len = strongroom_format::limits::sealed_len(block.clear_len as usize);
    let len = u32::try_from(len).ok()?;
    Some(Part {
        location: Location {
            segment,
            offset,
            len,
        },
        range: 0..len,
    })
}

/// The block as it is to be stored again, if it opens: a segment has one epoch, so what older keys sealed is
/// sealed again under its unchanged id.
pub(crate) fn under_newest_epoch(
    sealing: &BlockSealer,
    block: &Block,
    bytes: &[u8],
) -> Option<SealedBlock> {
    let clear_len = block.clear_len as usize;
    let clear = sealing
        .open_exactly(block.epoch, block.kind, &block.id, clear_len, bytes)
        .ok()?;
    if block.epoch != sealing.epoch() {
        return Some(sealing.seal_exactly(block.kind, &clear));
    }
    Some(SealedBlock {
        id: block.id,
        kind: block.kind,
        clear_len: block.clear_len,
        bytes: bytes.to_vec(),
    })
}
