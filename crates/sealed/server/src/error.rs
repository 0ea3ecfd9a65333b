//! Why the server does not carry out a request, and whose fault that is.

use std::io;

use strongroom_remote::protocol::Refusal;
use tokio_postgres::error::SqlState;

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
    /// Caller: one backup at a time; and of several instances none while `gc` runs, or the other way round.
    #[error(
        "another backup of this server is being made, or `gc` is removing something: try again when that has ended"
    )]
    BackupRunning,
    /// Caller: an object was removed during a backup, and its bytes too.
    #[error(
        "the server that runs on the folder has an earlier version, which cannot take part in a backup: restart it with this version, then run the backup again"
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
    #[error("it is not known whether a change was made: {0}")]
    Uncertain(Box<Error>),
    /// Environment: PostgreSQL cannot be reached, or ends connections.
    #[error("the database cannot be reached: {0}")]
    DatabaseAway(String),
    /// Environment: all connections to PostgreSQL are in use for too long, or a lock is.
    #[error("the database is overloaded")]
    DatabaseBusy,
    /// Environment: PostgreSQL failed. Its details are not in the text: they may have a name of an object.
    #[error("the database failed: {what} ({code})")]
    Postgres {
        /// Its code for what failed.
        code: String,
        /// What it says.
        what: String,
    },
    /// Environment: the database has something that no version of this program writes.
    #[error("the database gave an unexpected answer: {0}")]
    Unsound(&'static str),
    /// Caller: the database belongs to another program.
    #[error(
        "the database has tables that do not belong to a server: use an empty one, or a schema of its own (`?options=-csearch_path%3DNAME`)"
    )]
    ForeignDatabase,
    /// Environment: the object store cannot be reached, or fails.
    #[error("the object store cannot be reached: {0}")]
    ObjectsAway(String),
    /// Environment: the object store has no space left.
    #[error("the object store is full")]
    ObjectsFull,
    /// Caller: what works with the folder of a server only.
    #[error(
        "this server stores everything in PostgreSQL and an object store: back these up while `strongroom-server during-backup` runs, as \
         docs/guide/server.md says"
    )]
    NoFolder,
    /// Caller: what works with PostgreSQL only.
    #[error("this server stores everything in its folder: use `strongroom-server backup`")]
    OnlyFolder,
    /// Environment: the lock of a backup ended before the backup.
    #[error(
        "the lock that keeps removed objects during a backup was lost, so some objects may be missing from this backup: make the backup again"
    )]
    BackupLost,
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
    /// What failed at the end of a change.
    pub(crate) fn uncertain(self) -> Self {
        Self::Uncertain(Box::new(self))
    }

    pub(crate) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }

    /// What is answered to who asked.
    pub(crate) fn refusal(&self) -> Refusal {
        match self {
            Self::Refused(refusal) => *refusal,
            Self::Io { source, .. } if is_full(source) => Refusal::DiskFull,
            Self::Uncertain(error) => error.refusal(),
            Self::Database(rusqlite::Error::SqliteFailure(failure, _)) => match failure.code {
                rusqlite::ErrorCode::DiskFull => Refusal::DiskFull,
                rusqlite::ErrorCode::DatabaseBusy => Refusal::Busy,
                _ => Refusal::Failed,
            },
            Self::DatabaseAway(_) => Refusal::DatabaseAway,
            Self::DatabaseBusy => Refusal::Busy,
            Self::Postgres { code, .. } if code == SqlState::DISK_FULL.code() => Refusal::DiskFull,
            Self::ObjectsAway(_) => Refusal::ObjectsAway,
            Self::ObjectsFull => Refusal::DiskFull,
            _ => Refusal::Failed,
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<tokio_postgres::Error> for Error {
    /// By who can do something about it.
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(said) = error.as_db_error() else {
            // The line, most of the time; what failed on it is said by the cause.
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            return Self::DatabaseAway(
                cause.map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}")),
            );
        };
        let code = said.code();
        let busy = [
            SqlState::QUERY_CANCELED,
            SqlState::LOCK_NOT_AVAILABLE,
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::TOO_MANY_CONNECTIONS,
        ];
        if busy.contains(code) {
            return Self::DatabaseBusy;
        }
        // Connections that end; a database that starts, stops, or only reads after it lost its place.
        let is_away = ["08", "57"]
            .iter()
            .any(|class| code.code().starts_with(*class))
            || [
                SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
                SqlState::READ_ONLY_SQL_TRANSACTION,
            ]
            .contains(code);
        let what = said.message().to_owned();
        match is_away {
            true => Self::DatabaseAway(what),
            false => Self::Postgres {
                code: code.code().to_owned(),
                what,
            },
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}
