//! Finds out which trees are whole, and which files are damaged in the trees that are not. Visits a shared node once,
//! unless something below it is damaged.
//!
//! Takes   roots of trees, the blocks, and the ids of those blocks of content that do not open
//! Gives   the blocks that each node refers to; whether a tree is whole; the damaged paths
//! Never   visits the nodes below a node a second time if the node and all nodes below it are sound
//! Spec    spec/6-history.md, section 6.3; spec/7-recovery.md
//!
//! Invariants
//!  (1) A node is sound if it opens and decodes, all its keys belong at its place, it is a leaf or a branch as its size
//!      requires, and it counts the items below it correctly.                                     [6.3.1] to [6.3.3]

use std::collections::HashMap;
use std::ops::Range;

use strongroom_format::cbor::Encoder;
use strongroom_format::{BlockId, Kind};

use crate::blocks::Blocks;
use crate::content::{Content, Extent, ExtentTrie, first_level};
use crate::entry::{Body, Entry, EntryTrie};
use crate::limits::{DEPTH_MAX, LEAF_BYTES_MAX};
use crate::node::{decode_root, decode_value};
use crate::salvage::{Place, Salvage};
use crate::trie::{LEVELS, Node, Ref, Trie};

/// What is known of a node.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// It and everything below it is as it was written, and all content that it names opens.
    is_sound: bool,
    count: u64,
    bytes: u64,
}

/// What a tree has lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeDamage {
    /// From the root, beginning with `/`.
    pub path: Vec<u8>,
    /// What is lost of it.
    pub what: TreeLoss,
}

/// What a node of a tree has lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TreeLoss {
    /// The whole tree: its root.
    Root,
    /// Bytes of a file.
    Content(Range<u64>),
    /// So many names of a directory, with all below them.
    Names(u64),
    /// The extended attributes.
    Xattrs,
}

/// A node that is to be looked at, or has been, with what it needs to be judged.
enum Task {
    Enter(What),
    Leave(BlockId, Judged),
}

/// What a block is to be.
#[derive(Clone, Copy)]
enum What {
    Root(BlockId),
    Value(BlockId),
    Entries(BlockId, Place),
    Extents(BlockId, Place),
}

impl What {
    const fn block(&self) -> BlockId {
        match self {
            Self::Root(id) | Self::Value(id) | Self::Entries(id, _) | Self::Extents(id, _) => *id,
        }
    }

    const fn kind(&self) -> Kind {
        match self {
            Self::Extents(..) => Kind::ExtentList,
            _ => Kind::TreeNode,
        }
    }
}

/// A node that was opened, before what lies below it is known.
#[derive(Default)]
struct Judged {
    /// Alone it is as it should be, and no content that it names is lost.
    is_sound: bool,
    /// A branch counts by its children.
    is_branch: bool,
    count: u64,
    bytes: u64,
    /// Nodes below, with what is said of those of the same trie.
    below: Vec<(BlockId, Option<Ref>)>,
}

/// The ranges of the clear bytes of a block of content that do not open.
type Lost<'b> = Box<dyn Fn(&BlockId) -> Vec<Range<u32>> + 'b>;

/// Trees that were gone over.
pub struct Survey<'b, B: Blocks> {
    blocks: &'b B,
    lost: Lost<'b>,
    known: HashMap<BlockId, Known>,
}

impl<B: Blocks> std::fmt::Debug for Survey<'_, B> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Survey")
            .field("nodes", &self.known.len())
            .finish_non_exhaustive()
    }
}

impl<'b, B: Blocks> Survey<'b, B> {
    /// `lost`: the ranges of the clear bytes of a block of content that do not open.
    pub fn new(blocks: &'b B, lost: impl Fn(&BlockId) -> Vec<Range<u32>> + 'b) -> Self {
        Self {
            blocks,
            lost: Box::new(lost),
            known: HashMap::new(),
        }
    }

    /// How many nodes were gone over.
    #[must_use]
    pub fn nodes(&self) -> u64 {
        self.known.len() as u64
    }

