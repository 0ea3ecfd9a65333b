//! The files of a vault folder, and how one of them is replaced so that it is never half-written.
//!
//! Takes   the path of the folder
//! Gives   the names of its parts, bounded reads, and replacement: after a power cut a file has its old content or its new one
//! Never   interprets what it reads or writes, or accesses anything in the folder except through `strongroom-folder`
//! Spec    spec/10-folder.md
//!
//! Invariants
//!  (1) A file is replaced by write, sync, rename, sync of the folder, in this order.

pub(crate) mod owner_lock;
pub(crate) mod switch;

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use strongroom_folder::{Entry, Error as BelowError, Folder as HeldFolder, NewFile};
use strongroom_metadata::{DATABASE_FILE, RESERVE_FILE};
use strongroom_segments::{Error as SegmentError, INTENT_LOG};

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
/// Says that the folder is a backup of a vault, which is only read.
pub(crate) const BACKUP: &str = "backup";
/// What the mark of an unfinished vault begins with that is being cloned.
pub(crate) const CLONE_MARK: &[u8] = b"clone of ";
/// What the second copy of a small file is called: a lost or damaged file is put back from it.
const SAVED_SUFFIX: &str = ".saved";
/// What comes from a remote, until rows say that it is there.
pub(crate) const INCOMING: &str = "incoming";
/// Where files go that nobody can explain.
pub(crate) const UNEXPLAINED: &str = "unexplained";

/// The second copy of the header.
pub(crate) const HEADER_SAVED: &str = "vault.json.saved";
/// The second copy of this copy's own facts.
pub(crate) const REPLICA_SAVED: &str = "replica.json.saved";

fn saved_name(name: &str) -> String {
    format!("{name}{SAVED_SUFFIX}")
}

/// A vault folder, or one that shall become it; or a folder right below one.
///
/// The way to the vault folder is the user's, links included. Each operation opens the folder first, and reaches what is
/// below only from there.
#[derive(Clone, Debug)]
pub(crate) struct Folder {
    vault: PathBuf,
    /// The name of a folder in the vault folder that is meant instead.
    below: Option<String>,
}

/// What an error of opening something below the vault folder means.
pub(crate) fn below(what: &'static str) -> impl FnOnce(BelowError) -> Error {
    move |error| match error {
        BelowError::Odd(odd) => odd.into(),
        error => Error::io(what)(error.into()),
    }
}

/// What an error of a read says of the file.
///
/// # Errors
/// Those that say nothing of it, as of a process that may open no more files: who took them for damage would bring a vault back without
/// what is sound.
pub(crate) fn damage_in(error: SegmentError) -> Result<SegmentError> {
    match error.is_shortage() {
        true => Err(strongroom_filesystem::Error::from(error).into()),
        false => Ok(error),
    }
}

impl Folder {
    pub(crate) fn new(path: &Path) -> Self {
        Self {
            vault: path.to_owned(),
            below: None,
        }
    }

    /// The same folder, also after this process has changed its working directory.
    pub(crate) fn absolute(&self) -> Result<Self> {
        if self.vault.as_os_str().is_empty() {
            // It leads nowhere, which whoever opens it says.
            return Ok(self.clone());
        }
        let path = std::path::absolute(&self.vault);
        Ok(Self {
            vault: path.map_err(Error::io("examining the vault folder"))?,
            below: self.below.clone(),
        })
    }

    /// The folder `name` in this one, a vault folder.
    pub(crate) fn inside(&self, name: &str) -> Self {
        Self {
            vault: self.vault.clone(),
            below: Some(name.to_owned()),
        }
    }

    /// The path of the folder without links.
    pub(crate) fn canonical(&self) -> Result<PathBuf> {
        match fs::canonicalize(&self.vault) {
            Ok(path) => Ok(path),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(Error::NotAVault),
            Err(error) => Err(Error::io("examining the vault folder")(error)),
        }
    }

    /// The path of the vault folder, as the user gave it.
    pub(crate) fn path(&self) -> &Path {
        &self.vault
    }

    /// The path of this very folder, for who can take nothing else.
    pub(crate) fn place(&self) -> PathBuf {
        match &self.below {
            None => self.vault.clone(),
            Some(below) => self.vault.join(below),
        }
    }

    /// The path of something in the folder, for tests that put it there.
    #[cfg(test)]
    pub(crate) fn part(&self, name: &str) -> PathBuf {
        self.place().join(name)
    }

