//! Requests about damage, and their answers.
//!
//! Takes   the steps of a verification
//! Gives   values that are sent with `request.rs`, under its protocol version
//! Never   carries a key, or an answer too long for one message: the client asks again for the rest

use serde::{Deserialize, Serialize};

/// The steps of a verification.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum VerifyRequest {
    /// How much there is behind a segment.
    Size { after: Option<[u8; 16]> },
    /// Tables against each other.
    Structure,
    /// The small files of the vault folder.
    Files,
    /// The blocks that travel in the database.
    Carried { deep: bool },
    /// The blocks of segments, and the files themselves.
    Segments {
        after: Option<[u8; 16]>,
        /// Only these, if there are any.
        only: Vec<[u8; 16]>,
        bytes_max: u64,
        deep: bool,
    },
    /// What files and trees of snapshots lost with `blocks`, each with its lost chunks, from the `skip`th line on. `deep`: the tree of every snapshot is gone over.
    Damage {
        blocks: Vec<(u64, u16)>,
        deep: bool,
        skip: u64,
    },
    /// What a verification of this depth can go on from.
    Resume { deep: bool },
    /// It is stopped here.
    Keep(StoppedAt),
    /// It came to its end.
    End,
}

/// Where a verification was stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoppedAt {
    pub(crate) deep: bool,
    /// The last segment that was read.
    pub(crate) after: [u8; 16],
    pub(crate) bytes: u64,
    pub(crate) blocks: u64,
    /// Segments to look at again: something was found in them.
    pub(crate) suspects: Vec<[u8; 16]>,
}

/// What can be gone on from, or why nothing can.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ResumeFields {
    pub(crate) state: Option<StoppedAt>,
    /// When it was kept, in seconds since 1970.
    pub(crate) kept_s: u64,
    pub(crate) refused: String,
}

/// A file of the vault folder that is not as it was written, or says what a person must decide about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileProblem {
    /// Its path inside the vault folder.
    pub file: String,
    /// What is wrong with it.
    pub what: String,
    /// Whether the file is not as it was written. Else its header has a key or device that nobody here accepted, or that must be replaced.
    #[serde(rename = "damage")]
    pub is_damage: bool,
}

/// What was found in a part of the segments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PartFields {
    pub(crate) last: Option<[u8; 16]>,
    pub(crate) bytes: u64,
    pub(crate) blocks: u64,
    /// The first of those that do not open, each with its lost chunks, and how many more there are.
    pub(crate) damaged: Vec<(u64, u16)>,
    pub(crate) damaged_more: u64,
    /// The segments that hold something that is not as it was written.
    pub(crate) suspects: Vec<[u8; 16]>,
    pub(crate) problems: Vec<FileProblem>,
}

/// A page of what was lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DamagePage {
    pub(crate) lines: Vec<DamageLine>,
    /// Whether there are further lines.
    pub(crate) more: bool,
    /// Nodes of trees of snapshots that were gone over.
    pub(crate) nodes: u64,
}

/// One thing that was lost, in the living state or in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DamageLine {
    pub(crate) path: Vec<u8>,
    pub(crate) what: Loss,
    /// The snapshot; `None` for the living state.
    pub(crate) revision: Option<[u8; 32]>,
}

/// What a path lost.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Loss {
    /// Bytes of the file, from the first to before the second.
    Content(u64, u64),
    /// So many names in the directory, with all below them.
    Names(u64),
    /// The extended attributes.
    Xattrs,
    /// The whole snapshot.
    Tree,
    /// Nothing that can be named: the snapshot does not hold together.
    Structure,
    /// Content of a file that has no name any more.
    Unnamed,
}

impl std::fmt::Display for Loss {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Content(start, end) => write!(formatter, "bytes {start} to {end}"),
            Self::Names(count) => write!(formatter, "{count} of its names"),
            Self::Xattrs => formatter.write_str("its extended attributes"),
            Self::Tree => formatter.write_str("everything"),
            Self::Structure => formatter.write_str("its tree structure"),
            Self::Unnamed => formatter.write_str("content of a removed file that is still open"),
        }
    }
}
