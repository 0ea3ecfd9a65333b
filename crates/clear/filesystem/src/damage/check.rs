//! The structural check: checks every page of the database, and compares every table with the others, in the state of
//! the last commit.
//!
//! Takes   the rows, and the lengths of the segment files
//! Gives   a list of contradictions; empty means sound
//! Never   changes anything, or opens a block (`verify.rs` opens them)
//!
//! Memory: some 50 bytes per inode and 24 per block.

use std::collections::{HashMap, HashSet};

use strongroom_format::Epoch;
use strongroom_format::limits::sealed_len;
use strongroom_metadata::{
    Block, BlockNumber, Entry, Extent, Inode, InodeId, NodeKind, Place, REGION_BYTES, Reader,
    SegmentNumber, SegmentState, can_name, has_no_file,
};
use strongroom_segments::Error as SegmentError;

use crate::content::extents;
use crate::content::holes::Holes;
use crate::content::overlay::CELL_BYTES;
use crate::limits::FILE_BYTES_MAX;
use crate::trees::engine::hold;
use crate::{Filesystem, Result};

/// Problems beyond this many are counted, not listed.
const PROBLEMS_MAX: usize = 1_000;

/// What the structural check found. Empty `problems` means sound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Inodes looked at.
    pub inodes: u64,
    /// Directory entries looked at.
    pub entries: u64,
    /// Extents looked at.
    pub extents: u64,
    /// Blocks looked at.
    pub blocks: u64,
    /// Segments looked at.
    pub segments: u64,
    /// What does not agree, one sentence each, the first 1,000 of them.
    pub problems: Vec<String>,
    /// Count of all problems.
    pub problem_count: u64,
}

impl CheckReport {
    fn problem(&mut self, text: String) {
        self.problem_count += 1;
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(text);
        }
    }
}

/// What is remembered of an inode while the other tables are read.
struct Seen {
    kind: NodeKind,
    nlink: u32,
    size: u64,
    allocated: u64,
    reserved: u64,
    content_version: u64,
    parent: InodeId,
    names: u32,
    subdirectories: u32,
    held: u64,
}

impl Filesystem {
    /// Compares every table with every other, as of a barrier taken first.
    ///
    /// # Errors
    /// Of the stores: what cannot be read cannot be checked.
    pub fn check(&self) -> Result<CheckReport> {
        let _held = hold(&self.core);
        self.sync()?;
        let reader = self.core.store.reader()?;
        let before = self.core.blocks.sealers.newest();
        let snapshot = reader.snapshot()?;
        // Epochs may begin and end meanwhile: a block of the snapshot is of the one time or the other.
        let after = self.core.blocks.sealers.newest();
        let has_keys = |epoch| before.has_epoch(epoch) || after.has_epoch(epoch);
        let mut report = CheckReport::default();
        for problem in snapshot.integrity_check()? {
            report.problem(format!("metadata.db: {problem}"));
        }
        match self.check_tables(&snapshot, &has_keys, &mut report) {
            // A damaged page ends the reading; it has been named above.
            Err(error) if report.problem_count > 0 => {
                report.problem(format!("the tables cannot be read to their end: {error}"));
            }
            result => result?,
        }
        Ok(report)
    }

    fn check_tables(
        &self,
        reader: &Reader<'_>,
        has_keys: &dyn Fn(Epoch) -> bool,
        report: &mut CheckReport,
    ) -> Result<()> {
        let mut inodes = check_entries(reader, report)?;
        let holes = check_holes(reader, &inodes, report)?;
        let mut references = check_extents(reader, &mut inodes, &holes, report)?;
        check_links(&inodes, report);
        check_circles(&inodes, report);
        check_reservations(reader, &inodes, report)?;
        check_hashes(reader, &inodes, report)?;
        let (kept, unreadable) = crate::trees::give_back::references(&self.core, reader)?;
        for (block, count) in kept {
            *references.entry(block).or_insert(0) += count;
        }
        if unreadable > 0 {
            report.problem(format!("{unreadable} blocks of snapshots cannot be read"));
        }
        let live = check_blocks(reader, &references, unreadable > 0, has_keys, report)?;
        self.check_segments(reader, &live, report)
    }

