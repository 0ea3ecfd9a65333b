//! Why a remote did not carry out a request, and whose fault that is.

use std::io;

/// What every operation of this crate gives.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation failed. The side at fault is said with each variant. No text holds a credential.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Caller: the URL is none of a remote.
    #[error("{0}")]
    Address(String),
    /// Caller: no object has such a name.
    #[error("no object can have the name {0:?}")]
    Name(String),
    /// Environment: the remote cannot be reached, or its answer broke off; later it may be.
    #[error("the remote cannot be reached: {0}")]
    Unreachable(String),
    /// Environment: it refuses these credentials.
    #[error("the remote refuses access: {0}")]
    Refused(String),
    /// Caller: the server knows who is a member of the vault, and this device is not one any more.
    #[error(
        "this device was removed from the vault, and the server refuses it: copy out the files that only this folder has, then clone the \
         vault with a current key"
    )]
    DeviceRemoved,
    /// Caller: the keys were changed here and elsewhere, and the server has noted the other change.
    #[error(
        "another device changed keys or devices of the vault before this one had synced: copy out the files that only this folder has, \
         clone the remote into a new folder, and copy them into it"
    )]
    OtherMembers,
    /// Environment: it has no room.
    #[error("the remote is full")]
    Full,
    /// Environment: the quota of the account there is used up.
    #[error("{0}")]
    Quota(String),
    /// Environment: it keeps for some days what somebody asks to remove; the same removal may be asked for again then.
    #[error("the remote keeps what is to be removed for some days")]
    Kept,
    /// Environment: the remote cannot create an object only if there is none of that name.
    #[error("the remote cannot refuse to create an object whose name is taken: {0}")]
    NoCreateOnly(String),
    /// Tampering or environment: an object is longer than any of its kind.
    #[error("the object {name} is longer than {max} bytes")]
    TooLong {
        /// Its name.
        name: String,
        /// The most bytes it may have.
        max: u64,
    },
    /// Tampering: a folder has something that no remote has.
    #[error("{0}")]
    Odd(strongroom_folder::Odd),
    /// Environment: anything else.
    #[error("{0}")]
    Other(String),
}

impl Error {
    /// Whether the same may succeed later without anybody changing anything.
    #[must_use]
    pub const fn is_passing(&self) -> bool {
        matches!(self, Self::Unreachable(_))
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        if strongroom_folder::is_full(&error) {
            return Self::Full;
        }
        match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Self::Refused(error.to_string())
            }
            _ => Self::Other(error.to_string()),
        }
    }
}

impl From<strongroom_folder::Error> for Error {
    fn from(error: strongroom_folder::Error) -> Self {
        match error {
            strongroom_folder::Error::Odd(odd) => Self::Odd(odd),
            strongroom_folder::Error::Io(error) => error.into(),
            other => Self::Other(other.to_string()),
        }
    }
}
