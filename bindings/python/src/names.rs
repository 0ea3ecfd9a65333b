//! Names and what they refer to: attributes, creation, removal, renaming.
//!
//! Takes   paths as bytes, beginning with `/`
//! Gives   attributes, names, targets, values of extended attributes
//! Never   resolves a path itself

use parking_lot::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use strongroom::filesystem::{NodeKind, RenameMode, SetAttributes, SetTime, Timestamp, XattrMode};
use strongroom::{Directory, Links, Walk};

use crate::attributes::{Stat, stat_of};
use crate::calls::detached;
use crate::error::raise;
use crate::history::{State, Tree};
use crate::opened::Opened;
use crate::vault::Vault;

/// Entries that a listing gives at once.
const PAGE: usize = 1024;

/// What to do with a symlink at the end of a path.
pub(crate) const fn links(follow: bool) -> Links {
    match follow {
        true => Links::Follow,
        false => Links::Stay,
    }
}

/// Attributes to change; times in nanoseconds since 1970.
#[derive(Clone, Copy, Default)]
pub(crate) struct Changes {
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) size: Option<u64>,
    pub(crate) atime: Option<i64>,
    pub(crate) mtime: Option<i64>,
}

impl From<Changes> for SetAttributes {
    fn from(changes: Changes) -> Self {
        let at = |time: i64| SetTime::At(Timestamp(time));
        Self {
            mode: changes.mode,
            uid: changes.uid,
            gid: changes.gid,
            size: changes.size,
            atime: changes.atime.map(at),
            mtime: changes.mtime.map(at),
        }
    }
}

/// The mode of a rename.
pub(crate) fn rename_mode(how: &str) -> PyResult<RenameMode> {
    Ok(match how {
        "replace" => RenameMode::Replace,
        "no_replace" => RenameMode::NoReplace,
        "exchange" => RenameMode::Exchange,
        "whiteout" => RenameMode::Whiteout,
        _ => {
            return Err(PyValueError::new_err(format!(
                "{how:?} is not replace, no_replace, exchange or whiteout"
            )));
        }
    })
}

/// What if an extended attribute is there.
pub(crate) fn xattr_mode(how: &str) -> PyResult<XattrMode> {
    Ok(match how {
        "set" => XattrMode::Set,
        "create" => XattrMode::CreateOnly,
        "replace" => XattrMode::ReplaceOnly,
        _ => {
            return Err(PyValueError::new_err(format!(
                "{how:?} is not set, create or replace"
            )));
        }
    })
}

/// What `stat` shows of the node at `path`.
#[pyfunction]
pub(crate) fn stat(py: Python<'_>, tree: Tree<'_>, path: &[u8], follow: bool) -> PyResult<Stat> {
    let node = tree.ask(py, &[path], |state| match state {
        State::Now(vault) => vault.attributes(path, links(follow)),
        State::Then(snapshot) => snapshot.attributes(path, links(follow)),
    })?;
    Ok(stat_of(&node))
}

/// Changes mode, owner, size or times.
#[pyfunction]
#[pyo3(signature = (vault, path, follow, *, mode=None, uid=None, gid=None, size=None, atime=None, mtime=None))]
#[expect(clippy::too_many_arguments, reason = "Python gives them by name")]
pub(crate) fn set_attributes(
    py: Python<'_>,
    vault: &Vault,
    path: &[u8],
    follow: bool,
    mode: Option<u32>,
    uid: Option<u32>,
    gid: Option<u32>,
    size: Option<u64>,
    atime: Option<i64>,
    mtime: Option<i64>,
) -> PyResult<()> {
    let set = Changes {
        mode,
        uid,
        gid,
        size,
        atime,
        mtime,
    }
    .into();
    vault.ask(py, &[path], |vault| {
        vault.set_attributes(path, links(follow), &set).map(drop)
    })
}

/// Makes a directory.
#[pyfunction]
pub(crate) fn make_directory(
    py: Python<'_>,
    vault: &Vault,
    path: &[u8],
    mode: u32,
) -> PyResult<()> {
    vault.ask(py, &[path], |vault| {
        vault.make_directory(path, mode).map(drop)
    })
}

