//! Turns errors of the vault into exceptions.
//!
//! Takes   a `strongroom::Error`, and the paths of the call
//! Gives   the matching exception of `strongroom/_errors.py`, an `OSError` with file names, message and `Error::errno`
//! Never   gives an exception without `errno`, except for a closed object: that is a `ValueError`, as for Python's files

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use strongroom::{Error, ErrorFamily};

/// As Linux has them; all others come from the vault.
const EINVAL: i32 = 22;
const EIO: i32 = 5;

/// What is shown of a panic.
const BUG: &str = "an internal error, which is a bug of Strongroom; whether the call was carried out is not known";

/// The exception for `error`, of a call about `paths`.
pub(crate) fn raise(py: Python<'_>, error: &Error, paths: &[&[u8]]) -> PyErr {
    if matches!(error, Error::Closed) {
        return PyValueError::new_err("the vault is closed");
    }
    make(py, class(error), error.errno(), &error.to_string(), paths)
}

/// The exception for a panic of the vault.
pub(crate) fn raise_bug(py: Python<'_>) -> PyErr {
    make(py, "VaultError", EIO, BUG, &[])
}

/// An exception of a class of `strongroom/_errors.py`.
fn make(py: Python<'_>, class: &str, number: i32, message: &str, paths: &[&[u8]]) -> PyErr {
    let names: Vec<_> = paths.iter().map(|path| PyBytes::new(py, path)).collect();
    let made = py.import("strongroom._errors").and_then(|errors| {
        errors
            .getattr("make")?
            .call1((class, number, message, names))
    });
    match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(failed) => failed,
    }
}

/// The exception for what `Read`, `Write` and `Seek` say: an error of the vault comes wrapped, and a position before the start is none of it.
pub(crate) fn raise_io(py: Python<'_>, error: std::io::Error) -> PyErr {
    match error.downcast::<Error>() {
        Ok(error) => raise(py, &error, &[]),
        Err(error) => {
            let is_position = error.kind() == std::io::ErrorKind::InvalidInput;
            let number = if is_position { EINVAL } else { EIO };
            PyOSError::new_err((number, error.to_string()))
        }
    }
}

/// The class in `strongroom/_errors.py`; `OSError` for what any file system says.
fn class(error: &Error) -> &'static str {
    match error.family() {
        ErrorFamily::System => "OSError",
        ErrorFamily::Closed | ErrorFamily::Other => "VaultError",
        ErrorFamily::NotAVault => "NotAVaultError",
        ErrorFamily::VaultExists => "VaultExistsError",
        ErrorFamily::WrongSecret => "WrongSecretError",
        ErrorFamily::Untrusted => "UntrustedVaultError",
        ErrorFamily::InUse => "VaultInUseError",
        ErrorFamily::OwnerGone => "OwnerGoneError",
        ErrorFamily::Locked => "LockedError",
        ErrorFamily::LockLost => "LockLostError",
        ErrorFamily::Changed => "ChangedError",
        ErrorFamily::Damaged => "DamagedError",
        ErrorFamily::NoSuchSnapshot => "NoSuchSnapshotError",
        ErrorFamily::Remote => "RemoteError",
        ErrorFamily::Stopped => "StoppedError",
    }
}
