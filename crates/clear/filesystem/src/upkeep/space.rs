//! Ends segments: writes the table of contents of a full one, and removes an empty one.
//!
//! Takes   rows of segments, and blocks that wait for a segment
//! Gives   finished segments; free space
//! Never   unlinks a segment that a durable commit still references
//!
//! Invariants
//!  (1) Only an empty segment is unlinked here, once its state `Leaving` is durable. Its row is removed only once the
//!      removal is durable: a file that a power cut brings back needs a row to explain it. At opening, `open.rs` also
//!      removes files without any committed block, if an earlier run of this vault began them.
//!  (2) A block that a snapshot needs has a reference and counts in `live_bytes`, so its segment is not empty. While a
//!      backup runs (`keepers`, `damage/backup.rs`) no segment is unlinked.

use strongroom_crypto::BlockSealer;
use strongroom_crypto::record::{padded_len, record_len};
use strongroom_format::index::encode_contents;
use strongroom_format::limits::SEALED_RECORD_CLEAR_BYTES_MAX;
use strongroom_format::segment::FOOTER_BYTES;
use strongroom_format::{Kind, SegmentId};
use strongroom_metadata::{BlockNumber, Place, Segment, SegmentState, Transaction, has_no_file};
use strongroom_segments::RemovedFile;

use crate::blocks::moving::{move_blocks, under_newest_epoch};
use crate::core::blocks::Contents;
use crate::core::room::Reclaiming;
use crate::core::{Core, Work};
use crate::{Error, Result};

/// Writes the table of contents and the footer of a segment that takes no more batches.
pub(crate) fn finish_segment(core: &Core, id: SegmentId) -> Result<()> {
    let _doing = core.options.doing(Work::Rollover);
    let ended = end_segment(core, &core.blocks.sealers.sealing(), id)?;
    ended.map_or(Ok(()), |sequence| note_finished(core, id, sequence))
}

/// Writes the end of a segment; gives the sequence to sync before `note_finished`, or `None` if it has ended already, or its file is gone.
pub(crate) fn end_segment(
    core: &Core,
    sealing: &BlockSealer,
    id: SegmentId,
) -> Result<Option<u64>> {
    match write_end(core, sealing, id) {
        // Finished before a crash, or gone already: nothing to do. A file that is gone may be missed when its contents are read.
        Err(Error::Segments(
            strongroom_segments::Error::NotUnfinished(_)
            | strongroom_segments::Error::Missing(_)
            | strongroom_segments::Error::Odd(_),
        )) => Ok(None),
        sequence => Ok(Some(sequence?)),
    }
}

fn write_end(core: &Core, sealing: &BlockSealer, id: SegmentId) -> Result<u64> {
    let sealed = seal_contents(core, sealing, id)?;
    Ok(core.blocks.segments.finish(id, &sealed)?)
}

/// Makes the end of a segment durable, and says in its row that it has one.
pub(crate) fn note_finished(core: &Core, id: SegmentId, sequence: u64) -> Result<()> {
    core.blocks.segments.sync(sequence)?;
    let _gate = core.mutate()?;
    let mut writer = core.store.lock();
    let row = writer.segment_by_id(&id)?;
    // Another thread may have noted it, and what became of the segment since.
    if let Some(segment) = row.filter(|row| row.state == SegmentState::Open) {
        writer.set_segment_state(segment.number, SegmentState::Finished)?;
        core.changed();
    }
    Ok(())
}

/// Ends every segment that has no end, but the one that batches go to now: one that could not be ended in its turn, as on a full disk, and
/// one that another thread is ending at this moment.
pub(crate) fn end_left(core: &Core) -> Result<()> {
    let rows = core.store.lock().segments()?;
    // Asked behind the rows: what is open and among them stays, and what begins later is not among them.
    for id in left_without_end(&rows, core.blocks.segments.open_segment()) {
        let _doing = core.options.doing(Work::Rollover);
        let ended = end_segment(core, &core.blocks.sealers.sealing(), id)?;
        // Without a sequence it has its end, which that other thread may not have synced yet; or its file is lost.
        note_finished(core, id, ended.unwrap_or(u64::MAX))?;
    }
    Ok(())
}

/// Those of `rows` that have a file without an end, and are not `open`.
fn left_without_end(rows: &[Segment], open: Option<SegmentId>) -> Vec<SegmentId> {
    let is_left = |row: &&Segment| {
        row.state == SegmentState::Open && Some(row.id) != open && !has_no_file(&row.id)
    };
    rows.iter().filter(is_left).map(|row| row.id).collect()
}

