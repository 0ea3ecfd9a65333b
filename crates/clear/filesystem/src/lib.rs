//! POSIX files and directories over sealed blocks and a metadata store.
//!
//! Takes   names, bytes and ranges, and the caller they come from
//! Gives   attributes, entries and bytes; durable when `sync_inode` or `sync` returns
//! Never   knows FUSE, errno numbers, paths of the disk, or a crypto library
//! Spec    spec/5-crash-contract.md
#![forbid(unsafe_code)]

mod blocks;
mod commit;
mod compression;
mod content;
mod core;
mod damage;
mod drain;
mod error;
mod files;
mod hashes;
mod history;
pub mod limits;
mod names;
mod open;
mod quota;
mod rules;
mod transaction;
mod types;
mod upkeep;

pub use commit::DurableState;
pub use commit::intents::{Replay, ReplayFault};
pub use core::{Background, Clock, Disk, Filesystem, Options, Parts, Watcher, Work};
pub use damage::DamagedRange;
pub use damage::backup::{KeptSegments, Strangers};
pub use damage::check::CheckReport;
pub use damage::lost_chunks::LostChunks;
pub use damage::verify::{
    DamagedBlock, Proof, SegmentProblem, VerifiedPart, VerifyRange, VerifySize,
};
pub use error::{Error, Result};
pub use hashes::content_hash::{Hashed, HashedFiles};
pub use hashes::equal_contents::{EqualFiles, HashPosition, NamedFile};
pub use history::{Engine, HISTORY_INODE, HISTORY_NAME, HeldBlocks, Taken, admit, is_in_snapshot};
pub use open::Counters;
pub use strongroom_metadata::{
    ERASED_SEGMENT, InodeId, LOST_SEGMENT, NodeKind, TimeOutOfRange, Timestamp,
};
pub use transaction::Content;
pub use transaction::draft::Draft;
pub use types::*;
pub use upkeep::reseal::{Older, Resealed};
