//! One operation as plain data, so that a random sequence can be made, shrunk, printed and repeated.
//!
//! Takes   small numbers that are valid on every tree: they pick from its nodes and from a list of names
//! Gives   the answer of one file system to one operation
//! Never   compares: `step` does
//! Spec    none: test only

use strongroom_filesystem::{
    AllocateMode, Attributes, Caller, Error, InodeId, Listing, NewNode, NodeKind, RenameMode,
    Result, SetAttributes, SetTime, Timestamp, XattrMode,
};

use crate::under_test::FileSystemUnderTest;

/// Which of the nodes a session holds: counted among those of the fitting kind, now and then among all.
pub type Pick = u8;

/// Which name: a few ordinary ones, and from 250 on those that must be refused or are the longest.
pub type Name = u8;

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(
    missing_docs,
    reason = "the fields are the arguments of the operations they are named for"
)]
pub enum Operation {
    Create {
        parent: Pick,
        name: Name,
        kind: NodeKind,
        mode: u32,
    },
    CreateUnnamed {
        parent: Pick,
        mode: u32,
    },
    Link {
        node: Pick,
        parent: Pick,
        name: Name,
    },
    Unlink {
        parent: Pick,
        name: Name,
    },
    RemoveDirectory {
        parent: Pick,
        name: Name,
    },
    Rename {
        from: (Pick, Name),
        to: (Pick, Name),
        mode: RenameMode,
    },
    Lookup {
        parent: Pick,
        name: Name,
    },
    List {
        directory: Pick,
        limit: u8,
    },
    Parent {
        directory: Pick,
    },
    Write {
        file: Pick,
        offset: u32,
        len: u32,
        fill: u8,
    },
    Append {
        file: Pick,
        len: u32,
        fill: u8,
    },
    Read {
        file: Pick,
        offset: u32,
        len: u32,
    },
    Truncate {
        file: Pick,
        size: u32,
    },
    Allocate {
        file: Pick,
        mode: AllocateMode,
        offset: u32,
        len: u32,
    },
    Copy {
        source: Pick,
        source_offset: u32,
        target: Pick,
        target_offset: u32,
        len: u32,
    },
    Mode {
        node: Pick,
        mode: u32,
    },
    Owner {
        node: Pick,
        uid: u32,
        gid: u32,
    },
    Times {
        node: Pick,
        at: i64,
    },
    SetXattr {
        node: Pick,
        name: u8,
        len: u16,
        mode: XattrMode,
    },
    RemoveXattr {
        node: Pick,
        name: u8,
    },
    SyncNode {
        node: Pick,
    },
    SyncFile {
        file: Pick,
    },
    Sync,
    Forget {
        node: Pick,
    },
}

/// What a file system answered.
#[derive(Debug)]
pub enum Answer {
    /// Nothing but success.
    Done,
    /// A node, by its place among those the session holds, and what `stat` says of it.
    Node(usize, Box<Attributes>),
    /// Bytes.
    Bytes(Vec<u8>),
    /// An offset or a count.
    Number(u64),
    /// Entries in name order.
    Names(Vec<(Vec<u8>, NodeKind)>),
    /// No.
    Refused(Error),
}

/// A file system and the nodes somebody holds on it. The root comes first and stays.
#[derive(Debug)]
pub struct Session<F> {
    /// The file system.
    pub system: F,
    held: Vec<(InodeId, NodeKind)>,
}

/// The bytes of a name.
#[must_use]
pub fn name_bytes(name: Name) -> Vec<u8> {
    match name {
        250 => Vec::new(),
        251 => b".".to_vec(),
        252 => b"..".to_vec(),
        253 => b"a/b".to_vec(),
        254 => vec![b'x'; 256],
        255 => vec![b'x'; 255],
        other => format!("name{}", other % 8).into_bytes(),
    }
}

