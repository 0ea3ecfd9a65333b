//! Finds the blocks to remove so that the content of a file, or of all files in a directory, leaves every snapshot.
//!
//! Takes   a path
//! Gives   the blocks that only this content uses, in any snapshot and under any name
//! Never   changes anything: trees stay as they were signed, and still list the file
//! Spec    spec/6-history.md, section 6.11
//!
//! Invariants
//!  (1) A block stays if anything else refers to it: another file in a snapshot, or any file of the current state.  [6.11.2]
//!  (2) Of an erasure on another device only content goes that some snapshot has which that device knew.          [6.11.9]
//!  (3) What a later snapshot has, whose tree has the erasure, somebody kept all the same: it stays.              [6.11.9]
//!
//! It opens every node of every tree twice, and no content.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use strongroom_format::limits::sealed_len;
use strongroom_format::{BlockId, Kind};
use strongroom_metadata::{BlockNumber, InodeId, Reads};

use crate::blocks::Blocks;
use crate::content::{Content, ExtentTrie};
use crate::entry::{Body, Entry};
use crate::erasures::{ERASURES, Erasures};
use crate::error::Error;
use crate::limits::PAGE_ROWS;
use crate::node::{entries_of_block, names_of_block};
use crate::read::Tree;
use crate::trie::{Node, Ref};

/// What was erased, or would be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErasedContent {
    /// Snapshots that had something at the path.
    pub states: u64,
    /// Files whose content it was, over all of them.
    pub files: u64,
    /// Sealed bytes that are gone.
    pub bytes: u64,
    /// Sealed bytes that stay, because other files have the same content.
    pub shared_bytes: u64,
    /// Segment files that still hold some of it, because other blocks in them are damaged.
    pub segments_left: u64,
}

/// What goes, and what stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Erasure {
    /// The blocks that go, each with the references that it has: with others it is used by something else.
    pub blocks: Vec<(BlockNumber, u32)>,
    /// What that comes to.
    pub content: ErasedContent,
}

/// A node of a file, whatever its names.
type File = (InodeId, u64);

/// What an erasure on another device is about.
#[derive(Clone, Copy, Debug)]
pub struct Noted<'a> {
    /// The id of the erasure.
    pub id: u64,
    /// The snapshots here that the other device knew.
    pub known: &'a HashSet<[u8; 32]>,
}

