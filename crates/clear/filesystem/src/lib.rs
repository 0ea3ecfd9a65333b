//! POSIX files and directories over sealed blocks and a metadata store.
//!
//! Takes   names, bytes and ranges, and the caller they come from
//! Gives   attributes, entries and bytes; durable when `sync_inode` or `sync` returns
//! Never   knows FUSE, errno numbers, paths of the disk, or a crypto library
//! Spec    spec/5-crash-contract.md
#![forbid(unsafe_code)]

mod attributes;
mod background;
mod backup;
mod check;
mod commit;
mod compression;
mod content_hash;
mod copy;
mod core;
mod damage;
mod defragment;
mod draft;
mod epoch;
mod equal_blocks;
mod equal_contents;
mod erase;
mod error;
mod extents;
mod flush;
mod history;
mod holes;
mod intents;
mod isolate;
pub mod limits;
mod list;
mod lock;
mod lost_chunks;
mod moving;
mod name;
mod namespace;
mod node;
mod open;
mod overlay;
mod permission;
mod place;
mod purge;
mod quota;
mod read;
mod region_cache;
mod rename;
mod reseal;
mod reservation;
mod room;
mod scene;
mod seek;
mod space;
mod stream;
mod transaction;
mod types;
mod verify;
mod write;
mod xattr;

use std::sync::Arc;

pub use backup::{KeptSegments, Strangers};
pub use check::CheckReport;
pub use commit::DurableState;
pub use content_hash::{Hashed, HashedFiles};
pub use core::{Background, Clock, Disk, Options, Parts, Watcher, Work};
pub use damage::DamagedRange;
pub use draft::Draft;
pub use equal_contents::{EqualFiles, HashPosition, NamedFile};
pub use error::Error;
pub use history::{Engine, HISTORY_INODE, HISTORY_NAME, Held, Taken, admit, is_in_snapshot};
pub use intents::{Replay, ReplayFault};
pub use lost_chunks::LostChunks;
pub use open::Counters;
pub use reseal::{Older, Resealed};
pub use strongroom_metadata::{
    ERASED_SEGMENT, InodeId, LOST_SEGMENT, NodeKind, TimeOutOfRange, Timestamp,
};
pub use transaction::Content;
pub use types::*;
pub use verify::{DamagedBlock, Proof, SegmentProblem, VerifiedPart, VerifyRange, VerifySize};

/// What every operation gives.
pub type Result<T> = std::result::Result<T, Error>;

/// One open file system. Cheap to clone; usable from many threads. Close it with `close`; dropping the last
/// one without that is like a crash: what no sync covered may be lost, nothing is damaged.
#[derive(Clone)]
pub struct Filesystem {
    /// First, so that it is dropped first: the thread ends before the store closes.
    pub(crate) worker: Arc<background::Worker>,
    pub(crate) core: Arc<core::Core>,
}

impl std::fmt::Debug for Filesystem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Filesystem").finish_non_exhaustive()
    }
}
