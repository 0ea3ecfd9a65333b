//! Turns the secret from a Python program into one that opens a vault.
//!
//! Takes   the kind of a secret, and its bytes
//! Gives   a `Secret`, or a key for a new slot; wiped when dropped. The copy in Python is not wiped
//! Never   shows a secret in an error

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use strongroom::{
    AddKey, AgeIdentity, AgeRecipient, CreateOptions, Error, KeyFile, NewKey, Passphrase,
    RecoveryCode, Secret,
};

/// A kind, the bytes, and the passphrase of an SSH key if it needs one.
pub(crate) type Given = (String, PyBackedBytes, Option<PyBackedStr>);

fn refuse(error: impl std::fmt::Display) -> Error {
    Error::Keys(error.to_string())
}

fn text(bytes: &[u8]) -> strongroom::Result<&str> {
    std::str::from_utf8(bytes).map_err(|_| refuse("it is not UTF-8"))
}

/// What unlocks.
///
/// # Errors
/// `Keys` says what is wrong with it.
pub(crate) fn secret((kind, bytes, inner): &Given) -> strongroom::Result<Secret> {
    Ok(match kind.as_str() {
        "passphrase" => Secret::Passphrase(Passphrase::new(bytes).map_err(refuse)?),
        "recovery_code" => Secret::RecoveryCode(RecoveryCode::parse(text(bytes)?).map_err(refuse)?),
        "key_file" => Secret::KeyFile(KeyFile::parse(bytes).map_err(refuse)?),
        "identity" => {
            Secret::Identity(AgeIdentity::parse(bytes, inner.as_deref()).map_err(refuse)?)
        }
        other => return Err(refuse(format!("{other} does not open a vault"))),
    })
}

/// The options of a new vault, with one more key.
///
/// # Errors
/// As `secret`.
pub(crate) fn with_key(
    options: CreateOptions,
    (kind, bytes, _): &Given,
) -> strongroom::Result<CreateOptions> {
    Ok(match kind.as_str() {
        "passphrase" => options.passphrase(Passphrase::new(bytes).map_err(refuse)?),
        "key_file" => options.key_file(KeyFile::parse(bytes).map_err(refuse)?),
        "recipient" => options.recipient(AgeRecipient::parse(text(bytes)?).map_err(refuse)?),
        other => return Err(refuse(format!("a vault cannot be made with {other}"))),
    })
}

/// A key for a slot.
///
/// # Errors
/// As `secret`.
pub(crate) fn new_key((kind, bytes, _): &Given) -> strongroom::Result<AddKey> {
    Ok(match kind.as_str() {
        "passphrase" => AddKey::Passphrase(Passphrase::new(bytes).map_err(refuse)?),
        "recovery_code" => AddKey::Other(NewKey::RecoveryCode(
            RecoveryCode::parse(text(bytes)?).map_err(refuse)?,
        )),
        "key_file" => AddKey::Other(NewKey::KeyFile(KeyFile::parse(bytes).map_err(refuse)?)),
        "recipient" => AddKey::Other(NewKey::Recipient(
            AgeRecipient::parse(text(bytes)?).map_err(refuse)?,
        )),
        other => return Err(refuse(format!("a slot cannot be made with {other}"))),
    })
}

/// The fingerprint that `text` spells.
///
/// # Errors
/// `ValueError` if it is none.
pub(crate) fn fingerprint(text: Option<&str>) -> PyResult<Option<strongroom::Fingerprint>> {
    let parse = |text| {
        strongroom::Fingerprint::parse(text).ok_or_else(|| {
            PyValueError::new_err("this is not a fingerprint; `strongroom init` prints the fingerprint of a new vault")
        })
    };
    text.map(parse).transpose()
}