/// `len` bytes that tell where they came from, so that a misplaced block shows.
#[must_use]
pub fn content(fill: u8, len: u32) -> Vec<u8> {
    (0..len)
        .map(|at| {
            fill.wrapping_mul(31)
                .wrapping_add((at % 251) as u8)
                .wrapping_add((at >> 12) as u8)
        })
        .collect()
}

impl<F: FileSystemUnderTest> Session<F> {
    /// Holds the root only.
    pub fn new(system: F) -> Self {
        Self {
            system,
            held: vec![(InodeId::ROOT, NodeKind::Directory)],
        }
    }

    /// Holds the directory `top` only: the session never leaves it, so that several can share one file system.
    pub fn rooted(system: F, top: InodeId) -> Self {
        Self {
            system,
            held: vec![(top, NodeKind::Directory)],
        }
    }

    /// The node `pick` means when one of `kind` fits; every eighth pick takes any kind.
    #[must_use]
    pub fn pick(&self, pick: Pick, kind: Option<NodeKind>) -> InodeId {
        let fitting: Vec<InodeId> = self
            .held
            .iter()
            .filter(|(_, held)| pick % 8 == 7 || kind.is_none_or(|kind| kind == *held))
            .map(|(inode, _)| *inode)
            .collect();
        match fitting.len() {
            0 => self.held[0].0,
            count => fitting[usize::from(pick / 2) % count],
        }
    }

    /// The nodes held, in the order they came.
    pub fn held(&self) -> impl Iterator<Item = InodeId> {
        self.held.iter().map(|(inode, _)| *inode)
    }

    /// Keeps the reference that came with `attributes`, or gives it back if the node is held already.
    fn keep(&mut self, attributes: Attributes) -> Answer {
        let known = self
            .held
            .iter()
            .position(|(inode, _)| *inode == attributes.inode);
        if known.is_some() {
            self.system.forget(attributes.inode, 1);
        } else {
            self.held.push((attributes.inode, attributes.kind));
        }
        Answer::Node(known.unwrap_or(self.held.len() - 1), Box::new(attributes))
    }

    /// After a reopen: holds the root, and every node of the tree, found by name in name order.
    ///
    /// # Errors
    /// Of the file system.
    pub fn take_hold(&mut self) -> Result<()> {
        self.held.truncate(1);
        let mut open = vec![InodeId::ROOT];
        while let Some(directory) = open.pop() {
            let mut names: Vec<Vec<u8>> = list_all(&self.system, directory)?
                .into_iter()
                .map(|(name, _)| name)
                .collect();
            names.sort();
            for name in names {
                let found = self.system.lookup(&Caller::root(), directory, &name)?;
                let (inode, kind) = (found.inode, found.kind);
                self.keep(found);
                if kind == NodeKind::Directory {
                    open.push(inode);
                }
            }
        }
        Ok(())
    }

    /// Carries `operation` out.
    pub fn apply(&mut self, operation: &Operation) -> Answer {
        self.try_apply(operation).unwrap_or_else(Answer::Refused)
    }

    fn try_apply(&mut self, operation: &Operation) -> Result<Answer> {
        match operation {
            Operation::Create { .. }
            | Operation::CreateUnnamed { .. }
            | Operation::Link { .. }
            | Operation::Unlink { .. }
            | Operation::RemoveDirectory { .. }
            | Operation::Rename { .. }
            | Operation::Lookup { .. }
            | Operation::List { .. }
            | Operation::Parent { .. } => self.apply_to_names(operation),
            Operation::Write { .. }
            | Operation::Append { .. }
            | Operation::Read { .. }
            | Operation::Truncate { .. }
            | Operation::Allocate { .. }
            | Operation::Copy { .. } => self.apply_to_content(operation),
            _ => self.apply_to_nodes(operation),
        }
    }

    fn directory(&self, pick: Pick) -> InodeId {
        self.pick(pick, Some(NodeKind::Directory))
    }