    fn check_segments(
        &self,
        reader: &Reader<'_>,
        live: &HashMap<SegmentNumber, u64>,
        report: &mut CheckReport,
    ) -> Result<()> {
        for segment in reader.segments()? {
            report.segments += 1;
            let counted = live.get(&segment.number).copied().unwrap_or(0);
            if counted != segment.live_bytes {
                let (number, says) = (segment.number.0, segment.live_bytes);
                report.problem(format!(
                    "the row of segment {number} counts {says} live bytes, but its blocks hold {counted}"
                ));
            }
            // A commit after the snapshot may have let an empty one go. Those of lost and of erased blocks have no file.
            if counted == 0 || has_no_file(&segment.id) {
                continue;
            }
            match self.core.blocks.segments.len(segment.id) {
                Ok(len) if len >= segment.committed_len => {}
                Ok(len) => report.problem(format!(
                    "segment {} is {len} bytes long, but {} were committed",
                    segment.number.0, segment.committed_len
                )),
                // It is away; or compaction or a rotation may have moved all that was in it, and let it go, since the snapshot.
                Err(SegmentError::Missing(_)) if self.may_be_missing(segment.number)? => {}
                Err(error) => report.problem(format!("segment {}: {error}", segment.number.0)),
            }
        }
        Ok(())
    }

    /// Whether nothing lies in that segment any more, or a remote has it.
    fn may_be_missing(&self, number: SegmentNumber) -> Result<bool> {
        let now = self.core.store.lock().segment(number)?;
        Ok(
            now.is_none_or(|segment| {
                segment.live_bytes == 0 || segment.state == SegmentState::Away
            }),
        )
    }
}

fn check_entries(reader: &Reader<'_>, report: &mut CheckReport) -> Result<HashMap<InodeId, Seen>> {
    let mut inodes = HashMap::new();
    reader.for_each_inode(|inode: Inode| {
        report.inodes += 1;
        if inode.size > FILE_BYTES_MAX {
            report.problem(format!(
                "inode {} has a size of {} bytes, more than any file can have",
                inode.id.0, inode.size
            ));
        }
        inodes.insert(
            inode.id,
            Seen {
                kind: inode.kind,
                nlink: inode.nlink,
                size: inode.size,
                allocated: inode.allocated,
                reserved: inode.reserved,
                content_version: inode.content_version,
                parent: inode.parent,
                names: 0,
                subdirectories: 0,
                held: 0,
            },
        );
    })?;
    reader.for_each_entry(|parent: InodeId, entry: Entry| {
        report.entries += 1;
        if !can_name(&entry.name) {
            report.problem(format!(
                "directory {} gives inode {} the name \"{}\", which is not allowed: no listing shows it",
                parent.0,
                entry.inode.0,
                entry.name.escape_ascii()
            ));
        }
        let Some(node) = inodes.get_mut(&entry.inode) else {
            report.problem(format!(
                "an entry of directory {} refers to inode {}, which is missing",
                parent.0, entry.inode.0
            ));
            return;
        };
        node.names += 1;
        if node.kind != entry.kind {
            report.problem(format!(
                "an entry of directory {} states a wrong kind for inode {}",
                parent.0, entry.inode.0
            ));
        }
        let is_directory = node.kind == NodeKind::Directory;
        if is_directory && node.parent != parent {
            report.problem(format!(
                "directory {} is in directory {}, but its row says {}",
                entry.inode.0, parent.0, node.parent.0
            ));
        }
        match inodes.get_mut(&parent) {
            Some(holder) if holder.kind == NodeKind::Directory => {
                holder.subdirectories += u32::from(is_directory);
            }
            _ => report.problem(format!(
                "inode {} has a name in {}, which is not a directory",
                entry.inode.0, parent.0
            )),
        }
    })?;
    Ok(inodes)
}

