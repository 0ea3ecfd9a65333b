//! The gate: the only place that turns clear bytes into sealed ones and back, except SQLCipher, which seals the pages of
//! the database under a key from here.
//!
//! Takes   clear bytes, keys, and users' secrets
//! Gives   sealed bytes, and clear bytes that are proven authentic
//! Never   accesses a disk or a network, reads the clock, or puts a secret into `Debug`, an error or a log
//! Spec    spec/1-keys.md, spec/2-block.md; providers: docs/providers.md
#![deny(unsafe_code)] // locked.rs says why it has some

mod blocks;
mod content_hash;
mod deposit;
mod fingerprint;
mod keyring;
pub mod keys;
#[cfg(feature = "nonce-ledger")]
pub mod ledger;
pub mod limits;
mod locked;
pub mod measuring;
mod membership;
mod page_seal;
mod pairing;
mod pool;
pub mod providers;
mod random;
mod secrets;
mod wiped_stack;

// Blocks and records: spec/2-block.md.
pub use blocks::block_sealer::BlockSealer;
pub use blocks::compression::{self, Compression};
pub use blocks::open::OpenError;
pub use blocks::{batch, record, suite};
pub use content_hash::{ContentHasher, HashAlgorithm};
pub use keys::{EpochKey, IdKey};
pub use locked::keys_are_locked;
pub use pool::Pool;
pub use providers::ProviderError;
pub use random::{Random, RandomError, SystemRandom, noise};
pub use wiped_stack::on_wiped_stack;

// Inbox: spec/12-inbox.md.
pub use deposit::{DepositInfo, DepositSealer, OpenDepositError, OpenedDeposit, SealDepositError};

// Keys and trust: spec/1-keys.md.
pub use fingerprint::Fingerprint;
pub use keyring::error::{KeyError, UnlockError};
pub use keyring::genesis::create;
pub use keyring::login::{LoginSigner, LoginTerms};
pub use keyring::members::{MemberInfo, RecordInfo, list_members};
pub use keyring::newcomer::NewDeviceKeys;
pub use keyring::replica::{METADATA_KEY_BYTES, MetadataKey, Replica};
pub use keyring::revision::RevisionSigner;
pub use keyring::seen::Seen;
pub use keyring::slot::{NewKey, NewSlot, Secret};
pub use keyring::unlock::{unlock, unlock_at_remote};
pub use keyring::{Changed, Keyring, SlotInfo, list_slots};
pub use membership::Forged;
pub use page_seal::reseal_page;
pub use pairing::{Handshake, PairingChannel, PairingMessage, PairingSide};
pub use secrets::age_key::{AgeIdentity, AgeKeyError, AgeRecipient};
pub use secrets::key_file::{KeyFile, KeyFileError};
pub use secrets::pairing_code::{PairingCode, PairingCodeError};
pub use secrets::passphrase::{Argon2Cost, OutOfMemory, Passphrase, PassphraseError};
pub use secrets::printed_secret::PrintedSecretError;
pub use secrets::recovery_code::RecoveryCode;
