//! Transactions: several changes at once, and the replacement of one content by another.
//!
//! Takes   collected reads and changes; or one content
//! Gives   all of them carried out, or none
//! Never   blocks other callers before the commit

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use strongroom::Operation;
use strongroom::filesystem::Durability;

use crate::attributes::{Stat, stat_of};
use crate::calls::detached;
use crate::error::raise;
use crate::names::{Changes, links, rename_mode, xattr_mode};
use crate::opened::Opened;
use crate::vault::Vault;

/// When a change returns.
const fn durability(durable: bool) -> Durability {
    match durable {
        true => Durability::OnReturn,
        false => Durability::WriteBehind,
    }
}

/// Makes a file with `content`, or puts it in the place of what the file holds, at once.
#[pyfunction]
pub(crate) fn replace(
    py: Python<'_>,
    vault: &Vault,
    path: &[u8],
    content: &[u8],
    durable: bool,
) -> PyResult<()> {
    vault.ask(py, &[path], |vault| {
        vault.replace(path, content, durability(durable))
    })
}

/// A transaction under way.
#[pyclass(frozen, module = "strongroom._native")]
pub(crate) struct Transaction {
    opened: Opened<strongroom::Transaction>,
}

impl Transaction {
    fn ask<T: Send>(
        &self,
        py: Python<'_>,
        path: &[u8],
        question: impl FnOnce(&mut strongroom::Transaction) -> strongroom::Result<T> + Send,
    ) -> PyResult<T> {
        self.opened
            .borrow(py, question)?
            .map_err(|error| raise(py, &error, &[path]))
    }

    fn add(&self, operation: Operation) -> PyResult<()> {
        self.opened.with(|transaction| {
            transaction.add(operation);
        })
    }
}

#[pymethods]
impl Transaction {
    /// What `stat` shows.
    fn stat(&self, py: Python<'_>, path: &[u8], follow: bool) -> PyResult<Stat> {
        self.ask(py, path, |transaction| {
            let node = transaction.attributes(path, links(follow))?;
            Ok(stat_of(&node))
        })
    }

    /// The whole content of a file.
    fn read<'py>(&self, py: Python<'py>, path: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let content = self.ask(py, path, |transaction| transaction.read(path))?;
        Ok(PyBytes::new(py, &content))
    }

    /// The names in a directory, sorted.
    fn names<'py>(&self, py: Python<'py>, path: &[u8]) -> PyResult<Bound<'py, PyList>> {
        let names = self.ask(py, path, |transaction| transaction.names(path))?;
        PyList::new(py, names.iter().map(|name| PyBytes::new(py, name)))
    }

    /// Makes a file, or replaces its content.
    fn write(&self, path: &[u8], content: &[u8], mode: u32) -> PyResult<()> {
        self.add(Operation::WriteFile {
            path: path.to_vec(),
            mode,
            content: content.to_vec(),
        })
    }

    /// Writes into an existing file.
    fn write_at(&self, path: &[u8], offset: u64, data: &[u8]) -> PyResult<()> {
        self.add(Operation::WriteAt {
            path: path.to_vec(),
            offset,
            data: data.to_vec(),
        })
    }

    /// Cuts a file, or extends it by zeros.
    fn truncate(&self, path: &[u8], size: u64) -> PyResult<()> {
        let path = path.to_vec();
        self.add(Operation::Truncate { path, size })
    }

    /// Makes a directory.
    fn make_directory(&self, path: &[u8], mode: u32) -> PyResult<()> {
        let path = path.to_vec();
        self.add(Operation::MakeDirectory { path, mode })
    }

    /// Makes a symbolic link.
    fn make_symlink(&self, target: &[u8], path: &[u8]) -> PyResult<()> {
        self.add(Operation::MakeSymlink {
            path: path.to_vec(),
            target: target.to_vec(),
        })
    }

    /// Gives a node a further name.
    fn link(&self, path: &[u8], new_path: &[u8]) -> PyResult<()> {
        self.add(Operation::Link {
            path: path.to_vec(),
            new_path: new_path.to_vec(),
        })
    }

    /// Moves a name.
    fn rename(&self, path: &[u8], new_path: &[u8], how: &str) -> PyResult<()> {
        self.add(Operation::Rename {
            path: path.to_vec(),
            new_path: new_path.to_vec(),
            mode: rename_mode(how)?,
        })
    }

    /// Removes the name of anything but a directory.
    fn remove_file(&self, path: &[u8]) -> PyResult<()> {
        let path = path.to_vec();
        self.add(Operation::RemoveFile { path })
    }

    /// Removes an empty directory.
    fn remove_directory(&self, path: &[u8]) -> PyResult<()> {
        let path = path.to_vec();
        self.add(Operation::RemoveDirectory { path })
    }

    /// Changes attributes.
    #[pyo3(signature = (path, follow, *, mode=None, uid=None, gid=None, atime=None, mtime=None))]
    #[expect(clippy::too_many_arguments, reason = "Python gives them by name")]
    fn set_attributes(
        &self,
        path: &[u8],
        follow: bool,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        atime: Option<i64>,
        mtime: Option<i64>,
    ) -> PyResult<()> {
        let changes = Changes {
            mode,
            uid,
            gid,
            size: None,
            atime,
            mtime,
        };
        self.add(Operation::SetAttributes {
            path: path.to_vec(),
            links: links(follow),
            set: changes.into(),
        })
    }

    /// Sets an extended attribute.
    fn set_xattr(
        &self,
        path: &[u8],
        name: &[u8],
        value: &[u8],
        how: &str,
        follow: bool,
    ) -> PyResult<()> {
        self.add(Operation::SetXattr {
            path: path.to_vec(),
            links: links(follow),
            name: name.to_vec(),
            value: value.to_vec(),
            mode: xattr_mode(how)?,
        })
    }

    /// Removes an extended attribute.
    fn remove_xattr(&self, path: &[u8], name: &[u8], follow: bool) -> PyResult<()> {
        self.add(Operation::RemoveXattr {
            path: path.to_vec(),
            links: links(follow),
            name: name.to_vec(),
        })
    }

    /// Carries the changes out, all or none.
    fn commit(&self, py: Python<'_>, durable: bool) -> PyResult<()> {
        let transaction = self.opened.take()?;
        let transaction = transaction
            .ok_or_else(|| PyValueError::new_err("the transaction is closed: it has ended"))?;
        detached(py, || transaction.commit(durability(durable)))?
            .map_err(|error| raise(py, &error, &[]))
    }

    /// Ends it without a change.
    fn roll_back(&self) -> PyResult<()> {
        self.opened.take().map(drop)
    }
}

/// Begins a transaction.
#[pyfunction]
pub(crate) fn begin(vault: &Vault) -> PyResult<Transaction> {
    Ok(Transaction {
        opened: Opened::new("transaction", vault.get()?.begin()),
    })
}