fn check_links(inodes: &HashMap<InodeId, Seen>, report: &mut CheckReport) {
    for (id, node) in inodes {
        let id = id.0;
        let expected = match node.kind {
            NodeKind::Directory if id == InodeId::ROOT.0 => 2 + node.subdirectories,
            // A removed directory that somebody still has open has neither name nor entries.
            NodeKind::Directory if node.names == 0 => 0,
            NodeKind::Directory => 2 + node.subdirectories,
            _ => node.names,
        };
        if node.nlink != expected {
            report.problem(format!(
                "inode {id} counts {} links, but {expected} were found",
                node.nlink
            ));
        }
        if node.kind == NodeKind::Directory && node.names > 1 {
            report.problem(format!("directory {id} has {} names, not one", node.names));
        }
        if node.held != node.allocated {
            report.problem(format!(
                "the row of inode {id} counts {} bytes allocated, but its extents hold {}",
                node.allocated, node.held
            ));
        }
    }
}

/// Every directory with a name lies below the root, by way of those it says that it lies in.
fn check_circles(inodes: &HashMap<InodeId, Seen>, report: &mut CheckReport) {
    let mut below: HashSet<InodeId> = HashSet::from([InodeId::ROOT]);
    let mut lost: HashSet<InodeId> = HashSet::new();
    let directories = inodes.iter().filter(|(_, node)| {
        // One that was removed and is still open lies nowhere.
        node.kind == NodeKind::Directory && node.names > 0
    });
    for (id, _) in directories {
        let (mut at, mut way) = (*id, Vec::new());
        let mut on_way = HashSet::new();
        let mut is_circle = false;
        let reaches = loop {
            if below.contains(&at) {
                break true;
            }
            // A parent that is missing is told where its entries are.
            let Some(node) = inodes.get(&at).filter(|_| !lost.contains(&at)) else {
                break false;
            };
            if !on_way.insert(at) {
                is_circle = true;
                break false;
            }
            way.push(at);
            at = node.parent;
        };
        if is_circle {
            report.problem(format!(
                "directory {} is inside itself: its parent directories never lead to the root",
                at.0
            ));
        }
        let ends = if reaches { &mut below } else { &mut lost };
        ends.extend(way);
    }
}

fn check_holes(
    reader: &Reader<'_>,
    inodes: &HashMap<InodeId, Seen>,
    report: &mut CheckReport,
) -> Result<Holes> {
    let holes = Holes::load(reader)?;
    for inode in holes.inodes() {
        if !inodes.contains_key(&inode) {
            report.problem(format!("a hole belongs to missing inode {}", inode.0));
        }
    }
    Ok(holes)
}

fn check_reservations(
    reader: &Reader<'_>,
    inodes: &HashMap<InodeId, Seen>,
    report: &mut CheckReport,
) -> Result<()> {
    let mut says: u64 = 0;
    for (inode, bytes) in reader.reservations()? {
        match inodes.get(&inode) {
            Some(node) if node.reserved == bytes => says += 1,
            _ => report.problem(format!(
                "inode {} has {bytes} bytes reserved, but its row says otherwise",
                inode.0
            )),
        }
        reader.reservation(inode)?;
    }
    let found = inodes.values().filter(|node| node.reserved > 0).count() as u64;
    if found > says {
        report.problem(format!("{} reservations are missing", found - says));
    }
    Ok(())
}

/// A hash of a version that is still to come would be taken for that of another content. [4.11.3]
fn check_hashes(
    reader: &Reader<'_>,
    inodes: &HashMap<InodeId, Seen>,
    report: &mut CheckReport,
) -> Result<()> {
    Ok(
        reader.for_each_content_hash(|row| match inodes.get(&row.inode) {
            Some(node) if node.kind == NodeKind::File && row.version <= node.content_version => {}
            _ => report.problem(format!(
                "there is a hash of version {} of inode {}, but no such version",
                row.version, row.inode.0
            )),
        })?,
    )
}

