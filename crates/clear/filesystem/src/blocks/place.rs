//! Stores sealed blocks: in a batch of a segment, or in the commit itself.
//!
//! Takes   sealed blocks; and content with its id, sealed only if no equal block is stored
//! Gives   one `Placed` per block, in order, and the rows of the segments that got them
//! Never   opens a block

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLockReadGuard;
use strongroom_crypto::BlockSealer;
use strongroom_crypto::batch::tail_room;
use strongroom_format::index::IndexEntry;
use strongroom_format::{BlockHead, BlockId, Epoch, Kind, SealedBlock, SegmentId};
use strongroom_metadata::{Place, SegmentNumber, SegmentState, Transaction};
use strongroom_segments::{Appended, Batch, BatchTail};

use crate::Result;
use crate::blocks::equal_blocks::known;
use crate::core::Core;
use crate::core::sealers::Sealing;

/// Blocks that one batch may hold, so that its index stays far below `INDEX_BYTES_MAX` of the segments.
pub(crate) const BATCH_BLOCKS: usize = 16 * 1024;

/// Who asks for a drain, or another way down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Somebody waits for durability: small content is carried in the commit.
    Sync,
    /// A name is about to point at the content, or blocks are about to be shared.
    Namespace,
    /// A timer or a bound.
    Background,
}

/// A batch that was sealed, and what its blocks are.
pub(crate) struct SealedBatch {
    pub(crate) batch: Batch,
    /// One per block, in order; also for those that are not in the batch.
    pub(crate) heads: Vec<BlockHead>,
    /// Those that are only named, by their place in `heads`.
    pub(crate) unsealed: BTreeMap<usize, Unsealed>,
}

/// Content that has the name of a stored block, to be sealed if that block is gone.
pub(crate) struct Unsealed {
    clear_bytes: u64,
    seal: Box<dyn Fn() -> SealedBlock + Send>,
}

impl Unsealed {
    pub(crate) fn new<B: AsRef<[u8]> + Send + 'static>(sealer: &BlockSealer, clear: B) -> Self {
        let sealer = sealer.clone();
        Self {
            clear_bytes: clear.as_ref().len() as u64,
            seal: Box::new(move || sealer.seal(Kind::Data, clear.as_ref())),
        }
    }

    pub(crate) fn clear_bytes(&self) -> u64 {
        self.clear_bytes
    }
}

/// What a block that was not appended can be carried from.
enum Kept {
    Sealed(Vec<u8>),
    Unsealed(Unsealed),
}

/// A block and where it went.
pub(crate) struct Placed {
    pub(crate) id: BlockId,
    pub(crate) kind: Kind,
    pub(crate) clear_len: u32,
    /// What it was sealed under.
    pub(crate) epoch: Epoch,
    /// Its place, once `note_segments` has numbered the segment; `None` if it was not appended.
    at: Option<(SegmentId, u32)>,
    number: Option<SegmentNumber>,
    /// Where it was not appended: it may have to be carried.
    kept: Option<Kept>,
    /// Whether an equal block was looked for before, and opened if there was one.
    is_compared: bool,
}

impl Placed {
    /// Whether it travels in the commit because it is little, and not because an equal block was found.
    pub(crate) fn is_carried(&self) -> bool {
        !self.is_compared
    }

    /// Whether its bytes are in a segment, as no equal block was found.
    pub(crate) fn is_appended(&self) -> bool {
        self.at.is_some()
    }

    /// What the row of a new block says.
    pub(crate) fn row(&self) -> (Place, Option<Cow<'_, [u8]>>) {
        match (self.number, self.at) {
            (Some(number), Some((_, offset))) => (Place::Segment(number, offset), None),
            _ => (Place::Waiting, self.kept.as_ref().map(Kept::bytes)),
        }
    }
}

impl Kept {
    fn bytes(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Sealed(bytes) => Cow::Borrowed(bytes),
            Self::Unsealed(unsealed) => Cow::Owned((unsealed.seal)().bytes),
        }
    }
}

/// Where a drain's blocks went.
pub(crate) struct Placement<'a> {
    blocks: Vec<Placed>,
    appended: Vec<Appended>,
    epoch: Epoch,
    /// Until the rows are written: no segment is unlinked between an append and its rows.
    _placing: Option<RwLockReadGuard<'a, ()>>,
    on_way: Option<OnWay<'a>>,
}

