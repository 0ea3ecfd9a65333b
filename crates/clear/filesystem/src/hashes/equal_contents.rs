//! Finds files by the hashes of their contents, and files with equal contents.
//!
//! Takes   a range of hashes
//! Gives   the files whose content has such a hash now, and the bytes that equal files take beyond the first of them
//! Never   reads content, or gives a file whose content changed since it was hashed
//! Spec    spec/4-metadata.md, 4.11

use std::collections::HashSet;

use strongroom_crypto::HashAlgorithm;
use strongroom_format::limits::sealed_len;
use strongroom_metadata::{BlockNumber, ContentHash, InodeId, NodeKind, Transaction};

use crate::core::Core;
use crate::trees::engine::Engine;
use crate::{Error, Filesystem, Result};

/// Hashes that are looked at in one hold of a connection.
const ROWS_AT_ONCE: usize = 256;

/// Hashes that one call looks at, unless more files have one and the same.
const ROWS_PER_CALL: usize = 65_536;

/// Files of one content that are listed; more are counted.
const LISTED_FILES_MAX: usize = 1_024;

/// Files that one call lists, unless more have one and the same content.
const FILES_PER_CALL: usize = 1_024;

/// Blocks of equal files that are remembered, so that none is counted twice: 16 MiB of memory.
const COUNTED_BLOCKS_MAX: usize = 1 << 20;

/// A place in the order of hashes: a hash, and a file that has it.
pub type HashPosition = ([u8; 32], InodeId);

/// A file, found by its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedFile {
    /// The file.
    pub inode: InodeId,
    /// The hash of its content.
    pub hash: [u8; 32],
    /// Its length.
    pub size: u64,
    /// How many names it has.
    pub nlink: u32,
}

/// Files with the same content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EqualFiles {
    /// At least two, by their numbers; many are cut off.
    pub files: Vec<NamedFile>,
    /// How many were cut off.
    pub more: u64,
    /// Sealed bytes of the blocks that the listed files have beyond those of the first. 0: they share all.
    pub extra_bytes: u64,
}

impl Filesystem {
    /// Up to `limit` files behind `after` that have a name and no stored hash of their content, with their lengths.
    /// After 0: of everything acknowledged so far.
    ///
    /// # Errors
    /// As `sync`; of the store.
    pub fn files_without_hash(
        &self,
        algorithm: HashAlgorithm,
        after: InodeId,
        limit: usize,
    ) -> Result<Vec<(InodeId, u64)>> {
        if after == InodeId(0) {
            self.sync()?;
        }
        let reader = self.core.store.reader()?;
        Ok(reader.files_without_hash(algorithm.number(), after, limit)?)
    }

    /// The files behind `after` whose hash is not above `last`, a page of them in the order of hashes; and where the next
    /// page begins, if there is one.
    ///
    /// # Errors
    /// Of the store.
    pub fn files_with_hash(
        &self,
        algorithm: HashAlgorithm,
        after: &HashPosition,
        last: &[u8; 32],
    ) -> Result<(Vec<NamedFile>, Option<HashPosition>)> {
        let writer = self.core.store.lock();
        let rows = writer.content_hashes(algorithm.number(), after, last, ROWS_AT_ONCE)?;
        let next = rows
            .last()
            .filter(|_| rows.len() == ROWS_AT_ONCE)
            .map(|row| (row.hash, row.inode));
        let mut files = Vec::with_capacity(rows.len());
        for row in rows {
            files.extend(current(&self.core, &writer, &row)?);
        }
        Ok((files, next))
    }

    /// Those of `inodes` that are files with a name, each with `hash`, which the caller has just been given for it.
    ///
    /// # Errors
    /// Of the store.
    pub fn named_files(&self, inodes: &[(InodeId, [u8; 32])]) -> Result<Vec<NamedFile>> {
        let mut files = Vec::with_capacity(inodes.len());
        for (inode, hash) in inodes {
            let attributes = match self.attributes(*inode) {
                Err(Error::Stale) => continue,
                attributes => attributes?,
            };
            if attributes.kind == NodeKind::File && attributes.nlink > 0 {
                files.push(NamedFile {
                    inode: *inode,
                    hash: *hash,
                    size: attributes.size,
                    nlink: attributes.nlink,
                });
            }
        }
        Ok(files)
    }

