//! Opens the vault of a command, in this process or through the process that already has it open; ends unlocked sessions.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use strongroom::{
    Access, Error, Fingerprint, IfOlder, OpenOptions, SecretSource, SeenRecords, Trust, Vault,
};

use crate::arguments::common::SecretArguments;
use crate::arguments::location::Location;
use crate::commands::secret;
use crate::terminal::exit_code::ExitCode;
use crate::terminal::failure::{About, Failure, Result, print, tell};
use crate::terminal::printable::{show, show_path};
use crate::terminal::prompt;

/// How long a session that ends may take to make everything durable.
const LETTING_GO: Duration = Duration::from_secs(60);

/// What who typed a wrong secret is told.
pub(crate) const AGAIN: &str = "this secret does not open the vault; try again";

/// What a command will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Intent {
    /// Only read: also from media that cannot be written.
    Read,
    /// Change something about the vault.
    Change,
    /// Change files: what no snapshot names has no name any more if the database is lost, so one is taken when it is due.
    ChangeFiles,
}

/// How old the newest snapshot is before a command that changes files takes another. As of mounts, if nobody says otherwise.
pub(super) const SNAPSHOT_EVERY: Duration = Duration::from_secs(3600);

/// Opens `folder`.
pub(crate) fn open(folder: &Path, arguments: &SecretArguments, intent: Intent) -> Result<Vault> {
    // For writing even if this command only reads: another one may want to write through this process meanwhile.
    let opened = unlocking(arguments, folder, |source, trust| {
        let open = |access| open_as(folder, arguments, source, access, trust);
        match open(Access::ReadWrite) {
            Err(Error::Io { source, .. }) if intent == Intent::Read && is_not_writable(&source) => {
                open(Access::ReadOnly)
            }
            Err(Error::NoLocks | Error::IsBackup) if intent == Intent::Read => {
                open(Access::ReadOnly)
            }
            opened => opened,
        }
    });
    let vault = opened.about(show_path(folder))?;
    warn_of_records(&vault)?;
    Ok(vault)
}

/// What the options say that the vault must be.
pub(crate) fn trust(arguments: &SecretArguments) -> Trust {
    Trust {
        expected_fingerprint: arguments.fingerprint,
        older: match arguments.accept_older {
            true => IfOlder::Accept,
            false => IfOlder::Refuse,
        },
        ..Trust::default()
    }
}

/// Does `work` with a source of the secret and with what the vault must be. Who typed a wrong secret is asked again.
///
/// `work` is done once more then; it must not have begun anything before the secret was right.
pub(crate) fn unlocking<T>(
    arguments: &SecretArguments,
    vault: &Path,
    mut work: impl FnMut(&SecretSource, &Trust) -> strongroom::Result<T>,
) -> strongroom::Result<T> {
    for _ in 1..secret::ATTEMPTS {
        let source = secret::source(arguments, vault);
        match trusting(arguments, |trust| work(&source, trust)) {
            Err(Error::WrongSecret(_)) if !secret::is_given(arguments) => tell(AGAIN),
            done => return done,
        }
    }
    let source = secret::source(arguments, vault);
    trusting(arguments, |trust| work(&source, trust))
}

/// Does `work`; if the vault is one that anybody could have made, a person is asked whether it is the one that is meant.
///
/// `work` is done a second time then; nothing of the vault was used the first time.
pub(crate) fn trusting<T>(
    arguments: &SecretArguments,
    mut work: impl FnMut(&Trust) -> strongroom::Result<T>,
) -> strongroom::Result<T> {
    let mut trust = trust(arguments);
    let fingerprint = match work(&trust) {
        Err(Error::UnknownVault { fingerprint }) if secret::can_ask() => fingerprint,
        done => return done,
    };
    if !is_meant(&fingerprint) {
        return Err(Error::UnknownVault { fingerprint });
    }
    trust.expected_fingerprint = Some(fingerprint);
    work(&trust)
}

/// Asks whether a vault is the one that is meant.
pub(crate) fn is_meant(fingerprint: &Fingerprint) -> bool {
    let question = format!(
        "You have not used this vault before. Anyone who has your public key can make a vault that your key opens.\n\
         The fingerprint of this vault is {fingerprint}.\n\
         Is it the one that init printed when your vault was made? [yes/no] "
    );
    prompt::confirm(&question).unwrap_or(false)
}

