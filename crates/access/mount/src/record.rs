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

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

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
        let uid = rustix::process::geteuid().as_raw();
        let folder = first_usable(
            &folders(uid, std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from)),
            uid,
        )?;
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
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let name = file_name(mount_point);
        folders(mounted_by, runtime)
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

/// Where records of `uid` may lie, in the order of preference.
fn folders(uid: u32, runtime: Option<PathBuf>) -> Vec<PathBuf> {
    let of_session = runtime
        .filter(|path| path.is_absolute())
        .map(|path| path.join("strongroom"));
    let of_user = [
        format!("/run/user/{uid}/strongroom"),
        format!("/tmp/strongroom-{uid}"),
    ];
    of_session
        .into_iter()
        .chain(of_user.into_iter().map(PathBuf::from))
        .collect()
}

/// The first folder that can be made, belongs to `uid` and is closed to everybody else.
fn first_usable(folders: &[PathBuf], uid: u32) -> Result<PathBuf, MountError> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for folder in folders {
        match make_private(folder, uid) {
            Ok(()) => return Ok(folder.clone()),
            Err(error) => last = error,
        }
    }
    Err(MountError::Io {
        what: "making the private runtime folder",
        source: last,
    })
}

fn make_private(folder: &Path, uid: u32) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let metadata = std::fs::symlink_metadata(folder)?;
    if metadata.is_dir() && metadata.uid() == uid && metadata.mode() & 0o077 == 0 {
        Ok(())
    } else {
        Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "the folder is not private",
        ))
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
    use std::os::unix::fs::PermissionsExt;

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
    fn a_folder_that_others_could_enter_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let uid = rustix::process::geteuid().as_raw();
        let (open, private) = (folder.path().join("open"), folder.path().join("private"));
        std::fs::create_dir(&open).unwrap();
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o755)).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&open, &link).unwrap();
        let missing = folder.path().join("no/such");
        let candidates = [open.clone(), link, missing, private.clone()];
        assert_eq!(first_usable(&candidates, uid).unwrap(), private);
        assert!(first_usable(&[open], uid).is_err());
        assert!(first_usable(&[private], uid + 1).is_err());
    }

    #[test]
    fn an_unfinished_or_strange_record_confirms_nothing() {
        assert_eq!(ending(""), Ending::Unconfirmed);
        assert_eq!(ending("pid: 7\nmount point: /x\n"), Ending::Unconfirmed);
        assert_eq!(ending("ended: ok\npid: 7\n"), Ending::Unconfirmed);
        assert_eq!(ending("pid: 7\nended: ok\n"), Ending::Durable);
    }
}
