//! Gets the secret that unlocks a vault: from a terminal, a file, a descriptor or a command.
//!
//! Takes   the options of the command line
//! Gives   a `Secret`, asked for only if it is needed; a command that needs it twice asks once, and a mistyped secret
//!         is asked for again
//! Never   accepts a secret as an argument or from the environment, prints one, or leaves an unwiped copy in memory

use std::ffi::OsStr;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use strongroom::{AgeIdentity, KeyFile, Passphrase, RecoveryCode, Secret, SecretSource};
use zeroize::Zeroizing;

use crate::arguments::common::SecretArguments;
use crate::terminal::exit_code::ExitCode;
use crate::terminal::failure::{About, Failure, Result, tell};
use crate::terminal::printable::{line, show_path};
use crate::terminal::prompt;

/// The longest secret file that is read, in bytes.
const SECRET_BYTES_MAX: u64 = 64 * 1024;

/// How often a person may mistype a passphrase.
pub(crate) const ATTEMPTS: usize = 3;

/// What to do when no option names a secret and nobody can be asked.
const NO_SECRET: &str = "no passphrase given and no terminal to ask for it; use --passphrase-file, --passphrase-fd, \
                         --passphrase-command, --key-file, --identity or --recovery-code";

/// The source that the options name, to be asked only if this process has to open the vault by itself.
pub(crate) fn source(arguments: &SecretArguments, vault: &Path) -> SecretSource {
    let (arguments, vault) = (arguments.clone(), vault.to_owned());
    let known: Mutex<Option<Secret>> = Mutex::new(None);
    Arc::new(move || {
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(secret) = known.as_ref() {
            return Ok(secret.clone());
        }
        // A printed secret of another format has another checksum and would look mistyped.
        if let Err(error @ strongroom::Error::UnknownFormat(_)) = strongroom::list_slots(&vault) {
            return Err(error);
        }
        let secret = get(&arguments, &show_path(&vault)).map_err(|failure| {
            let message = failure
                .message
                .unwrap_or_else(|| "the secret was not given".to_owned());
            match failure.code {
                ExitCode::WrongSecret => strongroom::Error::WrongSecret(message),
                _ => strongroom::Error::NoSecret(message),
            }
        })?;
        Ok(known.insert(secret).clone())
    })
}

/// Whether there is a terminal to ask a person on.
pub(crate) fn can_ask() -> bool {
    prompt::terminal().is_ok()
}

/// The secret that the options name; asks on the terminal if they name none.
pub(crate) fn get(arguments: &SecretArguments, vault: &str) -> Result<Secret> {
    if let Some(passphrase) = given_passphrase(arguments)? {
        return Ok(unlocking(passphrase, arguments));
    }
    if let Some(path) = &arguments.recovery_code {
        let text = if path == Path::new("-") {
            ask(&format!("recovery code of {vault}: "))?
        } else {
            first_line(read_bounded(open(path)?).about(show_path(path))?)
        };
        let text = std::str::from_utf8(&text)
            .map_err(|_| Failure::usage("the recovery code is not text"))?;
        return RecoveryCode::parse(text)
            .map(Secret::RecoveryCode)
            .map_err(|error| wrong(&error));
    }
    if let Some(path) = &arguments.key_file {
        let content = read_bounded(open(path)?).about(show_path(path))?;
        let key = KeyFile::parse(&content).map_err(|error| wrong(&error));
        return key.map(Secret::KeyFile).about(show_path(path));
    }
    if let Some(path) = &arguments.identity {
        return identity(path).map(Secret::Identity).about(show_path(path));
    }
    let passphrase = passphrase(&ask(&format!("passphrase of {vault}: "))?)?;
    Ok(unlocking(passphrase, arguments))
}

/// A passphrase that may take as much memory as the options say.
fn unlocking(passphrase: Passphrase, arguments: &SecretArguments) -> Secret {
    Secret::Passphrase(match arguments.allow_memory {
        None => passphrase,
        Some(bytes) => {
            passphrase.allow_memory(u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX))
        }
    })
}

/// A passphrase that an option names.
fn given_passphrase(arguments: &SecretArguments) -> Result<Option<Passphrase>> {
    given_text(arguments)?
        .map(|text| passphrase(&text))
        .transpose()
}

