//! Requests about snapshots, and their answers.
//!
//! Takes   the calls of the public API
//! Gives   values that are sent with `request.rs`, under its protocol version
//! Never   carries a key

use serde::{Deserialize, Serialize};
use strongroom_filesystem::Timestamp;
use strongroom_history::{Candidate, ErasedContent, PathDifference, Revision, RevisionId, Usage};

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
    /// As `Remove`, by a rule and not by a person: it stays while a remote or a push needs it. `Whether` it is gone.
    LetGo {
        id: [u8; 32],
    },
    /// Differences at and below `path`, behind the path `behind`; `after`: `None` for the living state.
    Differences {
        before: [u8; 32],
        after: Option<[u8; 32]>,
        path: Vec<u8>,
        behind: Option<Vec<u8>>,
    },
    /// Brings back what was at `path`, to the path `to`. `message`: of the snapshot of what goes and is in none; `None`: it just goes.
    Restore {
        id: [u8; 32],
        path: Vec<u8>,
        to: Vec<u8>,
        message: Option<String>,
    },
    Retention,
    /// The rule that was set last, on whichever device: a `HistoryResponse::Retention`.
    SharedRetention,
    /// `rule`: as `Retention::encode` makes it.
    SetRetention {
        rule: Vec<u8>,
    },
    /// What would come back if these went.
    HeldAlone {
        ids: Vec<[u8; 32]>,
    },
    /// What would come back if each of these went by itself; at most `REVISIONS_MAX`.
    EachHeldAlone {
        ids: Vec<[u8; 32]>,
    },
    Usage,
    /// Takes what was at `path` out of every snapshot; with `trial`, only says what that would be.
    Erase {
        path: Vec<u8>,
        trial: bool,
    },
}

impl HistoryRequest {
    /// Whether asking twice does no harm.
    pub(crate) const fn is_repeatable(&self) -> bool {
        matches!(
            self,
            Self::List { .. }
                | Self::Differences { .. }
                | Self::Retention
                | Self::SharedRetention
                | Self::HeldAlone { .. }
                | Self::EachHeldAlone { .. }
                | Self::Usage
        )
    }

    /// Whether the vault may be another one afterwards.
    pub(crate) const fn changes(&self) -> bool {
        !self.is_repeatable()
    }
}

/// Everything that is answered.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum HistoryResponse {
    /// `None`: nothing had changed.
    Taken(Option<RevisionInfo>),
    Revisions(Vec<RevisionInfo>),
    Differences(Vec<PathDifference>),
    Restored(Restored),
    /// `None`: no rule was set.
    Retention(Option<Vec<u8>>),
    RuleSet,
    HeldAlone(u64),
    EachHeldAlone(Vec<u64>),
    Usage(Usage),
    Erased(ErasedContent),
}

/// What was brought back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restored {
    /// How many nodes.
    pub nodes: u64,
    /// Files whose content was erased, by their paths in the snapshot, and when: they are left out.
    pub erased: Vec<(Vec<u8>, Option<Timestamp>)>,
    /// How many more such files there are.
    pub erased_more: u64,
    /// The snapshot that has what was replaced and changed meanwhile, as `Vault::restore_keeping` says; `None` if nothing was.
    pub snapshot_meanwhile: Option<RevisionId>,
}

/// A revision that is kept: one state of the whole tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

impl RevisionInfo {
    /// What selectors and rules ask of it.
    pub(crate) fn candidate(&self) -> Candidate<'_> {
        Candidate {
            id: self.id,
            parents: &self.parents,
            device: &self.device,
            time: self.time,
            message: &self.message,
            tags: &self.tags,
        }
    }

    /// About what it takes on its way, in bytes.
    pub(crate) fn len_on_its_way(&self) -> usize {
        let tags: usize = self.tags.iter().map(|tag| tag.len() + 8).sum();
        self.message.len() + tags + 256
    }
}

impl From<&Revision> for RevisionInfo {
    fn from(revision: &Revision) -> Self {
        let body = &revision.body;
        Self {
            id: revision.id,
            parents: body.parents.clone(),
            device: body.device.0,
            sequence: body.sequence,
            time: body.time,
            message: body.message.clone(),
            tags: body.tags.clone(),
        }
    }
}
