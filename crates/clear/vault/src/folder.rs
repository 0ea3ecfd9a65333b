//! The files of a vault folder, and how one of them is replaced without ever being half there.
//!
//! Takes   the path of the folder
//! Gives   names of its parts, bounded reads, replacement that a power cut leaves old or new
//! Never   looks inside what it reads or writes
//! Spec    design page 3, "Vault folder"
//!
//! Invariants
//!  (1) A file is replaced by write, sync, rename, sync of the folder, in this order.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use strongroom_metadata::DATABASE_FILE;

use crate::limits::HEADER_BYTES_MAX;
use crate::{Error, Result};

/// The public header. Its presence makes a folder a vault.
pub(crate) const HEADER: &str = "vault.json";
/// This copy's own facts.
pub(crate) const REPLICA: &str = "replica.json";
/// The replica file of a change of keys whose header may not be in its place yet.
pub(crate) const REPLICA_NEXT: &str = "replica.json.next";
/// The file whose lock makes a process the owner.
pub(crate) const LOCK: &str = "lock";
/// The folder of sealed blocks.
pub(crate) const SEGMENTS: &str = "segments";
/// The folder of the records of revisions.
pub(crate) const REVISIONS: &str = "revisions";
/// Present while `create` runs.
pub(crate) const UNFINISHED: &str = "init-unfinished";
/// What the second copy of a small file is called: a lost or damaged file is put back from it.
const SAVED_SUFFIX: &str = ".saved";
/// What a replacement is written to first.
const NEW_SUFFIX: &str = ".new";

/// The second copy of the header.
pub(crate) const HEADER_SAVED: &str = "vault.json.saved";
/// The second copy of this copy's own facts.
pub(crate) const REPLICA_SAVED: &str = "replica.json.saved";

fn saved_name(name: &str) -> String {
    format!("{name}{SAVED_SUFFIX}")
}

/// A vault folder, or one that shall become it.
#[derive(Clone, Debug)]
pub(crate) struct Folder {
    path: PathBuf,
}

