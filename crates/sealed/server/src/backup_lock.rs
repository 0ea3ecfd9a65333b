//! The lock by which a backup keeps the files of objects that are removed while it is made.
//!
//! Takes   the folder of a server; the time of the newest object in the backup
//! Gives   whether a file must be kept; the lock, which ends with its process
//!
//! The lock is read, taken and narrowed only within a transaction of the database. So each removal either is over before a backup
//! copies the database, or keeps the file. The lock file has the time of the newest object in the backup, as 20 digits; before that
//! is known, it is empty and everything is kept. An object that clients create after that time and then remove is not
//! kept. So quotas still bound the disk, except while there is an object that was created when the clock was
//! ahead.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::files::make_below;

/// The digits of a time.
const DIGITS: usize = 20;

const NAME: &str = "backup";

/// Where it is.
#[derive(Debug)]
pub(crate) struct BackupLock(PathBuf);

/// Held by a backup while this lives.
#[derive(Debug)]
pub(crate) struct Keeping(File);

impl BackupLock {
    /// That of `folder`, made if it is not there.
    pub(crate) fn of(folder: &Path) -> Result<Self> {
        make_below(folder, NAME, |path| {
            let mut options = File::options();
            options.write(true).create_new(true).mode(0o600);
            options.open(path)
        })?;
        let lock = Self(folder.join(NAME));
        lock.open_file()?;
        Ok(lock)
    }

    /// Whether a backup needs the file of an object of that time.
    pub(crate) fn is_needed(&self, created_s: u64) -> Result<bool> {
        if self.alone()?.is_some() {
            return Ok(false);
        }
        let mut text = [0; DIGITS];
        let read = self.open_file()?.read_at(&mut text, 0);
        let read = read.map_err(Error::io("reading the lock of backups"))?;
        let until = std::str::from_utf8(&text[..read])
            .ok()
            .filter(|text| text.len() == DIGITS)
            .and_then(|text| text.parse::<u64>().ok());
        Ok(until.is_none_or(|until| created_s <= until))
    }

    /// The lock for a backup; everything is kept at first.
    ///
    /// # Errors
    /// `BackupRunning`; `Io` if it has other names, perhaps outside of the folder: there it would be written, too.
    pub(crate) fn begin(&self) -> Result<Keeping> {
        let file = self.alone()?.ok_or(Error::BackupRunning)?;
        let written = file.metadata().and_then(|found| match found.nlink() {
            1 => file.set_len(0),
            names => Err(io::Error::other(format!(
                "the file `{NAME}` has {names} names (hard links) instead of one: delete the others"
            ))),
        });
        written.map_err(Error::io(WRITING))?;
        Ok(Keeping(file))
    }

    /// No backup begins while this lives; `None` if one is being made.
    pub(crate) fn alone(&self) -> Result<Option<File>> {
        let file = self.open_file()?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(Error::io("locking against backups")(error.into())),
        }
    }

    fn open_file(&self) -> Result<File> {
        let opened = File::options()
            .read(true)
            .write(true)
            .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
            .open(&self.0);
        let is_own = |file: File| match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::other("it is not a file")),
        };
        opened.and_then(is_own).map_err(Error::io(OPENING))
    }
}

impl Keeping {
    /// From here on only files of objects of that time or before are kept.
    pub(crate) fn only_until(&self, newest_s: u64) -> Result<()> {
        let text = format!("{newest_s:0DIGITS$}");
        let written = self.0.write_all_at(text.as_bytes(), 0);
        written.map_err(Error::io(WRITING))
    }
}

const OPENING: &str = "opening the lock of backups";
const WRITING: &str = "writing the lock of backups";
