//! Which kind of `std::io::Error` an error of a remote or of the file system is.
//!
//! Takes   the error
//! Gives   the kind that `std::fs` gives for the same reason

use strongroom_filesystem as filesystem;

/// The same of what is wrong with a remote.
pub(crate) fn remote_kind(error: &strongroom_sync::Error) -> std::io::ErrorKind {
    use std::io::ErrorKind as Kind;
    use strongroom_remote::Error as Remote;
    use strongroom_sync::Error as Sync;
    match error {
        Sync::Remote(Remote::Address(_) | Remote::Name(_)) => Kind::InvalidInput,
        Sync::Remote(Remote::Unreachable(_)) => Kind::HostUnreachable,
        Sync::Remote(Remote::Refused(_)) => Kind::PermissionDenied,
        Sync::Remote(Remote::Full) => Kind::StorageFull,
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

/// The same of what the file system says.
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
