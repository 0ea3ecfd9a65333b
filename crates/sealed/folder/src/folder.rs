//! An open folder, and the operations on the names below it.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, Stat, fstat, fsync, mkdirat, renameat,
    renameat_with, statat, unlinkat,
};
use rustix::io::Errno;

use crate::beneath;
use crate::error::{Error, Odd, Oddity, Result};

/// How deep a tree may be that `remove_tree` takes away: `segments`, the folders in it, their files.
const TREE_DEPTH_MAX: usize = 3;

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Its bytes are only looked at.
    Read,
    /// Its bytes are looked at and changed.
    Write,
}

impl Purpose {
    fn flags(self) -> OFlags {
        match self {
            Self::Read => OFlags::RDONLY,
            Self::Write => OFlags::RDWR,
        }
    }
}

/// A folder, held open: whatever becomes of its name, this stays the same folder.
///
/// Paths below it have plain names with `/` between them; anything else is an error of kind `InvalidInput`.
#[derive(Debug)]
pub struct Folder {
    held: OwnedFd,
    /// How the folder is called in errors: nothing, or its path below the vault folder and a slash.
    shown: String,
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.held.as_fd()
    }
}

impl Folder {
    /// Opens the folder that `path` leads to. The path is the user's: links on the way are followed.
    ///
    /// # Errors
    /// Of the system.
    pub fn open(path: &Path) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self {
            held: rustix::fs::open(path, flags, Mode::empty())?,
            shown: String::new(),
        })
    }

    /// Another handle of the same folder.
    ///
    /// # Errors
    /// Of the system, which has only so many.
    pub fn try_clone(&self) -> Result<Self> {
        Ok(Self {
            held: self.held.try_clone()?,
            shown: self.shown.clone(),
        })
    }

    /// Opens a folder below this one.
    ///
    /// # Errors
    /// `Odd` for anything but a real folder; `NotFound`.
    pub fn folder(&self, path: &str) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let held = beneath::open(self.as_fd(), path, flags)
            .map_err(|error| self.explain(path, FileType::Directory, error))?;
        Ok(Self {
            held,
            shown: format!("{}{path}/", self.shown),
        })
    }

    /// Makes a folder right below this one, for its user only; gives whether it was missing. Durable after `sync`.
    ///
    /// # Errors
    /// `Odd` if something else has that name.
    pub fn make_folder(&self, name: &str) -> Result<bool> {
        single(name)?;
        match mkdirat(&self.held, name, Mode::RWXU) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => self.check_folder(name).map(|_| false),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a regular file with one name; `flags` come on top.                                                 (2)
    ///
    /// # Errors
    /// `Odd` for anything else; `NotFound`.
    pub fn open_file_with(&self, path: &str, purpose: Purpose, flags: OFlags) -> Result<OwnedFd> {
        // Looked at first: to open some devices is to use them. Not below another folder: who looks there by its path follows
        // a link on the way, and segments shall open with two calls.
        if !path.contains('/')
            && let Some(found) = self.stat(path)?
        {
            self.check_stat(path, &found)?;
        }
        let file = beneath::open(self.as_fd(), path, purpose.flags() | flags)
            .map_err(|error| self.explain(path, FileType::RegularFile, error))?;
        self.check_stat(path, &fstat(&file)?)?;
        Ok(file)
    }

    /// The same, without further flags.
    ///
    /// # Errors
    /// As `open_file_with`.
    pub fn open_file(&self, path: &str, purpose: Purpose) -> Result<File> {
        Ok(self.open_file_with(path, purpose, OFlags::empty())?.into())
    }

    /// Makes a file of that name, which nothing may have; `flags` come on top.                                  (3)
    ///
    /// # Errors
    /// `AlreadyExists`; `Odd` if a folder on the way is none.
    pub fn create_with(&self, path: &str, flags: OFlags) -> Result<OwnedFd> {
        let all = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | flags;
        beneath::open(self.as_fd(), path, all).map_err(|error| match error {
            Errno::EXIST => error.into(),
            error => self.explain(path, FileType::RegularFile, error),
        })
    }

    /// Opens a file to be read and written, and makes it if it is missing.                                      (3)
    ///
    /// # Errors
    /// `Odd` for anything but a regular file with one name.
    pub fn open_or_create(&self, path: &str) -> Result<File> {
        // Who makes it meanwhile, or removes it, is met by the next round.
        for _ in 0..8 {
            match self.open_file(path, Purpose::Write) {
                Err(error) if error.is_missing() => {}
                opened => return opened,
            }
            match self.create_with(path, OFlags::empty()) {
                Err(Error::Io(error)) if error.kind() == io::ErrorKind::AlreadyExists => {}
                created => return Ok(created?.into()),
            }
        }
        Err(Errno::BUSY.into())
    }

    /// All bytes of a file; `None` if there is none.
    ///
    /// # Errors
    /// `TooLong` if it has more than `bytes_max`; `Odd`.
    pub fn read(&self, path: &str, bytes_max: u64) -> Result<Option<Vec<u8>>> {
        let file = match self.open_file(path, Purpose::Read) {
            Err(error) if error.is_missing() => return Ok(None),
            opened => opened?,
        };
        let mut bytes = Vec::new();
        file.take(bytes_max.saturating_add(1))
            .read_to_end(&mut bytes)?;
        match bytes.len() as u64 > bytes_max {
            true => Err(Error::TooLong { max: bytes_max }),
            false => Ok(Some(bytes)),
        }
    }

    /// What has that name right below this folder; `None` if nothing has. Links are not followed.
    ///
    /// # Errors
    /// Of the system.
    pub fn kind(&self, name: &str) -> Result<Option<FileType>> {
        let found = self.stat(name)?;
        Ok(found.map(|found| FileType::from_raw_mode(found.st_mode)))
    }

    pub(crate) fn stat(&self, name: &str) -> Result<Option<Stat>> {
        single(name)?;
        match statat(&self.held, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The length of the regular file of that name right below this folder; `None` if there is none.            (2)
    ///
    /// # Errors
    /// `Odd` for anything but a regular file with one name.
    pub fn check_file(&self, name: &str) -> Result<Option<u64>> {
        Ok(self.check_file_and_time(name)?.map(|(len, _)| len))
    }

    /// The same, with the second since 1970 in which it was last written.
    ///
    /// # Errors
    /// As `check_file`.
    pub fn check_file_and_time(&self, name: &str) -> Result<Option<(u64, u64)>> {
        let Some(found) = self.stat(name)? else {
            return Ok(None);
        };
        self.check_stat(name, &found)?;
        let len = u64::try_from(found.st_size).unwrap_or(0);
        Ok(Some((len, u64::try_from(found.st_mtime).unwrap_or(0))))
    }

    /// Whether there is a real folder of that name right below this one.
    ///
    /// # Errors
    /// `Odd` for anything else.
    pub fn check_folder(&self, name: &str) -> Result<bool> {
        match self.kind(name)? {
            None => Ok(false),
            Some(FileType::Directory) => Ok(true),
            Some(other) => Err(self.odd(name, Oddity::of(other))),
        }
    }

    /// Renames what is right below this folder, whatever it is, over a file that is there.
    ///
    /// # Errors
    /// `Odd` if a folder has the new name; `NotFound`.
    pub fn rename(&self, from: &str, to: &str) -> Result<()> {
        single(from)?;
        single(to)?;
        match renameat(&self.held, from, &self.held, to) {
            Err(Errno::ISDIR | Errno::NOTEMPTY | Errno::EXIST) => Err(self.odd(to, Oddity::Folder)),
            renamed => Ok(renamed?),
        }
    }

    /// Moves what is right below this folder, whatever it is, to a name below `other` that nothing has.
    ///
    /// # Errors
    /// `AlreadyExists`; `NotFound`.
    pub fn move_to(&self, from: &str, other: &Self, to: &str) -> Result<()> {
        single(from)?;
        single(to)?;
        match renameat_with(&self.held, from, &other.held, to, RenameFlags::NOREPLACE) {
            // A file system that cannot promise it: looked at instead.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => match other.kind(to)? {
                Some(_) => Err(Errno::EXIST.into()),
                None => Ok(renameat(&self.held, from, &other.held, to)?),
            },
            renamed => Ok(renamed?),
        }
    }

    /// Removes a name right below this folder that is no folder's; gives whether there was one. What a link leads to stays.
    ///
    /// # Errors
    /// `Odd` for a folder.
    pub fn remove(&self, name: &str) -> Result<bool> {
        single(name)?;
        match unlinkat(&self.held, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error @ (Errno::ISDIR | Errno::PERM)) => match self.kind(name)? {
                Some(FileType::Directory) => Err(self.odd(name, Oddity::Folder)),
                _ => Err(error.into()),
            },
            Err(error) => Err(error.into()),
        }
    }

    /// Removes an empty folder right below this one; gives whether there was one.
    ///
    /// # Errors
    /// `Odd` for anything else; of the system if it is not empty.
    pub fn remove_folder(&self, name: &str) -> Result<bool> {
        single(name)?;
        match unlinkat(&self.held, name, AtFlags::REMOVEDIR) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(self.explain(name, FileType::Directory, error)),
        }
    }

    /// Removes a folder right below this one with all that is in it, at most three levels deep. Links in it are removed,
    /// not followed. Gives whether there was one.
    ///
    /// # Errors
    /// `Odd` for anything but a folder.
    pub fn remove_tree(&self, name: &str) -> Result<bool> {
        self.remove_tree_of(name, TREE_DEPTH_MAX)
    }

    fn remove_tree_of(&self, name: &str, depth: usize) -> Result<bool> {
        let inside = match self.folder(name) {
            Err(error) if error.is_missing() => return Ok(false),
            inside => inside?,
        };
        for entry in inside.list()? {
            if entry.kind != FileType::Directory {
                inside.remove(&entry.name)?;
            } else if depth > 1 {
                inside.remove_tree_of(&entry.name, depth - 1)?;
            }
        }
        self.remove_folder(name)
    }

    /// Makes the names in this folder durable.
    ///
    /// # Errors
    /// Of the system.
    pub fn sync(&self) -> Result<()> {
        match fsync(&self.held) {
            // Some file systems cannot sync a folder; their renames are as durable as they get.
            Err(Errno::INVAL) => Ok(()),
            synced => Ok(synced?),
        }
    }

    /// A path that leads to this very folder for as long as the handle lives, whatever becomes of its names; for those who
    /// can only take a path. `None` where there is no `/proc`.
    #[must_use]
    pub fn reach(&self) -> Option<PathBuf> {
        let path = format!("/proc/self/fd/{}", self.held.as_raw_fd());
        let (here, there) = (fstat(&self.held).ok()?, rustix::fs::stat(&path).ok()?);
        let is_same = (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino);
        is_same.then(|| path.into())
    }

    // ---- what is odd

    pub(crate) fn odd(&self, path: &str, what: Oddity) -> Error {
        Error::Odd(Odd {
            path: format!("{}{path}", self.shown),
            what,
        })
    }

    /// (2)
    fn check_stat(&self, path: &str, found: &Stat) -> Result<()> {
        match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile if found.st_nlink <= 1 => Ok(()),
            FileType::RegularFile => Err(self.odd(path, Oddity::HardLink)),
            other => Err(self.odd(path, Oddity::of(other))),
        }
    }

    /// Names what is in the way of `path`, which should be `wanted`, if that is why the system said `error`.
    fn explain(&self, path: &str, wanted: FileType, error: Errno) -> Error {
        // Those of links, of what is no file or folder, of devices that may not be used here, and of direct I/O on what has none.
        let is_of_kind = matches!(
            error,
            Errno::LOOP | Errno::NOTDIR | Errno::ISDIR | Errno::NXIO | Errno::NODEV | Errno::XDEV
        ) || matches!(error, Errno::ACCESS | Errno::PERM | Errno::INVAL);
        if !is_of_kind || beneath::check(path).is_err() {
            return error.into();
        }
        let ends = path.match_indices('/').map(|(end, _)| end);
        for end in ends.chain([path.len()]) {
            let expected = match end == path.len() {
                true => wanted,
                false => FileType::Directory,
            };
            let Ok(found) = statat(&self.held, &path[..end], AtFlags::SYMLINK_NOFOLLOW) else {
                break;
            };
            let found = FileType::from_raw_mode(found.st_mode);
            if found != expected {
                return self.odd(&path[..end], Oddity::of(found));
            }
        }
        error.into()
    }
}

