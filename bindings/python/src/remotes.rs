//! Remotes: pull, push and sync, and the conflicts that remain.
//!
//! Takes   names and URLs of remotes, and a callable for progress
//! Gives   reports as dictionaries
//! Never   shows credentials

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use strongroom::{
    CloneContent, CloneOptions, CloneProgress, GoOn, Keep, PullReport, PushReport, Rates,
    RemoteProgress, RemoteStatus, Removal, SyncEvent, SyncReport,
};

use crate::attributes::{Stat, stat_of};
use crate::calls::detached;
use crate::error::raise;
use crate::opened::Opened;
use crate::secrets::{Given, secret};
use crate::told::Told;
use crate::vault::{Vault, trust};

/// A remote.
#[derive(IntoPyObject)]
pub(crate) struct Remote {
    name: String,
    url: String,
    publications: u64,
    code: String,
    objects: u64,
    keeps: bool,
}

/// The remotes of the vault, in the order in which they were added.
#[pyfunction]
pub(crate) fn remotes(py: Python<'_>, vault: &Vault) -> PyResult<Vec<Remote>> {
    let found = vault.ask(py, &[], strongroom::Vault::remotes)?.into_iter();
    let remote = |remote: strongroom::RemoteInfo| Remote {
        keeps: remote.removal == Removal::Never,
        name: remote.name,
        url: remote.address,
        publications: remote.publications,
        code: remote.code,
        objects: remote.objects,
    };
    Ok(found.map(remote).collect())
}

/// The newest publication of a device.
#[derive(IntoPyObject)]
pub(crate) struct Publication {
    device: String,
    name: Option<String>,
    is_this: bool,
    number: u64,
    time_s: u64,
}

/// What waits for a remote, and which devices published there.
#[derive(IntoPyObject)]
pub(crate) struct Status {
    is_waiting: bool,
    waiting_bytes: u64,
    waiting_files: Option<u64>,
    away_bytes: u64,
    alone_bytes: u64,
    contact_s: Option<u64>,
    newest: Vec<Publication>,
}

impl From<RemoteStatus> for Status {
    fn from(status: RemoteStatus) -> Self {
        let publication = |one: strongroom::DevicePublication| Publication {
            device: one.device,
            name: one.name,
            is_this: one.is_this,
            number: one.number,
            time_s: one.time_s,
        };
        Self {
            is_waiting: status.is_waiting,
            waiting_bytes: status.waiting_bytes,
            waiting_files: status.waiting_files,
            away_bytes: status.away_bytes,
            alone_bytes: status.alone_bytes,
            contact_s: status.contact_s,
            newest: status.newest.into_iter().map(publication).collect(),
        }
    }
}

/// The state of a remote as this device knows it.
#[pyfunction]
pub(crate) fn remote_status(py: Python<'_>, vault: &Vault, name: &str) -> PyResult<Status> {
    let status = vault.ask(py, &[], |vault| vault.remote_status(name))?;
    Ok(status.into())
}

/// Adds a remote. `keep`: this device removes nothing there.
#[pyfunction]
pub(crate) fn add_remote(
    py: Python<'_>,
    vault: &Vault,
    name: &str,
    url: &str,
    keep: bool,
) -> PyResult<()> {
    let removal = match keep {
        true => Removal::Never,
        false => Removal::Later,
    };
    vault.ask(py, &[], |vault| vault.add_remote_with(name, url, removal))
}

/// Forgets a remote.
#[pyfunction]
pub(crate) fn remove_remote(py: Python<'_>, vault: &Vault, name: &str) -> PyResult<()> {
    vault.ask(py, &[], |vault| vault.remove_remote(name))
}

/// Uses remotes at most so fast, in bytes per second.
#[pyfunction]
pub(crate) fn limit_remotes(vault: &Vault, up: Option<u64>, down: Option<u64>) -> PyResult<()> {
    vault.get()?.limit_remotes(Rates { up, down });
    Ok(())
}

/// What a push did.
#[derive(IntoPyObject)]
pub(crate) struct Pushed {
    objects: u64,
    bytes: u64,
    publications: u64,
}

impl From<PushReport> for Pushed {
    fn from(report: PushReport) -> Self {
        Self {
            objects: report.objects,
            bytes: report.bytes,
            publications: report.publications,
        }
    }
}

/// What a pull did.
#[derive(IntoPyObject)]
pub(crate) struct Pulled<'py> {
    objects: u64,
    bytes: u64,
    publications: u64,
    names: u64,
    nodes: u64,
    conflicts: u64,
    conflict_paths: Vec<Bound<'py, PyBytes>>,
    merged: u64,
    merged_paths: Vec<Bound<'py, PyBytes>>,
    erased_bytes: u64,
    unerased_bytes: u64,
    erase_problems: Vec<String>,
    received: u64,
    received_paths: Vec<Bound<'py, PyBytes>>,
    deposit_problems: Vec<String>,
}

