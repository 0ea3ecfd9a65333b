//! Errors, as the owner of a vault sends them to its clients.
//!
//! Takes   an error of a request
//! Gives   the part of it that is sent, and from that part the error that the caller of the client gets
//! Never   carries a key or a passphrase

use serde::{Deserialize, Serialize};
use strongroom_filesystem::{self as filesystem, InodeId, Timestamp};
use strongroom_folder::is_full;
use strongroom_metadata::DATABASE_FILE;

use crate::Error;
use crate::folder::HEADER;

/// An error on its way: as much of `Error` as a request can meet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Failure {
    File(FileFailure),
    Same(SameFailure),
    Damaged {
        inode: u64,
        offset: u64,
    },
    Erased {
        inode: u64,
        offset: u64,
        when: Option<i64>,
    },
    OnlyAtRemote(String),
    LostAtRemote(String),
    NotOpenForReading,
    NotOpenForWriting,
    Closed,
    /// The header in the vault folder is damaged, or another one was put there.
    Header(String),
    Storage(String),
    /// The database is damaged.
    Database(String),
}

/// What is the same on its way: a variant of `Error`, and its fields, each with a name here.
macro_rules! same_failures {
    ($($variant:ident { $($field:tt $name:ident: $type:ty),* }),+ $(,)?) => {
        /// An error that travels as it is.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub(crate) enum SameFailure { $($variant { $($name: $type),* }),+ }

        fn same_failure(error: &Error) -> Option<SameFailure> {
            match error {
                $(Error::$variant { $($field: $name),* } => {
                    Some(SameFailure::$variant { $($name: $name.clone()),* })
                })+
                _ => None,
            }
        }

        impl From<SameFailure> for Error {
            fn from(failure: SameFailure) -> Self {
                match failure {
                    $(SameFailure::$variant { $($name),* } => Self::$variant { $($field: $name),* },)+
                }
            }
        }
    };
}

same_failures!(
    TooManySymlinks {},
    PathTooLong {},
    TooManyOpenFiles {},
    TransactionTooLarge {},
    Changed {},
    FolderMoved {},
    GenerationBehind { seen seen: u64, found found: u64 },
    HeaderForeign { record record: u64 },
    Keys { 0 text: String },
    Revision { 0 text: String },
    UnknownFormat { 0 text: String },
    TagTaken { tag tag: String, revision revision: String },
    Odd { file file: String, what what: String },
    RemoteNameTaken { 0 name: String },
    UnknownRemote { 0 name: String },
    RemoteUntrue { 0 why: String },
    RemoteBusy {},
    KeysInUse {},
    NothingInCommon {},
    ContentAway { bytes bytes: u64, what what: String },
    DeviceReplaced {},
);

macro_rules! file_failures {
    ($($variant:ident),+) => {
        /// An error of the file system on its way.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub(crate) enum FileFailure { $($variant),+ , InvalidArgument(String) }

        fn file_failure(error: &filesystem::Error) -> Option<FileFailure> {
            match error {
                $(filesystem::Error::$variant => Some(FileFailure::$variant),)+
                filesystem::Error::InvalidArgument(why) => Some(FileFailure::InvalidArgument(why.to_string())),
                _ => None,
            }
        }

        impl From<FileFailure> for Error {
            fn from(failure: FileFailure) -> Self {
                match failure {
                    $(FileFailure::$variant => Self::File(filesystem::Error::$variant),)+
                    FileFailure::InvalidArgument(why) => {
                        Self::File(filesystem::Error::InvalidArgument(why.into()))
                    }
                }
            }
        }
    };
}

