//! The folder of the records: no file in it can redirect a reader, and no writer undoes the work of another.
//!
//! Takes   a folder of this user
//! Gives   bounded reads, replacement of whole files, a lock
//! Never   follows a link, waits for a pipe, or uses a folder that others can write to
//! Spec    spec/9-seen.md, section 9.2
//!
//! Invariants
//!  (1) A file is replaced only under the lock: by exclusive creation under a random name, write, sync, rename.
//!  (2) At most `VAULTS_MAX` files are kept: the one that was written longest ago is removed first.

use std::fs::{DirBuilder, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{
    AtFlags, Dir, FlockOperation, Mode, OFlags, flock, open, openat, renameat, unlinkat,
};
use strongroom_crypto::{Random, SystemRandom};
use strongroom_format::{VaultId, hex};

use super::record::RECORD_BYTES_MAX;
use crate::retry::Retry;

/// Vaults that are remembered.                                                                               (2)
pub(crate) const VAULTS_MAX: usize = 256;

/// Names of the folder that are looked at: more are not ours.
const NAMES_MAX: usize = 4 * VAULTS_MAX;

/// How long another writer is waited for. It holds the lock for a few small files.
const LOCK_WAIT: Duration = Duration::from_secs(2);

const LOCK: &str = "lock";
const SUFFIX: &str = ".json";
/// What a file is called until it is whole.
const NEW_SUFFIX: &str = ".new";

/// A folder of records, open.
pub(crate) struct Shelf {
    directory: OwnedFd,
}

/// The right to write, until it is dropped.
pub(crate) struct Turn<'a> {
    shelf: &'a Shelf,
    _lock: OwnedFd,
}

/// Whether a folder that is missing is made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfMissing {
    Make,
    Fail,
}

impl Shelf {
    /// Opens the folder at `path`.
    ///
    /// # Errors
    /// `NotFound` if it is not there; `PermissionDenied` if it is another user's or others can write it.
    pub(crate) fn open(path: &Path, if_missing: IfMissing) -> io::Result<Self> {
        if if_missing == IfMissing::Make {
            // Nothing is made in a folder of another user: of the superuser's, say, whose HOME is still the user's.
            let above = path.ancestors().find(|folder| folder.exists());
            let above = std::fs::metadata(above.ok_or(ErrorKind::NotFound)?)?;
            if above.uid() != rustix::process::geteuid().as_raw() {
                return Err(ErrorKind::PermissionDenied.into());
            }
            DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = File::from(open(path, flags, Mode::empty())?);
        check(&directory.metadata()?)?;
        Ok(Self {
            directory: directory.into(),
        })
    }

    /// The bytes of a vault's file; `None` if there is none.
    ///
    /// # Errors
    /// `InvalidData` if it is no file of this user, or too long.
    pub(crate) fn read(&self, vault: VaultId) -> io::Result<Option<Vec<u8>>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let name = format!("{}{SUFFIX}", hex::encode(&vault.0));
        let file = match openat(&self.directory, &name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(rustix::io::Errno::LOOP | rustix::io::Errno::NXIO) => {
                return Err(ErrorKind::InvalidData.into());
            }
            Err(error) => return Err(error.into()),
        };
        let found = file.metadata()?;
        if !found.is_file() || found.nlink() != 1 || check(&found).is_err() {
            return Err(ErrorKind::InvalidData.into());
        }
        let mut bytes = Vec::new();
        file.take(RECORD_BYTES_MAX as u64 + 1)
            .read_to_end(&mut bytes)?;
        if bytes.len() > RECORD_BYTES_MAX {
            return Err(ErrorKind::InvalidData.into());
        }
        Ok(Some(bytes))
    }

