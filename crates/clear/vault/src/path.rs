//! Turns a path of bytes into the node it names, as POSIX resolves one.
//!
//! Takes   an absolute path: names between slashes, `.`, `..`, symlinks on the way
//! Gives   the node, or the directory and the name where it would be; each holds its reference until dropped
//! Never   checks permissions (the file system does) or keeps anything between two calls
//!
//! Invariants
//!  (1) Every reference that a look-up took is released, whether it succeeds or fails.
//!  (2) A path resolves at most `SYMLINKS_MAX` symlinks, so that resolving ends.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use strongroom_filesystem::{
    self as filesystem, Attributes, Caller, Filesystem, InodeId, NodeKind,
};

use crate::limits::{PATH_BYTES_MAX, SYMLINKS_MAX};
use crate::{Error, Result};

/// What to do with a symlink at the end of a path. Symlinks before the end are always followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Links {
    /// Goes on to what it points to.
    Follow,
    /// Means the symlink itself.
    Stay,
}

/// What names a place in a vault: text, bytes, or a path of the standard library. Names are bytes; they need not be UTF-8.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let place = tempfile::tempdir()?;
/// # let folder = place.path().join("vault");
/// use std::path::{Path, PathBuf};
///
/// use strongroom::{CreateOptions, Vault};
///
/// let vault = Vault::create(&folder, CreateOptions::new())?.vault;
/// vault.write(Path::new("/notes").with_extension("txt"), "of a path")?;
/// vault.write(b"/caf\xe9", "a name in Latin-1")?;
/// assert_eq!(vault.read("/notes.txt")?, b"of a path");
/// assert_eq!(vault.read(PathBuf::from("/").join("notes.txt"))?, b"of a path");
/// # vault.close()?;
/// # Ok(())
/// # }
/// ```
pub trait VaultPath {
    /// Its bytes; a path of a vault begins with `/`.
    fn path_bytes(&self) -> &[u8];
}

/// For what gives a slice of bytes by one expression.
macro_rules! vault_paths {
    ($($kind:ty => |$value:ident| $bytes:expr),+ $(,)?) => {
        $(impl VaultPath for $kind {
            fn path_bytes(&self) -> &[u8] {
                let $value = self;
                $bytes
            }
        })+
    };
}

vault_paths!(
    [u8] => |path| path,
    Vec<u8> => |path| path,
    str => |path| path.as_bytes(),
    String => |path| path.as_bytes(),
    OsStr => |path| path.as_bytes(),
    OsString => |path| path.as_bytes(),
    Path => |path| path.as_os_str().as_bytes(),
    PathBuf => |path| path.as_os_str().as_bytes(),
);

impl<const LEN: usize> VaultPath for [u8; LEN] {
    fn path_bytes(&self) -> &[u8] {
        self
    }
}

impl<P: VaultPath + ?Sized> VaultPath for &P {
    fn path_bytes(&self) -> &[u8] {
        (**self).path_bytes()
    }
}

/// `name` below `directory`.
pub(crate) fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = directory.to_vec();
    if path.last() != Some(&b'/') {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

/// A node, held by one reference.
pub(crate) struct HeldNode {
    filesystem: Filesystem,
    pub(crate) attributes: Attributes,
    /// The root is held by nobody: it cannot go.
    counted: bool,
}

impl HeldNode {
    /// Takes over the reference that came with `attributes`.
    pub(crate) fn take(filesystem: &Filesystem, attributes: Attributes) -> Self {
        Self {
            filesystem: filesystem.clone(),
            attributes,
            counted: true,
        }
    }

    fn root(filesystem: &Filesystem) -> Result<Self> {
        let attributes = filesystem.attributes(InodeId::ROOT)?;
        Ok(Self {
            filesystem: filesystem.clone(),
            attributes,
            counted: false,
        })
    }

    pub(crate) fn inode(&self) -> InodeId {
        self.attributes.inode
    }

    /// Hands the reference over to the caller, who must `forget` it.
    pub(crate) fn keep(mut self) -> Attributes {
        if !self.counted {
            self.filesystem.retain(self.attributes.inode);
        }
        self.counted = false;
        self.attributes.clone()
    }
}

impl Drop for HeldNode {
    fn drop(&mut self) {
        if self.counted {
            self.filesystem.forget(self.attributes.inode, 1); // (1)
        }
    }
}

impl AsRef<Attributes> for HeldNode {
    fn as_ref(&self) -> &Attributes {
        &self.attributes
    }
}

/// Where a path ends: the directory, the last name, and what is there now.
pub(crate) struct Place<N = HeldNode> {
    pub(crate) parent: N,
    pub(crate) name: Vec<u8>,
    pub(crate) node: Option<N>,
}

/// Directories that a path can lead through.
pub(crate) trait Tree {
    /// A node, for as long as somebody needs it.
    type Node: AsRef<Attributes>;

    /// The root.
    fn root(&mut self) -> Result<Self::Node>;

    /// What `name` in `parent` names.
    fn lookup(&mut self, parent: InodeId, name: &[u8]) -> filesystem::Result<Self::Node>;

    /// The target of a symlink.
    fn read_link(&mut self, symlink: InodeId) -> filesystem::Result<Vec<u8>>;
}

/// The file system as everyone sees it.
struct Whole<'a> {
    filesystem: &'a Filesystem,
    caller: &'a Caller,
}