    /// Opens the folder; what is below is reached from there only.
    pub(crate) fn hold(&self) -> strongroom_folder::Result<HeldFolder> {
        let vault = HeldFolder::open(&self.vault)?;
        match &self.below {
            None => Ok(vault),
            Some(below) => vault.folder(below),
        }
    }

    /// Whether something has that path in the folder.
    pub(crate) fn has(&self, path: &str) -> bool {
        let found = self.hold().and_then(|held| match path.rsplit_once('/') {
            Some((folder, name)) => held.folder(folder)?.kind(name),
            None => held.kind(path),
        });
        matches!(found, Ok(Some(_)))
    }

    /// What is in the folder; nothing if there is none.
    pub(crate) fn list(&self, what: &'static str) -> Result<Vec<Entry>> {
        match self.hold().and_then(|held| held.list()) {
            Err(error) if error.is_missing() => Ok(Vec::new()),
            listed => listed.map_err(below(what)),
        }
    }

    /// Looks at everything in a vault folder that has a name of ours.
    ///
    /// # Errors
    /// `Odd` for the first, in the order of names, that is anything but a regular file with one name, or a real folder where
    /// one belongs. Second copies are left to a verification: nothing needs them as long as the first ones are sound.
    pub(crate) fn check(&self) -> Result<()> {
        let failed = || below("examining the files of the vault folder");
        let held = self.hold().map_err(failed())?;
        let mut entries = held.list().map_err(failed())?;
        entries.sort_unstable_by(|one, next| one.name.cmp(&next.name));
        for Entry { name, .. } in entries {
            match kind_of(&name) {
                Kind::File => held.check_file(&name).map(drop),
                Kind::Folder => held.check_folder(&name).map(drop),
                Kind::Foreign => Ok(()),
            }
            .map_err(failed())?;
        }
        Ok(())
    }

    /// Removes what replacements of files left that were cut off. Call it with the lock held.
    pub(crate) fn remove_unfinished(&self) -> Result<()> {
        for folder in [self.clone(), self.inside(REVISIONS)] {
            match folder.hold().and_then(|held| held.remove_unfinished()) {
                Err(error) if error.is_missing() => {}
                removed => removed.map_err(below("tidying up the vault folder"))?,
            }
        }
        Ok(())
    }

    /// What names the folder whatever path leads to it: device and inode.
    pub(crate) fn identity(&self) -> Result<(u64, u64)> {
        match fs::metadata(&self.vault) {
            Ok(found) => Ok((found.dev(), found.ino())),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(Error::NotAVault),
            Err(error) => Err(Error::io("examining the vault folder")(error)),
        }
    }

