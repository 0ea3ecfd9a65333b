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

/// The examples of the guide, run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/guide/library.md")]
struct Guide;

mod backup;
mod below;
mod carry_out;
mod client;
mod content;
mod counters;
mod create;
mod directory;
mod error;
mod execute;
mod explain;
mod failure;
mod file;
mod file_lock;
mod folder;
mod frame;
#[doc(hidden)]
pub mod fuzzing;
mod greeting;
mod hash;
mod hashing;
mod held;
mod held_keys;
mod interactive;
mod inventory;
mod join;
#[doc(hidden)]
pub mod kept;
mod kept_nodes;
mod keys;
mod known_records;
mod leave;
pub mod limits;
mod locks;
mod member;
mod metadata_key;
mod misnamed;
mod namespace;
mod observer;
mod open;
mod own_replica;
mod owner;
mod owner_lock;
mod path;
mod port;
mod private_folder;
mod provider_in_use;
mod public_information;
mod rebuild;
mod recover;
mod recover_report;
mod remove_tree;
mod repair;
mod request;
mod request_enums;
mod request_hash;
mod request_history;
mod request_verify;
mod restore;
mod revision_record;
mod revisions;
mod rotation;
mod runtime;
mod schedule;
mod seen;
mod server;
mod session;
mod settings;
mod snapshot;
mod staging;
mod switch;
#[cfg(test)]
mod take_over;
mod transaction;
mod tree;
pub mod tuning;
mod unnamed;
mod vault;
mod verification;
mod verify;
mod verify_state;
mod walk;
mod whole;
mod xattrs;

pub use backup::{BackupProgress, BackupReport};
pub use counters::{COUNTERS, Counter};
pub use create::{CreateOptions, Created};
pub use directory::{Directory, DirectoryEntry};
pub use error::{Error, Result};
pub use file::{File, FileOptions};
pub use hashing::{
    ContentHash, EqualContents, HashPrefix, HashPrefixError, HashedAll, HashedContent, NamedContent,
};
pub use interactive::Transaction;
pub use join::SecretSource;
pub use keys::{AddKey, Keys, list_slots};
pub use member::Member;
pub use metadata_key::rekey_progress;
pub use observer::{Attachment, Change, HeldOpen, Observer, Subscription};
pub use open::{IfOwned, OpenOptions};
pub use path::{Links, VaultPath};
pub use private_folder::{KeptName, PrivateFolders};
pub use provider_in_use::ProviderInUse;
pub use public_information::{PublicInformation, describe};
pub use recover::{RecoverOptions, RecoverProgress, recover};
pub use recover_report::{Brought, RecoverReport};
pub use repair::{RepairOptions, RepairReport, repair};
pub use request::{Access, Information};
pub use request_history::{ErasedContent, PathDifference, Restored, RevisionInfo, Side, Usage};
pub use request_verify::{FileProblem, Loss};
pub use rotation::Rotation;
pub use schedule::{Schedule, ScheduleStep};
pub use seen::{IfOlder, LastSeen, OlderFolder, SeenPlace, SeenRecords, Trust, forget, last_seen};
pub use snapshot::Snapshot;
/// Who computes the algorithms: the registry, to list, prefer and measure providers.
pub use strongroom_crypto::providers;
pub use strongroom_crypto::{
    AgeIdentity, AgeKeyError, AgeRecipient, Compression, Fingerprint, HashAlgorithm, KeyFile,
    NewKey, Passphrase, RecoveryCode, Secret, SlotInfo, SystemRandom, keys_are_locked,
    on_wiped_stack,
};
/// The file system below, for who mounts it.
pub use strongroom_filesystem as filesystem;
pub use strongroom_format::{SlotId, SlotKind, SuiteId};
pub use strongroom_history::{NewRevision, Retention, RevisionId, SCHEDULED, SelectError, Whose};
pub use transaction::Operation;
pub use tuning::Tuning;
pub use vault::Vault;
pub use verification::{Damage, GoOn, VerifyOptions, VerifyProgress, VerifyReport};
pub use walk::{Walk, WalkEntry};
pub use whole::CheckReport;
