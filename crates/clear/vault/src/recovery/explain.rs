//! Registers data that the database does not know: snapshots get rows, content gets a name, and other files are set aside.
//!
//! Takes   a repair in progress, and the contents of the segments
//! Gives   revisions with their blocks, files in `lost+found`, files in the folder `unexplained`
//! Never   removes a file of the vault folder, or changes the current state except `lost+found`
//! Spec    spec/7-recovery.md, section 7.7
//!
//! Invariants
//!  (1) One transaction adds a snapshot's row, with the rows of its blocks and their references.

use std::collections::{HashMap, HashSet};

use strongroom_filesystem::{DamagedBlock, Error as FileError, LostChunks, NodeKind, admit};
use strongroom_format::span::chunk_count;
use strongroom_format::{BlockId, Kind, SegmentId, hex};
use strongroom_history::{Blocks, Revision, Salvage, Survey};
use strongroom_metadata::{self as metadata, BlockNumber, Reader, SegmentNumber, SegmentState};

use crate::execute::verify::show_segment;
use crate::folder::REVISIONS;
use crate::records::{open_revision, record_files, record_name};
use crate::recovery::inventory::FoundBlocks;
use crate::recovery::recover::Trial;
use crate::recovery::repair::Repair;
use crate::{Error, File, FileOptions, Links, Result};

/// Where content goes that nothing names.
const LOST_FOUND: &str = "/lost+found";

