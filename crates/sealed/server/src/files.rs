//! The folder with the bytes of the objects.
//!
//! Takes   bytes, piece by piece
//! Gives   a file under a random name
//! Never   makes a path from anything that a client sends
//!
//! Files of existing objects are in `objects`; a file that is being added or removed is in `moving`. Only the database defines which
//! objects exist: at its start the server moves or removes each file in `moving` accordingly. So an interruption never separates object and bytes:
//!
//! | | first | then the transaction | at last |
//! |---|---|---|---|
//! | creating | the bytes, durable in `moving` | adds the object | the file is moved to `objects` |
//! | removing | the file is moved to `moving`, durably | removes the object | the file is removed |
//! | removing during a backup | the file is moved to `kept`, durably | removes the object | the file is removed after the backup |

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};
use strongroom_remote::protocol::Refusal;

use crate::error::{Error, Result};
use crate::file_id::FileId;
use crate::ledger::DATABASE;

/// The folders of files.
#[derive(Debug)]
pub(crate) struct Files {
    objects: PathBuf,
    moving: PathBuf,
    kept: PathBuf,
    /// Open, to be synced.
    moving_folder: File,
    kept_folder: File,
}

/// Where the file of an object goes that is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aside {
    /// To `moving`: it is removed at once.
    Moving,
    /// To `kept`: a backup may need it.
    Kept,
}

/// Whether garbage is removed, or only counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collecting {
    /// It is removed.
    Remove,
    /// It is counted.
    Count,
}

/// A file that comes. It is gone again when this is dropped, unless it was kept.
#[derive(Debug)]
pub(crate) struct NewFile {
    pub(crate) id: FileId,
    file: File,
    files: Arc<Files>,
    is_kept: bool,
}

/// Makes a folder for this user alone, unless it is there.
pub(crate) fn make_folder(path: &Path) -> Result<()> {
    let made = DirBuilder::new().mode(0o700).create(path);
    match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made.map_err(Error::io("making a folder")),
    }
}

/// The same, open; it must not be there.
fn make_open_folder(path: &Path) -> io::Result<File> {
    DirBuilder::new().mode(0o700).create(path)?;
    let flags = (OFlags::DIRECTORY | OFlags::NOFOLLOW).bits();
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags.cast_signed());
    options.open(path)
}

/// Makes something in the folder of a server, unless it is there. What root makes belongs to the owner of the database, so that the server
/// can use it. It has its name only then: a command that is killed leaves nothing there that the server cannot open.
pub(crate) fn make_below(
    folder: &Path,
    name: &str,
    make: impl Fn(&Path) -> io::Result<File>,
) -> Result<()> {
    let failed = || Error::io("making a part of the folder of the server");
    let path = folder.join(name);
    if fs::symlink_metadata(&path).is_ok() {
        return Ok(());
    }
    let made = match other_owner(folder).map_err(failed())? {
        None => make(&path).map(drop),
        Some((uid, gid)) => {
            let give = |made: File| fchown(&made, Some(uid), Some(gid));
            let new = folder.join(format!("{name}.{}", FileId::random()?));
            let put = make(&new).and_then(give).and_then(|()| {
                let put = renameat_with(CWD, &new, CWD, &path, RenameFlags::NOREPLACE);
                put.map_err(io::Error::from)
            });
            if put.is_err() {
                // The caller learns of the error, and nobody uses what cannot be removed.
                let _ = fs::remove_dir(&new).or_else(|_| fs::remove_file(&new));
            }
            match put.as_ref().map_err(io::Error::kind) {
                // Not every file system has that.
                Err(io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => {
                    make(&path).and_then(give)
                }
                _ => put,
            }
        }
    };
    match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made.map_err(failed()),
    }
}

/// To whom root gives what it makes in the folder of a server: to the owner of the database, unless that is root.
fn other_owner(folder: &Path) -> io::Result<Option<(u32, u32)>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let database = fs::symlink_metadata(folder.join(DATABASE))?;
    Ok((database.uid() != 0).then(|| (database.uid(), database.gid())))
}

/// Makes the names in a folder durable.
pub(crate) fn sync_folder(path: &Path) -> Result<()> {
    let synced = File::open(path).and_then(|folder| folder.sync_all());
    synced.map_err(Error::io("syncing a folder"))
}

fn sync(folder: &File) -> Result<()> {
    folder.sync_all().map_err(Error::io("syncing a folder"))
}

