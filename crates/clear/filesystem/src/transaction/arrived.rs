//! Writes rows for the segments, blocks and revisions that came from a remote.
//!
//! Takes   segments in the vault folder, the blocks in them, and proven revisions whose trees they complete
//! Gives   rows for all of them, in the same list of operations that makes them visible
//! Never   adds a row for a block that no revision refers to
//! Spec    spec/11-sync.md, 11.6
//!
//! Invariants
//!  (1) A block that a tree refers to has a row, with as many references as the trees have.     [6.3.4]
//!  (2) If the device that wrote a segment has retired it and moved a block to another place, the row of the block gets
//!      that place, provided that the block opens there. Otherwise the block stays where it is, and moves to a segment
//!      of this device with the next push.                                                     [11.6.7]
//!  (3) If a tree block that is stored here also arrives in another segment, its row gets its place in the arrived segment. So
//!      all devices use the segment that was published last. Otherwise each device would remove a segment that other
//!      devices still use, and those would publish that segment again, without end.                           [11.6.17]
//!  (4) The next revision here builds on all revisions that arrived, so its number is higher than each of theirs.
//!  (5) Content that is in no segment, here or at the remote, still has a row if a snapshot names it: reading it fails,
//!      and nothing else does. If the content arrives later, its row gets the place at which it arrived. The same holds
//!      for erased content that the joined state names.                                       [11.6.18]

use std::collections::{HashMap, HashSet};

use strongroom_format::{BlockId, Epoch, Kind, SegmentId};
use strongroom_history::{self as history, Revision};
use strongroom_metadata::{Place, SegmentNumber, SegmentState, Transaction, has_no_file};

use crate::blocks::erased::insert_lost;
use crate::history::take::admit;
use crate::transaction::draft::Draft;
use crate::{Error, Result};

/// A segment that came, or in which something lies that has no row.
#[derive(Clone, Copy, Debug)]
pub struct ArrivedSegment {
    /// Its name.
    pub id: SegmentId,
    /// The epoch that it is sealed under.
    pub epoch: Epoch,
    /// Where its last batch ends.
    pub end: u64,
    /// Sealed bytes of all its blocks.
    pub total_bytes: u64,
}

/// A block of a segment that came.
#[derive(Clone, Copy, Debug)]
pub struct ArrivedBlock {
    /// Index of its segment.
    pub segment: usize,
    /// Where in the file it begins.
    pub offset: u32,
    /// Length of its content.
    pub clear_len: u32,
    /// What it is.
    pub kind: Kind,
}

/// All that came.
#[derive(Debug, Default)]
pub struct Arrived {
    /// Segments.
    pub segments: Vec<ArrivedSegment>,
    /// Blocks in them.
    pub blocks: HashMap<BlockId, ArrivedBlock>,
    /// Segments that somebody retired.
    pub retired: HashSet<SegmentId>,
    /// Blocks that have a row in one of those, and open where they came.
    pub moved: HashSet<BlockId>,
    /// Blocks that have a row and open where they came: those of trees, and contents that are lost here.
    pub again: Vec<BlockId>,
    /// Blocks of content that was erased here, that the joined state names, and that open where they came.
    pub erased: Vec<BlockId>,
    /// Blocks of content that snapshots name and no segment has, with how many bytes each has at least.
    pub lost: HashMap<BlockId, u32>,
    /// Nodes of trees that have no row, with the blocks that each names.
    pub nodes: Vec<(BlockId, Vec<BlockId>)>,
    /// Revisions that have no row, oldest first.
    pub revisions: Vec<Revision>,
}

impl Draft<'_> {
    /// Takes in what came from a remote.
    ///
    /// # Errors
    /// `NoSpace`, `QuotaExceeded`; `History` if a tree names a block that is nowhere; of the store.
    pub fn take_in(&mut self, arrived: &Arrived) -> Result<()> {
        let writer = &mut self.writer;
        let mut bytes = 0;
        let mut segments = Vec::with_capacity(arrived.segments.len());
        for segment in &arrived.segments {
            let (number, is_new) = row_of_segment(writer, segment)?;
            segments.push(number);
            bytes += if is_new { segment.total_bytes } else { 0 };
        }
        let core = self.drafts.core();
        core.admit(bytes)?;
        let writer = &mut self.writer;
        move_retired(writer, arrived, &segments)?;
        move_again(writer, arrived, &segments)?;
        // (1). Nodes that have a row count what they name already.
        let mut fresh = HashSet::new();
        for (id, names) in &arrived.nodes {
            for block in std::iter::once(id).chain(names) {
                if writer.block_by_id(block)?.is_none() {
                    match arrived.lost.get(block) {
                        Some(len) => drop(insert_lost(core, writer, block, *len)?),
                        None => insert(writer, arrived, &segments, block)?,
                    }
                    fresh.insert(*block);
                }
            }
        }
        for (id, names) in &arrived.nodes {
            for name in names.iter().filter(|_| fresh.contains(id)) {
                let number = writer.block_by_id(name)?;
                let number = number.ok_or(history::Error::MissingBlock)?;
                writer.change_references(number, 1)?;
                writer.settle_released(number)?;
            }
        }
        for revision in &arrived.revisions {
            if writer.revision(&revision.id.0)?.is_none() {
                admit(writer, revision)?;
                // (4)
                writer.skip_sequence(revision.body.sequence)?;
            }
        }
        stay(writer, &segments)
    }
}