    /// Goes over the tree whose root is in `root`; gives to `take` each node that was not met before and opens, with
    /// the blocks that it names, each once. Gives whether the tree is whole.
    ///
    /// # Errors
    /// Those of the blocks and of `take`.
    pub fn tree(
        &mut self,
        root: &BlockId,
        take: &mut impl FnMut(BlockId, Kind, &[BlockId]) -> Result<(), B::Error>,
    ) -> Result<bool, B::Error> {
        // No recursion: how deep directories lie is up to whoever made them.
        let mut tasks = vec![Task::Enter(What::Root(*root))];
        while let Some(task) = tasks.pop() {
            match task {
                Task::Enter(what) if self.known.contains_key(&what.block()) => {}
                Task::Enter(what) => self.enter(what, &mut tasks, take)?,
                Task::Leave(id, judged) => {
                    let known = self.judge(judged);
                    self.known.insert(id, known);
                }
            }
        }
        Ok(self.is_sound(root))
    }

    fn is_sound(&self, id: &BlockId) -> bool {
        self.known.get(id).is_some_and(|known| known.is_sound)
    }

    fn enter(
        &mut self,
        what: What,
        tasks: &mut Vec<Task>,
        take: &mut impl FnMut(BlockId, Kind, &[BlockId]) -> Result<(), B::Error>,
    ) -> Result<(), B::Error> {
        let id = what.block();
        let bytes = self.blocks.open(what.kind(), &id)?;
        let mut names = Vec::new();
        let mut inside = Vec::new();
        let judged = bytes.and_then(|bytes| self.decode(what, &bytes, &mut names, &mut inside));
        let Some(judged) = judged else {
            let known = Known {
                is_sound: false,
                count: 0,
                bytes: 0,
            };
            self.known.insert(id, known);
            return Ok(());
        };
        names.sort_unstable();
        names.dedup();
        take(id, what.kind(), &names)?;
        tasks.push(Task::Leave(id, judged));
        tasks.extend(inside.into_iter().map(Task::Enter));
        Ok(())
    }

    /// `None` for bytes that are no such node.
    fn decode(
        &self,
        what: What,
        bytes: &[u8],
        names: &mut Vec<BlockId>,
        inside: &mut Vec<What>,
    ) -> Option<Judged> {
        match what {
            What::Root(_) => {
                let root = decode_root(bytes).ok()?;
                root.names(names);
                let mut judged = Judged {
                    is_sound: true,
                    ..Judged::default()
                };
                self.entry(&root, &mut judged, inside);
                Some(judged)
            }
            What::Value(_) => decode_value(bytes).ok().map(|_| Judged {
                is_sound: true,
                ..Judged::default()
            }),
            What::Entries(_, place) => {
                let node = Node::<EntryTrie>::decode(bytes).ok()?;
                names.extend(node.names());
                self.node(
                    node,
                    place,
                    What::Entries,
                    inside,
                    |entry, judged, inside| {
                        self.entry(entry, judged, inside);
                    },
                )
            }
            What::Extents(_, place) => {
                let node = Node::<ExtentTrie>::decode(bytes).ok()?;
                names.extend(node.names());
                self.node(node, place, What::Extents, inside, |extent, judged, _| {
                    judged.is_sound &= self.lost_of(extent).is_empty();
                })
            }
        }
    }

    /// (1), as far as the node itself shows it.
    fn node<T: Trie>(
        &self,
        node: Node<T>,
        place: Place,
        of_child: impl Fn(BlockId, Place) -> What,
        inside: &mut Vec<What>,
        item: impl Fn(&T::Item, &mut Judged, &mut Vec<What>),
    ) -> Option<Judged> {
        let mut judged = Judged {
            is_sound: true,
            ..Judged::default()
        };
        match node {
            Node::Leaf(items) => {
                for one in &items {
                    let mut encoder = Encoder::new();
                    T::encode(one, &mut encoder);
                    judged.count += 1;
                    judged.bytes += encoder.finish().len() as u64;
                    judged.is_sound &= place.holds(&T::key(one));
                    item(one, &mut judged, inside);
                }
                judged.is_sound &= judged.bytes <= LEAF_BYTES_MAX;
            }
            Node::Branch(_) if place.level >= LEVELS => return None,
            Node::Branch(children) => {
                judged.is_branch = true;
                for (digit, child) in children.iter().enumerate() {
                    let Some(child) = child else { continue };
                    judged.count = judged.count.saturating_add(child.count);
                    judged.bytes = judged.bytes.saturating_add(child.bytes);
                    judged.below.push((child.block, Some(*child)));
                    inside.push(of_child(child.block, place.child(digit)));
                }
                judged.is_sound &= judged.bytes > LEAF_BYTES_MAX;
            }
        }
        Some(judged)
    }

    fn lost_of(&self, extent: &Extent) -> Vec<Range<u64>> {
        extent.without(&(self.lost)(&extent.block))
    }

