//! Unmounts: by umount2(2) for root, by fusermount3 for other users.
//!
//! Takes   the mount point, absolute and free of links
//! Gives   nothing; returns once the kernel has removed the mount from the path
//! Never   follows a link at the end of the path. Never unmounts another file system that is mounted at the path of an
//!         `OwnMount`

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::error::MountError;
use crate::in_use::InUse;
use crate::mountinfo::{MountEntry, mount_at, mounts};
use crate::options::TYPE;

/// What to do about files that are open in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detach {
    /// Refuse with `Busy`.
    IfUnused,
    /// Take it out of sight; it ends with its last user.
    Lazily,
    /// As `IfUnused`, and only if nothing looked into it since the last such call; else `Busy`. Root only.
    IfUntouched,
}

/// Whether this process mounts by itself.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Unmounts `path`. `NotMounted` if nothing is mounted there.
pub(crate) fn detach(path: &Path, how: Detach) -> Result<(), MountError> {
    if is_root() {
        directly(path, how)
    } else {
        through_helper(path, how)
    }
}

/// A mount that this process made.
#[derive(Clone, Debug)]
pub(crate) struct OwnMount {
    /// Where it was made, absolute and free of links.
    pub(crate) path: PathBuf,
    /// Its `major:minor`. No other file system has the same as long as this one is mounted anywhere.
    pub(crate) device: String,
}

/// What is seen of a mount at the place where it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sight {
    Seen,
    /// Another file system is mounted over it.
    Covered,
    Gone,
}

impl OwnMount {
    /// The mount of `device` that was just made at `path`, and `device`. `NotMounted` if it is not there. If the table of mounts
    /// cannot be read, the mount is taken away, provided that a second look finds it.
    pub(crate) fn of(device: OwnedFd, path: &Path) -> Result<(Self, OwnedFd), MountError> {
        Self::found(
            device,
            path,
            || mount_at(path),
            |mount| {
                // The first error is reported.
                let _ = mount.detach(Detach::Lazily);
            },
        )
    }

    /// As `of`: `look` says what is mounted at `path`. `take_away` gets the mount if only a second look finds it.
    fn found<D>(
        device: D,
        path: &Path,
        look: impl Fn() -> Result<Option<MountEntry>, MountError>,
        take_away: impl FnOnce(&Self),
    ) -> Result<(Self, D), MountError> {
        let at_path = || match look()? {
            Some(entry) if entry.file_system_type == TYPE => Ok(Self {
                path: path.to_path_buf(),
                device: entry.device,
            }),
            _ => Err(MountError::NotMounted(path.to_path_buf())),
        };
        match at_path() {
            Ok(mount) => Ok((mount, device)),
            Err(error) => {
                // Nobody waits for an answer of it then, and the second look may need the descriptor.
                drop(device);
                if !matches!(error, MountError::NotMounted(_))
                    && let Ok(mount) = at_path()
                {
                    take_away(&mount);
                }
                Err(error)
            }
        }
    }

    /// Takes it away. `NotMounted` if it is not at its place any more, `Busy` if something is mounted over it.
    ///
    /// The kernel unmounts by path, so what is mounted there between this look and the unmount would be taken away.
    pub(crate) fn detach(&self, how: Detach) -> Result<(), MountError> {
        match self.sight(&mounts()?) {
            Sight::Seen => detach(&self.path, how),
            Sight::Covered => Err(MountError::Busy(InUse {
                mounts: vec![self.path.clone()],
                ..InUse::somehow(&self.path)
            })),
            Sight::Gone => Err(MountError::NotMounted(self.path.clone())),
        }
    }

    /// Whether its path leads to it.
    pub(crate) fn is_seen(&self) -> bool {
        mounts().is_ok_and(|mounts| self.sight(&mounts) == Sight::Seen)
    }

    /// What `mounts`, oldest first, say of it.
    fn sight(&self, mounts: &[MountEntry]) -> Sight {
        let is_it =
            |entry: &MountEntry| entry.device == self.device && entry.file_system_type == TYPE;
        let mut here = mounts.iter().rev();
        let topmost = here.find(|entry| entry.mount_point == self.path);
        if topmost.is_some_and(is_it) {
            Sight::Seen
        } else if here.any(|entry| entry.mount_point == self.path && is_it(entry)) {
            Sight::Covered
        } else {
            Sight::Gone
        }
    }

    /// Ends the connection at once: every program that waits for an answer gets an error, and the path is freed unless
    /// something else is seen there.
    pub(crate) fn abort(&self) {
        // Its owner may write this, root or not, where the control file system is mounted.
        let minor = self.device.rsplit(':').next().unwrap_or(&self.device);
        let by_control = std::fs::write(format!("/sys/fs/fuse/connections/{minor}/abort"), "1");
        let by_force = if by_control.is_err() && is_root() && self.is_seen() {
            rustix::mount::unmount(&self.path, UnmountFlags::FORCE | UnmountFlags::NOFOLLOW)
        } else {
            Ok(())
        };
        log::debug!("ending the connection: {by_control:?}, {by_force:?}");
        if let Err(error) = self.detach(Detach::Lazily) {
            log::debug!("freeing the mount point: {error}");
        }
    }
}

fn directly(path: &Path, how: Detach) -> Result<(), MountError> {
    let flags = UnmountFlags::NOFOLLOW
        | match how {
            Detach::IfUnused => UnmountFlags::empty(),
            Detach::Lazily => UnmountFlags::DETACH,
            Detach::IfUntouched => UnmountFlags::EXPIRE,
        };
    rustix::mount::unmount(path, flags).map_err(|errno| match errno {
        // EAGAIN: marked as untouched from now on.
        Errno::BUSY | Errno::AGAIN => MountError::Busy(InUse::somehow(path)),
        Errno::INVAL | Errno::NOENT => MountError::NotMounted(path.to_path_buf()),
        Errno::PERM | Errno::ACCESS => MountError::Permission(path.to_path_buf()),
        errno => MountError::Io {
            what: "umount",
            source: errno.into(),
        },
    })
}

