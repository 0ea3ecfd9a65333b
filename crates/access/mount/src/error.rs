//! Why mounting or unmounting failed, and what the user can do next.

use std::io;
use std::path::PathBuf;

use crate::in_use::{InUse, Waiting};

/// Why mounting or unmounting failed. The side at fault is said with each variant.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MountError {
    /// Environment: no FUSE in this kernel.
    #[error(
        "/dev/fuse is missing; load the kernel module with `modprobe fuse`, or give the container the device"
    )]
    DeviceMissing,
    /// Environment: only root mounts without `fusermount3`.
    #[error("fusermount3 is missing; install the package fuse3, or mount as root")]
    HelperMissing,
    /// Environment: `fusermount3` refused. Its own words.
    #[error("fusermount3 refused: {0}")]
    HelperRefused(String),
    /// Environment: `user_allow_other` is not set.
    #[error(
        "allow-other is not permitted here; add the line user_allow_other to /etc/fuse.conf, or leave the option out"
    )]
    AllowOtherNotPermitted,
    /// Caller: no such folder.
    #[error("the mount point {} does not exist; make it with mkdir", .0.display())]
    MountPointMissing(PathBuf),
    /// Caller: a file or something else.
    #[error("the mount point {} is not a directory", .0.display())]
    MountPointNotADirectory(PathBuf),
    /// Caller: what lies in it would be hidden.
    #[error("the mount point {} is not empty; choose an empty directory", .0.display())]
    MountPointNotEmpty(PathBuf),
    /// Caller: a FUSE file system is there already.
    #[error("{} is mounted already; unmount it first with `strongroom umount`", .0.display())]
    AlreadyMounted(PathBuf),
    /// Caller: nothing of ours is mounted there.
    #[error("{} is not a strongroom mount", .0.display())]
    NotMounted(PathBuf),
    /// Caller: files are open, or it is the working directory of a process.
    #[error("{0}")]
    Busy(InUse),
    /// Environment: a dead mount that cannot be removed.
    #[error("{} is a dead mount that could not be removed; run `umount -l` on it as root", .0.display())]
    DeadMount(PathBuf),
    /// Environment: the kernel refused.
    #[error("permission denied on {}; you must own the mount point, and a container needs the right to mount", .0.display())]
    Permission(PathBuf),
    /// Caller: options that exclude each other.
    #[error("{0}")]
    OptionConflict(&'static str),
    /// Environment: the daemon went away without saying that all is durable.
    #[error("unmounted, but the process that served {} ended without confirming that everything is stored; run `strongroom verify --structure` on the vault", .0.display())]
    Unconfirmed(PathBuf),
    /// Environment: there was nobody to wait for.
    #[error("unmounted, but there is no record of the process that served {}; make sure that it has ended before you copy the vault", .0.display())]
    NoRecord(PathBuf),
    /// Caller: who waited gave up; the process behind the mount goes on.
    #[error("{} is unmounted here, but its process still runs and has the vault open: {waiting}", path.display())]
    StillRuns {
        /// Where it was.
        path: PathBuf,
        /// What was waited for.
        waiting: Waiting,
    },
    /// Environment: the mount ended, and not everything could be stored.
    #[error("the mount did not end properly: {0}")]
    EndedBadly(String),
    /// Environment: some other system call.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl MountError {
    /// Wraps what the system said to `what`.
    pub(crate) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }
}