/// Its text.
fn given_text(arguments: &SecretArguments) -> Result<Option<Zeroizing<Vec<u8>>>> {
    let text = if let Some(path) = &arguments.passphrase_file {
        read_bounded(open(path)?).about(show_path(path))?
    } else if let Some(descriptor) = arguments.passphrase_fd {
        read_descriptor(descriptor)?
    } else if let Some(command) = &arguments.passphrase_command {
        run(command)?
    } else {
        return Ok(None);
    };
    Ok(Some(first_line(text)))
}

/// A new passphrase: from an option, or asked for twice.
pub(crate) fn new_passphrase(file: Option<&Path>, vault: &str) -> Result<Passphrase> {
    if let Some(path) = file {
        return passphrase(&first_line(
            read_bounded(open(path)?).about(show_path(path))?,
        ));
    }
    for _ in 1..ATTEMPTS {
        if let Some(new) = ask_twice(vault)? {
            return Ok(new);
        }
        tell("the two passphrases differ; type both again");
    }
    ask_twice(vault)?.ok_or_else(|| Failure::usage("the two passphrases differ; try again"))
}

/// A passphrase that was typed twice; `None` if the two differ.
fn ask_twice(vault: &str) -> Result<Option<Passphrase>> {
    let first = ask(&format!("new passphrase of {vault}: "))?;
    // Refused before the person types it again.
    let new = passphrase(&first)?;
    let second = ask("the same again: ")?;
    Ok((*first == *second).then_some(new))
}

/// The passphrase of a new vault: what the options name, or asked for twice; `None` if another kind is named.
pub(crate) fn first_passphrase(
    arguments: &SecretArguments,
    vault: &str,
) -> Result<Option<Passphrase>> {
    if let Some(passphrase) = given_passphrase(arguments)? {
        return Ok(Some(passphrase));
    }
    if arguments.key_file.is_some()
        || arguments.identity.is_some()
        || arguments.recovery_code.is_some()
    {
        return Ok(None);
    }
    new_passphrase(None, vault).map(Some)
}

/// Whether `get` can give something without a person.
pub(crate) fn is_given(arguments: &SecretArguments) -> bool {
    arguments.passphrase_file.is_some()
        || arguments.passphrase_fd.is_some()
        || arguments.passphrase_command.is_some()
        || arguments.key_file.is_some()
        || arguments.identity.is_some()
        || arguments
            .recovery_code
            .as_deref()
            .is_some_and(|path| path != Path::new("-"))
}

/// The passphrase that the options name, or that is asked for, as text for another process.
pub(crate) fn passphrase_text(
    arguments: &SecretArguments,
    vault: &str,
) -> Result<Zeroizing<Vec<u8>>> {
    let text = match given_text(arguments)? {
        Some(text) => text,
        None => ask(&format!("passphrase of {vault}: "))?,
    };
    // Refused here, where the message is about what was typed.
    passphrase(&text)?;
    Ok(text)
}

/// Whether an identity file needs no passphrase of its own.
pub(crate) fn opens_unasked(path: &Path) -> bool {
    use strongroom::AgeKeyError;
    let content = open(path).and_then(|file| Ok(read_bounded(file)?));
    // What is wrong with it otherwise is said by who opens it.
    !content.is_ok_and(|content| {
        matches!(
            AgeIdentity::parse(&content, None),
            Err(AgeKeyError::PassphraseNeeded)
        )
    })
}

fn passphrase(text: &[u8]) -> Result<Passphrase> {
    Passphrase::new(text).map_err(|error| Failure::usage(error.to_string()))
}

fn identity(path: &Path) -> Result<AgeIdentity> {
    use strongroom::AgeKeyError;
    let content = read_bounded(open(path)?)?;
    match AgeIdentity::parse(&content, None) {
        Err(AgeKeyError::PassphraseNeeded) => {
            let mut attempt = 1;
            loop {
                let text = ask(&format!("passphrase of {}: ", show_path(path)))?;
                let text = std::str::from_utf8(&text)
                    .map_err(|_| Failure::usage("the passphrase is not UTF-8"))?;
                match AgeIdentity::parse(&content, Some(text)) {
                    Err(_) if attempt < ATTEMPTS => tell("wrong passphrase; try again"),
                    identity => return identity.map_err(|error| wrong(&error)),
                }
                attempt += 1;
            }
        }
        identity => identity.map_err(|error| wrong(&error)),
    }
}