    fn file(&self, pick: Pick) -> InodeId {
        self.pick(pick, Some(NodeKind::File))
    }

    fn apply_to_names(&mut self, operation: &Operation) -> Result<Answer> {
        let root = &Caller::root();
        let made = match operation {
            Operation::Create {
                parent,
                name,
                kind,
                mode,
            } => {
                let target = if *kind == NodeKind::Symlink {
                    name_bytes(name / 2)
                } else {
                    Vec::new()
                };
                let node = NewNode {
                    kind: *kind,
                    mode: *mode,
                    rdev: 0,
                    target,
                };
                self.system
                    .create(root, self.directory(*parent), &name_bytes(*name), &node)?
            }
            Operation::CreateUnnamed { parent, mode } => {
                self.system
                    .create_unnamed(root, self.directory(*parent), *mode)?
            }
            Operation::Link { node, parent, name } => self.system.link(
                root,
                self.file(*node),
                self.directory(*parent),
                &name_bytes(*name),
            )?,
            Operation::Lookup { parent, name } => {
                self.system
                    .lookup(root, self.directory(*parent), &name_bytes(*name))?
            }
            Operation::Unlink { parent, name } => {
                self.system
                    .unlink(root, self.directory(*parent), &name_bytes(*name))?;
                return Ok(Answer::Done);
            }
            Operation::RemoveDirectory { parent, name } => {
                self.system
                    .remove_directory(root, self.directory(*parent), &name_bytes(*name))?;
                return Ok(Answer::Done);
            }
            Operation::Rename { from, to, mode } => {
                let (old, new) = (name_bytes(from.1), name_bytes(to.1));
                self.system.rename(
                    root,
                    self.directory(from.0),
                    &old,
                    self.directory(to.0),
                    &new,
                    *mode,
                )?;
                return Ok(Answer::Done);
            }
            Operation::List { directory, limit } => {
                let mut names = list_by(
                    &self.system,
                    self.directory(*directory),
                    usize::from(*limit).max(1),
                )?;
                names.sort_by(|one, other| one.0.cmp(&other.0));
                return Ok(Answer::Names(names));
            }
            Operation::Parent { directory } => {
                let parent = self.system.parent(self.directory(*directory))?;
                return Ok(Answer::Number(
                    self.held
                        .iter()
                        .position(|(inode, _)| *inode == parent)
                        .unwrap_or(usize::MAX) as u64,
                ));
            }
            other => unreachable!("not an operation on names: {other:?}"),
        };
        Ok(self.keep(made))
    }

    fn apply_to_content(&mut self, operation: &Operation) -> Result<Answer> {
        match operation {
            Operation::Write {
                file,
                offset,
                len,
                fill,
            } => {
                self.system
                    .write(self.file(*file), u64::from(*offset), &content(*fill, *len))?;
            }
            Operation::Append { file, len, fill } => {
                return Ok(Answer::Number(
                    self.system
                        .append(self.file(*file), &content(*fill, *len))?,
                ));
            }
            Operation::Read { file, offset, len } => {
                let mut buffer = vec![0xA5; *len as usize];
                let count = self
                    .system
                    .read(self.file(*file), u64::from(*offset), &mut buffer)?;
                buffer.truncate(count);
                return Ok(Answer::Bytes(buffer));
            }
            Operation::Truncate { file, size } => {
                let set = SetAttributes {
                    size: Some(u64::from(*size)),
                    ..SetAttributes::default()
                };
                let inode = self.file(*file);
                return self.set(inode, &set);
            }
            Operation::Allocate {
                file,
                mode,
                offset,
                len,
            } => {
                self.system.allocate(
                    self.file(*file),
                    *mode,
                    u64::from(*offset),
                    u64::from(*len),
                )?;
            }
            Operation::Copy {
                source,
                source_offset,
                target,
                target_offset,
                len,
            } => {
                let (source, target) = (self.file(*source), self.file(*target));
                let (from, to) = (u64::from(*source_offset), u64::from(*target_offset));
                return Ok(Answer::Number(self.system.copy_range(
                    source,
                    from,
                    target,
                    to,
                    u64::from(*len),
                )?));
            }
            other => unreachable!("not an operation on content: {other:?}"),
        }
        Ok(Answer::Done)
    }

