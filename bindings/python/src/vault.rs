//! Creates, opens and closes vaults.
//!
//! Takes   a vault folder, and a Python function that gives a secret when one is needed
//! Gives   a `Vault`: this process owns the vault, or uses it through the owner process
//! Never   keeps a secret: it keeps the function, for a client that may have to become the owner

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use strongroom::{
    CreateOptions, Error, IfOlder, OpenOptions, SecretSource, SeenRecords, SuiteId, Trust,
};

use crate::calls::detached;
use crate::error::raise;
use crate::opened::Opened;
use crate::secrets::{Given, fingerprint, secret, with_key};

/// An open vault.
#[pyclass(frozen, module = "strongroom._native")]
pub(crate) struct Vault {
    opened: Opened<strongroom::Vault>,
}

impl Vault {
    fn new(vault: strongroom::Vault) -> Self {
        Self {
            opened: Opened::new("vault", vault),
        }
    }

    /// The vault, for a call that asks it many things.
    ///
    /// # Errors
    /// `ValueError` if it is closed.
    pub(crate) fn get(&self) -> PyResult<strongroom::Vault> {
        self.opened.get()
    }

    /// Asks the vault something about `paths` without the interpreter's lock.
    ///
    /// # Errors
    /// `ValueError` if it is closed; what the vault says.
    pub(crate) fn ask<T: Send>(
        &self,
        py: Python<'_>,
        paths: &[&[u8]],
        question: impl FnOnce(&strongroom::Vault) -> strongroom::Result<T> + Send,
    ) -> PyResult<T> {
        let vault = self.get()?;
        detached(py, move || question(&vault))?.map_err(|error| raise(py, &error, paths))
    }
}

#[pymethods]
impl Vault {
    /// Closes it: everything is durable then. A second time does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        match self.opened.take()? {
            Some(vault) => {
                detached(py, move || vault.close())?.map_err(|error| raise(py, &error, &[]))
            }
            None => Ok(()),
        }
    }

    /// Whether it is closed, as it is in a process that was forked from the one that opened it.
    #[getter]
    fn closed(&self) -> bool {
        self.opened.get().is_err()
    }

    /// Whether this process owns it.
    #[getter]
    fn is_owner(&self, py: Python<'_>) -> PyResult<bool> {
        // It waits for who is becoming the owner, and for what that one asks Python.
        self.ask(py, &[], |vault| Ok(vault.is_owner()))
    }
}

/// Where nothing is remembered of a vault that was seen, or as for this user.
const fn records(remember: bool) -> SeenRecords {
    match remember {
        true => SeenRecords::OfUser,
        false => SeenRecords::Nowhere,
    }
}

/// What a vault that is opened must be.
pub(crate) fn trust(remember: bool, expected: Option<&str>, accept_older: bool) -> PyResult<Trust> {
    Ok(Trust {
        seen: records(remember),
        expected_fingerprint: fingerprint(expected)?,
        older: match accept_older {
            true => IfOlder::Accept,
            false => IfOlder::Refuse,
        },
    })
}

/// What a source of secrets raised, until the call that asked for it has ended.
type Raised = Arc<Mutex<Option<PyErr>>>;

/// Calls `function` for a secret, from a thread that has not the interpreter's lock.
fn source(function: Py<PyAny>) -> (SecretSource, Raised) {
    let raised = Raised::default();
    let kept = Arc::clone(&raised);
    let ask = move || {
        let given = Python::attach(|py| function.call0(py)?.extract::<Given>(py));
        given
            .map_err(|error| {
                *kept.lock() = Some(error);
                Error::NoSecret("the function that gives the secret failed".to_owned())
            })
            .and_then(|given| secret(&given))
    };
    (Arc::new(ask), raised)
}

/// Opens the vault in `folder`. `own`: fails if another process owns it.
#[pyfunction]
#[pyo3(signature = (folder, function, *, read_only, own, remember, fingerprint, accept_older))]
#[expect(clippy::too_many_arguments, reason = "Python gives them by name")]
pub(crate) fn open(
    py: Python<'_>,
    folder: PathBuf,
    function: Py<PyAny>,
    read_only: bool,
    own: bool,
    remember: bool,
    fingerprint: Option<&str>,
    accept_older: bool,
) -> PyResult<Vault> {
    let mut options = match read_only {
        true => OpenOptions::read_only(),
        false => OpenOptions::default(),
    };
    options.trust = trust(remember, fingerprint, accept_older)?;
    let (source, raised) = source(function);
    let opened = detached(py, || match own {
        true => source().and_then(|secret| strongroom::Vault::open(&folder, secret, options)),
        false => strongroom::Vault::open_or_connect(&folder, source, options),
    })?;
    if let Some(error) = raised.lock().take() {
        return Err(error);
    }
    opened
        .map(Vault::new)
        .map_err(|error| raise(py, &error, &[folder.as_os_str().as_encoded_bytes()]))
}

/// Makes a vault in `folder`; gives it, its recovery code and its fingerprint.
#[pyfunction]
#[pyo3(signature = (folder, keys, *, suite, remember))]
pub(crate) fn create<'py>(
    py: Python<'py>,
    folder: PathBuf,
    keys: Vec<Given>,
    suite: u16,
    remember: bool,
) -> PyResult<Bound<'py, PyTuple>> {
    let suite = match suite {
        2 => SuiteId::ChaCha20Poly1305Blake3,
        3 => SuiteId::Aegis256Blake3,
        _ => SuiteId::Aes256GcmBlake3,
    };
    let made = detached(py, || {
        let options = CreateOptions::new().suite(suite).seen(records(remember));
        let options = keys.iter().try_fold(options, with_key)?;
        strongroom::Vault::create(&folder, options)
    })?;
    let made = made.map_err(|error| raise(py, &error, &[folder.as_os_str().as_encoded_bytes()]))?;
    let code = made.recovery_code.text();
    let vault = Bound::new(py, Vault::new(made.vault))?;
    (vault, code.as_str(), made.fingerprint).into_pyobject(py)
}
