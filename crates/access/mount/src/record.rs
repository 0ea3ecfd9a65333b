//! The record of a running mount: a locked file, so that a process that unmounts can wait for the process of the mount.
//!
//! Takes   the mount point
//! Gives   a file in the user's private runtime folder, locked while the mount exists. It names the process, shows how
//!         much is still to be stored at the end, and says in its last line how the mount ended
//! Never   trusts a folder that another user could have made
//!
//! Invariants
//!  (1) The lock is taken before the mount exists and released after everything is durable.
//!  (2) The last line is written only after the result of the final sync is known.
//!  (3) A process is waited for only if the record was still locked after the process was looked up, because its number
//!      could have been reused.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FlockOperation;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use strongroom::{PrivateFolders, WatchedName};

use crate::error::MountError;
use crate::limits;

const ENDED_WELL: &str = "ended: ok";
const ENDED_BADLY: &str = "ended: ";
const PID: &str = "pid: ";
const LEFT: &str = "left: ";
/// Written by a process that is there for its mount only.
const ENDS_TOO: &str = "the process ends with the mount";

/// The record of a mount of this process. Dropping it releases the lock.
pub(crate) struct Record {
    file: File,
    path: PathBuf,
    /// Its folder may go while the mount lives, with the session of its user.
    kept: Arc<WatchedName>,
}

/// The record of somebody's mount, to wait on.
pub(crate) struct Watched {
    file: File,
    /// The process behind it, if it lives.                                                                     (3)
    process: Option<OwnedFd>,
}

/// How far a mount is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The kernel has not ended it.
    Served,
    /// So many bytes are not stored yet.
    Storing(u64),
    /// Everything is stored; the process has not ended yet.
    Leaving,
    Ended(Ending),
}

/// How a mount ended, as its record says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Durable,
    Failed(String),
    /// The process ended without a word.
    Unconfirmed,
}

impl Record {
    /// Makes and locks the record of `mount_point`. `AlreadyMounted` if a process holds it: one that
    /// mounts here now, or one whose mount is out of sight but still drains.
    pub(crate) fn take(mount_point: &Path) -> Result<Self, MountError> {
        let folder = PrivateFolders::own().first(|folder| Ok(folder.to_owned()));
        let folder = folder.map_err(|why| MountError::Io {
            what: "making the private runtime folder",
            source: io::Error::other(why),
        })?;
        Self::take_in(&folder, mount_point)
    }

