//! The nodes of kept states that somebody refers to: the directory `.history`, a directory for each selector in it, and
//! what lies below.
//!
//! Takes   numbers and names
//! Gives   attributes, entries and places of content, as of each revision
//! Never   gives two nodes one number
//! Spec    spec/6-history.md, section 6.8
//!
//! Invariants
//!  (1) A number follows from the name below `.history`, the revision, and the node: the same as long as both exist. [6.8.2]
//!  (2) A node is known while somebody refers to it.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;
use parking_lot::Mutex;
use strongroom_filesystem::{
    Attributes, Error, HISTORY_INODE, InodeId, KeptExtent, ListedEntry, Listing, NodeKind, Result,
    Timestamp,
};
use strongroom_format::BlockId;
use strongroom_history::{Body, Entry, RevisionId, Tree};
use strongroom_metadata::can_name;

use crate::kept::below::{Below, below};

/// Nodes of trees that are kept open, at most 16 KiB each.
const CACHED_BLOCKS: NonZeroUsize = NonZeroUsize::new(512).expect("512 is not 0");

/// The first cookie of a listing; 1 and 2 are `.` and `..`.
const FIRST_COOKIE: u64 = 3;

/// Opened blocks of trees, by name.
pub(crate) type BlockCache = Mutex<LruCache<BlockId, Arc<Vec<u8>>>>;

/// A node of a kept state.
pub(crate) struct Node {
    number: InodeId,
    what: What,
}

enum What {
    /// `.history`.
    Top(Attributes),
    /// A node of a tree.
    Kept {
        entry: Entry,
        parent: Arc<Node>,
        /// What sets the numbers of this tree apart.
        space: u64,
    },
}

struct Held {
    node: Arc<Node>,
    references: u64,
}

/// All of them.
pub(crate) struct KeptNodes {
    held: Mutex<HashMap<InodeId, Held>>,
    pub(crate) blocks: BlockCache,
}

impl Default for KeptNodes {
    fn default() -> Self {
        Self {
            held: Mutex::default(),
            blocks: Mutex::new(LruCache::new(CACHED_BLOCKS)),
        }
    }
}

/// The number of `.history`.
const TOP: InodeId = HISTORY_INODE;

/// (1)
fn number(space: u64, entry: &Entry) -> InodeId {
    let mut hasher = DefaultHasher::new();
    (space, entry.inode.0, entry.birth_id).hash(&mut hasher);
    InodeId(1 << 63 | hasher.finish())
}

impl Node {
    fn attributes(&self) -> Attributes {
        match &self.what {
            What::Top(attributes) => attributes.clone(),
            What::Kept { entry, .. } => attributes(self.number, entry),
        }
    }

    fn entry(&self) -> Result<&Entry> {
        match &self.what {
            What::Top(_) => Err(Error::IsADirectory),
            What::Kept { entry, .. } => Ok(entry),
        }
    }

    fn parent(&self) -> InodeId {
        match &self.what {
            What::Top(_) => InodeId::ROOT,
            What::Kept { parent, .. } => parent.number,
        }
    }
}

fn attributes(inode: InodeId, entry: &Entry) -> Attributes {
    let blocks = match entry.body {
        Body::File { allocated, .. } => allocated.div_ceil(512),
        _ => 0,
    };
    let rdev = match entry.body {
        Body::Device(number) => number,
        _ => 0,
    };
    Attributes {
        inode,
        kind: entry.kind,
        mode: entry.mode,
        uid: entry.uid,
        gid: entry.gid,
        rdev,
        nlink: entry.nlink,
        size: entry.size,
        blocks,
        atime: entry.atime,
        mtime: entry.mtime,
        ctime: entry.ctime,
        btime: entry.btime,
    }
}

impl KeptNodes {
    /// The node of that number. (2)
    fn find(&self, inode: InodeId) -> Result<Arc<Node>> {
        let held = self.held.lock();
        held.get(&inode)
            .map(|held| Arc::clone(&held.node))
            .ok_or(Error::Stale)
    }

    /// Takes a reference on `node`, known or not. (1)
    fn hold(&self, node: Arc<Node>) -> Result<Attributes> {
        let attributes = node.attributes();
        let mut held = self.held.lock();
        let known = held.entry(node.number).or_insert(Held {
            node: Arc::clone(&node),
            references: 0,
        });
        if let (
            What::Kept { entry, space, .. },
            What::Kept {
                entry: other,
                space: same,
                ..
            },
        ) = (&known.node.what, &node.what)
            && (space, entry.inode, entry.birth_id) != (same, other.inode, other.birth_id)
        {
            return Err(Error::Stale);
        }
        known.references += 1;
        Ok(attributes)
    }

    pub(crate) fn retain(&self, inode: InodeId) {
        if let Some(held) = self.held.lock().get_mut(&inode) {
            held.references += 1;
        }
    }

    pub(crate) fn forget(&self, inode: InodeId, count: u64) {
        let mut nodes = self.held.lock();
        if let Some(held) = nodes.get_mut(&inode) {
            held.references = held.references.saturating_sub(count);
            if held.references == 0 {
                nodes.remove(&inode);
            }
        }
    }

