//! `--delete`: removes from the copy of a directory everything that its source does not have.
//!
//! Takes   a directory, and the names that its source has
//! Gives   the number of removed nodes
//! Never   removes a node that a pattern excludes, the folder of the vault itself, or a directory with such a node in it. Never follows
//!         a link, even if somebody puts a link in the place of a directory meanwhile

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, openat, stat, statat, unlinkat};
use rustix::io::Errno;
use strongroom::filesystem::{Error as FileError, NodeKind};
use strongroom::{Error, Vault};

use super::placing::directory_of;
use crate::arguments::location::join;
use crate::arguments::pattern::{Exclude, excludes};
use crate::commands::walk::{At, Step, Walk};
use crate::terminal::failure::{About, Result, tell};
use crate::terminal::interrupt;
use crate::terminal::printable::{show, show_path};

/// The path of `name` in the directory `path`, both relative.
pub(super) fn below(path: &[u8], name: &[u8]) -> Vec<u8> {
    match path {
        b"" => name.to_vec(),
        path => join(path, name),
    }
}

/// The message of the snapshot that is taken before something at `path` is removed; no longer than a message may be.
pub(super) fn precaution(path: &[u8]) -> String {
    let place = show(directory_of(path));
    let place: String = place.chars().take(1000).collect();
    format!("before put --delete into {place}")
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

/// What is not removed.
pub(super) struct Spared<'a> {
    patterns: &'a [Exclude],
    /// The folder of the vault: a copy out of it must not remove it.
    vault: Option<Stat>,
}

impl<'a> Spared<'a> {
    pub(super) fn of(vault: &Path, patterns: &'a [Exclude]) -> Self {
        let vault = stat(vault).ok();
        Self { patterns, vault }
    }

    fn is_vault(&self, found: &Stat) -> bool {
        let vault = self.vault.as_ref();
        vault.is_some_and(|vault| (vault.st_dev, vault.st_ino) == (found.st_dev, found.st_ino))
    }
}

/// The place of a local node that is to be removed.
struct Place {
    /// In the directory that holds it.
    name: OsString,
    /// For messages: it is not used again, because it may contain links by now.
    path: PathBuf,
    /// As patterns name it.
    relative: Vec<u8>,
}

impl Place {
    fn child(&self, name: &OsStr) -> Self {
        Self {
            name: name.to_owned(),
            path: self.path.join(name),
            relative: below(&self.relative, name.as_bytes()),
        }
    }
}

/// A local directory that is being removed.
struct Going {
    place: Place,
    entries: Dir,
}

/// Removes from the local directory `path` all but the names `all`, as `remove` does. Adds to `removed` how many nodes went.
pub(super) fn remove_local_others(
    path: &Path,
    relative: &[u8],
    all: &HashSet<Vec<u8>>,
    spared: &Spared<'_>,
    removed: &mut u64,
) -> Result<()> {
    let place = Place {
        name: path.as_os_str().to_owned(),
        path: path.to_owned(),
        relative: relative.to_vec(),
    };
    let mut entries = open(CWD, &place)?;
    while let Some(name) = next_name(&mut entries, &place)? {
        if !all.contains(name.as_bytes()) {
            interrupt::check()?;
            remove_in(fd(&entries)?, place.child(&name), spared, removed)?;
        }
    }
    Ok(())
}

/// Removes what is at the local `path`, as `remove` does. Adds to `removed` how many nodes went.
pub(super) fn remove_local(
    path: &Path,
    relative: &[u8],
    spared: &Spared<'_>,
    removed: &mut u64,
) -> Result<()> {
    let place = Place {
        name: path.as_os_str().to_owned(),
        path: path.to_owned(),
        relative: relative.to_vec(),
    };
    remove_in(CWD, place, spared, removed)
}

/// Every directory is opened in the one that holds it, and emptied by that: a link that takes its name meanwhile leads nowhere.
fn remove_in(
    top: BorrowedFd<'_>,
    place: Place,
    spared: &Spared<'_>,
    removed: &mut u64,
) -> Result<()> {
    let mut levels: Vec<Going> = Vec::new();
    levels.extend(leave_or_enter(top, place, spared, removed)?);
    while let Some(level) = levels.last_mut() {
        if let Some(name) = next_name(&mut level.entries, &level.place)? {
            let (directory, place) = (fd(&level.entries)?, level.place.child(&name));
            let entered = leave_or_enter(directory, place, spared, removed)?;
            levels.extend(entered);
            continue;
        }
        let Some(Going { place, .. }) = levels.pop() else {
            break;
        };
        let parent = match levels.last() {
            Some(level) => fd(&level.entries)?,
            None => top,
        };
        match unlinkat(parent, &place.name, AtFlags::REMOVEDIR) {
            // It holds what a pattern names.
            Err(Errno::NOTEMPTY) => {}
            gone => {
                gone.map_err(io::Error::from)
                    .about(show_path(&place.path))?;
                *removed += 1;
            }
        }
    }
    Ok(())
}

