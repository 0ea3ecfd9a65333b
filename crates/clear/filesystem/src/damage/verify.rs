//! Opens every sealed block at the place in its row, and accounts for every byte of every segment file.
//!
//! Takes   a cursor, a bound of bytes, and the kind of proof
//! Gives   the blocks that do not open, the files that differ from what was written, and the next cursor
//! Never   changes anything, blocks writers, or knows a block's path: `vault/src/execute/verify.rs` finds it
//! Spec    spec/7-recovery.md
//!
//! Invariants
//!  (1) If a block had a row when its segment was looked at, it is opened here, unless another operation opened and moved it
//!      meanwhile.
//!  (2) Every committed byte of a segment is covered by a checksum that was computed, or is reported as part of a fault.
//!
//! One thread reads the next file while all cores open the blocks of the current one. Memory holds two files and the
//! buffers of the threads that open.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

use strongroom_crypto::BlockSealer;
use strongroom_format::index::{IndexEntry, decode_contents};
use strongroom_format::limits::sealed_len;
use strongroom_format::survey::Survey;
use strongroom_format::{Epoch, Kind, SegmentId};
use strongroom_metadata::{Block, BlockNumber, Place, Reader, Segment, SegmentState};
use strongroom_segments::{Error as SegmentError, WholeSegment};

use crate::blocks::away::is_away;
use crate::blocks::proof::{Proof, opens};
use crate::blocks::sessions::{SESSIONS, is_of_session};
use crate::core::Core;
use crate::core::blocks::Contents;
use crate::damage::backup::Strangers;
use crate::damage::lost_chunks::LostChunks;
use crate::limits::{VERIFY_JOB_BLOCKS, VERIFY_PAGE_BLOCKS};
use crate::{Filesystem, Result};

/// What of the segments is to be looked at.
#[derive(Clone, Debug)]
pub struct VerifyRange {
    /// Only those named behind this one.
    pub after: Option<SegmentId>,
    /// Only these, if there are any.
    pub only: Vec<SegmentId>,
    /// No further segment is begun once this many bytes were read.
    pub bytes_max: u64,
    /// How blocks are proven.
    pub proof: Proof,
    /// What segments are that the database does not know.
    pub strangers: Strangers,
}

/// A file of sealed blocks that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentProblem {
    /// The file.
    pub segment: SegmentId,
    /// What is wrong with it.
    pub what: String,
}

/// A block that does not open, or not all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DamagedBlock {
    /// The block.
    pub number: BlockNumber,
    /// Its chunks that do not open, the first in the lowest bit.
    pub chunks: LostChunks,
}

/// What was found of a part of the segments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifiedPart {
    /// The last segment that was looked at; `None` if there was none left.
    pub last: Option<SegmentId>,
    /// Bytes of segment files that were read.
    pub bytes: u64,
    /// Blocks that were opened, or not.
    pub blocks: u64,
    /// Blocks that do not open.
    pub damaged: Vec<DamagedBlock>,
    /// Files that are not as they were written.
    pub problems: Vec<SegmentProblem>,
    /// Segments in which something of `damaged` or `problems` was found, each once in a row.
    pub suspects: Vec<SegmentId>,
}

/// What there is to look at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifySize {
    /// Segment files, known or there.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A file on its way from the thread that reads to those who open.
struct Read {
    id: SegmentId,
    row: Option<Segment>,
    file: std::result::Result<WholeSegment, SegmentError>,
}

impl Filesystem {
    /// How much `verify_segments` reads behind `after`.
    ///
    /// # Errors
    /// Of the stores.
    pub fn verify_size(&self, after: Option<SegmentId>) -> Result<VerifySize> {
        let core = &self.core;
        let reader = core.store.reader()?;
        let mut size = VerifySize::default();
        for (id, row) in all_segments(core, &reader)? {
            if after.is_some_and(|after| id <= after) {
                continue;
            }
            size.segments += 1;
            let known = row.map(|row| row.committed_len);
            size.bytes += known.unwrap_or_else(|| core.blocks.segments.len(id).unwrap_or(0));
        }
        Ok(size)
    }