/// Pending content that was appended, counted until its rows are written: only from then on it is pending no more.
struct OnWay<'a> {
    all: &'a AtomicU64,
    bytes: u64,
}

impl Drop for OnWay<'_> {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

impl<'a> Placement<'a> {
    /// All of `sealed` travel in the commit.
    pub(crate) fn carried(sealing: &Sealing<'_>, sealed: Vec<SealedBlock>) -> Self {
        let epoch = sealing.epoch();
        let blocks = sealed
            .into_iter()
            .map(|block| Placed {
                is_compared: false,
                ..placed(block.head(), epoch, None, Some(Kept::Sealed(block.bytes)))
            })
            .collect();
        Self {
            blocks,
            appended: Vec::new(),
            epoch,
            _placing: None,
            on_way: None,
        }
    }

    /// With nothing placed so far. Keep `sealing` until the rows are written.
    pub(crate) fn empty(core: &'a Core, sealing: &Sealing<'_>) -> Self {
        Self {
            blocks: Vec::new(),
            appended: Vec::new(),
            epoch: sealing.epoch(),
            _placing: Some(core.blocks.placing.read()),
            on_way: None,
        }
    }

    /// The same for what is pending; call `note_on_way` as it is appended.
    pub(crate) fn empty_of_pending(core: &'a Core, sealing: &Sealing<'_>) -> Self {
        let all = &core.room.on_way;
        Self {
            on_way: Some(OnWay { all, bytes: 0 }),
            ..Self::empty(core, sealing)
        }
    }

    /// What was appended counts as stored from here on.
    pub(crate) fn end_on_way(&mut self) {
        self.on_way = None;
    }

    /// So much pending content was appended.
    pub(crate) fn note_on_way(&mut self, bytes: u64) {
        if let Some(on_way) = &mut self.on_way {
            on_way.bytes += bytes;
            on_way.all.fetch_add(bytes, Ordering::AcqRel);
        }
    }

    /// Copies of `sealed`, appended as `append` does.
    ///
    /// # Errors
    /// As `append`.
    pub(crate) fn appended(
        core: &'a Core,
        sealing: &Sealing<'_>,
        sealed: Vec<SealedBlock>,
    ) -> Result<Self> {
        let mut placement = Self::empty(core, sealing);
        let bytes_max = core.options.thresholds.batch_bytes;
        for blocks in cut(sealed, bytes_max, |block| block.bytes.len()) {
            let batch = placement.or_note_waste(core, copied(core, &blocks))?;
            placement.append(core, sealing, batch)?;
        }
        Ok(placement)
    }

    /// Appends what of `sealed` no equal block exists for, from the memory that it was sealed in.
    ///
    /// # Errors
    /// Nothing is placed: bytes that were appended before the error are waste in their segment, whose row says so.
    pub(crate) fn append(
        &mut self,
        core: &Core,
        sealing: &Sealing<'_>,
        sealed: SealedBatch,
    ) -> Result<()> {
        let SealedBatch {
            mut batch,
            heads,
            mut unsealed,
        } = sealed;
        let known = known(core, heads.iter().map(|head| &head.id));
        let known = self.or_note_waste(core, known)?;
        let sealed: Vec<usize> = (0..heads.len())
            .filter(|number| !unsealed.contains_key(number))
            .collect();
        let mut gone = batch.retain(|number| !known[sealed[number]]).into_iter();
        let mut places = vec![None; heads.len()];
        let fresh = sealed.into_iter().filter(|number| !known[*number]);
        self.append_fresh(core, sealing, batch, &heads, fresh.collect(), &mut places)?;
        self.append_lost(core, sealing, &heads, &known, &mut unsealed, &mut places)?;
        for (number, head) in heads.into_iter().enumerate() {
            let kept = known[number].then(|| match unsealed.remove(&number) {
                Some(unsealed) => Some(Kept::Unsealed(unsealed)),
                None => gone.next().map(Kept::Sealed),
            });
            let block = placed(head, self.epoch, places[number], kept.flatten());
            self.blocks.push(block);
        }
        Ok(())
    }