impl<'py> Pulled<'py> {
    fn new(py: Python<'py>, report: &PullReport) -> Self {
        let paths = |paths: &[Vec<u8>]| paths.iter().map(|path| PyBytes::new(py, path)).collect();
        Self {
            objects: report.objects,
            bytes: report.bytes,
            publications: report.publications,
            names: report.names,
            nodes: report.nodes,
            conflicts: report.conflicts,
            conflict_paths: paths(&report.conflict_paths),
            merged: report.merged,
            merged_paths: paths(&report.merged_paths),
            erased_bytes: report.erased_bytes,
            unerased_bytes: report.unerased_bytes,
            erase_problems: report.erase_problems.clone(),
            received: report.received,
            received_paths: paths(&report.received_paths),
            deposit_problems: report.deposit_problems.clone(),
        }
    }
}

/// What a sync did.
#[derive(IntoPyObject)]
pub(crate) struct Synced<'py> {
    pulled: Pulled<'py>,
    pushed: Pushed,
    evicted_segments: u64,
    evicted_bytes: u64,
}

impl<'py> Synced<'py> {
    fn new(py: Python<'py>, report: &SyncReport) -> Self {
        Self {
            pulled: Pulled::new(py, &report.pulled),
            pushed: report.pushed.into(),
            evicted_segments: report.evicted_segments,
            evicted_bytes: report.evicted_bytes,
        }
    }
}

/// Calls what reaches a remote, about `paths`, and reports how far it is.
pub(crate) fn reach<T: Send>(
    py: Python<'_>,
    vault: &Vault,
    progress: Option<Py<PyAny>>,
    paths: &[&[u8]],
    call: impl FnOnce(
        &strongroom::Vault,
        &mut dyn FnMut(&RemoteProgress) -> GoOn,
    ) -> strongroom::Result<T>
    + Send,
) -> PyResult<T> {
    let open = vault.get()?;
    let mut told = Told::new(progress);
    let report = detached(py, || {
        call(&open, &mut |at| told.step((at.bytes, at.bytes_total)))
    })?;
    told.end_of(py, report, paths)
}

/// Brings a remote what it lacks, and publishes it.
#[pyfunction]
pub(crate) fn push(
    py: Python<'_>,
    vault: &Vault,
    name: &str,
    progress: Option<Py<PyAny>>,
) -> PyResult<Pushed> {
    reach(py, vault, progress, &[], |vault, told| {
        vault.push(name, told)
    })
    .map(Pushed::from)
}

/// Brings here what others published, and joins it.
#[pyfunction]
pub(crate) fn pull<'py>(
    py: Python<'py>,
    vault: &Vault,
    name: &str,
    progress: Option<Py<PyAny>>,
) -> PyResult<Pulled<'py>> {
    let report = reach(py, vault, progress, &[], |vault, told| {
        vault.pull(name, told)
    })?;
    Ok(Pulled::new(py, &report))
}

/// Both.
#[pyfunction]
pub(crate) fn sync_with<'py>(
    py: Python<'py>,
    vault: &Vault,
    name: &str,
    progress: Option<Py<PyAny>>,
) -> PyResult<Synced<'py>> {
    let report = reach(py, vault, progress, &[], |vault, told| {
        vault.sync_with(name, told)
    })?;
    Ok(Synced::new(py, &report))
}

/// What is missing at a remote or not as it was written, a line each.
#[pyfunction]
pub(crate) fn check_remote(
    py: Python<'_>,
    vault: &Vault,
    name: &str,
    deep: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<Vec<String>> {
    let report = reach(py, vault, progress, &[], |vault, told| {
        vault.check_remote(name, deep, told)
    })?;
    Ok(report.problems)
}

/// How a vault is cloned. `on_demand`: the content of files stays at the remote.
pub(crate) fn clone_options(
    on_demand: bool,
    remember: bool,
    fingerprint: Option<&str>,
) -> PyResult<CloneOptions> {
    Ok(CloneOptions {
        trust: trust(remember, fingerprint, false)?,
        content: match on_demand {
            true => CloneContent::AtRemote,
            false => CloneContent::Here,
        },
        ..CloneOptions::default()
    })
}

/// Reports how far a clone is.
pub(crate) fn down(told: &mut Told, at: CloneProgress) -> GoOn {
    match at {
        CloneProgress::Down(at) => told.step((at.bytes, at.bytes_total)),
        CloneProgress::Made(_) => told.step((0, 0)),
    }
}

/// Makes a vault in `folder` out of the remote at `url`; gives its fingerprint.
#[pyfunction]
#[pyo3(signature = (url, folder, given, *, on_demand, remember, fingerprint, progress))]
#[expect(clippy::too_many_arguments, reason = "Python gives them by name")]
pub(crate) fn clone(
    py: Python<'_>,
    url: &str,
    folder: PathBuf,
    given: Given,
    on_demand: bool,
    remember: bool,
    fingerprint: Option<&str>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let options = clone_options(on_demand, remember, fingerprint)?;
    let mut told = Told::new(progress);
    let report = detached(py, || {
        let secret = secret(&given)?;
        strongroom::clone(url, &folder, &secret, options, &mut |at| {
            down(&mut told, at)
        })
    })?;
    Ok(told.end(py, report)?.fingerprint)
}

/// A conflict copy.
#[derive(IntoPyObject)]
pub(crate) struct ConflictCopy<'py> {
    path: Bound<'py, PyBytes>,
    copy: Stat,
    device: String,
    time: String,
    beside: Bound<'py, PyBytes>,
    published: Option<Stat>,
}

