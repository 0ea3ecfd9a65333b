//! Gives back what nothing references: carried blocks, empty and sparse segments.
//!
//! Takes   rows about segments
//! Gives   free space, without ever opening a block that it does not have to move
//! Never   unlinks a segment that a durable commit still references
//!
//! Invariants
//!  (1) A segment is unlinked only after a durable commit found it empty and `Leaving`, and its row goes only once the
//!      removal is durable: a file that came back after a power cut would be one that nothing explains.
//!  (2) A moved block has one row all the time; its old bytes stay until (1).

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, RwLock};
use strongroom_crypto::BlockSealer;
use strongroom_crypto::record::{padded_len, record_len};
use strongroom_format::index::{IndexEntry, encode_contents};
use strongroom_format::limits::SEALED_RECORD_CLEAR_BYTES_MAX;
use strongroom_format::segment::FOOTER_BYTES;
use strongroom_format::{Epoch, Kind, SegmentId};
use strongroom_metadata::{
    Block, BlockNumber, Place, Segment, SegmentNumber, SegmentState, Transaction, has_no_file,
};

use crate::commit::commit_covering;
use crate::core::{Core, Work};
use crate::drain::moving::{move_blocks, read_sealed, under_newest_epoch};
use crate::limits::{OPENED_BLOCKS_MAX, Thresholds};
use crate::upkeep::room::RoomState;
use crate::{Error, Filesystem, Result};

/// Per batch of a segment the offset of its first block, and its index.
type Contents = Vec<(u32, Vec<IndexEntry>)>;

/// What the space part keeps in memory.
#[derive(Default)]
pub(crate) struct SpaceState {
    /// Highest sequence of a batch whose blocks are installed.
    pub(crate) installed_sequence: AtomicU64,
    pub(crate) room: RoomState,
    drain_without_space: AtomicBool,
    drain_failed: AtomicBool,
    /// Epoch and batch indexes of segments begun in this session, for their tables of contents. Held over each
    /// append.
    pub(crate) contents: Mutex<HashMap<SegmentId, (Epoch, Contents)>>,
    /// Shared from an append until its rows are written; exclusive for unlinking.
    pub(crate) placing: RwLock<()>,
    /// How many want every segment file to stay, see `backup.rs`.
    pub(crate) keepers: AtomicUsize,
    /// Whoever moves blocks out of segments excludes the others; holds what they remember.
    pub(crate) reclaiming: Mutex<Reclaiming>,
    /// Blocks that did not open, and segments that are lost or damaged: no new content is named after them.
    suspects: Mutex<Suspects>,
    /// Blocks that opened lately as a whole: new content is named after them without another look.
    opened: Mutex<Opened>,
}

#[derive(Default)]
pub(crate) struct Reclaiming {
    /// `changes` when a segment was made leaving: once that is durable, it may go.
    left: HashMap<SegmentNumber, u64>,
    /// Segments with blocks that do not open: compaction goes on with others.
    passed_over: HashSet<SegmentNumber>,
    /// How far sealing anew has come, see `reseal.rs`.
    pub(crate) resealing: crate::upkeep::reseal::Resealing,
}

#[derive(Default)]
struct Suspects {
    blocks: HashSet<BlockNumber>,
    segments: HashSet<SegmentNumber>,
}

/// The blocks that opened last, in two generations of at most `OPENED_BLOCKS_MAX` each: the older one goes as a whole.
#[derive(Default)]
struct Opened {
    recent: HashSet<BlockNumber>,
    older: HashSet<BlockNumber>,
}

impl SpaceState {
    /// Remembers how a drain ended, for the next writer that waits for room.
    pub(crate) fn note_drain(&self, result: &Result<()>) {
        let without_space = matches!(result, Err(Error::NoSpace));
        self.drain_without_space
            .store(without_space, Ordering::Release);
        self.drain_failed
            .store(result.is_err() && !without_space, Ordering::Release);
    }

    /// The error of the last drain, once.
    pub(crate) fn take_drain_error(&self) -> Result<()> {
        if self.drain_without_space.swap(false, Ordering::AcqRel) {
            return Err(Error::NoSpace);
        }
        if self.drain_failed.swap(false, Ordering::AcqRel) {
            return Err(Error::Failed);
        }
        Ok(())
    }

    /// This block did not open.
    pub(crate) fn suspect_block(&self, number: BlockNumber) {
        self.suspects.lock().blocks.insert(number);
        let mut opened = self.opened.lock();
        opened.recent.remove(&number);
        opened.older.remove(&number);
    }