    /// What lies in the places of folders of segments and is none, with its path below the vault folder.
    ///
    /// # Errors
    /// Of the disk.
    pub fn odd_segment_folders(&self) -> Result<Vec<strongroom_segments::Odd>> {
        Ok(self.core.blocks.segments.odd_folders()?)
    }

    /// Opens the blocks of the segments that `range` names, in the order of their names, on all cores.
    ///
    /// # Errors
    /// Of the stores: what cannot be read for another reason than damage.
    pub fn verify_segments(&self, range: &VerifyRange) -> Result<VerifiedPart> {
        let core = &self.core;
        let mut wanted = all_segments(core, &core.store.reader()?)?;
        match range.only.is_empty() {
            true => wanted.retain(|id, _| range.after.is_none_or(|after| *id > after)),
            false => wanted.retain(|id, _| range.only.contains(id)),
        }
        let mut part = VerifiedPart::default();
        // The cells of one call own what they work on, so that reading goes on meanwhile.
        std::thread::scope(|scope| {
            let (sender, files) = sync_channel(1);
            scope.spawn(move || {
                for (id, row) in wanted {
                    let file = core.blocks.segments.whole(id);
                    // Whoever receives has seen enough.
                    if sender.send(Read { id, row, file }).is_err() {
                        break;
                    }
                }
            });
            verify_files(core, &files, range, &mut part)
        })?;
        Ok(part)
    }

    /// Opens the blocks that travel in the database until a segment takes them.
    ///
    /// # Errors
    /// Of the store.
    pub fn verify_carried(&self, proof: Proof) -> Result<VerifiedPart> {
        let core = &self.core;
        let reader = core.store.reader()?;
        let mut carried = Vec::new();
        reader.for_each_block(|block, waiting| {
            if waiting.is_some() {
                carried.push(block);
            }
        })?;
        let sealer = core.blocks.sealers.newest();
        let mut part = VerifiedPart::default();
        let mut clear = Vec::new();
        for block in carried {
            // Gone or moved since the list was made: whoever did that opened it, or nobody needs it.
            let Some(bytes) = reader.waiting(block.number)? else {
                continue;
            };
            part.blocks += 1;
            part.bytes += bytes.len() as u64;
            if !opens(&sealer, &block, Some(&bytes), proof, &mut clear) {
                let chunks = lost_chunks(&sealer, &block, Some(&bytes));
                part.damage(core, &[(block, chunks)]);
            }
        }
        Ok(part)
    }
}

/// Every segment that has a row or a file, in the order of their names; no file that this run may be beginning.
fn all_segments(core: &Core, reader: &Reader<'_>) -> Result<BTreeMap<SegmentId, Option<Segment>>> {
    // Files first: one that gets its row meanwhile is then known.
    let files = core.blocks.segments.list()?;
    let sessions = reader.setting(SESSIONS)?.unwrap_or_default();
    let mut all: BTreeMap<SegmentId, Option<Segment>> = files
        .into_iter()
        .filter(|id| !is_of_session(&sessions, id))
        .map(|id| (id, None))
        .collect();
    for row in reader.segments()? {
        // An empty one may go at any time; one that is away is at a remote.
        let is_awaited = row.live_bytes > 0 && row.state != SegmentState::Away;
        if is_awaited || all.contains_key(&row.id) {
            all.insert(row.id, Some(row));
        }
    }
    Ok(all)
}