/// All conflict copies, in the order of their paths.
#[pyfunction]
pub(crate) fn conflicts<'py>(py: Python<'py>, vault: &Vault) -> PyResult<Vec<ConflictCopy<'py>>> {
    let found = vault.ask(py, &[], |vault| vault.conflicts(&mut |_| {}))?;
    let copy = |conflict: strongroom::Conflict| ConflictCopy {
        path: PyBytes::new(py, &conflict.path),
        copy: stat_of(&conflict.copy),
        device: conflict.device,
        time: conflict.time,
        beside: PyBytes::new(py, &conflict.beside),
        published: conflict.published.as_ref().map(stat_of),
    };
    Ok(found.into_iter().map(copy).collect())
}

/// Ends a conflict: `mine`, `theirs` or `both` stay. Gives the path that the content has then.
#[pyfunction]
pub(crate) fn settle_conflict<'py>(
    py: Python<'py>,
    vault: &Vault,
    path: &[u8],
    keep: &str,
) -> PyResult<Bound<'py, PyBytes>> {
    let keep = match keep {
        "mine" => Keep::Mine,
        "theirs" => Keep::Theirs,
        "both" => Keep::Both,
        _ => {
            return Err(PyValueError::new_err(format!(
                "{keep:?} is not mine, theirs or both"
            )));
        }
    };
    let path = vault.ask(py, &[path], |vault| vault.settle_conflict(path, keep))?;
    Ok(PyBytes::new(py, &path))
}

/// A continuous sync.
#[pyclass(frozen, module = "strongroom._native")]
pub(crate) struct ContinuousSync {
    opened: Opened<strongroom::ContinuousSync>,
    /// Whether nobody hears of it any more.
    is_ended: Arc<AtomicBool>,
}

#[pymethods]
impl ContinuousSync {
    /// Ends it; `finish`: when what waits has gone to the remotes that work. Called by what hears of its events, it waits for nothing.
    fn close(&self, py: Python<'_>, finish: bool) -> PyResult<()> {
        if self.opened.is_forked() {
            return Ok(());
        }
        if !finish {
            self.is_ended.store(true, Ordering::Release);
        }
        if let Some(syncing) = self.opened.take()? {
            detached(py, move || match finish {
                true => syncing.finish(),
                false => drop(syncing),
            })?;
            self.is_ended.store(true, Ordering::Release);
        }
        Ok(())
    }
}

/// From now on syncs with all remotes; `told` is called with a dictionary for each event, from a thread of its own.
#[pyfunction]
pub(crate) fn keep_in_sync(
    py: Python<'_>,
    vault: &Vault,
    every_s: f64,
    told: Option<Py<PyAny>>,
) -> PyResult<ContinuousSync> {
    let every = Duration::try_from_secs_f64(every_s)
        .map_err(|error| PyValueError::new_err(error.to_string()))?;
    let is_ended = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&is_ended);
    let hear = move |event: SyncEvent| {
        let Some(told) = &told else { return };
        if ended.load(Ordering::Acquire) {
            return;
        }
        // An interpreter that is ending hears nothing any more.
        let _ = Python::try_attach(|py| {
            let called = event_of(py, &event).and_then(|event| told.call1(py, (event,)));
            if let Err(error) = called {
                error.write_unraisable(py, Some(told.bind(py)));
            }
        });
    };
    let syncing = vault.ask(py, &[], |vault| vault.keep_in_sync(every, hear))?;
    Ok(ContinuousSync {
        opened: Opened::new("continuous sync", syncing),
        is_ended,
    })
}

/// The dictionary of an event.
fn event_of<'py>(py: Python<'py>, event: &SyncEvent) -> PyResult<Bound<'py, PyDict>> {
    let said = PyDict::new(py);
    let (kind, remote) = match event {
        SyncEvent::Moving { remote, progress } => {
            said.set_item("bytes", progress.bytes)?;
            said.set_item("bytes_total", progress.bytes_total)?;
            ("moving", Some(remote))
        }
        SyncEvent::Synced { remote, report } => {
            said.set_item("report", Synced::new(py, report))?;
            ("synced", Some(remote))
        }
        SyncEvent::Failed {
            remote,
            error,
            again_in,
        } => {
            said.set_item("error", raise(py, error, &[]))?;
            said.set_item("again_in", again_in.as_secs_f64())?;
            ("failed", Some(remote))
        }
        SyncEvent::Recovered { remote } => ("recovered", Some(remote)),
        SyncEvent::Ended { error } => {
            said.set_item("error", raise(py, error, &[]))?;
            ("ended", None)
        }
        _ => ("other", None),
    };
    said.set_item("kind", kind)?;
    said.set_item("remote", remote)?;
    Ok(said)
}
