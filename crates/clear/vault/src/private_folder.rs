//! Finds a folder that only one user can enter, for sockets and for records of mounts.
//!
//! Takes   a user, and that user's session folder for such files
//! Gives   the folders in which such files of that user may be, and one to put a new file into
//! Never   uses a folder that another user made or that others may enter, or gives up because another user took the name first
//!
//! Invariants
//!  (1) Each folder given is a real directory of that user with no access for others.
//!  (2) Other processes of the user find what one process puts into its folder: they look through all such folders.
//!
//! Without a session folder only `/tmp` is left, where any user may take a name first. Then a folder whose name ends in random
//! characters is made, and found by listing `/tmp`. Folders of other users with such names are skipped: nobody can make a folder
//! that belongs to somebody else.

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::inotify;
use strongroom_crypto::{Random, SystemRandom};

/// Random bytes at the end of a name.
const RANDOM_BYTES: usize = 8;

/// The places for what one user's processes share while they run.
#[derive(Clone, Debug)]
pub struct PrivateFolders {
    uid: u32,
    /// Names that are always the same, the preferred one first.
    fixed: Vec<PathBuf>,
    /// Where everybody may make folders.
    shared: PathBuf,
}

impl PrivateFolders {
    /// Those of the user with that number.
    #[must_use]
    pub fn of(uid: u32) -> Self {
        let session = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let mut bases: Vec<_> = session
            .into_iter()
            .filter(|path| path.is_absolute())
            .collect();
        bases.push(PathBuf::from(format!("/run/user/{uid}")));
        Self::below(uid, &bases, Path::new("/tmp"))
    }

    /// Those of the user as whom this process runs.
    #[must_use]
    pub fn own() -> Self {
        Self::of(rustix::process::geteuid().as_raw())
    }

    fn below(uid: u32, bases: &[PathBuf], shared: &Path) -> Self {
        let mut fixed = Vec::new();
        for base in bases {
            let folder = base.join("strongroom");
            if !fixed.contains(&folder) {
                fixed.push(folder);
            }
        }
        fixed.push(shared.join(format!("strongroom-{uid}")));
        Self {
            uid,
            fixed,
            shared: shared.to_owned(),
        }
    }

    /// Every folder in which something of the user may lie.                                                   (2)
    #[must_use]
    pub fn existing(&self) -> Vec<PathBuf> {
        let mut all = self.candidates();
        all.retain(|folder| self.is_private(folder).is_ok());
        all
    }

    /// Those that may be there or be made, the preferred one first; nobody looked whether they are private.
    pub(crate) fn candidates(&self) -> Vec<PathBuf> {
        let fixed = self.fixed.iter().cloned();
        fixed.chain(self.random_ones()).collect()
    }

    /// Runs `put` with one private folder after another, made if it is missing, until it succeeds.
    ///
    /// # Errors
    /// Why the last one could not be used.
    pub fn first<T>(
        &self,
        mut put: impl FnMut(&Path) -> Result<T, &'static str>,
    ) -> Result<T, &'static str> {
        let mut tried = |folder: &Path| self.make(folder).and_then(|()| put(folder));
        for folder in &self.fixed {
            if let Ok(done) = tried(folder) {
                return Ok(done);
            }
        }
        // One that is there is used again, so that there is seldom more than one.
        let mut known = self.random_ones();
        known.retain(|folder| self.is_private(folder).is_ok());
        known.sort();
        for folder in &known {
            if let Ok(done) = tried(folder) {
                return Ok(done);
            }
        }
        tried(&self.new_name()?)
    }

    /// What lies in the shared place under a name that such a folder may have.
    fn random_ones(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(&self.shared) else {
            return Vec::new();
        };
        let start = self.name_start();
        let is_one = |name: &str| {
            let end = name.strip_prefix(&start);
            end.is_some_and(|end| {
                end.len() == 2 * RANDOM_BYTES && end.bytes().all(|byte| byte.is_ascii_hexdigit())
            })
        };
        let names = entries.filter_map(|entry| Some(entry.ok()?.file_name()));
        names
            .filter(|name| name.to_str().is_some_and(is_one))
            .map(|name| self.shared.join(name))
            .collect()
    }

    fn name_start(&self) -> String {
        format!("strongroom-{}-", self.uid)
    }

    fn new_name(&self) -> Result<PathBuf, &'static str> {
        let mut end = [0; RANDOM_BYTES];
        SystemRandom
            .fill(&mut end)
            .map_err(|_| "the system provides no random bytes")?;
        let name = self.name_start() + &strongroom_format::hex::encode(&end);
        Ok(self.shared.join(name))
    }

    fn make(&self, folder: &Path) -> Result<(), &'static str> {
        match DirBuilder::new().mode(0o700).create(folder) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err("it cannot be made"),
            _ => self.is_private(folder),
        }
    }

    /// Whether `folder` is private to the user.                                                              (1)
    fn is_private(&self, folder: &Path) -> Result<(), &'static str> {
        let found = fs::symlink_metadata(folder).map_err(|_| "it cannot be made")?;
        if !found.is_dir() {
            return Err("it is not a directory");
        }
        if found.uid() != self.uid {
            return Err("it belongs to another user");
        }
        if found.mode() & 0o077 != 0 {
            return Err("other users can enter it");
        }
        Ok(())
    }
}