impl Files {
    /// The folders below `folder`, which are made if they are not there.
    pub(crate) fn open(folder: &Path) -> Result<Self> {
        let names = ["objects", "moving", "kept"];
        for name in names {
            make_below(folder, name, make_open_folder)?;
        }
        let [objects, moving, kept] = names.map(|name| folder.join(name));
        for shelf in 0..=u8::MAX {
            make_folder(&objects.join(format!("{shelf:02x}")))?;
        }
        sync_folder(&objects)?;
        sync_folder(folder)?;
        Ok(Self {
            moving_folder: File::open(&moving).map_err(Error::io("opening a folder"))?,
            kept_folder: File::open(&kept).map_err(Error::io("opening a folder"))?,
            objects,
            moving,
            kept,
        })
    }

    /// What lies in `moving` or `kept`, by the ids of the files. Anything else in the folder is left alone.
    pub(crate) fn aside(&self, aside: Aside) -> Result<Vec<FileId>> {
        let failed = || Error::io("listing a folder");
        let mut found = Vec::new();
        for entry in fs::read_dir(self.folder_of(aside).0).map_err(failed())? {
            let name = entry.map_err(failed())?.file_name();
            found.extend(name.to_str().and_then(FileId::parse));
        }
        Ok(found)
    }

    /// A new file.
    pub(crate) fn begin(self: &Arc<Self>) -> Result<NewFile> {
        let id = FileId::random()?;
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(self.in_moving(id))
            .map_err(Error::io("making a file"))?;
        Ok(NewFile {
            id,
            file,
            files: Arc::clone(self),
            is_kept: false,
        })
    }

    /// Opens a file, wherever it lies now; `None` if it is gone.
    pub(crate) fn open_file(&self, id: FileId) -> Result<Option<File>> {
        let (there, moving, kept) = (self.in_objects(id), self.in_moving(id), self.in_kept(id));
        // It may go from one to the next between two looks: from `moving` to `objects`, then to one of the others, and from `kept` back.
        for path in [&there, &moving, &there, &moving, &kept, &there] {
            match File::open(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                file => return file.map(Some).map_err(Error::io("opening an object")),
            }
        }
        Ok(None)
    }

    /// The object is there: so is its file.
    pub(crate) fn settle(&self, id: FileId) -> Result<()> {
        let moved = fs::rename(self.in_moving(id), self.in_objects(id));
        moved.map_err(Error::io("moving an object"))
    }

