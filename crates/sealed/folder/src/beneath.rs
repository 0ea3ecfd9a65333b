//! Opens a path below a folder without following any link.
//!
//! Takes   the descriptor of a folder, and a path of plain names
//! Gives   the descriptor of the entry at that path, of whatever type
//! Never   waits, gets a controlling terminal by opening a terminal, or leaves the folder
//!
//! Invariants
//!  (1) There are two ways to open: one system call, or one step for each name. Both refuse the same paths.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

/// How often a call is tried again that the system gave up because somebody renamed folders meanwhile.
const ATTEMPTS: usize = 16;

/// Set once the kernel has said that it does not know `openat2`.
static IS_UNKNOWN: AtomicBool = AtomicBool::new(false);

/// What every opening asks for. `NONBLOCK` matters only for what is no regular file: opening a pipe must not wait.
const ALWAYS: OFlags = OFlags::CLOEXEC
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);

/// Opens `path` below `folder`, or makes it if `flags` ask for that, for its user only.
pub(crate) fn open(folder: BorrowedFd<'_>, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    check(path)?;
    if !IS_UNKNOWN.load(Ordering::Relaxed) {
        match at_once(folder, path, flags) {
            Err(Errno::NOSYS) => IS_UNKNOWN.store(true, Ordering::Relaxed),
            // A sandbox that does not know the call may say so like this, and a kernel that was raced like that.
            Err(Errno::PERM | Errno::AGAIN) => {}
            opened => return opened,
        }
    }
    by_steps(folder, path, flags)
}

/// Only plain names: nothing that goes up, stays, or begins elsewhere.
pub(crate) fn check(path: &str) -> Result<(), Errno> {
    let is_plain = |name: &str| !matches!(name, "" | "." | "..") && !name.contains('\0');
    match path.split('/').all(is_plain) {
        true => Ok(()),
        false => Err(Errno::INVAL),
    }
}

pub(crate) fn at_once(folder: BorrowedFd<'_>, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let mut attempts = 0;
    loop {
        match openat2(folder, path, flags | ALWAYS, mode(flags), resolve) {
            Err(Errno::AGAIN) if attempts < ATTEMPTS => attempts += 1,
            Err(Errno::INTR) => {}
            opened => return opened,
        }
    }
}

/// (1): `O_NOFOLLOW` holds for the last name of a path, and here every name is the last.
pub(crate) fn by_steps(
    folder: BorrowedFd<'_>,
    path: &str,
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    let mut held: Option<OwnedFd> = None;
    let (folders, name) = match path.rsplit_once('/') {
        Some((folders, name)) => (Some(folders), name),
        None => (None, path),
    };
    for step in folders.into_iter().flat_map(|folders| folders.split('/')) {
        let at = held.as_ref().map_or(folder, AsFd::as_fd);
        held = Some(step_to(at, step, OFlags::RDONLY | OFlags::DIRECTORY)?);
    }
    step_to(held.as_ref().map_or(folder, AsFd::as_fd), name, flags)
}

fn step_to(at: BorrowedFd<'_>, name: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    loop {
        match openat(at, name, flags | ALWAYS, mode(flags)) {
            Err(Errno::INTR) => {}
            opened => return opened,
        }
    }
}

fn mode(flags: OFlags) -> Mode {
    match flags.contains(OFlags::CREATE) {
        true => Mode::RUSR | Mode::WUSR,
        false => Mode::empty(),
    }
}
