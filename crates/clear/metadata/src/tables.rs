//! The tables, and every query on them.
//!
//! Takes   a connection that has its key already
//! Gives   typed rows, or `Error::Damaged` for a value that this crate never writes
//! Never   changes a row, except to bring the schema up to date
//! Spec    spec/4-metadata.md, 4.3 to 4.6

pub(crate) mod columns;
pub(crate) mod history;
pub(crate) mod marked;
pub(crate) mod migrations;
pub(crate) mod numbers;
pub(crate) mod reads;
pub mod regions;
pub(crate) mod remotes;
pub(crate) mod sql;
