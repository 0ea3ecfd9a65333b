//! Space here and at remotes: content that is only at remotes, pins, and what nothing refers to any more.
//!
//! Takes   paths and names of remotes, and a callable for progress
//! Gives   reports as dictionaries
//! Never   evicts content that no remote has

use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use strongroom::{BringBackReport, EvictReport, PruneReport};

use crate::remotes::reach;
use crate::vault::Vault;

/// What an eviction did.
#[derive(IntoPyObject)]
pub(crate) struct Evicted {
    segments: u64,
    bytes: u64,
    kept: u64,
    kept_bytes: u64,
    pinned: u64,
    pinned_bytes: u64,
    problems: Vec<String>,
    is_stopped: bool,
}

impl From<EvictReport> for Evicted {
    fn from(report: EvictReport) -> Self {
        Self {
            segments: report.segments,
            bytes: report.bytes,
            kept: report.kept,
            kept_bytes: report.kept_bytes,
            pinned: report.pinned,
            pinned_bytes: report.pinned_bytes,
            problems: report.problems,
            is_stopped: report.is_stopped,
        }
    }
}

/// What came back.
#[derive(IntoPyObject)]
pub(crate) struct Brought {
    segments: u64,
    bytes: u64,
    lost: u64,
    lost_bytes: u64,
    is_stopped: bool,
}

impl From<BringBackReport> for Brought {
    fn from(report: BringBackReport) -> Self {
        Self {
            segments: report.segments,
            bytes: report.bytes,
            lost: report.lost,
            lost_bytes: report.lost_bytes,
            is_stopped: report.is_stopped,
        }
    }
}

/// What was removed from a remote.
#[derive(IntoPyObject)]
pub(crate) struct Pruned {
    objects: u64,
    bytes: u64,
    waiting: u64,
    waiting_bytes: u64,
    kept: u64,
    kept_bytes: u64,
}

impl From<PruneReport> for Pruned {
    fn from(report: PruneReport) -> Self {
        Self {
            objects: report.objects,
            bytes: report.bytes,
            waiting: report.waiting,
            waiting_bytes: report.waiting_bytes,
            kept: report.kept,
            kept_bytes: report.kept_bytes,
        }
    }
}

/// Lets content go from this disk that remotes have: of files at or below `path`, or all.
#[pyfunction]
pub(crate) fn evict(
    py: Python<'_>,
    vault: &Vault,
    path: Option<&[u8]>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Evicted> {
    let paths: Vec<&[u8]> = path.into_iter().collect();
    reach(py, vault, progress, &paths, |vault, told| {
        vault.evict(path, told)
    })
    .map(Evicted::from)
}

/// Brings evicted content back: of files at or below `path`, or all.
#[pyfunction]
pub(crate) fn bring_back(
    py: Python<'_>,
    vault: &Vault,
    path: Option<&[u8]>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Brought> {
    let paths: Vec<&[u8]> = path.into_iter().collect();
    reach(py, vault, progress, &paths, |vault, told| {
        vault.bring_back(path, told)
    })
    .map(Brought::from)
}

/// Brings the content of what is at `path` here, and keeps it here.
#[pyfunction]
pub(crate) fn pin(
    py: Python<'_>,
    vault: &Vault,
    path: &[u8],
    progress: Option<Py<PyAny>>,
) -> PyResult<Brought> {
    reach(py, vault, progress, &[path], |vault, told| {
        vault.pin(path, told)
    })
    .map(Brought::from)
}

/// Lets an eviction take the content of what is at `path` again; gives whether it was pinned.
#[pyfunction]
pub(crate) fn unpin(py: Python<'_>, vault: &Vault, path: &[u8]) -> PyResult<bool> {
    vault.ask(py, &[path], |vault| vault.unpin(path))
}

/// The paths of what is pinned.
#[pyfunction]
pub(crate) fn pins<'py>(py: Python<'py>, vault: &Vault) -> PyResult<Vec<Bound<'py, PyBytes>>> {
    let paths = vault.ask(py, &[], strongroom::Vault::pins)?;
    Ok(paths.iter().map(|path| PyBytes::new(py, path)).collect())
}

/// How many bytes of segments this device keeps at most; `None` if it keeps all.
#[pyfunction]
pub(crate) fn keep_at_most(py: Python<'_>, vault: &Vault) -> PyResult<Option<u64>> {
    vault.ask(py, &[], strongroom::Vault::keep_at_most)
}

/// Limits them, or ends that with `None`.
#[pyfunction]
pub(crate) fn set_keep_at_most(py: Python<'_>, vault: &Vault, bytes: Option<u64>) -> PyResult<()> {
    vault.ask(py, &[], |vault| vault.set_keep_at_most(bytes))
}

/// Evicts at once what a sync would evict for that limit.
#[pyfunction]
pub(crate) fn evict_to_limit(
    py: Python<'_>,
    vault: &Vault,
    progress: Option<Py<PyAny>>,
) -> PyResult<Evicted> {
    reach(py, vault, progress, &[], |vault, told| {
        vault.evict_to_limit(told)
    })
    .map(Evicted::from)
}

/// Removes from a remote what nothing has referred to for so long.
#[pyfunction]
pub(crate) fn prune_remote(
    py: Python<'_>,
    vault: &Vault,
    name: &str,
    grace_s: f64,
    progress: Option<Py<PyAny>>,
) -> PyResult<Pruned> {
    let grace = Duration::try_from_secs_f64(grace_s)
        .map_err(|error| PyValueError::new_err(error.to_string()))?;
    reach(py, vault, progress, &[], |vault, told| {
        vault.prune_remote(name, grace, told)
    })
    .map(Pruned::from)
}

/// What a pruning may remove there sooner or later.
#[pyfunction]
pub(crate) fn unused_at_remote(py: Python<'_>, vault: &Vault, name: &str) -> PyResult<Pruned> {
    let unused = vault.ask(py, &[], |vault| vault.unused_at_remote(name))?;
    Ok(unused.into())
}
