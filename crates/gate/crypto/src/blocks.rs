//! Turns clear bytes into sealed blocks and records, and back.
//!
//! Takes   clear bytes and the keys of a vault; or sealed bytes
//! Gives   blocks and records that show only their length; or their proven content
//! Never   stores anything, or chooses a key
//! Spec    spec/2-block.md

pub mod batch;
pub(crate) mod block_sealer;
pub mod compression;
pub(crate) mod open;
pub mod record;
pub(crate) mod seal;
pub mod suite;
