//! Why an entry below a vault folder was not opened, and whose fault that is.

use std::fmt;
use std::io;

use rustix::fs::FileType;
use rustix::io::Errno;

/// What every operation of this crate gives.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation failed. The side at fault is said with each variant.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Tampering: something lies there that no vault has.
    #[error("{0}")]
    Odd(#[from] Odd),
    /// Environment or tampering: a file that is read whole is longer than it may be.
    #[error("it is longer than {max} bytes")]
    TooLong {
        /// The most bytes it may have.
        max: u64,
    },
    /// Environment: what the system said.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl Error {
    /// Whether there is nothing of that name.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::NotFound)
    }
}

impl From<Errno> for Error {
    fn from(error: Errno) -> Self {
        Self::Io(error.into())
    }
}

impl From<Error> for io::Error {
    /// Keeps what is odd inside, for `odd_of`.
    fn from(error: Error) -> Self {
        match error {
            Error::Io(error) => error,
            other => Self::new(io::ErrorKind::InvalidData, other),
        }
    }
}

/// What is odd, if that is why `error` was given.
#[must_use]
pub fn odd_of(error: &io::Error) -> Option<&Odd> {
    match error.get_ref()?.downcast_ref::<Error>()? {
        Error::Odd(odd) => Some(odd),
        _ => None,
    }
}

/// Something below a vault folder that no vault has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Odd {
    /// Where, below the vault folder.
    pub path: String,
    /// What it is.
    pub what: Oddity,
}

impl std::error::Error for Odd {}

impl Odd {
    /// The path, without what could speak to a terminal: whoever can write the folder chose the name.
    #[must_use]
    pub fn shown_path(&self) -> String {
        let mut shown = String::with_capacity(self.path.len());
        for character in self.path.chars() {
            match character.is_control() {
                true => shown.extend(character.escape_unicode()),
                false => shown.push(character),
            }
        }
        shown
    }
}

impl fmt::Display for Odd {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} is {}", self.shown_path(), self.what)
    }
}

/// What something is that should be a regular file with one name, or a real folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Oddity {
    /// It leads elsewhere.
    Link,
    /// Another name of a file, of which others may lie anywhere.
    HardLink,
    /// A named pipe.
    Pipe,
    /// A socket.
    Socket,
    /// A device.
    Device,
    /// A folder, where a file belongs.
    Folder,
    /// A file, where a folder belongs.
    File,
}

impl Oddity {
    /// What a node of this type is that should be another.
    pub(crate) fn of(found: FileType) -> Self {
        match found {
            FileType::Symlink => Self::Link,
            FileType::Fifo => Self::Pipe,
            FileType::Socket => Self::Socket,
            FileType::Directory => Self::Folder,
            FileType::RegularFile => Self::File,
            _ => Self::Device,
        }
    }
}

impl fmt::Display for Oddity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Link => "a symbolic link",
            Self::HardLink => "a file with several names (hard links)",
            Self::Pipe => "a pipe",
            Self::Socket => "a socket",
            Self::Device => "a device",
            Self::Folder => "a folder, not a file",
            Self::File => "a file, not a folder",
        })
    }
}

/// Whether `error` means that the disk or a quota is full.
#[must_use]
pub fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), QuotaExceeded | StorageFull)
}
