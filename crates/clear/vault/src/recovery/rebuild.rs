//! Rebuilds the rows of a vault from its snapshots and its segments.
//!
//! Takes   an empty metadata store, an inventory, and the revisions that could be read
//! Gives   rows that agree with one another and with the segments; a list of the losses, by path and bytes, without what was erased
//! Never   shows zeros where bytes are lost: such a range refers to a block that does not open
//! Spec    spec/7-recovery.md, sections 7.3 and 7.4
//!
//! Invariants
//!  (1) Each block that a snapshot refers to has a row, lost or not, with the reference count that the file system would give it.  [6.3.4]
//!  (2) Content that nothing refers to has a row too, and a name in `lost+found`. A clone leaves such content out.
//!
//! Memory: about 200 bytes per block and 100 per node.

use std::collections::HashMap;
use std::ops::Range;

use strongroom_crypto::Random;
use strongroom_filesystem::{LOST_SEGMENT, segment_without_file};
use strongroom_format::limits::{BLOCK_BYTES_MAX, sealed_len};
use strongroom_format::{BlockId, Epoch};
use strongroom_history::{self as history, Body, Entry, Revision, Salvage, Survey};
use strongroom_metadata::{
    self as metadata, Base, BlockNumber, Entry as Name, Extent, Inode, InodeId, NodeKind, Place,
    REGION_BYTES, SegmentNumber, SegmentState, Store, Timestamp, Transaction, can_name,
};

use crate::limits::{REBUILD_LOST_BYTES_MAX, REBUILD_PAGES_MAX};
use crate::recovery::inventory::{FoundBlocks, Inventory};
use crate::{Damage, Error, Loss, Result};

/// Bytes of a file that one block holds at most.
pub(crate) const CELL: u64 = BLOCK_BYTES_MAX as u64;

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Rebuilt {
    /// The revision whose state is the living one now.
    pub(crate) newest: Option<Revision>,
    /// How many revisions are kept.
    pub(crate) revisions: u64,
    /// Those whose root is lost.
    pub(crate) rootless: Vec<history::RevisionId>,
    /// Nodes of the living state.
    pub(crate) nodes: u64,
    /// Bytes of content of the living state.
    pub(crate) bytes: u64,
    /// Blocks that snapshots name and that are nowhere, without those that were erased.
    pub(crate) missing: u64,
    /// Files of the living state of which it is not known where all of their content was.
    pub(crate) unlisted: u64,
    /// What the living state lost.
    pub(crate) damages: Vec<Damage>,
    /// Files in `lost+found`, and their bytes.
    pub(crate) unnamed: (u64, u64),
}

/// What becomes of content that no snapshot names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unnamed {
    /// It gets names in `lost+found`: it may be all that is left of something.
    LostAndFound,
    /// It is left to be reclaimed: where it came from knows it.
    LeftOut,
}

/// A node of the living state that has its row.
struct Made {
    kind: NodeKind,
    says: u32,
    names: u32,
    subdirectories: u32,
}

/// A rebuilding under way.
pub(crate) struct Rebuilding<'a> {
    pub(crate) store: &'a Store,
    pub(crate) blocks: &'a FoundBlocks<'a>,
    pub(crate) random: &'a dyn Random,
    /// What seals now.
    pub(crate) epoch: Epoch,
    /// What becomes of content that no snapshot names.
    pub(crate) unnamed: Unnamed,
    pub(crate) now: Timestamp,
    /// Owner of what has none.
    pub(crate) owner: (u32, u32),
    /// Hears of the nodes that were brought back.
    pub(crate) told: &'a mut dyn FnMut(u64),
}

/// What the steps share.
pub(crate) struct Work<'a, 'b> {
    pub(crate) given: Rebuilding<'a>,
    pub(crate) writer: Transaction<'b>,
    pub(crate) segments: Vec<SegmentNumber>,
    pub(crate) lost_segment: Option<SegmentNumber>,
    pub(crate) numbers: HashMap<BlockId, BlockNumber>,
    /// How often trees of snapshots name blocks that are lost.
    pub(crate) missing: HashMap<BlockId, u32>,
    /// References that rows do not count yet.
    pub(crate) more: HashMap<BlockNumber, u32>,
    made: HashMap<InodeId, Made>,
    pub(crate) result: Rebuilt,
}