    /// All of this block was read and opened just now.
    pub(crate) fn note_opened(&self, number: BlockNumber) {
        let mut opened = self.opened.lock();
        if opened.recent.len() >= OPENED_BLOCKS_MAX {
            opened.older = std::mem::take(&mut opened.recent);
        }
        opened.recent.insert(number);
    }

    /// Whether all of this block was read and opened a short while ago, and nothing was found wrong with it since.
    pub(crate) fn opened_lately(&self, number: BlockNumber) -> bool {
        let opened = self.opened.lock();
        opened.recent.contains(&number) || opened.older.contains(&number)
    }

    /// The blocks that did not open: for a transaction, which may trust some and be rolled back.
    pub(crate) fn suspected_blocks(&self) -> Vec<BlockNumber> {
        self.suspects.lock().blocks.iter().copied().collect()
    }

    /// This segment is lost or damaged.
    pub(crate) fn suspect_segment(&self, number: SegmentNumber) {
        self.suspects.lock().segments.insert(number);
    }

    /// This block has good bytes again.
    pub(crate) fn trust(&self, number: BlockNumber) {
        self.suspects.lock().blocks.remove(&number);
    }

    /// Whether anything is suspect at all.
    pub(crate) fn has_suspects(&self) -> bool {
        let suspects = self.suspects.lock();
        !suspects.blocks.is_empty() || !suspects.segments.is_empty()
    }
}

impl Core {
    /// Whether the stored bytes of a block are known to be damaged or lost.
    pub(crate) fn is_suspect(&self, reads: &Transaction<'_>, number: BlockNumber) -> Result<bool> {
        if !self.space.has_suspects() {
            return Ok(false);
        }
        let block = reads.block(number)?;
        Ok(block.is_some_and(|block| self.is_suspect_block(&block)))
    }

    /// The same of a block whose row is at hand.
    pub(crate) fn is_suspect_block(&self, block: &Block) -> bool {
        let suspects = self.space.suspects.lock();
        let lost = matches!(block.place, Place::Segment(segment, _) if suspects.segments.contains(&segment));
        lost || suspects.blocks.contains(&block.number)
    }
}

impl Filesystem {
    /// Joins and empties segments until nothing is worth it, and gives the space back. What is stored or freed meanwhile may
    /// stay for the next time, so this ends beside a writer that never rests.
    ///
    /// # Errors
    /// Of the stores; what was moved until then stays moved.
    pub fn compact(&self) -> Result<()> {
        let core = &self.core;
        crate::history::give_all_back(core)?;
        self.sync()?;
        settle(core)?;
        if let Some(open) = core.segments.open_segment() {
            // Its waste can go only once nothing is appended to it any more.
            finish_segment(core, open)?;
        }
        let segments = core.store.lock().segments()?;
        let newest = segments.iter().map(|segment| segment.number).max();
        let newest = newest.unwrap_or(SegmentNumber(0));
        loop {
            // A segment that filled up is not finished yet, and only finished ones are compacted.
            crate::upkeep::background::finish(core)?;
            let moved = compact_one(
                core,
                &mut core.space.reclaiming.lock(),
                Eagerness::ByHand { newest },
            )?;
            self.sync()?;
            reclaim(core)?;
            self.sync()?;
            reclaim(core)?;
            if !moved {
                return Ok(());
            }
        }
    }
}

/// Writes the table of contents and the footer of a segment that takes no more batches.
pub(crate) fn finish_segment(core: &Core, id: SegmentId) -> Result<()> {
    let _doing = core.options.doing(Work::Rollover);
    let ended = end_segment(core, &core.sealers.sealing(), id)?;
    ended.map_or(Ok(()), |sequence| note_finished(core, id, sequence))
}

/// Writes the end of a segment; gives the sequence to sync before `note_finished`, or `None` if it has ended already.
pub(crate) fn end_segment(
    core: &Core,
    sealing: &BlockSealer,
    id: SegmentId,
) -> Result<Option<u64>> {
    let sealed = seal_contents(core, sealing, id)?;
    match core.segments.finish(id, &sealed) {
        // Finished before a crash, or gone already: nothing to do.
        Err(
            strongroom_segments::Error::NotUnfinished(_)
            | strongroom_segments::Error::Missing(_)
            | strongroom_segments::Error::Odd(_),
        ) => Ok(None),
        sequence => Ok(Some(sequence?)),
    }
}

/// Makes the end of a segment durable, and says in its row that it has one.
pub(crate) fn note_finished(core: &Core, id: SegmentId, sequence: u64) -> Result<()> {
    core.segments.sync(sequence)?;
    let _gate = core.mutate()?;
    let mut writer = core.store.lock();
    if let Some(segment) = writer.segment_by_id(&id)? {
        writer.set_segment_state(segment.number, SegmentState::Finished)?;
        core.changed();
    }
    Ok(())
}