    /// `.history` itself; takes a reference. It looks like the root directory `root`, last changed at `changed`.
    pub(crate) fn top(&self, root: (u32, u32), changed: Timestamp) -> Result<Attributes> {
        let attributes = Attributes {
            inode: TOP,
            kind: NodeKind::Directory,
            mode: 0o555,
            uid: root.0,
            gid: root.1,
            rdev: 0,
            nlink: 2,
            size: 0,
            blocks: 0,
            atime: changed,
            mtime: changed,
            ctime: changed,
            btime: changed,
        };
        let node = Arc::new(Node {
            number: TOP,
            what: What::Top(attributes),
        });
        self.hold(node)
    }

    /// Whether `inode` is `.history`.
    pub(crate) fn is_top(inode: InodeId) -> bool {
        inode == TOP
    }

    /// The root of a revision's tree, as `name` in `.history`; takes a reference.
    pub(crate) fn revision_root(
        &self,
        engine: &Below<'_>,
        name: &[u8],
        revision: RevisionId,
        root: &BlockId,
    ) -> Result<Attributes> {
        let entry = Tree::new(engine).root(root).map_err(below)?;
        let mut hasher = DefaultHasher::new();
        (name, revision).hash(&mut hasher);
        let space = hasher.finish();
        let parent = self.find(TOP)?;
        self.hold(Arc::new(Node {
            number: number(space, &entry),
            what: What::Kept {
                entry,
                parent,
                space,
            },
        }))
    }

    /// Finds `name` below a node of a tree; takes a reference.
    pub(crate) fn lookup(
        &self,
        engine: &Below<'_>,
        parent: InodeId,
        name: &[u8],
    ) -> Result<Attributes> {
        let parent = self.find(parent)?;
        let directory = directory(parent.entry()?)?;
        match name {
            b"." => return self.hold(parent),
            b".." => {
                let What::Kept { parent, .. } = &parent.what else {
                    return Err(Error::NotFound);
                };
                return self.hold(Arc::clone(parent));
            }
            _ => {}
        }
        let found = Tree::new(engine)
            .lookup(directory, name)
            .map_err(below)?
            .ok_or(Error::NotFound)?;
        self.hold(child(&parent, found))
    }

    pub(crate) fn attributes(&self, inode: InodeId) -> Result<Attributes> {
        Ok(self.find(inode)?.attributes())
    }

    pub(crate) fn parent(&self, inode: InodeId) -> Result<InodeId> {
        let node = self.find(inode)?;
        if node.attributes().kind != NodeKind::Directory {
            return Err(Error::NotADirectory);
        }
        Ok(node.parent())
    }

    pub(crate) fn list(
        &self,
        engine: &Below<'_>,
        inode: InodeId,
        after: u64,
        limit: usize,
        listing: Listing,
    ) -> Result<Vec<ListedEntry>> {
        let parent = self.find(inode)?;
        let directory = directory(parent.entry()?)?;
        let mut position = after.saturating_sub(FIRST_COOKIE - 1);
        let page = loop {
            let mut page = Tree::new(engine)
                .list(directory, position, limit)
                .map_err(below)?;
            let Some(last) = page.last() else {
                return Ok(Vec::new());
            };
            position = last.position;
            // A name that cannot be one would lead elsewhere. An empty page would be the end.
            page.retain(|one| can_name(&one.entry.name));
            if !page.is_empty() {
                break page;
            }
        };
        let mut listed = Vec::with_capacity(page.len());
        for one in page {
            let (name, kind) = (one.entry.name.clone(), one.entry.kind);
            let node = child(&parent, one.entry);
            let number = node.number;
            let attributes = match listing {
                Listing::Names => None,
                Listing::WithAttributes => Some(node.attributes()),
                Listing::WithReferences => Some(self.hold(node)?),
            };
            listed.push(ListedEntry {
                name,
                inode: number,
                kind,
                cookie: one.position + FIRST_COOKIE - 1,
                attributes,
            });
        }
        Ok(listed)
    }

    pub(crate) fn read_link(&self, inode: InodeId) -> Result<Vec<u8>> {
        match &self.find(inode)?.entry()?.body {
            Body::Symlink(target) => Ok(target.clone()),
            _ => Err(Error::InvalidArgument("not a symlink".into())),
        }
    }

    pub(crate) fn xattrs(
        &self,
        engine: &Below<'_>,
        inode: InodeId,
    ) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let node = self.find(inode)?;
        match &node.what {
            What::Top(_) => Ok(Vec::new()),
            What::Kept { entry, .. } => Tree::new(engine).xattrs(entry).map_err(below),
        }
    }

    pub(crate) fn extents(
        &self,
        engine: &Below<'_>,
        inode: InodeId,
        from: u64,
        to: u64,
        limit: usize,
    ) -> Result<Vec<KeptExtent>> {
        let node = self.find(inode)?;
        let extents = Tree::new(engine)
            .extents(node.entry()?, from, to, limit)
            .map_err(below)?;
        Ok(extents
            .into_iter()
            .map(|extent| KeptExtent {
                start: extent.start,
                len: extent.len,
                block: extent.block,
                block_offset: extent.block_offset,
            })
            .collect())
    }
}

fn child(parent: &Arc<Node>, entry: Entry) -> Arc<Node> {
    let space = match &parent.what {
        What::Top(_) => 0,
        What::Kept { space, .. } => *space,
    };
    Arc::new(Node {
        number: number(space, &entry),
        what: What::Kept {
            entry,
            parent: Arc::clone(parent),
            space,
        },
    })
}

fn directory(entry: &Entry) -> Result<strongroom_history::Directory> {
    match entry.kind {
        NodeKind::Directory => Ok(entry.directory()),
        _ => Err(Error::NotADirectory),
    }
}
