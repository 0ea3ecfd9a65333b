//! The exit codes. They never change; the manual and `--help` print this table. An interrupted command ends by the
//! signal, which a shell shows as 128 plus the signal's number. But commands that run until they are interrupted
//! (`sync --watch`, `serve` and `mount --foreground`) then end with code 0.

use strongroom::filesystem::Error as FileError;
use strongroom::providers::ProviderError;
use strongroom::{Error, PairingError};

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ExitCode {
    /// Done.
    Ok = 0,
    /// Anything not named below.
    Other = 1,
    /// The command line is wrong, or no secret was given.
    Usage = 2,
    /// No such file, directory or folder.
    NotFound = 3,
    /// The secret opens no key slot.
    WrongSecret = 4,
    /// Something is damaged, or was tampered with.
    Damaged = 5,
    /// The disk or the quota is full.
    NoSpace = 6,
    /// Something is in use or being changed: the vault, a mount, a remote.
    InUse = 7,
    /// Not permitted.
    Permission = 8,
    /// The name is taken, or the directory is not empty.
    Exists = 9,
    /// Opened for reading only, read-only media, or a snapshot.
    ReadOnly = 10,
    /// That folder is not a vault, or its `init` did not finish.
    NotAVault = 11,
    /// A format or option this version does not know.
    Unsupported = 12,
    /// Mounting or unmounting failed.
    Mount = 13,
    /// `verify` or `remote check` found damage or loss; `repair` or `clone` could not restore everything.
    DamageFound = 14,
    /// A remote cannot be reached.
    Unreachable = 15,
    /// `verify` found no damage, but keys or devices that wait for a person's decision.
    KeysUndecided = 16,
}

impl ExitCode {
    /// Every code, in order.
    pub(crate) const ALL: [Self; 17] = [
        Self::Ok,
        Self::Other,
        Self::Usage,
        Self::NotFound,
        Self::WrongSecret,
        Self::Damaged,
        Self::NoSpace,
        Self::InUse,
        Self::Permission,
        Self::Exists,
        Self::ReadOnly,
        Self::NotAVault,
        Self::Unsupported,
        Self::Mount,
        Self::DamageFound,
        Self::Unreachable,
        Self::KeysUndecided,
    ];