    fn take_in(folder: &Path, mount_point: &Path) -> Result<Self, MountError> {
        let path = folder.join(file_name(mount_point));
        let wrap = MountError::io("writing the runtime record");
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
            .open(&path)
            .map_err(wrap)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(MountError::AlreadyMounted(mount_point.to_path_buf()));
            }
            Err(errno) => {
                return Err(MountError::Io {
                    what: "locking the runtime record",
                    source: errno.into(),
                });
            }
        }
        let kept = Arc::new(WatchedName::of(&path));
        let mut record = Self { file, path, kept };
        record
            .begin(mount_point)
            .map_err(MountError::io("writing the runtime record"))?;
        Ok(record)
    }

    fn begin(&mut self, mount_point: &Path) -> io::Result<()> {
        self.file.set_len(0)?;
        writeln!(self.file, "{PID}{}", std::process::id())?;
        self.file.write_all(b"mount point: ")?;
        self.file.write_all(mount_point.as_os_str().as_bytes())?;
        self.file.write_all(b"\n")
    }

    /// What tells when it is time to `come_back`.
    pub(crate) fn kept(&self) -> Arc<WatchedName> {
        Arc::clone(&self.kept)
    }

    /// Makes the record again, somewhere else, if it is gone.
    pub(crate) fn come_back(&mut self, mount_point: &Path) -> Result<(), MountError> {
        if !self.kept.is_gone() {
            return Ok(());
        }
        let text = text_of(&self.file).map_err(MountError::io("reading the runtime record"))?;
        let mut again = Self::take(mount_point)?;
        if text.lines().any(|line| line == ENDS_TOO) {
            again.process_ends_too();
        }
        *self = again;
        Ok(())
    }

    /// Notes that this process ends with the mount: who unmounts then waits for that.
    pub(crate) fn process_ends_too(&mut self) {
        // Without it who unmounts waits for the mount only.
        let _ = writeln!(self.file, "{ENDS_TOO}");
    }

    /// Notes that the mount is ending and how much is left to store, in the place of what was noted before.
    pub(crate) fn left(&self, bytes: u64) {
        let noted = self.end_of_text().and_then(|offset| {
            let line = format!("{LEFT}{bytes:020}\n");
            self.file.write_all_at(line.as_bytes(), offset)
        });
        if let Err(error) = noted {
            log::debug!("the amount that is left to store could not be recorded: {error}");
        }
    }

    /// Where the next line goes: writes at an offset do not move it.
    fn end_of_text(&self) -> io::Result<u64> {
        (&self.file).stream_position()
    }

    /// Says how the mount ended and releases the lock.
    pub(crate) fn end(mut self, result: &Result<(), String>) {
        let line = match result {
            Ok(()) => format!("{ENDED_WELL}\n"),
            Err(reason) => format!("{ENDED_BADLY}{}\n", reason.replace('\n', " ")),
        };
        // A record that cannot be written reads as unconfirmed, which is the cautious answer; and one
        // that cannot be removed is overwritten by the next mount.
        let _ = self.file.seek(io::SeekFrom::End(0));
        let _ = self.file.write_all(line.as_bytes());
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Watched {
    /// Opens the record of `mount_point`, mounted by user `mounted_by`; `None` if there is none.
    pub(crate) fn open(mount_point: &Path, mounted_by: u32) -> Option<Self> {
        let name = file_name(mount_point);
        PrivateFolders::of(mounted_by)
            .existing()
            .iter()
            .find_map(|folder| Self::open_in(folder, &name, mounted_by))
    }

    fn open_in(folder: &Path, name: &str, owner: u32) -> Option<Self> {
        let nofollow = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(nofollow)
            .open(folder.join(name))
            .ok()?;
        let is_owners = file
            .metadata()
            .is_ok_and(|metadata| metadata.is_file() && metadata.uid() == owner);
        let mut watched = is_owners.then_some(Self {
            file,
            process: None,
        })?;
        watched.process = watched.find_process();
        Some(watched)
    }

    /// The process behind the mount, if it ends with it.                                                       (3)
    fn find_process(&self) -> Option<OwnedFd> {
        let text = self.text().ok()?;
        let number = text.lines().find_map(|line| line.strip_prefix(PID))?;
        let number: i32 = number.parse().ok()?;
        if number.unsigned_abs() == std::process::id() {
            return None;
        }
        let process = pidfd_open(Pid::from_raw(number)?, PidfdFlags::empty()).ok()?;
        let lives = !self.is_over().ok()?;
        lives.then_some(process)
    }

    /// How far the mount is.
    pub(crate) fn stage(&self) -> Result<Stage, MountError> {
        // The text is read after the lock was looked at: a mount that is over says no more.
        let is_over = self.is_over()?;
        let text = self
            .text()
            .map_err(MountError::io("reading the runtime record"))?;
        if !is_over {
            let left = text.lines().find_map(|line| line.strip_prefix(LEFT));
            let left = left.and_then(|bytes| bytes.parse().ok());
            return Ok(left.map_or(Stage::Served, Stage::Storing));
        }
        let ends_too = text.lines().any(|line| line == ENDS_TOO);
        Ok(if ends_too && self.process_lives() {
            Stage::Leaving
        } else {
            Stage::Ended(ending(&text))
        })
    }

    /// Waits for at most `time` for the process to end, or, if the mount ends without it, for that time.
    pub(crate) fn pause(&self, time: Duration) {
        let time = Timespec::try_from(time).ok();
        let waited = match &self.process {
            // One that has ended is waited for no more; what is left is to read how.
            Some(process) => poll(&mut [PollFd::new(process, PollFlags::IN)], time.as_ref()),
            None => poll(&mut [], time.as_ref()),
        };
        if let Err(error) = waited {
            log::debug!("waiting for the mount's process: {error}");
        }
    }

    /// Whether the lock was given back.
    fn is_over(&self) -> Result<bool, MountError> {
        let locked = rustix::io::retry_on_intr(|| {
            rustix::fs::flock(&self.file, FlockOperation::NonBlockingLockShared)
        });
        match locked {
            // Not kept: whoever mounts here next must get it.
            Ok(()) => {
                let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
                Ok(true)
            }
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
            Err(errno) => Err(MountError::Io {
                what: "waiting for the mount's process",
                source: errno.into(),
            }),
        }
    }

    fn process_lives(&self) -> bool {
        let Some(process) = &self.process else {
            return false;
        };
        let now = Timespec::default();
        let ended = poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&now));
        ended == Ok(0)
    }

    fn text(&self) -> io::Result<String> {
        text_of(&self.file)
    }
}