/// One line if somebody changed who may open the vault, and it was not done here.
pub(crate) fn warn_of_records(vault: &Vault) -> Result<()> {
    let unknown = vault.information()?.unknown_records;
    if let Some(first) = unknown.first() {
        let more = match unknown.len() - 1 {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        tell(&format!(
            "strongroom: {first}{more}; `strongroom device list` shows it, `strongroom device accept` accepts it"
        ));
    }
    Ok(())
}

fn open_as(
    folder: &Path,
    arguments: &SecretArguments,
    source: &SecretSource,
    access: Access,
    trust: &Trust,
) -> strongroom::Result<Vault> {
    let options = OpenOptions {
        access,
        trust: trust.clone(),
        ..OpenOptions::default()
    };
    if secret::is_given(arguments) || secret::can_ask() {
        return Vault::open_or_connect(folder, Arc::clone(source), options);
    }
    match Vault::connect_if_owned(folder, options.clone())? {
        Some(vault) => Ok(vault),
        // Fails, and says what there is besides a terminal.
        None => source().and_then(|secret| Vault::open(folder, secret, options)),
    }
}

/// Ends an unlocked session of a vault, if there is one, and waits until everything is durable. `next`: the access of the next owner.
pub(crate) fn end_session(vault: &Path, next: Access) -> strongroom::Result<bool> {
    let goes = Vault::let_go(vault)?;
    if goes {
        Vault::wait_until_free(vault, next, LETTING_GO)?;
    }
    Ok(goes)
}

/// The same for who needs the vault alone. Who else has it open is found out by opening it, but for one who does not answer:
/// he has been waited for by then.
pub(crate) fn make_way(vault: &Path, next: Access) -> strongroom::Result<()> {
    match end_session(vault, next) {
        Err(error @ (Error::OwnerUnreachable | Error::OtherVersion)) => Err(error),
        _ => Ok(()),
    }
}

/// Says of a vault that is open already where that is.
pub(crate) fn open_already(folder: &Path, error: Error) -> Failure {
    if !matches!(error, Error::InUse) {
        return error.into();
    }
    let mut options = OpenOptions::read_only();
    // Whatever vault it is: nothing of it is used.
    options.trust.seen = SeenRecords::Nowhere;
    let found = Vault::connect_if_owned(folder, options);
    let Ok(Some(found)) = found.and_then(|owner| owner.map(|one| one.information()).transpose())
    else {
        return error.into();
    };
    let message = match found.attachments.first() {
        Some(attachment) => {
            let place = show(&attachment.mount_point);
            format!("the vault is already mounted on {place}; unmount it with `strongroom umount`")
        }
        None => format!(
            "the vault is already open in process {}; end that process, then try again",
            found.owner_pid
        ),
    };
    Failure::new(ExitCode::InUse, message)
}

fn is_not_writable(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem
    )
}

/// Makes a command's changes durable and closes the vault.
pub(crate) fn finish(vault: &Vault) -> Result<()> {
    // If another process owns the vault too: it may die before its next commit.
    Ok(vault.close()?)
}

/// Takes a snapshot if one is due. The process that owns the vault sees to that: a mount and an unlocked session by their schedule.
fn keep_if_due(vault: &Vault) {
    if !vault.is_owner() {
        return;
    }
    if let Err(error) = vault.keep_if_due(SNAPSHOT_EVERY) {
        // What the command was for is done.
        tell(&format!(
            "strongroom: warning: no snapshot was taken: {error}"
        ));
    }
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
        Intent::ChangeFiles => {
            keep_if_due(&vault);
            finish(&vault)
        }
    };
    ended(worked, finished)
}

/// Gives the result of a command that did its work, and then made the changes durable.
///
/// If both failed, the failure of the work is printed here: that of the end counts more, since nothing of the work may be durable.
pub(crate) fn ended<T>(worked: Result<T>, finished: Result<()>) -> Result<T> {
    let Err(lost) = finished else {
        return worked;
    };
    if let Err(failure) = worked {
        print(&failure);
    }
    Err(lost)
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
                    "all paths must be in one vault; to copy from one vault to another, use get, then put",
                ));
            }
        }
    }
    vault.ok_or_else(|| Failure::usage("no vault named; write VAULT:PATH"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the exit code and the message of a command whose changes are possibly not durable say so, whatever else failed. Method: each
    /// pair of results; the failure of the work is the one of `put`, which was printed before.
    /// Failed before: if the work had failed, its failure was the result, and the one of the end was dropped.
    #[test]
    fn a_failure_to_make_changes_durable_is_never_dropped() {
        let work = || Failure {
            code: ExitCode::NotFound,
            message: None,
        };
        let end = || Failure::new(ExitCode::NoSpace, "the last commit failed");
        let code = |worked: Result<u8>, finished: Result<()>| {
            ended(worked, finished).map_err(|failure| (failure.code, failure.message.is_some()))
        };
        assert_eq!(code(Ok(1), Ok(())), Ok(1));
        assert_eq!(code(Err(work()), Ok(())), Err((ExitCode::NotFound, false)));
        let lost = Err((ExitCode::NoSpace, true));
        assert_eq!(code(Ok(1), Err(end())), lost);
        assert_eq!(code(Err(work()), Err(end())), lost);
    }
}
