//! Lists what the segment files hold, without using a database.
//!
//! Takes   the segments of a vault folder, and the keys
//! Gives   the place of each block that is left, and the content of requested blocks
//! Never   changes a file, or trusts an index that no key of the vault opens
//! Spec    spec/7-recovery.md, section 7.3
//!
//! Invariants
//!  (1) A block in a file is listed only if its checksum is right, or if it or at least one of its chunks opened. Bytes that
//!      were not opened here are opened when the block is read. A block that is only at a remote is a block of
//!      file content, never of a tree; it is verified when it is fetched.
//!
//! Memory: about 100 bytes per block.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::mpsc::sync_channel;

use strongroom_crypto::BlockSealer;
use strongroom_filesystem::LostChunks;
use strongroom_format::index::decode_contents;
use strongroom_format::limits::sealed_len;
use strongroom_format::span::chunk_count;
use strongroom_format::survey::Survey;
use strongroom_format::{BlockId, Epoch, Kind, Location, SegmentId};
use strongroom_history::Blocks;
use strongroom_metadata::{Block, Place, SegmentState};
use strongroom_segments::{Error as SegmentError, SealedBytes, SegmentStore, WholeSegment};

use crate::execute::verify::show_segment;
use crate::folder::damage_in;
use crate::listing::Listing;
use crate::outline::Outline;
use crate::{Error, FileProblem, Result};

/// A segment file of this vault.
#[derive(Clone, Debug)]
pub(crate) struct FoundSegment {
    pub(crate) id: SegmentId,
    pub(crate) epoch: Epoch,
    /// End of the last batch that has its place.
    pub(crate) end: u64,
    /// Open if it may grow: nothing in it is damaged, and it has no end yet.
    pub(crate) state: SegmentState,
    /// Sealed bytes of all blocks that are listed.
    pub(crate) total_bytes: u64,
}

/// Where a block lies, and what it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoundBlock {
    /// Index into `Inventory::segments`.
    pub(crate) segment: u32,
    pub(crate) offset: u32,
    pub(crate) clear_len: u32,
    pub(crate) kind: Kind,
    /// What of it does not open.
    pub(crate) lost: LostChunks,
}

/// All that is left in the segments.
#[derive(Debug, Default)]
pub(crate) struct Inventory {
    pub(crate) segments: Vec<FoundSegment>,
    pub(crate) blocks: HashMap<BlockId, FoundBlock>,
    /// Files that are damaged, or not of this vault.
    pub(crate) problems: Vec<FileProblem>,
}

impl Inventory {
    /// Reads every segment once; `told` hears of the bytes that were read, and of how many there are.
    pub(crate) fn take(
        store: &SegmentStore,
        sealer: &BlockSealer,
        epochs: &[Epoch],
        told: &mut dyn FnMut(u64, u64),
    ) -> Result<Self> {
        let ids = store.list().map_err(storage)?;
        let total = ids.iter().map(|id| store.len(*id).unwrap_or(0)).sum();
        let mut inventory = Self::default();
        let mut done = 0;
        std::thread::scope(|scope| {
            let (sender, files) = sync_channel(1);
            // Read ahead, so that the disk works while checksums are computed.
            scope.spawn(move || {
                for id in ids {
                    if sender.send((id, store.whole(id))).is_err() {
                        break;
                    }
                }
            });
            while let Ok((id, file)) = files.recv() {
                told(done, total);
                match file {
                    Ok(file) => {
                        done += file.len() as u64;
                        inventory.add(sealer, epochs, id, &file);
                    }
                    Err(error) => inventory.problem(id, damage_in(error)?.to_string()),
                }
            }
            Ok::<(), Error>(())
        })?;
        told(done, total);
        Ok(inventory)
    }

    /// Whether there is a block of that name, or a part of one.
    pub(crate) fn has(&self, id: &BlockId) -> bool {
        self.blocks.contains_key(id)
    }

    /// What of the block of that name is lost, as ranges of its clear bytes.
    pub(crate) fn lost(&self, id: &BlockId) -> Vec<Range<u32>> {
        let lost = self
            .blocks
            .get(id)
            .map_or(LostChunks::ALL, |found| found.lost);
        lost.ranges()
    }

    fn problem(&mut self, id: SegmentId, what: String) {
        let file = show_segment(id);
        self.problems.push(FileProblem {
            file,
            what,
            is_damage: true,
        });
    }

