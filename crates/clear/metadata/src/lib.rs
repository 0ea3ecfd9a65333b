//! The metadata of a vault in one encrypted SQLite database: the only crate that writes SQL.
//!
//! Takes   the vault folder, the metadata key, and typed rows
//! Gives   typed rows; commits that a crash either keeps whole or drops whole
//! Never   decides what a row means, syncs unasked, or lets a page reach the disk in clear
//! Spec    spec/4-metadata.md
//!
//! One connection writes, behind `Store::lock`; others read what was committed, behind `Store::reader`; one
//! more moves the log into the database. Changes gather in one SQLite transaction until `commit`, and are
//! durable once `Store::sync_log`, which holds no connection, has returned.

mod blocks;
mod checkpoint;
mod columns;
mod connect;
mod copy;
mod disk;
mod error;
mod files;
mod frames;
mod hashes;
mod history;
mod holes;
pub mod limits;
mod log_index;
mod log_layout;
mod marked;
mod migrations;
mod name;
mod numbers;
mod pages;
mod reader;
mod reads;
pub mod regions;
mod registration;
mod rekey;
mod reservations;
pub mod rows;
mod savepoint;
mod sql;
mod store;
mod transaction;
mod tree;
mod tree_file;
mod vfs;

pub use checkpoint::Checkpoint;
pub use copy::Copying;
pub use disk::{DiskCounts, DiskEvent, DiskFault, DiskObserver, FileCounts, FileKind};
pub use error::{Error, Result};
pub use history::{Base, ChangedItem, History};
pub use limits::REGION_BYTES;
pub use migrations::{SCHEMA, SCHEMA_VERSION};
pub use name::can_name;
pub use reader::{Reader, Snapshot};
pub use reads::Reads;
pub use rekey::{Rekey, Reseal};
pub use rows::*;
pub use savepoint::Savepoint;
pub use sql::{Statement, StatementCounts};
pub use store::{Counters, DATABASE_FILE, FileState, MissingTree, Options, RESERVE_FILE, Store};
pub use transaction::Transaction;
pub use tree_file::TREE_FILE;
