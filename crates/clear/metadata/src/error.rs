//! Why an operation of the metadata store failed, and whose fault it is.

use std::io;

use strongroom_folder::{Odd, is_full, odd_of};

use crate::rows::{BlockNumber, SegmentNumber};

/// What the VFS says of a page that is not of the newest commit: a corruption, with a number that SQLite has no use for.
pub(crate) const OTHER_STATE: i32 = libsqlite3_sys::SQLITE_CORRUPT | (0x7f << 8);

/// What every operation of this crate gives.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation failed. The side at fault is said with each variant.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Caller: the key is not this database's, or what proves its pages is damaged; the two cannot be told apart.
    #[error(
        "the database does not open: the metadata key that was used is not the key of this database, or a part of the database is damaged (its first \
         page, or the header of its page tree)"
    )]
    WrongKey,
    /// Environment or tampering: a page or row is not as it was written.
    #[error("the metadata database is damaged ({0}); run `strongroom verify`")]
    Damaged(&'static str),
    /// Tampering: something lies in the place of a file of the database that no vault has.
    #[error("{0}; nothing was read from it: move it out of the vault folder")]
    Odd(Odd),
    /// Environment: the disk is full, the reserve used up as well.
    #[error("no space left on the disk that holds the vault")]
    NoSpace,
    /// Environment: the disk failed.
    #[error("the disk failed: {0}")]
    Disk(io::ErrorKind),
    /// Environment: an earlier write failed; nothing more is accepted until the vault is opened again.
    #[error("an earlier write to the metadata database failed; open the vault again")]
    Failed,
    /// Environment: an earlier read failed, and the connection that met it can read nothing more. Nothing is known to be damaged.
    #[error("an earlier read of the metadata database failed; open the vault again")]
    ReadFailed,
    /// Caller: the store was opened for reading.
    #[error("the metadata database is open for reading only")]
    ReadOnly,
    /// Caller: there is no metadata database in this folder.
    #[error("there is no metadata database in this folder")]
    Missing,
    /// Caller: there is one already.
    #[error("there is already a metadata database in this folder")]
    AlreadyThere,
    /// Environment: written by a newer program.
    #[error(
        "the metadata database has schema version {found}; this program knows up to {known}: update it"
    )]
    NewerVersion {
        /// What the database says.
        found: u32,
        /// The newest this build knows.
        known: u32,
    },
    /// Environment: a version this build can no longer bring up to date without writing.
    #[error("the metadata database has the older schema version {found}; open it once for writing")]
    OlderVersion {
        /// What the database says.
        found: u32,
    },
    /// Caller: the directory has this name.
    #[error("the directory already has an entry of this name")]
    EntryExists,
    /// Caller: a block of this id is stored.
    #[error("a block of this id is stored already")]
    BlockExists,
    /// Caller: no such block.
    #[error("there is no block {}", .0.0)]
    UnknownBlock(BlockNumber),
    /// Caller: no such segment.
    #[error("there is no segment {}", .0.0)]
    UnknownSegment(SegmentNumber),
    /// Caller: blocks lie in the segment still.
    #[error("segment {} still holds blocks; only an empty one can be removed", .0.0)]
    SegmentInUse(SegmentNumber),
    /// Caller: a count of references would leave 0 to 2^32 - 1.
    #[error("the reference count of block {} would be below 0 or above 2^32 - 1", .0.0)]
    References(BlockNumber),
    /// Caller: an argument out of its range.
    #[error("invalid argument: {0}")]
    Invalid(&'static str),
    /// Environment: somebody reads the database, here or in another process, and did not come to an end for long.
    #[error(
        "snapshots, checks or backups read the metadata database without a pause; try again when they have ended"
    )]
    Busy,
    /// Environment: no memory for a page.
    #[error("out of memory")]
    OutOfMemory,
    /// Bug: SQLite refused a statement of this crate. The number is SQLite's extended result code.
    #[error("the metadata database refused a statement (SQLite result {0})")]
    Refused(i32),
}

impl Error {
    /// Whether the caller asked for something impossible, so that nothing was changed and nothing is lost.
    #[must_use]
    pub const fn is_callers(&self) -> bool {
        matches!(
            self,
            Self::EntryExists
                | Self::BlockExists
                | Self::UnknownBlock(_)
                | Self::UnknownSegment(_)
                | Self::SegmentInUse(_)
                | Self::References(_)
                | Self::Invalid(_)
        )
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        if let Some(odd) = odd_of(&error) {
            return Self::Odd(odd.clone());
        }
        match is_full(&error) {
            true => Self::NoSpace,
            false => Self::Disk(error.kind()),
        }
    }
}

impl From<strongroom_folder::Error> for Error {
    fn from(error: strongroom_folder::Error) -> Self {
        io::Error::from(error).into()
    }
}

impl From<rusqlite::Error> for Error {
    /// Keeps the result code only: SQLite's texts may quote what a row holds.
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::Error as Sql;
        use rusqlite::ErrorCode as Code;
        match error {
            Sql::SqliteFailure(cause, _) => match cause.code {
                Code::DiskFull => Self::NoSpace,
                Code::NotADatabase => Self::Damaged("a page does not authenticate"),
                Code::DatabaseCorrupt if cause.extended_code == OTHER_STATE => {
                    Self::Damaged("a page is not of the newest state")
                }
                Code::DatabaseCorrupt => Self::Damaged("a page is malformed"),
                Code::SystemIoFailure => Self::Disk(disk_kind(cause.extended_code)),
                Code::CannotOpen | Code::PermissionDenied => {
                    Self::Disk(io::ErrorKind::PermissionDenied)
                }
                Code::ReadOnly => Self::ReadOnly,
                Code::DatabaseBusy | Code::DatabaseLocked => Self::Busy,
                Code::OutOfMemory => Self::OutOfMemory,
                _ => Self::Refused(cause.extended_code),
            },
            Sql::FromSqlConversionFailure(..)
            | Sql::IntegralValueOutOfRange(..)
            | Sql::InvalidColumnType(..)
            | Sql::Utf8Error(..) => Self::Damaged("a row has a value of the wrong type"),
            _ => Self::Refused(0),
        }
    }
}

/// The closest `ErrorKind` of an I/O result code of SQLite.
fn disk_kind(extended_code: i32) -> io::ErrorKind {
    match extended_code {
        libsqlite3_sys::SQLITE_IOERR_SHORT_READ => io::ErrorKind::UnexpectedEof,
        libsqlite3_sys::SQLITE_IOERR_NOMEM => io::ErrorKind::OutOfMemory,
        libsqlite3_sys::SQLITE_IOERR_ACCESS => io::ErrorKind::PermissionDenied,
        _ => io::ErrorKind::Other,
    }
}