    fn add(&mut self, sealer: &BlockSealer, epochs: &[Epoch], id: SegmentId, file: &WholeSegment) {
        let survey = file.survey();
        let Some((epoch, batches)) = listing(sealer, epochs, &survey) else {
            let what = match (survey.header.is_ok(), survey.batches.is_empty()) {
                // Begun, and nothing stored: as a crash leaves it.
                (true, true) if survey.faults.is_empty() => return,
                (true, _) => "no key of this vault opens it",
                (false, _) => {
                    "its header is unreadable or names another segment, and no key of this vault opens it"
                }
            };
            return self.problem(id, what.to_owned());
        };
        for fault in &survey.faults {
            let (start, end, why) = (fault.start, fault.end, fault.why);
            self.problem(id, format!("bytes {start} to {end}: {why}"));
        }
        // No vault has so many files that their count would not fit.
        let segment = u32::try_from(self.segments.len()).unwrap_or(u32::MAX);
        let mut found = FoundSegment {
            id,
            epoch,
            end: survey.end,
            state: match survey.faults.is_empty() && survey.contents.is_none() {
                true => SegmentState::Open,
                false => SegmentState::Finished,
            },
            total_bytes: 0,
        };
        for (first, entries) in batches {
            let is_whole = survey
                .batches
                .iter()
                .any(|batch| batch.is_whole && batch.blocks_offset() == first);
            let mut offset = first;
            for entry in entries {
                let len = sealed_len(entry.clear_len as usize);
                let start = offset;
                offset = offset.saturating_add(u32::try_from(len).unwrap_or(u32::MAX));
                let Some(kind) = Kind::from_number(entry.kind) else {
                    continue;
                };
                let sealed = file.get(start as usize..(start as usize).saturating_add(len));
                let clear_len = entry.clear_len as usize;
                // (1)
                let is_good = sealed.is_some_and(|sealed| {
                    is_whole
                        || sealer
                            .open(epoch, kind, &entry.id, clear_len, sealed)
                            .is_ok()
                });
                let lost = match is_good {
                    true => LostChunks::NONE,
                    false => {
                        let end = (start as usize).saturating_add(len).min(file.len());
                        let left = file.get(start as usize..end);
                        LostChunks::of(sealer, epoch, kind, &entry.id, entry.clear_len, left)
                    }
                };
                let all = LostChunks::first(chunk_count(clear_len));
                if lost.0 & all.0 == all.0 {
                    continue;
                }
                found.total_bytes += len as u64;
                let place = FoundBlock {
                    segment,
                    offset: start,
                    clear_len: entry.clear_len,
                    kind,
                    lost,
                };
                let known = self.blocks.entry(entry.id).or_insert(place);
                if known.lost != LostChunks::NONE && lost == LostChunks::NONE {
                    *known = place;
                }
            }
        }
        self.segments.push(found);
    }

    /// Adds what lies in a segment whose file is not here. What is here, too, is read here.
    pub(crate) fn add_away(&mut self, outline: &Outline) {
        let segment = u32::try_from(self.segments.len()).unwrap_or(u32::MAX);
        let mut total_bytes = 0;
        for (first, entries) in &outline.batches {
            let mut offset = *first;
            for entry in entries {
                let start = offset;
                let len = sealed_len(entry.clear_len as usize) as u64;
                total_bytes += len;
                offset = offset.saturating_add(u32::try_from(len).unwrap_or(u32::MAX));
                if let Some(kind) = Kind::from_number(entry.kind).filter(|kind| kind.is_data()) {
                    self.blocks.entry(entry.id).or_insert(FoundBlock {
                        segment,
                        offset: start,
                        clear_len: entry.clear_len,
                        kind,
                        lost: LostChunks::NONE,
                    });
                }
            }
        }
        self.segments.push(FoundSegment {
            id: outline.id,
            epoch: outline.epoch,
            end: outline.end,
            state: SegmentState::Away,
            total_bytes,
        });
    }
}