impl<'a> Rebuilding<'a> {
    /// Writes everything, oldest revision first; committed on return.
    ///
    /// # Errors
    /// Of the stores: then the store is of no use.
    pub(crate) fn run(self, revisions: Vec<Revision>) -> Result<Rebuilt> {
        let store = self.store;
        let mut work = Work {
            writer: store.lock(),
            segments: Vec::new(),
            lost_segment: None,
            numbers: HashMap::new(),
            missing: HashMap::new(),
            more: HashMap::new(),
            made: HashMap::new(),
            result: Rebuilt::default(),
            given: self,
        };
        work.insert_segments()?;
        let kept = work.insert_blocks(revisions)?;
        work.insert_revisions(&kept)?;
        work.living(kept.last())?;
        work.insert_missing()?;
        work.settle_references()?;
        work.begin_history(kept.last())?;
        if work.given.unnamed == Unnamed::LostAndFound {
            work.unnamed()?;
        }
        work.writer.commit()?;
        work.erased(&kept)?;
        work.writer.commit()?;
        Ok(work.result)
    }
}

impl Work<'_, '_> {
    pub(crate) fn inventory(&self) -> &Inventory {
        self.given.blocks.inventory
    }

    /// Commits when much was written, so that nothing spills.
    pub(crate) fn commit_if_large(&mut self) -> Result<()> {
        if self.writer.dirty_pages() > REBUILD_PAGES_MAX {
            self.writer.commit()?;
            self.writer.checkpoint()?;
        }
        Ok(())
    }

    // ---- segments, blocks, revisions

    fn insert_segments(&mut self) -> Result<()> {
        for found in self.given.blocks.inventory.segments.clone() {
            let number = self.writer.insert_segment(&found.id, found.epoch)?;
            self.writer.set_committed_len(number, found.end)?;
            self.writer.add_total_bytes(number, found.total_bytes)?;
            if found.state != SegmentState::Open {
                self.writer.set_segment_state(number, found.state)?;
            }
            self.segments.push(number);
        }
        Ok(())
    }

    /// Goes over the trees of all revisions, and writes a row for each block that they name and that is left. Gives the
    /// revisions whose root is.                                                                                   (1)
    fn insert_blocks(&mut self, revisions: Vec<Revision>) -> Result<Vec<Revision>> {
        let blocks = self.given.blocks;
        let mut references: HashMap<BlockId, u32> = HashMap::new();
        let mut survey = Survey::new(blocks, |id| blocks.inventory.lost(id));
        let mut kept = Vec::new();
        for revision in revisions {
            let root = revision.body.root;
            survey.tree(&root, &mut |_, _, names| {
                for name in names {
                    *references.entry(*name).or_insert(0) += 1;
                }
                Ok::<(), Error>(())
            })?;
            if Salvage::new(blocks).root(&root)?.is_some() {
                *references.entry(root).or_insert(0) += 1;
                kept.push(revision);
            } else {
                self.result.rootless.push(revision.id);
            }
        }
        let (mut named, missing): (Vec<_>, Vec<_>) = references
            .into_iter()
            .partition(|(id, _)| blocks.inventory.has(id));
        self.missing.extend(missing);
        self.result.missing = self.missing.len() as u64;
        // Neighbours in a segment get neighbouring rows.
        let place = |id: &BlockId| {
            let found = blocks.inventory.blocks.get(id);
            found.map(|found| (found.segment, found.offset))
        };
        named.sort_by_cached_key(|(id, _)| place(id));
        for (id, count) in named {
            self.insert_block(&id, count)?;
        }
        Ok(kept)
    }

