//! Turns an open file system into a drive: requests of the kernel become calls, and results become replies.
//!
//! Takes   a `strongroom::filesystem::Filesystem`, a folder and `MountOptions`
//! Gives   a `Mounted` that ends when the drive is unmounted, with everything durable
//! Never   sees a key or a sealed byte, decides POSIX semantics, or holds a lock while it calls the kernel
//! Spec    docs/adr; ARCHITECTURE.md, "I want to …"
//!
//! Invariants
//!  (1) At least one event loop is listening, unless `QUEUED_BYTES_MAX` bytes of writes are queued for workers: then
//!      further writes are carried out on the loops that received them, which may wait. Any other request that may wait
//!      is answered by a worker, or by a loop while another loop listens.                [pool, content]
//!  (2) Each positive entry in a reply holds one reference until the kernel's FORGET for it, or until the
//!      end of the mount.                                                                [references]
//!  (3) The kernel remembers ENOSYS for a whole connection: only requests that are never wanted get it.    [adapter]
//!  (4) After the connection ended, the file system is synced before `wait` returns.     [mounted]
//!  (5) A notification about names or content is sent by the notifier thread only, which holds no lock.
//!                                                                                       [invalidate]
#![deny(unsafe_code)] // inherited.rs says why it has some

mod adapter;
mod answers;
mod attach;
mod attributes;
pub mod background;
mod capabilities;
mod content;
mod counters;
mod detach;
mod errno;
mod error;
mod gate;
mod holders;
mod idle;
mod ignored;
mod in_use;
mod inherited;
mod invalidate;
mod limits;
mod listing;
mod mounted;
mod mountinfo;
mod mountpoint;
mod namespace;
mod notification;
mod options;
mod panics;
mod pool;
mod record;
mod references;
mod seek;
mod shared;
mod turns;
mod umount;
mod wakeful;
mod xattrs;

pub use counters::{Opcode, RequestCounter, RequestCounts};
pub use error::MountError;
pub use ignored::ignores;
pub use in_use::{Holder, InUse, Waiting};
pub use invalidate::Invalidator;
pub use mounted::{Beginning, Mounted};
pub use options::{MountOptions, SpecialFiles};
pub use umount::{Unmount, unmount};
