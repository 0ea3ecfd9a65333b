//! Makes local files for `get`.
//!
//! Takes   local paths
//! Gives   files and others, each under its name only when it is whole; and what stands for the disk below them
//! Never   takes a link for a directory

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use strongroom::filesystem::NodeKind;

use super::placing::beside;
use crate::terminal::exit_code::ExitCode;
use crate::terminal::failure::{Failure, Result};

/// What stands for the disk of a target: opened before anything is written, it hears of each write that fails later. `None` if the
/// directory may not be listed.
pub(super) fn disk_of(target: &Path) -> Option<File> {
    let directory = match target.is_dir() {
        true => target,
        false => parent_of(target),
    };
    File::open(directory).ok()
}

/// The local directory that holds a name.
pub(super) fn parent_of(local: &Path) -> &Path {
    match local.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Makes a pipe, socket or device; its mode comes later.
pub(super) fn make_special(path: &Path, kind: NodeKind, rdev: u64) -> Result<()> {
    let file_type = match kind {
        NodeKind::Fifo => FileType::Fifo,
        NodeKind::Socket => FileType::Socket,
        NodeKind::CharDevice => FileType::CharacterDevice,
        _ => FileType::BlockDevice,
    };
    let made = mknodat(CWD, path, file_type, Mode::from_raw_mode(0o600), rdev);
    match made {
        Err(rustix::io::Errno::PERM) => Err(Failure::new(
            ExitCode::Permission,
            "left out: only the superuser can make devices",
        )),
        made => Ok(made.map_err(io::Error::from)?),
    }
}

/// Makes a directory that is not readable for others while it fills, or takes one that is there.
pub(super) fn make_directory(local: &Path) -> Result<()> {
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
pub(super) fn place(local: &Path, make: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let directory = parent_of(local);
    let name = beside(b"/");
    let beside = directory.join(OsStr::from_bytes(name.strip_prefix(b"/").unwrap_or(&name)));
    let made = make(&beside).and_then(|()| Ok(fs::rename(&beside, local)?));
    if made.is_err() {
        // The reason is what counts; the half file is of no use.
        let _ = fs::remove_file(&beside);
    }
    made
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::symlink;

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
