//! Pairing: a device of a vault lets a new one in, by a code that a person carries from one to the other.
//!
//! Takes   a vault and one of its remotes; on the new device the URL of the remote, a secret and a code
//! Gives   the code, and the device that has it; on the new device a vault
//! Never   lets a device in without the keys that the program gives for that

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use strongroom::{Admitted, Asking, AskingStep, InvitationStep, PAIRING_TRIES, PairingCode};

use crate::calls::detached;
use crate::error::raise;
use crate::keys::Keys;
use crate::opened::Opened;
use crate::remotes::{clone_options, down};
use crate::secrets::{Given, secret};
use crate::told::Told;
use crate::vault::Vault;

/// A device that has the code and asks to be let in.
#[pyclass(frozen, module = "strongroom._native")]
pub(crate) struct Candidate {
    candidate: strongroom::Candidate,
}

#[pymethods]
impl Candidate {
    /// What it calls itself.
    #[getter]
    fn name(&self) -> &str {
        self.candidate.name()
    }

    /// What the new device shows too.
    #[getter]
    fn fingerprint(&self) -> String {
        self.candidate.fingerprint()
    }
}

/// An offer that a new device may join.
#[pyclass(frozen, module = "strongroom._native")]
pub(crate) struct Invitation {
    opened: Opened<(strongroom::Invitation, strongroom::Vault)>,
    tries_left: AtomicUsize,
}

/// Offers a new device to join through the remote of that name.
#[pyfunction]
pub(crate) fn invite(py: Python<'_>, vault: &Vault, name: &str) -> PyResult<Invitation> {
    let made = vault.ask(py, &[], |vault| {
        Ok((vault.invite(name, Instant::now())?, vault.clone()))
    })?;
    Ok(Invitation {
        opened: Opened::new("invitation", made),
        tries_left: AtomicUsize::new(PAIRING_TRIES),
    })
}

#[pymethods]
impl Invitation {
    /// What a person types on the new device.
    #[getter]
    fn code(&self) -> PyResult<String> {
        self.opened
            .with(|(made, _)| made.code().text().as_str().to_owned())
    }

    /// How many wrong codes may still be tried.
    #[getter]
    fn tries_left(&self) -> usize {
        self.tries_left.load(Ordering::Relaxed)
    }

    /// Looks once whether a device with the code asks.
    fn look(&self, py: Python<'_>) -> PyResult<Option<Candidate>> {
        let step = self
            .opened
            .borrow(py, |(made, _)| made.look(Instant::now()))?;
        match step.map_err(|error| raise(py, &error, &[]))? {
            InvitationStep::Waiting => Ok(None),
            InvitationStep::WrongCode { left } => {
                self.tries_left.store(left, Ordering::Relaxed);
                Ok(None)
            }
            InvitationStep::Asks(candidate) => Ok(Some(Candidate { candidate })),
        }
    }

    /// Makes the device a member of the vault, and publishes that.
    fn admit(
        &self,
        py: Python<'_>,
        keys: &Keys,
        candidate: &Candidate,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let mut told = Told::new(progress);
        let candidate = &candidate.candidate;
        let admitted = self
            .opened
            .borrow_both(py, &keys.opened, |(invitation, vault), keys| {
                invitation.admit(vault, keys, candidate, &mut |at| {
                    told.step((at.bytes, at.bytes_total))
                })
            })?;
        told.end(py, admitted)
    }

    /// Lets the device know that it is not let in.
    fn refuse(&self, py: Python<'_>, candidate: &Candidate) -> PyResult<()> {
        let candidate = &candidate.candidate;
        let refused = self.opened.borrow(py, |(made, _)| made.refuse(candidate))?;
        refused.map_err(|error| raise(py, &error, &[]))
    }

    /// Takes the offer back.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if !self.opened.is_forked() {
            let made = self.opened.take()?;
            detached(py, move || drop(made))?;
        }
        Ok(())
    }
}

/// A device that wants to join, with what it has heard.
struct Joining {
    device: strongroom::NewDevice,
    asking: Option<Asking>,
    admitted: Option<Admitted>,
}

/// A device that wants to join a vault.
#[pyclass(frozen, module = "strongroom._native")]
pub(crate) struct NewDevice {
    opened: Opened<Joining>,
}

/// A device called `name` that wants to join the vault at the remote; `given` shall open the vault here.
#[pyfunction]
pub(crate) fn new_device(
    py: Python<'_>,
    url: &str,
    given: Given,
    name: &str,
) -> PyResult<NewDevice> {
    let made = detached(py, || {
        strongroom::NewDevice::make(url, secret(&given)?, name)
    })?;
    let joining = Joining {
        device: made.map_err(|error| raise(py, &error, &[]))?,
        asking: None,
        admitted: None,
    };
    Ok(NewDevice {
        opened: Opened::new("new device", joining),
    })
}

#[pymethods]
impl NewDevice {
    /// What the other device shows too.
    #[getter]
    fn fingerprint(&self) -> PyResult<String> {
        self.opened.with(|joining| joining.device.fingerprint())
    }

    /// Asks the device that shows `code` to let this one in.
    fn ask(&self, py: Python<'_>, code: &str) -> PyResult<()> {
        let none = "this is not a pairing code; look for a mistyped digit";
        let code = PairingCode::parse(code).map_err(|_| PyValueError::new_err(none))?;
        let asked = self
            .opened
            .borrow(py, |joining| -> strongroom::Result<()> {
                // What it left at the remote goes first.
                joining.asking = None;
                let asking = joining.device.ask(&code, Instant::now())?;
                joining.asking = Some(asking);
                Ok(())
            })?;
        asked.map_err(|error| raise(py, &error, &[]))
    }

    /// Looks once whether the other device has let this one in.
    fn look(&self, py: Python<'_>) -> PyResult<bool> {
        let step = self.opened.borrow(py, |joining| {
            if joining.admitted.is_some() {
                return Some(Ok(true));
            }
            let step = joining.asking.as_mut()?.look(Instant::now());
            Some(step.map(|step| match step {
                AskingStep::Waiting => false,
                AskingStep::Admitted(admitted) => {
                    joining.admitted = Some(admitted);
                    joining.asking = None;
                    true
                }
            }))
        })?;
        let step = step.ok_or_else(|| PyValueError::new_err("ask first"))?;
        step.map_err(|error: strongroom::Error| raise(py, &error, &[]))
    }

    /// Makes a vault in `folder` as the device that was let in; gives its fingerprint.
    #[pyo3(signature = (folder, *, on_demand, remember, fingerprint, progress))]
    fn clone(
        &self,
        py: Python<'_>,
        folder: PathBuf,
        on_demand: bool,
        remember: bool,
        fingerprint: Option<&str>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<String> {
        let options = clone_options(on_demand, remember, fingerprint)?;
        let mut told = Told::new(progress);
        let report = self.opened.borrow(py, |joining| {
            let admitted = joining.admitted?;
            let mut heard = |at| down(&mut told, at);
            Some(
                joining
                    .device
                    .clone_as_admitted(admitted, &folder, &options, &mut heard),
            )
        })?;
        let none = "the other device has not let this one in yet";
        let report = report.ok_or_else(|| PyValueError::new_err(none))?;
        Ok(told.end(py, report)?.fingerprint)
    }

    /// Gives up to join, or ends what has joined.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if !self.opened.is_forked() {
            let joining = self.opened.take()?;
            detached(py, move || drop(joining))?;
        }
        Ok(())
    }
}
