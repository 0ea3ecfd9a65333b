//! Translates blocks that do not open into terms that people know: byte ranges of files, and the files' paths.
//!
//! Takes   numbers of blocks
//! Gives   ranges of nodes, and the paths of nodes
//! Never   opens a block, or changes anything
//! Spec    spec/7-recovery.md

pub(crate) mod backup;
pub(crate) mod check;
pub(crate) mod isolate;
pub(crate) mod lost_chunks;
pub(crate) mod verify;

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use strongroom_format::{BlockId, Kind};
use strongroom_metadata::{BlockNumber, Extent, InodeId, Reader};

use crate::limits::{DIRECTORY_DEPTH_MAX, REPORTED_NAMES_MAX};
use crate::{Filesystem, LostChunks, Result};

/// Bytes of a file that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedRange {
    /// The file.
    pub inode: InodeId,
    /// Which bytes.
    pub bytes: Range<u64>,
}

impl Filesystem {
    /// Which bytes of which files lie in `blocks`, in the order of files and bytes; neighbours as one range.
    ///
    /// Looks at the extents of all files.
    ///
    /// # Errors
    /// Of the store.
    pub fn ranges_of_blocks(
        &self,
        blocks: &HashMap<BlockNumber, LostChunks>,
    ) -> Result<Vec<DamagedRange>> {
        let mut found: Vec<DamagedRange> = Vec::new();
        if blocks.is_empty() {
            return Ok(found);
        }
        let reader = self.core.store.reader()?;
        let snapshot = reader.snapshot()?;
        snapshot.for_each_region(|inode, region, list| {
            if self.core.content.holes.around(inode, region).is_some() {
                return;
            }
            for bytes in list.iter().flat_map(|extent| lost_of(extent, blocks)) {
                match found.last_mut() {
                    Some(last) if last.inode == inode && last.bytes.end == bytes.start => {
                        last.bytes.end = bytes.end;
                    }
                    _ => found.push(DamagedRange { inode, bytes }),
                }
            }
        })?;
        for range in &mut found {
            let size = snapshot.inode(range.inode)?.map_or(0, |node| node.size);
            range.bytes.end = range.bytes.end.min(size);
        }
        found.retain(|range| range.bytes.start < range.bytes.end);
        Ok(found)
    }

    /// The names and kinds of `blocks`.
    ///
    /// # Errors
    /// Of the store.
    pub fn names_of_blocks(
        &self,
        blocks: &HashMap<BlockNumber, LostChunks>,
    ) -> Result<Vec<(BlockId, Kind, LostChunks)>> {
        let reader = self.core.store.reader()?;
        let mut names = Vec::with_capacity(blocks.len());
        for (number, chunks) in blocks {
            if let Some(block) = reader.block(*number)? {
                names.push((block.id, block.kind, *chunks));
            }
        }
        Ok(names)
    }

    /// The paths of `inode` from the root, at most a few of many; none for what has no name any more.
    ///
    /// # Errors
    /// Of the store.
    pub fn paths(&self, inode: InodeId) -> Result<Vec<Vec<u8>>> {
        self.paths_up_to(inode, REPORTED_NAMES_MAX)
    }

    /// The same, at most `limit` of them.
    ///
    /// # Errors
    /// Of the store.
    pub fn paths_up_to(&self, inode: InodeId, limit: usize) -> Result<Vec<Vec<u8>>> {
        let reader = self.core.store.reader()?;
        let snapshot = reader.snapshot()?;
        if inode == InodeId::ROOT {
            return Ok(vec![b"/".to_vec()]);
        }
        let mut paths = Vec::new();
        for (parent, name) in snapshot.names_of(inode, None, limit)? {
            if let Some(path) = path_of(&snapshot, parent, name)? {
                paths.push(path);
            }
        }
        Ok(paths)
    }
}

/// The bytes of a file that an extent cannot give.
fn lost_of(extent: &Extent, blocks: &HashMap<BlockNumber, LostChunks>) -> Vec<Range<u64>> {
    let Some(chunks) = blocks.get(&extent.block) else {
        return Vec::new();
    };
    let (first, last) = (extent.block_offset, extent.block_offset + extent.len);
    let inside = |lost: Range<u32>| {
        let (start, end) = (lost.start.max(first), lost.end.min(last));
        (start < end)
            .then(|| extent.start + u64::from(start - first)..extent.start + u64::from(end - first))
    };
    chunks.ranges().into_iter().filter_map(inside).collect()
}

/// The path of `name` in `parent`; `None` if the way up does not reach the root.
fn path_of(reader: &Reader<'_>, parent: InodeId, name: Vec<u8>) -> Result<Option<Vec<u8>>> {
    let mut parts = vec![name];
    let mut at = parent;
    let mut seen = HashSet::new();
    while at != InodeId::ROOT {
        let Some((up, name)) = reader.names_of(at, None, 1)?.pop() else {
            return Ok(None);
        };
        // In a circle, or deeper than anything can be.
        if !seen.insert(at) || parts.len() >= DIRECTORY_DEPTH_MAX {
            return Ok(None);
        }
        parts.push(name);
        at = up;
    }
    let mut path = Vec::new();
    for part in parts.iter().rev() {
        path.push(b'/');
        path.extend_from_slice(part);
    }
    Ok(Some(path))
}