/// The sealed table of contents. Empty where it would be longer than a record or its room may be, or where the segment
/// is of an older epoch, whose keys seal nothing any more: a reader then goes by the indexes of the batches.
fn seal_contents(core: &Core, sealer: &BlockSealer, id: SegmentId) -> Result<Vec<u8>> {
    let known = core.space.contents.lock().remove(&id);
    let row = core.store.lock().segment_by_id(&id)?;
    let mut clear = match (known, row) {
        (Some((epoch, batches)), _) if epoch == sealer.epoch() => encode_contents(&batches),
        (None, Some(row)) if row.epoch == sealer.epoch() => {
            encode_contents(&scan_batches(core, sealer, id)?)
        }
        _ => Vec::new(),
    };
    // Zeros behind it are no batch; so its length shows to the sector only.
    let room = core.segments.contents_room(id).unwrap_or(0);
    let mut padded = padded_len(clear.len(), FOOTER_BYTES);
    if padded > SEALED_RECORD_CLEAR_BYTES_MAX || record_len(padded) as u64 > room {
        clear = Vec::new();
        padded = padded_len(0, FOOTER_BYTES);
    }
    clear.resize(padded, 0);
    Ok(sealer.seal_record(core.random.as_ref(), Kind::SegmentTable, &clear)?)
}