    /// The vaults that there are files of.
    pub(crate) fn vaults(&self) -> io::Result<Vec<VaultId>> {
        let names = self.names()?.into_iter();
        Ok(names
            .filter_map(|name| hex::decode(name.strip_suffix(SUFFIX)?).map(VaultId))
            .collect())
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.directory)?.take(NAMES_MAX) {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name.ends_with(SUFFIX) || name.ends_with(NEW_SUFFIX) {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Waits for the turn to write.
    ///
    /// # Errors
    /// `WouldBlock` if others had it for too long.
    pub(crate) fn turn(&self) -> io::Result<Turn<'_>> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let lock = openat(&self.directory, LOCK, flags, private())?;
        let mut retry = Retry::new(LOCK_WAIT);
        loop {
            match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {
                    return Ok(Turn {
                        shelf: self,
                        _lock: lock,
                    });
                }
                Err(rustix::io::Errno::WOULDBLOCK) if retry.wait() => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Turn<'_> {
    /// Puts `bytes` in the place of a vault's file, whole or not at all.                                 (1) (2)
    pub(crate) fn replace(&self, vault: VaultId, bytes: &[u8]) -> io::Result<()> {
        let directory = &self.shelf.directory;
        let name = format!("{}{SUFFIX}", hex::encode(&vault.0));
        let is_new = self.shelf.read(vault).is_ok_and(|found| found.is_none());
        if is_new {
            self.make_room()?;
        }
        let mut random = [0; 16];
        SystemRandom.fill(&mut random).map_err(io::Error::other)?;
        let new = format!("{}{NEW_SUFFIX}", hex::encode(&random));
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(directory, &new, flags, private())?);
        let written = file
            .write_all(bytes)
            // Without this a power cut may leave a whole name with half a file.
            .and_then(|()| file.sync_data())
            .and_then(|()| Ok(renameat(directory, &new, directory, &name)?));
        written.inspect_err(|_| {
            // Nothing refers to it; if it stays, `make_room` removes it.
            let _ = unlinkat(directory, &new, AtFlags::empty());
        })
    }

    /// Removes a vault's file.
    pub(crate) fn remove(&self, vault: VaultId) -> io::Result<()> {
        let name = format!("{}{SUFFIX}", hex::encode(&vault.0));
        match unlinkat(&self.shelf.directory, &name, AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Leaves room for one more file; removes what writers that were killed left.                             (2)
    fn make_room(&self) -> io::Result<()> {
        let directory = &self.shelf.directory;
        let mut found = Vec::new();
        for name in self.shelf.names()? {
            if name.ends_with(NEW_SUFFIX) {
                // Whoever writes holds the lock that this process has.
                unlinkat(directory, &name, AtFlags::empty())?;
                continue;
            }
            let written = rustix::fs::statat(directory, &name, AtFlags::SYMLINK_NOFOLLOW)?;
            found.push((written.st_mtime, written.st_mtime_nsec, name));
        }
        found.sort();
        let surplus = (found.len() + 1).saturating_sub(VAULTS_MAX);
        for (_, _, name) in &found[..surplus] {
            unlinkat(directory, name, AtFlags::empty())?;
        }
        Ok(())
    }
}

/// Whether what was found is this user's alone to write.
fn check(found: &std::fs::Metadata) -> io::Result<()> {
    let ours = found.uid() == rustix::process::geteuid().as_raw();
    match ours && found.mode() & 0o022 == 0 {
        true => Ok(()),
        false => Err(ErrorKind::PermissionDenied.into()),
    }
}

fn private() -> Mode {
    Mode::RUSR | Mode::WUSR
}

/// Where the records of this user lie; `None` without a home.
pub(crate) fn of_user() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME");
    let folder = crate::tuning::folder(state, std::env::var_os("HOME"), ".local/state")?;
    Some(folder.join("vaults"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn shelf() -> (tempfile::TempDir, PathBuf, Shelf) {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("state/strongroom/vaults");
        let shelf = Shelf::open(&path, IfMissing::Make).unwrap();
        (place, path, shelf)
    }

    fn vault(number: usize) -> VaultId {
        let mut id = [0; 32];
        id[..8].copy_from_slice(&(number as u64).to_le_bytes());
        VaultId(id)
    }

    fn name(number: usize) -> String {
        format!("{}{SUFFIX}", hex::encode(&vault(number).0))
    }

    #[test]
    fn what_is_written_comes_back_and_is_the_users_alone() {
        let (_place, path, shelf) = shelf();
        assert!(shelf.read(vault(1)).unwrap().is_none());
        shelf.turn().unwrap().replace(vault(1), b"old").unwrap();
        shelf.turn().unwrap().replace(vault(1), b"new").unwrap();
        assert_eq!(shelf.read(vault(1)).unwrap().unwrap(), b"new");
        assert_eq!(shelf.vaults().unwrap(), [vault(1)]);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&path.join(name(1)))), (0o700, 0o600));
        shelf.turn().unwrap().remove(vault(1)).unwrap();
        assert!(shelf.read(vault(1)).unwrap().is_none());
    }

    #[test]
    fn links_pipes_directories_and_endless_files_are_no_records_and_nothing_behind_them_is_touched()
    {
        let (place, path, shelf) = shelf();
        let outside = place.path().join("outside");
        fs::write(&outside, "untouched").unwrap();
        symlink(&outside, path.join(name(1))).unwrap();
        fs::hard_link(&outside, path.join(name(2))).unwrap();
        fs::create_dir(path.join(name(3))).unwrap();
        let mode = Mode::from_raw_mode(0o600);
        let pipe = path.join(name(4));
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let endless = File::create(path.join(name(5))).unwrap();
        endless.set_len(1 << 40).unwrap();
        for number in 1..=5 {
            let read = shelf.read(vault(number)).unwrap_err();
            assert_eq!(read.kind(), ErrorKind::InvalidData, "{number}");
            let replaced = shelf.turn().unwrap().replace(vault(number), b"new");
            assert_eq!(replaced.is_ok(), number != 3, "{number}: {replaced:?}");
        }
        assert_eq!(fs::read(&outside).unwrap(), b"untouched");
    }

    #[test]
    fn a_folder_that_others_can_write_or_that_is_a_link_keeps_nothing() {
        let (place, path, _shelf) = shelf();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(Shelf::open(&path, IfMissing::Make).is_err());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        let link = place.path().join("link");
        symlink(&path, &link).unwrap();
        assert!(Shelf::open(&link, IfMissing::Make).is_err());
        assert!(Shelf::open(&place.path().join("none"), IfMissing::Fail).is_err());
    }

    #[test]
    fn the_file_written_longest_ago_makes_room_and_what_a_killed_writer_left_goes() {
        let (_place, path, shelf) = shelf();
        fs::write(path.join("aa.new"), "half").unwrap();
        for number in 0..VAULTS_MAX {
            fs::write(path.join(name(number)), "x").unwrap();
        }
        let long_ago = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let oldest = File::options().write(true).open(path.join(name(77)));
        oldest.unwrap().set_modified(long_ago).unwrap();
        let one_more = vault(VAULTS_MAX);
        shelf.turn().unwrap().replace(one_more, b"x").unwrap();
        assert_eq!(shelf.vaults().unwrap().len(), VAULTS_MAX);
        assert!(shelf.read(vault(77)).unwrap().is_none());
        assert!(!path.join("aa.new").exists());
    }
}
