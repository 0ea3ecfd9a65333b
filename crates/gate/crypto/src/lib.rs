//! The gate: the only place that turns clear bytes into sealed ones and back.
//!
//! Takes   clear bytes, keys, and secrets of people
//! Gives   sealed bytes, and clear bytes whose authenticity is proven
//! Never   reads or writes a disk or a network, asks the time, or lets a secret into `Debug`, an error or a log
//! Spec    spec/1-keys.md, spec/2-block.md; who computes: docs/providers.md
#![deny(unsafe_code)] // locked.rs says why it has some

pub mod batch;
mod block_sealer;
pub mod compression;
mod content_hash;
pub mod keys;
#[cfg(feature = "nonce-ledger")]
pub mod ledger;
pub mod limits;
mod locked;
mod open;
pub mod pool;
pub mod providers;
pub mod random;
pub mod record;
mod seal;
pub mod suite;
mod wiped_stack;

pub use block_sealer::BlockSealer;
pub use compression::Compression;
pub use content_hash::{ContentHasher, HashAlgorithm};
pub use keys::{EpochKey, IdKey};
pub use locked::keys_are_locked;
pub use open::OpenError;
pub use pool::Pool;
pub use providers::ProviderError;
pub use random::{Random, RandomError, SystemRandom, noise};
pub use wiped_stack::on_wiped_stack;

// Keys and trust: spec/1-keys.md.
mod age_key;
mod change;
mod error;
mod fingerprint;
mod follow;
mod genesis;
mod grant;
mod handover;
mod key_file;
mod keyring;
mod members;
mod membership;
mod page_seal;
mod passphrase;
mod principal;
mod printed_secret;
mod recovery_code;
mod replica;
mod revision;
mod seen;
mod slot;
mod unlock;

pub use age_key::{AgeIdentity, AgeKeyError, AgeRecipient};
pub use error::{KeyError, UnlockError};
pub use fingerprint::Fingerprint;
pub use genesis::create;
pub use key_file::{KeyFile, KeyFileError};
pub use keyring::{Changed, Keyring, SlotInfo, list_slots};
pub use members::{MemberInfo, RecordInfo, list_members};
pub use membership::Forged;
pub use page_seal::reseal_page;
pub use passphrase::{Argon2Cost, OutOfMemory, Passphrase, PassphraseError};
pub use printed_secret::PrintedSecretError;
pub use recovery_code::RecoveryCode;
pub use replica::{METADATA_KEY_BYTES, MetadataKey, Replica};
pub use revision::RevisionSigner;
pub use seen::Seen;
pub use slot::{NewKey, NewSlot, Secret};
pub use unlock::unlock;
