//! The state of the intent log of an open file system, as memory and the database have it.
//!
//! Takes   the state of the log at opening, and the positions of records
//! Gives   the file, the numbers of its records, and the setting that says which of them count
//! Never   reads or writes the file: `commit/intents.rs` does, and its invariants hold here

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use strongroom_format::Epoch;
use strongroom_format::intent::{IntentLogId, IntentVersion, record_len};
use strongroom_format::limits::INTENT_SEALED_BYTES_MAX;
use strongroom_metadata::{InodeId, Transaction};
use strongroom_segments::IntentLog;

use crate::Result;
use crate::content::node::Node;

/// The setting that names the log whose records count.
pub(crate) const SETTING: &str = "intent_log";

/// What the log of an earlier run that did not end well gave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replay {
    /// Records that were replayed over what the database had.
    pub records: usize,
    /// Something is wrong with the log: what was synced in the last moments before the crash may be lost.
    pub fault: Option<ReplayFault>,
    /// What was replayed does not fit the disk or the quota now. Files show it, and the log stays until there is room.
    pub waits_for_room: bool,
}

/// What is wrong with a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayFault {
    /// The database knows of one, and there is none.
    #[error("the log `intents` is missing")]
    Missing,
    /// It is no log, or another one than the database knows of, or one of another version.
    #[error(
        "the log `intents` is damaged, or does not belong to this database; it is kept as `intents.unreadable`"
    )]
    Damaged,
    /// Something that was acknowledged is not there, or not as it was written. All that is there was brought back.
    #[error(
        "the log `intents` lacks writes whose `fsync` was confirmed; it is kept as `intents.unreadable`"
    )]
    Lost,
    /// A record does not open, or says what no record says.
    #[error("a record in the log `intents` is damaged; the log is kept as `intents.unreadable`")]
    Record,
}

/// The intent log of an open file system.
pub(crate) struct Intents {
    pub(crate) folder: Option<PathBuf>,
    pub(crate) log: Mutex<Log>,
    /// The last record that is durable. Held while the log is synced, so that all who wait share the next sync.
    pub(crate) synced: Mutex<u64>,
    /// The same, for those who must not wait for a flush.
    pub(crate) acknowledged: AtomicU64,
    /// What the setting says. Last of all locks.
    pub(crate) named: Mutex<Option<Named>>,
    /// Records made. For tests and `stats`.
    pub(crate) made: AtomicU64,
    /// What opening found.
    pub(crate) replay: Mutex<Replay>,
}

/// The log's file, and what is in it.
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) file: Option<Arc<IntentLog>>,
    /// The count of changes that must be durable before the database knows of the file.
    pub(crate) known_at: u64,
    /// Where the next record goes.
    pub(crate) end: usize,
    /// The last record.
    pub(crate) sequence: u64,
    /// Who has records in the log since it began.
    pub(crate) nodes: HashMap<InodeId, Arc<Node>>,
    /// The oldest epoch that anything in the file is sealed under, whether it still counts or not.
    pub(crate) oldest: Option<Epoch>,
    /// The disk refused it: every sync is a commit until the vault is opened again.
    pub(crate) is_unusable: bool,
}

impl Log {
    /// Whether the longest record fits behind the others.
    pub(crate) fn has_room(&self) -> bool {
        let end = self.end + record_len(INTENT_SEALED_BYTES_MAX);
        self.file.as_ref().is_some_and(|file| end <= file.size())
    }
}

/// What the database says of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) id: IntentLogId,
    /// How it is laid out, by the length of the setting.
    pub(crate) version: IntentVersion,
    /// Nothing counts any more that records up to this number tell.
    pub(crate) settled: u64,
    /// The newest number that was acknowledged at the last commit, or before.
    pub(crate) acknowledged: u64,
}

impl Named {
    /// Of a log of version 1: no other is made.
    pub(crate) fn encode(self) -> Vec<u8> {
        let numbers = [self.settled.to_le_bytes(), self.acknowledged.to_le_bytes()];
        [&self.id.0[..], &numbers.concat()].concat()
    }

    /// Of a log of version 0 the setting is the id alone. Nothing in the log proves its version.                     [8.2]
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (id, rest) = bytes.split_first_chunk::<16>()?;
        let number = |at: usize| Some(u64::from_le_bytes(*rest.get(at..)?.first_chunk::<8>()?));
        let version = match rest.len() {
            0 => IntentVersion::Told,
            16 => IntentVersion::Sectors,
            _ => return None,
        };
        Some(Self {
            id: IntentLogId(*id),
            version,
            settled: number(0).unwrap_or(0),
            acknowledged: number(8).unwrap_or(0),
        })
    }
}

impl Intents {
    pub(crate) fn new(folder: Option<PathBuf>) -> Self {
        Self {
            folder,
            log: Mutex::default(),
            synced: Mutex::default(),
            acknowledged: AtomicU64::new(0),
            named: Mutex::default(),
            made: AtomicU64::new(0),
            replay: Mutex::default(),
        }
    }

    /// A commit says how far the log was acknowledged, so that its end cannot go missing unnoticed. (5)
    pub(crate) fn note_acknowledged(&self, writer: &mut Transaction<'_>) -> Result<()> {
        let mut named = self.named.lock();
        let acknowledged = self.acknowledged.load(Ordering::Acquire);
        match named.as_mut() {
            Some(named) if named.acknowledged < acknowledged => {
                named.acknowledged = acknowledged;
                Ok(writer.put_setting(SETTING, &named.encode())?)
            }
            _ => Ok(()),
        }
    }
}
