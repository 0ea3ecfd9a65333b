//! `get`: copies files and directories out of a vault.
//!
//! A file gets its name when all of it is there. Nothing is written through a symbolic link that came from the vault.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
use strongroom::filesystem::{Attributes, NodeKind, Timestamp};
use strongroom::{FileOptions, Vault};

use crate::arguments::Get;
use crate::exit_code::ExitCode;
use crate::failure::{About, Failure, Failures, Result};
use crate::location::{Location, last_name, show};
use crate::opening::{Intent, same_vault, with};
use crate::progress::Progress;
use crate::walk::{At, Step, Walk};

/// Bytes moved at once.
const PART_BYTES: usize = 1024 * 1024;

/// Copies out of the vault.
pub(crate) fn get(arguments: &Get) -> Result<()> {
    let vault = same_vault(&arguments.sources)?;
    let to_stdout = arguments.target == Path::new("-");
    let into = arguments.target.is_dir();
    if arguments.sources.len() > 1 && !into && !to_stdout {
        return Err(Failure::usage(format!(
            "{}: several files need a directory there",
            arguments.target.display()
        )));
    }
    with(vault, &arguments.secret, Intent::Read, |vault| {
        let mut failures = Failures::default();
        let mut getting = Getting {
            vault,
            part: vec![0; PART_BYTES],
            progress: Progress::new(arguments.quiet),
            failures: &mut failures,
        };
        for source in &arguments.sources {
            let result = if to_stdout {
                getting.content(&source.path, &mut std::io::stdout().lock())
            } else {
                getting.source(source, &arguments.target, into)
            };
            getting.failures.note(result.about(source.shown()));
        }
        drop(getting);
        failures.end()
    })
}

/// A copy under way.
struct Getting<'a> {
    vault: &'a Vault,
    part: Vec<u8>,
    progress: Progress,
    failures: &'a mut Failures,
}

impl Getting<'_> {
    fn source(&mut self, source: &Location, target: &Path, into: bool) -> Result<()> {
        let top = match last_name(&source.path) {
            Some(name) if into => target.join(OsStr::from_bytes(name)),
            // The root: what is in it goes into the target itself.
            _ => target.to_owned(),
        };
        let walk = Walk::new(self.vault, &source.path, usize::MAX)?;
        // The local path of the directory at each depth; `None` for one that could not be made, whose content is
        // left out with it.
        let mut levels: Vec<Option<PathBuf>> = Vec::new();
        for step in walk {
            let step = step?;
            levels.truncate(step.depth + usize::from(step.at == At::Leave));
            let local = match (step.depth, last_name(&step.path)) {
                (0, _) => Some(top.clone()),
                (depth, Some(name)) => levels[depth - 1]
                    .as_ref()
                    .map(|level| level.join(OsStr::from_bytes(name))),
                (_, None) => None,
            };
            let done = match &local {
                Some(local) => self.step(&step, local).about(show(&step.path)),
                None => Ok(()),
            };
            if step.at == At::Enter {
                levels.push(local.filter(|_| done.is_ok()));
            }
            self.failures.note(done);
        }
        Ok(())
    }

    fn step(&mut self, step: &Step, local: &Path) -> Result<()> {
        match (step.at, step.attributes.kind) {
            (At::Enter, _) => make_directory(local),
            (At::Leave, _) => {
                fs::set_permissions(local, Permissions::from_mode(step.attributes.mode))?;
                set_time(local, &step.attributes)
            }
            (At::Node, NodeKind::File) => self.file(&step.path, &step.attributes, local),
            (At::Node, NodeKind::Symlink) => {
                let target = self.vault.read_link(&step.path)?;
                place(local, |beside| {
                    symlink(OsStr::from_bytes(&target), beside)?;
                    set_time(beside, &step.attributes)
                })
            }
            (At::Node, _) => Err(Failure::new(
                ExitCode::Unsupported,
                "left out: it is no file, directory or symbolic link",
            )),
        }
    }

    fn file(&mut self, path: &[u8], attributes: &Attributes, local: &Path) -> Result<()> {
        self.progress.file(path);
        place(local, |beside| {
            let mut file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(beside)?;
            self.content(path, &mut file)?;
            file.set_permissions(Permissions::from_mode(attributes.mode))?;
            set_time(beside, attributes)
        })
    }

    fn content(&mut self, path: &[u8], target: &mut dyn Write) -> Result<()> {
        let file = self.vault.open_file(path, FileOptions::new().read())?;
        let mut offset = 0;
        loop {
            let count = file.read_at(&mut self.part, offset)?;
            target.write_all(&self.part[..count])?;
            offset += count as u64;
            self.progress.advance(count as u64);
            if count < self.part.len() {
                return Ok(target.flush()?);
            }
        }
    }
}

/// Makes a directory that is not readable for others while it fills, or takes one that is there.
fn make_directory(local: &Path) -> Result<()> {
    match DirBuilder::new().mode(0o700).create(local) {
        // Only a real one: a link could lead anywhere.
        Err(error)
            if error.kind() == ErrorKind::AlreadyExists
                && fs::symlink_metadata(local)?.is_dir() =>
        {
            Ok(())
        }
        made => Ok(made?),
    }
}

/// Makes something under a name beside `local` and renames it when it is whole.
fn place(local: &Path, make: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let directory = match local.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let name = super::put::beside(b"/");
    let beside = directory.join(OsStr::from_bytes(name.strip_prefix(b"/").unwrap_or(&name)));
    let made = make(&beside).and_then(|()| Ok(fs::rename(&beside, local)?));
    if made.is_err() {
        // The reason is what counts; the half file is of no use.
        let _ = fs::remove_file(&beside);
    }
    made
}

fn set_time(local: &Path, attributes: &Attributes) -> Result<()> {
    let times = Timestamps {
        last_access: timespec(attributes.atime),
        last_modification: timespec(attributes.mtime),
    };
    Ok(utimensat(CWD, local, &times, AtFlags::SYMLINK_NOFOLLOW).map_err(std::io::Error::from)?)
}

fn timespec(time: Timestamp) -> Timespec {
    Timespec {
        tv_sec: time.0.div_euclid(1_000_000_000),
        tv_nsec: time.0.rem_euclid(1_000_000_000),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn a_copy_that_fails_leaves_the_old_file_and_nothing_else() {
        let place_dir = tempfile::tempdir().unwrap();
        let local = place_dir.path().join("a");
        fs::write(&local, b"old").unwrap();
        let failed = place(&local, |beside| {
            File::create(beside)?.write_all(b"half")?;
            Err(Failure::new(ExitCode::Damaged, "no"))
        });
        assert!(failed.is_err());
        assert_eq!(fs::read(&local).unwrap(), b"old");
        assert_eq!(fs::read_dir(place_dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_in_the_way_of_a_directory_is_not_followed() {
        let place_dir = tempfile::tempdir().unwrap();
        let link = place_dir.path().join("link");
        symlink("/tmp", &link).unwrap();
        assert_eq!(make_directory(&link).unwrap_err().code, ExitCode::Exists);
    }
}