/// Finds what to erase at `path`: the content that files have in all snapshots, or in those that `noted` is about.
///
/// # Errors
/// `Error::NotFound` if no snapshot has anything there; `Error::Invalid` for the root; those of the blocks, and
/// `Error::Damaged` if a tree cannot be read: then nobody knows what else names the content.
pub fn to_erase<B: Blocks>(
    blocks: &B,
    reads: &Reads,
    path: &[u8],
    noted: Option<Noted<'_>>,
) -> Result<Erasure, B::Error> {
    let mut found = Search {
        blocks,
        reads,
        known: noted.map(|noted| noted.known),
        files: HashSet::new(),
        directories: HashSet::new(),
    };
    let states = found.files_at(path)?;
    let files = found.files;
    let nodes = nodes(reads)?;
    let known = noted.map(|noted| below(blocks, reads, &nodes, noted.known));
    let known = known.transpose()?;
    let later = match noted {
        Some(noted) => below(blocks, reads, &nodes, &later(blocks, reads, noted.id)?)?,
        None => HashSet::new(),
    };
    let mut content = HashSet::new();
    let mut lists = Lists::default();
    for (kind, id) in &nodes {
        for entry in entries(blocks, *kind, id)? {
            let is_target = files.contains(&(entry.inode, entry.birth_id));
            // (3)
            let stays = !is_target || later.contains(id);
            // (2)
            let goes = is_target && known.as_ref().is_none_or(|known| known.contains(id));
            match content_of(&entry) {
                Some(Content::Inline(extents)) if goes => {
                    content.extend(extents.iter().map(|extent| extent.block));
                }
                Some(Content::Listed(list)) => {
                    if goes {
                        lists.of_targets.push(list.block);
                    }
                    if stays {
                        lists.of_others.push(list.block);
                    }
                }
                _ => {}
            }
        }
    }
    each_extent(blocks, lists.of_targets, |block| {
        content.insert(block);
    })?;
    let mut shared = HashSet::new();
    each_extent(blocks, lists.of_others, |block| {
        if content.contains(&block) {
            shared.insert(block);
        }
    })?;
    let mut counts: HashMap<BlockId, u32> = HashMap::new();
    for (kind, id) in &nodes {
        for name in names_of_block(*kind, &blocks.need(*kind, id)?)? {
            if content.contains(&name) {
                *counts.entry(name).or_insert(0) += 1;
            }
        }
        for entry in entries(blocks, *kind, id)? {
            let is_target = files.contains(&(entry.inode, entry.birth_id));
            let stays = !is_target || later.contains(id);
            if let (Some(Content::Inline(extents)), true) = (content_of(&entry), stays) {
                let blocks = extents.iter().map(|extent| extent.block);
                shared.extend(blocks.filter(|block| content.contains(block)));
            }
        }
    }
    let mut erasure = Erasure::default();
    let told = &mut erasure.content;
    (told.states, told.files) = (states, files.len() as u64);
    for id in content {
        let number = reads.block_by_id(&id)?;
        let Some(block) = number.map(|number| reads.block(number)).transpose()? else {
            continue;
        };
        let Some(block) = block else { continue };
        let bytes = sealed_len(block.clear_len as usize) as u64;
        // (1): more references than nodes of trees have are those of files of now.
        if shared.contains(&id) || counts.get(&id) != Some(&block.references) {
            told.shared_bytes += bytes;
        } else {
            told.bytes += bytes;
            erasure.blocks.push((block.number, block.references));
        }
    }
    erasure.blocks.sort_unstable();
    Ok(erasure)
}

/// The snapshots whose trees have that erasure. (3)
fn later<B: Blocks>(
    blocks: &B,
    reads: &Reads,
    erasure: u64,
) -> Result<HashSet<[u8; 32]>, B::Error> {
    let tree = Tree::new(blocks);
    // Most snapshots have the attributes of the one before.
    let mut looked: HashMap<Vec<BlockId>, bool> = HashMap::new();
    let mut later = HashSet::new();
    for revision in reads.revisions()? {
        let root = reads.block_id(revision.root)?;
        let root = tree.root(&root.ok_or(Error::MissingBlock)?)?;
        let known = looked.get(&root.xattrs.0).copied();
        let has_it = match known {
            Some(has_it) => has_it,
            None => {
                let xattrs = tree.xattrs(&root)?;
                let value = xattrs.iter().find(|(name, _)| name == ERASURES);
                let list = value.and_then(|(_, value)| Erasures::decode(value).ok());
                list.is_some_and(|list| list.all().iter().any(|note| note.id == erasure))
            }
        };
        if known.is_none() {
            looked.insert(root.xattrs.0, has_it);
        }
        if has_it {
            later.insert(revision.id);
        }
    }
    Ok(later)
}

/// The nodes of the trees of these snapshots.
fn below<B: Blocks>(
    blocks: &B,
    reads: &Reads,
    nodes: &[(Kind, BlockId)],
    snapshots: &HashSet<[u8; 32]>,
) -> Result<HashSet<BlockId>, B::Error> {
    let kinds: HashMap<BlockId, Kind> = nodes.iter().map(|(kind, id)| (*id, *kind)).collect();
    let mut found = HashSet::new();
    let mut waiting = Vec::new();
    for revision in reads.revisions()? {
        if snapshots.contains(&revision.id) {
            waiting.extend(reads.block_id(revision.root)?);
        }
    }
    while let Some(id) = waiting.pop() {
        // What is no node is content.
        if let Some(kind) = kinds.get(&id)
            && found.insert(id)
        {
            waiting.extend(names_of_block(*kind, &blocks.need(*kind, &id)?)?);
        }
    }
    Ok(found)
}

/// The lists of extents of large files.
#[derive(Default)]
struct Lists {
    of_targets: Vec<BlockId>,
    of_others: Vec<BlockId>,
}

