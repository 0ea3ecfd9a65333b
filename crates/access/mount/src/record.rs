//! The record of a running mount: a locked file, so that who unmounts can wait for the process behind it.
//!
//! Takes   the mount point
//! Gives   a file in the user's private runtime folder, locked while the process lives; its last line
//!         says how the mount ended
//! Never   trusts a folder that another user could have made
//!
//! Invariants
//!  (1) The lock is taken before the mount exists and released after everything is durable.
//!  (2) The last line is written only after the final sync gave its result.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use strongroom::PrivateFolders;

use crate::error::MountError;
use crate::limits;

const ENDED_WELL: &str = "ended: ok";
const ENDED_BADLY: &str = "ended: ";

/// The record of a mount of this process. Dropping it releases the lock.
pub(crate) struct Record {
    file: File,
    path: PathBuf,
}

/// The record of somebody's mount, to wait on.
pub(crate) struct Watched {
    file: File,
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
        let mut record = Self { file, path };
        record
            .begin(mount_point)
            .map_err(MountError::io("writing the runtime record"))?;
        Ok(record)
    }

    fn begin(&mut self, mount_point: &Path) -> io::Result<()> {
        self.file.set_len(0)?;
        writeln!(self.file, "pid: {}", std::process::id())?;
        self.file.write_all(b"mount point: ")?;
        self.file.write_all(mount_point.as_os_str().as_bytes())?;
        self.file.write_all(b"\n")
    }

    /// Says how the mount ended and releases the lock.
    pub(crate) fn end(mut self, result: &Result<(), String>) {
        let line = match result {
            Ok(()) => format!("{ENDED_WELL}\n"),
            Err(reason) => format!("{ENDED_BADLY}{}\n", reason.replace('\n', " ")),
        };
        // A record that cannot be written reads as unconfirmed, which is the cautious answer; and one
        // that cannot be removed is overwritten by the next mount.
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
        is_owners.then_some(Self { file })
    }

    /// Waits until the process behind the mount has ended it, and says how.
    pub(crate) fn wait(mut self) -> Result<Ending, MountError> {
        rustix::io::retry_on_intr(|| rustix::fs::flock(&self.file, FlockOperation::LockShared))
            .map_err(|errno| MountError::Io {
                what: "waiting for the mount's process",
                source: errno.into(),
            })?;
        let mut bytes = Vec::new();
        (&mut self.file)
            .take(limits::RECORD_BYTES_MAX)
            .read_to_end(&mut bytes)
            .map_err(MountError::io("reading the runtime record"))?;
        Ok(ending(&String::from_utf8_lossy(&bytes)))
    }
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
            let waiting = std::thread::spawn(move || watched.wait().unwrap());
            record.end(&result);
            assert_eq!(waiting.join().unwrap(), expected);
        }
        assert!(watched(folder.path(), place).is_none());
    }

    #[test]
    fn a_process_that_just_disappears_confirms_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let place = Path::new("/mnt/x");
        drop(Record::take_in(folder.path(), place).unwrap());
        assert_eq!(
            watched(folder.path(), place).unwrap().wait().unwrap(),
            Ending::Unconfirmed
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