fn check_extents(
    reader: &Reader<'_>,
    inodes: &mut HashMap<InodeId, Seen>,
    holes: &Holes,
    report: &mut CheckReport,
) -> Result<HashMap<BlockNumber, u32>> {
    let mut references: HashMap<BlockNumber, u32> = HashMap::new();
    reader.for_each_region(|inode: InodeId, region: u64, list: Vec<Extent>| {
        report.extents += list.len() as u64;
        let Some(node) = inodes.get_mut(&inode) else {
            report.problem(format!("extents belong to missing inode {}", inode.0));
            return;
        };
        let mut last = region * REGION_BYTES;
        for extent in &list {
            *references.entry(extent.block).or_insert(0) += 1;
            let end = extents::end(extent);
            let one_cell = extent.len > 0 && extent.start / CELL_BYTES == (end - 1) / CELL_BYTES;
            if extent.start < last || !one_cell || (end - 1) / REGION_BYTES != region {
                report.problem(format!(
                    "inode {} has a misplaced extent at {}",
                    inode.0, extent.start
                ));
            }
            // An orphan being purged has content and no size that matters, and so has a hole.
            if end > node.size && node.nlink > 0 && holes.around(inode, region).is_none() {
                report.problem(format!(
                    "inode {} is {} bytes long, but has an extent up to {end}",
                    inode.0, node.size
                ));
            }
            last = end;
        }
        node.held += extents::bytes(&list);
    })?;
    Ok(references)
}

/// Blocks that may be without references for a while.
fn released(reader: &Reader<'_>) -> Result<HashSet<BlockNumber>> {
    let mut all = HashSet::new();
    let mut after = BlockNumber(0);
    loop {
        let page = reader.released(after, 4096)?;
        let Some(last) = page.last() else {
            return Ok(all);
        };
        after = *last;
        all.extend(page);
    }
}

fn no_keys(block: &Block) -> String {
    let (number, epoch) = (block.number.0, block.epoch.0);
    format!("block {number} is sealed under epoch {epoch}, whose keys are missing")
}

fn check_blocks(
    reader: &Reader<'_>,
    references: &HashMap<BlockNumber, u32>,
    some_are_unknown: bool,
    has_keys: &dyn Fn(Epoch) -> bool,
    report: &mut CheckReport,
) -> Result<HashMap<SegmentNumber, u64>> {
    let committed: HashMap<SegmentNumber, u64> = reader
        .segments()?
        .into_iter()
        .map(|segment| match has_no_file(&segment.id) {
            // Places there are none of a file.
            true => (segment.number, u64::MAX),
            false => (segment.number, segment.committed_len),
        })
        .collect();
    let mut live: HashMap<SegmentNumber, u64> = HashMap::new();
    let released = released(reader)?;
    let mut found = 0_u64;
    reader.for_each_block(|block: Block, waiting_len: Option<u64>| {
        report.blocks += 1;
        let number = block.number.0;
        let counted = references.get(&block.number).copied().unwrap_or(0);
        found += u64::from(counted > 0);
        let is_released = counted == 0 && released.contains(&block.number);
        // What a node names that does not open cannot be counted.
        let is_right = if some_are_unknown {
            counted <= block.references
        } else {
            counted == block.references && (counted > 0 || is_released)
        };
        if !is_right {
            report.problem(format!(
                "block {number} counts {} references, but {counted} were found",
                block.references
            ));
        }
        let len = sealed_len(block.clear_len as usize) as u64;
        match block.place {
            Place::Waiting if waiting_len == Some(len) && !has_keys(block.epoch) => {
                report.problem(no_keys(&block));
            }
            Place::Waiting if waiting_len == Some(len) => {}
            Place::Waiting => report.problem(format!(
                "block {number} is waiting for a segment, but its bytes are missing"
            )),
            Place::Segment(segment, offset) => {
                let has_bytes = committed.get(&segment) != Some(&u64::MAX);
                if has_bytes && !has_keys(block.epoch) {
                    report.problem(no_keys(&block));
                }
                *live.entry(segment).or_insert(0) += len;
                match committed.get(&segment) {
                    Some(end) if u64::from(offset) + len <= *end => {}
                    Some(_) => report.problem(format!(
                        "block {number} is beyond the end of segment {}",
                        segment.0
                    )),
                    None => report.problem(format!(
                        "block {number} is in segment {}, which is missing",
                        segment.0
                    )),
                }
            }
        }
    })?;
    if found < references.len() as u64 {
        report.problem(format!(
            "{} blocks that extents refer to are missing",
            references.len() as u64 - found
        ));
    }
    Ok(live)
}
