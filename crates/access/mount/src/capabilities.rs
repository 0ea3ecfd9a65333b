//! Negotiates the features of the connection with the kernel when the mount begins.
//!
//! Takes   the features that the kernel offers, and how writes are sent
//! Gives   the chosen capabilities, and the bounds of requests
//! Never   requests a feature that the kernel does not have

use std::io;

use fuser::{InitFlags, KernelConfig};

use crate::limits;
use crate::shared::Writes;

/// What the mount asks of the kernel, as far as the kernel has it. Left out on purpose:
/// `AUTO_INVAL_DATA` (drops the page cache after each own write), `ATOMIC_O_TRUNC` (loses truncations
/// without OPEN), `ABORT_ERROR` and `SETXATTR_EXT` (broken in this version of the protocol library),
/// `POSIX_LOCKS` and `FLOCK_LOCKS` (the kernel keeps locks itself, without requests).
/// After an asynchronous direct write, which `ASYNC_DIO` allows, the kernel itself drops none of the file's pages: `content` sees to it.
const WANTED: InitFlags = InitFlags::FUSE_PARALLEL_DIROPS
    .union(InitFlags::FUSE_DO_READDIRPLUS)
    .union(InitFlags::FUSE_READDIRPLUS_AUTO)
    .union(InitFlags::FUSE_CACHE_SYMLINKS)
    .union(InitFlags::FUSE_EXPLICIT_INVAL_DATA)
    .union(InitFlags::FUSE_HANDLE_KILLPRIV_V2)
    .union(InitFlags::FUSE_NO_OPEN_SUPPORT)
    .union(InitFlags::FUSE_NO_OPENDIR_SUPPORT)
    .union(InitFlags::FUSE_ASYNC_DIO);

/// Tells the kernel what this mount wants of what it offers.
pub(crate) fn agree(config: &mut KernelConfig, writes: Writes) -> io::Result<()> {
    let mut wanted = WANTED;
    if writes == Writes::KeptByKernel {
        wanted |= InitFlags::FUSE_WRITEBACK_CACHE;
    }
    config
        .add_capabilities(wanted & config.capabilities())
        .map_err(|_| io::Error::other("the kernel withdrew a capability that it offered"))?;
    // The setters refuse only zero, what exceeds 16 MiB, and what the kernel does not offer.
    let refused = |_| io::Error::other("the protocol library refused a constant of this crate");
    config
        .set_max_write(limits::REQUEST_BYTES_MAX)
        .map_err(refused)?;
    let refused = |_| io::Error::other("the protocol library refused a constant of this crate");
    config
        .set_max_background(limits::BACKGROUND_REQUESTS_MAX)
        .map_err(refused)?;
    config
        .set_congestion_threshold(limits::CONGESTION_REQUESTS)
        .map_err(refused)?;
    Ok(())
}