/// A segment that was away is here now; one that was leaving, and got blocks, stays: else the commit that empties it next need not be durable before it is unlinked.
fn stay(writer: &mut Transaction<'_>, segments: &[SegmentNumber]) -> Result<()> {
    for number in segments {
        let row = writer.segment(*number)?;
        let comes_back = |state| matches!(state, SegmentState::Leaving | SegmentState::Away);
        if row.is_some_and(|row| comes_back(row.state) && row.live_bytes > 0) {
            writer.set_segment_state(*number, SegmentState::Finished)?;
        }
    }
    Ok(())
}

/// The row of a segment, and whether it is new.
fn row_of_segment(
    writer: &mut Transaction<'_>,
    segment: &ArrivedSegment,
) -> Result<(SegmentNumber, bool)> {
    if let Some(row) = writer.segment_by_id(&segment.id)? {
        return Ok((row.number, false));
    }
    let number = writer.insert_segment(&segment.id, segment.epoch)?;
    writer.set_committed_len(number, segment.end)?;
    writer.add_total_bytes(number, segment.total_bytes)?;
    writer.set_segment_state(number, SegmentState::Finished)?;
    Ok((number, true))
}

/// (2)
fn move_retired(
    writer: &mut Transaction<'_>,
    arrived: &Arrived,
    segments: &[SegmentNumber],
) -> Result<()> {
    let mut retired = HashSet::new();
    for id in &arrived.retired {
        retired.extend(writer.segment_by_id(id)?.map(|row| row.number));
    }
    if retired.is_empty() {
        return Ok(());
    }
    for id in &arrived.moved {
        let (block, number) = (arrived.blocks.get(id), writer.block_by_id(id)?);
        let (Some(block), Some(number)) = (block, number) else {
            continue;
        };
        let row = writer.block(number)?.ok_or(Error::DamagedHistory)?;
        if let Place::Segment(from, _) = row.place
            && retired.contains(&from)
            && !retired.contains(&segments[block.segment])
            && (row.kind, row.clear_len) == (block.kind, block.clear_len)
        {
            let place = Place::Segment(segments[block.segment], block.offset);
            writer.move_block(number, arrived.segments[block.segment].epoch, place)?;
        }
    }
    Ok(())
}

/// (3)
fn move_again(
    writer: &mut Transaction<'_>,
    arrived: &Arrived,
    segments: &[SegmentNumber],
) -> Result<()> {
    for id in arrived.again.iter().chain(&arrived.erased) {
        let (block, number) = (arrived.blocks.get(id), writer.block_by_id(id)?);
        let (Some(block), Some(number)) = (block, number) else {
            continue;
        };
        let row = writer.block(number)?.ok_or(Error::DamagedHistory)?;
        let Place::Segment(from, _) = row.place else {
            continue;
        };
        let place = Place::Segment(segments[block.segment], block.offset);
        let epoch = arrived.segments[block.segment].epoch;
        let is_it = row.kind == block.kind && row.clear_len == block.clear_len;
        if writer
            .segment(from)?
            .is_some_and(|from| has_no_file(&from.id))
        {
            // (5)
            writer.replace_block(number, block.kind, block.clear_len, epoch, place, None)?;
        } else if from != segments[block.segment] && is_it {
            writer.move_block(number, epoch, place)?;
        }
    }
    Ok(())
}

fn insert(
    writer: &mut Transaction<'_>,
    arrived: &Arrived,
    segments: &[SegmentNumber],
    id: &BlockId,
) -> Result<()> {
    let block = arrived.blocks.get(id);
    let block = block.ok_or(history::Error::MissingBlock)?;
    let place = Place::Segment(segments[block.segment], block.offset);
    let epoch = arrived.segments[block.segment].epoch;
    writer.insert_block_of(block.kind, id, block.clear_len, epoch, 0, place, None)?;
    Ok(())
}