fn verify_files(
    core: &Core,
    files: &Receiver<Read>,
    range: &VerifyRange,
    part: &mut VerifiedPart,
) -> Result<()> {
    while let Ok(read) = files.recv() {
        part.last = Some(read.id);
        match (read.row, read.file) {
            // That says nothing about the file.
            (_, Err(error)) if error.is_shortage() => return Err(error.into()),
            (Some(row), Ok(file)) => {
                part.bytes += file.len() as u64;
                verify_file(core, &row, file, range.proof, part)?;
            }
            // It holds nothing that could be damaged.
            (Some(row), Err(_)) if row.id == crate::ERASED_SEGMENT => {}
            (Some(row), Err(_)) if is_away(core, row.id)? => {}
            (Some(row), Err(error)) => {
                let blocks = blocks_of(core, &row)?.into_iter();
                let blocks = blocks.map(|block| (block, LostChunks::ALL)).collect();
                let lost = still_there(core, &row, blocks)?;
                part.blocks += lost.len() as u64;
                if !lost.is_empty() && row.id != crate::LOST_SEGMENT {
                    part.problem(row.id, format!("{error}"));
                }
                part.suspect(row.id, &lost);
                part.damage(core, &lost);
            }
            (None, Ok(_)) if range.strangers == Strangers::PassedOver => {}
            (None, Ok(file)) => {
                part.bytes += file.len() as u64;
                let what = unknown(&core.blocks.sealers.newest(), &file.survey());
                part.problem(read.id, what);
            }
            // Gone meanwhile.
            (None, Err(SegmentError::Missing(_))) => {}
            (None, Err(error)) => part.problem(read.id, format!("{error}")),
        }
        if part.bytes >= range.bytes_max {
            break;
        }
    }
    Ok(())
}

impl VerifiedPart {
    /// Notes blocks that do not open; nothing new is named after them from now on.
    fn damage(&mut self, core: &Core, blocks: &[(Block, LostChunks)]) {
        for (block, chunks) in blocks {
            core.blocks.suspect_block(block.number);
            self.damaged.push(DamagedBlock {
                number: block.number,
                chunks: *chunks,
            });
        }
    }

    /// Notes the segment of blocks that do not open: its file may be as it was written, or there may be none to be named.
    fn suspect(&mut self, segment: SegmentId, blocks: &[(Block, LostChunks)]) {
        if !blocks.is_empty() {
            self.suspects.push(segment);
        }
    }

    fn problem(&mut self, segment: SegmentId, what: String) {
        self.suspects.push(segment);
        self.problems.push(SegmentProblem { segment, what });
    }
}

/// Looks at one file that the database knows.
fn verify_file(
    core: &Core,
    row: &Segment,
    file: WholeSegment,
    proof: Proof,
    part: &mut VerifiedPart,
) -> Result<()> {
    let blocks = blocks_of(core, row)?;
    let file = Arc::new(file);
    part.blocks += blocks.len() as u64;
    let failed = open_all(core, &file, blocks, proof);
    let failed = open_again(core, row, failed, proof)?;
    part.suspect(row.id, &failed);
    part.damage(core, &failed);
    let problems = problems(&core.blocks.sealers.newest(), row, &file);
    // Nothing of a segment that went meanwhile is a problem.
    if !problems.is_empty() && core.store.lock().segment(row.number)?.is_some() {
        problems
            .into_iter()
            .for_each(|what| part.problem(row.id, what));
    }
    Ok(())
}

/// Those of `failed` that do not open in the file as it is now either. It was read before the rows were: blocks may have been
/// appended in between. (1)
fn open_again(
    core: &Core,
    row: &Segment,
    failed: Vec<(Block, LostChunks)>,
    proof: Proof,
) -> Result<Vec<(Block, LostChunks)>> {
    let failed = still_there(core, row, failed)?;
    if failed.is_empty() {
        return Ok(failed);
    }
    let failed = match core.blocks.segments.whole(row.id) {
        Ok(file) => {
            let blocks = failed.into_iter().map(|(block, _)| block).collect();
            open_all(core, &Arc::new(file), blocks, proof)
        }
        // That says nothing about the file.
        Err(error) if error.is_shortage() => return Err(error.into()),
        Err(_) => failed,
    };
    still_there(core, row, failed)
}

/// The blocks that lie in a segment, by their offsets.
fn blocks_of(core: &Core, row: &Segment) -> Result<Vec<Block>> {
    // Given back before anybody is waited for: a change of the database's key, which has the writer, waits for readers.
    let reader = core.store.reader()?;
    let mut all: Vec<Block> = Vec::new();
    loop {
        let after = all.last().map_or(BlockNumber(0), |last| last.number);
        let page = reader.blocks_in_segment(row.number, after, VERIFY_PAGE_BLOCKS)?;
        let is_last = page.len() < VERIFY_PAGE_BLOCKS;
        all.extend(page);
        if is_last {
            break;
        }
    }
    all.sort_unstable_by_key(offset);
    Ok(all)
}

