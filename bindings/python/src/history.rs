//! Snapshots: taken, listed, read, restored, removed.
//!
//! Takes   messages, tags, selectors
//! Gives   the values for the class `Snapshot` of `strongroom/_history.py`
//! Never   changes a snapshot

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use strongroom::{NewRevision, Retention, RevisionInfo, Side, Whose};

use crate::attributes::kind_bits;
use crate::calls::detached;
use crate::error::raise;
use crate::opened::Opened;
use crate::vault::Vault;

/// A snapshot that is kept.
#[derive(IntoPyObject)]
pub(crate) struct Kept {
    id: String,
    parents: Vec<String>,
    time_ns: i64,
    message: String,
    tags: Vec<String>,
}

impl From<RevisionInfo> for Kept {
    fn from(info: RevisionInfo) -> Self {
        Self {
            id: info.id.to_string(),
            parents: info.parents.iter().map(ToString::to_string).collect(),
            time_ns: info.time.0,
            message: info.message,
            tags: info.tags,
        }
    }
}

/// Takes a snapshot; `None` if nothing changed and `only_if_changed` asks for none then.
#[pyfunction]
pub(crate) fn take_snapshot(
    py: Python<'_>,
    vault: &Vault,
    message: String,
    tags: Vec<String>,
    only_if_changed: bool,
) -> PyResult<Option<Kept>> {
    let mut tags = tags;
    tags.sort();
    let new = NewRevision {
        message,
        tags,
        only_if_changed,
    };
    vault.ask(py, &[], |vault| {
        Ok(vault.take_revision(&new)?.map(Kept::from))
    })
}

/// The snapshots that `selector` means, oldest first; all without one. `one`: exactly one, or it fails.
#[pyfunction]
pub(crate) fn select_snapshots(
    py: Python<'_>,
    vault: &Vault,
    selector: Option<&str>,
    one: bool,
) -> PyResult<Vec<Kept>> {
    vault.ask(py, &[], |vault| {
        let found = match (selector, one) {
            (Some(selector), true) => vec![vault.select_revision(selector)?],
            (Some(selector), false) => vault.select_revisions(selector)?,
            (None, _) => vault.revisions()?,
        };
        Ok(found.into_iter().map(Kept::from).collect())
    })
}

/// Removes the one snapshot that `selector` means.
#[pyfunction]
pub(crate) fn remove_snapshot(py: Python<'_>, vault: &Vault, selector: &str) -> PyResult<()> {
    vault.ask(py, &[], |vault| {
        vault.remove_revision(vault.select_revision(selector)?.id)
    })
}

/// A state of the vault that is read.
#[pyclass(frozen, module = "strongroom._native")]
pub(crate) struct Snapshot {
    opened: Opened<strongroom::Snapshot>,
}

#[pymethods]
impl Snapshot {
    /// Its id.
    #[getter]
    fn id(&self) -> PyResult<String> {
        Ok(self.opened.get()?.id().to_string())
    }

    /// Whether it is closed.
    #[getter]
    fn closed(&self) -> bool {
        self.opened.get().is_err()
    }

    /// Gives it back: a state that was taken to be read goes then.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if !self.opened.is_forked() {
            let snapshot = self.opened.take()?;
            detached(py, move || drop(snapshot))?;
        }
        Ok(())
    }
}

/// The state that `selector` means; without one, that of now.
#[pyfunction]
pub(crate) fn read_snapshot(
    py: Python<'_>,
    vault: &Vault,
    selector: Option<&str>,
) -> PyResult<Snapshot> {
    let snapshot = vault.ask(py, &[], |vault| match selector {
        Some(selector) => vault.at(selector),
        None => vault.snapshot(),
    })?;
    Ok(Snapshot {
        opened: Opened::new("snapshot", snapshot),
    })
}

/// A vault, or a state of one that is read.
#[derive(FromPyObject)]
pub(crate) enum Tree<'py> {
    /// As it is now.
    Vault(Bound<'py, Vault>),
    /// As it was.
    Snapshot(Bound<'py, Snapshot>),
}

/// What a `Tree` is made of.
pub(crate) enum State {
    /// As it is now.
    Now(strongroom::Vault),
    /// As it was.
    Then(strongroom::Snapshot),
}

impl Tree<'_> {
    /// Asks about `paths` without the interpreter's lock.
    ///
    /// # Errors
    /// `ValueError` if it is closed; what the vault says.
    pub(crate) fn ask<T: Send>(
        &self,
        py: Python<'_>,
        paths: &[&[u8]],
        question: impl FnOnce(&State) -> strongroom::Result<T> + Send,
    ) -> PyResult<T> {
        let state = match self {
            Self::Vault(vault) => State::Now(vault.get().get()?),
            Self::Snapshot(snapshot) => State::Then(snapshot.get().opened.get()?),
        };
        detached(py, move || question(&state))?.map_err(|error| raise(py, &error, paths))
    }
}

/// Brings back what a snapshot had at `path`, to the path `to`; gives how many nodes, and the paths of files whose content
/// was erased.
#[pyfunction]
pub(crate) fn restore<'py>(
    py: Python<'py>,
    vault: &Vault,
    selector: &str,
    path: &[u8],
    to: &[u8],
) -> PyResult<(u64, Vec<Bound<'py, PyBytes>>)> {
    let restored = vault.ask(py, &[path, to], |vault| {
        vault.restore(vault.select_revision(selector)?.id, path, to)
    })?;
    let erased = restored.erased.iter();
    let erased = erased.map(|(path, _)| PyBytes::new(py, path)).collect();
    Ok((restored.nodes, erased))
}