/// A file in such a folder that must stay as long as its maker runs. The folder may go: with the session of its user, or to
/// the code that tidies up.
#[derive(Debug)]
pub struct WatchedName {
    path: PathBuf,
    /// Device and inode of the file.
    identity: Option<(u64, u64)>,
    /// Readable once a name in the folder went, or the folder itself; `None` where the system tells nobody.
    watch: Option<OwnedFd>,
}

impl WatchedName {
    /// Of the file that was just made at `path`.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        let watch = path.parent().and_then(|folder| watch(folder).ok());
        Self {
            path: path.to_owned(),
            identity: identity(path),
            watch,
        }
    }

    /// What gets readable when it is time to look whether the file is gone.
    #[must_use]
    pub fn watch(&self) -> Option<BorrowedFd<'_>> {
        self.watch.as_ref().map(AsFd::as_fd)
    }

    /// Where the file is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file is gone, or another one has its name. Takes in what made the watch readable.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        let mut events = [0; 4096];
        if let Some(watch) = &self.watch {
            while rustix::io::read(watch, &mut events).is_ok_and(|count| count > 0) {}
        }
        self.identity.is_none() || identity(&self.path) != self.identity
    }
}

fn watch(folder: &Path) -> rustix::io::Result<OwnedFd> {
    let watch = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
    let went = inotify::WatchFlags::DELETE
        | inotify::WatchFlags::DELETE_SELF
        | inotify::WatchFlags::MOVED_FROM
        | inotify::WatchFlags::MOVE_SELF;
    inotify::add_watch(&watch, folder, went)?;
    Ok(watch)
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let found = fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_goes_or_is_replaced_is_noticed_and_a_neighbour_is_not() {
        let place = tempfile::tempdir().unwrap();
        let (path, other) = (place.path().join("one"), place.path().join("other"));
        for path in [&path, &other] {
            fs::write(path, b"").unwrap();
        }
        let kept = WatchedName::of(&path);
        assert!(!kept.is_gone());
        fs::remove_file(&other).unwrap();
        assert!(!kept.is_gone());
        fs::write(&other, b"").unwrap();
        fs::rename(&other, &path).unwrap();
        assert!(kept.is_gone());
        let kept = WatchedName::of(&path);
        fs::remove_dir_all(place.path()).unwrap();
        assert!(kept.is_gone());
    }

    fn own_uid() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    /// Where no session gave a folder.
    fn without_session(shared: &Path) -> PrivateFolders {
        PrivateFolders::below(own_uid(), &[PathBuf::from("/nonexistent")], shared)
    }

    fn chosen(folders: &PrivateFolders) -> PathBuf {
        folders.first(|folder| Ok(folder.to_owned())).unwrap()
    }

    #[test]
    fn only_a_directory_of_the_user_that_others_cannot_enter_is_private() {
        let place = tempfile::tempdir().unwrap();
        let folders = without_session(place.path());
        let part = |name| place.path().join(name);
        DirBuilder::new().mode(0o755).create(part("open")).unwrap();
        fs::write(part("file"), b"").unwrap();
        DirBuilder::new().mode(0o700).create(part("own")).unwrap();
        std::os::unix::fs::symlink(part("own"), part("link")).unwrap();
        for (name, found) in [
            ("open", Err("other users can enter it")),
            ("file", Err("it is not a directory")),
            ("link", Err("it is not a directory")),
            ("own", Ok(())),
            ("new", Ok(())),
        ] {
            assert_eq!(folders.make(&part(name)), found, "{name}");
        }
        let other = PrivateFolders {
            uid: own_uid() + 1,
            ..folders
        };
        assert_eq!(other.make(&part("own")), Err("it belongs to another user"));
    }

    /// Goal: who takes the name in /tmp first keeps nobody from his vaults, and the two sides still meet. Method: each kind of
    /// thing that can be made there, and names like the random ones. Failed before: there was no further folder.
    /// SECURITY.md, claim 20.
    #[test]
    fn a_name_that_another_took_first_is_passed_over_and_both_sides_meet() {
        let place = tempfile::tempdir().unwrap();
        let folders = without_session(place.path());
        let taken = place.path().join(format!("strongroom-{}", own_uid()));
        let likeness = place
            .path()
            .join(format!("strongroom-{}-0000000000000000", own_uid()));
        for path in [&taken, &likeness] {
            // Another user's folder is refused for its owner; one that others can enter is like it.
            DirBuilder::new().mode(0o777).create(path).unwrap();
        }
        let put = chosen(&folders);
        assert!(put != taken && put != likeness);
        assert_eq!(folders.existing(), [put.as_path()]);
        assert_eq!(chosen(&folders), put, "it is used again");
        fs::remove_dir(&taken).unwrap();
        fs::write(&taken, b"").unwrap();
        assert_eq!(chosen(&folders), put);
    }

    #[test]
    fn the_folder_of_the_session_comes_first_and_what_cannot_be_put_there_goes_on() {
        let place = tempfile::tempdir().unwrap();
        let session = place.path().join("session");
        fs::create_dir(&session).unwrap();
        let folders =
            PrivateFolders::below(own_uid(), std::slice::from_ref(&session), place.path());
        assert_eq!(chosen(&folders), session.join("strongroom"));
        let second = folders.first(|folder| match folder.starts_with(&session) {
            true => Err("no"),
            false => Ok(folder.to_owned()),
        });
        let second = second.unwrap();
        assert_eq!(folders.existing(), [session.join("strongroom"), second]);
        assert_eq!(folders.first(|_| Err::<(), _>("full")), Err("full"));
    }
}
