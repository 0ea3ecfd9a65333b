//! The gate: the only place that turns clear bytes into sealed ones and back.
//!
//! Takes   clear bytes, keys, and secrets of people
//! Gives   sealed bytes, and clear bytes whose authenticity is proven
//! Never   reads or writes a disk or a network, asks the time, or lets a secret into `Debug`, an error or a log
//! Spec    spec/1-keys.md, spec/2-block.md
#![forbid(unsafe_code)]

pub mod keys;
pub mod limits;
pub mod random;

pub use keys::{EpochKey, IdKey};
pub use random::{Random, RandomError, SystemRandom};