    /// Seals and appends what was only named, and whose block is gone or suspect by now: as when a file is read,
    /// truncated and written again.
    fn append_lost(
        &mut self,
        core: &Core,
        sealing: &Sealing<'_>,
        heads: &[BlockHead],
        known: &[bool],
        unsealed: &mut BTreeMap<usize, Unsealed>,
        places: &mut [Option<(SegmentId, u32)>],
    ) -> Result<()> {
        let lost: Vec<(usize, Unsealed)> = unsealed
            .extract_if(.., |number, _| !known[*number])
            .collect();
        if lost.is_empty() {
            return Ok(());
        }
        let clear_bytes = lost.iter().map(|(_, lost)| lost.clear_bytes).sum();
        let (numbers, jobs): (Vec<usize>, Vec<_>) = lost
            .into_iter()
            .map(|(number, lost)| (number, move || (lost.seal)()))
            .unzip();
        let blocks = core.blocks.pool.run_all(jobs);
        let stored = blocks.iter().map(|block| u64::from(block.clear_len)).sum();
        (core.blocks).count_sealed(blocks.len(), clear_bytes, stored);
        let copies = self.or_note_waste(core, copied(core, &blocks))?;
        self.append_fresh(core, sealing, copies.batch, heads, numbers, places)
    }

    /// Appends `batch`, which holds those of `heads` that `numbers` names, and notes in `places` where each went.
    fn append_fresh(
        &mut self,
        core: &Core,
        sealing: &Sealing<'_>,
        batch: Batch,
        heads: &[BlockHead],
        numbers: Vec<usize>,
        places: &mut [Option<(SegmentId, u32)>],
    ) -> Result<()> {
        if numbers.is_empty() {
            return Ok(());
        }
        let heads: Vec<BlockHead> = numbers.iter().map(|number| heads[*number]).collect();
        let result = append_batch(core, sealing, batch, &heads);
        let result = self.or_note_waste(core, result)?;
        for (number, location) in numbers.into_iter().zip(&result.locations) {
            places[number] = Some((location.segment, location.offset));
        }
        self.appended.push(result);
        Ok(())
    }

    /// After an error what was appended before is waste, which is noted.
    pub(crate) fn or_note_waste<T>(&self, core: &Core, result: Result<T>) -> Result<T> {
        if result.is_err() {
            self.note_waste(core)?;
        }
        result
    }

    /// What was appended is waste that only its segment's row shows.
    fn note_waste(&self, core: &Core) -> Result<()> {
        let mut writer = core.store.lock();
        for batch in &self.appended {
            note_batch(core, &mut writer, self.epoch, batch)?;
        }
        Ok(())
    }

    /// Writes the rows of the segments that were appended to, and numbers the blocks' places.
    pub(crate) fn note_segments(
        &mut self,
        core: &Core,
        writer: &mut Transaction<'_>,
    ) -> Result<()> {
        let mut numbers: HashMap<SegmentId, SegmentNumber> = HashMap::new();
        for batch in &self.appended {
            let number = note_batch(core, writer, self.epoch, batch)?;
            numbers.insert(batch.segment, number);
        }
        for block in &mut self.blocks {
            block.number = block
                .at
                .and_then(|(segment, _)| numbers.get(&segment).copied());
        }
        Ok(())
    }

    /// One per sealed block, in order.
    pub(crate) fn take_blocks(&mut self) -> std::vec::IntoIter<Placed> {
        std::mem::take(&mut self.blocks).into_iter()
    }
}

fn placed(
    head: BlockHead,
    epoch: Epoch,
    at: Option<(SegmentId, u32)>,
    kept: Option<Kept>,
) -> Placed {
    Placed {
        id: head.id,
        kind: head.kind,
        clear_len: head.clear_len,
        epoch,
        at,
        number: None,
        kept,
        is_compared: true,
    }
}

/// Writes what a batch of `epoch` did to its segment's row; gives the segment's number.
pub(crate) fn note_batch(
    core: &Core,
    writer: &mut Transaction<'_>,
    epoch: Epoch,
    batch: &Appended,
) -> Result<SegmentNumber> {
    let (number, committed_len) = segment_row(writer, epoch, batch.segment)?;
    let bytes: u64 = batch
        .locations
        .iter()
        .map(|location| u64::from(location.len))
        .sum();
    writer.add_total_bytes(number, bytes)?;
    // Batches are installed in any order: a later one may have moved the mark already.
    writer.set_committed_len(number, committed_len.max(batch.end))?;
    core.blocks.note_installed(batch.sequence);
    if let Some(full) = batch.full {
        core.work.finish_segment(full);
    }
    Ok(number)
}

