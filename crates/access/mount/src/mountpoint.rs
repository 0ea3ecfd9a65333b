//! Checks whether a folder can be mounted on, and removes a mount there whose process died.
//!
//! Takes   the path that the user gave
//! Gives   the path as the kernel's table shows it, absolute and free of links; and the open folder
//! Never   removes a mount that still answers
//!
//! Invariants
//!  (1) Check and mount use the same open folder. With a path, a user who may rename a parent folder could swap the folder
//!      after the check: root would mount elsewhere.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Dir, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::detach::{self, Detach};
use crate::error::MountError;
use crate::limits;
use crate::mountinfo::mount_at;

/// A folder that can be mounted on.
#[derive(Debug)]
pub(crate) struct MountPoint {
    /// Where it was found: absolute and free of links.
    pub(crate) path: PathBuf,
    /// The folder itself, wherever it is now.                                                                 (1)
    pub(crate) folder: OwnedFd,
}

/// Makes `directory` ready to be mounted on.
pub(crate) fn prepare(directory: &Path) -> Result<MountPoint, MountError> {
    for _ in 0..limits::DEAD_MOUNTS_MAX {
        let path = resolve(directory)?;
        let folder = hold(&path).map_err(|error| refusal(path.clone(), error))?;
        // Attributes of a dead mount the kernel still knows; how full it is only the process behind it could say.
        match rustix::fs::fstatfs(&folder).map_err(io::Error::from) {
            Ok(_) => {
                check_empty(&path, &folder)?;
                return Ok(MountPoint { path, folder });
            }
            Err(error) if is_dead(&error) => remove_dead(&path)?,
            Err(error) => return Err(refusal(path, error)),
        }
    }
    Err(MountError::DeadMount(directory.to_path_buf()))
}

/// Opens the directory at `path`, which has no link in it: one that is met was put there just now.            (1)
fn hold(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        // Before Linux 5.6, or forbidden to a container: the last step is looked at, those before are not.
        Err(Errno::NOSYS | Errno::PERM) => Ok(rustix::fs::open(path, flags, Mode::empty())?),
        held => Ok(held?),
    }
}

/// The absolute path of `directory`, without asking a file system that may be mounted on it.
///
/// The last component is taken as it is unless it is a link: asking a dead mount fails.
pub(crate) fn resolve(directory: &Path) -> Result<PathBuf, MountError> {
    let refuse = |error| refusal(directory.to_path_buf(), error);
    let Some(name) = directory.file_name() else {
        // `/`, or something that ends in `..`: nothing of ours can be dead there.
        return directory.canonicalize().map_err(refuse);
    };
    let is_link = std::fs::symlink_metadata(directory).is_ok_and(|metadata| metadata.is_symlink());
    if is_link {
        let target = std::fs::read_link(directory).map_err(refuse)?;
        let target = directory.parent().unwrap_or(Path::new("")).join(target);
        // A link to a link is left to the system, which knows loops.
        let is_chain =
            std::fs::symlink_metadata(&target).is_ok_and(|metadata| metadata.is_symlink());
        return if is_chain {
            target.canonicalize().map_err(refuse)
        } else {
            resolve(&target)
        };
    }
    let parent = match directory.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    Ok(parent.canonicalize().map_err(refuse)?.join(name))
}

fn check_empty(path: &Path, folder: &OwnedFd) -> Result<(), MountError> {
    if mount_at(path)?.is_some_and(|entry| entry.file_system_type.starts_with("fuse")) {
        return Err(MountError::AlreadyMounted(path.to_path_buf()));
    }
    let refuse = |errno: Errno| refusal(path.to_path_buf(), errno.into());
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let listed = rustix::fs::openat(folder, ".", flags, Mode::empty()).map_err(refuse)?;
    for entry in Dir::new(listed).map_err(refuse)? {
        let entry = entry.map_err(refuse)?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            return Err(MountError::MountPointNotEmpty(path.to_path_buf()));
        }
    }
    Ok(())
}

/// "Transport endpoint is not connected": the process that answered for this mount has gone.
fn is_dead(error: &io::Error) -> bool {
    let dead = [Errno::NOTCONN, Errno::CONNABORTED];
    error
        .raw_os_error()
        .is_some_and(|number| dead.iter().any(|errno| errno.raw_os_error() == number))
}

fn remove_dead(path: &Path) -> Result<(), MountError> {
    let is_fuse = mount_at(path)?.is_some_and(|entry| entry.file_system_type.starts_with("fuse"));
    if !is_fuse {
        return Err(MountError::DeadMount(path.to_path_buf()));
    }
    detach::detach(path, Detach::Lazily).map_err(|_| MountError::DeadMount(path.to_path_buf()))
}

fn refusal(path: PathBuf, error: io::Error) -> MountError {
    match error.kind() {
        io::ErrorKind::NotFound => MountError::MountPointMissing(path),
        io::ErrorKind::NotADirectory => MountError::MountPointNotADirectory(path),
        io::ErrorKind::PermissionDenied => MountError::Permission(path),
        _ if is_dead(&error) => MountError::DeadMount(path),
        _ => MountError::Io {
            what: "looking at the mount point",
            source: error,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_mounted_on_is_refused_by_its_reason() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        assert!(matches!(
            prepare(&root.join("none")),
            Err(MountError::MountPointMissing(_))
        ));
        std::fs::write(root.join("file"), b"x").unwrap();
        assert!(matches!(
            prepare(&root.join("file")),
            Err(MountError::MountPointNotADirectory(_))
        ));
        assert!(matches!(
            prepare(&root.join("file/x")),
            Err(MountError::MountPointNotADirectory(_))
        ));
        assert!(matches!(
            prepare(&root),
            Err(MountError::MountPointNotEmpty(_))
        ));
        std::fs::create_dir(root.join("empty")).unwrap();
        assert_eq!(
            prepare(&root.join("empty")).unwrap().path,
            root.join("empty")
        );
    }

    #[test]
    fn links_and_dots_are_resolved_to_the_place_the_kernel_names() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::os::unix::fs::symlink("a/b", root.join("link")).unwrap();
        std::os::unix::fs::symlink("link", root.join("chain")).unwrap();
        std::os::unix::fs::symlink("loop", root.join("loop")).unwrap();
        for path in ["a/b", "a/../a/b", "link", "chain", "a/b/", "a/b/."] {
            assert_eq!(
                resolve(&root.join(path)).unwrap(),
                root.join("a/b"),
                "{path}"
            );
        }
        assert!(resolve(&root.join("loop")).is_err());
    }

    #[test]
    fn a_link_that_was_put_above_the_folder_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::os::unix::fs::symlink("a", root.join("link")).unwrap();
        assert!(hold(&root.join("a/b")).is_ok());
        assert!(hold(&root.join("link/b")).is_err());
        assert!(hold(&root.join("link")).is_err());
    }

    #[test]
    fn only_a_lost_connection_counts_as_dead() {
        assert!(is_dead(&io::Error::from_raw_os_error(107)));
        assert!(is_dead(&io::Error::from_raw_os_error(103)));
        assert!(!is_dead(&io::Error::from_raw_os_error(2)));
        assert!(!is_dead(&io::Error::other("x")));
    }
}
