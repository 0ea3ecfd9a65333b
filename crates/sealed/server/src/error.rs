//! Why the server does not carry out a request, and whose fault that is.

use std::io;

use strongroom_remote::protocol::Refusal;

/// What every operation of this crate gives.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation failed. No text holds a token.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Caller: the request is refused.
    #[error("{}", .0.title())]
    Refused(Refusal),
    /// Caller: there is no account of that name.
    #[error("there is no account {0}")]
    UnknownAccount(String),
    /// Caller: there is an account of that name.
    #[error("there is already an account {0}")]
    AccountExists(String),
    /// Caller: an account cannot have that name.
    #[error(
        "{0:?} is not allowed as the name of an account: use at most 64 lower-case letters, digits, `.` and `-`"
    )]
    AccountName(String),
    /// Caller: the server has as many accounts as it may have.
    #[error("the server has the largest allowed number of accounts")]
    TooManyAccounts,
    /// Caller: without TLS others on the line would have the tokens.
    #[error("without TLS the server may listen only on this machine, as at 127.0.0.1")]
    ClearBeyond,
    /// Caller: another server uses the folder.
    #[error("another server is running on this folder")]
    InUse,
    /// Caller: there is no server to look after.
    #[error("the folder has no database of a server")]
    NoServer,
    /// Caller: a backup into the folder of the server itself.
    #[error("the backup needs a folder of its own: this is the folder of the server")]
    SameFolder,
    /// Caller: one backup at a time.
    #[error("another backup of this server is being made: try again when it has ended")]
    BackupRunning,
    /// Caller: an object was removed during a backup, and its bytes too.
    #[error(
        "the server that runs on the folder is of an earlier version, which does not know of backups: restart it, then run the backup again"
    )]
    EarlierServer,
    /// Caller: a path that SQLite cannot be given.
    #[error("the path of the backup is not UTF-8")]
    PathNotText,
    /// Caller: the folder holds something else than a server.
    #[error("the folder has files that do not belong to a server: use an empty or a new folder")]
    Foreign,
    /// Caller: the settings cannot be used.
    #[error("{0}")]
    Configuration(String),
    /// Caller: the folder belongs to a newer version.
    #[error(
        "the folder was written by a newer version (schema {found}, this version knows {known})"
    )]
    NewerSchema {
        /// What the database says.
        found: i64,
        /// The newest that this version knows.
        known: i64,
    },
    /// Caller: the certificate or its key cannot be used.
    #[error("the certificate cannot be used: {0}")]
    Certificate(String),
    /// Environment: the database failed.
    #[error("the database failed: {0}")]
    Database(#[from] rusqlite::Error),
    /// Environment: the database failed at the end of a change, which may have been made.
    #[error("the database failed at the end of a change: {0}")]
    Uncertain(rusqlite::Error),
    /// Environment: the system failed.
    #[error("{what}: {source}")]
    Io {
        /// What was done.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// Environment: the database has an object whose bytes are gone.
    #[error("the file of an object is missing from the folder of objects: {0}")]
    Lost(String),
}

impl Error {
    pub(crate) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }

    /// What is answered to who asked.
    pub(crate) fn refusal(&self) -> Refusal {
        match self {
            Self::Refused(refusal) => *refusal,
            Self::Io { source, .. } if is_full(source) => Refusal::DiskFull,
            Self::Database(rusqlite::Error::SqliteFailure(failure, _))
            | Self::Uncertain(rusqlite::Error::SqliteFailure(failure, _)) => match failure.code {
                rusqlite::ErrorCode::DiskFull => Refusal::DiskFull,
                rusqlite::ErrorCode::DatabaseBusy => Refusal::Busy,
                _ => Refusal::Failed,
            },
            _ => Refusal::Failed,
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}
