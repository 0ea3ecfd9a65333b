//! The nodes of the model, their attributes and their lifetimes.
//!
//! Takes   inode numbers
//! Gives   nodes, or `NotFound`
//! Never   checks a permission or a name
//! Spec    none: test only

use std::collections::BTreeMap;
use std::sync::Arc;

use strongroom_filesystem::{
    Attributes, Caller, Error, InodeId, NodeKind, Result, SetAttributes, SetTime, Timestamp,
    XattrMode,
};

use super::permission;

/// What a node holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contents {
    /// The bytes of a file; holes are zeros.
    Bytes(Arc<Vec<u8>>),
    /// The entries of a directory: name to node and cookie.
    Entries(BTreeMap<Vec<u8>, (InodeId, u64)>),
    /// The target of a symlink.
    Target(Vec<u8>),
    /// Nothing: a pipe, socket or device.
    Nothing,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// What it is.
    pub kind: NodeKind,
    /// The low 12 bits of its mode.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number.
    pub rdev: u64,
    /// Count of names; of a directory, 2 plus its subdirectories, or 0 once removed.
    pub nlink: u32,
    /// What it holds.
    pub contents: Contents,
    /// Made without a name, and none given yet.
    pub may_get_first_name: bool,
    /// The directory that holds this directory.
    pub parent: InodeId,
    /// Extended attributes.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Access time, if somebody set it and nothing moved it since.
    pub atime: Option<Timestamp>,
    /// Modification time, likewise.
    pub mtime: Option<Timestamp>,
    /// References that callers hold.
    pub references: u64,
}

/// All nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// By number.
    pub nodes: BTreeMap<InodeId, Node>,
    /// The next number.
    pub next_inode: u64,
    /// The next cookie.
    pub next_cookie: u64,
}

impl Default for State {
    fn default() -> Self {
        let mut root = Node::new(NodeKind::Directory, 0o755, 0, 0);
        root.parent = InodeId::ROOT;
        root.references = 1;
        Self {
            nodes: BTreeMap::from([(InodeId::ROOT, root)]),
            next_inode: InodeId::ROOT.0 + 1,
            next_cookie: 3,
        }
    }
}

impl Node {
    pub(super) fn new(kind: NodeKind, mode: u32, uid: u32, gid: u32) -> Self {
        let contents = match kind {
            NodeKind::File => Contents::Bytes(Arc::default()),
            NodeKind::Directory => Contents::Entries(BTreeMap::new()),
            NodeKind::Symlink => Contents::Target(Vec::new()),
            _ => Contents::Nothing,
        };
        Self {
            kind,
            mode: mode & 0o7777,
            uid,
            gid,
            rdev: 0,
            nlink: if kind == NodeKind::Directory { 2 } else { 1 },
            may_get_first_name: false,
            contents,
            parent: InodeId(0),
            xattrs: BTreeMap::new(),
            atime: None,
            mtime: None,
            references: 0,
        }
    }

    /// Length in bytes, as `stat` tells it; of a directory 0.
    #[must_use]
    pub fn size(&self) -> u64 {
        match &self.contents {
            Contents::Bytes(bytes) => bytes.len() as u64,
            Contents::Target(target) => target.len() as u64,
            Contents::Entries(_) | Contents::Nothing => 0,
        }
    }
}

