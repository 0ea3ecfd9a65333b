//! `init`: creates a vault and shows its recovery code, once.

use std::io::Write;
use std::path::Path;

use serde::Serialize;
use strongroom::{
    AgeRecipient, CreateOptions, Error, KeyFile, RecoveryCode, SuiteId, SystemRandom, Vault,
    providers,
};

use crate::arguments::{HowCompressed, Init, Suite};
use crate::commands::secret;
use crate::terminal::exit_code::ExitCode;
use crate::terminal::failure::{About, Failure, Result};
use crate::terminal::output::{Format, print_json, stdout};
use crate::terminal::printable::show_path;

/// Creates the vault.
pub(crate) fn init(arguments: &Init) -> Result<()> {
    let vault = show_path(&arguments.vault);
    if let Some(code) = &arguments.common.secret.recovery_code {
        let message = format!(
            "--recovery-code {}: init makes the recovery code itself",
            show_path(code)
        );
        return Err(Failure::usage(message));
    }
    if arguments.common.secret.fingerprint.is_some() || arguments.common.secret.accept_older {
        return Err(Failure::usage(
            "--fingerprint and --accept-older are for an existing vault; init makes a new one",
        ));
    }
    if arguments.common.secret.identity.is_some() {
        return Err(Failure::usage(
            "--identity: init needs only the public key; give it with --recipient",
        ));
    }
    Vault::check_new(&arguments.vault).about(&vault)?;
    let suite = match arguments.suite {
        Suite::Aes => SuiteId::Aes256GcmBlake3,
        Suite::Chacha => SuiteId::ChaCha20Poly1305Blake3,
        Suite::Aegis => SuiteId::Aegis256Blake3,
    };
    // Before anybody is asked for a passphrase.
    providers::ready(suite).map_err(Error::from).about(&vault)?;
    let mut options = CreateOptions::new().suite(suite);
    for recipient in &arguments.recipient {
        let parsed =
            AgeRecipient::parse(recipient).map_err(|error| Failure::usage(error.to_string()));
        options = options.recipient(parsed.about(recipient)?);
    }
    let named = arguments.recipient.is_empty() || secret::is_given(&arguments.common.secret);
    if named && let Some(passphrase) = secret::first_passphrase(&arguments.common.secret, &vault)? {
        options = options.passphrase(passphrase);
    }
    if let Some(path) = &arguments.common.secret.key_file {
        let key_file = KeyFile::random(&SystemRandom)
            .map_err(|error| Failure::new(ExitCode::Other, error.to_string()))?;
        write_secret(path, key_file.text().as_bytes())?;
        options = options.key_file(key_file);
    }
    let created = Vault::create(&arguments.vault, options).about(&vault);
    if let (Err(_), Some(path)) = (&created, &arguments.common.secret.key_file) {
        // It opens nothing. That it cannot be removed would only hide the reason of the failure.
        let _ = std::fs::remove_file(path);
    }
    let created = created?;
    let set = match arguments.quota {
        Some(bytes) => created.vault.set_quota(Some(bytes)),
        None => Ok(()),
    };
    let set = set.and_then(|()| match arguments.compression {
        HowCompressed::None => Ok(()),
        how => created.vault.set_compression(how.into()),
    });
    let closed = created.vault.close();
    // First of all what is shown only once; the vault is there.
    report(
        &created.fingerprint,
        &created.recovery_code,
        Format::of(arguments.common.json),
    )?;
    set.and(closed).about(&vault)
}

#[derive(Serialize)]
struct Made<'a> {
    fingerprint: &'a str,
    recovery_code: &'a str,
}

fn report(fingerprint: &str, code: &RecoveryCode, format: Format) -> Result<()> {
    let recovery_code = code.text();
    if format == Format::Json {
        return print_json(&Made {
            fingerprint,
            recovery_code: &recovery_code,
        });
    }
    let mut out = stdout();
    writeln!(out, "fingerprint    {fingerprint}")?;
    writeln!(out, "recovery code  {}", *recovery_code)?;
    writeln!(out)?;
    writeln!(
        out,
        "Write the recovery code down and keep it away from this machine: it is shown only now, and it opens"
    )?;
    writeln!(
        out,
        "the vault when everything else is forgotten. Compare the fingerprint with `strongroom info` later."
    )?;
    Ok(out.flush()?)
}

/// Writes a secret to a new file that only its user can read.
pub(crate) fn write_secret(path: &Path, content: &[u8]) -> Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(path);
    let mut file = file.about(show_path(path))?;
    file.write_all(content)
        .and_then(|()| file.sync_all())
        .about(show_path(path))
}