    fn apply_to_nodes(&mut self, operation: &Operation) -> Result<Answer> {
        let root = &Caller::root();
        match operation {
            Operation::Mode { node, mode } => {
                let inode = self.pick(*node, Some(NodeKind::File));
                return self.set(
                    inode,
                    &SetAttributes {
                        mode: Some(*mode),
                        ..SetAttributes::default()
                    },
                );
            }
            Operation::Owner { node, uid, gid } => {
                let inode = self.pick(*node, None);
                return self.set(
                    inode,
                    &SetAttributes {
                        uid: Some(*uid),
                        gid: Some(*gid),
                        ..SetAttributes::default()
                    },
                );
            }
            Operation::Times { node, at } => {
                let at = Some(SetTime::At(Timestamp(*at)));
                let inode = self.pick(*node, None);
                return self.set(
                    inode,
                    &SetAttributes {
                        atime: at,
                        mtime: at,
                        ..SetAttributes::default()
                    },
                );
            }
            Operation::SetXattr {
                node,
                name,
                len,
                mode,
            } => {
                let value = content(*name, u32::from(*len));
                self.system
                    .set_xattr(root, self.file(*node), &xattr_name(*name), &value, *mode)?;
            }
            Operation::RemoveXattr { node, name } => {
                self.system
                    .remove_xattr(root, self.file(*node), &xattr_name(*name))?
            }
            Operation::SyncNode { node } => self.system.sync_inode(self.pick(*node, None))?,
            Operation::SyncFile { file } => self.system.sync_inode(self.file(*file))?,
            Operation::Sync => self.system.sync()?,
            Operation::Forget { node } => {
                let at = usize::from(*node) % self.held.len();
                if at > 0 {
                    let (inode, _) = self.held.remove(at);
                    self.system.forget(inode, 1);
                }
            }
            other => unreachable!("not an operation on nodes: {other:?}"),
        }
        Ok(Answer::Done)
    }

    fn set(&self, inode: InodeId, set: &SetAttributes) -> Result<Answer> {
        let attributes = self.system.set_attributes(&Caller::root(), inode, set)?;
        let at = self
            .held
            .iter()
            .position(|(held, _)| *held == inode)
            .unwrap_or(usize::MAX);
        Ok(Answer::Node(at, Box::new(attributes)))
    }
}

fn xattr_name(name: u8) -> Vec<u8> {
    format!("user.x{}", name % 4).into_bytes()
}

/// All entries of a directory.
///
/// # Errors
/// Of the file system.
pub fn list_all<F: FileSystemUnderTest>(
    system: &F,
    directory: InodeId,
) -> Result<Vec<(Vec<u8>, NodeKind)>> {
    list_by(system, directory, 100)
}

/// All entries of a directory, `limit` at a time; cookies must rise.
fn list_by<F: FileSystemUnderTest>(
    system: &F,
    directory: InodeId,
    limit: usize,
) -> Result<Vec<(Vec<u8>, NodeKind)>> {
    let mut all = Vec::new();
    let mut after = 0;
    loop {
        let page = system.list(&Caller::root(), directory, after, limit, Listing::Names)?;
        assert!(
            page.len() <= limit,
            "a listing of {limit} gave {} entries",
            page.len()
        );
        for entry in &page {
            assert!(
                entry.cookie > after,
                "cookies must rise: {} after {after}",
                entry.cookie
            );
            after = entry.cookie;
        }
        if page.is_empty() {
            return Ok(all);
        }
        all.extend(page.into_iter().map(|entry| (entry.name, entry.kind)));
    }
}
