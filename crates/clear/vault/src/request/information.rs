//! What a vault reports about itself.
//!
//! To add a field: fill it in `open.rs`, update it in `execute/session.rs` if it changes while the vault is open, and raise
//! `PROTOCOL` in `request.rs`. The test is `cli/tests/about.rs`.

use serde::{Deserialize, Serialize};

use crate::observer::{Attachment, HeldOpen};
use crate::provider_in_use::ProviderInUse;
use crate::request::member::Member;

/// What a vault is, as `strongroom info` shows it. Nothing in it is secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Information {
    /// The vault id in readable groups: compare it with the one printed at `init`.
    pub fingerprint: String,
    /// The algorithms, by name.
    pub suite: String,
    /// How often the header has changed.
    pub generation: u64,
    /// The newest generation of keys.
    pub epoch: u32,
    /// The process that has the vault open.
    pub owner_pid: u32,
    /// Whether that process opened it for reading only.
    pub read_only: bool,
    /// Whether the fingerprint should be compared before the vault is trusted: anyone can make a vault for an age or
    /// SSH key.
    pub compare_fingerprint: bool,
    /// Where that process shows it now.
    pub attachments: Vec<Attachment>,
    /// Whether that process only holds it open for others, and how long.
    pub held_open: Option<HeldOpen>,
    /// Which providers compute in that process.
    pub providers: Vec<ProviderInUse>,
    /// How what is new is compressed, by name.
    pub compression: String,
    /// Sealed bytes of content that is not here, only at remotes.
    pub away_bytes: u64,
    /// Bytes of the segments that are here.
    pub here_bytes: u64,
    /// How many of them this device keeps at most, if there is a limit.
    pub keep_at_most: Option<u64>,
    /// Whether remotes have what a passphrase is tried against.
    pub guessable: bool,
    /// Who belongs to the vault: devices, then key slots.
    pub members: Vec<Member>,
    /// Membership records that nobody here made or accepted, a line each.
    pub unknown_records: Vec<String>,
}

/// How far a rotation of keys is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rotation {
    /// Whether what earlier keys sealed is being re-sealed.
    pub is_running: bool,
    /// The epoch whose keys seal.
    pub newest_epoch: u32,
    /// The oldest epoch whose keys are still there.
    pub oldest_epoch: u32,
    /// Sealed bytes that need keys of earlier epochs.
    pub bytes_left: u64,
    /// Those among them in segments that hold blocks which do not open.
    pub unreadable_bytes: u64,
    /// What keeps it from going on at this moment.
    pub trouble: Option<String>,
}

/// What `check` found: every table against every other; empty `problems` means sound.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckReport {
    /// Nodes looked at.
    pub inodes: u64,
    /// Names looked at.
    pub entries: u64,
    /// Blocks looked at.
    pub blocks: u64,
    /// What is wrong, one line each.
    pub problems: Vec<String>,
}
