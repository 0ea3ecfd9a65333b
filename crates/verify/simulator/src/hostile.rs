//! Puts hostile files into vault folders, and holds what is then read, written and said against what is promised.
//!
//! Takes   a template vault, an older state of it, a branch of it, another vault; a seed
//! Gives   a line for every promise that was broken, with the command that repeats it
//! Never   touches a file outside of its own temporary folder
//! Spec    SECURITY.md: who can write the folder
//!
//! Invariants
//!  (1) What is read is what one whole state of the vault held, or it is an error.
//!  (2) Nothing outside of the vault folder changes.
//!  (3) Every command ends by itself, within its bounds, with an exit code of the table.
//!  (4) What is damaged is named.

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