    /// Files of at least `size_min` bytes that have the same content as another, those whose hash is behind `after`: a page
    /// of them in the order of hashes; and the hash behind which the next begins, if there is one.
    ///
    /// # Errors
    /// As `sync`; of the store.
    pub fn equal_files(
        &self,
        algorithm: HashAlgorithm,
        after: Option<[u8; 32]>,
        size_min: u64,
    ) -> Result<(Vec<EqualFiles>, Option<[u8; 32]>)> {
        if after.is_none() {
            Engine::of(&self.core).commit()?;
        }
        let mut found = Vec::new();
        let mut run = Run::default();
        let (mut seen, mut listed) = (0, 0);
        let mut at: HashPosition = after.map_or(([0; 32], InodeId(0)), |hash| (hash, LAST));
        loop {
            let page = {
                let reader = self.core.store.reader()?;
                reader.content_hashes(algorithm.number(), &at, &[0xff; 32], ROWS_AT_ONCE)?
            };
            let Some(last) = page.last() else {
                found.extend(self.equal(run, size_min)?);
                return Ok((found, None));
            };
            at = (last.hash, last.inode);
            seen += page.len();
            for row in page {
                if run.takes(&row) {
                    continue;
                }
                let ended = std::mem::replace(&mut run, Run::of(row));
                let hash = ended.hash();
                if let Some(equal) = self.equal(ended, size_min)? {
                    listed += equal.files.len();
                    found.push(equal);
                }
                if seen >= ROWS_PER_CALL || listed >= FILES_PER_CALL {
                    return Ok((found, hash));
                }
            }
        }
    }

    /// The files of a run of equal hashes, if there are two that have it still.
    fn equal(&self, run: Run, size_min: u64) -> Result<Option<EqualFiles>> {
        if run.rows.len() < 2 {
            return Ok(None);
        }
        let mut files = Vec::with_capacity(run.rows.len());
        for row in &run.rows {
            let writer = self.core.store.lock();
            files.extend(current(&self.core, &writer, row)?);
        }
        // Files without content are all equal, and that saves nothing.
        let size_min = size_min.max(1);
        if files.len() < 2 || files[0].size < size_min {
            return Ok(None);
        }
        let extra_bytes = extra_bytes(&self.core, &files)?;
        Ok(Some(EqualFiles {
            files,
            more: run.more,
            extra_bytes,
        }))
    }
}

/// Behind every file of a hash.
const LAST: InodeId = InodeId(u64::MAX);

/// Rows of one hash, one after the other.
#[derive(Default)]
struct Run {
    rows: Vec<ContentHash>,
    more: u64,
}

impl Run {
    fn of(row: ContentHash) -> Self {
        Self {
            rows: vec![row],
            more: 0,
        }
    }

    fn hash(&self) -> Option<[u8; 32]> {
        self.rows.first().map(|row| row.hash)
    }

    /// Takes a row of the same hash; gives whether it is one.
    fn takes(&mut self, row: &ContentHash) -> bool {
        if self.hash() != Some(row.hash) {
            return false;
        }
        if self.rows.len() < LISTED_FILES_MAX {
            self.rows.push(*row);
        } else {
            self.more += 1;
        }
        true
    }
}

/// The file of `row`, if it has a name and that content still.
fn current(core: &Core, writer: &Transaction<'_>, row: &ContentHash) -> Result<Option<NamedFile>> {
    let inode = match core.content.nodes.find(row.inode) {
        Some(node) => Some(node.lock().inode.clone()),
        None => writer.inode(row.inode)?,
    };
    let current = inode.filter(|inode| {
        inode.kind == NodeKind::File && inode.nlink > 0 && inode.content_version == row.version
    });
    Ok(current.map(|inode| NamedFile {
        inode: row.inode,
        hash: row.hash,
        size: inode.size,
        nlink: inode.nlink,
    }))
}

/// Sealed bytes of the blocks that `files` have beyond those that the first has in the same region.
fn extra_bytes(core: &Core, files: &[NamedFile]) -> Result<u64> {
    let Some((first, others)) = files.split_first() else {
        return Ok(0);
    };
    let mut counted: HashSet<BlockNumber> = HashSet::new();
    let mut bytes = 0;
    for other in others {
        let mut from = 0;
        loop {
            let writer = core.store.lock();
            let Some(region) = core.content.holes.next_region(&writer, other.inode, from)? else {
                break;
            };
            from = region + 1;
            let of_first = blocks(core, &writer, first.inode, region)?;
            for number in blocks(core, &writer, other.inode, region)? {
                if of_first.contains(&number) || counted.contains(&number) {
                    continue;
                }
                if counted.len() < COUNTED_BLOCKS_MAX {
                    counted.insert(number);
                }
                let block = writer.block(number)?;
                bytes += block.map_or(0, |block| sealed_len(block.clear_len as usize) as u64);
            }
        }
    }
    Ok(bytes)
}

/// The blocks that a region of a file names.
fn blocks(
    core: &Core,
    writer: &Transaction<'_>,
    inode: InodeId,
    region: u64,
) -> Result<HashSet<BlockNumber>> {
    if core.content.holes.around(inode, region).is_some() {
        return Ok(HashSet::new());
    }
    let extents = writer.region(inode, region)?;
    Ok(extents.iter().map(|extent| extent.block).collect())
}
