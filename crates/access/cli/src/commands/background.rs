//! Starts this program again in the background with a vault and its secret, for a mount or an unlocked session.
//!
//! Takes   the command line of the background process, and the options that name the secret
//! Gives   the answer of that process: ready, or the error with its exit code
//! Never   puts a secret into arguments or environment; a typed secret is passed through a pipe

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use strongroom::{Error, Fingerprint, SeenRecords, describe, last_seen};
use strongroom_mount::background::{DaemonInput, report_failure, spawn_background};

use crate::arguments::common::SecretArguments;
use crate::commands::opening::{AGAIN, is_meant};
use crate::commands::secret;
use crate::terminal::exit_code::ExitCode;
use crate::terminal::failure::{About, Failure, Result, tell};
use crate::terminal::logging;
use crate::terminal::printable::show_path;

/// Starts `command` with the secret of `vault` and the places behind it. Who typed a wrong secret is asked again.
pub(super) fn start(
    vault: &Path,
    secret: &SecretArguments,
    command: &[OsString],
    places: &[OsString],
) -> Result<()> {
    let mut attempt = 1;
    loop {
        let mut command = command.to_vec();
        // The person is asked here, where the terminal is.
        let typed = forward_secret(vault, secret, &mut command)?;
        forward_trust(vault, secret, &mut command)?;
        command.push("--".into());
        command.extend_from_slice(places);
        let input = typed
            .as_ref()
            .map_or(DaemonInput::Nothing, |text| DaemonInput::Secret(text));
        let started = spawn_background(&command, &input).map_err(parse_report);
        match started {
            Err(failure)
                if failure.code == ExitCode::WrongSecret
                    && !secret::is_given(secret)
                    && attempt < secret::ATTEMPTS =>
            {
                tell(AGAIN);
            }
            started => return started,
        }
        attempt += 1;
    }
}

/// Adds the options that say which vault is meant; asks for what they leave open, since nobody can be asked in the background.
fn forward_trust(
    vault: &Path,
    secret: &SecretArguments,
    command: &mut Vec<OsString>,
) -> Result<()> {
    if secret.accept_older {
        command.push("--accept-older".into());
    }
    let mut expected = secret.fingerprint;
    if expected.is_none() && secret.identity.is_some() && secret::can_ask() {
        // What the header says is not proven here: the background process accepts no other vault than the one compared.
        let seen = last_seen(vault, &SeenRecords::OfUser)?;
        let public = describe(vault)?;
        let fingerprint = Fingerprint::parse(&public.fingerprint);
        if let Some(fingerprint) = fingerprint.filter(|_| seen.places.is_empty()) {
            if !is_meant(&fingerprint) {
                return Err(Error::UnknownVault { fingerprint }.into());
            }
            expected = Some(fingerprint);
        }
    }
    if let Some(fingerprint) = expected {
        command.extend(["--fingerprint".into(), fingerprint.to_string().into()]);
    }
    Ok(())
}

/// Adds the options that name the secret; gives the bytes for standard input, if it is to come from there.
fn forward_secret(
    vault: &Path,
    secret: &SecretArguments,
    command: &mut Vec<OsString>,
) -> Result<Option<zeroize::Zeroizing<Vec<u8>>>> {
    let file = |path: &Path| absolute(path).map(PathBuf::into_os_string);
    if let Some(path) = &secret.key_file {
        command.extend(["--key-file".into(), file(path)?]);
        return Ok(None);
    }
    if let Some(path) = secret
        .identity
        .as_ref()
        .filter(|path| secret::opens_unasked(path))
    {
        command.extend(["--identity".into(), file(path)?]);
        return Ok(None);
    }
    if secret.identity.is_some() {
        let message = "an identity with a passphrase can be used in the foreground only: add -f";
        return Err(Failure::new(ExitCode::Unsupported, message));
    }
    if let Some(path) = secret
        .recovery_code
        .as_ref()
        .filter(|path| *path != Path::new("-"))
    {
        command.extend(["--recovery-code".into(), file(path)?]);
        return Ok(None);
    }
    let vault = show_path(vault);
    if secret.recovery_code.is_some() {
        command.extend(["--recovery-code".into(), "/dev/stdin".into()]);
        return secret::ask(&format!("recovery code of {vault}: ")).map(Some);
    }
    command.extend(["--passphrase-fd".into(), "0".into()]);
    if let Some(bytes) = secret.allow_memory {
        command.extend(["--allow-memory".into(), bytes.to_string().into()]);
    }
    secret::passphrase_text(secret, &vault).map(Some)
}

/// Where the background process logs to. Without a home, nowhere, unless somewhere is named.
pub(super) fn log_file(named: Option<&Path>) -> Result<Option<PathBuf>> {
    match named {
        Some(path) => absolute(path).map(Some),
        None => Ok(logging::default_file()),
    }
}

pub(super) fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).about(show_path(path))
}

/// Tells who waits for the background process why there will be no mount.
pub(super) fn refuse(failure: Failure) -> Result<()> {
    let message = failure.message.as_deref().unwrap_or("the mount failed");
    report_failure(&format!("{} {message}", failure.code as u8))?;
    Err(Failure {
        message: None,
        ..failure
    })
}

/// What the background process reported: its exit code, and its message.
fn parse_report(report: String) -> Failure {
    let parsed = report.split_once(' ').and_then(|(number, message)| {
        let number: u8 = number.parse().ok()?;
        let code = ExitCode::ALL
            .into_iter()
            .find(|code| *code as u8 == number)?;
        Some(Failure::new(code, message))
    });
    parsed.unwrap_or_else(|| Failure::new(ExitCode::Mount, report))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_of_the_background_process_keeps_its_exit_code() {
        let failure = parse_report("4 wrong passphrase".to_owned());
        assert_eq!(
            (failure.code, failure.message.as_deref()),
            (ExitCode::WrongSecret, Some("wrong passphrase"))
        );
        assert_eq!(
            parse_report("no number here".to_owned()).code,
            ExitCode::Mount
        );
    }
}