const fn offset(block: &Block) -> u32 {
    match block.place {
        Place::Segment(_, offset) => offset,
        Place::Waiting => 0,
    }
}

/// Those of `blocks` that are in `row` at this moment, at the place where they were looked for. (1)
fn still_there(
    core: &Core,
    row: &Segment,
    blocks: Vec<(Block, LostChunks)>,
) -> Result<Vec<(Block, LostChunks)>> {
    let writer = core.store.lock();
    let mut kept = Vec::new();
    for (block, chunks) in blocks {
        let now = writer.block(block.number)?;
        if now.is_some_and(|now| now.place == block.place && now.epoch == block.epoch) {
            kept.push((block, chunks));
        }
    }
    debug_assert!(
        kept.iter()
            .all(|(block, _)| { matches!(block.place, Place::Segment(at, _) if at == row.number) })
    );
    Ok(kept)
}

/// Opens `blocks` on all cores; gives those that do not open.
fn open_all(
    core: &Core,
    file: &Arc<WholeSegment>,
    blocks: Vec<Block>,
    proof: Proof,
) -> Vec<(Block, LostChunks)> {
    let sealer = core.blocks.sealers.newest();
    let job = |blocks: &[Block]| {
        let (file, blocks, sealer) = (Arc::clone(file), blocks.to_vec(), sealer.clone());
        move || {
            let mut clear = Vec::new();
            let mut failed = Vec::new();
            for block in blocks {
                let start = offset(&block) as usize;
                let end = start.saturating_add(sealed_len(block.clear_len as usize));
                if !opens(&sealer, &block, file.get(start..end), proof, &mut clear) {
                    // What is left of a file that is cut may hold its first chunks.
                    let sealed = file.get(start..end.min(file.len()));
                    let chunks = lost_chunks(&sealer, &block, sealed);
                    failed.push((block, chunks));
                }
            }
            failed
        }
    };
    let jobs = blocks.chunks(VERIFY_JOB_BLOCKS).map(job).collect();
    core.blocks.pool.run_all(jobs).concat()
}

fn lost_chunks(sealer: &BlockSealer, block: &Block, sealed: Option<&[u8]>) -> LostChunks {
    let (kind, id, len) = (block.kind, &block.id, block.clear_len);
    LostChunks::of(sealer, block.epoch, kind, id, len, sealed)
}

/// What is wrong with the file of a segment as far as it was committed: header, checksums, indexes, end. (2)
fn problems(sealer: &BlockSealer, row: &Segment, file: &WholeSegment) -> Vec<String> {
    let mut problems = Vec::new();
    let (len, committed) = (file.len() as u64, row.committed_len);
    if len < committed {
        problems.push(format!(
            "it is {len} bytes long, but {committed} were committed"
        ));
    }
    if file.unreadable_bytes() > 0 {
        let count = file.unreadable_bytes();
        problems.push(format!("the disk fails to read {count} bytes of it"));
    }
    let survey = file.survey();
    if let Ok(header) = survey.header
        && header.epoch != row.epoch
    {
        problems.push(format!(
            "its header says epoch {}, but the database says {}",
            header.epoch.0, row.epoch.0
        ));
    }
    for fault in &survey.faults {
        // What a run that was interrupted left behind the committed part is cut at the next opening.
        if fault.start < committed || row.state != SegmentState::Open {
            problems.push(format!(
                "bytes {} to {}: {}",
                fault.start, fault.end, fault.why
            ));
        }
    }
    if survey.end < committed && survey.faults.is_empty() && len >= committed {
        let end = survey.end;
        problems.push(format!("bytes {end} to {committed} hold no batch"));
    }
    if matches!(row.state, SegmentState::Finished | SegmentState::Away)
        && survey.contents.is_none()
        && survey.faults.is_empty()
    {
        problems.push("its end is missing".to_owned());
    }
    problems.extend(index_problems(sealer, row.epoch, &survey));
    problems
}

