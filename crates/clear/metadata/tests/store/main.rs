//! The store as its users see it: what a crash keeps, what a full or failing disk does, what each operation costs.

#![allow(
    clippy::unwrap_used,
    reason = "what a fixture cannot do is a failed test"
)]

mod crash;
mod disk;
mod fixture;
mod hashes;
mod log;
mod pages;
mod refusals;
mod rekey;
mod rows;
mod savepoints;
mod scale;
mod secrecy;
