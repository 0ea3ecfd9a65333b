//! Why an operation of the history failed, and whose fault it is.

/// What most operations of this crate give.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation failed. The side at fault is said with each variant.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Environment or tampering: a node of a tree, or a revision, is not as it was written.
    #[error("{0}")]
    Damaged(&'static str),
    /// Environment or tampering: a block that a tree names is missing.
    #[error("a block that a tree of a snapshot refers to is missing")]
    MissingBlock,
    /// Tampering: a revision whose signature is by no device of this vault.
    #[error("a snapshot is forged: no device of this vault signed it")]
    Forged,
    /// Caller: no such revision.
    #[error("there is no such snapshot")]
    UnknownRevision,
    /// Caller: a message or tag that cannot be kept.
    #[error("{0}")]
    Invalid(&'static str),
    /// Caller: two trees differ by more than is kept in memory at once.
    #[error("more than {max} files changed; so many cannot be joined at once", max = crate::limits::DELTA_ITEMS_MAX)]
    TooManyChanges,
    /// Caller: no such name.
    #[error("no such file or directory")]
    NotFound,
    /// Caller: a name below something that is no directory.
    #[error("not a directory")]
    NotADirectory,
    /// Environment: the metadata store failed.
    #[error(transparent)]
    Metadata(#[from] strongroom_metadata::Error),
}

impl From<strongroom_format::FormatError> for Error {
    fn from(error: strongroom_format::FormatError) -> Self {
        Self::Damaged(match error {
            strongroom_format::FormatError::Invalid { what, .. } => what,
            strongroom_format::FormatError::TooLong { .. } => "a record is too long",
            _ => "a record is invalid",
        })
    }
}