fn through_helper(path: &Path, how: Detach) -> Result<(), MountError> {
    for helper in ["fusermount3", "fusermount"] {
        let mut command = Command::new(helper);
        command.arg("-u");
        if how == Detach::Lazily {
            command.arg("-z");
        }
        command
            .arg("--")
            .arg(path)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        match command.output() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(MountError::Io {
                    what: "starting fusermount3",
                    source: error,
                });
            }
            Ok(output) if output.status.success() => return Ok(()),
            Ok(output) => return Err(refusal(path, &String::from_utf8_lossy(&output.stderr))),
        }
    }
    Err(MountError::HelperMissing)
}

fn refusal(path: &Path, words: &str) -> MountError {
    if words.contains("busy") {
        MountError::Busy(InUse::somehow(path))
    } else if ["not found in", "not mounted", "Invalid argument"]
        .iter()
        .any(|word| words.contains(word))
    {
        MountError::NotMounted(path.to_path_buf())
    } else {
        MountError::HelperRefused(words.trim().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;
    use crate::mountinfo::entries;

    /// Goal: a mount that was just made does not stay, without an answer, where the table of mounts cannot be read. Method: looks
    /// that fail once or twice, or show another file system. Failed before: the first error was returned, and the mount stayed.
    #[test]
    fn a_new_mount_is_taken_away_if_it_cannot_be_looked_up() {
        let own = "36 25 0:52 / /mnt/p rw - fuse.strongroom vault rw,user_id=0\n";
        let disk = "37 36 8:17 / /mnt/p rw - ext4 /dev/sdb1 rw\n";
        let found = |failures: usize, line: &str| {
            let looks = Cell::new(0);
            let look = || {
                looks.set(looks.get() + 1);
                if looks.get() <= failures {
                    return Err(MountError::Io {
                        what: "reading /proc/self/mountinfo",
                        source: io::Error::other("too many open files"),
                    });
                }
                Ok(entries(line.as_bytes()).last())
            };
            let device = Rc::new(());
            let of_test = Rc::clone(&device);
            let mut taken_away = None;
            let take_away = |mount: &OwnMount| {
                assert_eq!(Rc::strong_count(&of_test), 1, "the device is closed");
                taken_away = Some(mount.device.clone());
            };
            let found = OwnMount::found(device, Path::new("/mnt/p"), look, take_away);
            let found = match found {
                Ok((mount, _)) => mount.device,
                Err(MountError::NotMounted(_)) => "not mounted".to_owned(),
                Err(_) => "not known".to_owned(),
            };
            (found, taken_away)
        };
        assert_eq!(found(0, own), ("0:52".to_owned(), None));
        assert_eq!(found(0, disk), ("not mounted".to_owned(), None));
        let not_known = "not known".to_owned();
        let taken_away = Some("0:52".to_owned());
        assert_eq!(found(1, own), (not_known.clone(), taken_away));
        assert_eq!(found(1, disk), (not_known.clone(), None));
        assert_eq!(found(2, own), (not_known, None));
    }

    /// Goal: a mount that ends takes only itself away, whether it is a signal, a panic or idleness that ends it. Method: tables
    /// of mounts in which the place or the device of this mount is that of another.
    /// Failed before: whatever was mounted at the path was unmounted.
    #[test]
    fn a_mount_is_not_taken_for_another_file_system_at_its_place() {
        let mount = OwnMount {
            path: "/mnt/p".into(),
            device: "0:52".to_owned(),
        };
        let own = "36 25 0:52 / /mnt/p rw - fuse.strongroom vault rw,user_id=0\n";
        let disk = "37 36 8:17 / /mnt/p rw - ext4 /dev/sdb1 rw\n";
        let another = "38 36 0:53 / /mnt/p rw - fuse.strongroom vault rw,user_id=0\n";
        let reused = "39 25 0:52 / /mnt/p rw - tmpfs none rw\n";
        let elsewhere = "40 25 0:52 / /mnt/q rw - fuse.strongroom vault rw,user_id=0\n";
        let seen = |lines: &[&str]| {
            let table: Vec<_> = entries(lines.concat().as_bytes()).collect();
            assert_eq!(table.len(), lines.len());
            mount.sight(&table)
        };
        assert_eq!(seen(&[own, elsewhere]), Sight::Seen);
        assert_eq!(seen(&[disk, own]), Sight::Seen);
        assert_eq!(seen(&[own, disk]), Sight::Covered);
        assert_eq!(seen(&[own, another, disk]), Sight::Covered);
        for lines in [&[disk][..], &[another], &[reused], &[elsewhere], &[]] {
            assert_eq!(seen(lines), Sight::Gone, "{lines:?}");
        }
    }

    #[test]
    fn the_words_of_the_helper_are_understood() {
        let path = Path::new("/mnt");
        let busy = "fusermount3: failed to unmount /mnt: Device or resource busy";
        assert!(matches!(refusal(path, busy), MountError::Busy(_)));
        let none = "fusermount3: entry for /mnt not found in /etc/mtab";
        assert!(matches!(refusal(path, none), MountError::NotMounted(_)));
        assert!(matches!(
            refusal(path, "anything else"),
            MountError::HelperRefused(_)
        ));
    }
}
