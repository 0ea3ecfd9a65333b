//! The gate: the only place that turns clear bytes into sealed ones and back.
//!
//! Takes   clear bytes, keys, and secrets of people
//! Gives   sealed bytes, and clear bytes whose authenticity is proven
//! Never   reads or writes a disk or a network, asks the time, or lets a secret into `Debug`, an error or a log
//! Spec    spec/1-keys.md, spec/2-block.md
#![forbid(unsafe_code)]

mod block_sealer;
pub mod keys;
#[cfg(feature = "nonce-ledger")]
mod ledger;
pub mod limits;
mod open;
pub mod pool;
pub mod provider;
pub mod random;
pub mod record;
mod seal;
pub mod suite;

pub use block_sealer::BlockSealer;
pub use keys::{EpochKey, IdKey};
pub use open::OpenError;
pub use pool::Pool;
pub use random::{Random, RandomError, SystemRandom};
