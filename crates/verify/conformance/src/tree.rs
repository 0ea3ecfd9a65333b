//! A whole file system as one value, for comparison with another.
//!
//! Takes   a file system
//! Gives   every path with all facts about its node
//! Never   compares inode numbers, except which paths share one
//! Spec    none: test only

use std::collections::{BTreeMap, HashMap};

use strongroom_filesystem::{Caller, InodeId, NodeKind, Result};

use crate::operation::list_all;
use crate::under_test::FileSystemUnderTest;

/// What stands under one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// What it is.
    pub kind: NodeKind,
    /// The low 12 bits of its mode.
    pub mode: u32,
    /// Owner and group.
    pub owner: (u32, u32),
    /// Count of names.
    pub nlink: u32,
    /// The bytes of a file, the target of a symlink, else nothing.
    pub bytes: Vec<u8>,
    /// Extended attributes.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The first path, in order, that names the same node.
    pub first_path: Vec<u8>,
}

/// Every path, the root being the empty one.
pub type Tree = BTreeMap<Vec<u8>, Leaf>;

/// Reads all of `system`, which must have no holes bigger than memory.
///
/// # Errors
/// Of the file system: whatever cannot be read is a finding.
pub fn read_tree<F: FileSystemUnderTest>(system: &F) -> Result<Tree> {
    let mut tree = Tree::new();
    let mut first: HashMap<InodeId, Vec<u8>> = HashMap::new();
    let mut open = vec![(InodeId::ROOT, Vec::new())];
    while let Some((inode, path)) = open.pop() {
        let leaf = read_leaf(system, inode, &path)?;
        let earliest = first.entry(inode).or_insert_with(|| path.clone());
        if path < *earliest {
            earliest.clone_from(&path);
        }
        if leaf.kind == NodeKind::Directory {
            for (name, _) in list_all(system, inode)? {
                let child = system.lookup(&Caller::root(), inode, &name)?;
                open.push((child.inode, [&path[..], b"/", &name].concat()));
            }
        }
        tree.insert(
            path.clone(),
            Leaf {
                first_path: inode.0.to_le_bytes().to_vec(),
                ..leaf
            },
        );
        if inode != InodeId::ROOT {
            system.forget(inode, 1);
        }
    }
    for leaf in tree.values_mut() {
        let number = <[u8; 8]>::try_from(&leaf.first_path[..]).map_or(0, u64::from_le_bytes);
        leaf.first_path = first.get(&InodeId(number)).cloned().unwrap_or_default();
    }
    Ok(tree)
}

fn read_leaf<F: FileSystemUnderTest>(system: &F, inode: InodeId, path: &[u8]) -> Result<Leaf> {
    let attributes = system.attributes(inode)?;
    let bytes = match attributes.kind {
        NodeKind::File => {
            let mut bytes = vec![0; usize::try_from(attributes.size).unwrap_or(usize::MAX)];
            let count = system.read(inode, 0, &mut bytes)?;
            bytes.truncate(count);
            bytes
        }
        NodeKind::Symlink => system.read_link(inode)?,
        _ => Vec::new(),
    };
    let mut xattrs = BTreeMap::new();
    for name in system.xattrs(&Caller::root(), inode)? {
        let value = system.xattr(&Caller::root(), inode, &name)?;
        xattrs.insert(name, value);
    }
    Ok(Leaf {
        kind: attributes.kind,
        mode: attributes.mode,
        owner: (attributes.uid, attributes.gid),
        nlink: attributes.nlink,
        bytes,
        xattrs,
        first_path: path.to_vec(),
    })
}

/// The first difference of two trees, in words; `None` if they are equal.
#[must_use]
pub fn first_difference(expected: &Tree, found: &Tree) -> Option<String> {
    let paths = expected.keys().chain(found.keys());
    let path = paths
        .filter(|path| expected.get(*path) != found.get(*path))
        .min()?;
    let shown = String::from_utf8_lossy(path).into_owned();
    match (expected.get(path), found.get(path)) {
        (Some(_), None) => Some(format!("{shown:?} is missing")),
        (None, Some(leaf)) => Some(format!("{shown:?} should not be there: {:?}", leaf.kind)),
        (Some(one), Some(other)) if one.bytes != other.bytes => {
            let at = one
                .bytes
                .iter()
                .zip(&other.bytes)
                .position(|(one, other)| one != other);
            let (one, other) = (one.bytes.len(), other.bytes.len());
            Some(format!(
                "{shown:?} differs from byte {}: {one} bytes expected, {other} found",
                at.unwrap_or(one.min(other))
            ))
        }
        (one, other) => {
            let plain = |leaf: Option<&Leaf>| {
                leaf.map(|leaf| Leaf {
                    bytes: Vec::new(),
                    ..leaf.clone()
                })
            };
            Some(format!(
                "{shown:?}: expected {:?}, found {:?}",
                plain(one),
                plain(other)
            ))
        }
    }
}
