//! What can be asked about kept revisions, and what is answered.
//!
//! Takes   the calls of the public API
//! Gives   values that travel with `request.rs`, under its version
//! Never   carries a key

use serde::{Deserialize, Serialize};
use strongroom_filesystem::{NodeKind, Timestamp};
use strongroom_history::{Difference, Entry, Revision, RevisionId};

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
    /// Differences at and below `path`, behind the path `behind`; `after`: `None` for the living state.
    Differences {
        before: [u8; 32],
        after: Option<[u8; 32]>,
        path: Vec<u8>,
        behind: Option<Vec<u8>>,
    },
    /// Brings back what was at `path`, to the path `to`.
    Restore {
        id: [u8; 32],
        path: Vec<u8>,
        to: Vec<u8>,
    },
    Retention,
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
    /// Takes what was at `path` out of every kept state; with `trial`, only says what that would be.
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
    /// Files whose content was erased, by their paths in the kept state, and when: they are left out.
    pub erased: Vec<(Vec<u8>, Option<Timestamp>)>,
    /// How many more such files there are.
    pub erased_more: u64,
}

/// What was erased, or would be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErasedContent {
    /// Kept states that had something at the path.
    pub states: u64,
    /// Files whose content it was, over all of them.
    pub files: u64,
    /// Sealed bytes that are gone.
    pub bytes: u64,
    /// Sealed bytes that stay, because other files have the same content.
    pub shared_bytes: u64,
    /// Segment files that still hold some of it, because other blocks in them are damaged.
    pub segments_left: u64,
}

/// What the stored content of a vault is for, in sealed bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// What files name now, whether or not kept states name it too.
    pub live_bytes: u64,
    /// What only kept states hold, their directories included.
    pub kept_bytes: u64,
    /// What nothing names any more; compaction gives it back.
    pub waste_bytes: u64,
}

/// A path that is not the same in two revisions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathDifference {
    /// From the root, beginning with `/`.
    pub path: Vec<u8>,
    /// What was there before.
    pub before: Option<Side>,
    /// What is there after.
    pub after: Option<Side>,
    /// Both sides are files with the same content, symlinks with the same target, or of another kind alike.
    pub same_content: bool,
    /// Both sides have the same extended attributes.
    pub same_xattrs: bool,
}

/// What is at a path on one side of a difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Side {
    /// The node, and what tells it from another of its number: the same under another name was moved.
    pub node: (u64, u64),
    /// What it is.
    pub kind: NodeKind,
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes of content.
    pub size: u64,
    /// Last change of content.
    pub mtime: Timestamp,
}

impl From<&Entry> for Side {
    fn from(entry: &Entry) -> Self {
        Self {
            node: (entry.inode.0, entry.birth_id),
            kind: entry.kind,
            mode: entry.mode,
            uid: entry.uid,
            gid: entry.gid,
            size: entry.size,
            mtime: entry.mtime,
        }
    }
}

impl From<&Difference> for PathDifference {
    fn from(difference: &Difference) -> Self {
        let (before, after) = (difference.before.as_ref(), difference.after.as_ref());
        Self {
            path: difference.path.clone(),
            before: before.map(Side::from),
            after: after.map(Side::from),
            same_content: difference.has_same_content(),
            same_xattrs: before.map(|side| &side.xattrs) == after.map(|side| &side.xattrs),
        }
    }
}

/// A kept state of the whole tree.
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