    /// The row of a block that is left.
    fn insert_block(&mut self, id: &BlockId, references: u32) -> Result<Option<BlockNumber>> {
        let Some(found) = self.inventory().blocks.get(id).copied() else {
            return Ok(None);
        };
        let epoch = self.inventory().segments[found.segment as usize].epoch;
        let place = Place::Segment(self.segments[found.segment as usize], found.offset);
        let number = self.writer.insert_block_of(
            found.kind,
            id,
            found.clear_len,
            epoch,
            references,
            place,
            None,
        )?;
        self.numbers.insert(*id, number);
        self.commit_if_large()?;
        Ok(Some(number))
    }

    fn insert_revisions(&mut self, kept: &[Revision]) -> Result<()> {
        let mut sequence = 0;
        for revision in kept {
            let root = self.numbers.get(&revision.body.root);
            let root = *root.ok_or(history::Error::MissingBlock)?;
            sequence = sequence.max(revision.body.sequence);
            self.writer.insert_revision(&metadata::Revision {
                number: 0,
                id: revision.id.0,
                root,
                taken: revision.body.time,
                body: revision.encode(),
            })?;
        }
        self.writer.skip_sequence(sequence)?;
        self.result.revisions = kept.len() as u64;
        Ok(())
    }

    // ---- the living state

    fn living(&mut self, newest: Option<&Revision>) -> Result<()> {
        let blocks = self.given.blocks;
        let salvage = Salvage::new(blocks);
        let root = match newest {
            Some(newest) => salvage.root(&newest.body.root)?,
            None => None,
        };
        let Some(root) = root else {
            return self.empty_root();
        };
        self.result.newest = newest.cloned();
        self.node(&salvage, b"/", &root, InodeId::ROOT)?;
        // No recursion: how deep directories lie is up to whoever made them.
        let mut directories = vec![(Vec::new(), InodeId::ROOT, root.directory())];
        while let Some((path, inode, directory)) = directories.pop() {
            let mut below = Vec::new();
            let lost = salvage.entries(directory, &mut |entry| {
                let path = [&path[..], b"/", &entry.name].concat();
                if self.name(&salvage, inode, &path, &entry)? {
                    below.push((path, entry.inode, entry.directory()));
                }
                Ok(())
            })?;
            if lost > 0 {
                let path = if path.is_empty() { b"/" } else { &path[..] };
                self.lost(path, Loss::Names(lost));
            }
            directories.extend(below);
        }
        self.settle_links()
    }

    fn empty_root(&mut self) -> Result<()> {
        let birth_id = self.birth_id()?;
        let now = self.given.now;
        let root = Inode {
            birth_id,
            nlink: 2,
            ..crate::recovery::unnamed::node_of(
                InodeId::ROOT,
                NodeKind::Directory,
                now,
                self.given.owner,
            )
        };
        Ok(self.writer.put_inode(&root)?)
    }

