//! Key slots: listed, added, removed; keys replaced.
//!
//! Takes   a vault folder and a secret
//! Gives   the values for the class `Keys` of `strongroom/_keys.py`
//! Never   gives out a key, except a new one that a user keeps: a recovery code or a key file

use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use strongroom::{KeyFile, RecoveryCode, SlotId, SlotInfo, SlotKind, SystemRandom};

use crate::calls::detached;
use crate::error::raise;
use crate::opened::Opened;
use crate::secrets::{Given, new_key, secret};
use crate::vault::trust;

/// A key slot.
#[derive(IntoPyObject)]
pub(crate) struct Slot {
    id: String,
    kind: &'static str,
    label: String,
    created_s: u64,
}

impl From<SlotInfo> for Slot {
    fn from(slot: SlotInfo) -> Self {
        Self {
            id: slot.id.0.iter().map(|byte| format!("{byte:02x}")).collect(),
            kind: match slot.kind {
                SlotKind::Passphrase => "passphrase",
                SlotKind::RecoveryCode => "recovery_code",
                SlotKind::KeyFile => "key_file",
                SlotKind::Age => "age",
                SlotKind::Ssh => "ssh",
            },
            label: slot.label,
            created_s: slot.created_s,
        }
    }
}

/// What everybody may know about the key slots of the vault in `folder`.
#[pyfunction]
pub(crate) fn key_slots(py: Python<'_>, folder: PathBuf) -> PyResult<Vec<Slot>> {
    let slots = detached(py, || strongroom::list_slots(&folder))?;
    let slots =
        slots.map_err(|error| raise(py, &error, &[folder.as_os_str().as_encoded_bytes()]))?;
    Ok(slots.into_iter().map(Slot::from).collect())
}

/// The keys of a vault, unlocked.
#[pyclass(frozen, module = "strongroom._native")]
pub(crate) struct Keys {
    pub(crate) opened: Opened<strongroom::Keys>,
}

impl Keys {
    fn change(
        &self,
        py: Python<'_>,
        change: impl FnOnce(&mut strongroom::Keys) -> strongroom::Result<()> + Send,
    ) -> PyResult<()> {
        self.opened
            .borrow(py, change)?
            .map_err(|error| raise(py, &error, &[]))
    }
}

#[pymethods]
impl Keys {
    /// The key slots, proved.
    fn slots(&self) -> PyResult<Vec<Slot>> {
        let slots = self.opened.with(|keys| keys.slots())?;
        Ok(slots.into_iter().map(Slot::from).collect())
    }

    /// Adds a slot.
    fn add(&self, py: Python<'_>, label: &str, key: Given) -> PyResult<()> {
        self.change(py, |keys| keys.add(label, new_key(&key)?))
    }

    /// Removes the slot of that id.
    fn remove(&self, py: Python<'_>, id: &str) -> PyResult<()> {
        let id = slot_id(id)?;
        self.change(py, |keys| keys.remove(id))
    }

    /// Replaces the passphrase of a slot.
    fn change_passphrase(&self, py: Python<'_>, id: &str, passphrase: Given) -> PyResult<()> {
        let id = slot_id(id)?;
        self.change(py, |keys| match secret(&passphrase)? {
            strongroom::Secret::Passphrase(passphrase) => keys.change_passphrase(id, passphrase),
            _ => Err(strongroom::Error::NoSecret(
                "a passphrase can be replaced only by a passphrase".to_owned(),
            )),
        })
    }

    /// Begins a new epoch of keys.
    fn rotate(&self, py: Python<'_>) -> PyResult<()> {
        self.change(py, strongroom::Keys::rotate)
    }

    /// Removes a device.
    fn remove_device(&self, py: Python<'_>, id: &str) -> PyResult<()> {
        self.change(py, |keys| keys.remove_device(id))
    }

    /// Wipes them.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if !self.opened.is_forked() {
            let keys = self.opened.take()?;
            detached(py, move || drop(keys))?;
        }
        Ok(())
    }
}

/// The slot that 16 hexadecimal digits name.
fn slot_id(text: &str) -> PyResult<SlotId> {
    let id = match text.len() {
        16 => u64::from_str_radix(text, 16).ok(),
        _ => None,
    };
    id.map(|id| SlotId(id.to_be_bytes()))
        .ok_or_else(|| PyValueError::new_err("the id of a slot has 16 hexadecimal digits"))
}

/// Unlocks the keys of the vault in `folder`.
#[pyfunction]
#[pyo3(signature = (folder, given, *, remember, fingerprint, accept_older))]
pub(crate) fn open_keys(
    py: Python<'_>,
    folder: PathBuf,
    given: Given,
    remember: bool,
    fingerprint: Option<&str>,
    accept_older: bool,
) -> PyResult<Keys> {
    let trust = trust(remember, fingerprint, accept_older)?;
    let keys = detached(py, || {
        strongroom::Keys::open_with(&folder, &secret(&given)?, trust)
    })?;
    let keys = keys.map_err(|error| raise(py, &error, &[folder.as_os_str().as_encoded_bytes()]))?;
    Ok(Keys {
        opened: Opened::new("object of keys", keys),
    })
}

/// The content of a new key file.
#[pyfunction]
pub(crate) fn new_key_file() -> PyResult<String> {
    let made = KeyFile::random(&SystemRandom).map_err(std::io::Error::other)?;
    Ok(made.text().as_str().to_owned())
}

/// A new recovery code, for `add`.
#[pyfunction]
pub(crate) fn new_recovery_code() -> PyResult<String> {
    let made = RecoveryCode::random(&SystemRandom).map_err(std::io::Error::other)?;
    Ok(made.text().as_str().to_owned())
}