fn wrong(error: &dyn std::fmt::Display) -> Failure {
    Failure::new(ExitCode::WrongSecret, error.to_string())
}

pub(crate) fn ask(prompt: &str) -> Result<Zeroizing<Vec<u8>>> {
    // The prompt goes to the terminal itself; without one, say at once what else there is.
    if !can_ask() {
        return Err(Failure::usage(NO_SECRET));
    }
    prompt::hidden_line(&line(prompt)).map_err(|error| match error.kind() {
        ErrorKind::Interrupted => Failure::new(ExitCode::Other, "interrupted"),
        _ => Failure::usage(NO_SECRET),
    })
}

fn open(path: &Path) -> Result<File> {
    File::open(path).about(show_path(path))
}

/// Reads the descriptor `number` that the caller left open.
fn read_descriptor(number: u32) -> Result<Zeroizing<Vec<u8>>> {
    if number == 0 {
        // Not through the buffer of the standard library, which would keep it.
        let file = std::io::stdin().as_fd().try_clone_to_owned()?;
        return Ok(read_bounded(File::from(file))?);
    }
    let path = format!("/proc/self/fd/{number}");
    let file = File::open(path).about(format!("file descriptor {number}"))?;
    read_bounded(file).about(format!("file descriptor {number}"))
}

fn read_bounded(source: impl Read) -> std::io::Result<Zeroizing<Vec<u8>>> {
    // Reserved in one piece, so that no half of a secret stays in a buffer that was too small.
    let mut text = Zeroizing::new(Vec::with_capacity(SECRET_BYTES_MAX as usize + 64));
    source.take(SECRET_BYTES_MAX + 1).read_to_end(&mut text)?;
    if text.len() as u64 > SECRET_BYTES_MAX {
        return Err(std::io::Error::new(
            ErrorKind::InvalidData,
            "too long to be a secret",
        ));
    }
    Ok(text)
}

/// What stands before the first line end.
fn first_line(mut text: Zeroizing<Vec<u8>>) -> Zeroizing<Vec<u8>> {
    let end = text
        .iter()
        .position(|byte| *byte == b'\n')
        .unwrap_or(text.len());
    let end = if end > 0 && text[end - 1] == b'\r' {
        end - 1
    } else {
        end
    };
    text.truncate(end);
    text
}

fn run(command: &OsStr) -> Result<Zeroizing<Vec<u8>>> {
    let mut shell = Command::new("/bin/sh");
    shell
        .arg("-c")
        .arg(command)
        .stdout(Stdio::piped())
        .stdin(Stdio::inherit());
    let mut child = shell.spawn().about("--passphrase-command")?;
    let mut text = Zeroizing::new(Vec::new());
    if let Some(output) = child.stdout.take() {
        text = read_bounded(output).about("--passphrase-command")?;
    }
    let status = child.wait().about("--passphrase-command")?;
    if !status.success() {
        return Err(Failure::usage(format!(
            "--passphrase-command ended with {status}; it must print the passphrase"
        )));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_ends_at_the_first_line_end_of_either_kind() {
        for (text, line) in [
            ("a\n", "a"),
            ("a\r\nb", "a"),
            ("a", "a"),
            ("", ""),
            ("\n", ""),
            ("a b \n", "a b "),
        ] {
            assert_eq!(
                *first_line(Zeroizing::new(text.as_bytes().to_vec())),
                line.as_bytes()
            );
        }
    }

    #[test]
    fn an_endless_secret_is_refused() {
        assert!(read_bounded(std::io::repeat(b'x')).is_err());
        assert!(read_bounded(&vec![b'x'; SECRET_BYTES_MAX as usize][..]).is_ok());
    }

    #[test]
    fn a_command_gives_its_first_line_and_must_succeed() {
        assert_eq!(
            *first_line(run(OsStr::new("echo one; echo two")).unwrap()),
            b"one"
        );
        let failure = run(OsStr::new("echo secret; exit 3")).unwrap_err();
        assert_eq!(failure.code, ExitCode::Usage);
        assert!(!failure.message.unwrap().contains("secret"));
    }
}