fn text_of(file: &File) -> io::Result<String> {
    let mut bytes = vec![0; limits::RECORD_BYTES_MAX];
    let mut len = 0;
    while len < bytes.len() {
        match file.read_at(&mut bytes[len..], len as u64)? {
            0 => break,
            count => len += count,
        }
    }
    Ok(String::from_utf8_lossy(&bytes[..len]).into_owned())
}

fn ending(record: &str) -> Ending {
    match record.lines().last() {
        Some(ENDED_WELL) => Ending::Durable,
        Some(line) => line
            .strip_prefix(ENDED_BADLY)
            .map_or(Ending::Unconfirmed, |reason| {
                Ending::Failed(reason.to_owned())
            }),
        None => Ending::Unconfirmed,
    }
}

/// A name of fixed length for a path of any: FNV-1a of 64 bits, which only names a file of the same user.
fn file_name(mount_point: &Path) -> String {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let hash = mount_point
        .as_os_str()
        .as_bytes()
        .iter()
        .fold(BASIS, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(PRIME)
        });
    format!("mount-{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched(folder: &Path, mount_point: &Path) -> Option<Watched> {
        let uid = rustix::process::geteuid().as_raw();
        Watched::open_in(folder, &file_name(mount_point), uid)
    }

    #[test]
    fn who_waits_learns_how_the_mount_ended() {
        let folder = tempfile::tempdir().unwrap();
        let place = Path::new("/mnt/x");
        for (result, expected) in [
            (Ok(()), Ending::Durable),
            (
                Err("disk\nfull".to_owned()),
                Ending::Failed("disk full".to_owned()),
            ),
        ] {
            let record = Record::take_in(folder.path(), place).unwrap();
            let watched = watched(folder.path(), place).unwrap();
            assert_eq!(watched.stage().unwrap(), Stage::Served);
            record.left(1 << 30);
            assert_eq!(watched.stage().unwrap(), Stage::Storing(1 << 30));
            record.left(7);
            assert_eq!(watched.stage().unwrap(), Stage::Storing(7));
            record.end(&result);
            assert_eq!(watched.stage().unwrap(), Stage::Ended(expected));
        }
        assert!(watched(folder.path(), place).is_none());
    }

    #[test]
    fn a_process_that_just_disappears_confirms_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let place = Path::new("/mnt/x");
        drop(Record::take_in(folder.path(), place).unwrap());
        assert_eq!(
            watched(folder.path(), place).unwrap().stage().unwrap(),
            Stage::Ended(Ending::Unconfirmed)
        );
    }

    #[test]
    fn two_mounts_of_one_place_exclude_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let place = Path::new("/mnt/x");
        let record = Record::take_in(folder.path(), place).unwrap();
        assert!(matches!(
            Record::take_in(folder.path(), place),
            Err(MountError::AlreadyMounted(_))
        ));
        assert!(Record::take_in(folder.path(), Path::new("/mnt/y")).is_ok());
        drop(record);
        assert!(Record::take_in(folder.path(), place).is_ok());
    }

    #[test]
    fn an_unfinished_or_strange_record_confirms_nothing() {
        assert_eq!(ending(""), Ending::Unconfirmed);
        assert_eq!(ending("pid: 7\nmount point: /x\n"), Ending::Unconfirmed);
        assert_eq!(ending("ended: ok\npid: 7\n"), Ending::Unconfirmed);
        assert_eq!(ending("pid: 7\nended: ok\n"), Ending::Durable);
    }
}