impl Tree for Whole<'_> {
    type Node = HeldNode;

    fn root(&mut self) -> Result<HeldNode> {
        HeldNode::root(self.filesystem)
    }

    fn lookup(&mut self, parent: InodeId, name: &[u8]) -> filesystem::Result<HeldNode> {
        let found = self.filesystem.lookup(self.caller, parent, name)?;
        Ok(HeldNode::take(self.filesystem, found))
    }

    fn read_link(&mut self, symlink: InodeId) -> filesystem::Result<Vec<u8>> {
        self.filesystem.read_link(symlink)
    }
}

/// The node that `path` names.
pub(crate) fn resolve(
    filesystem: &Filesystem,
    caller: &Caller,
    path: &[u8],
    links: Links,
) -> Result<HeldNode> {
    resolve_in(&mut Whole { filesystem, caller }, path, links)
}

/// The node that `path` names in `tree`.
pub(crate) fn resolve_in<T: Tree>(tree: &mut T, path: &[u8], links: Links) -> Result<T::Node> {
    match Walk::begin(tree, path)?.run(links)? {
        End::Node(node) => Ok(node),
        End::Place(place) => place.node.ok_or(Error::File(filesystem::Error::NotFound)),
    }
}

/// The directory that holds the last name of `path`, and that name.
///
/// A symlink at the end is followed when `links` says so, also a dangling one: the place is then where it points.
///
/// # Errors
/// `InvalidArgument` for paths that end in no name: the root, `.` and `..`.
pub(crate) fn resolve_place(
    filesystem: &Filesystem,
    caller: &Caller,
    path: &[u8],
    links: Links,
) -> Result<Place> {
    resolve_place_in(&mut Whole { filesystem, caller }, path, links)
}

/// As `resolve_place`, in `tree`.
pub(crate) fn resolve_place_in<T: Tree>(
    tree: &mut T,
    path: &[u8],
    links: Links,
) -> Result<Place<T::Node>> {
    let no_name = || filesystem::Error::InvalidArgument("the path does not end in a name".into());
    let mut names = path.split(|byte| *byte == b'/');
    if names.rfind(|name| !name.is_empty()) == Some(b".") {
        return Err(no_name().into());
    }
    match Walk::begin(tree, path)?.run(links)? {
        End::Place(place) => Ok(place),
        End::Node(_) => Err(no_name().into()),
    }
}

/// Whether `path` asks for a directory by ending in a slash.
pub(crate) fn wants_directory(path: &[u8]) -> bool {
    path.last() == Some(&b'/')
}

enum End<N> {
    /// The root, or a path that ended in `.` or `..`.
    Node(N),
    Place(Place<N>),
}

struct Walk<'a, T: Tree> {
    tree: &'a mut T,
    at: T::Node,
    /// Names still to go, the next one last.
    ahead: Vec<Vec<u8>>,
    /// The path, or the last symlink followed, ended in a slash.
    directory: bool,
    symlinks: usize,
}

impl<'a, T: Tree> Walk<'a, T> {
    fn begin(tree: &'a mut T, path: &[u8]) -> Result<Self> {
        if path.len() > PATH_BYTES_MAX {
            return Err(Error::PathTooLong);
        }
        if path.first() != Some(&b'/') {
            return Err(Error::File(filesystem::Error::InvalidArgument(
                "a path must begin with /".into(),
            )));
        }
        let at = tree.root()?;
        let mut walk = Self {
            tree,
            at,
            ahead: Vec::new(),
            directory: wants_directory(path),
            symlinks: 0,
        };
        walk.push(path);
        Ok(walk)
    }

    /// Puts the names of `path` before those still to go.
    fn push(&mut self, path: &[u8]) {
        let names = path
            .split(|byte| *byte == b'/')
            .rev()
            .filter(|name| !name.is_empty() && *name != b".");
        self.ahead.extend(names.map(<[u8]>::to_vec));
    }

    fn run(mut self, links: Links) -> Result<End<T::Node>> {
        while let Some(name) = self.ahead.pop() {
            let last = self.ahead.is_empty();
            if self.at.as_ref().kind != NodeKind::Directory {
                return Err(Error::File(filesystem::Error::NotADirectory));
            }
            let found = match self.tree.lookup(self.at.as_ref().inode, &name) {
                Ok(node) => Some(node),
                Err(filesystem::Error::NotFound) if last && name != b".." => None,
                Err(error) => return Err(error.into()),
            };
            let follow = !last || self.directory || links == Links::Follow;
            match found {
                Some(node) if node.as_ref().kind == NodeKind::Symlink && follow => {
                    self.follow(node.as_ref().inode)?
                }
                Some(node) if !last || name == b".." => self.at = node,
                node => return self.end(name, node),
            }
        }
        Ok(End::Node(self.at))
    }

    fn end(self, name: Vec<u8>, node: Option<T::Node>) -> Result<End<T::Node>> {
        if self.directory
            && node
                .as_ref()
                .is_some_and(|node| node.as_ref().kind != NodeKind::Directory)
        {
            return Err(Error::File(filesystem::Error::NotADirectory));
        }
        Ok(End::Place(Place {
            parent: self.at,
            name,
            node,
        }))
    }

    fn follow(&mut self, symlink: InodeId) -> Result<()> {
        self.symlinks += 1;
        if self.symlinks > SYMLINKS_MAX {
            return Err(Error::TooManySymlinks); // (2)
        }
        let target = self.tree.read_link(symlink)?;
        if target.len() > PATH_BYTES_MAX {
            return Err(Error::PathTooLong);
        }
        if target.first() == Some(&b'/') {
            self.at = self.tree.root()?;
        }
        self.directory |= self.ahead.is_empty() && wants_directory(&target);
        self.push(&target);
        Ok(())
    }
}
