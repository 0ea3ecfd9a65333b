//! The kind of `std::io::Error` for an error of a remote or of the file system, and the number for any error.
//!
//! Takes   the error
//! Gives   the kind that `std::fs` gives for the same reason; the number that a system call would give

use rustix::io::Errno;
use strongroom_filesystem as filesystem;

use crate::Error;

/// The kind for an error of a remote.
pub(crate) fn remote_kind(error: &strongroom_sync::Error) -> std::io::ErrorKind {
    use std::io::ErrorKind as Kind;
    use strongroom_remote::Error as Remote;
    use strongroom_sync::Error as Sync;
    match error {
        Sync::Remote(Remote::Address(_) | Remote::Name(_)) => Kind::InvalidInput,
        Sync::Remote(Remote::Unreachable(_)) => Kind::HostUnreachable,
        Sync::Remote(Remote::Refused(_) | Remote::DeviceRemoved) => Kind::PermissionDenied,
        Sync::Remote(Remote::Full) => Kind::StorageFull,
        Sync::Remote(Remote::Quota(_)) => Kind::QuotaExceeded,
        Sync::Remote(Remote::Kept) => Kind::ResourceBusy,
        Sync::Remote(Remote::NoCreateOnly(_)) | Sync::NewerFormat { .. } => Kind::Unsupported,
        Sync::NoVault | Sync::Empty => Kind::NotFound,
        Sync::OtherVault | Sync::OtherRemote => Kind::AlreadyExists,
        Sync::Missing { .. }
        | Sync::Damaged { .. }
        | Sync::WentBack { .. }
        | Sync::Forked { .. }
        | Sync::Remote(Remote::TooLong { .. } | Remote::Odd(_)) => Kind::InvalidData,
        _ => Kind::Other,
    }
}

/// The kind for an error of the file system.
pub(crate) fn file_kind(error: &filesystem::Error) -> std::io::ErrorKind {
    use filesystem::Error as File;
    use std::io::ErrorKind as Kind;
    match error {
        File::NotFound | File::NoAttribute | File::Erased { .. } => Kind::NotFound,
        File::Exists => Kind::AlreadyExists,
        File::NotADirectory => Kind::NotADirectory,
        File::IsADirectory => Kind::IsADirectory,
        File::NotEmpty => Kind::DirectoryNotEmpty,
        File::PermissionDenied | File::NotPermitted => Kind::PermissionDenied,
        File::NoSpace => Kind::StorageFull,
        File::QuotaExceeded => Kind::QuotaExceeded,
        File::ReadOnly | File::InSnapshot => Kind::ReadOnlyFilesystem,
        File::FileTooLarge => Kind::FileTooLarge,
        File::TooManyLinks => Kind::TooManyLinks,
        File::NameTooLong => Kind::InvalidFilename,
        File::Stale => Kind::StaleNetworkFileHandle,
        File::WouldBlock => Kind::WouldBlock,
        File::NotSupported => Kind::Unsupported,
        File::InvalidArgument(_) | File::InvalidName | File::NoSuchOffset | File::ValueTooLarge => {
            Kind::InvalidInput
        }
        File::NoThread(source) => source.kind(),
        File::OnlyAtRemote(_) => Kind::HostUnreachable,
        File::Damaged { .. } | File::DamagedHistory | File::LostAtRemote(_) => Kind::InvalidData,
        _ => Kind::Other,
    }
}

impl Error {
    /// The number of `errno.h` for it, as Linux has it: for programs in other languages, which know errors by their
    /// numbers. It is the number of `io_kind`, except where POSIX distinguishes more than `std` does, and except for
    /// content that is damaged or only at a remote: EIO, as on a mount.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let place = tempfile::tempdir()?;
    /// # let folder = place.path().join("vault");
    /// # use strongroom::{CreateOptions, Vault};
    /// # let vault = Vault::create(&folder, CreateOptions::new())?.vault;
    /// assert_eq!(vault.read("/none").unwrap_err().errno(), 2); // ENOENT
    /// # vault.close()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn errno(&self) -> i32 {
        let number = match self {
            Self::Io { source, .. } => return number_of(source),
            Self::Operation { error, .. } | Self::KeysChanged { error } => return error.errno(),
            Self::File(error) => return file_number(error),
            Self::TooManySymlinks => Errno::LOOP,
            Self::NotOpenFor(_) | Self::Closed => Errno::BADF,
            Self::TooManyOpenFiles => Errno::MFILE,
            Self::TransactionTooLarge => Errno::TOOBIG,
            Self::NotText => Errno::ILSEQ,
            Self::Keys(_) => Errno::INVAL,
            Self::BackupStopped | Self::RemoteStopped => Errno::CANCELED,
            other => number_of_kind(other.io_kind()),
        };
        number.raw_os_error()
    }
}

/// The number for an error of the file system: the one that a mount gives.
fn file_number(error: &filesystem::Error) -> i32 {
    use filesystem::Error as File;
    let number = match error {
        File::NoThread(source) => return number_of(source),
        File::NotPermitted => Errno::PERM,
        File::NoAttribute | File::Erased { .. } => Errno::NODATA,
        File::ValueTooLarge => Errno::RANGE,
        File::NoSuchOffset => Errno::NXIO,
        File::Damaged { .. }
        | File::DamagedHistory
        | File::LostAtRemote(_)
        | File::OnlyAtRemote(_) => Errno::IO,
        other => number_of_kind(file_kind(other)),
    };
    number.raw_os_error()
}

