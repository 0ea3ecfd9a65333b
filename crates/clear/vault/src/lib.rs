//! The public API of Strongroom: an encrypted file system in a folder, used by many threads and processes at once.
//!
//! Takes   a vault folder, a secret, and paths
//! Gives   a [`Vault`]: files, directories and their attributes; the same whether this process owns the vault or
//!         another one does
//! Never   sends a key to another process, or lets two processes write to one vault at the same time
//! Spec    spec/1-keys.md, spec/5-crash-contract.md, spec/10-folder.md; ARCHITECTURE.md
//!
//! The files beside this one are the API and its parts. Each of these folders uses only the folders below it in this list:
//!
//! - `recovery`  repairs a vault, or rebuilds its database
//! - `owner`     one process owns a vault, others send it requests
//! - `execute`   carries out requests
//! - `seen`      records of the last seen state of each vault
//! - `keyring`   keys in use, and the files that depend on them; `tuning`: the choice of providers
//! - `request`   all requests and answers
//! - `folder`    the vault folder: its files, its lock
//!
//! Invariants
//!  (1) The parts of a vault are put together in one place, `open.rs`.
//!  (2) One process at a time owns a vault, by a lock of the operating system.               [folder/owner_lock, join]
//!  (3) Library, clients and command line all use one function, `execute`.                   [execute]
#![forbid(unsafe_code)]

/// The README's example, run as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../../README.md")]
struct Readme;

/// The examples of the guide, run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/guide/library.md")]
struct Guide;

mod away;
mod backup;
mod clock;
mod clone;
mod conflicts;
mod continuous_sync;
mod counters;
mod create;
mod deposit;
mod deposit_name;
mod device_name;
mod directory;
mod download;
mod error;
mod error_family;
mod error_kind;
mod evict;
mod execute;
mod file;
mod file_lock;
mod folder;
mod follower;
#[doc(hidden)]
pub mod fuzzing;
mod hashing;
mod inbox;
mod inbox_looks;
mod inbox_settling;
mod inbox_state;
mod inbox_taking;
mod incoming;
mod interactive;
mod invitation;
mod join;
mod keep_limit;
mod keyring;
mod keys;
mod leave;
pub mod limits;
mod listing;
mod login;
mod newcomer;
mod newest_state;
mod observer;
mod older_folder;
mod open;
mod outgoing;
mod outline;
mod own_login;
mod owner;
mod pace;
mod pairing;
pub mod panics;
mod path;
mod place_clock;
mod private_folder;
mod provider_in_use;
mod prune;
mod prune_erased;
mod public_information;
mod pull;
mod push;
mod receive;
#[doc(hidden)]
pub mod records;
mod recovery;
mod remote_log;
mod remote_status;
mod remote_turn;
mod remotes;
mod rename_device;
mod request;
mod retry;
mod revisions;
mod rotation;
mod schedule;
mod seen;
mod settings;
mod snapshot;
mod staging;
mod take_headers;
#[cfg(test)]
mod take_over;
mod transaction;
mod tree;
pub mod tuning;
mod vault;
mod waits;
mod walk;
mod whole;
mod worker;
mod xattrs;

pub use backup::{BackupProgress, BackupReport};
pub use clone::{CLONED_FROM, CloneContent, CloneOptions, CloneProgress, CloneReport, clone};
pub use conflicts::{Conflict, Keep};
pub use continuous_sync::{ContinuousSync, SyncEvent};
pub use counters::{COUNTERS, Counter};
pub use create::{CreateOptions, Created};
pub use deposit::{DepositOutcome, Depositor, NewDeposit};
pub use device_name::DEVICE_NAME_BYTES_MAX;
pub use directory::Directory;
pub use error::{Error, Result};
pub use error_family::ErrorFamily;
pub use evict::{BringBackReport, EvictReport};
pub use file::{File, FileOptions};
pub use hashing::{HashPrefix, HashPrefixError, HashedAll};
pub use inbox::{InboxAddressInfo, InboxReport, NewInboxAddress, WaitingDeposit};
pub use inbox_state::{INBOX_ADDRESSES_MAX, INBOX_LABEL_BYTES_MAX};
pub use interactive::Transaction;
pub use invitation::{Candidate, Invitation, InvitationStep};
pub use join::SecretSource;
pub use keyring::metadata_key::rekey_progress;
pub use keys::{AddKey, Guessable, Keys, list_slots};
pub use newcomer::{Admitted, Asking, AskingStep, NewDevice, check_offered};
pub use observer::{Attachment, Change, HeldOpen, Observer, Subscription};
pub use older_folder::OlderFolder;
pub use open::{IfOwned, OpenOptions};
pub use pace::RemotePace;
pub use pairing::{PAIRING_LIFETIME, PAIRING_LOOK_EVERY, PAIRING_TRIES, PairingError};
pub use path::{Links, VaultPath};
pub use private_folder::{PrivateFolders, WatchedName};
pub use provider_in_use::ProviderInUse;
pub use prune::{GRACE, PruneReport};
pub use public_information::{PublicInformation, describe};
pub use pull::{PullReport, SyncReport};
pub use push::PushReport;
pub use recovery::from_remotes::{FromRemote, UseRemotes};
pub use recovery::recover::{Rebuild, RecoverOptions, RecoverProgress, recover};
pub use recovery::repair::{RepairOptions, RepairReport, repair};
pub use recovery::report::{Brought, RecoverReport};
pub use recovery::verify::{Damage, GoOn, VerifyOptions, VerifyProgress, VerifyReport};
pub use remote_status::{DevicePublication, RemoteStatus};
pub use remotes::{RemoteInfo, RemoteProgress, RemoteReport, Removal};
pub use request::hash::{ContentHash, EqualContents, HashedContent, NamedContent};
pub use request::history::{Restored, RevisionInfo};
pub use request::member::Member;
pub use request::verify::{FileProblem, Loss};
pub use request::{Access, CheckReport, DirectoryEntry, Information, Rotation};
pub use schedule::{Schedule, ScheduleStep};
pub use seen::{IfOlder, LastSeen, SeenPlace, SeenRecords, Trust, forget, last_seen};
pub use snapshot::Snapshot;
pub use strongroom_format::limits::DEPOSIT_BYTES_MAX;
/// Who computes the algorithms: the registry, to list, prefer and measure providers.
pub mod providers {
    pub use strongroom_crypto::measuring::{benchmark, figure, measured, sharing};
    pub use strongroom_crypto::providers::*;
}
pub use strongroom_crypto::{
    AgeIdentity, AgeKeyError, AgeRecipient, Compression, Fingerprint, HashAlgorithm, KeyFile,
    NewKey, PairingCode, PairingCodeError, Passphrase, RecoveryCode, Secret, SlotInfo,
    SystemRandom, keys_are_locked, on_wiped_stack,
};
/// The file system below, for who mounts it.
pub use strongroom_filesystem as filesystem;
pub use strongroom_format::{SlotId, SlotKind, SuiteId};
pub use strongroom_history::{
    ErasedContent, NewRevision, PathDifference, Retention, RevisionId, SCHEDULED, SelectError,
    Side, Usage, Whose,
};
pub use strongroom_remote::Rates;
pub use transaction::Operation;
pub use tuning::Tuning;
pub use vault::Vault;
pub use walk::{Walk, WalkEntry};