fn leave_or_enter(
    parent: BorrowedFd<'_>,
    place: Place,
    spared: &Spared<'_>,
    removed: &mut u64,
) -> Result<Option<Going>> {
    let shown = || show_path(&place.path);
    let found = statat(parent, &place.name, AtFlags::SYMLINK_NOFOLLOW);
    let found = found.map_err(io::Error::from).about(shown())?;
    let is_directory = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
    if excludes(spared.patterns, &place.relative, is_directory) {
        return Ok(None);
    }
    if !is_directory {
        let gone = unlinkat(parent, &place.name, AtFlags::empty());
        gone.map_err(io::Error::from).about(shown())?;
        *removed += 1;
        return Ok(None);
    }
    if spared.is_vault(&found) {
        let shown = shown();
        tell(&format!(
            "strongroom: {shown}: not deleted: it is the folder of the vault"
        ));
        return Ok(None);
    }
    let entries = open(parent, &place)?;
    Ok(Some(Going { place, entries }))
}

/// Opens a directory, and nothing that a link in its place leads to.
fn open(parent: BorrowedFd<'_>, place: &Place) -> Result<Dir> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = openat(parent, &place.name, flags, Mode::empty()).and_then(Dir::new);
    opened
        .map_err(io::Error::from)
        .about(show_path(&place.path))
}

fn fd(directory: &Dir) -> Result<BorrowedFd<'_>> {
    Ok(directory.fd().map_err(io::Error::from)?)
}

/// The next name in a directory, but for `.` and `..`.
fn next_name(entries: &mut Dir, place: &Place) -> Result<Option<OsString>> {
    loop {
        let Some(entry) = entries.read() else {
            return Ok(None);
        };
        let entry = entry
            .map_err(io::Error::from)
            .about(show_path(&place.path))?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            return Ok(Some(OsStr::from_bytes(name).to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Failed before: the directory was listed by its path, so the directory that the link led to was emptied.
    #[test]
    fn a_link_in_the_place_of_a_directory_is_not_emptied() {
        let place = tempfile::tempdir().unwrap();
        let (outside, link) = (place.path().join("outside"), place.path().join("link"));
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("file"), "stays").unwrap();
        std::os::unix::fs::symlink(&outside, &link).unwrap();
        let mut removed = 0;
        let none = Spared::of(&place.path().join("v"), &[]);
        let emptied = remove_local_others(&link, b"", &HashSet::new(), &none, &mut removed);
        assert!(emptied.is_err() && removed == 0);
        assert!(outside.join("file").exists());
        // A link takes the name of a directory that was entered already: only the files of that directory go.
        fs::create_dir_all(place.path().join("top/sub")).unwrap();
        fs::write(place.path().join("top/sub/goes"), "").unwrap();
        let sub = Place {
            name: "sub".into(),
            path: place.path().join("top/sub"),
            relative: b"sub".to_vec(),
        };
        let top = rustix::fs::open(place.path().join("top"), OFlags::PATH, Mode::empty()).unwrap();
        let parent = std::os::fd::AsFd::as_fd(&top);
        let going = leave_or_enter(parent, sub, &none, &mut removed).unwrap();
        let mut going = going.unwrap();
        fs::rename(place.path().join("top/sub"), place.path().join("moved")).unwrap();
        std::os::unix::fs::symlink(&outside, place.path().join("top/sub")).unwrap();
        let name = next_name(&mut going.entries, &going.place)
            .unwrap()
            .unwrap();
        let (directory, file) = (fd(&going.entries).unwrap(), going.place.child(&name));
        remove_in(directory, file, &none, &mut removed).unwrap();
        assert_eq!((name.as_os_str(), removed), (OsStr::new("goes"), 1));
        assert!(outside.join("file").exists() && !place.path().join("moved/goes").exists());
    }

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
        let remove = |patterns: &[Exclude]| {
            let mut removed = 0;
            let spared = Spared::of(&place.path().join("v"), patterns);
            remove_local(&top, b"top", &spared, &mut removed).unwrap();
            removed
        };
        assert_eq!(remove(&patterns), 3);
        assert!(top.join("a/b/keep.me").exists() && !top.join("a/goes").exists());
        assert!(!top.join("c").exists() && !top.join("link").is_symlink());
        assert_eq!(remove(&[]), 4);
        assert!(!top.exists() && place.path().join("outside").exists());
    }
}