impl Folder {
    pub(crate) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
        }
    }

    /// The same folder, also after this process has changed its working directory.
    pub(crate) fn absolute(&self) -> Result<Self> {
        let path = std::path::absolute(&self.path);
        let path = path.map_err(Error::io("looking at the vault folder"))?;
        Ok(Self { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn part(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.part(name).symlink_metadata().is_ok()
    }

    /// What names the folder whatever path leads to it: device and inode.
    pub(crate) fn identity(&self) -> Result<(u64, u64)> {
        match fs::metadata(&self.path) {
            Ok(found) => Ok((found.dev(), found.ino())),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(Error::NotAVault),
            Err(error) => Err(Error::io("looking at the vault folder")(error)),
        }
    }

    /// The header's bytes.
    pub(crate) fn header(&self) -> Result<Vec<u8>> {
        match self.read(HEADER)? {
            Some(header) => Ok(header),
            None if self.has(UNFINISHED) => Err(Error::InterruptedCreate),
            None if self.has(&saved_name(HEADER)) => Err(Error::HeaderLost { saved: true }),
            None if self.has(DATABASE_FILE) || self.has(REPLICA) => {
                Err(Error::HeaderLost { saved: false })
            }
            None => Err(Error::NotAVault),
        }
    }

    /// The second copy of `name`; `None` if there is none.
    pub(crate) fn saved(&self, name: &'static str) -> Result<Option<Vec<u8>>> {
        match name {
            HEADER => self.read(HEADER_SAVED),
            _ => self.read(REPLICA_SAVED),
        }
    }

    /// Writes the second copy of `name` anew if it has other bytes.
    pub(crate) fn save(&self, name: &'static str, bytes: &[u8]) -> Result<()> {
        // One that cannot be read is replaced, too.
        if matches!(self.saved(name), Ok(Some(saved)) if saved == bytes) {
            return Ok(());
        }
        self.replace(&saved_name(name), bytes)
    }

    /// The replica file's bytes.
    pub(crate) fn replica(&self) -> Result<Vec<u8>> {
        self.read(REPLICA)?.ok_or_else(|| Error::Damaged {
            what: REPLICA,
            why: "the file is missing; run `strongroom recover`".to_owned(),
        })
    }

    /// The replica file that a change of keys wrote beside its place; one that cannot be read is none.
    pub(crate) fn next_replica(&self) -> Option<Vec<u8>> {
        self.read(REPLICA_NEXT).ok().flatten()
    }

    /// Removes a small file, durably; nothing if there is none.
    pub(crate) fn remove_if_there(&self, name: &'static str) -> Result<()> {
        match fs::remove_file(self.part(name)) {
            Ok(()) => self.sync(),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(Error::io("removing a file of the vault folder")(error)),
        }
    }

    /// Puts the file `from` in the place of `to`, durably.                                                     (1)
    pub(crate) fn put_in_place(&self, from: &str, to: &str) -> Result<()> {
        fs::rename(self.part(from), self.part(to))
            .map_err(Error::io("replacing a file of the vault folder"))?;
        self.sync()
    }

    /// A small file that only says how far something was; nothing if it cannot be read.
    pub(crate) fn read_state(&self, name: &'static str) -> Option<Vec<u8>> {
        self.read(name).ok().flatten()
    }

    /// Removes such a file. Nothing depends on it: who reads it compares it with what it is about.
    pub(crate) fn remove_state(&self, name: &'static str) {
        let _ = fs::remove_file(self.part(name));
    }

    /// Makes the names in the folder durable, if there is one.
    pub(crate) fn sync_if_there(&self) -> Result<()> {
        match self.path.is_dir() {
            true => self.sync(),
            false => Ok(()),
        }
    }

    /// Reads a small file, a record of a revision; `None` if there is none.
    pub(crate) fn read_file(&self, name: &str) -> Result<Option<Vec<u8>>> {
        self.read_as(name, "record of a revision")
    }

    /// Reads a small file; `None` if there is none.
    fn read(&self, name: &'static str) -> Result<Option<Vec<u8>>> {
        self.read_as(name, name)
    }

    /// The same, told of as `what`.
    fn read_as(&self, name: &str, what: &'static str) -> Result<Option<Vec<u8>>> {
        let file = match File::open(self.part(name)) {
            Ok(file) => file,
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(Error::io("opening a file of the vault folder")(error)),
        };
        let kind = file
            .metadata()
            .map_err(Error::io("looking at a file of the vault folder"))?;
        if !kind.is_file() {
            return Err(Error::Damaged {
                what,
                why: "it is not a regular file".to_owned(),
            });
        }
        let mut bytes = Vec::new();
        let reading = file.take(HEADER_BYTES_MAX + 1).read_to_end(&mut bytes);
        reading.map_err(Error::io("reading a file of the vault folder"))?;
        if bytes.len() as u64 > HEADER_BYTES_MAX {
            return Err(Error::Damaged {
                what,
                why: format!("it is longer than {HEADER_BYTES_MAX} bytes"),
            });
        }
        Ok(Some(bytes))
    }

    /// Replaces a file by `bytes`, durably.                                                                  (1)
    pub(crate) fn replace(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.prepare(name, bytes)?.put()
    }

    /// Writes what shall replace a file, so that what may fail for want of room has been done before `put`.     (1)
    pub(crate) fn prepare(&self, name: &str, bytes: &[u8]) -> Result<Prepared<'_>> {
        let new = self.part(&format!("{name}{NEW_SUFFIX}"));
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let failed = || Error::io("writing into the vault folder");
        let mut file = options.open(&new).map_err(failed())?;
        let prepared = Prepared {
            folder: self,
            new,
            old: self.part(name),
        };
        file.write_all(bytes).map_err(failed())?;
        file.sync_all().map_err(failed())?;
        Ok(prepared)
    }

    /// Makes the names in the folder durable.
    pub(crate) fn sync(&self) -> Result<()> {
        sync_folder(&self.path)
    }

    /// Makes the folder itself, for its user only. Gives whether it was missing.
    pub(crate) fn make(&self) -> Result<bool> {
        match fs::DirBuilder::new().mode(0o700).create(&self.path) {
            Ok(()) => {
                sync_folder(self.parent())?;
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(Error::ParentMissing),
            Err(error) => Err(Error::io("making the vault folder")(error)),
        }
    }

    /// Whether the folder that shall hold this one exists.
    pub(crate) fn check_parent(&self) -> Result<()> {
        if self.parent().is_dir() {
            Ok(())
        } else {
            Err(Error::ParentMissing)
        }
    }

    /// What the disk of the folder, or of the one that shall hold it, has free; `None` if it does not say.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        let space = rustix::fs::statvfs(&self.path)
            .or_else(|_| rustix::fs::statvfs(self.parent()))
            .ok()?;
        (space.f_blocks > 0).then(|| space.f_bavail.saturating_mul(space.f_frsize))
    }

    fn parent(&self) -> &Path {
        match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        }
    }

    /// The names in the folder, but at most a handful: enough to see whether it is empty.
    pub(crate) fn first_names(&self) -> Result<Vec<std::ffi::OsString>> {
        let entries = fs::read_dir(&self.path).map_err(Error::io("listing the vault folder"))?;
        let names = entries
            .take(8)
            .map(|entry| entry.map(|entry| entry.file_name()));
        names
            .collect::<std::io::Result<_>>()
            .map_err(Error::io("listing the vault folder"))
    }
}

