//! Operations on a whole vault: sync to disk, free space, verification, copies.
//!
//! Takes   a vault, and a callable for progress
//! Gives   reports as dictionaries
//! Never   repairs anything

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use strongroom::VerifyOptions;

use crate::calls::detached;
use crate::told::Told;
use crate::vault::Vault;

/// Everything done so far is durable on return.
#[pyfunction]
pub(crate) fn sync(py: Python<'_>, vault: &Vault) -> PyResult<()> {
    vault.ask(py, &[], strongroom::Vault::sync)
}

/// How full it is: bytes in all, bytes that are free, and how many nodes there are.
#[pyfunction]
pub(crate) fn space(py: Python<'_>, vault: &Vault) -> PyResult<(u64, u64, u64)> {
    let space = vault.ask(py, &[], strongroom::Vault::space)?;
    Ok((space.total_bytes, space.free_bytes, space.inodes))
}

/// What a vault is.
#[derive(IntoPyObject)]
pub(crate) struct Facts {
    fingerprint: String,
    suite: String,
    generation: u64,
    epoch: u32,
    owner_pid: u32,
    read_only: bool,
    compression: String,
    away_bytes: u64,
    unknown_records: Vec<String>,
}

/// What the vault is.
#[pyfunction]
pub(crate) fn information(py: Python<'_>, vault: &Vault) -> PyResult<Facts> {
    let facts = vault.ask(py, &[], strongroom::Vault::information)?;
    Ok(Facts {
        fingerprint: facts.fingerprint,
        suite: facts.suite,
        generation: facts.generation,
        epoch: facts.epoch,
        owner_pid: facts.owner_pid,
        read_only: facts.read_only,
        compression: facts.compression,
        away_bytes: facts.away_bytes,
        unknown_records: facts.unknown_records,
    })
}

/// Accepts membership records that nobody here made.
#[pyfunction]
pub(crate) fn accept_records(py: Python<'_>, vault: &Vault) -> PyResult<()> {
    vault.ask(py, &[], strongroom::Vault::accept_records)
}

/// How far a change of keys is.
#[derive(IntoPyObject)]
pub(crate) struct RotationState {
    is_running: bool,
    newest_epoch: u32,
    oldest_epoch: u32,
    bytes_left: u64,
    trouble: Option<String>,
}

/// How far the re-sealing under new keys is.
#[pyfunction]
pub(crate) fn rotation(py: Python<'_>, vault: &Vault) -> PyResult<RotationState> {
    let state = vault.ask(py, &[], strongroom::Vault::rotation)?;
    Ok(RotationState {
        is_running: state.is_running,
        newest_epoch: state.newest_epoch,
        oldest_epoch: state.oldest_epoch,
        bytes_left: state.bytes_left,
        trouble: state.trouble,
    })
}

/// What does not agree between the tables, a sentence each.
#[pyfunction]
pub(crate) fn check(py: Python<'_>, vault: &Vault) -> PyResult<Vec<String>> {
    Ok(vault.ask(py, &[], strongroom::Vault::check)?.problems)
}

/// What a verification found.
#[derive(IntoPyObject)]
pub(crate) struct Verified<'py> {
    sound: bool,
    is_damaged: bool,
    finished: bool,
    bytes: u64,
    blocks: u64,
    problems: Vec<String>,
    damaged: Vec<(Bound<'py, PyBytes>, String, bool)>,
}

/// Reads everything in the vault folder.
#[pyfunction]
#[pyo3(signature = (vault, *, deep, resume, progress))]
pub(crate) fn verify<'py>(
    py: Python<'py>,
    vault: &Vault,
    deep: bool,
    resume: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<Verified<'py>> {
    let open = vault.get()?;
    let mut told = Told::new(progress);
    let options = VerifyOptions { deep, resume };
    let report = detached(py, || {
        open.verify(options, &mut |at| told.step((at.bytes, at.bytes_total)))
    })?;
    let report = told.end(py, report)?;
    let (sound, is_damaged) = (report.is_sound(), report.is_damaged());
    let of_files = report.files.into_iter();
    let of_files = of_files.map(|problem| format!("{}: {}", problem.file, problem.what));
    let damaged = report.damages.iter().map(|damage| {
        let path = PyBytes::new(py, &damage.path);
        (path, damage.what.to_string(), damage.now)
    });
    Ok(Verified {
        sound,
        is_damaged,
        finished: report.finished,
        bytes: report.progress.bytes,
        blocks: report.progress.blocks,
        damaged: damaged.collect(),
        problems: report
            .structure
            .problems
            .into_iter()
            .chain(of_files)
            .collect(),
    })
}

/// Makes `target` a copy of the vault folder; gives how many bytes of segments were copied.
#[pyfunction]
pub(crate) fn backup(
    py: Python<'_>,
    vault: &Vault,
    target: PathBuf,
    progress: Option<Py<PyAny>>,
) -> PyResult<u64> {
    let open = vault.get()?;
    let mut told = Told::new(progress);
    let report = detached(py, || {
        open.backup(&target, &mut |at| told.step((at.bytes, at.bytes_total)))
    })?;
    Ok(told.end(py, report)?.copied_bytes)
}