/// Makes a directory and all that are missing on the way to it.
#[pyfunction]
pub(crate) fn make_directories(
    py: Python<'_>,
    vault: &Vault,
    path: &[u8],
    mode: u32,
) -> PyResult<()> {
    vault.ask(py, &[path], |vault| vault.create_dir_all(path, mode))
}

/// Makes a node of the kind that the bits of `mode` name.
#[pyfunction]
pub(crate) fn make_node(
    py: Python<'_>,
    vault: &Vault,
    path: &[u8],
    mode: u32,
    device: u64,
) -> PyResult<()> {
    let kind = match mode & 0o170_000 {
        0 | 0o100_000 => NodeKind::File,
        0o040_000 => NodeKind::Directory,
        0o010_000 => NodeKind::Fifo,
        0o140_000 => NodeKind::Socket,
        0o020_000 => NodeKind::CharDevice,
        0o060_000 => NodeKind::BlockDevice,
        // The vault says why.
        _ => NodeKind::Symlink,
    };
    vault.ask(py, &[path], |vault| {
        vault.make_node(path, kind, mode & 0o7777, device).map(drop)
    })
}

/// Makes a symbolic link.
#[pyfunction]
pub(crate) fn make_symlink(
    py: Python<'_>,
    vault: &Vault,
    target: &[u8],
    path: &[u8],
) -> PyResult<()> {
    vault.ask(py, &[target, path], |vault| {
        vault.make_symlink(target, path).map(drop)
    })
}

/// Gives the node at `path` a further name.
#[pyfunction]
pub(crate) fn link(py: Python<'_>, vault: &Vault, path: &[u8], new_path: &[u8]) -> PyResult<()> {
    vault.ask(py, &[path, new_path], |vault| {
        vault.link(path, new_path).map(drop)
    })
}

/// Where a symlink points.
#[pyfunction]
pub(crate) fn read_link<'py>(
    py: Python<'py>,
    tree: Tree<'py>,
    path: &[u8],
) -> PyResult<Bound<'py, PyBytes>> {
    let target = tree.ask(py, &[path], |state| match state {
        State::Now(vault) => vault.read_link(path),
        State::Then(snapshot) => snapshot.read_link(path),
    })?;
    Ok(PyBytes::new(py, &target))
}

/// Removes the name of anything but a directory.
#[pyfunction]
pub(crate) fn remove_file(py: Python<'_>, vault: &Vault, path: &[u8]) -> PyResult<()> {
    vault.ask(py, &[path], |vault| vault.remove_file(path))
}

/// Removes an empty directory.
#[pyfunction]
pub(crate) fn remove_directory(py: Python<'_>, vault: &Vault, path: &[u8]) -> PyResult<()> {
    vault.ask(py, &[path], |vault| vault.remove_directory(path))
}

/// Removes a directory and all below it.
#[pyfunction]
pub(crate) fn remove_tree(py: Python<'_>, vault: &Vault, path: &[u8]) -> PyResult<()> {
    vault.ask(py, &[path], |vault| vault.remove_dir_all(path))
}

/// Moves a name.
#[pyfunction]
pub(crate) fn rename(
    py: Python<'_>,
    vault: &Vault,
    path: &[u8],
    new_path: &[u8],
    how: &str,
) -> PyResult<()> {
    let mode = rename_mode(how)?;
    vault.ask(py, &[path, new_path], |vault| {
        vault.rename(path, new_path, mode)
    })
}

/// The value of an extended attribute.
#[pyfunction]
pub(crate) fn get_xattr<'py>(
    py: Python<'py>,
    tree: Tree<'py>,
    path: &[u8],
    name: &[u8],
    follow: bool,
) -> PyResult<Bound<'py, PyBytes>> {
    let value = tree.ask(py, &[path], |state| match state {
        State::Now(vault) => vault.xattr(path, links(follow), name),
        State::Then(snapshot) => snapshot.xattr(path, links(follow), name),
    })?;
    Ok(PyBytes::new(py, &value))
}