/// The epoch of a file and its batches, from its table of contents and the indexes of batches; `None` if none of them
/// opens.
fn listing(
    sealer: &BlockSealer,
    epochs: &[Epoch],
    survey: &Survey<'_>,
) -> Option<(Epoch, Listing)> {
    let said = survey.header.ok().map(|header| header.epoch);
    let candidates = said.into_iter().chain(epochs.iter().copied());
    for epoch in candidates {
        let mut batches: Listing = Vec::new();
        if let Some(contents) = survey.contents
            && let Ok(clear) = sealer.open_record(epoch, Kind::SegmentTable, contents)
            && let Ok(table) = decode_contents(&clear)
        {
            batches = table;
        }
        for batch in &survey.batches {
            let first = batch.blocks_offset();
            if batches.iter().any(|(offset, _)| *offset == first) {
                continue;
            }
            if let Ok(entries) = sealer.open_index(epoch, &batch.payload) {
                batches.push((first, entries));
            }
        }
        if !batches.is_empty() {
            return Some((epoch, batches));
        }
    }
    None
}

fn storage(error: SegmentError) -> Error {
    strongroom_filesystem::Error::from(error).into()
}

/// Blocks as the inventory finds them.
pub(crate) struct FoundBlocks<'a> {
    pub(crate) store: &'a SegmentStore,
    pub(crate) sealer: &'a BlockSealer,
    pub(crate) inventory: &'a Inventory,
}

impl FoundBlocks<'_> {
    /// The bytes that were sealed under that name, compressed as they may be.
    pub(crate) fn open_exactly(&self, id: &BlockId) -> Result<Option<Vec<u8>>> {
        let Some((found, epoch, sealed)) = self.sealed(id)? else {
            return Ok(None);
        };
        let clear_len = found.clear_len as usize;
        let opened = self
            .sealer
            .open_exactly(epoch, found.kind, id, clear_len, &sealed);
        Ok(opened.ok())
    }

    /// The same of a block whose batch no index lists any more, from where its row says that it lies.
    pub(crate) fn open_as_row_says(
        &self,
        row: &Block,
        segment: SegmentId,
    ) -> Result<Option<Vec<u8>>> {
        let Place::Segment(_, offset) = row.place else {
            return Ok(None);
        };
        let clear_len = row.clear_len as usize;
        let Some(sealed) = self.read(segment, offset, row.clear_len)? else {
            return Ok(None);
        };
        let opened = self
            .sealer
            .open_exactly(row.epoch, row.kind, &row.id, clear_len, &sealed);
        Ok(opened.ok())
    }

    fn sealed(&self, id: &BlockId) -> Result<Option<(FoundBlock, Epoch, SealedBytes)>> {
        let Some(found) = self.inventory.blocks.get(id).copied() else {
            return Ok(None);
        };
        let segment = &self.inventory.segments[found.segment as usize];
        let sealed = self.read(segment.id, found.offset, found.clear_len)?;
        Ok(sealed.map(|sealed| (found, segment.epoch, sealed)))
    }

    /// The sealed bytes of a block; `None` if the file does not have them.
    fn read(&self, segment: SegmentId, offset: u32, clear_len: u32) -> Result<Option<SealedBytes>> {
        let Ok(len) = u32::try_from(sealed_len(clear_len as usize)) else {
            return Ok(None);
        };
        let location = Location {
            segment,
            offset,
            len,
        };
        match self.store.read(location, 0..len) {
            Ok(sealed) => Ok(Some(sealed)),
            // A sector that cannot be read now could not be read before either.
            Err(error) => damage_in(error).map(|_| None),
        }
    }
}

impl Blocks for FoundBlocks<'_> {
    type Error = Error;

    /// Whether the content was compressed the inventory says, not `kind`.
    fn open(&self, kind: Kind, id: &BlockId) -> Result<Option<Vec<u8>>> {
        let Some((found, epoch, sealed)) = self.sealed(id)? else {
            return Ok(None);
        };
        if found.kind.plain() != kind.plain() {
            return Ok(None);
        }
        let clear_len = found.clear_len as usize;
        let opened = self.sealer.open(epoch, found.kind, id, clear_len, &sealed);
        Ok(opened.ok())
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    /// Goal: a process that may open no more files takes no segment for damaged. Failed before: a rebuilding without it was put in place.
    #[test]
    fn a_lack_of_descriptors_or_memory_is_no_damage_of_a_segment() {
        let lacks_memory = SegmentError::Io(io::ErrorKind::OutOfMemory.into());
        for shortage in [SegmentError::Descriptors, lacks_memory] {
            assert!(damage_in(shortage).is_err());
        }
        let cut = SegmentError::Truncated(SegmentId([1; 16]));
        assert!(damage_in(cut).is_ok());
        let decayed = SegmentError::Io(io::Error::other("a bad sector"));
        assert!(damage_in(decayed).is_ok());
    }
}