    pub(crate) fn birth_id(&self) -> Result<u64> {
        let mut bytes = [0; 8];
        self.given.random.fill(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn lost(&mut self, path: &[u8], what: Loss) {
        self.result.damages.push(Damage {
            path: path.to_vec(),
            what,
            now: true,
            revisions: Vec::new(),
        });
    }

    /// Gives a node its name, and its row if it has none. Gives whether it is a directory that was not met before.
    fn name(
        &mut self,
        salvage: &Salvage<'_, FoundBlocks<'_>>,
        parent: InodeId,
        path: &[u8],
        entry: &Entry,
    ) -> Result<bool> {
        if !can_name(&entry.name) {
            self.lost(path, Loss::Structure);
            return Ok(false);
        }
        let is_directory = entry.kind == NodeKind::Directory;
        let known = self.made.contains_key(&entry.inode);
        if known && (is_directory || entry.inode == InodeId::ROOT) {
            // No tree that the engine takes names a directory twice.
            self.lost(path, Loss::Structure);
            return Ok(false);
        }
        if !known && !self.node(salvage, path, entry, parent)? {
            return Ok(false);
        }
        let cookie = self.writer.next_cookie();
        self.writer.insert_entry(
            parent,
            &Name {
                name: entry.name.clone(),
                inode: entry.inode,
                kind: entry.kind,
                cookie,
            },
        )?;
        if let Some(made) = self.made.get_mut(&entry.inode) {
            made.names += 1;
        }
        if let Some(holder) = self.made.get_mut(&parent) {
            holder.subdirectories += u32::from(is_directory);
        }
        Ok(is_directory)
    }

    /// Writes the rows of one node; gives false if it cannot be brought back at all.
    fn node(
        &mut self,
        salvage: &Salvage<'_, FoundBlocks<'_>>,
        path: &[u8],
        entry: &Entry,
        parent: InodeId,
    ) -> Result<bool> {
        let Some(allocated) = self.content(salvage, path, entry)? else {
            self.lost(path, Loss::Content(0, entry.size));
            return Ok(false);
        };
        let is_directory = entry.kind == NodeKind::Directory;
        let (target, rdev) = match &entry.body {
            Body::Symlink(target) => (target.clone(), 0),
            Body::Device(number) => (Vec::new(), *number),
            _ => (Vec::new(), 0),
        };
        self.writer.skip_inodes(entry.inode)?;
        self.writer.put_inode(&Inode {
            id: entry.inode,
            birth_id: entry.birth_id,
            kind: entry.kind,
            mode: entry.mode,
            uid: entry.uid,
            gid: entry.gid,
            rdev,
            nlink: entry.nlink,
            size: entry.size,
            allocated,
            atime: entry.atime,
            mtime: entry.mtime,
            ctime: entry.ctime,
            btime: entry.btime,
            content_version: entry.content_version,
            parent: if is_directory { parent } else { InodeId(0) },
            target,
            reserved: 0,
        })?;
        match salvage.xattrs(entry)? {
            Some(xattrs) => {
                for (name, value) in xattrs {
                    self.writer.put_xattr(entry.inode, &name, &value)?;
                }
            }
            None => self.lost(path, Loss::Xattrs),
        }
        let made = Made {
            kind: entry.kind,
            says: entry.nlink,
            names: 0,
            subdirectories: 0,
        };
        self.made.insert(entry.inode, made);
        self.result.nodes += 1;
        if self.result.nodes.is_multiple_of(1024) {
            (self.given.told)(self.result.nodes);
        }
        self.commit_if_large()?;
        Ok(true)
    }

    /// Writes the extents of a file; gives the bytes that they hold, or `None` if more are unknown than can be said.
    fn content(
        &mut self,
        salvage: &Salvage<'_, FoundBlocks<'_>>,
        path: &[u8],
        entry: &Entry,
    ) -> Result<Option<u64>> {
        let mut extents: Vec<history::Extent> = Vec::new();
        let unlisted = salvage.extents(entry, &mut |extent| {
            extents.push(extent);
            Ok(())
        })?;
        let unknown: u64 = unlisted.iter().map(|range| range.end - range.start).sum();
        self.result.unlisted += u64::from(!unlisted.is_empty());
        if unknown > REBUILD_LOST_BYTES_MAX {
            return Ok(None);
        }
        let mut rows: Vec<Extent> = Vec::new();
        let mut lost: Vec<Range<u64>> = Vec::new();
        for extent in extents {
            let number = self.block(&extent.block, extent.block_offset + extent.len)?;
            let parts = extent.without(&self.inventory().lost(&extent.block));
            lost.extend(
                parts
                    .into_iter()
                    .map(|part| part.start..part.end.min(entry.size)),
            );
            rows.push(Extent {
                start: extent.start,
                len: extent.len,
                block: number,
                block_offset: extent.block_offset,
            });
        }
        for range in &unlisted {
            self.unknown_content(range, &mut rows)?;
        }
        lost.extend(unlisted);
        rows.sort_unstable_by_key(|row| row.start);
        for range in joined(lost) {
            self.lost(path, Loss::Content(range.start, range.end));
        }
        self.put_extents(entry.inode, &rows).map(Some)
    }

    pub(crate) fn put_extents(&mut self, inode: InodeId, rows: &[Extent]) -> Result<u64> {
        let mut held = 0;
        for region in
            rows.chunk_by(|one, next| one.start / REGION_BYTES == next.start / REGION_BYTES)
        {
            for row in region {
                *self.more.entry(row.block).or_insert(0) += 1;
                held += u64::from(row.len);
            }
            let number = region[0].start / REGION_BYTES;
            self.writer.put_region(inode, number, region)?;
            self.commit_if_large()?;
        }
        self.result.bytes += held;
        Ok(held)
    }

    /// The row of a block that content names; one that is lost gets a row that says so.
    pub(crate) fn block(&mut self, id: &BlockId, least_len: u32) -> Result<BlockNumber> {
        if let Some(number) = self.numbers.get(id) {
            return Ok(*number);
        }
        if let Some(number) = self.insert_block(id, 0)? {
            return Ok(number);
        }
        let number = self.lost_block(id, least_len)?;
        self.numbers.insert(*id, number);
        Ok(number)
    }

    /// A row for a block that is not there. How long it was nobody knows; as long as it must have been.
    pub(crate) fn lost_block(&mut self, id: &BlockId, len: u32) -> Result<BlockNumber> {
        let segment = match self.lost_segment {
            Some(segment) => segment,
            None => {
                let epoch = self.given.epoch;
                let segment = segment_without_file(&mut self.writer, &LOST_SEGMENT, epoch)?;
                self.lost_segment = Some(segment);
                segment
            }
        };
        let sealed = sealed_len(len as usize) as u64;
        self.writer.add_total_bytes(segment, sealed)?;
        let place = Place::Segment(segment, 0);
        let references = self.missing.get(id).copied().unwrap_or(0);
        Ok(self
            .writer
            .insert_block(id, len, self.given.epoch, references, place, None)?)
    }

    /// Extents for a range of which nobody knows what it held: reading it fails.
    fn unknown_content(&mut self, range: &Range<u64>, rows: &mut Vec<Extent>) -> Result<()> {
        let mut id = BlockId([0; 32]);
        self.given.random.fill(&mut id.0)?;
        let number = self.lost_block(&id, BLOCK_BYTES_MAX as u32)?;
        let mut start = range.start;
        while start < range.end {
            let end = (start - start % CELL).saturating_add(CELL).min(range.end);
            rows.push(Extent {
                start,
                // At most a cell.
                len: (end - start) as u32,
                block: number,
                block_offset: 0,
            });
            start = end;
        }
        Ok(())
    }

    /// Counts of names are those that were found: some may be lost.
    fn settle_links(&mut self) -> Result<()> {
        for (inode, made) in std::mem::take(&mut self.made) {
            let found = match made.kind {
                NodeKind::Directory => 2 + made.subdirectories,
                _ => made.names,
            };
            if found != made.says
                && let Some(row) = self.writer.inode(inode)?
            {
                self.writer.put_inode(&Inode {
                    nlink: found,
                    ..row
                })?;
                self.commit_if_large()?;
            }
        }
        Ok(())
    }

    pub(crate) fn settle_references(&mut self) -> Result<()> {
        for (number, count) in std::mem::take(&mut self.more) {
            self.writer.change_references(number, i64::from(count))?;
            // One that had none until now waited to be given back.
            self.writer.settle_released(number)?;
            self.commit_if_large()?;
        }
        Ok(())
    }

    /// The next revision goes on from the newest one, if the living state is exactly that.
    fn begin_history(&mut self, newest: Option<&Revision>) -> Result<()> {
        let history = self.writer.begin_generation()?;
        let root = newest.and_then(|newest| self.numbers.get(&newest.body.root));
        if let Some(root) = root.copied()
            && self.result.damages.is_empty()
        {
            self.writer.change_references(root, 1)?;
            self.writer.set_base(Some(Base {
                root,
                generation: history.generation - 1,
                scan_from: history.mark_below,
            }))?;
        }
        Ok(())
    }
}

/// Sorted, and neighbours as one.
fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges.into_iter().filter(|range| range.start < range.end) {
        match joined.last_mut() {
            Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}