const fn content_of(entry: &Entry) -> Option<&Content> {
    match &entry.body {
        Body::File { content, .. } => Some(content),
        _ => None,
    }
}

/// All blocks of trees.
fn nodes(reads: &Reads) -> Result<Vec<(Kind, BlockId)>, Error> {
    let mut nodes = Vec::new();
    reads.for_each_block(|block, _| {
        if !block.kind.is_data() {
            nodes.push((block.kind, block.id));
        }
    })?;
    Ok(nodes)
}

fn entries<B: Blocks>(blocks: &B, kind: Kind, id: &BlockId) -> Result<Vec<Entry>, B::Error> {
    if kind.plain() != Kind::TreeNode {
        return Ok(Vec::new());
    }
    Ok(entries_of_block(&blocks.need(kind, id)?)?)
}

/// Gives the block of every extent in `lists`, each node once.
fn each_extent<B: Blocks>(
    blocks: &B,
    lists: Vec<BlockId>,
    mut take: impl FnMut(BlockId),
) -> Result<(), B::Error> {
    let mut seen: HashSet<BlockId> = HashSet::new();
    let mut waiting = lists;
    while let Some(id) = waiting.pop() {
        if !seen.insert(id) {
            continue;
        }
        let bytes = blocks.need(Kind::ExtentList, &id)?;
        match Node::<ExtentTrie>::decode(&bytes)? {
            Node::Leaf(extents) => extents.iter().for_each(|extent| take(extent.block)),
            Node::Branch(children) => {
                waiting.extend(children.iter().flatten().map(|child| child.block));
            }
        }
    }
    Ok(())
}

/// Looks for the files at a path.
struct Search<'a, B: Blocks> {
    blocks: &'a B,
    reads: &'a Reads,
    known: Option<&'a HashSet<[u8; 32]>>,
    files: HashSet<File>,
    /// Directories that were gone through: states share them.
    directories: HashSet<BlockId>,
}

impl<B: Blocks> Search<'_, B> {
    /// Collects the files at and below `path` of all states; gives how many states have something there.
    fn files_at(&mut self, path: &[u8]) -> Result<u64, B::Error> {
        let parts: Vec<&[u8]> = path
            .split(|byte| *byte == b'/')
            .filter(|part| !part.is_empty())
            .collect();
        if parts.is_empty() {
            return Err(Error::Invalid("the root cannot be erased; remove the snapshots").into());
        }
        let tree = Tree::new(self.blocks);
        let mut states = 0;
        for revision in self.reads.revisions()? {
            if self
                .known
                .is_some_and(|known| !known.contains(&revision.id))
            {
                continue;
            }
            let root = self.reads.block_id(revision.root)?;
            let mut at = Some(tree.root(&root.ok_or(Error::MissingBlock)?)?);
            for part in &parts {
                let Some(Body::Directory(directory)) = at.take().map(|entry| entry.body) else {
                    break;
                };
                at = tree.lookup(directory, part)?;
            }
            if let Some(entry) = at {
                states += 1;
                self.collect(&tree, &entry)?;
            }
        }
        if states == 0 {
            return Err(Error::NotFound.into());
        }
        Ok(states)
    }

    /// Collects the files at and below `entry`, each directory once.
    fn collect(&mut self, tree: &Tree<'_, B>, entry: &Entry) -> Result<(), B::Error> {
        let mut waiting = Vec::new();
        self.note(entry, &mut waiting);
        while let Some(directory) = waiting.pop() {
            let mut position = 0;
            loop {
                let page = tree.list(Some(directory), position, PAGE_ROWS)?;
                let Some(last) = page.last() else { break };
                position = last.position;
                for listed in &page {
                    self.note(&listed.entry, &mut waiting);
                }
            }
        }
        Ok(())
    }

    fn note(&mut self, entry: &Entry, waiting: &mut Vec<Ref>) {
        match &entry.body {
            Body::File { .. } => {
                self.files.insert((entry.inode, entry.birth_id));
            }
            Body::Directory(Some(at)) if self.directories.insert(at.block) => waiting.push(*at),
            _ => {}
        }
    }
}
