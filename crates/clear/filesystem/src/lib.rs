//! POSIX files and directories over sealed blocks and a metadata store.
//!
//! Takes   names, bytes and ranges, and the caller that passes them
//! Gives   attributes, entries and bytes; durable when `sync_inode` or `sync` returns
//! Never   knows FUSE, errno numbers, paths of the disk, or a crypto library
//! Spec    spec/5-crash-contract.md
#![forbid(unsafe_code)]

mod blocks;
mod commit;
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
mod rules;
mod settings;
mod transaction;
mod trees;
mod types;
mod upkeep;

pub use blocks::erased::segment_without_file;
pub use blocks::proof::Proof;
pub use core::durability::DurableState;
pub use core::intents::{Replay, ReplayFault};
pub use core::snapshot_nodes::{HISTORY_INODE, HISTORY_NAME, is_in_snapshot};
pub use core::{
    AtRemote, Background, Clock, Disk, Filesystem, NotFetched, Options, Parts, SegmentSource,
    Watcher, Work,
};
pub use damage::DamagedRange;
pub use damage::backup::{KeptSegments, Strangers};
pub use damage::check::CheckReport;
pub use damage::lost_chunks::LostChunks;
pub use damage::verify::{DamagedBlock, SegmentProblem, VerifiedPart, VerifyRange, VerifySize};
pub use error::{Error, Result};
pub use hashes::content_hash::{Hashed, HashedFiles};
pub use hashes::equal_contents::{EqualFiles, HashPosition, NamedFile};
pub use history::{RemovedRevision, Taken, admit};
pub use open::Counters;
pub use strongroom_metadata::{
    ERASED_SEGMENT, InodeId, LOST_SEGMENT, NodeKind, TimeOutOfRange, Timestamp,
};
pub use transaction::Content;
pub use transaction::arrived::{Arrived, ArrivedBlock, ArrivedSegment};
pub use transaction::draft::Draft;
pub use transaction::join::{Brought, Ending, Shown};
pub use trees::engine::{Engine, HeldBlocks};
pub use types::*;
pub use upkeep::evict::{AwaySize, ShownSegment};
pub use upkeep::limit::LastUse;
pub use upkeep::reseal::{Older, Resealed};
