//! What becomes of a vault whose files are damaged, or whose database is gone.
//!
//! Takes   a vault folder in which nobody works
//! Gives   everything that its intact segments, records and revisions still prove, and a report of the rest
//! Never   is needed for a sound vault, or removes what it cannot explain
//! Spec    spec/7-recovery.md

mod explain;
mod inventory;
mod misnamed;
mod rebuild;
pub(crate) mod recover;
pub(crate) mod repair;
pub(crate) mod report;
mod unnamed;
