//! Unmounts: by umount2(2) for root, by fusermount3 for other users.
//!
//! Takes   the mount point, absolute and free of links
//! Gives   nothing; returns once the kernel has removed the mount from the path
//! Never   follows a link at the end of the path

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::error::MountError;
use crate::in_use::InUse;

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

/// Ends the connection behind `path` at once: every program that waits for an answer gets an error, and the path is
/// freed. `device` is the mount's `major:minor`.
pub(crate) fn abort(path: &Path, device: &str) {
    // Its owner may write this, root or not, where the control file system is mounted.
    let minor = device.rsplit(':').next().unwrap_or(device);
    let by_control = std::fs::write(format!("/sys/fs/fuse/connections/{minor}/abort"), "1");
    let by_force = if by_control.is_err() && is_root() {
        rustix::mount::unmount(path, UnmountFlags::FORCE | UnmountFlags::NOFOLLOW)
    } else {
        Ok(())
    };
    log::debug!("ending the connection: {by_control:?}, {by_force:?}");
    if let Err(error) = detach(path, Detach::Lazily) {
        log::debug!("freeing the mount point: {error}");
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
    use super::*;

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
