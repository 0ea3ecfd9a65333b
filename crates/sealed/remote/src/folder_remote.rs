//! A remote that is a folder: on a memory stick, a network share, another disk.
//!
//! Takes   the folder that the user named
//! Gives   an object for each regular file in it
//! Never   follows a link in it, waits on a pipe in it, or leaves part of an object under the object's name
//!
//! The folder store of `object_store` is not used: it follows links, and it creates files by hard links, which memory
//! sticks do not support.

use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

use rustix::fs::FileType;
use strongroom_folder::{Folder, Purpose};

use crate::error::{Error, Result};
use crate::limits::LISTED_MAX;
use crate::object_name::{ObjectName, is_object};
use crate::remote::{Created, Listed, Remote};

/// A folder that keeps objects.
#[derive(Debug)]
pub(crate) struct FolderRemote {
    held: Folder,
}

impl FolderRemote {
    /// The remote in `path`, which must be there.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        match Folder::open(path) {
            Ok(held) => Ok(Self { held }),
            Err(error) if error.is_missing() => Err(Error::Unreachable(format!(
                "there is no folder {}",
                path.display()
            ))),
            Err(error) => Err(error.into()),
        }
    }

    /// The folder of a kind of object; `None` if there is none.
    fn folder_of(&self, kind: Option<&str>) -> Result<Option<Folder>> {
        let found = match kind {
            None => self.held.try_clone(),
            Some(kind) => self.held.folder(kind),
        };
        match found {
            Err(error) if error.is_missing() => Ok(None),
            found => Ok(Some(found?)),
        }
    }

    fn file(&self, name: &ObjectName) -> Result<Option<std::fs::File>> {
        match self.held.open_file(name.as_str(), Purpose::Read) {
            Err(error) if error.is_missing() => Ok(None),
            file => Ok(Some(file?)),
        }
    }
}

impl Remote for FolderRemote {
    fn create(&self, name: &ObjectName, bytes: Vec<u8>) -> Result<Created> {
        let (kind, last) = name.split();
        if let Some(kind) = kind
            && self.held.make_folder(kind)?
        {
            self.held.sync()?;
        }
        let folder = match self.folder_of(kind)? {
            Some(folder) => folder,
            None => return Err(io::Error::from(io::ErrorKind::NotFound).into()),
        };
        // Most of the time what is there is the same object: its bytes need not be written first.
        if folder.check_file(last)?.is_some() {
            return Ok(Created::AlreadyThere);
        }
        match folder.new_file(&bytes)?.put_if_absent(last) {
            Ok(true) => Ok(Created::New),
            Ok(false) => Ok(Created::AlreadyThere),
            Err(strongroom_folder::Error::Io(error))
                if error.kind() == io::ErrorKind::Unsupported =>
            {
                Err(Error::NoCreateOnly(error.to_string()))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn read(&self, name: &ObjectName, bytes_max: u64) -> Result<Option<Vec<u8>>> {
        match self.held.read(name.as_str(), bytes_max) {
            Err(strongroom_folder::Error::TooLong { max }) => Err(Error::TooLong {
                name: name.to_string(),
                max,
            }),
            read => Ok(read?),
        }
    }

    fn read_range(&self, name: &ObjectName, range: Range<u64>) -> Result<Option<Vec<u8>>> {
        let Some(mut file) = self.file(name)? else {
            return Ok(None);
        };
        file.seek(SeekFrom::Start(range.start))?;
        let mut bytes = Vec::new();
        file.take(range.end.saturating_sub(range.start))
            .read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    fn list(&self, kind: &str) -> Result<Vec<Listed>> {
        let Some(folder) = self.folder_of(Some(kind))? else {
            return Ok(Vec::new());
        };
        let mut all = Vec::new();
        for entry in folder.list()? {
            // What is being written, and what no remote has: neither is an object.
            if entry.kind != FileType::RegularFile || !is_object(kind, &entry.name) {
                continue;
            }
            if all.len() == LISTED_MAX {
                return Err(Error::Other(format!("too many {kind}: over {LISTED_MAX}")));
            }
            // Gone meanwhile, or one of several names of a file.
            if let Ok(Some((len, created_s))) = folder.check_file_and_time(&entry.name) {
                all.push(Listed {
                    name: entry.name,
                    len,
                    created_s,
                });
            }
        }
        Ok(all)
    }

    fn remove(&self, name: &ObjectName) -> Result<()> {
        let (kind, last) = name.split();
        if let Some(folder) = self.folder_of(kind)? {
            folder.remove(last)?;
            folder.sync()?;
        }
        Ok(())
    }

    fn remove_unfinished(&self, kind: &str, before_s: u64) -> Result<()> {
        match self.folder_of(Some(kind))? {
            Some(folder) => Ok(folder.remove_unfinished_before(before_s)?),
            None => Ok(()),
        }
    }
}