/// The sealed table of contents. Empty where it would be longer than a record or its room may be, or where the segment
/// is of an older epoch, whose keys seal nothing any more: a reader then goes by the indexes of the batches.
fn seal_contents(core: &Core, sealer: &BlockSealer, id: SegmentId) -> Result<Vec<u8>> {
    let known = core.blocks.contents.lock().remove(&id);
    let row = core.store.lock().segment_by_id(&id)?;
    let mut clear = match (known, row) {
        (Some((epoch, batches)), _) if epoch == sealer.epoch() => encode_contents(&batches),
        (None, Some(row)) if row.epoch == sealer.epoch() => {
            encode_contents(&scan_batches(core, sealer, id)?)
        }
        _ => Vec::new(),
    };
    // Zeros behind it are no batch; so its length shows to the sector only.
    let room = core.blocks.segments.contents_room(id).unwrap_or(0);
    let mut padded = padded_len(clear.len(), FOOTER_BYTES);
    if padded > SEALED_RECORD_CLEAR_BYTES_MAX || record_len(padded) as u64 > room {
        clear = Vec::new();
        padded = padded_len(0, FOOTER_BYTES);
    }
    clear.resize(padded, 0);
    Ok(sealer.seal_record(core.random.as_ref(), Kind::SegmentTable, &clear)?)
}

fn scan_batches(core: &Core, sealer: &BlockSealer, id: SegmentId) -> Result<Contents> {
    let file = core.blocks.segments.whole(id)?;
    let survey = file.survey();
    let mut batches = Vec::with_capacity(survey.batches.len());
    for batch in survey.batches.iter().filter(|batch| batch.is_whole) {
        // A batch whose index does not open has no block that could be found by it.
        if let Ok(entries) = sealer.open_index(sealer.epoch(), &batch.payload) {
            batches.push((batch.blocks_offset(), entries));
        }
    }
    Ok(batches)
}

/// Moves the carried blocks of now out of the database into a segment.
pub(crate) fn settle(core: &Core) -> Result<()> {
    let newest = core.store.lock().newest_block();
    settle_until(core, newest)
}

/// Moves those that are no newer than `until`: others may be added all the time.
pub(crate) fn settle_until(core: &Core, until: BlockNumber) -> Result<()> {
    let _doing = core.options.doing(Work::Settling);
    let mut after = BlockNumber(0);
    loop {
        let _gate = core.mutate()?;
        let sealing = core.blocks.sealers.sealing();
        let mut sealed = Vec::new();
        let mut numbers = Vec::new();
        {
            let writer = core.store.lock();
            let mut page = writer.waiting_blocks(after, core.options.thresholds.move_blocks)?;
            page.retain(|(number, _)| *number <= until);
            let Some((last, _)) = page.last() else {
                return Ok(());
            };
            // One that does not open stays where it is, and is skipped.
            after = *last;
            for (number, bytes) in page {
                let block = writer.block(number)?;
                if let Some(current) =
                    block.and_then(|block| under_newest_epoch(&sealing, &block, &bytes))
                {
                    sealed.push(current);
                    numbers.push(number);
                }
            }
        }
        if sealed.is_empty() {
            continue;
        }
        move_blocks(core, &sealing, &numbers, &sealed, |block| {
            block.place == Place::Waiting
        })?;
    }
}

/// What a step with empty segments has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Going {
    /// Nothing.
    None,
    /// Some are gone.
    Gone,
    /// None could go; some can after the next commit.
    AfterCommit,
}

/// Takes all empty segments one step further on their way out.
pub(crate) fn let_empty_go(core: &Core, reclaiming: &mut Reclaiming) -> Result<()> {
    reclaiming.going.clear();
    let_some_go(core, reclaiming, usize::MAX).map(drop)
}

/// Removes `removed_max` empty segments at most; if none is known that may go, it looks for some, and makes others leaving.
pub(crate) fn let_some_go(
    core: &Core,
    reclaiming: &mut Reclaiming,
    removed_max: usize,
) -> Result<Going> {
    let waits = reclaiming.going.is_empty() && find_empty(core, reclaiming)?;
    let mut unlinked = Vec::new();
    while unlinked.len() < removed_max
        && let Some(segment) = reclaiming.going.pop_front()
    {
        // What it gives is dropped here, where nobody waits for the locks.
        if unlink(core, &segment)?.is_some() {
            unlinked.push(segment);
        }
    }
    if unlinked.is_empty() {
        return Ok(match waits {
            true => Going::AfterCommit,
            false => Going::None,
        });
    }
    core.blocks.segments.sync_removals()?;
    for segment in unlinked {
        forget_row(core, &segment)?;
        reclaiming.left.remove(&segment.number);
    }
    Ok(Going::Gone)
}