/// One plain name: what changes names does so right below a folder that is held open.
fn single(name: &str) -> Result<()> {
    beneath::check(name)?;
    match name.contains('/') {
        true => Err(Errno::INVAL.into()),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};
    use std::os::unix::net::UnixListener;

    use rustix::fs::{CWD, mknodat};

    use super::*;

    /// A folder `v`, and beside it `outside` with a file that nobody may read or write.
    struct Place {
        directory: tempfile::TempDir,
        folder: Folder,
    }

    impl Place {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path();
            fs::create_dir(path.join("v")).unwrap();
            fs::create_dir(path.join("outside")).unwrap();
            fs::write(path.join("outside/file"), b"canary").unwrap();
            let folder = Folder::open(&path.join("v")).unwrap();
            Self { directory, folder }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.directory.path().join(name)
        }

        /// Puts everything odd under names of its own in `at`; gives the names, with what each is.
        fn hostile(&self, at: &str) -> Vec<(String, Oddity)> {
            let outside = self.path("outside/file");
            let here = |name: &str| self.path(at).join(name);
            symlink(&outside, here("link")).unwrap();
            symlink(self.path("outside/none"), here("dangling")).unwrap();
            symlink("loop", here("loop")).unwrap();
            fs::hard_link(&outside, here("hard")).unwrap();
            let mode = Mode::from_raw_mode(0o600);
            mknodat(CWD, here("pipe"), FileType::Fifo, mode, 0).unwrap();
            drop(UnixListener::bind(here("socket")).unwrap());
            fs::create_dir(here("folder")).unwrap();
            let mut all = vec![
                ("link", Oddity::Link),
                ("dangling", Oddity::Link),
                ("loop", Oddity::Link),
                ("hard", Oddity::HardLink),
                ("pipe", Oddity::Pipe),
                ("socket", Oddity::Socket),
                ("folder", Oddity::Folder),
            ];
            // Only the superuser can make one, and not everywhere.
            let null = rustix::fs::makedev(1, 3);
            if mknodat(CWD, here("device"), FileType::CharacterDevice, mode, null).is_ok() {
                all.push(("device", Oddity::Device));
            }
            let name = |(name, what): (&str, Oddity)| (name.to_owned(), what);
            all.into_iter().map(name).collect()
        }

        fn canary(&self) -> (Vec<u8>, i64, Vec<String>) {
            let file = self.path("outside/file");
            let mut names: Vec<String> = fs::read_dir(self.path("outside"))
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            (
                fs::read(&file).unwrap(),
                file.metadata().unwrap().mtime_nsec(),
                names,
            )
        }
    }

    fn odd(error: Error) -> Odd {
        match error {
            Error::Odd(odd) => odd,
            other => panic!("not odd: {other:?}"),
        }
    }

    /// Goal: (2), right below the folder and deeper. A pipe that were waited on would never let this test end.
    #[test]
    fn what_is_no_regular_file_with_one_name_is_named_and_not_opened() {
        let place = Place::new();
        fs::create_dir(place.path("v/ab")).unwrap();
        let before = place.canary();
        for (at, below) in [("v", ""), ("v/ab", "ab/")] {
            let hostile = place.hostile(at);
            assert!(hostile.len() >= 7);
            for (name, what) in hostile {
                let path = format!("{below}{name}");
                let expected = Odd {
                    path: path.clone(),
                    what,
                };
                for purpose in [Purpose::Read, Purpose::Write] {
                    for flags in [OFlags::empty(), OFlags::DIRECT] {
                        let opened = place.folder.open_file_with(&path, purpose, flags);
                        assert_eq!(odd(opened.unwrap_err()), expected, "{purpose:?} {flags:?}");
                    }
                }
                assert_eq!(odd(place.folder.read(&path, 100).unwrap_err()), expected);
                assert_eq!(
                    odd(place.folder.open_or_create(&path).unwrap_err()),
                    expected
                );
                if below.is_empty() {
                    assert_eq!(odd(place.folder.check_file(&path).unwrap_err()), expected);
                }
            }
        }
        assert_eq!(place.canary(), before);
    }

    #[test]
    fn a_folder_that_is_none_is_named_and_nothing_below_it_is_reached() {
        let place = Place::new();
        let before = place.canary();
        symlink(place.path("outside"), place.path("v/ab")).unwrap();
        fs::write(place.path("v/cd"), b"").unwrap();
        for (name, what) in [("ab", Oddity::Link), ("cd", Oddity::File)] {
            let expected = Odd {
                path: name.to_owned(),
                what,
            };
            assert_eq!(odd(place.folder.folder(name).unwrap_err()), expected);
            assert_eq!(odd(place.folder.make_folder(name).unwrap_err()), expected);
            assert_eq!(odd(place.folder.check_folder(name).unwrap_err()), expected);
            assert_eq!(odd(place.folder.remove_tree(name).unwrap_err()), expected);
            let file = format!("{name}/file");
            let opened = place.folder.open_file(&file, Purpose::Write);
            assert_eq!(odd(opened.unwrap_err()), expected);
            let made = place
                .folder
                .create_with(&format!("{name}/new"), OFlags::empty());
            assert_eq!(odd(made.unwrap_err()), expected);
        }
        assert_eq!(place.canary(), before);
    }

    /// What is odd deeper down is told with its whole path below the first folder.
    #[test]
    fn a_path_is_told_from_the_vault_folder_on() {
        let place = Place::new();
        fs::create_dir_all(place.path("v/segments/ab")).unwrap();
        symlink(place.path("outside/file"), place.path("v/segments/ab/x")).unwrap();
        let segments = place.folder.folder("segments").unwrap();
        let told = odd(segments.open_file("ab/x", Purpose::Read).unwrap_err());
        assert_eq!(told.to_string(), "segments/ab/x is a symbolic link");
        let error = io::Error::from(Error::Odd(told.clone()));
        assert_eq!(crate::odd_of(&error), Some(&told));
        let escape = Odd {
            path: "a\u{1b}[2J".to_owned(),
            what: Oddity::Pipe,
        };
        assert_eq!(escape.to_string(), "a\\u{1b}[2J is a pipe");
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        let place = Place::new();
        for path in [
            "",
            ".",
            "..",
            "/",
            "../outside/file",
            "a//b",
            "a/../b",
            "/etc/hostname",
            "a\0b",
            "a/",
        ] {
            let refused = |error: Error| match error {
                Error::Io(error) => error.kind() == io::ErrorKind::InvalidInput,
                _ => false,
            };
            assert!(
                refused(place.folder.open_file(path, Purpose::Read).unwrap_err()),
                "{path}"
            );
            assert!(
                refused(place.folder.create_with(path, OFlags::empty()).unwrap_err()),
                "{path}"
            );
            assert!(refused(place.folder.folder(path).unwrap_err()), "{path}");
            assert!(refused(place.folder.remove(path).unwrap_err()), "{path}");
            assert!(
                refused(place.folder.rename(path, "b").unwrap_err()),
                "{path}"
            );
            assert!(
                refused(place.folder.replace(path, b"").unwrap_err()),
                "{path}"
            );
        }
        assert_eq!(place.folder.list().unwrap(), []);
    }

    /// Goal: invariant (1) of `beneath`. Method: both ways open everything there is.
    #[test]
    fn one_call_and_single_steps_open_and_refuse_the_same() {
        let place = Place::new();
        fs::create_dir(place.path("v/ab")).unwrap();
        let mut paths = vec!["none".to_owned(), "ab/none".to_owned()];
        for (at, below) in [("v", ""), ("v/ab", "ab/")] {
            fs::write(place.path(at).join("file"), b"here").unwrap();
            paths.push(format!("{below}file"));
            let hostile = place.hostile(at).into_iter();
            paths.extend(hostile.map(|(name, _)| format!("{below}{name}")));
        }
        symlink("ab", place.path("v/inward")).unwrap();
        symlink(place.path("outside"), place.path("v/outward")).unwrap();
        paths.extend(["inward/file", "outward/file", "file/file"].map(str::to_owned));
        let mut opened = 0;
        for path in &paths {
            for flags in [
                OFlags::RDONLY,
                OFlags::RDWR,
                OFlags::RDONLY | OFlags::DIRECTORY,
            ] {
                let one = beneath::at_once(place.folder.as_fd(), path, flags);
                if matches!(one, Err(Errno::NOSYS | Errno::PERM)) {
                    // A kernel or sandbox without the call has the other way only.
                    continue;
                }
                let other = beneath::by_steps(place.folder.as_fd(), path, flags);
                assert_eq!(one.is_ok(), other.is_ok(), "{path}: {one:?} {other:?}");
                opened += usize::from(one.is_ok());
                if path.starts_with("inward") || path.starts_with("outward") {
                    assert!(other.is_err(), "{path}");
                }
            }
        }
        assert!(opened >= 4);
    }

    #[test]
    fn renaming_and_removing_touch_names_only_and_never_a_folder() {
        let place = Place::new();
        let before = place.canary();
        for (name, what) in place.hostile("v") {
            if name == "hard" {
                // Its canary has two names until it is replaced.
                assert_eq!(what, Oddity::HardLink);
            }
            let replaced = place.folder.replace(&name, b"new");
            if what == Oddity::Folder {
                assert_eq!(
                    odd(replaced.unwrap_err()),
                    Odd {
                        path: name.clone(),
                        what
                    }
                );
                assert!(place.folder.remove(&name).is_err());
            } else {
                replaced.unwrap();
                assert_eq!(place.folder.read(&name, 3).unwrap().unwrap(), b"new");
                assert!(place.folder.remove(&name).unwrap());
            }
            assert_eq!(place.canary(), before, "{name}");
        }
        symlink(place.path("outside/file"), place.path("v/link")).unwrap();
        let before = place.canary();
        fs::create_dir(place.path("v/tree")).unwrap();
        symlink(place.path("outside"), place.path("v/tree/out")).unwrap();
        fs::create_dir(place.path("v/tree/ab")).unwrap();
        fs::hard_link(place.path("outside/file"), place.path("v/tree/ab/hard")).unwrap();
        assert!(place.folder.remove_tree("tree").unwrap());
        assert!(!place.folder.remove_tree("tree").unwrap());
        assert_eq!(place.canary(), before);
        assert!(place.folder.make_folder("other").unwrap());
        let other = place.folder.folder("other").unwrap();
        place.folder.move_to("link", &other, "moved").unwrap();
        assert_eq!(other.kind("moved").unwrap(), Some(FileType::Symlink));
        place.folder.replace("link", b"").unwrap();
        let taken = place.folder.move_to("link", &other, "moved").unwrap_err();
        assert!(matches!(taken, Error::Io(error) if error.kind() == io::ErrorKind::AlreadyExists));
        assert_eq!(place.canary(), before);
    }

    #[test]
    fn a_file_removed_while_open_is_still_given_and_a_read_is_bounded() {
        let place = Place::new();
        place.folder.replace("file", b"12345").unwrap();
        let file = place.folder.open_file("file", Purpose::Read).unwrap();
        assert!(place.folder.remove("file").unwrap());
        assert_eq!(file.metadata().unwrap().nlink(), 0);
        assert!(!place.folder.remove("file").unwrap());
        assert!(place.folder.read("file", 5).unwrap().is_none());
        let file = place.folder.open_or_create("file").unwrap();
        file.set_len(1 << 40).unwrap();
        let error = place.folder.read("file", 5).unwrap_err();
        assert!(matches!(error, Error::TooLong { max: 5 }));
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_handle_stays_with_its_folder_whatever_takes_its_name() {
        let place = Place::new();
        place.folder.replace("file", b"here").unwrap();
        let reach = place.folder.reach().unwrap();
        fs::rename(place.path("v"), place.path("w")).unwrap();
        symlink(place.path("outside"), place.path("v")).unwrap();
        assert_eq!(place.folder.read("file", 9).unwrap().unwrap(), b"here");
        assert_eq!(fs::read(reach.join("file")).unwrap(), b"here");
    }
}
