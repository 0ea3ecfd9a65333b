//! Stores sealed blocks in append-only files, so that acknowledged blocks are never overwritten or lost.
//!
//! Takes   sealed blocks in batches, with a sealed index that only a key holder can read
//! Gives   the place of each block, its bytes on request, and durability of everything up to a sequence number
//! Never   sees a key, a name or plaintext; never rewrites a durable byte. Never leaves ciphertext in the page cache if
//!         the file system allows to avoid it, except close to many small reads at random places (`dense.rs`)
//! Spec    spec/3-segment.md
#![forbid(unsafe_code)]

mod append;
mod batch;
mod buffer;
mod counters;
mod dense;
mod disk;
mod error;
mod files;
mod intent_log;
pub mod limits;
mod name;
mod nearby;
mod options;
mod read;
mod recover;
mod scan;
mod store;
mod sync;
#[cfg(test)]
mod testing;
mod unfinished;
mod whole;

pub use append::Appended;
pub use batch::{Batch, Tail as BatchTail};
pub use error::{Error, Result};
pub use intent_log::{
    INTENT_LOG, IntentLog, UNREADABLE as INTENTS_UNREADABLE, WholeLog, is_decay,
    put_away as put_intents_away,
};
pub use options::{Access, Counters, DirectIo, NameSource, StoreOptions, Transfer, random_name};
pub use read::{Part, SealedBytes};
pub use recover::Recovery;
pub use scan::{Scanned, ScannedBatch, Tail};
pub use store::{RemovedFile, SegmentStore};
pub use strongroom_folder::Odd;
pub use whole::{WholeSegment, read_readable};