/// Lists the segments that may go, and makes those leaving that are empty; gives whether some have to wait for a commit.
fn find_empty(core: &Core, reclaiming: &mut Reclaiming) -> Result<bool> {
    let segments = core.store.lock().segments()?;
    let open = core.blocks.segments.open_segment();
    let durable = core.durability.durable();
    let mut waits = false;
    for segment in segments {
        if segment.live_bytes > 0 || Some(segment.id) == open {
            continue;
        }
        match segment.state {
            SegmentState::Finished | SegmentState::Away => {
                if let Some(left) = leave(core, &segment)? {
                    reclaiming.left.insert(segment.number, left);
                    waits = true;
                }
            }
            // (1): the commit that made it leaving is durable, and so is its emptiness. One that was leaving
            // when the vault was opened was made so by a durable commit.
            SegmentState::Leaving
                if reclaiming
                    .left
                    .get(&segment.number)
                    .is_none_or(|left| *left <= durable) =>
            {
                reclaiming.going.push_back(segment);
            }
            SegmentState::Leaving => waits = true,
            SegmentState::Open => {}
        }
    }
    Ok(waits)
}

/// Makes an empty segment leaving; gives the count of changes that must be durable before it may go.
fn leave(core: &Core, segment: &Segment) -> Result<Option<u64>> {
    let _gate = core.mutate()?;
    let mut writer = core.store.lock();
    let now = writer.segment_by_id(&segment.id)?;
    let may_leave = |state| matches!(state, SegmentState::Finished | SegmentState::Away);
    if !now.is_some_and(|now| now.live_bytes == 0 && may_leave(now.state)) {
        return Ok(None);
    }
    writer.set_segment_state(segment.number, SegmentState::Leaving)?;
    core.changed();
    // Read under the writer: no commit that covers less can cover the change above.
    Ok(Some(core.durability.changes()))
}

/// Unlinks a segment, if it is still empty with nothing on its way into it, and nobody wants it to stay; `None` if it did not.
fn unlink(core: &Core, segment: &Segment) -> Result<Option<RemovedFile>> {
    let _doing = core.options.doing(Work::Removal);
    let _gate = core.mutate()?;
    let _placing = core.blocks.placing.write();
    let writer = core.store.lock();
    if core.blocks.keeps_segments() || !is_going(&writer, segment)? {
        return Ok(None);
    }
    let removed = &core.room.removed;
    removed.lock().insert(segment.number, segment.total_bytes);
    match core.blocks.segments.remove(segment.id) {
        Ok(file) => Ok(Some(file)),
        Err(error) => {
            removed.lock().remove(&segment.number);
            Err(error.into())
        }
    }
}

/// Removes the row of a segment whose file is gone for good. (1)
fn forget_row(core: &Core, segment: &Segment) -> Result<()> {
    let _doing = core.options.doing(Work::Removal);
    let _gate = core.mutate()?;
    let mut writer = core.store.lock();
    if is_going(&writer, segment)? {
        writer.remove_segment(segment.number)?;
        core.changed();
    }
    core.room.removed.lock().remove(&segment.number);
    Ok(())
}

fn is_going(writer: &Transaction<'_>, segment: &Segment) -> Result<bool> {
    let now = writer.segment_by_id(&segment.id)?;
    Ok(now.is_some_and(|now| now.live_bytes == 0 && now.state == SegmentState::Leaving))
}

#[cfg(test)]
mod tests {
    use strongroom_format::Epoch;
    use strongroom_metadata::{LOST_SEGMENT, SegmentNumber};

    use super::*;

    /// Goal: no segment that a push needs stays without an end. Failed before: only the open one was ended, and those that were noted for it;
    /// the note of one that could not be ended was gone, and a push left the segment out.
    #[test]
    fn every_segment_without_an_end_is_ended_but_the_open_one() {
        let row = |name: SegmentId, state| Segment {
            number: SegmentNumber(1),
            id: name,
            epoch: Epoch(0),
            state,
            live_bytes: 1,
            total_bytes: 1,
            committed_len: 8192,
        };
        let id = |byte| SegmentId([byte; 16]);
        let rows = [
            row(LOST_SEGMENT, SegmentState::Open),
            row(id(1), SegmentState::Finished),
            row(id(2), SegmentState::Open),
            row(id(3), SegmentState::Open),
            row(id(4), SegmentState::Leaving),
            row(id(5), SegmentState::Away),
        ];
        assert_eq!(left_without_end(&rows, Some(id(3))), [id(2)]);
        assert_eq!(left_without_end(&rows, None), [id(2), id(3)]);
    }
}
