//! Finds the blocks to remove so that the content of a file, or of all files in a directory, leaves every snapshot.
//!
//! Takes   a path, or several
//! Gives   for each path, the blocks that only its content uses, in any snapshot and under any name
//! Never   changes anything: trees stay as they were signed, and still list the file
//! Spec    spec/6-history.md, section 6.11
//!
//! Invariants
//!  (1) A block stays if anything else refers to it: another file in a snapshot, or any file of the current state.  [6.11.2]
//!  (2) An erasure by another device removes only content that is in a snapshot which that device knew.           [6.11.9]
//!  (3) Content stays if a snapshot has both it and the note of the erasure: its device knew that, and kept it.    [6.11.9]
//!  (4) Nothing is found if a node of any tree is lost, on the path or not: that node may name the content for another file.   [6.11.2]
//!
//! It opens every node of every tree a few times, and no content. It needs no further passes for several
//! paths: what it remembers of a node or a block has one bit for each path.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use strongroom_format::limits::sealed_len;
use strongroom_format::{BlockId, Kind};
use strongroom_metadata::{BlockNumber, InodeId, Reads};

use crate::blocks::Blocks;
use crate::content::{Content, ExtentTrie};
use crate::entry::{Body, Entry};
use crate::erasures::{ERASURES, ErasureNote, Erasures};
use crate::error::Error;
use crate::limits::{ERASURES_AT_ONCE, PAGE_ROWS};
use crate::node::{contents_of_block, entries_of_block, names_of_block};
use crate::read::Tree;
use crate::revision::Revision;
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
    pub(crate) id: u64,
    /// The snapshots here that the other device knew.
    pub(crate) known: &'a HashSet<[u8; 32]>,
}

/// What is to be erased.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The content of all files at and below it.
    pub path: &'a [u8],
    /// What that is about, if another device erased it.
    pub noted: Option<Noted<'a>>,
}

/// A bit for each of several targets, the lowest for the first.
type Bits = u64;

/// Bits of blocks; those that are not there have none.
type BitsOf = HashMap<BlockId, Bits>;

/// Finds what to erase at the path of `target`: the content that files have in all snapshots, or in those that it is about.
///
/// # Errors
/// `Error::NotFound` if no snapshot has anything there; `Error::Invalid` for the root; those of the blocks, and
/// `Error::Damaged` or `Error::MissingBlock` if a tree cannot be read: then nobody knows what else names the content.
pub fn to_erase<B: Blocks>(
    blocks: &B,
    reads: &Reads,
    target: Target<'_>,
) -> Result<Erasure, B::Error> {
    let found = to_erase_each(blocks, reads, &[target])?;
    found
        .into_iter()
        .next()
        .expect("there is one for each target")
}

/// The same for each of at most `ERASURES_AT_ONCE` targets, as if each were the only one.
///
/// # Errors
/// Of each those of what is at its path, and of all together as `to_erase`.
fn to_erase_each<B: Blocks>(
    blocks: &B,
    reads: &Reads,
    targets: &[Target<'_>],
) -> Result<Vec<Result<Erasure, B::Error>>, B::Error> {
    assert!(targets.len() <= ERASURES_AT_ONCE, "each has a bit");
    let mut files: HashMap<File, Bits> = HashMap::new();
    let mut each = Vec::with_capacity(targets.len());
    for (at, target) in targets.iter().enumerate() {
        let mut search = Search {
            blocks,
            reads,
            known: target.noted.map(|noted| noted.known),
            files: HashSet::new(),
            directories: HashSet::new(),
        };
        let states = search.files_at(target.path);
        each.push(states.map(|states| {
            let content = ErasedContent {
                states,
                files: search.files.len() as u64,
                ..ErasedContent::default()
            };
            for file in search.files {
                *files.entry(file).or_default() |= 1 << at;
            }
            Erasure {
                content,
                ..Erasure::default()
            }
        }));
    }
    if each.iter().all(Result::is_err) {
        return Ok(each);
    }
    let passes = Passes::new(blocks, reads, files, targets)?;
    let (content, mut shared) = passes.content()?;
    let counts = passes.count(&content, &mut shared)?;
    for (id, bits) in content {
        let number = reads.block_by_id(&id)?;
        let Some(block) = number.map(|number| reads.block(number)).transpose()? else {
            continue;
        };
        let Some(block) = block else { continue };
        let bytes = sealed_len(block.clear_len as usize) as u64;
        // (1): more references than nodes of trees have are those of files of now.
        let is_in_use = counts.get(&id) != Some(&block.references);
        let shared = shared.get(&id).copied().unwrap_or(0);
        for (at, erasure) in each.iter_mut().enumerate() {
            let bit: Bits = 1 << at;
            let Ok(erasure) = erasure else { continue };
            if bits & bit == 0 {
                continue;
            }
            if is_in_use || shared & bit != 0 {
                erasure.content.shared_bytes += bytes;
            } else {
                erasure.content.bytes += bytes;
                erasure.blocks.push((block.number, block.references));
            }
        }
    }
    for erasure in each.iter_mut().flatten() {
        erasure.blocks.sort_unstable();
    }
    Ok(each)
}

/// The same for erasures that the tree notes, at most `ERASURES_AT_ONCE`; `had`: the snapshots that are kept.
///
/// # Errors
/// As `to_erase_each`.
pub fn to_erase_noted<'r, B: Blocks>(
    blocks: &B,
    reads: &Reads,
    notes: &[ErasureNote],
    had: impl Iterator<Item = &'r Revision> + Clone,
) -> Result<Vec<Result<Erasure, B::Error>>, B::Error> {
    let known_by = |note: &ErasureNote| -> HashSet<[u8; 32]> {
        let known = had.clone().filter(|revision| note.knew(revision));
        known.map(|revision| revision.id.0).collect()
    };
    let known: Vec<HashSet<[u8; 32]>> = notes.iter().map(known_by).collect();
    let targets = notes.iter().zip(&known).map(|(note, known)| Target {
        path: &note.path,
        noted: Some(Noted { id: note.id, known }),
    });
    let targets: Vec<Target<'_>> = targets.collect();
    to_erase_each(blocks, reads, &targets)
}

