//! Converts the attributes of a node for Python's `stat`.
//!
//! Takes   `Attributes`
//! Gives   a tuple, and of a tuple an `os.stat_result`
//! Never   leaves that to Python, where it would take longer than the call into the vault

use pyo3::IntoPyObjectExt as _;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyTuple, PyType};
use strongroom::filesystem::{Attributes, NodeKind};

/// Content is stored in blocks of this size at most.
pub(crate) const BLOCK_BYTES: u32 = 65_536;

/// Nanoseconds.
const SECOND: i64 = 1_000_000_000;

/// `st_mode`, `st_ino`, `st_nlink`, `st_uid`, `st_gid`, `st_size`; access, modification, change and creation in nanoseconds;
/// `st_blocks`, `st_rdev`.
pub(crate) type Stat = (u32, u64, u32, u32, u32, u64, i64, i64, i64, i64, u64, u64);

/// The tuple of `attributes`.
pub(crate) fn stat_of(attributes: &Attributes) -> Stat {
    (
        kind_bits(attributes.kind) | attributes.mode,
        attributes.inode.0,
        attributes.nlink,
        attributes.uid,
        attributes.gid,
        attributes.size,
        attributes.atime.0,
        attributes.mtime.0,
        attributes.ctime.0,
        attributes.btime.0,
        attributes.blocks,
        attributes.rdev,
    )
}

/// The same as `os.stat_result`; `st_dev` is 0.
#[pyfunction]
pub(crate) fn stat_result(py: Python<'_>, stat: Stat) -> PyResult<Bound<'_, PyAny>> {
    static RESULT: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let (mode, inode, links, uid, gid, size, accessed, modified, changed, _created, blocks, device) =
        stat;
    let times = [accessed, modified, changed];
    let mut shown = vec![
        mode.into_py_any(py)?,
        inode.into_py_any(py)?,
        0.into_py_any(py)?,
        links.into_py_any(py)?,
        uid.into_py_any(py)?,
        gid.into_py_any(py)?,
        size.into_py_any(py)?,
    ];
    for ns in times {
        shown.push(ns.div_euclid(SECOND).into_py_any(py)?);
    }
    for ns in times {
        // As CPython does it, so that equal times are equal floats.
        let seconds = ns.div_euclid(SECOND) as f64 + 1e-9 * ns.rem_euclid(SECOND) as f64;
        shown.push(seconds.into_py_any(py)?);
    }
    for ns in times {
        shown.push(ns.into_py_any(py)?);
    }
    shown.push(BLOCK_BYTES.into_py_any(py)?);
    shown.push(blocks.into_py_any(py)?);
    shown.push(device.into_py_any(py)?);
    let result = RESULT.import(py, "os", "stat_result")?;
    result.call1((PyTuple::new(py, shown)?,))
}

/// The bits of `st_mode` that name a kind, as `stat.S_IFMT` takes them out.
pub(crate) const fn kind_bits(kind: NodeKind) -> u32 {
    match kind {
        NodeKind::File => 0o100_000,
        NodeKind::Directory => 0o040_000,
        NodeKind::Symlink => 0o120_000,
        NodeKind::Fifo => 0o010_000,
        NodeKind::Socket => 0o140_000,
        NodeKind::CharDevice => 0o020_000,
        NodeKind::BlockDevice => 0o060_000,
    }
}
