//! A remote that is a folder: on a memory stick, a network share, another disk.
//!
//! Takes   the folder that the user named
//! Gives   an object for each regular file in it
//! Never   follows a link in it, waits on a pipe in it, or leaves part of an object under the object's name
//!
//! The folder store of `object_store` is not used: it follows links, and it creates files by hard links, which memory
//! sticks do not support.

use std::collections::BTreeSet;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rustix::fs::FileType;
use strongroom_folder::{Error as FolderError, Folder, Odd, Oddity, Purpose};

use crate::buffers::Buffer;
use crate::error::{Error, Result};
use crate::limits::LISTED_MAX;
use crate::object_name::{ObjectName, is_object};
use crate::remote::{Created, Listed, Remote};

/// A folder that keeps objects.
#[derive(Debug)]
pub(crate) struct FolderRemote {
    held: Folder,
    /// Kinds whose folders are there durably.
    durable: Mutex<BTreeSet<String>>,
}

impl FolderRemote {
    /// The remote in `path`, which must be there.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        match Folder::open(path) {
            Ok(held) => Ok(Self {
                held,
                durable: Mutex::default(),
            }),
            Err(error) if error.is_missing() => Err(Error::Unreachable(format!(
                "there is no folder {}",
                path.display()
            ))),
            Err(error) => Err(error.into()),
        }
    }

    /// The folder of a kind of object; `None` if there is none.
    fn folder_of(&self, kind: Option<&str>) -> strongroom_folder::Result<Option<Folder>> {
        let found = match kind {
            None => self.held.try_clone(),
            Some(kind) => self.held.folder(kind),
        };
        match found {
            Err(error) if error.is_missing() => Ok(None),
            found => Ok(Some(found?)),
        }
    }

    /// Makes the folder of a kind, durably. One that is there may have been made by a device that was cut off before that was so.
    fn make_folder_of(&self, kind: &str) -> Result<()> {
        let is_made = self.held.make_folder(kind)?;
        let durable = || self.durable.lock().unwrap_or_else(PoisonError::into_inner);
        if is_made || !durable().contains(kind) {
            self.held.sync()?;
            durable().insert(kind.to_owned());
        }
        Ok(())
    }

    /// What `look` finds of an object; if a cut left it with a second name, what it finds without that.
    fn look<T>(
        &self,
        name: &ObjectName,
        look: impl Fn(&str) -> strongroom_folder::Result<T>,
    ) -> strongroom_folder::Result<T> {
        let found = look(name.as_str());
        if is_hard_link(&found)
            && let Some(folder) = self.folder_of(name.split().0)?
            && folder.remove_second_names()?
        {
            return look(name.as_str());
        }
        found
    }

    fn put(&self, name: &ObjectName, bytes: &[u8]) -> Result<Created> {
        let (kind, last) = name.split();
        if let Some(kind) = kind {
            self.make_folder_of(kind)?;
        }
        let folder = match self.folder_of(kind)? {
            Some(folder) => folder,
            None => return Err(io::Error::from(io::ErrorKind::NotFound).into()),
        };
        // Most of the time what is there is the same object: its bytes need not be written first.
        if self.look(name, |_| folder.check_file(last))?.is_some() {
            return already_there(&folder);
        }
        match folder.new_file(bytes)?.put_if_absent(last) {
            Ok(true) => Ok(Created::New),
            Ok(false) => already_there(&folder),
            Err(FolderError::Io(error)) if error.kind() == io::ErrorKind::Unsupported => {
                Err(Error::NoCreateOnly(error.to_string()))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn file(&self, name: &ObjectName) -> Result<Option<std::fs::File>> {
        match self.look(name, |path| self.held.open_file(path, Purpose::Read)) {
            Err(error) if error.is_missing() => Ok(None),
            file => Ok(Some(file?)),
        }
    }
}

fn is_hard_link<T>(found: &strongroom_folder::Result<T>) -> bool {
    matches!(
        found,
        Err(FolderError::Odd(Odd {
            what: Oddity::HardLink,
            ..
        }))
    )
}

/// The object is there. Whoever created it may have been cut off before its name was durable, and the caller relies on it.
fn already_there(folder: &Folder) -> Result<Created> {
    folder.sync()?;
    Ok(Created::AlreadyThere)
}

impl Remote for FolderRemote {
    fn create(&self, name: &ObjectName, bytes: Vec<u8>) -> Result<Created> {
        self.put(name, &bytes)
    }

    fn create_from(&self, name: &ObjectName, buffer: Buffer) -> Result<Created> {
        self.put(name, buffer.as_ref())
    }

    fn read(&self, name: &ObjectName, bytes_max: u64) -> Result<Option<Vec<u8>>> {
        match self.look(name, |path| self.held.read(path, bytes_max)) {
            Err(FolderError::TooLong { max }) => Err(Error::TooLong {
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
        let (mut all, mut is_mended) = (Vec::new(), false);
        for entry in folder.list()? {
            // What is being written, and what no remote has: neither is an object.
            if entry.kind != FileType::RegularFile || !is_object(kind, &entry.name) {
                continue;
            }
            if all.len() == LISTED_MAX {
                return Err(Error::Other(format!("too many {kind}: over {LISTED_MAX}")));
            }
            let mut found = folder.check_file_and_time(&entry.name);
            if is_hard_link(&found) && !is_mended {
                folder.remove_second_names()?;
                found = folder.check_file_and_time(&entry.name);
                is_mended = true;
            }
            // Gone meanwhile, or one of several names of a file.
            if let Ok(Some((len, created_s))) = found {
                all.push(Listed {
                    name: entry.name,
                    len,
                    created_s,
                    kept_until_s: 0,
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
