//! Erases blocks although trees refer to them: their rows stay, their bytes are removed.
//!
//! Takes   blocks, each with the reference count that it had when it was chosen
//! Gives   rows that mark them as erased, and segments without their bytes
//! Never   erases a block whose references changed since it was chosen
//! Spec    spec/6-history.md, section 6.11
//!
//! Invariants
//!  (1) An erased block keeps its row and its references, so that a tree that refers to it can be freed as usual. Its row
//!      names a special segment that has no file, so it is not reported as lost.                      [6.11.3]
//!  (2) Equal content that is stored again gets new bytes.                                             [6.11.4]
//!  (3) The offset of an erased block in that special segment is the time of its erasure.              [6.11.3]
//!  (4) The transaction that erases the first block also notes that all remotes must be pruned at once.        [6.11.11]

use std::collections::BTreeSet;

use parking_lot::MutexGuard;
use strongroom_format::Epoch;
use strongroom_format::limits::sealed_len;
use strongroom_history::{ErasedContent, Erasure};
use strongroom_metadata::{
    BlockNumber, ERASED_SEGMENT, Place, SegmentNumber, SegmentState, Transaction, has_no_file,
};

use crate::blocks::away::bring_back;
use crate::blocks::erased::{seconds, segment_without_file};
use crate::commit::commits::commit_all;
use crate::core::Core;
use crate::core::revisions::GiveBack;
use crate::drain::drains::drain_all;
use crate::trees::give_back::give_all_back;
use crate::upkeep::compact::move_out;
use crate::upkeep::space::{finish_segment, let_empty_go};
use crate::upkeep::urgent::finish;
use crate::{Error, Result};

/// The setting that has the numbers of the remotes from which everything that is not live is to go at once, 8 bytes each.
pub(crate) const PRUNE_NOW: &str = "prune_now";

/// Finishes removals that are under way: what a removed file or snapshot alone named loses its references. As long as the result
/// is kept, no tree loses any: counts that are taken meanwhile stay true.
pub(crate) fn finish_removals(core: &Core) -> Result<MutexGuard<'_, GiveBack>> {
    // What was overwritten or removed, and still is stored, would count as being in use.
    match drain_all(core) {
        Err(Error::NoSpace) => {}
        drained => drained?,
    }
    finish(core)?;
    commit_all(core)?;
    let giving_back = give_all_back(core)?;
    commit_all(core)?;
    Ok(giving_back)
}

/// Erases blocks, each with the references that it had; durable on return, and the bytes are gone from the folder. What came to
/// be used by something else since they were chosen stays. A crash may leave some of them erased: the caller remembers what
/// it asked for.
pub(crate) fn erase(core: &Core, found: Erasure) -> Result<ErasedContent> {
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
            core.durability.fail_on_error(marked)?;
            core.changed();
        }
        if core.store.dirty_pages() > thresholds.dirty_pages_max {
            commit_all(core)?;
        }
    }
    commit_all(core)?;
    for segment in segments {
        erased.segments_left += u64::from(!empty(core, segment)?);
    }
    crate::commit::intents::wipe(core)?;
    Ok(erased)
}

/// Brings back the segments that these blocks lie in. What no remote has any more needs no erasing.
pub(crate) fn bring_back_segments_of(core: &Core, found: &Erasure) -> Result<()> {
    let mut away = BTreeSet::new();
    {
        let writer = core.store.lock();
        for (number, _) in &found.blocks {
            if let Some(block) = writer.block(*number)?
                && let Place::Segment(segment, _) = block.place
                && let Some(row) = writer.segment(segment)?
                && row.state == SegmentState::Away
            {
                away.insert(row.id);
            }
        }
    }
    for id in away {
        match bring_back(core, id) {
            Err(Error::LostAtRemote(_)) => {}
            brought => drop(brought?),
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
    // Its epoch means nothing: nothing is sealed there.
    let grave = segment_without_file(writer, &ERASED_SEGMENT, Epoch(0))?;
    core.blocks.suspect_segment(grave); // (2)
    for (number, references) in blocks {
        let Some(block) = writer.block(*number)? else {
            continue;
        };
        let bytes = sealed_len(block.clear_len as usize) as u64;
        if block.references != *references {
            erased.shared_bytes += bytes;
            continue;
        }
        let mut is_here = true;
        match block.place {
            Place::Segment(segment, _) if segment == grave => continue,
            Place::Segment(segment, _) => {
                let row = writer.segment(segment)?;
                is_here = row.is_some_and(|row| !has_no_file(&row.id));
                // What is lost lies in no file that could be emptied.
                if is_here {
                    segments.insert(segment);
                }
            }
            Place::Waiting => {}
        }
        writer.move_block(*number, block.epoch, Place::Segment(grave, when))?;
        writer.add_total_bytes(grave, bytes)?;
        erased.bytes += if is_here { bytes } else { 0 };
    }
    if erased.bytes > 0 {
        prune_remotes(writer)?;
    }
    Ok(())
}

/// Notes that all remotes are to be pruned at once. (4)
fn prune_remotes(writer: &mut Transaction<'_>) -> Result<()> {
    let numbers = writer.remotes()?.into_iter().map(|remote| remote.number);
    let value: Vec<u8> = numbers.flat_map(u64::to_le_bytes).collect();
    let noted = writer.setting(PRUNE_NOW)?.unwrap_or_default();
    if value != noted {
        writer.put_setting(PRUNE_NOW, &value)?;
    }
    Ok(())
}

/// Moves what is left of a segment elsewhere and unlinks it, durably; gives whether that could be done.
fn empty(core: &Core, number: SegmentNumber) -> Result<bool> {
    let Some(segment) = core.store.lock().segment(number)? else {
        return Ok(true);
    };
    if segment.state == SegmentState::Open {
        finish_segment(core, segment.id)?;
    }
    match move_out(core, &segment) {
        // The bytes are not here. What else lies there moves once it can come.
        Err(Error::OnlyAtRemote(_) | Error::LostAtRemote(_)) => return Ok(false),
        moved => moved?,
    }
    // It leaves, that is committed, it goes, and that is committed.
    for _ in 0..2 {
        commit_all(core)?;
        let_empty_go(core, &mut core.room.reclaiming.lock())?;
    }
    commit_all(core)?;
    core.blocks.segments.sync_removals()?;
    Ok(core.store.lock().segment(number)?.is_none())
}