/// The row of a segment, made when its first batch is installed.
fn segment_row(
    writer: &mut Transaction<'_>,
    epoch: Epoch,
    id: SegmentId,
) -> Result<(SegmentNumber, u64)> {
    if let Some(segment) = writer.segment_by_id(&id)? {
        if segment.state == SegmentState::Leaving {
            // It was found empty while this batch was on its way: it stays.
            writer.set_segment_state(segment.number, SegmentState::Finished)?;
        }
        return Ok((segment.number, segment.committed_len));
    }
    Ok((writer.insert_segment(&id, epoch)?, 0))
}

/// Cuts `items` into runs of at most `bytes_max` sealed bytes, or one item, as one batch may hold.
pub(crate) fn cut<T>(items: Vec<T>, bytes_max: usize, len: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let mut runs: Vec<Vec<T>> = Vec::new();
    let mut bytes = usize::MAX;
    for item in items {
        let len = len(&item);
        bytes = bytes.saturating_add(len);
        match runs.last_mut() {
            Some(run) if bytes <= bytes_max && run.len() < BATCH_BLOCKS => run.push(item),
            _ => {
                runs.push(vec![item]);
                bytes = len;
            }
        }
    }
    runs
}

/// A batch of copies of `blocks`.
pub(crate) fn copied(core: &Core, blocks: &[SealedBlock]) -> Result<SealedBatch> {
    let refs: Vec<&SealedBlock> = blocks.iter().collect();
    let segments = &core.blocks.segments;
    let batch = segments.batch_of(&refs, tail_room(blocks.len()))?;
    let heads = blocks.iter().map(SealedBlock::head).collect();
    Ok(SealedBatch {
        batch,
        heads,
        unsealed: BTreeMap::new(),
    })
}

/// Appends `batch`, which holds the blocks of `heads`, with its sealed tail, and notes where it went.
pub(crate) fn append_batch(
    core: &Core,
    sealing: &Sealing<'_>,
    batch: Batch,
    heads: &[BlockHead],
) -> Result<Appended> {
    let entry = |head: &BlockHead| IndexEntry {
        id: head.id,
        kind: head.kind.number(),
        clear_len: head.clear_len,
    };
    let entries: Vec<IndexEntry> = heads.iter().map(entry).collect();
    let sealed = sealing.seal_tail(core.random.as_ref(), &entries, batch.blocks_len())?;
    let tail = BatchTail {
        bytes: &sealed.bytes,
        index_len: sealed.index_len,
    };
    // One step with the note of its contents, so that a table of contents never lacks a batch.
    let mut contents = core.blocks.contents.lock();
    let appended = core.blocks.segments.append(sealing.epoch(), batch, tail)?;
    if appended.started {
        contents.insert(appended.segment, (sealing.epoch(), Vec::new()));
    }
    // A segment continued from an earlier session is not here: `finish_segment` scans it instead.
    if let (Some(first), Some((_, batches))) = (
        appended.locations.first(),
        contents.get_mut(&appended.segment),
    ) {
        batches.push((first.offset, entries));
    }
    Ok(appended)
}

/// Whether the commit may carry a few more blocks: somebody waits, and this is sooner than another batch.
/// What nobody needs durable at once stops earlier, so that it never makes an `fsync` cost two flushes.
pub(crate) fn may_carry(core: &Core, reason: Reason) -> bool {
    let waiting = core.store.waiting_bytes();
    let waiting_max = core.options.thresholds.waiting_bytes_max;
    if waiting > waiting_max {
        core.work.settle();
    }
    match reason {
        Reason::Sync => waiting <= 4 * waiting_max,
        Reason::Namespace => waiting <= waiting_max,
        Reason::Background => false,
    }
}

#[cfg(test)]
mod tests {
    use strongroom_format::limits::sealed_len;

    use super::*;

    #[test]
    fn runs_are_cut_by_bytes_and_by_count() {
        let lens = |runs: Vec<Vec<usize>>| runs.iter().map(Vec::len).collect::<Vec<_>>();
        let runs = |count: usize, len: usize, most| {
            lens(cut(vec![len; count], most, |len| sealed_len(*len)))
        };
        assert_eq!(runs(7, 100, 3 * sealed_len(100)), [3, 3, 1]);
        assert_eq!(runs(2, 100, 1), [1, 1]);
        assert_eq!(runs(BATCH_BLOCKS + 1, 1, usize::MAX), [BATCH_BLOCKS, 1]);
        assert!(runs(0, 0, 100).is_empty());
    }
}
