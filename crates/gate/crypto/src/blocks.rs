//! From clear bytes to sealed blocks and records, and back.
//!
//! Takes   clear bytes and the keys of a vault; or what was sealed
//! Gives   blocks and records that show nothing except their length; or what they hold, proven
//! Never   stores anything, or chooses a key
//! Spec    spec/2-block.md

pub mod batch;
pub(crate) mod block_sealer;
pub mod compression;
pub(crate) mod open;
pub mod record;
pub(crate) mod seal;
pub mod suite;
