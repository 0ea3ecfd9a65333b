//! Reads a byte range of a file: from memory where memory is newer, else from blocks.
//!
//! Takes   an inode and a range
//! Gives   the bytes as of one moment; holes as zeros
//! Never   gives bytes of a block that did not open
//!
//! Invariants
//!  (1) All places of a range are looked up while the node stays locked, in this order: active → draining → extents.
//!  (2) Disk and decryption run without locks; a block that was moved or freed meanwhile is looked up again.
//!  (3) The remembered place of a block is tried first, without the database. A block that is no longer there is not
//!      reported as damaged: only its place in the database counts.
//!  (4) A block whose segment is away is fetched from a remote with no lock held, and then looked up again.

use std::ops::Range;

use strongroom_format::SegmentId;
use strongroom_metadata::{Extent, InodeId, REGION_BYTES, Transaction};

use crate::blocks::away::bring_back;
use crate::blocks::fetch::{Fetch, Fetched, fetch_all, fetches_of};
use crate::content::extents;
use crate::content::node::{Node, NodeState};
use crate::content::overlay::Part;
use crate::content::region_cache::FoundBlock;
use crate::core::Core;
use crate::{Error, Filesystem, Result};

/// How often a read looks up again before it reports damage: each time means that a block was moved.
const ATTEMPTS: usize = 4;

impl Filesystem {
    /// Fills `buffer` from `offset`; gives the count of bytes before the end of the file.
    ///
    /// # Errors
    /// `Damaged` or `Erased` with the first offset that cannot be read; what precedes it can be read by itself.
    pub fn read(&self, inode: InodeId, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        if let Some(snapshots) = self.snapshots(inode) {
            return snapshots.read(inode, offset, buffer);
        }
        let node = self.core.node(inode)?;
        let mut sources = Sources::Remembered;
        let mut attempts = 0;
        while attempts <= ATTEMPTS {
            match read_once(&self.core, &node, offset, buffer, sources)? {
                Once::Filled(count) => return Ok(count),
                // (4), once the database has said that it lies there. (3)
                Once::Missing(id)
                    if sources == Sources::Database && bring_back(&self.core, id)? => {}
                Once::Moved | Once::Missing(_) => attempts += 1,
            }
            node.lock().regions.forget_blocks();
            sources = Sources::Database;
        }
        Err(Error::Damaged { inode, offset })
    }
}

/// Where a read may look blocks up. (3)
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sources {
    /// Where they were found before, else in the database.
    Remembered,
    Database,
}

/// What came of looking blocks up and reading them.
enum Once {
    /// So many bytes.
    Filled(usize),
    /// A block was moved meanwhile.
    Moved,
    /// The file of this segment is not here.
    Missing(SegmentId),
}

fn read_once(
    core: &Core,
    node: &Node,
    offset: u64,
    buffer: &mut [u8],
    sources: Sources,
) -> Result<Once> {
    let mut below = Vec::new();
    let mut fetches = None;
    let mut state = node.lock();
    let mut len = readable(&state, offset, buffer.len())?;
    fill_from_memory(&state, offset, &mut buffer[..len], &mut below);
    if below.is_empty() {
        return Ok(Once::Filled(len));
    }
    if sources == Sources::Remembered {
        fetches = remembered(&mut state, &below, offset);
    }
    drop(state);
    let fetches = match fetches {
        Some(fetches) => fetches,
        None => {
            // The writer is taken before the node, and what memory holds may have changed meanwhile.
            let mut writer = core.store.lock();
            below.clear();
            let mut state = node.lock();
            len = readable(&state, offset, buffer.len())?;
            fill_from_memory(&state, offset, &mut buffer[..len], &mut below);
            let mut fetches = Vec::new();
            for range in &below {
                resolve(
                    core,
                    &mut writer,
                    node.id,
                    &mut state,
                    range.clone(),
                    offset,
                    &mut fetches,
                )?;
            }
            fetches
        }
    };
    zero_holes(&mut buffer[..len], &below, offset, &fetches);
    match fetch_all(core, node.id, offset, &mut buffer[..len], fetches)? {
        Fetched::Whole => Ok(Once::Filled(len)),
        Fetched::Moved => Ok(Once::Moved),
        Fetched::Missing(id) => Ok(Once::Missing(id)),
    }
}

