//! Puts hostile files into vault folders, and compares what commands then read, write and print with what is promised.
//!
//! Takes   a template vault, an older state of it, a branch of it, and another vault; a seed
//! Gives   a line for every broken promise, with the command that repeats it
//! Never   touches a file outside of its own temporary folder
//! Spec    SECURITY.md: an attacker who can write to the folder
//!
//! Invariants
//!  (1) The content that is read belongs to one whole state of the vault, or an error is given.
//!  (2) Nothing outside of the vault folder changes.
//!  (3) Every command ends by itself, within its bounds, with a documented exit code.
//!  (4) Damaged files are named.

pub mod canary;
pub mod child;
pub mod command;
pub mod commands;
pub mod judgement;
pub mod known;
pub mod log;
pub mod mixing;
pub mod operations;
pub mod pages;
pub mod pages_base;
pub mod reading;
pub mod stage;
pub mod sweep;
pub mod tally;
pub mod workers;
