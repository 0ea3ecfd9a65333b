//! What can be asked about kept revisions, and what is answered.
//!
//! Takes   the calls of the public API
//! Gives   values that travel with `request.rs`, under its version
//! Never   carries a key

use serde::{Deserialize, Serialize};
use strongroom_filesystem::Timestamp;
use strongroom_history::{Revision, RevisionId};

/// Everything that can be asked about revisions.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum HistoryRequest {
    Take {
        message: String,
        tags: Vec<String>,
        only_if_changed: bool,
    },
    /// Those kept behind `after`, oldest first.
    List {
        after: Option<[u8; 32]>,
    },
    Remove {
        id: [u8; 32],
    },
}

impl HistoryRequest {
    /// Whether asking twice does no harm.
    pub(crate) const fn is_repeatable(&self) -> bool {
        matches!(self, Self::List { .. })
    }

    /// Whether the vault may be another one afterwards.
    pub(crate) const fn changes(&self) -> bool {
        !matches!(self, Self::List { .. })
    }
}

/// Everything that is answered.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum HistoryResponse {
    /// `None`: nothing had changed.
    Taken(Option<RevisionFields>),
    Revisions(Vec<RevisionFields>),
}

/// A revision on its way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RevisionFields {
    id: [u8; 32],
    parents: Vec<[u8; 32]>,
    device: [u8; 32],
    sequence: u64,
    time: i64,
    message: String,
    tags: Vec<String>,
}

impl RevisionFields {
    /// About what it takes on its way, in bytes.
    pub(crate) fn len(&self) -> usize {
        let tags: usize = self.tags.iter().map(|tag| tag.len() + 8).sum();
        self.message.len() + tags + 256
    }
}

impl From<&Revision> for RevisionFields {
    fn from(revision: &Revision) -> Self {
        let body = &revision.body;
        Self {
            id: revision.id.0,
            parents: body.parents.iter().map(|parent| parent.0).collect(),
            device: body.device.0,
            sequence: body.sequence,
            time: body.time.0,
            message: body.message.clone(),
            tags: body.tags.clone(),
        }
    }
}

/// A kept state of the whole tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevisionInfo {
    /// Its name: the hash of what it says.
    pub id: RevisionId,
    /// What it follows.
    pub parents: Vec<RevisionId>,
    /// The device that took it.
    pub device: [u8; 32],
    /// Which one of that device.
    pub sequence: u64,
    /// When it was taken.
    pub time: Timestamp,
    /// What a person said about it.
    pub message: String,
    /// Names that a person gave it.
    pub tags: Vec<String>,
}

impl From<RevisionFields> for RevisionInfo {
    fn from(fields: RevisionFields) -> Self {
        Self {
            id: RevisionId(fields.id),
            parents: fields.parents.into_iter().map(RevisionId).collect(),
            device: fields.device,
            sequence: fields.sequence,
            time: Timestamp(fields.time),
            message: fields.message,
            tags: fields.tags,
        }
    }
}