file_failures!(
    NotFound,
    Exists,
    NotADirectory,
    IsADirectory,
    NotEmpty,
    NameTooLong,
    InvalidName,
    PermissionDenied,
    NotPermitted,
    TooManyLinks,
    FileTooLarge,
    NoAttribute,
    ValueTooLarge,
    NotSupported,
    NoSuchOffset,
    WouldBlock,
    Stale,
    NoSpace,
    QuotaExceeded,
    ReadOnly,
    InSnapshot,
    Failed,
    DamagedHistory
);

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        match error {
            Error::File(filesystem::Error::Damaged { inode, offset }) => Self::Damaged {
                inode: inode.0,
                offset: *offset,
            },
            Error::File(filesystem::Error::Erased {
                inode,
                offset,
                when,
            }) => Self::Erased {
                inode: inode.0,
                offset: *offset,
                when: when.map(|when| when.0),
            },
            Error::File(filesystem::Error::OnlyAtRemote(why)) => Self::OnlyAtRemote(why.clone()),
            Error::File(filesystem::Error::LostAtRemote(why)) => Self::LostAtRemote(why.clone()),
            Error::File(file) => {
                file_failure(file).map_or_else(|| Self::Storage(file.to_string()), Self::File)
            }
            Error::NotOpenFor("reading") => Self::NotOpenForReading,
            Error::NotOpenFor(_) => Self::NotOpenForWriting,
            Error::Closed => Self::Closed,
            Error::Damaged { what: HEADER, why } => Self::Header(why.clone()),
            Error::Damaged {
                what: DATABASE_FILE,
                why,
            } => Self::Database(why.clone()),
            Error::Io { source, .. } if is_full(source) => Self::File(FileFailure::NoSpace),
            other => {
                same_failure(other).map_or_else(|| Self::Storage(other.to_string()), Self::Same)
            }
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::File(file) => file.into(),
            Failure::Same(same) => same.into(),
            Failure::Damaged { inode, offset } => Self::File(filesystem::Error::Damaged {
                inode: InodeId(inode),
                offset,
            }),
            Failure::Erased {
                inode,
                offset,
                when,
            } => Self::File(filesystem::Error::Erased {
                inode: InodeId(inode),
                offset,
                when: when.map(Timestamp),
            }),
            Failure::OnlyAtRemote(why) => Self::File(filesystem::Error::OnlyAtRemote(why)),
            Failure::LostAtRemote(why) => Self::File(filesystem::Error::LostAtRemote(why)),
            Failure::NotOpenForReading => Self::NotOpenFor("reading"),
            Failure::NotOpenForWriting => Self::NotOpenFor("writing"),
            Failure::Database(why) => Self::Damaged {
                what: DATABASE_FILE,
                why,
            },
            Failure::Header(why) => Self::Damaged { what: HEADER, why },
            // The owner closed under the client: for the client that is an owner gone.
            Failure::Closed => Self::OwnerGone,
            Failure::Storage(text) => Self::Storage(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failed before: it arrived as an error of another kind, and a change of keys beside it ended with the wrong exit code.
    #[test]
    fn a_damaged_database_arrives_as_one() {
        let error = Error::Damaged {
            what: DATABASE_FILE,
            why: "a page does not authenticate".to_owned(),
        };
        let arrived = Error::from(Failure::from(&error));
        assert!(
            matches!(
                arrived,
                Error::Damaged {
                    what: DATABASE_FILE,
                    ..
                }
            ),
            "{arrived:?}"
        );
    }

    /// Failed before: they arrived as texts, so that a pull through a mount neither fetched again what was let go nor waited for keys.
    #[test]
    fn what_a_pull_acts_on_arrives_as_it_is() {
        for error in [
            Error::RemoteUntrue("a snapshot at the remote lacks blocks".to_owned()),
            Error::RemoteBusy,
            Error::KeysInUse,
            Error::NothingInCommon,
            Error::File(filesystem::Error::OnlyAtRemote("stick: gone".to_owned())),
            Error::File(filesystem::Error::LostAtRemote("stick: lost".to_owned())),
            Error::ContentAway {
                bytes: 7,
                what: "only at stick".to_owned(),
            },
            Error::DeviceReplaced,
        ] {
            let arrived = Error::from(Failure::from(&error));
            assert_eq!(format!("{arrived:?}"), format!("{error:?}"));
        }
    }
}
