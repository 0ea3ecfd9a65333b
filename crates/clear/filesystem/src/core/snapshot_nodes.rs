//! The nodes of snapshots in use: the directory `.history`, a directory for each selector in it, and everything below.
//!
//! Takes   entries of trees, and references
//! Gives   nodes by their numbers
//! Never   gives two nodes the same number
//! Spec    spec/6-history.md, section 6.8
//!
//! Invariants
//!  (1) A number follows from the name below `.history`, the revision and the node, so it stays the same while
//!      these exist.                                                                                    [6.8.2]
//!  (2) A node is kept in memory as long as anything refers to it.
//!  (3) The top bit is set in the number of every node of a snapshot, and of no other node.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use parking_lot::Mutex;
use strongroom_history::{Body, Directory, Entry, RevisionId};
use strongroom_metadata::{Inode, InodeId, NodeKind, Timestamp};

use crate::rules::attributes::attributes_of_row;
use crate::rules::name::Name;
use crate::{Attributes, Error, Result};

/// The directory of snapshots in the root of a vault. It is in no listing.
pub const HISTORY_NAME: &[u8] = b".history";

/// The number of that directory.
pub const HISTORY_INODE: InodeId = InodeId(OF_SNAPSHOT | 1);

/// (3)
const OF_SNAPSHOT: u64 = 1 << 63;

/// Whether `inode` is a node of a snapshot, or `.history`.
#[must_use]
pub const fn is_in_snapshot(inode: InodeId) -> bool {
    inode.0 & OF_SNAPSHOT != 0
}

/// Whether nothing else may have this name in `parent`.
pub(crate) fn is_reserved(parent: InodeId, name: Name<'_>) -> bool {
    parent == InodeId::ROOT && name.bytes() == HISTORY_NAME
}

/// A node of a snapshot.
pub(crate) struct Node {
    /// As a row would show it.
    pub(crate) inode: Inode,
    /// Where it is; `None` for `.history`.
    at: Option<InTree>,
}

struct InTree {
    entry: Entry,
    parent: Arc<Node>,
    /// What sets the numbers of this tree apart.
    space: u64,
}

impl Node {
    fn in_tree(entry: Entry, parent: Arc<Node>, space: u64) -> Arc<Self> {
        let inode = inode_of(space, &entry);
        let at = Some(InTree {
            entry,
            parent,
            space,
        });
        Arc::new(Self { inode, at })
    }

    /// The node of `entry` in the directory `parent`.
    pub(crate) fn child(parent: &Arc<Self>, entry: Entry) -> Arc<Self> {
        let space = parent.at.as_ref().map_or(0, |at| at.space);
        Self::in_tree(entry, Arc::clone(parent), space)
    }

    /// What a tree has of it.
    pub(crate) fn entry(&self) -> Result<&Entry> {
        let at = self.at.as_ref().ok_or(Error::IsADirectory)?;
        Ok(&at.entry)
    }

    /// The entries of a directory of a tree.
    pub(crate) fn directory(&self) -> Result<Directory> {
        match self.inode.kind {
            NodeKind::Directory => Ok(self.entry()?.directory()),
            _ => Err(Error::NotADirectory),
        }
    }

    /// The directory that holds it; `None` for `.history`.
    pub(crate) fn parent(&self) -> Option<&Arc<Self>> {
        self.at.as_ref().map(|at| &at.parent)
    }

    pub(crate) fn attributes(&self) -> Attributes {
        attributes_of_row(&self.inode)
    }

    /// What a number stands for. (1)
    fn meaning(&self) -> Option<(u64, InodeId, u64)> {
        let at = self.at.as_ref()?;
        Some((at.space, at.entry.inode, at.entry.birth_id))
    }
}

/// The row of a node as `entry` has it. (1)
fn inode_of(space: u64, entry: &Entry) -> Inode {
    let mut hasher = DefaultHasher::new();
    (space, entry.inode.0, entry.birth_id).hash(&mut hasher);
    let (allocated, rdev) = match entry.body {
        Body::File { allocated, .. } => (allocated, 0),
        Body::Device(number) => (0, number),
        _ => (0, 0),
    };
    Inode {
        id: InodeId(OF_SNAPSHOT | hasher.finish()),
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
        parent: InodeId(0),
        target: Vec::new(),
        reserved: 0,
    }
}

struct Referred {
    node: Arc<Node>,
    references: u64,
}

/// All of them.
#[derive(Default)]
pub(crate) struct SnapshotNodes(Mutex<HashMap<InodeId, Referred>>);

impl SnapshotNodes {
    /// The node of that number. (2)
    pub(crate) fn find(&self, inode: InodeId) -> Result<Arc<Node>> {
        let nodes = self.0.lock();
        let found = nodes.get(&inode);
        found.map(|one| Arc::clone(&one.node)).ok_or(Error::Stale)
    }

    /// Takes a reference on `node`, known or not. (1)
    pub(crate) fn hold(&self, node: Arc<Node>) -> Result<Attributes> {
        let attributes = node.attributes();
        let mut nodes = self.0.lock();
        let known = nodes.entry(node.inode.id).or_insert(Referred {
            node: Arc::clone(&node),
            references: 0,
        });
        if known.node.meaning() != node.meaning() {
            return Err(Error::Stale);
        }
        known.references += 1;
        Ok(attributes)
    }

    pub(crate) fn retain(&self, inode: InodeId) {
        if let Some(known) = self.0.lock().get_mut(&inode) {
            known.references += 1;
        }
    }

    pub(crate) fn forget(&self, inode: InodeId, count: u64) {
        let mut nodes = self.0.lock();
        if let Some(known) = nodes.get_mut(&inode) {
            known.references = known.references.saturating_sub(count);
            if known.references == 0 {
                nodes.remove(&inode);
            }
        }
    }

    /// The files that anything refers to.
    pub(crate) fn files(&self) -> Vec<InodeId> {
        let nodes = self.0.lock();
        let files = nodes
            .iter()
            .filter(|(_, one)| one.node.inode.kind == NodeKind::File);
        files.map(|(inode, _)| *inode).collect()
    }

    /// `.history` itself; takes a reference. It belongs to whom `root` belongs to, and last changed at `changed`.
    pub(crate) fn top(&self, root: Inode, changed: Timestamp) -> Result<Attributes> {
        self.hold(Arc::new(Node {
            inode: Inode {
                id: HISTORY_INODE,
                mode: 0o555,
                nlink: 2,
                size: 0,
                atime: changed,
                mtime: changed,
                ctime: changed,
                btime: changed,
                ..root
            },
            at: None,
        }))
    }

    /// The root of a revision's tree, as `name` in `.history`; takes a reference.
    pub(crate) fn root(
        &self,
        name: &[u8],
        revision: RevisionId,
        entry: Entry,
    ) -> Result<Attributes> {
        let mut hasher = DefaultHasher::new();
        (name, revision).hash(&mut hasher);
        let parent = self.find(HISTORY_INODE)?;
        self.hold(Node::in_tree(entry, parent, hasher.finish()))
    }
}