/// Indexes that do not open, or do not agree with the table of contents.
fn index_problems(sealer: &BlockSealer, epoch: Epoch, survey: &Survey<'_>) -> Vec<String> {
    let mut problems = Vec::new();
    let mut indexes: Contents = Vec::new();
    for batch in survey.batches.iter().filter(|batch| batch.is_whole) {
        match sealer.open_index(epoch, &batch.payload) {
            Ok(entries) => indexes.push((batch.blocks_offset(), entries)),
            Err(_) => problems.push(format!(
                "the index of the batch at {} does not open",
                batch.offset
            )),
        }
    }
    let Some(contents) = survey.contents else {
        return problems;
    };
    match open_contents(sealer, epoch, contents) {
        // None is kept where it would be too long, or the epoch had passed.
        Some(table) if table.is_empty() => {}
        Some(table) => {
            let known: HashSet<u32> = table.iter().map(|(offset, _)| *offset).collect();
            let differs = |(offset, entries): &(u32, Vec<IndexEntry>)| {
                known.contains(offset) && !table.contains(&(*offset, entries.clone()))
            };
            if indexes.iter().any(differs) {
                problems.push("its table of contents does not match its batches".to_owned());
            }
        }
        None => problems.push("its table of contents does not open".to_owned()),
    }
    problems
}

/// The table of contents of a segment of `epoch`. One that was ended after that epoch has an empty table, sealed under the
/// keys of a later one.                                                                          [3.12]
fn open_contents(sealer: &BlockSealer, epoch: Epoch, contents: &[u8]) -> Option<Contents> {
    let open = |epoch| {
        let opened = sealer.open_record(epoch, Kind::SegmentTable, contents);
        decode_contents(&opened.ok()?).ok()
    };
    open(epoch).or_else(|| {
        let later = epoch.0.saturating_add(1)..=sealer.epoch().0;
        let mut opened = later.filter_map(|later| open(Epoch(later)));
        opened.next().filter(Vec::is_empty)
    })
}

/// What a file is that the database does not know.
fn unknown(sealer: &BlockSealer, survey: &Survey<'_>) -> String {
    let opens = |epoch: Epoch| {
        let mut batches = survey.batches.iter();
        batches.any(|batch| sealer.open_index(epoch, &batch.payload).is_ok())
    };
    match survey.header {
        Ok(header) if opens(header.epoch) => {
            "it belongs to this vault, but the database does not list it: this file, or an older metadata.db, was put back"
        }
        Ok(_) => "the database does not list it, and no key of this vault opens it",
        Err(_) => "the database does not list it, and its header is not that of a segment with this name",
    }
    .to_owned()
}

#[cfg(test)]
mod tests {

    use super::*;
    use strongroom_crypto::{EpochKey, IdKey};
    use strongroom_format::SuiteId;

    /// Goal: what excuses an empty table excuses nothing else.
    #[test]
    fn a_table_of_contents_under_a_later_epoch_counts_only_if_it_is_empty() {
        let key = |byte| EpochKey::from_bytes([byte; 32]);
        let mut sealer = BlockSealer::new(
            SuiteId::Aes256GcmBlake3,
            [0; 16],
            IdKey::from_bytes([2; 32]),
            vec![(Epoch(0), key(1))],
        );
        let seal = |sealer: &BlockSealer, clear: &[u8]| {
            let random = strongroom_crypto::SystemRandom;
            let sealed = sealer.seal_record(&random, Kind::SegmentTable, clear);
            sealed.unwrap()
        };
        let table = vec![(4160, Vec::new())];
        let clear = strongroom_format::index::encode_contents(&table);
        let own = seal(&sealer, &clear);
        sealer.add_epoch(Epoch(1), &key(5));
        sealer.add_epoch(Epoch(2), &key(6));
        let (later, empty) = (seal(&sealer, &clear), seal(&sealer, &[]));
        assert_eq!(open_contents(&sealer, Epoch(0), &own), Some(table));
        assert_eq!(open_contents(&sealer, Epoch(0), &later), None);
        assert_eq!(open_contents(&sealer, Epoch(0), &empty), Some(Vec::new()));
        assert_eq!(open_contents(&sealer, Epoch(2), &own), None);
    }
}