    /// Adds what a name leads to.
    fn entry(&self, entry: &Entry, judged: &mut Judged, inside: &mut Vec<What>) {
        for block in &entry.xattrs.0 {
            judged.below.push((*block, None));
            inside.push(What::Value(*block));
        }
        match &entry.body {
            Body::File {
                content: Content::Inline(extents),
                ..
            } => {
                let is_whole = |extent| self.lost_of(extent).is_empty();
                judged.is_sound &= extents.iter().all(is_whole);
            }
            Body::File {
                content: Content::Listed(at),
                ..
            } => {
                judged.below.push((at.block, Some(*at)));
                let place = Place::first(first_level(entry.size));
                inside.push(What::Extents(at.block, place));
            }
            Body::Directory(Some(at)) => {
                judged.below.push((at.block, Some(*at)));
                inside.push(What::Entries(at.block, Place::first(0)));
            }
            _ => {}
        }
    }

    /// (1), once everything below is known.
    fn judge(&self, judged: Judged) -> Known {
        let is_right = |(id, said): &(BlockId, Option<Ref>)| {
            self.known.get(id).is_some_and(|known| {
                let counts =
                    said.is_none_or(|said| (said.count, said.bytes) == (known.count, known.bytes));
                known.is_sound && counts
            })
        };
        Known {
            is_sound: judged.is_sound && judged.below.iter().all(is_right),
            count: judged.count,
            bytes: judged.bytes,
        }
    }

    /// Gives to `take` what the tree of `root`, which was gone over, has lost.
    ///
    /// # Errors
    /// Those of the blocks and of `take`.
    pub fn damages(
        &self,
        root: &BlockId,
        take: &mut impl FnMut(TreeDamage) -> Result<(), B::Error>,
    ) -> Result<(), B::Error> {
        if self.is_sound(root) {
            return Ok(());
        }
        let salvage = Salvage::new(self.blocks);
        let Some(entry) = salvage.root(root)? else {
            return take(TreeDamage {
                path: b"/".to_vec(),
                what: TreeLoss::Root,
            });
        };
        self.node_damages(&salvage, b"/", &entry, take)?;
        let mut directories = vec![(Vec::new(), entry.directory())];
        while let Some((path, directory)) = directories.pop() {
            let depth = path.iter().filter(|byte| **byte == b'/').count();
            let mut below = Vec::new();
            let lost = salvage.entries(directory, &mut |entry| {
                let path = [&path[..], b"/", &entry.name].concat();
                self.node_damages(&salvage, &path, &entry, take)?;
                if let Some(at) = entry.directory()
                    && !self.is_sound(&at.block)
                    && depth < DEPTH_MAX
                {
                    below.push((path, Some(at)));
                }
                Ok(())
            })?;
            if lost > 0 {
                let path = if path.is_empty() { b"/".to_vec() } else { path };
                take(TreeDamage {
                    path,
                    what: TreeLoss::Names(lost),
                })?;
            }
            directories.extend(below.into_iter().rev());
        }
        Ok(())
    }

    /// What one node has lost by itself.
    fn node_damages(
        &self,
        salvage: &Salvage<'_, B>,
        path: &[u8],
        entry: &Entry,
        take: &mut impl FnMut(TreeDamage) -> Result<(), B::Error>,
    ) -> Result<(), B::Error> {
        if entry.xattrs.0.iter().any(|block| !self.is_sound(block)) {
            take(TreeDamage {
                path: path.to_vec(),
                what: TreeLoss::Xattrs,
            })?;
        }
        for bytes in self.lost_bytes(salvage, entry)? {
            take(TreeDamage {
                path: path.to_vec(),
                what: TreeLoss::Content(bytes),
            })?;
        }
        Ok(())
    }

    /// The bytes of a file that cannot be read, in order, neighbours as one range.
    fn lost_bytes(
        &self,
        salvage: &Salvage<'_, B>,
        entry: &Entry,
    ) -> Result<Vec<Range<u64>>, B::Error> {
        if let Body::File {
            content: Content::Listed(at),
            ..
        } = &entry.body
            && self.is_sound(&at.block)
        {
            return Ok(Vec::new());
        }
        let mut lost: Vec<Range<u64>> = Vec::new();
        let unlisted = salvage.extents(entry, &mut |extent| {
            let bytes = self.lost_of(&extent).into_iter();
            lost.extend(bytes.map(|bytes| bytes.start..bytes.end.min(entry.size)));
            Ok(())
        })?;
        lost.extend(unlisted);
        Ok(joined(lost))
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