    /// What it means, in a few words.
    pub(crate) const fn meaning(self) -> &'static str {
        match self {
            Self::Ok => "done",
            Self::Other => "any other failure",
            Self::Usage => "wrong command line, or no secret given",
            Self::NotFound => "no such file, directory or folder",
            Self::WrongSecret => "wrong passphrase, key or code",
            Self::Damaged => "something is damaged or was tampered with",
            Self::NoSpace => "the disk or the quota is full",
            Self::InUse => {
                "busy: in use or being changed, as the vault, a mount or a remote; the message says which"
            }
            Self::Permission => "not permitted",
            Self::Exists => "the name is taken, or the directory is not empty",
            Self::ReadOnly => "read-only: the vault, or a snapshot",
            Self::NotAVault => "not a vault, or one whose creation was interrupted",
            Self::Unsupported => "a format or option this version does not know",
            Self::Mount => "mounting or unmounting failed",
            Self::DamageFound => {
                "`verify` or `remote check` found damage or loss; `repair` or `clone` could not restore all"
            }
            Self::Unreachable => "a remote cannot be reached",
            Self::KeysUndecided => {
                "`verify` found no damage, but keys or devices that wait for your decision"
            }
        }
    }

    /// The table for `--help` and the manual.
    pub(crate) fn table() -> String {
        let lines = Self::ALL
            .iter()
            .map(|code| format!("  {:>2}  {}\n", *code as u8, code.meaning()));
        format!(
            "Exit codes:\n{} 130  ended by Ctrl-C; another signal gives 128 plus its number\n",
            lines.collect::<String>()
        )
    }

    /// The code of an error of the vault.
    pub(crate) fn of(error: &Error) -> Self {
        match error {
            Error::File(file) => Self::of_file(file),
            Error::WrongSecret(_) | Error::PassphraseWithheld(_) => Self::WrongSecret,
            Error::CostNotAllowed(_) => Self::Permission,
            Error::NoSecret(_) | Error::Preference(_) => Self::Usage,
            Error::Damaged { .. } | Error::GenerationBehind { .. } => Self::Damaged,
            Error::Odd { .. } => Self::Damaged,
            Error::OlderFolder(_) | Error::OtherVault { .. } => Self::Damaged,
            Error::DeviceReplaced => Self::Damaged,
            Error::PathOfAnother { .. } | Error::UnknownVault { .. } => Self::Damaged,
            Error::HeaderForeign { .. } => Self::Damaged,
            Error::HeaderLost { .. } | Error::DatabaseLost { .. } | Error::InterruptedRecovery => {
                Self::Damaged
            }
            Error::NotAVault | Error::InterruptedCreate | Error::InterruptedClone => {
                Self::NotAVault
            }
            Error::RemoteName
            | Error::NoConflict
            | Error::ConflictOfDirectories
            | Error::Inbox(_) => Self::Usage,
            Error::RemoteNameTaken(_) | Error::RemoteAhead | Error::NothingInCommon => Self::Exists,
            Error::RemoteBusy | Error::KeysInUse | Error::ContentAway { .. } => Self::InUse,
            Error::UnknownRemote(_) | Error::ConflictAlone => Self::NotFound,
            Error::RemoteNotCreateOnly => Self::Unsupported,
            Error::RemoteKept(_) => Self::Permission,
            Error::RemoteUntrue(_) => Self::Damaged,
            Error::Pairing(pairing) => Self::of_pairing(pairing),
            Error::Remote(_) => Self::of_remote(&std::io::Error::from(error.io_kind())),
            Error::AlreadyAVault
            | Error::FolderNotEmpty
            | Error::BackupTarget(_)
            | Error::TagTaken { .. } => Self::Exists,
            Error::IsBackup => Self::ReadOnly,
            Error::ParentMissing | Error::Revision(_) => Self::NotFound,
            Error::DiskTooSmall { .. } => Self::NoSpace,
            Error::InUse
            | Error::BeingCreated
            | Error::KeysContended
            | Error::FolderMoved
            | Error::OwnerUnreachable
            | Error::OtherVersion
            | Error::MeasuringElsewhere => Self::InUse,
            Error::UnknownFormat(_) | Error::NoLocks => Self::Unsupported,
            Error::Provider(ProviderError::Environment(_)) => Self::Usage,
            Error::Provider(ProviderError::NoProvider { .. }) => Self::Unsupported,
            Error::PathTooLong | Error::TooManySymlinks => Self::Other,
            Error::Operation { error, .. } | Error::KeysChanged { error } => Self::of(error),
            Error::Io { source, .. } => Self::of_io(source),
            _ => Self::Other,
        }
    }

    /// The code of what is wrong with a remote, by its kind in `std`.
    fn of_remote(error: &std::io::Error) -> Self {
        use std::io::ErrorKind as Kind;
        match error.kind() {
            Kind::InvalidInput => Self::Usage,
            Kind::HostUnreachable => Self::Unreachable,
            Kind::InvalidData => Self::Damaged,
            Kind::AlreadyExists => Self::Exists,
            Kind::Unsupported => Self::Unsupported,
            _ => Self::of_io(error),
        }
    }

    fn of_pairing(error: &PairingError) -> Self {
        match error {
            PairingError::NoOffer { .. } => Self::NotFound,
            PairingError::WrongCode | PairingError::TriesUsed => Self::WrongSecret,
            PairingError::Refused => Self::Permission,
            PairingError::Crowded => Self::InUse,
            PairingError::Name | PairingError::Secret => Self::Usage,
            PairingError::NotPublished { why } => Self::of(why),
            _ => Self::Other,
        }
    }

    fn of_file(error: &FileError) -> Self {
        match error {
            FileError::NotFound
            | FileError::NotADirectory
            | FileError::NoAttribute
            | FileError::Erased { .. } => Self::NotFound,
            FileError::Exists | FileError::NotEmpty => Self::Exists,
            FileError::PermissionDenied | FileError::NotPermitted => Self::Permission,
            FileError::NoSpace | FileError::QuotaExceeded => Self::NoSpace,
            FileError::ReadOnly | FileError::InSnapshot => Self::ReadOnly,
            // A file was needed, and a directory was named.
            FileError::IsADirectory => Self::Usage,
            FileError::Damaged { .. } | FileError::DamagedHistory | FileError::LostAtRemote(_) => {
                Self::Damaged
            }
            FileError::OnlyAtRemote(_) => Self::Unreachable,
            FileError::WouldBlock => Self::InUse,
            FileError::NotSupported => Self::Unsupported,
            _ => Self::Other,
        }
    }

    /// The code of an error of the system.
    pub(crate) fn of_io(error: &std::io::Error) -> Self {
        use std::io::ErrorKind as Kind;
        match error.kind() {
            Kind::NotFound | Kind::NotADirectory => Self::NotFound,
            Kind::PermissionDenied => Self::Permission,
            Kind::StorageFull | Kind::QuotaExceeded => Self::NoSpace,
            Kind::AlreadyExists | Kind::DirectoryNotEmpty => Self::Exists,
            Kind::ReadOnlyFilesystem => Self::ReadOnly,
            Kind::ResourceBusy => Self::InUse,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_codes_are_the_ones_in_the_manual_and_never_change() {
        let codes: Vec<u8> = ExitCode::ALL.iter().map(|code| *code as u8).collect();
        assert_eq!(codes, (0..17).collect::<Vec<u8>>());
        assert_eq!(ExitCode::WrongSecret as u8, 4);
        assert_eq!(ExitCode::Damaged as u8, 5);
        assert_eq!(ExitCode::NotAVault as u8, 11);
        assert_eq!(ExitCode::Unreachable as u8, 15);
        assert_eq!(ExitCode::KeysUndecided as u8, 16);
    }

    /// Whoever reads the codes out of the help reads one a line.
    #[test]
    fn the_help_wraps_no_line_of_the_table() {
        for line in ExitCode::table().lines() {
            assert!(line.len() <= 100, "too long: {line}");
        }
    }
}