/// The blocks behind `ranges`, if memory knows them all.
fn remembered(state: &mut NodeState, ranges: &[Range<u64>], offset: u64) -> Option<Vec<Fetch>> {
    let mut fetches = Vec::new();
    for range in ranges {
        for region in range.start / REGION_BYTES..=(range.end - 1) / REGION_BYTES {
            let extents = state.regions.get(region)?;
            let first = extents.partition_point(|extent| extents::end(extent) <= range.start);
            for extent in &extents[first..] {
                let Some(part) = extents::part(extent, range) else {
                    break;
                };
                let found = state.regions.block(region, part.block)?;
                let mut fetch = Fetch::new(found.block, &part, offset)?;
                fetch.location = Some(found.location);
                fetch.remembered = true;
                fetches.push(fetch);
            }
        }
    }
    Some(fetches)
}

/// How many of `wanted` bytes at `offset` lie before the end.
fn readable(state: &NodeState, offset: u64, wanted: usize) -> Result<usize> {
    state.check_file()?;
    let left = state.inode.size.saturating_sub(offset);
    Ok(usize::try_from(left).unwrap_or(usize::MAX).min(wanted))
}

/// Copies what memory holds, and names the ranges that the extents must answer: they are left as they were.
fn fill_from_memory(state: &NodeState, offset: u64, out: &mut [u8], below: &mut Vec<Range<u64>>) {
    let range = offset..offset + out.len() as u64;
    let place = |range: &Range<u64>| place(range, offset);
    state.visit(range, |range, part| match part {
        Part::Data(bytes) => out[place(&range)].copy_from_slice(bytes),
        Part::Hole => out[place(&range)].fill(0),
        Part::Below => below.push(range),
    });
}

/// Where in a buffer that begins at `offset` the bytes of `range`, which lie in it, go.
fn place(range: &Range<u64>, offset: u64) -> Range<usize> {
    // Both lie inside the buffer, whose length is a usize.
    usize::try_from(range.start - offset).unwrap_or(0)
        ..usize::try_from(range.end - offset).unwrap_or(0)
}

/// Zeros what of `ranges` none of `fetches`, which are in order, will fill.
fn zero_holes(out: &mut [u8], ranges: &[Range<u64>], offset: u64, fetches: &[Fetch]) {
    let mut fetches = fetches.iter().map(|fetch| &fetch.out).peekable();
    for range in ranges {
        let range = place(range, offset);
        let mut from = range.start;
        while let Some(filled) = fetches.next_if(|filled| filled.start < range.end) {
            if from < filled.start {
                out[from..filled.start].fill(0);
            }
            from = from.max(filled.end);
        }
        if from < range.end {
            out[from..range.end].fill(0);
        }
    }
}

/// Names the blocks behind `range`. What no extent holds is a hole.
fn resolve(
    core: &Core,
    writer: &mut Transaction<'_>,
    inode: InodeId,
    state: &mut NodeState,
    range: Range<u64>,
    offset: u64,
    fetches: &mut Vec<Fetch>,
) -> Result<()> {
    for region in range.start / REGION_BYTES..=(range.end - 1) / REGION_BYTES {
        let extents = core.content.region(writer, inode, state, region)?;
        let first = extents.partition_point(|extent| extents::end(extent) <= range.start);
        let parts = extents[first..].iter();
        let parts: Vec<Extent> = parts
            .map_while(|extent| extents::part(extent, &range))
            .collect();
        for fetch in fetches_of(writer, inode, &parts, offset)? {
            if let Some(location) = fetch.location {
                let block = fetch.block.clone();
                let found = FoundBlock { block, location };
                state.regions.remember(region, found);
            }
            fetches.push(fetch);
        }
        core.content.nodes.bound_extents(state);
    }
    Ok(())
}
