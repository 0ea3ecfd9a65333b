//! `--delete`: removes from the copy of a directory everything that its source does not have.
//!
//! Takes   a directory, and the names that its source has
//! Gives   the number of removed nodes
//! Never   removes a node that a pattern excludes, or a directory with such a node in it; never follows a link

use std::fs::{self, ReadDir};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use strongroom::filesystem::{Error as FileError, NodeKind};
use strongroom::{Error, Vault};

use crate::arguments::location::join;
use crate::arguments::pattern::{Exclude, excludes};
use crate::commands::walk::{At, Step, Walk};
use crate::terminal::failure::{About, Result};
use crate::terminal::printable::{show, show_path};

/// The path of `name` in the directory `path`, both relative.
pub(super) fn below(path: &[u8], name: &[u8]) -> Vec<u8> {
    match path {
        b"" => name.to_vec(),
        path => join(path, name),
    }
}

/// Removes what is at `path` of the vault, a directory with all in it. `relative`: how patterns name it.
pub(super) fn remove(
    vault: &Vault,
    path: &[u8],
    relative: &[u8],
    patterns: &[Exclude],
) -> Result<u64> {
    let mut count = 0;
    let mut walk = Walk::new(vault, path, usize::MAX)?;
    while let Some(step) = walk.next() {
        let step = step?;
        let below_it = step.path.strip_prefix(path).unwrap_or_default();
        let named = match below_it.strip_prefix(b"/") {
            Some(below_it) => below(relative, below_it),
            None => relative.to_vec(),
        };
        if step.at != At::Leave && excludes(patterns, &named, step.at == At::Enter) {
            walk.pass_by(&step);
            continue;
        }
        count += u64::from(remove_step(vault, &step).about(show(&step.path))?);
    }
    Ok(count)
}

/// Whether something went.
fn remove_step(vault: &Vault, step: &Step) -> Result<bool> {
    let removed = match step.at {
        At::Enter => return Ok(false),
        At::Again => return Err(step.again()),
        At::Leave => vault.remove_directory(&step.path),
        At::Node => vault.remove_file(&step.path),
    };
    match removed {
        // It holds what a pattern names.
        Err(Error::File(FileError::NotEmpty)) if step.at == At::Leave => Ok(false),
        // Somebody else was faster.
        Err(Error::File(FileError::NotFound)) => Ok(false),
        removed => Ok(removed.map(|()| true)?),
    }
}

/// Whether `now` is in the way of a node of kind `wanted`: it does not go by being replaced.
pub(super) fn is_in_the_way(now: NodeKind, wanted: NodeKind) -> bool {
    (now == NodeKind::Directory) != (wanted == NodeKind::Directory)
}

/// A local directory that is being removed.
struct Going {
    path: PathBuf,
    relative: Vec<u8>,
    entries: ReadDir,
}

/// Removes what is at the local `path`, as `remove` does.
pub(super) fn remove_local(path: &Path, relative: &[u8], patterns: &[Exclude]) -> Result<u64> {
    let mut levels = Vec::new();
    let mut count = 0;
    count += leave_or_enter(path, relative, patterns, &mut levels)?;
    while let Some(level) = levels.last_mut() {
        match level.entries.next() {
            Some(entry) => {
                let name = entry?.file_name();
                let (path, relative) = (
                    level.path.join(&name),
                    below(&level.relative, name.as_bytes()),
                );
                count += leave_or_enter(&path, &relative, patterns, &mut levels)?;
            }
            None => {
                match fs::remove_dir(&level.path) {
                    // It holds what a pattern names.
                    Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {}
                    removed => {
                        removed.about(show_path(&level.path))?;
                        count += 1;
                    }
                }
                levels.pop();
            }
        }
    }
    Ok(count)
}

fn leave_or_enter(
    path: &Path,
    relative: &[u8],
    patterns: &[Exclude],
    levels: &mut Vec<Going>,
) -> Result<u64> {
    let found = fs::symlink_metadata(path).about(show_path(path))?;
    if excludes(patterns, relative, found.is_dir()) {
        return Ok(0);
    }
    if !found.is_dir() {
        fs::remove_file(path).about(show_path(path))?;
        return Ok(1);
    }
    levels.push(Going {
        path: path.to_owned(),
        relative: relative.to_vec(),
        entries: fs::read_dir(path).about(show_path(path))?,
    });
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_tree_goes_but_for_what_a_pattern_names_and_what_holds_it() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().join("top");
        fs::create_dir_all(top.join("a/b")).unwrap();
        fs::create_dir_all(top.join("c")).unwrap();
        fs::write(place.path().join("outside"), "stays").unwrap();
        std::os::unix::fs::symlink("../outside", top.join("link")).unwrap();
        fs::write(top.join("a/b/keep.me"), "").unwrap();
        fs::write(top.join("a/goes"), "").unwrap();
        let patterns = [Exclude::parse("*.me").unwrap()];
        assert_eq!(remove_local(&top, b"top", &patterns).unwrap(), 3);
        assert!(top.join("a/b/keep.me").exists() && !top.join("a/goes").exists());
        assert!(!top.join("c").exists() && !top.join("link").is_symlink());
        assert_eq!(remove_local(&top, b"top", &[]).unwrap(), 4);
        assert!(!top.exists() && place.path().join("outside").exists());
    }
}
