//! The public API of Strongroom: an encrypted file system in a folder, used by many threads and processes at once.
//!
//! Takes   a vault folder, a secret, and paths
//! Gives   a [`Vault`]: files, directories and their attributes; the same whether this process owns the vault or
//!         another one does
//! Never   sends a key to another process, or lets two processes write one vault side by side
//! Spec    design pages 2 and 3; spec/1-keys.md
//!
//! Invariants
//!  (1) Parts are joined in one place, `open.rs`.
//!  (2) One process owns a vault at a time, by a lock of the operating system.               [owner_lock, join]
//!  (3) Library, clients and command line go through one function, `execute`.                [execute]
#![forbid(unsafe_code)]

/// The README's example, run as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../../README.md")]
struct Readme;

mod carry_out;
mod client;
mod content;
mod counters;
mod create;
mod directory;
mod error;
mod execute;
mod failure;
mod file;
mod folder;
mod frame;
#[doc(hidden)]
pub mod fuzzing;
mod held_keys;
mod join;
mod keys;
pub mod limits;
mod namespace;
mod observer;
mod open;
mod owner;
mod owner_lock;
mod path;
mod port;
mod public_information;
mod request;
mod runtime;
mod server;
mod session;
mod transaction;
mod vault;
mod xattrs;

pub use counters::{COUNTERS, Counter};
pub use create::{CreateOptions, Created};
pub use directory::{Directory, DirectoryEntry};
pub use error::{Error, Result};
pub use file::{File, FileOptions};
pub use join::SecretSource;
pub use keys::{AddKey, Keys, list_slots};
pub use observer::{Attachment, Change, Observer, Subscription};
pub use open::OpenOptions;
pub use path::Links;
pub use public_information::{PublicInformation, describe};
pub use request::{Access, Information};
pub use strongroom_crypto::{
    AgeIdentity, AgeKeyError, AgeRecipient, KeyFile, NewKey, Passphrase, RecoveryCode, Secret,
    SlotInfo, SystemRandom,
};
/// The file system below, for who mounts it.
pub use strongroom_filesystem as filesystem;
pub use strongroom_format::{SlotId, SlotKind, SuiteId};
pub use transaction::Operation;
pub use vault::{CheckReport, Vault};
