//! Damage: how it is found, reported by file, and mended; and how a database that is gone is rebuilt.
//!
//! Takes   a vault, in use or not, to verify it; a vault folder in which nobody works, to repair it
//! Gives   everything that its intact segments, records and revisions still prove, and a report of the rest
//! Never   is needed for a sound vault, or removes what it cannot explain
//! Spec    spec/7-recovery.md

mod explain;
pub(crate) mod from_remotes;
mod inventory;
mod misnamed;
pub(crate) mod rebuild;
pub(crate) mod recover;
pub(crate) mod repair;
pub(crate) mod report;
mod unnamed;
pub(crate) mod verify;
