//! Opens the vault a command is about, by itself or through the process that has it open.

use std::io::Write as _;
use std::path::Path;

use strongroom::{Access, Error, OpenOptions, Vault};

use crate::arguments::SecretArguments;
use crate::failure::{About, Failure, Result};
use crate::location::Location;
use crate::secret;

/// What a command will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Intent {
    /// Only read: also from media that cannot be written.
    Read,
    /// Change something.
    Change,
}

/// Opens `folder`.
pub(crate) fn open(folder: &Path, arguments: &SecretArguments, intent: Intent) -> Result<Vault> {
    // For writing even if this command only reads: another one may want to write through this process meanwhile.
    let opened = match open_as(folder, arguments, Access::ReadWrite) {
        Err(Error::Io { source, .. }) if intent == Intent::Read && is_not_writable(&source) => {
            open_as(folder, arguments, Access::ReadOnly)
        }
        Err(Error::NoLocks) if intent == Intent::Read => {
            open_as(folder, arguments, Access::ReadOnly)
        }
        opened => opened,
    };
    let vault = opened.about(folder.display())?;
    warn_of_records(&vault)?;
    Ok(vault)
}

/// One line if somebody changed who may open the vault, and it was not done here.
fn warn_of_records(vault: &Vault) -> Result<()> {
    let unknown = vault.information()?.unknown_records;
    if let Some(first) = unknown.first() {
        let more = match unknown.len() - 1 {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        // If standard error is closed there is nobody to tell.
        let _ = writeln!(
            std::io::stderr(),
            "strongroom: {first}{more}; `strongroom device list` shows it, `strongroom device accept` says that you know of it"
        );
    }
    Ok(())
}

fn open_as(
    folder: &Path,
    arguments: &SecretArguments,
    access: Access,
) -> strongroom::Result<Vault> {
    let options = OpenOptions {
        access,
        ..OpenOptions::default()
    };
    let source = secret::source(arguments, folder);
    if secret::is_given(arguments) || secret::can_ask() {
        return Vault::open_or_connect(folder, source, options);
    }
    match Vault::connect_if_owned(folder, options)? {
        Some(vault) => Ok(vault),
        // Fails, and says what there is besides a terminal.
        None => source().and_then(|secret| {
            Vault::open(
                folder,
                secret,
                OpenOptions {
                    access,
                    ..OpenOptions::default()
                },
            )
        }),
    }
}

fn is_not_writable(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem
    )
}

/// Makes a command's changes durable and lets go of the vault.
pub(crate) fn finish(vault: &Vault) -> Result<()> {
    if !vault.is_owner() {
        // The owner may die before its next commit; who ran this command must not learn that later.
        vault.sync()?;
    }
    Ok(vault.close()?)
}

/// Runs `work` on the vault of `folder` and makes its changes durable, also when some of it failed.
pub(crate) fn with(
    folder: &Path,
    arguments: &SecretArguments,
    intent: Intent,
    work: impl FnOnce(&Vault) -> Result<()>,
) -> Result<()> {
    let vault = open(folder, arguments, intent)?;
    let worked = work(&vault);
    let finished = match intent {
        Intent::Read => vault.close().map_err(Failure::from),
        Intent::Change => finish(&vault),
    };
    worked.and(finished)
}

/// The one vault that all `places` are in.
pub(crate) fn same_vault<'a>(places: impl IntoIterator<Item = &'a Location>) -> Result<&'a Path> {
    let mut vault: Option<&Path> = None;
    for place in places {
        // An empty name means the vault named before: `cp vault:/a :/b`.
        if place.vault.as_os_str().is_empty() {
            continue;
        }
        match vault {
            None => vault = Some(&place.vault),
            Some(first) if first == place.vault => {}
            Some(_) => {
                return Err(Failure::usage(
                    "all places must be in one vault; use get and put between vaults",
                ));
            }
        }
    }
    vault.ok_or_else(|| Failure::usage("no vault named; write VAULT:PATH"))
}
