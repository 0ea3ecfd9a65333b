//! The metadata of a vault in one encrypted SQLite database. Of the other crates of the
//! product, only the server uses SQL, for a database of its own.
//!
//! Takes   the vault folder, the metadata key, and typed rows
//! Gives   typed rows; commits that a crash keeps whole or drops whole
//! Never   decides what a row means, syncs without a request, or lets a page reach the disk unencrypted
//! Spec    spec/4-metadata.md
//!
//! One connection writes, under `Store::lock`. Others read committed data, through `Store::reader`. One more moves the log
//! into the database. Changes gather in one SQLite transaction until `commit`. They are durable once `Store::sync_log` has returned;
//! that call holds no connection.

mod disk;
mod ending;
mod error;
pub mod limits;
mod name;
mod pages;
pub mod rows;
mod store;
mod tables;
mod vfs;

pub use disk::{
    DATABASE_FILE, DiskCounts, DiskEvent, DiskFault, DiskObserver, FileCounts, FileKind,
    RESERVE_FILE,
};
pub use error::{Error, Result};
pub use limits::REGION_BYTES;
pub use name::can_name;
pub use pages::tree_file::TREE_FILE;
pub use rows::*;
pub use store::checkpoint::Checkpoint;
pub use store::copy::Copying;
pub use store::options::{MissingTree, Options};
pub use store::reader::{Reader, Snapshot};
pub use store::rekey::{Rekey, Reseal};
pub use store::savepoint::Savepoint;
pub use store::transaction::Transaction;
pub use store::{Counters, FileState, Store};
pub use tables::history::{Base, ChangedItem, History};
pub use tables::migrations::{SCHEMA, SCHEMA_VERSION};
pub use tables::reads::Reads;
pub use tables::regions;
pub use tables::remotes::{Published, PublishedAs, Remote};
pub use tables::sql::Statement;
