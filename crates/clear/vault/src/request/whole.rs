//! Requests about a vault as a whole: its facts, its settings, its keys, and a copy of its folder.
//!
//! Takes   the calls of the public API
//! Gives   values that are sent with `request.rs`, under its protocol version
//! Never   carries a key in clear

use serde::{Deserialize, Serialize};
use strongroom_crypto::Compression;

use crate::request::frame::Bytes;

/// How a `Compression` travels.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Compression")]
enum CompressionField {
    None,
    Zstd,
}

/// What is asked of all of it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(crate) enum WholeRequest<'a> {
    Space,
    Quota,
    SetQuota {
        bytes: Option<u64>,
    },
    SetKeepAtMost {
        bytes: Option<u64>,
    },
    SetCompression(#[serde(with = "CompressionField")] Compression),
    Sync,
    Information,
    Counters,
    Check,
    Compact,
    Rotation,
    /// Puts a new header in the place of the one of generation `base`.
    InstallKeys {
        base: u64,
        header: Bytes<'a>,
        #[serde(borrow)]
        handover: Option<Bytes<'a>>,
        purpose: Purpose,
    },
    /// Notes that a person knows of every membership record so far.
    AcceptRecords,
}

impl WholeRequest<'_> {
    /// Whether asking twice does no harm.
    pub(crate) const fn is_repeatable(&self) -> bool {
        !matches!(self, Self::Compact | Self::InstallKeys { .. })
    }

    /// Whether the vault may be another one afterwards.
    pub(crate) const fn changes(&self) -> bool {
        match self {
            Self::SetQuota { .. }
            | Self::SetKeepAtMost { .. }
            | Self::SetCompression(_)
            | Self::Compact
            | Self::InstallKeys { .. }
            | Self::AcceptRecords => true,
            Self::Space
            | Self::Quota
            | Self::Sync
            | Self::Information
            | Self::Counters
            | Self::Check
            | Self::Rotation => false,
        }
    }
}

/// What a change of keys is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Purpose {
    /// What is stored from now on.
    Future,
    /// What was stored before too: it is to be re-sealed under the epoch that begins.
    Rotation,
}

/// What somebody asks who copies the vault folder.
#[derive(Debug, Serialize, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(crate) enum BackupRequest<'a> {
    /// From now on, until `End` or the end of the session, every segment file stays.
    Begin,
    /// Puts the database with all that was acknowledged, and the replica file, into the vault folder `target`, where they wait; and
    /// the records of its revisions.
    Database { target: Bytes<'a> },
    /// The segments that the copied database needs, behind `after`, by their ids, with the bytes that each has at least. The lost
    /// segment is among them if something refers to it.
    Needed { after: Option<[u8; 16]> },
    /// `renewed`: a backup whose records of revisions that its database does not know shall go.
    End {
        #[serde(borrow)]
        renewed: Option<Bytes<'a>>,
    },
}