impl Repair<'_> {
    /// Keeps revisions that have a record and a root, and no row.
    pub(crate) fn adopt(&mut self, blocks: &FoundBlocks<'_>) -> Result<()> {
        let engine = self.filesystem().engine();
        let known: HashSet<[u8; 32]> = engine
            .reader()?
            .revisions()?
            .iter()
            .map(|row| row.id)
            .collect();
        let mut unknown: Vec<Revision> = Vec::new();
        for (name, bytes) in record_files(self.folder)? {
            let opened = record_name(&name)
                .zip(bytes)
                .and_then(|((_, epoch), bytes)| {
                    let epoch = strongroom_format::Epoch(epoch);
                    open_revision(&engine.sealer(), epoch, &bytes)
                });
            let revision = opened.and_then(|clear| self.filesystem().prove_revision(&clear).ok());
            let fresh = |revision: &Revision| {
                !known.contains(&revision.id.0) && !unknown.iter().any(|one| one.id == revision.id)
            };
            unknown.extend(revision.filter(fresh));
        }
        unknown.sort_by_key(|revision| (revision.body.sequence, revision.body.time, revision.id));
        for revision in unknown {
            if Salvage::new(blocks).root(&revision.body.root)?.is_none() {
                continue;
            }
            self.report.adopted.push(revision.id.to_string());
            if self.trial == Trial::ForReal {
                self.adopt_one(blocks, &revision)?;
            }
        }
        Ok(())
    }

    /// One transaction: rows for the blocks of its tree that have none, references, and its own row.             (1)
    fn adopt_one(&self, blocks: &FoundBlocks<'_>, revision: &Revision) -> Result<()> {
        let engine = self.filesystem().engine();
        let root = revision.body.root;
        let mut nodes: Vec<(BlockId, Vec<BlockId>)> = Vec::new();
        let mut survey = Survey::new(blocks, |id| blocks.inventory.lost(id));
        survey.tree(&root, &mut |id, _, names| {
            nodes.push((id, names.to_vec()));
            Ok::<(), Error>(())
        })?;
        let all = nodes
            .iter()
            .flat_map(|(id, names)| names.iter().chain(Some(id)));
        let lost: Vec<BlockId> = all
            .filter(|id| !blocks.inventory.has(id))
            .copied()
            .collect();
        self.filesystem().insert_lost(&lost)?;
        engine.change(|writer| {
            // Those that have a row count what they name already.
            let mut fresh = HashSet::new();
            for (id, names) in &nodes {
                for block in std::iter::once(id).chain(names) {
                    let Some(found) = blocks.inventory.blocks.get(block) else {
                        continue;
                    };
                    if writer.block_by_id(block)?.is_some() {
                        continue;
                    }
                    let segment = &blocks.inventory.segments[found.segment as usize];
                    let number = known_segment(writer, segment)?;
                    let place = metadata::Place::Segment(number, found.offset);
                    writer.insert_block_of(
                        found.kind,
                        block,
                        found.clear_len,
                        segment.epoch,
                        0,
                        place,
                        None,
                    )?;
                    fresh.insert(*block);
                }
            }
            for (id, names) in &nodes {
                for name in names.iter().filter(|_| fresh.contains(id)) {
                    if let Some(number) = writer.block_by_id(name)? {
                        count(writer, number)?;
                    }
                }
            }
            admit(writer, revision)?;
            writer.skip_sequence(revision.body.sequence)?;
            Ok::<(), Error>(())
        })?;
        Ok(engine.commit()?)
    }

    /// The segments that a verification found and the database does not know.
    pub(crate) fn unknown_segments(&self, blocks: &FoundBlocks<'_>) -> Result<Vec<SegmentId>> {
        let known = self.known_segments()?;
        let found = &self.report.found.files;
        let named: HashSet<&str> = found.iter().map(|one| &*one.file).collect();
        let mut unknown = blocks
            .store
            .list()
            .map_err(strongroom_filesystem::Error::from)?;
        unknown.retain(|id| !known.contains(id) && named.contains(&*show_segment(*id)));
        Ok(unknown)
    }

    fn known_segments(&self) -> Result<HashSet<SegmentId>> {
        let reader = self.filesystem().engine().reader()?;
        Ok(reader.segments()?.iter().map(|row| row.id).collect())
    }

    /// Content of `unknown` segments that no row names goes to `lost+found`. The files go aside, but for those that have a row by now: a
    /// snapshot that was adopted names a part of them.
    pub(crate) fn unexplained_segments(
        &mut self,
        blocks: &FoundBlocks<'_>,
        unknown: Vec<SegmentId>,
    ) -> Result<()> {
        let known = self.known_segments()?;
        for id in unknown {
            self.unnamed_content(blocks, id)?;
            if !known.contains(&id) {
                self.set_aside(&show_segment(id))?;
            }
        }
        Ok(())
    }

    /// Writes the content of `segment` that has no row into a file of `lost+found`, each block in a cell of its own.
    fn unnamed_content(&mut self, blocks: &FoundBlocks<'_>, segment: SegmentId) -> Result<()> {
        let inventory = blocks.inventory;
        let Some(index) = inventory.segments.iter().position(|one| one.id == segment) else {
            return Ok(());
        };
        let engine = self.filesystem().engine();
        let reader = engine.reader()?;
        let mut unnamed: Vec<(u32, BlockId)> = Vec::new();
        for (id, found) in &inventory.blocks {
            if found.segment as usize == index
                && found.kind.is_data()
                && reader.block_by_id(id)?.is_none()
            {
                unnamed.push((found.offset, *id));
            }
        }
        drop(reader);
        if unnamed.is_empty() {
            return Ok(());
        }
        self.report.unnamed += 1;
        if self.trial == Trial::OnlyLook {
            return Ok(());
        }
        unnamed.sort_unstable();
        let file = self.new_file(&hex::encode(&segment.0))?;
        for ((_, id), cell) in unnamed.iter().zip(0_u64..) {
            if let Some(clear) = blocks.open(Kind::Data, id)? {
                file.write_all_at(&clear, cell << 16)?;
            }
        }
        file.sync_all()
    }

    /// A new file in `lost+found`. One that has the name already has other content, as of a repair that was killed: it stays.
    fn new_file(&self, name: &str) -> Result<File> {
        let directory = self.lost_found()?;
        let options = FileOptions::new().write().create_new().mode(0o600);
        let mut path = format!("{directory}/{name}");
        let mut number = 1;
        loop {
            match self.vault.open_file(&path, options) {
                Err(Error::File(FileError::Exists)) => {
                    number += 1;
                    path = format!("{directory}/{name}-{number}");
                }
                opened => return opened,
            }
        }
    }

    /// The directory `lost+found`, made if it is missing; under the next name if a node of another kind has this one.
    fn lost_found(&self) -> Result<String> {
        let mut path = LOST_FOUND.to_owned();
        let mut number = 1;
        loop {
            match self.vault.attributes(&path, Links::Stay) {
                Ok(node) if node.kind == NodeKind::Directory => return Ok(path),
                Ok(_) => {
                    number += 1;
                    path = format!("{LOST_FOUND}-{number}");
                }
                Err(Error::File(FileError::NotFound)) => {
                    self.vault.make_directory(&path, 0o700)?;
                    return Ok(path);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Segments of which all that is left is wholly `lost` go aside, before their rows say that nothing is left: from then on an opening may
    /// remove them.
    pub(crate) fn wholly_lost_segments(&mut self, lost: &[DamagedBlock]) -> Result<()> {
        let lost: HashMap<BlockNumber, LostChunks> =
            lost.iter().map(|one| (one.number, one.chunks)).collect();
        let reader = self.filesystem().engine().reader()?;
        let mut files = Vec::new();
        for segment in &self.lost_in {
            let Some(row) = reader.segment(*segment)? else {
                continue;
            };
            let file = show_segment(row.id);
            if row.state != SegmentState::Open
                && self.folder.has(&file)
                && is_wholly_lost(&reader, *segment, &lost)?
            {
                files.push(file);
            }
        }
        drop(reader);
        files.sort_unstable();
        files.iter().try_for_each(|file| self.set_aside(file))
    }

    /// Segments of which the database awaits nothing any more, but of which blocks were lost, go aside: somebody may know
    /// more of them.
    pub(crate) fn emptied_segments(&mut self) -> Result<()> {
        let engine = self.filesystem().engine();
        let rows = engine.reader()?.segments()?;
        let lost = std::mem::take(&mut self.lost_in);
        for row in rows {
            let file = show_segment(row.id);
            if row.live_bytes == 0 && lost.contains(&row.number) && self.folder.has(&file) {
                self.set_aside(&file)?;
            }
        }
        Ok(())
    }

    /// Moves a file of the vault folder to the folder `unexplained`, durably.
    fn set_aside(&mut self, file: &str) -> Result<()> {
        self.report.set_aside.push(file.to_owned());
        if self.trial == Trial::OnlyLook {
            return Ok(());
        }
        self.folder.set_aside(file)
    }

    /// Damaged records of kept revisions are written again; others that do not open are set aside.
    pub(crate) fn records(&mut self) -> Result<()> {
        let engine = self.filesystem().engine();
        let rows = engine.reader()?.revisions()?;
        let bodies: HashMap<String, Vec<u8>> = rows
            .into_iter()
            .map(|row| (hex::encode(&row.id), row.body))
            .collect();
        let mut sound = HashSet::new();
        for (name, bytes) in record_files(self.folder)? {
            let Some((id, epoch)) = record_name(&name) else {
                continue;
            };
            let opened = bytes.and_then(|bytes| {
                let epoch = strongroom_format::Epoch(epoch);
                open_revision(&engine.sealer(), epoch, &bytes)
            });
            if opened.is_some_and(|clear| bodies.get(id).is_some_and(|body| *body == *clear)) {
                sound.insert(id.to_owned());
            } else {
                self.set_aside(&format!("{REVISIONS}/{name}"))?;
            }
        }
        self.report.records = bodies.keys().filter(|id| !sound.contains(*id)).count() as u64;
        if self.trial == Trial::ForReal {
            self.owner.session.vault.records.mend(self.filesystem())?;
        }
        Ok(())
    }
}

/// Whether no chunk of any block in `segment` opens.
fn is_wholly_lost(
    reader: &Reader<'_>,
    segment: SegmentNumber,
    lost: &HashMap<BlockNumber, LostChunks>,
) -> Result<bool> {
    let mut after = BlockNumber(0);
    loop {
        let page = reader.blocks_in_segment(segment, after, 4096)?;
        let Some(last) = page.last() else {
            return Ok(true);
        };
        after = last.number;
        let is_lost = |block: &metadata::Block| {
            let all = LostChunks::first(chunk_count(block.clear_len as usize));
            let chunks = lost.get(&block.number);
            chunks.is_some_and(|chunks| chunks.0 & all.0 == all.0)
        };
        if !page.iter().all(is_lost) {
            return Ok(false);
        }
    }
}

/// Adds one reference to a block, which may have had none.
fn count(writer: &mut metadata::Transaction<'_>, number: BlockNumber) -> Result<()> {
    writer.change_references(number, 1)?;
    Ok(writer.settle_released(number)?)
}

/// The row of a segment that was found, which covers all that was found in it.
fn known_segment(
    writer: &mut metadata::Transaction<'_>,
    found: &crate::recovery::inventory::FoundSegment,
) -> Result<SegmentNumber> {
    if let Some(row) = writer.segment_by_id(&found.id)? {
        if row.committed_len < found.end {
            writer.set_committed_len(row.number, found.end)?;
        }
        return Ok(row.number);
    }
    let number = writer.insert_segment(&found.id, found.epoch)?;
    writer.set_committed_len(number, found.end)?;
    writer.add_total_bytes(number, found.total_bytes)?;
    if found.state != SegmentState::Open {
        // It is nobody's to append to. One that is sound gets its end at the next opening.
        writer.set_segment_state(number, SegmentState::Finished)?;
    }
    Ok(number)
}
