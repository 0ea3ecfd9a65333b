//! Gives a node in a vault its name only when it is complete, and replaces the node that had the name.
//!
//! Takes   a path; and either a function that makes or names the node, or the place where the node already is
//! Gives   the name; an existing node is replaced by one rename
//! Never   leaves a temporary name, unless it is killed or the removal fails

use strongroom::filesystem::{Error as FileError, InodeId, NodeKind, RenameMode};
use strongroom::{Error, Links, Vault};

use crate::arguments::location::{Location, join};
use crate::terminal::exit_code::ExitCode;
use crate::terminal::failure::{About, Failure, Result};
use crate::terminal::printable::show;

/// Whether `place` means a directory to copy into.
pub(crate) fn is_directory(vault: &Vault, place: &Location) -> Result<bool> {
    match vault.attributes(&place.path, Links::Follow) {
        Ok(attributes) => Ok(attributes.kind == NodeKind::Directory),
        Err(Error::File(FileError::NotFound)) if !place.path.ends_with(b"/") => Ok(false),
        Err(error) => Err(error).about(place.shown()),
    }
}

/// Says which directory is missing for a new name at `place`.
pub(crate) fn has_parent(vault: &Vault, place: &Location) -> Result<()> {
    let parent = directory_of(&place.path);
    let missing = |code| {
        let message = "no such directory in the vault; make it with `strongroom mkdir -p`";
        Err(Failure::new(code, message)).about(show(parent))
    };
    match vault.attributes(parent, Links::Follow) {
        Ok(found) if found.kind == NodeKind::Directory => Ok(()),
        Ok(_) => Err(Error::File(FileError::NotADirectory)).about(show(parent)),
        Err(Error::File(FileError::NotFound)) => missing(ExitCode::NotFound),
        Err(error) => Err(error).about(show(parent)),
    }
}

/// Gives something its name, in place of what has it now if `mode` says so.
pub(crate) fn place(
    vault: &Vault,
    path: &[u8],
    mode: RenameMode,
    name: impl Fn(&[u8]) -> strongroom::Result<()>,
) -> Result<()> {
    match name(path) {
        Err(Error::File(FileError::Exists)) if mode == RenameMode::Replace => {}
        named => return Ok(named?),
    }
    place_dressed(vault, path, mode, |beside| Ok(name(beside)?))
}

/// The same for what needs several steps: nobody sees it under its name before the last one.
pub(crate) fn place_dressed(
    vault: &Vault,
    path: &[u8],
    mode: RenameMode,
    make: impl FnOnce(&[u8]) -> Result<()>,
) -> Result<()> {
    let beside = beside(path);
    let placed = make(&beside).and_then(|()| Ok(vault.rename(&beside, path, mode)?));
    if placed.is_err() {
        // The reason is what counts; the name beside it is of no use any more, if it was made at all.
        let _ = vault.remove_file(&beside);
    }
    placed
}

/// Gives the node `inode`, which was copied to `first` before, the further name `path`. False if it is not there any more.
pub(crate) fn place_link(
    vault: &Vault,
    (first, inode): &(Vec<u8>, InodeId),
    path: &[u8],
    mode: RenameMode,
) -> Result<bool> {
    let there = vault.attributes(path, Links::Stay);
    if there.is_ok_and(|there| there.inode == *inode) {
        // A rename would leave both names.
        return Ok(true);
    }
    let mut same = false;
    let placed = place_dressed(vault, path, mode, |beside| {
        same = vault.link(first, beside)?.inode == *inode;
        if same {
            Ok(())
        } else {
            Err(Error::File(FileError::Stale).into())
        }
    });
    // Moved, removed or replaced by somebody else, or it has too many names: then this name gets a copy.
    if same {
        placed.map(|()| true)
    } else {
        Ok(false)
    }
}

/// The directory that holds the last name of `path`.
pub(crate) fn directory_of(path: &[u8]) -> &[u8] {
    let end = path
        .iter()
        .rposition(|byte| *byte != b'/')
        .map_or(0, |last| last + 1);
    match path[..end].iter().rposition(|byte| *byte == b'/') {
        None | Some(0) => b"/",
        Some(slash) => &path[..slash],
    }
}

/// A name in the same directory that nobody else uses, not even a process of the same number elsewhere; never long.
pub(crate) fn beside(path: &[u8]) -> Vec<u8> {
    use std::hash::{BuildHasher, RandomState};
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};
    static PROCESS: OnceLock<u64> = OnceLock::new();
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let process = PROCESS.get_or_init(|| RandomState::new().hash_one(std::process::id()));
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    join(
        directory_of(path),
        format!(".strongroom-{process:016x}-{number}").as_bytes(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_of_a_path_is_what_stands_before_its_last_name() {
        for (path, directory) in [
            ("/a", "/"),
            ("/a/b", "/a"),
            ("/a/b/", "/a"),
            ("/", "/"),
            ("/a//b", "/a/"),
        ] {
            assert_eq!(
                directory_of(path.as_bytes()),
                directory.as_bytes(),
                "{path}"
            );
        }
    }

    #[test]
    fn two_names_beside_a_path_differ_and_stay_in_its_directory() {
        let (one, two) = (beside(b"/a/b"), beside(b"/a/b"));
        assert_ne!(one, two);
        assert!(one.starts_with(b"/a/.strongroom-"));
    }
}