    /// The objects are about to go.
    pub(crate) fn unsettle(&self, ids: &[FileId], aside: Aside) -> Result<()> {
        let (folder, opened) = self.folder_of(aside);
        let mut is_moved = false;
        for id in ids {
            // It may be settled meanwhile. If it is lost, the object can go all the same.
            for from in [
                self.in_objects(*id),
                self.in_moving(*id),
                self.in_objects(*id),
            ] {
                match fs::rename(from, folder.join(id.to_string())) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    moved => {
                        moved.map_err(Error::io("moving an object"))?;
                        is_moved = true;
                        break;
                    }
                }
            }
        }
        match is_moved {
            true => sync(opened),
            false => Ok(()),
        }
    }

    /// What was kept has an object after all: its removal was interrupted.
    pub(crate) fn settle_kept(&self, id: FileId) -> Result<()> {
        let moved = fs::rename(self.in_kept(id), self.in_objects(id));
        moved.map_err(Error::io("moving an object"))
    }

    /// Removes a file that was kept; gives its length, 0 if it is gone already.
    pub(crate) fn drop_kept(&self, id: FileId) -> Result<u64> {
        let kept = self.in_kept(id);
        let len = fs::metadata(&kept).map(|found| found.len());
        match len.and_then(|len| fs::remove_file(&kept).map(|()| len)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            removed => removed.map_err(Error::io("removing what was kept for a backup")),
        }
    }

    /// The length of a file that was kept; 0 if it is gone.
    pub(crate) fn kept_len(&self, id: FileId) -> Result<u64> {
        match fs::metadata(self.in_kept(id)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            found => Ok(found.map_err(Error::io("examining an object"))?.len()),
        }
    }

    /// The object is gone: so is its file.
    pub(crate) fn drop_file(&self, id: FileId) -> Result<()> {
        for path in [self.in_moving(id), self.in_objects(id)] {
            match fs::remove_file(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                removed => removed.map_err(Error::io("removing an object"))?,
            }
        }
        Ok(())
    }

    /// Calls `each` with every file of `objects` and its length. What is no such file is left alone.
    pub(crate) fn each_settled(
        &self,
        mut each: impl FnMut(FileId, u64) -> Result<()>,
    ) -> Result<()> {
        let failed = || Error::io("listing a folder");
        for shelf in 0..=u8::MAX {
            let shelf = self.objects.join(format!("{shelf:02x}"));
            for entry in fs::read_dir(shelf).map_err(failed())? {
                let entry = entry.map_err(failed())?;
                let Some(id) = entry.file_name().to_str().and_then(FileId::parse) else {
                    continue;
                };
                match entry.metadata() {
                    // It was removed meanwhile.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    found => each(id, found.map_err(failed())?.len())?,
                }
            }
        }
        Ok(())
    }

    /// What lies beside `objects` under that name.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.objects.with_file_name(name)
    }

    /// Removes a file of `objects` that no object has.
    pub(crate) fn drop_settled(&self, id: FileId) -> Result<()> {
        match fs::remove_file(self.in_objects(id)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(Error::io("removing a file without an object")),
        }
    }

    /// Whether a file of that length is in `objects`.
    pub(crate) fn has_settled(&self, id: FileId, len: u64) -> Result<bool> {
        match fs::metadata(self.in_objects(id)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            found => Ok(found.map_err(Error::io("examining an object"))?.len() == len),
        }
    }

    /// Puts what `write` writes into `objects`, durable but for its name: see `sync_settled`. The caller alone uses the folders.
    pub(crate) fn add_settled<T>(
        &self,
        id: FileId,
        write: impl FnOnce(&mut File) -> Result<T>,
    ) -> Result<T> {
        let failed = || Error::io("writing a copy of an object");
        let path = self.in_moving(id);
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&path)
            .map_err(failed())?;
        let written = write(&mut file)
            .and_then(|written| file.sync_all().map(|()| written).map_err(failed()));
        match written {
            Ok(written) => self.settle(id).map(|()| written),
            Err(error) => {
                // The caller learns of the error; what cannot be removed now is at the next opening.
                let _ = fs::remove_file(&path);
                Err(error)
            }
        }
    }

    /// Makes the names of all files in `objects` durable.
    pub(crate) fn sync_settled(&self) -> Result<()> {
        (0..=u8::MAX).try_for_each(|shelf| sync_folder(&self.objects.join(format!("{shelf:02x}"))))
    }

    /// Refuses while no file can be made.
    pub(crate) fn check_usable(&self) -> Result<()> {
        match fs::metadata(&self.moving).is_ok_and(|found| found.is_dir()) {
            true => Ok(()),
            false => Err(Refusal::Busy.into()),
        }
    }

    fn folder_of(&self, aside: Aside) -> (&Path, &File) {
        match aside {
            Aside::Moving => (&self.moving, &self.moving_folder),
            Aside::Kept => (&self.kept, &self.kept_folder),
        }
    }

    fn in_kept(&self, id: FileId) -> PathBuf {
        self.kept.join(id.to_string())
    }

    fn in_moving(&self, id: FileId) -> PathBuf {
        self.moving.join(id.to_string())
    }

    fn in_objects(&self, id: FileId) -> PathBuf {
        let shelf = format!("{:02x}", id.shelf());
        self.objects.join(shelf).join(id.to_string())
    }
}

impl NewFile {
    pub(crate) fn write(&mut self, piece: &[u8]) -> Result<()> {
        let written = self.file.write_all(piece);
        written.map_err(Error::io("writing an object"))
    }

    /// Makes it durable under the name that it has for now.
    pub(crate) fn sync(&self) -> Result<()> {
        let synced = self.file.sync_all();
        synced.map_err(Error::io("syncing an object"))?;
        sync(&self.files.moving_folder)
    }

    /// It stays: the database has it, or may have it.
    pub(crate) fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_kept {
            // What cannot be removed now is at the next start.
            let _ = fs::remove_file(self.files.in_moving(self.id));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use std::os::unix::fs::chown;

    use super::*;

    /// Goal: what root makes in the folder of a server keeps no server from starting, whenever root is killed or fails. Method: as root, with the
    /// database of another user; while it is made, it must not have its name, and a making that fails leaves nothing. Failed before: it had its
    /// name while only root could open it.
    #[test]
    fn what_root_makes_has_its_name_only_once_the_server_can_use_it() {
        const OTHER: u32 = 65_534;
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let place = tempfile::tempdir().unwrap();
        let folder = place.path();
        fs::write(folder.join(DATABASE), "").unwrap();
        chown(folder.join(DATABASE), Some(OTHER), None).unwrap();
        let has = |name: &str| fs::symlink_metadata(folder.join(name)).is_ok();
        make_below(folder, "kept", |path| {
            let made = make_open_folder(path)?;
            assert!(!has("kept"));
            Ok(made)
        })
        .unwrap();
        let kept = fs::symlink_metadata(folder.join("kept")).unwrap();
        assert!(kept.is_dir() && kept.uid() == OTHER);
        let failed = make_below(folder, "backup", |path| {
            File::create_new(path)?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert!(matches!(failed, Err(Error::Io { .. })), "{failed:?}");
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["kept", DATABASE]);
    }
}