/// A file that is written and waits to take another one's place; removed if it never does.
#[derive(Debug)]
pub(crate) struct Prepared<'a> {
    folder: &'a Folder,
    new: PathBuf,
    old: PathBuf,
}

impl Prepared<'_> {
    /// Puts the file in its place, durably.                                                                   (1)
    pub(crate) fn put(self) -> Result<()> {
        fs::rename(&self.new, &self.old)
            .map_err(Error::io("replacing a file of the vault folder"))?;
        self.folder.sync()
    }
}

impl Drop for Prepared<'_> {
    fn drop(&mut self) {
        // Gone already once it was put; left behind it only costs its room until the next replacement.
        let _ = fs::remove_file(&self.new);
    }
}

fn sync_folder(path: &Path) -> Result<()> {
    let folder = File::open(path).map_err(Error::io("opening the vault folder"))?;
    match folder.sync_all() {
        // Some file systems cannot sync a folder; their renames are as durable as they get.
        Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(()),
        result => result.map_err(Error::io("storing the names of the vault folder")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_file_has_the_new_bytes_and_leaves_no_other_file() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::new(place.path());
        folder.replace(REPLICA, b"old").unwrap();
        folder.replace(REPLICA, b"new").unwrap();
        assert_eq!(folder.replica().unwrap(), b"new");
        assert_eq!(folder.first_names().unwrap(), [REPLICA]);
    }

    #[test]
    fn a_prepared_file_that_is_never_put_leaves_the_old_one_alone() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::new(place.path());
        folder.replace(REPLICA, b"old").unwrap();
        drop(folder.prepare(REPLICA, b"new").unwrap());
        assert_eq!(folder.replica().unwrap(), b"old");
        assert_eq!(folder.first_names().unwrap(), [REPLICA]);
    }

    #[test]
    fn a_header_beyond_the_bound_is_damage_and_not_read_whole() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::new(place.path());
        let file = File::create(folder.part(HEADER)).unwrap();
        file.set_len(1 << 40).unwrap();
        assert!(matches!(
            folder.header(),
            Err(Error::Damaged { what: HEADER, .. })
        ));
    }

    #[test]
    fn a_folder_without_header_is_no_vault_and_with_the_mark_an_interrupted_one() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::new(place.path());
        assert!(matches!(folder.header(), Err(Error::NotAVault)));
        folder.replace(UNFINISHED, b"").unwrap();
        assert!(matches!(folder.header(), Err(Error::InterruptedCreate)));
        assert!(matches!(
            Folder::new(&place.path().join("none")).header(),
            Err(Error::NotAVault)
        ));
    }

    #[test]
    fn a_folder_in_a_folder_that_does_not_exist_is_not_made() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::new(&place.path().join("none").join("vault"));
        assert!(matches!(folder.make(), Err(Error::ParentMissing)));
    }
}
