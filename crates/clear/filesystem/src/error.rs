//! The errors of the file system: why an operation failed.

use std::borrow::Cow;

use strongroom_history as history;
use strongroom_metadata::{InodeId, Timestamp};

/// What every operation gives.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation failed. The side at fault is said with each variant.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Caller: no such name or node.
    #[error("no such file or directory")]
    NotFound,
    /// Caller: the name is taken.
    #[error("the name already exists")]
    Exists,
    /// Caller: a directory is needed.
    #[error("not a directory")]
    NotADirectory,
    /// Caller: a directory is not allowed here.
    #[error("is a directory")]
    IsADirectory,
    /// Caller: the directory has entries.
    #[error("the directory is not empty")]
    NotEmpty,
    /// Caller: a name of more than 255 bytes.
    #[error("the name is longer than 255 bytes")]
    NameTooLong,
    /// Caller: empty, `.`, `..`, or with `/` or NUL in it.
    #[error("the name is not allowed")]
    InvalidName,
    /// Caller: an argument out of its range.
    #[error("invalid argument: {0}")]
    InvalidArgument(Cow<'static, str>),
    /// Caller: the mode bits forbid it (EACCES).
    #[error("permission denied")]
    PermissionDenied,
    /// Caller: only the owner or the superuser may (EPERM).
    #[error("operation not permitted")]
    NotPermitted,
    /// Caller: more names than an inode can count.
    #[error("too many links")]
    TooManyLinks,
    /// Caller: beyond the largest file.
    #[error("the file would become too large")]
    FileTooLarge,
    /// Caller: no such extended attribute (ENODATA).
    #[error("no such attribute")]
    NoAttribute,
    /// Caller: the buffer for a name list or value is too small (ERANGE).
    #[error("the name or value is too long")]
    ValueTooLarge,
    /// Caller: this node or file system cannot do it.
    #[error("operation not supported")]
    NotSupported,
    /// Caller: `SEEK_DATA` or `SEEK_HOLE` beyond the end (ENXIO).
    #[error("the file has no data at or after this offset")]
    NoSuchOffset,
    /// Caller: somebody else holds the lock (EAGAIN).
    #[error("locked by another owner")]
    WouldBlock,
    /// Caller: the node was removed and purged, or belongs to an owner that died.
    #[error("the file no longer exists")]
    Stale,
    /// Environment: the disk is full.
    #[error("no space left on the disk that holds the vault")]
    NoSpace,
    /// Environment: the quota is used up.
    #[error("the vault's quota is used up")]
    QuotaExceeded,
    /// Environment: opened for reading only.
    #[error("the vault is open for reading only")]
    ReadOnly,
    /// Caller: what would change is in a snapshot.
    #[error(
        "snapshots cannot be changed; copy what you need out of one, or use `strongroom restore`"
    )]
    InSnapshot,
    /// Caller: a tag that another snapshot has.
    #[error(
        "the snapshot {revision} already has the tag `{tag}`; choose another tag, or remove that snapshot first"
    )]
    TagTaken {
        /// The tag.
        tag: String,
        /// The beginning of the id of who has it.
        revision: String,
    },
    /// Caller: a revision that is not there, or not the only one that is meant; see the text.
    #[error("{0}")]
    UnknownRevision(String),
    /// Environment: what would change is of a later version; see the text.
    #[error("{0}")]
    UnknownFormat(String),
    /// Environment: an earlier write failed; nothing more is accepted until the vault is opened again.
    #[error("an earlier write to the disk failed; open the vault again")]
    Failed,
    /// Environment: no randomness.
    #[error("{0}")]
    Random(#[from] strongroom_crypto::RandomError),
    /// Environment: no thread for the background work.
    #[error("the system could not start a thread for the background work: {0}")]
    NoThread(#[source] std::io::Error),
    /// Environment: the metadata store.
    #[error("metadata: {0}")]
    Metadata(#[source] strongroom_metadata::Error),
    /// Environment: the segment store.
    #[error("segments: {0}")]
    Segments(#[source] strongroom_segments::Error),
    /// Environment or tampering: a revision, or a node of its tree, is not as it was written.
    #[error("the history is damaged: {0}")]
    History(#[source] history::Error),
    /// Environment or tampering: a block of a tree does not open.
    #[error(
        "the history is damaged: a part of it, in a segment file, does not open; run `strongroom verify`, which names the file"
    )]
    DamagedHistory,
    /// Environment or tampering: a block is lost or altered; the rest of the file stays readable.
    #[error(
        "damaged content in inode {} at offset {offset}; run `strongroom verify`, which names all damaged files", inode.0
    )]
    Damaged {
        /// Whose content.
        inode: InodeId,
        /// First byte that cannot be read.
        offset: u64,
    },
    /// Environment: the content lies only at a remote, which cannot be asked now.
    #[error("the content is only at a remote and cannot be fetched now: {0}")]
    OnlyAtRemote(String),
    /// Environment or tampering: the content lay only at a remote, and is not there any more as it was published.
    #[error(
        "the content was only at a remote, which has lost it: {0}. If another device still has the content, push it again from there, then run `strongroom sync` here"
    )]
    LostAtRemote(String),
    /// Caller: the content was taken out of the vault for good. Nothing is damaged.
    #[error("the content was erased from all snapshots; it is gone for good")]
    Erased {
        /// Whose content.
        inode: InodeId,
        /// First byte that was erased.
        offset: u64,
        /// When, to the second; `None` if that was not noted.
        when: Option<Timestamp>,
    },
}

impl From<strongroom_metadata::Error> for Error {
    fn from(error: strongroom_metadata::Error) -> Self {
        match error {
            strongroom_metadata::Error::NoSpace => Self::NoSpace,
            strongroom_metadata::Error::Failed => Self::Failed,
            other => Self::Metadata(other),
        }
    }
}

impl From<strongroom_segments::Error> for Error {
    fn from(error: strongroom_segments::Error) -> Self {
        match error {
            strongroom_segments::Error::NoSpace => Self::NoSpace,
            strongroom_segments::Error::Failed => Self::Failed,
            other => Self::Segments(other),
        }
    }
}

impl From<history::Error> for Error {
    fn from(error: history::Error) -> Self {
        match error {
            history::Error::Metadata(error) => error.into(),
            history::Error::Invalid(why) => Self::InvalidArgument(why.into()),
            history::Error::TooManyChanges => Self::InvalidArgument(error.to_string().into()),
            history::Error::NotFound => Self::NotFound,
            history::Error::NotADirectory => Self::NotADirectory,
            history::Error::UnknownRevision => Self::UnknownRevision(error.to_string()),
            error => Self::History(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_changes_than_a_comparison_takes_are_no_damage() {
        let error = Error::from(history::Error::TooManyChanges);
        assert!(matches!(error, Error::InvalidArgument(why) if why.contains("files changed")));
    }
}