/// The paths at and below `path` that differ between two snapshots, or between one and now: each with what is at it before and after, as
/// `st_mode` or `None`.
#[pyfunction]
pub(crate) fn differences<'py>(
    py: Python<'py>,
    vault: &Vault,
    before: &str,
    after: Option<&str>,
    path: &[u8],
) -> PyResult<Bound<'py, PyList>> {
    let mut found = Vec::new();
    vault.ask(py, &[path], |vault| {
        let before = vault.select_revision(before)?.id;
        let after = match after {
            Some(after) => Some(vault.select_revision(after)?.id),
            None => None,
        };
        let mode = |side: Option<Side>| side.map(|side| kind_bits(side.kind) | side.mode);
        vault.differences(before, after, path, |one| {
            found.push((one.path, mode(one.before), mode(one.after)));
            Ok::<_, strongroom::Error>(())
        })
    })?;
    let found = found.into_iter();
    PyList::new(
        py,
        found.map(|(path, before, after)| (PyBytes::new(py, &path), before, after)),
    )
}

/// A rule for snapshots.
#[derive(IntoPyObject)]
pub(crate) struct Rule {
    last: u32,
    hourly: u32,
    daily: u32,
    weekly: u32,
    monthly: u32,
    yearly: u32,
    unnamed: bool,
}

impl From<Retention> for Rule {
    fn from(rule: Retention) -> Self {
        Self {
            last: rule.last,
            hourly: rule.hourly,
            daily: rule.daily,
            weekly: rule.weekly,
            monthly: rule.monthly,
            yearly: rule.yearly,
            unnamed: rule.whose == Whose::Unnamed,
        }
    }
}

/// The rule by which `thin` goes: the default one if none was set.
#[pyfunction]
pub(crate) fn retention(py: Python<'_>, vault: &Vault) -> PyResult<Rule> {
    let found = vault.ask(py, &[], strongroom::Vault::retention)?;
    Ok(found.unwrap_or(Retention::DEFAULT).into())
}

/// The rule that was set last on any device; `None` if none was.
#[pyfunction]
pub(crate) fn shared_retention(py: Python<'_>, vault: &Vault) -> PyResult<Option<Rule>> {
    let found = vault.ask(py, &[], strongroom::Vault::shared_retention)?;
    Ok(found.map(Rule::from))
}

/// Sets the rule for snapshots, also for other devices.
#[pyfunction]
#[pyo3(signature = (vault, *, last, hourly, daily, weekly, monthly, yearly, unnamed))]
#[expect(clippy::too_many_arguments, reason = "Python gives them by name")]
pub(crate) fn set_retention(
    py: Python<'_>,
    vault: &Vault,
    last: u32,
    hourly: u32,
    daily: u32,
    weekly: u32,
    monthly: u32,
    yearly: u32,
    unnamed: bool,
) -> PyResult<()> {
    let rule = Retention {
        last,
        hourly,
        daily,
        weekly,
        monthly,
        yearly,
        whose: match unnamed {
            true => Whose::Unnamed,
            false => Whose::Scheduled,
        },
    };
    vault.ask(py, &[], |vault| vault.set_retention(&rule))
}

/// Removes the snapshots that the vault's rule lets go; gives them.
#[pyfunction]
pub(crate) fn thin(py: Python<'_>, vault: &Vault) -> PyResult<Vec<Kept>> {
    vault.ask(py, &[], |vault| {
        let rule = vault.retention()?.unwrap_or(Retention::DEFAULT);
        Ok(vault.thin(&rule)?.into_iter().map(Kept::from).collect())
    })
}

/// What stored content is for.
#[derive(IntoPyObject)]
pub(crate) struct Use {
    live_bytes: u64,
    kept_bytes: u64,
    waste_bytes: u64,
}

/// Sealed bytes of files of now, of snapshots alone, and of nothing.
#[pyfunction]
pub(crate) fn usage(py: Python<'_>, vault: &Vault) -> PyResult<Use> {
    let usage = vault.ask(py, &[], strongroom::Vault::usage)?;
    Ok(Use {
        live_bytes: usage.live_bytes,
        kept_bytes: usage.kept_bytes,
        waste_bytes: usage.waste_bytes,
    })
}

/// What an erasure took out of snapshots, or would.
#[derive(IntoPyObject)]
pub(crate) struct ErasedContent {
    files: u64,
    bytes: u64,
    snapshots: u64,
    shared_bytes: u64,
    segments_left: u64,
}

/// Takes the content of what was at `path` out of every snapshot; with `trial`, only says what that would be.
#[pyfunction]
pub(crate) fn erase(
    py: Python<'_>,
    vault: &Vault,
    path: &[u8],
    trial: bool,
) -> PyResult<ErasedContent> {
    let erased = vault.ask(py, &[path], |vault| vault.erase(path, trial))?;
    Ok(ErasedContent {
        files: erased.files,
        bytes: erased.bytes,
        snapshots: erased.states,
        shared_bytes: erased.shared_bytes,
        segments_left: erased.segments_left,
    })
}