fn scan_batches(core: &Core, sealer: &BlockSealer, id: SegmentId) -> Result<Contents> {
    let file = core.segments.whole(id)?;
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
        let sealing = core.sealers.sealing();
        let mut sealed = Vec::new();
        let mut numbers = Vec::new();
        {
            let writer = core.store.lock();
            let mut page = writer.waiting_blocks(after, core.options.thresholds.move_blocks)?;
            page.retain(|(number, _)| *number <= until);
            let Some((last, _)) = page.last() else {
                return Ok(());
            };
            // One that does not open stays where it is, and is passed by.
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

/// Lets empty segments go, and compacts one that is worth it.
pub(crate) fn reclaim(core: &Core) -> Result<()> {
    let mut reclaiming = core.space.reclaiming.lock();
    let_empty_go(core, &mut reclaiming)?;
    compact_one(core, &mut reclaiming, Eagerness::Idle).map(drop)
}

/// Takes empty segments one step further on their way out.
///
/// Gives whether some have to wait for a commit before they go.
pub(crate) fn let_empty_go(core: &Core, reclaiming: &mut Reclaiming) -> Result<bool> {
    let segments = core.store.lock().segments()?;
    let open = core.segments.open_segment();
    let durable = crate::commit::durable(core);
    let mut waits = false;
    let mut unlinked = Vec::new();
    for segment in &segments {
        if segment.live_bytes > 0 || Some(segment.id) == open {
            continue;
        }
        match segment.state {
            SegmentState::Finished => {
                if let Some(left) = leave(core, segment)? {
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
                if unlink(core, segment)? {
                    unlinked.push(segment);
                }
            }
            SegmentState::Leaving => waits = true,
            SegmentState::Open => {}
        }
    }
    if unlinked.is_empty() {
        return Ok(waits);
    }
    core.segments.sync_removals()?;
    for segment in unlinked {
        forget_row(core, segment)?;
        reclaiming.left.remove(&segment.number);
    }
    Ok(waits)
}

/// Lets empty segments go and compacts others, the emptiest first, until there is `enough`; gives whether there is. Take
/// no locks.
pub(crate) fn reclaim_until(
    core: &Core,
    eagerness: Eagerness,
    enough: &dyn Fn() -> bool,
) -> Result<bool> {
    let mut reclaiming = core.space.reclaiming.lock();
    loop {
        // Somebody else may have done it meanwhile.
        if enough() {
            return Ok(true);
        }
        if let_empty_go(core, &mut reclaiming)? {
            commit_covering(core, core.changes.load(Ordering::Acquire))?;
            let_empty_go(core, &mut reclaiming)?;
            if enough() {
                return Ok(true);
            }
        }
        if !compact_one(core, &mut reclaiming, eagerness)? {
            return Ok(false);
        }
    }
}

/// Makes an empty segment leaving; gives the count of changes that must be durable before it may go.
fn leave(core: &Core, segment: &Segment) -> Result<Option<u64>> {
    let _gate = core.mutate()?;
    let mut writer = core.store.lock();
    let now = writer.segment_by_id(&segment.id)?;
    if !now.is_some_and(|now| now.live_bytes == 0 && now.state == SegmentState::Finished) {
        return Ok(None);
    }
    writer.set_segment_state(segment.number, SegmentState::Leaving)?;
    core.changed();
    // Read under the writer: no commit that covers less can cover the change above.
    Ok(Some(core.changes.load(Ordering::Acquire)))
}

/// Unlinks a segment, if it is still empty with nothing on its way into it, and nobody wants it to stay; gives whether it did.
fn unlink(core: &Core, segment: &Segment) -> Result<bool> {
    let _doing = core.options.doing(Work::Removal);
    let _gate = core.mutate()?;
    let _placing = core.space.placing.write();
    let writer = core.store.lock();
    if core.space.keepers.load(Ordering::Acquire) > 0 || !is_going(&writer, segment)? {
        return Ok(false);
    }
    core.segments.remove(segment.id)?;
    Ok(true)
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
    Ok(())
}

fn is_going(writer: &Transaction<'_>, segment: &Segment) -> Result<bool> {
    let now = writer.segment_by_id(&segment.id)?;
    Ok(now.is_some_and(|now| now.live_bytes == 0 && now.state == SegmentState::Leaving))
}

/// How hard compaction looks for work.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Eagerness {
    /// Only segments of which less than half lives, and many short ones.
    Idle,
    /// Those of which less than two thirds live: where waste is more than half of what lives, there is one.
    Bound,
    /// Those that give back a ninth or more: somebody waits for room.
    Room,
    /// Everything with waste up to the segment `newest`, and many short ones.
    ByHand { newest: SegmentNumber },
}

impl Eagerness {
    /// A segment of which less than this share lives is compacted.
    const fn live_share(self) -> (u64, u64) {
        match self {
            Self::Idle => (1, 2),
            Self::Bound => (2, 3),
            Self::Room => (8, 9),
            Self::ByHand { .. } => (1, 1),
        }
    }

    /// Whether a segment is looked at.
    fn considers(self, number: SegmentNumber) -> bool {
        match self {
            Self::ByHand { newest } => number <= newest,
            Self::Idle | Self::Bound | Self::Room => true,
        }
    }

    /// Whether short segments are joined where there are many.
    const fn joins(self) -> bool {
        matches!(self, Self::Idle | Self::ByHand { .. })
    }
}

/// Moves the live blocks of the worst segment; gives whether there was one.
fn compact_one(core: &Core, reclaiming: &mut Reclaiming, eagerness: Eagerness) -> Result<bool> {
    let mut segments = core.store.lock().segments()?;
    segments.retain(|segment| {
        !has_no_file(&segment.id)
            && !reclaiming.passed_over.contains(&segment.number)
            && eagerness.considers(segment.number)
    });
    let Some(worst) = choose(&segments, eagerness, &core.options.thresholds) else {
        return Ok(false);
    };
    let (number, id) = (worst.number, worst.id);
    let _doing = core.options.doing(Work::Compaction);
    let mut after = BlockNumber(0);
    loop {
        let _gate = core.mutate()?;
        let blocks = core.store.lock().blocks_in_segment(
            number,
            after,
            core.options.thresholds.move_blocks,
        )?;
        let Some(last) = blocks.last() else {
            return Ok(true);
        };
        after = last.number;
        let sealing = core.sealers.sealing();
        let (numbers, sealed) = read_sealed(core, &sealing, id, blocks)?;
        if numbers.is_empty() {
            // Damaged blocks stay where they are, and nothing is lost by it.
            reclaiming.passed_over.insert(number);
            continue;
        }
        move_blocks(
            core,
            &sealing,
            &numbers,
            &sealed,
            |block| matches!(block.place, Place::Segment(at, _) if at == number),
        )?;
    }
}

/// The segment that gives back most for the least copying.
fn choose<'a>(
    segments: &'a [Segment],
    eagerness: Eagerness,
    thresholds: &Thresholds,
) -> Option<&'a Segment> {
    let finished = || {
        segments
            .iter()
            .filter(|s| s.state == SegmentState::Finished && s.live_bytes > 0)
    };
    let (part, whole) = eagerness.live_share();
    let sparse = finished()
        .filter(|s| s.live_bytes * whole < s.total_bytes * part)
        .min_by_key(|s| s.live_bytes * 1000 / s.total_bytes.max(1));
    sparse.or_else(|| {
        let small = || finished().filter(|s| s.total_bytes < thresholds.small_segment_bytes);
        (eagerness.joins() && small().count() > thresholds.small_segments_max)
            .then(|| small().min_by_key(|s| s.total_bytes))
            .flatten()
    })
}