    /// Refuses a folder in which a vault was being made: one that has no header yet. A mark beside a header means nothing.
    pub(crate) fn check_finished(&self) -> Result<()> {
        match self.header() {
            Err(error @ Error::InterruptedCreate) => Err(error),
            // A clone has a header before it is whole.
            Ok(_) if self.has(UNFINISHED) => match self.read_file(UNFINISHED)? {
                Some(mark) if mark.starts_with(CLONE_MARK) => Err(Error::InterruptedClone),
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Refuses a backup, which nothing is to change but the next `backup`.
    pub(crate) fn check_is_no_backup(&self) -> Result<()> {
        match self.has(BACKUP) {
            true => Err(Error::IsBackup),
            false => Ok(()),
        }
    }

    /// The header's bytes.
    pub(crate) fn header(&self) -> Result<Vec<u8>> {
        match self.read(HEADER)? {
            Some(header) => Ok(header),
            // Made behind the header, so there was one.
            None if self.has(&saved_name(HEADER)) => Err(Error::HeaderLost { saved: true }),
            None if self.has(UNFINISHED) => Err(Error::InterruptedCreate),
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

    /// Writes the second copy of `name` again if it has other bytes. A folder in its place stays.               [10.12]
    pub(crate) fn save(&self, name: &'static str, bytes: &[u8]) -> Result<()> {
        // One that cannot be read is replaced, too.
        if matches!(self.saved(name), Ok(Some(saved)) if saved == bytes) {
            return Ok(());
        }
        match self.replace(&saved_name(name), bytes) {
            Err(Error::Odd { .. }) => Ok(()),
            saved => saved,
        }
    }

    /// The replica file's bytes.
    pub(crate) fn replica(&self) -> Result<Vec<u8>> {
        self.read(REPLICA)?.ok_or_else(|| Error::Damaged {
            what: REPLICA,
            why: "the file is missing; run `strongroom repair`".to_owned(),
        })
    }

    /// The replica file that a change of keys wrote beside its place; one that cannot be read is none.
    pub(crate) fn next_replica(&self) -> Option<Vec<u8>> {
        self.read(REPLICA_NEXT).ok().flatten()
    }

    /// Removes a small file, durably; nothing if there is none.
    pub(crate) fn remove_if_there(&self, name: &'static str) -> Result<()> {
        let removed = self.remove(name);
        match removed.map_err(below("removing a file of the vault folder"))? {
            true => self.sync(),
            false => Ok(()),
        }
    }

    /// Puts the file `from` in the place of `to`, durably.                                                     (1)
    pub(crate) fn put_in_place(&self, from: &str, to: &str) -> Result<()> {
        #[cfg(test)]
        refusal::strike(refusal::IN_PLACE)?;
        let put = self.hold().and_then(|held| held.rename(from, to));
        put.map_err(below("replacing a file of the vault folder"))?;
        self.sync()
    }

    /// Moves a file of the vault folder, given by its path in it, to the folder `unexplained`, durably. It replaces nothing there.
    pub(crate) fn set_aside(&self, file: &str) -> Result<()> {
        let aside = self.inside(UNEXPLAINED);
        aside.make()?;
        let (folders, name) = file.rsplit_once('/').unwrap_or(("", file));
        let mut target = name.to_owned();
        let mut number = 1;
        while aside.has(&target) {
            number += 1;
            target = format!("{name}-{number}");
        }
        let moved = self.hold().and_then(|vault| {
            let holder = match folders {
                "" => vault,
                folders => vault.folder(folders)?,
            };
            let aside = aside.hold()?;
            holder.move_to(name, &aside, &target)?;
            aside.sync()?;
            holder.sync()
        });
        moved.map_err(below("moving a file to the folder `unexplained`"))
    }

    /// A small file that only says how far something was; nothing if it cannot be read.
    pub(crate) fn read_state(&self, name: &'static str) -> Option<Vec<u8>> {
        self.read(name).ok().flatten()
    }

    /// Removes such a file. Nothing depends on it: who reads it compares it with what it is about.
    pub(crate) fn remove_state(&self, name: &'static str) {
        let _ = self.remove(name);
    }

    /// Removes a file, or whatever has its name but a folder; gives whether there was one.
    pub(crate) fn remove(&self, name: &str) -> strongroom_folder::Result<bool> {
        match self.hold().and_then(|held| held.remove(name)) {
            Err(error) if error.is_missing() => Ok(false),
            removed => removed,
        }
    }

    /// Makes the names in the folder durable, if there is one.
    pub(crate) fn sync_if_there(&self) -> Result<()> {
        match self.hold().and_then(|held| held.sync()) {
            Err(error) if error.is_missing() => Ok(()),
            synced => synced.map_err(below("syncing the vault folder")),
        }
    }

    /// Reads a small file, a record of a revision; `None` if there is none.
    pub(crate) fn read_file(&self, name: &str) -> Result<Option<Vec<u8>>> {
        self.read_as(name, "record of a snapshot")
    }

    /// Reads a small file; `None` if there is none.
    fn read(&self, name: &'static str) -> Result<Option<Vec<u8>>> {
        self.read_as(name, name)
    }

    /// The same, reported as `what`.
    fn read_as(&self, name: &str, what: &'static str) -> Result<Option<Vec<u8>>> {
        match self
            .hold()
            .and_then(|held| held.read(name, HEADER_BYTES_MAX))
        {
            Ok(bytes) => Ok(bytes),
            Err(BelowError::TooLong { .. }) => Err(Error::Damaged {
                what,
                why: format!("it is longer than {HEADER_BYTES_MAX} bytes"),
            }),
            Err(BelowError::Io(error))
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                Ok(None)
            }
            Err(error) => Err(below("reading a file of the vault folder")(error)),
        }
    }

    /// Replaces a file by `bytes`, durably.                                                                  (1)
    pub(crate) fn replace(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.prepare(name, bytes)?.put()
    }

    /// Writes what shall replace a file, so that what may fail for want of room has been done before `put`.     (1)
    pub(crate) fn prepare(&self, name: &str, bytes: &[u8]) -> Result<Prepared> {
        #[cfg(test)]
        refusal::strike(name)?;
        let new = self.hold().and_then(|held| held.new_file(bytes));
        Ok(Prepared {
            new: new.map_err(below("writing into the vault folder"))?,
            name: name.to_owned(),
        })
    }

    /// Makes the names in the folder durable.
    pub(crate) fn sync(&self) -> Result<()> {
        #[cfg(test)]
        refusal::strike(refusal::SYNC)?;
        let synced = self.hold().and_then(|held| held.sync());
        synced.map_err(below("syncing the vault folder"))
    }

    /// Makes the folder itself, for its user only. Gives whether it was missing.
    pub(crate) fn make(&self) -> Result<bool> {
        if let Some(name) = &self.below {
            let made = HeldFolder::open(&self.vault).and_then(|vault| {
                let is_new = vault.make_folder(name)?;
                if is_new {
                    vault.sync()?;
                }
                Ok(is_new)
            });
            return made.map_err(below("making a folder in the vault folder"));
        }
        match fs::DirBuilder::new().mode(0o700).create(&self.vault) {
            Ok(()) => {
                let parent = HeldFolder::open(self.parent()).and_then(|parent| parent.sync());
                parent.map_err(below("syncing the vault folder"))?;
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
        let space = rustix::fs::statvfs(&self.vault)
            .or_else(|_| rustix::fs::statvfs(self.parent()))
            .ok()?;
        (space.f_blocks > 0).then(|| space.f_bavail.saturating_mul(space.f_frsize))
    }

    fn parent(&self) -> &Path {
        match self.vault.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        }
    }

    /// Whether every name in the folder is one of those; looks no further than the first that is not.
    pub(crate) fn has_only(&self, expected: impl Fn(&OsStr) -> bool) -> Result<bool> {
        let failed = || Error::io("listing the vault folder");
        for entry in fs::read_dir(&self.vault).map_err(failed())? {
            if !expected(&entry.map_err(failed())?.file_name()) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// What belongs under a name in a vault folder.
enum Kind {
    File,
    Folder,
    /// Anything: the name is none of ours, or nothing depends on it.
    Foreign,
}

fn kind_of(name: &str) -> Kind {
    match name {
        HEADER | REPLICA | REPLICA_NEXT | LOCK | UNFINISHED | BACKUP | RESERVE_FILE
        | INTENT_LOG => Kind::File,
        SEGMENTS | REVISIONS | INCOMING | UNEXPLAINED => Kind::Folder,
        name if switch::is_folder_of_ours(name) => Kind::Folder,
        // With what lies beside it while it is in use, but not old ones that were kept.
        name => match name.strip_prefix(DATABASE_FILE) {
            Some(ending) if ending.is_empty() || ending.starts_with('-') => Kind::File,
            _ => Kind::Foreign,
        },
    }
}

/// A file that is written and waits to take another one's place; removed if it never does.
#[derive(Debug)]
pub(crate) struct Prepared {
    new: NewFile,
    name: String,
}

impl Prepared {
    /// Puts the file in its place, durably.                                                                   (1)
    pub(crate) fn put(self) -> Result<()> {
        let put = self.new.put(&self.name).map(drop);
        put.map_err(below("replacing a file of the vault folder"))
    }
}

/// Refuses the replacement of a file or the sync of a folder, for tests: names cannot be foreseen, so nothing can be put in their way.
#[cfg(test)]
pub(crate) mod refusal {
    use std::cell::Cell;

    use crate::{Error, Result};

    thread_local! {
        static REFUSED: Cell<Option<&'static str>> = const { Cell::new(None) };
    }

    /// What stands for every file that would take another one's place.
    pub(crate) const IN_PLACE: &str = "in place";

    /// What stands for the sync of a folder.
    pub(crate) const SYNC: &str = "sync";

    /// The file of this name is not replaced by this thread from now on.
    pub(crate) fn set(name: Option<&'static str>) {
        REFUSED.set(name);
    }

    pub(super) fn strike(name: &str) -> Result<()> {
        match REFUSED.get() == Some(name) {
            true => Err(Error::io("writing into the vault folder")(
                std::io::ErrorKind::StorageFull.into(),
            )),
            false => Ok(()),
        }
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
        assert!(folder.has_only(|name| name == REPLICA).unwrap());
    }

    #[test]
    fn a_prepared_file_that_is_never_put_leaves_the_old_one_alone() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::new(place.path());
        folder.replace(REPLICA, b"old").unwrap();
        drop(folder.prepare(REPLICA, b"new").unwrap());
        assert_eq!(folder.replica().unwrap(), b"old");
        assert!(folder.has_only(|name| name == REPLICA).unwrap());
    }

    #[test]
    fn a_header_beyond_the_bound_is_damage_and_not_read_whole() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::new(place.path());
        let file = fs::File::create(folder.part(HEADER)).unwrap();
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