/// What the system said, or the number of its kind.
fn number_of(error: &std::io::Error) -> i32 {
    let other = || number_of_kind(error.kind()).raw_os_error();
    error.raw_os_error().unwrap_or_else(other)
}

fn number_of_kind(kind: std::io::ErrorKind) -> Errno {
    use std::io::ErrorKind as Kind;
    match kind {
        Kind::NotFound => Errno::NOENT,
        Kind::AlreadyExists => Errno::EXIST,
        Kind::NotADirectory => Errno::NOTDIR,
        Kind::IsADirectory => Errno::ISDIR,
        Kind::DirectoryNotEmpty => Errno::NOTEMPTY,
        Kind::PermissionDenied => Errno::ACCESS,
        Kind::StorageFull => Errno::NOSPC,
        Kind::QuotaExceeded => Errno::DQUOT,
        Kind::ReadOnlyFilesystem => Errno::ROFS,
        Kind::FileTooLarge => Errno::FBIG,
        Kind::TooManyLinks => Errno::MLINK,
        Kind::InvalidFilename => Errno::NAMETOOLONG,
        Kind::StaleNetworkFileHandle => Errno::STALE,
        Kind::WouldBlock => Errno::AGAIN,
        Kind::Unsupported => Errno::OPNOTSUPP,
        Kind::InvalidInput => Errno::INVAL,
        Kind::HostUnreachable => Errno::HOSTUNREACH,
        Kind::ConnectionAborted => Errno::CONNABORTED,
        Kind::ResourceBusy => Errno::BUSY,
        Kind::TimedOut => Errno::TIMEDOUT,
        Kind::Interrupted => Errno::INTR,
        Kind::Deadlock => Errno::DEADLK,
        Kind::OutOfMemory => Errno::NOMEM,
        // Damage of a vault, as file systems tell it from a disk that fails.
        Kind::InvalidData => Errno::BADMSG,
        _ => Errno::IO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a program in C and one in Rust are told the same. Method: `std` has a kind for each number that is given for a kind.
    #[test]
    fn the_number_of_a_kind_has_that_kind() {
        use std::io::ErrorKind as Kind;
        for kind in [
            Kind::NotFound,
            Kind::AlreadyExists,
            Kind::NotADirectory,
            Kind::IsADirectory,
            Kind::DirectoryNotEmpty,
            Kind::PermissionDenied,
            Kind::StorageFull,
            Kind::QuotaExceeded,
            Kind::ReadOnlyFilesystem,
            Kind::FileTooLarge,
            Kind::TooManyLinks,
            Kind::InvalidFilename,
            Kind::StaleNetworkFileHandle,
            Kind::WouldBlock,
            Kind::Unsupported,
            Kind::InvalidInput,
            Kind::HostUnreachable,
            Kind::ConnectionAborted,
            Kind::ResourceBusy,
            Kind::TimedOut,
            Kind::Interrupted,
            Kind::Deadlock,
            Kind::OutOfMemory,
        ] {
            assert_eq!(std::io::Error::from(number_of_kind(kind)).kind(), kind);
        }
    }

    #[test]
    fn what_posix_tells_apart_has_numbers_of_its_own() {
        use filesystem::Error as File;
        let source = || std::io::Error::from(Errno::NODEV);
        for (error, number) in [
            (Error::File(File::NotPermitted), Errno::PERM),
            (Error::File(File::PermissionDenied), Errno::ACCESS),
            (Error::File(File::NoAttribute), Errno::NODATA),
            (Error::File(File::ValueTooLarge), Errno::RANGE),
            (Error::File(File::NoSuchOffset), Errno::NXIO),
            (Error::File(File::DamagedHistory), Errno::IO),
            (Error::File(File::NameTooLong), Errno::NAMETOOLONG),
            (Error::File(File::NoThread(source())), Errno::NODEV),
            (Error::TooManySymlinks, Errno::LOOP),
            (Error::NotOpenFor("reading"), Errno::BADF),
            (Error::Closed, Errno::BADF),
            (Error::TooManyOpenFiles, Errno::MFILE),
            (Error::TransactionTooLarge, Errno::TOOBIG),
            (Error::RemoteStopped, Errno::CANCELED),
            (Error::CalledBack, Errno::DEADLK),
            (Error::InUse, Errno::BUSY),
            (Error::WrongSecret(String::new()), Errno::ACCESS),
            (Error::HeaderLost { saved: true }, Errno::BADMSG),
            (Error::Storage(String::new()), Errno::IO),
            (
                Error::Operation {
                    index: 1,
                    error: Box::new(Error::PathTooLong),
                },
                Errno::NAMETOOLONG,
            ),
            (
                Error::Io {
                    what: "a test",
                    source: source(),
                },
                Errno::NODEV,
            ),
        ] {
            assert_eq!(error.errno(), number.raw_os_error(), "{error}");
        }
    }
}