impl State {
    /// The node of that number.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn node(&self, inode: InodeId) -> Result<&Node> {
        self.nodes.get(&inode).ok_or(Error::NotFound)
    }

    pub(super) fn node_mut(&mut self, inode: InodeId) -> Result<&mut Node> {
        self.nodes.get_mut(&inode).ok_or(Error::NotFound)
    }

    pub(super) fn attributes(&self, inode: InodeId) -> Result<Attributes> {
        let node = self.node(inode)?;
        let unknown = Timestamp(0);
        Ok(Attributes {
            inode,
            kind: node.kind,
            mode: node.mode,
            uid: node.uid,
            gid: node.gid,
            rdev: node.rdev,
            nlink: node.nlink,
            size: node.size(),
            blocks: 0,
            atime: node.atime.unwrap_or(unknown),
            mtime: node.mtime.unwrap_or(unknown),
            ctime: unknown,
            btime: unknown,
        })
    }

    /// Attributes, with one more reference.
    pub(super) fn hand_out(&mut self, inode: InodeId) -> Result<Attributes> {
        self.node_mut(inode)?.references += 1;
        self.attributes(inode)
    }

    pub(super) fn forget(&mut self, inode: InodeId, count: u64) {
        if let Some(node) = self.nodes.get_mut(&inode) {
            node.references = node.references.saturating_sub(count);
        }
        self.purge(inode);
    }

    pub(super) fn purge(&mut self, inode: InodeId) {
        if self
            .nodes
            .get(&inode)
            .is_some_and(|node| node.nlink == 0 && node.references == 0)
        {
            self.nodes.remove(&inode);
        }
    }

    pub(super) fn forget_all(&mut self) {
        for (inode, node) in &mut self.nodes {
            node.references = u64::from(*inode == InodeId::ROOT);
        }
        self.nodes.retain(|_, node| node.nlink > 0);
    }

    pub(super) fn set_attributes(
        &mut self,
        caller: &Caller,
        inode: InodeId,
        set: &SetAttributes,
    ) -> Result<Attributes> {
        permission::may_set(caller, self.node(inode)?, set)?;
        if set.mode.is_some() && self.node(inode)?.kind == NodeKind::Symlink {
            return Err(Error::NotSupported);
        }
        if let Some(size) = set.size {
            self.set_size(inode, size)?;
        }
        let node = self.node_mut(inode)?;
        if let Some(mode) = set.mode {
            node.mode = mode & 0o7777;
        }
        node.uid = set.uid.unwrap_or(node.uid);
        node.gid = set.gid.unwrap_or(node.gid);
        let given = |time: SetTime| {
            if let SetTime::At(at) = time {
                Some(at)
            } else {
                None
            }
        };
        if let Some(atime) = set.atime {
            node.atime = given(atime);
        }
        if let Some(mtime) = set.mtime {
            node.mtime = given(mtime);
        }
        self.attributes(inode)
    }

    pub(super) fn xattr(&self, caller: &Caller, inode: InodeId, name: &[u8]) -> Result<Vec<u8>> {
        let node = self.node(inode)?;
        permission::may_have_xattrs(node, Error::NoAttribute)?;
        permission::may(caller, node, permission::READ)?;
        node.xattrs.get(name).cloned().ok_or(Error::NoAttribute)
    }

    pub(super) fn set_xattr(
        &mut self,
        caller: &Caller,
        inode: InodeId,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<()> {
        let node = self.node_mut(inode)?;
        permission::may_have_xattrs(node, Error::NotPermitted)?;
        permission::may(caller, node, permission::WRITE)?;
        match (mode, node.xattrs.contains_key(name)) {
            (XattrMode::CreateOnly, true) => return Err(Error::Exists),
            (XattrMode::ReplaceOnly, false) => return Err(Error::NoAttribute),
            _ => {}
        }
        node.xattrs.insert(name.to_vec(), value.to_vec());
        Ok(())
    }

    pub(super) fn remove_xattr(
        &mut self,
        caller: &Caller,
        inode: InodeId,
        name: &[u8],
    ) -> Result<()> {
        let node = self.node_mut(inode)?;
        permission::may_have_xattrs(node, Error::NotPermitted)?;
        permission::may(caller, node, permission::WRITE)?;
        node.xattrs.remove(name).map(drop).ok_or(Error::NoAttribute)
    }

    pub(super) fn xattrs(&self, inode: InodeId) -> Result<Vec<Vec<u8>>> {
        Ok(self.node(inode)?.xattrs.keys().cloned().collect())
    }
}
