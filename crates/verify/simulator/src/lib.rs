//! Cuts the power under a vault, and compares what is left with the crash contract.
//!
//! Takes   a seed, which determines everything else
//! Gives   the seed's outcome, and for a violation the broken sentence of the contract
//! Never   is part of the product: only tests and `strongroom-sim` use it
//! Spec    spec/5-crash-contract.md
#![forbid(unsafe_code)]

pub mod alarms;
pub mod backups;
mod cut;
pub mod damage;
pub mod database_faults;
pub mod disk;
pub mod history;
pub mod hostile;
pub mod judge;
pub mod plan;
pub mod random;
pub mod revisions;
pub mod rotations;
pub mod run;
pub mod small_disk;
#[cfg(feature = "testing")]
pub mod sync;
pub mod transactions;
pub mod vault;
pub mod worker;

/// Nothing is recorded of the vaults that are made here: older states are put back on purpose.
#[must_use]
pub fn unseen() -> strongroom::Trust {
    strongroom::Trust {
        seen: strongroom::SeenRecords::Nowhere,
        ..strongroom::Trust::default()
    }
}
