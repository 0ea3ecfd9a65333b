//! Takes blocks out of the vault although trees name them: their rows stay, their bytes go.
//!
//! Takes   blocks, each with the references that whoever chose them saw
//! Gives   rows that say that they were erased, and segments without their bytes
//! Never   erases a block that got or lost a reference since it was chosen
//! Spec    spec/6-history.md, section 6.11
//!
//! Invariants
//!  (1) An erased block keeps its row and its references, so that what names it can be given back like anything else. It
//!      lies in a segment that has no file, which tells it from a lost one.                            [6.11.3]
//!  (2) Equal content that is stored again gets bytes of its own.                                      [6.11.4]
//!  (3) The place of an erased block in that segment says when it was erased.                          [6.11.3]

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use strongroom_format::limits::{BLOCK_BYTES_MAX, sealed_len};
use strongroom_history::{ErasedContent, Erasure};
use strongroom_metadata::{
    BlockNumber, ERASED_SEGMENT, Extent, InodeId, Place, SegmentNumber, SegmentState, Timestamp,
    Transaction,
};

use crate::commit::commit_covering;
use crate::core::{Core, Work};
use crate::drain::drain_all;
use crate::drain::moving::{move_blocks, read_sealed};
use crate::history::{Engine, give_all_back};
use crate::upkeep::space::{finish_segment, let_empty_go};
use crate::{Error, Result};

impl Engine<'_> {
    /// Finishes removals that are under way: what a removed file or snapshot alone named loses its references.
    pub(crate) fn finish_removals(&self) -> Result<()> {
        let core = self.core();
        // What was overwritten or removed, and still is stored, would count as being in use.
        match drain_all(core) {
            Err(Error::NoSpace) => {}
            drained => drained?,
        }
        crate::upkeep::background::finish(core)?;
        self.commit()?;
        give_all_back(core)?;
        self.commit()
    }

    /// Erases blocks, each with the references that it had; durable on return, and the bytes are gone from the folder. What came to
    /// be used by something else since they were chosen stays. A crash may leave some of them erased: the caller remembers what
    /// it asked for.
    pub(crate) fn erase(&self, found: Erasure) -> Result<ErasedContent> {
        let core = self.core();
        let mut erased = ErasedContent {
            bytes: 0,
            ..found.content
        };
        let mut segments = BTreeSet::new();
        let when = seconds(core.now());
        let thresholds = &core.options.thresholds;
        for page in found.blocks.chunks(thresholds.move_blocks.max(1)) {
            {
                let _gate = core.mutate()?;
                let mut writer = core.store.lock();
                let marked = mark(core, &mut writer, page, when, &mut erased, &mut segments);
                core.fail_on_error(marked)?;
                core.changed();
            }
            if core.store.dirty_pages() > thresholds.dirty_pages_max {
                self.commit()?;
            }
        }
        self.commit()?;
        for segment in segments {
            erased.segments_left += u64::from(!empty(core, segment)?);
        }
        crate::commit::intents::wipe(core)?;
        Ok(erased)
    }
}

/// The place that stands for a time; 0 for one that cannot be told so. (3)
fn seconds(time: Timestamp) -> u32 {
    u32::try_from(time.0.div_euclid(NANOSECONDS)).unwrap_or(0)
}

/// Nanoseconds of a second.
const NANOSECONDS: i64 = 1_000_000_000;

/// The error of whoever reads an erased block, of which `at` is the place.
pub(crate) fn erased(inode: InodeId, offset: u64, at: u32) -> Error {
    let when = (at > 0).then(|| Timestamp(i64::from(at) * NANOSECONDS));
    Error::Erased {
        inode,
        offset,
        when,
    }
}

/// Fails if a block that `extents` of `inode` name was erased.
pub(crate) fn refuse_erased(
    writer: &Transaction<'_>,
    inode: InodeId,
    extents: &[Extent],
) -> Result<()> {
    let Some(grave) = writer.segment_by_id(&ERASED_SEGMENT)? else {
        return Ok(());
    };
    for extent in extents {
        match writer.block(extent.block)?.map(|block| block.place) {
            Some(Place::Segment(segment, at)) if segment == grave.number => {
                return Err(erased(inode, extent.start, at));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Makes the blocks erased ones, and notes where their bytes are. (1)
fn mark(
    core: &Core,
    writer: &mut Transaction<'_>,
    blocks: &[(BlockNumber, u32)],
    when: u32,
    erased: &mut ErasedContent,
    segments: &mut BTreeSet<SegmentNumber>,
) -> Result<()> {
    let grave = erased_segment(writer)?;
    core.space.suspect_segment(grave); // (2)
    for (number, references) in blocks {
        let Some(block) = writer.block(*number)? else {
            continue;
        };
        let bytes = sealed_len(block.clear_len as usize) as u64;
        if block.references != *references {
            erased.shared_bytes += bytes;
            continue;
        }
        match block.place {
            Place::Segment(segment, _) if segment == grave => continue,
            Place::Segment(segment, _) => {
                segments.insert(segment);
            }
            Place::Waiting => {}
        }
        writer.move_block(*number, block.epoch, Place::Segment(grave, when))?;
        writer.add_total_bytes(grave, bytes)?;
        erased.bytes += bytes;
    }
    Ok(())
}

fn erased_segment(writer: &mut Transaction<'_>) -> Result<SegmentNumber> {
    if let Some(segment) = writer.segment_by_id(&ERASED_SEGMENT)? {
        return Ok(segment.number);
    }
    // Its epoch means nothing: nothing is sealed there.
    let number = writer.insert_segment(&ERASED_SEGMENT, strongroom_format::Epoch(0))?;
    writer.set_committed_len(number, sealed_len(BLOCK_BYTES_MAX) as u64)?;
    writer.set_segment_state(number, SegmentState::Finished)?;
    Ok(number)
}

/// Moves what is left of a segment elsewhere and unlinks it, durably; gives whether that could be done.
fn empty(core: &Core, number: SegmentNumber) -> Result<bool> {
    let Some(segment) = core.store.lock().segment(number)? else {
        return Ok(true);
    };
    if segment.state == SegmentState::Open {
        finish_segment(core, segment.id)?;
    }
    let mut after = BlockNumber(0);
    loop {
        let _reclaiming = core.space.reclaiming.lock();
        let _doing = core.options.doing(Work::Compaction);
        let _gate = core.mutate()?;
        let limit = core.options.thresholds.move_blocks;
        let blocks = core.store.lock().blocks_in_segment(number, after, limit)?;
        let Some(last) = blocks.last() else { break };
        after = last.number;
        let sealing = core.sealers.sealing();
        let (numbers, sealed) = read_sealed(core, &sealing, segment.id, blocks)?;
        if !numbers.is_empty() {
            move_blocks(
                core,
                &sealing,
                &numbers,
                &sealed,
                |block| matches!(block.place, Place::Segment(at, _) if at == number),
            )?;
        }
    }
    // It leaves, that is committed, it goes, and that is committed.
    for _ in 0..2 {
        commit_covering(core, core.changes.load(Ordering::Acquire))?;
        let_empty_go(core, &mut core.space.reclaiming.lock())?;
    }
    commit_covering(core, core.changes.load(Ordering::Acquire))?;
    core.segments.sync_removals()?;
    Ok(core.store.lock().segment(number)?.is_none())
}
