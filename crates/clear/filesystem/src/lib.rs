//! POSIX files and directories over sealed blocks and a metadata store.
//!
//! Takes   paths already cut into names, bytes and ranges, and the caller they come from
//! Gives   attributes, entries and bytes; durable when `sync_*` returns
//! Never   knows FUSE, errno numbers, paths of the disk, or a crypto library
//! Spec    spec/5-crash-contract.md
#![forbid(unsafe_code)]

mod api;
mod error;
mod types;

pub use api::Filesystem;
pub use error::Error;
pub use strongroom_metadata::{InodeId, NodeKind, Timestamp};
pub use types::*;

/// What every operation gives.
pub type Result<T> = std::result::Result<T, Error>;
