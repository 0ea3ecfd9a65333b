//! Damage: how it is found, reported by file, and repaired; and how a lost database is rebuilt.
//!
//! Takes   a vault, in use or not, to verify it; a vault folder that nobody uses, to repair it
//! Gives   everything that the intact segments, records and revisions still prove, and a report of the rest
//! Never   is needed for a sound vault, or removes a file that it cannot explain
//! Spec    spec/7-recovery.md

mod erased;
mod explain;
pub(crate) mod from_remotes;
mod header_files;
mod inventory;
mod misnamed;
pub(crate) mod rebuild;
pub(crate) mod recover;
pub(crate) mod repair;
pub(crate) mod report;
mod unnamed;
pub(crate) mod verify;
