//! `rm` and `mkdir`: remove nodes, and make directories.

use strongroom::filesystem::{Error as FileError, NodeKind};
use strongroom::{Error, Links, Vault};

use crate::arguments::location::last_name;
use crate::arguments::{Mkdir, Rm};
use crate::commands::opening::{Intent, same_vault, with};
use crate::commands::walk::{At, Walk};
use crate::terminal::exit_code::ExitCode;
use crate::terminal::failure::{About, Failure, Failures, Result};
use crate::terminal::printable::show;

/// Removes.
pub(crate) fn remove(arguments: &Rm) -> Result<()> {
    let vault = same_vault(&arguments.places)?;
    with(vault, &arguments.secret, Intent::ChangeFiles, |vault| {
        let mut failures = Failures::default();
        for place in &arguments.places {
            let result = match remove_one(vault, &place.path, arguments.recursive) {
                Err(failure) if arguments.force && failure.code == ExitCode::NotFound => Ok(()),
                result => result,
            };
            failures.note(result.about(place.shown()));
        }
        failures.end()
    })
}

fn remove_one(vault: &Vault, path: &[u8], recursive: bool) -> Result<()> {
    if last_name(path).is_none() {
        return Err(Failure::usage(
            "the root directory cannot be removed; name the files in it",
        ));
    }
    if vault.attributes(path, Links::Stay)?.kind != NodeKind::Directory {
        return Ok(vault.remove_file(path)?);
    }
    if !recursive {
        return Err(Failure::usage(
            "is a directory; add -r to remove it and everything in it",
        ));
    }
    let mut failures = Failures::default();
    for step in Walk::new(vault, path, usize::MAX)? {
        let step = step?;
        let result = match step.at {
            At::Again => {
                failures.note(Err(step.again()));
                continue;
            }
            At::Enter => Ok(()),
            At::Leave => vault.remove_directory(&step.path),
            At::Node => vault.remove_file(&step.path),
        };
        let result = match result {
            // Somebody else was faster.
            Err(Error::File(FileError::NotFound)) => Ok(()),
            result => result,
        };
        failures.note(result.about(show(&step.path)));
    }
    failures.end()
}

/// Makes directories.
pub(crate) fn make_directories(arguments: &Mkdir) -> Result<()> {
    let vault = same_vault(&arguments.places)?;
    with(vault, &arguments.secret, Intent::ChangeFiles, |vault| {
        let mut failures = Failures::default();
        for place in &arguments.places {
            let made = if arguments.parents {
                make_with_parents(vault, &place.path, arguments.mode)
            } else {
                vault
                    .make_directory(&place.path, arguments.mode)
                    .map(drop)
                    .map_err(Failure::from)
            };
            failures.note(made.about(place.shown()));
        }
        failures.end()
    })
}

fn make_with_parents(vault: &Vault, path: &[u8], mode: u32) -> Result<()> {
    let ends = path
        .iter()
        .enumerate()
        .filter(|(at, byte)| *at > 0 && **byte == b'/')
        .map(|(at, _)| at);
    for end in ends.chain([path.len()]) {
        let part = &path[..end];
        match vault.make_directory(part, mode) {
            Ok(_) => {}
            // Also `/`, `.` and `..`, which name no new directory.
            Err(error @ Error::File(FileError::Exists | FileError::InvalidArgument(_))) => {
                if vault.attributes(part, Links::Follow)?.kind != NodeKind::Directory {
                    return Err(error.into());
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