/// What goes through all nodes of all trees.
struct Passes<'a, B: Blocks> {
    blocks: &'a B,
    /// In the order of their rows, which is about that in which they lie in segments.
    nodes: Vec<(Kind, BlockId)>,
    kinds: HashMap<BlockId, Kind>,
    /// Which targets a file is of.
    files: HashMap<File, Bits>,
    /// Those that there are.
    all: Bits,
    /// Those that are about all snapshots.
    unbounded: Bits,
    /// Of each node, for which of the others it is in a snapshot that they are about. (2)
    known: BitsOf,
    /// Of each node, for which it is in a snapshot that has the erasure. (3)
    later: BitsOf,
}

impl<'a, B: Blocks> Passes<'a, B> {
    fn new(
        blocks: &'a B,
        reads: &Reads,
        files: HashMap<File, Bits>,
        targets: &[Target<'_>],
    ) -> Result<Self, B::Error> {
        let nodes = nodes(reads)?;
        let kinds: HashMap<BlockId, Kind> = nodes.iter().map(|(kind, id)| (*id, *kind)).collect();
        let later = later(blocks, reads, targets)?;
        let (mut of_known, mut of_later) = (Vec::new(), Vec::new());
        for revision in reads.revisions()? {
            if let Some(root) = reads.block_id(revision.root)? {
                let knows = |noted: &Noted<'_>| noted.known.contains(&revision.id);
                of_known.push((root, bits(targets, |noted| noted.is_some_and(knows))));
                of_later.push((root, later.get(&revision.id).copied().unwrap_or(0)));
            }
        }
        Ok(Self {
            known: below(blocks, &kinds, of_known)?,
            later: below(blocks, &kinds, of_later)?,
            all: bits(targets, |_| true),
            unbounded: bits(targets, |noted| noted.is_none()),
            blocks,
            nodes,
            kinds,
            files,
        })
    }

    /// For which targets the content of an entry of `node` goes, and for which it stays.
    fn of_entry(&self, node: &BlockId, entry: &Entry) -> (Bits, Bits) {
        let of = |bits: &BitsOf| bits.get(node).copied().unwrap_or(0);
        let file = (entry.inode, entry.birth_id);
        let is_target = self.files.get(&file).copied().unwrap_or(0);
        // (2) (3)
        let goes = is_target & (self.unbounded | of(&self.known));
        (goes, self.all & (!is_target | of(&self.later)))
    }

    /// The blocks of content that goes, and those of them that lists of extents name which stay.
    fn content(&self) -> Result<(BitsOf, BitsOf), B::Error> {
        let (mut content, mut shared) = (BitsOf::new(), BitsOf::new());
        let mut lists = Lists::default();
        for (kind, id) in &self.nodes {
            for entry in entries(self.blocks, *kind, id)? {
                let (goes, stays) = self.of_entry(id, &entry);
                match content_of(&entry) {
                    Some(Content::Inline(extents)) if goes != 0 => {
                        for extent in extents {
                            *content.entry(extent.block).or_default() |= goes;
                        }
                    }
                    Some(Content::Listed(list)) => {
                        *lists.of_targets.entry(list.block).or_default() |= goes;
                        *lists.of_others.entry(list.block).or_default() |= stays;
                    }
                    _ => {}
                }
            }
        }
        each_extent(self.blocks, lists.of_targets, |block, goes| {
            *content.entry(block).or_default() |= goes;
        })?;
        each_extent(self.blocks, lists.of_others, |block, stays| {
            if content.contains_key(&block) {
                *shared.entry(block).or_default() |= stays;
            }
        })?;
        Ok((content, shared))
    }

    /// How often nodes name each block of `content`. What is named beside a name that stays is `shared`. Fails if a node names one
    /// that is lost. (4)
    fn count(
        &self,
        content: &BitsOf,
        shared: &mut BitsOf,
    ) -> Result<HashMap<BlockId, u32>, B::Error> {
        let mut counts: HashMap<BlockId, u32> = HashMap::new();
        for (kind, id) in &self.nodes {
            let bytes = self.blocks.need(*kind, id)?;
            let contents = contents_of_block(*kind, &bytes)?;
            let contents: HashSet<BlockId> = contents.into_iter().map(|(block, _)| block).collect();
            for name in names_of_block(*kind, &bytes)? {
                // After a rebuild the row of a lost node is that of content.
                if !contents.contains(&name) && !self.kinds.contains_key(&name) {
                    return Err(Error::MissingBlock.into());
                }
                if content.contains_key(&name) {
                    *counts.entry(name).or_insert(0) += 1;
                }
            }
            for entry in entries(self.blocks, *kind, id)? {
                let (_, stays) = self.of_entry(id, &entry);
                if let Some(Content::Inline(extents)) = content_of(&entry) {
                    for extent in extents {
                        if content.contains_key(&extent.block) {
                            *shared.entry(extent.block).or_default() |= stays;
                        }
                    }
                }
            }
        }
        Ok(counts)
    }
}

/// The bits of those that are meant.
fn bits(targets: &[Target<'_>], is_meant: impl Fn(Option<&Noted<'_>>) -> bool) -> Bits {
    let each = targets.iter().enumerate();
    each.fold(0, |bits, (at, target)| {
        bits | (Bits::from(is_meant(target.noted.as_ref())) << at)
    })
}

/// Of each snapshot, which of the erasures its tree has. (3)
fn later<B: Blocks>(
    blocks: &B,
    reads: &Reads,
    targets: &[Target<'_>],
) -> Result<HashMap<[u8; 32], Bits>, B::Error> {
    let mut later = HashMap::new();
    if targets.iter().all(|target| target.noted.is_none()) {
        return Ok(later);
    }
    let tree = Tree::new(blocks);
    // Most snapshots have the attributes of the one before.
    let mut looked: HashMap<Vec<BlockId>, Bits> = HashMap::new();
    for revision in reads.revisions()? {
        let root = reads.block_id(revision.root)?;
        let root = tree.root(&root.ok_or(Error::MissingBlock)?)?;
        let known = looked.get(&root.xattrs.0).copied();
        let has = match known {
            Some(has) => has,
            None => {
                let xattrs = tree.xattrs(&root)?;
                let value = xattrs.iter().find(|(name, _)| name == ERASURES);
                let list = value.and_then(|(_, value)| Erasures::decode(value).ok());
                let list = list.unwrap_or_default();
                let has = |id| list.all().iter().any(|note| note.id == id);
                bits(targets, |noted| noted.is_some_and(|noted| has(noted.id)))
            }
        };
        if known.is_none() {
            looked.insert(root.xattrs.0, has);
        }
        later.insert(revision.id, has);
    }
    Ok(later)
}

/// The nodes of the trees below `roots`, with the bits of those.
fn below<B: Blocks>(
    blocks: &B,
    kinds: &HashMap<BlockId, Kind>,
    mut roots: Vec<(BlockId, Bits)>,
) -> Result<BitsOf, B::Error> {
    // Those with the most bits first: what they share with others is then gone through once.
    roots.sort_by_key(|(_, bits)| bits.count_ones());
    let mut found = BitsOf::new();
    while let Some((root, bits)) = roots.pop() {
        let mut waiting = vec![root];
        while let Some(id) = waiting.pop() {
            // What is no node is content.
            if let Some(kind) = kinds.get(&id)
                && adds(&mut found, id, bits)
            {
                waiting.extend(names_of_block(*kind, &blocks.need(*kind, &id)?)?);
            }
        }
    }
    Ok(found)
}

/// Adds bits; gives whether one of them is new.
fn adds(found: &mut BitsOf, id: BlockId, bits: Bits) -> bool {
    if bits == 0 {
        return false;
    }
    let known = found.entry(id).or_default();
    let is_new = *known | bits != *known;
    *known |= bits;
    is_new
}

/// The lists of extents of large files.
#[derive(Default)]
struct Lists {
    of_targets: BitsOf,
    of_others: BitsOf,
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

/// Gives the block of every extent in `lists` with the bits of those, each node once for the same bits.
fn each_extent<B: Blocks>(
    blocks: &B,
    lists: BitsOf,
    mut take: impl FnMut(BlockId, Bits),
) -> Result<(), B::Error> {
    let mut seen = BitsOf::new();
    let mut waiting: Vec<(BlockId, Bits)> = lists.into_iter().collect();
    // As in `below`.
    waiting.sort_by_key(|(_, bits)| bits.count_ones());
    while let Some((id, bits)) = waiting.pop() {
        if !adds(&mut seen, id, bits) {
            continue;
        }
        let bytes = blocks.need(Kind::ExtentList, &id)?;
        match Node::<ExtentTrie>::decode(&bytes)? {
            Node::Leaf(extents) => extents.iter().for_each(|extent| take(extent.block, bits)),
            Node::Branch(children) => {
                let children = children.iter().flatten();
                waiting.extend(children.map(|child| (child.block, bits)));
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