/// Sets an extended attribute.
#[pyfunction]
pub(crate) fn set_xattr(
    py: Python<'_>,
    vault: &Vault,
    path: &[u8],
    name: &[u8],
    value: &[u8],
    how: &str,
    follow: bool,
) -> PyResult<()> {
    let mode = xattr_mode(how)?;
    vault.ask(py, &[path], |vault| {
        vault.set_xattr(path, links(follow), name, value, mode)
    })
}

/// Removes an extended attribute.
#[pyfunction]
pub(crate) fn remove_xattr(
    py: Python<'_>,
    vault: &Vault,
    path: &[u8],
    name: &[u8],
    follow: bool,
) -> PyResult<()> {
    vault.ask(py, &[path], |vault| {
        vault.remove_xattr(path, links(follow), name)
    })
}

/// The names of all extended attributes.
#[pyfunction]
pub(crate) fn list_xattrs<'py>(
    py: Python<'py>,
    tree: Tree<'py>,
    path: &[u8],
    follow: bool,
) -> PyResult<Bound<'py, PyList>> {
    let names = tree.ask(py, &[path], |state| match state {
        State::Now(vault) => vault.xattrs(path, links(follow)),
        State::Then(snapshot) => snapshot.xattrs(path, links(follow)),
    })?;
    PyList::new(py, names.iter().map(|name| PyBytes::new(py, name)))
}

/// What a listing goes over.
enum Source {
    Directory(Directory),
    Walk(Box<Walk>),
}

/// A name, or a path of a walk, and what `stat` shows of it.
type Entry = (Vec<u8>, Stat);

impl Iterator for Source {
    type Item = strongroom::Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Directory(directory) => {
                let entry = directory.next()?;
                Some(entry.map(|entry| (entry.name, stat_of(&entry.attributes))))
            }
            Self::Walk(walk) => {
                let entry = walk.next()?;
                Some(entry.map(|entry| (entry.path, stat_of(&entry.attributes))))
            }
        }
    }
}

impl Source {
    /// Up to `PAGE` entries, and the error that ended them early.
    fn page(&mut self) -> (Vec<Entry>, Option<strongroom::Error>) {
        let mut entries = Vec::new();
        for met in self.take(PAGE) {
            match met {
                Ok(entry) => entries.push(entry),
                Err(error) => return (entries, Some(error)),
            }
        }
        (entries, None)
    }
}

/// A listing under way.
#[pyclass(frozen, module = "strongroom._native")]
pub(crate) struct Listing {
    source: Opened<Source>,
    path: Vec<u8>,
    /// An error that came behind entries, for the next call.
    failed: Mutex<Option<strongroom::Error>>,
}

#[pymethods]
impl Listing {
    /// The next entries, each a name and what `stat` shows of it, of a symlink itself; none at the end.
    fn page<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        if let Some(error) = self.failed.lock().take() {
            return Err(raise(py, &error, &[&self.path]));
        }
        let (entries, failed) = self.source.borrow(py, Source::page)?;
        match failed {
            Some(error) if entries.is_empty() => return Err(raise(py, &error, &[&self.path])),
            failed => *self.failed.lock() = failed,
        }
        let named = |(name, stat): (Vec<u8>, Stat)| (PyBytes::new(py, &name), stat);
        PyList::new(py, entries.into_iter().map(named))
    }

    /// Ends it.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if !self.source.is_forked() {
            let source = self.source.take()?;
            detached(py, move || drop(source))?;
        }
        Ok(())
    }
}

/// Lists a directory; `deep`: everything below it, by paths, in their order.
#[pyfunction]
pub(crate) fn list_directory(
    py: Python<'_>,
    tree: Tree<'_>,
    path: &[u8],
    deep: bool,
) -> PyResult<Listing> {
    let of_walk = |walk| Source::Walk(Box::new(walk));
    let source = tree.ask(py, &[path], |state| match (state, deep) {
        (State::Now(vault), true) => vault.walk(path).map(of_walk),
        (State::Now(vault), false) => vault.list(path).map(Source::Directory),
        (State::Then(snapshot), true) => snapshot.walk(path).map(of_walk),
        (State::Then(snapshot), false) => snapshot.list(path).map(Source::Directory),
    })?;
    Ok(Listing {
        source: Opened::new("listing", source),
        path: path.to_vec(),
        failed: Mutex::new(None),
    })
}
