//! Families of errors, by which a program in another language tells errors apart, in addition to their numbers.
//!
//! Takes   the error
//! Gives   its family: a program handles all errors of one family in the same way

use strongroom_filesystem as filesystem;

use crate::Error;

/// What the errors of a family have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorFamily {
    /// What any file system says: the number tells all.
    System,
    /// The vault was closed here.
    Closed,
    /// The folder holds no vault.
    NotAVault,
    /// There is a vault already, or the folder holds other things.
    VaultExists,
    /// No secret was given, or it opens no key slot.
    WrongSecret,
    /// An older state of the vault, or another vault than is meant.
    Untrusted,
    /// Another process has the vault, and it cannot be used through that one.
    InUse,
    /// That process has gone: the last call may or may not have been carried out.
    OwnerGone,
    /// Another open file holds a lock.
    Locked,
    /// The process that kept the lock has gone: others may have had it since.
    LockLost,
    /// What a transaction read is another by now.
    Changed,
    /// Stored bytes are missing or not as they were written.
    Damaged,
    /// A selector means no snapshot, or several.
    NoSuchSnapshot,
    /// Something is wrong with a remote.
    Remote,
    /// Whoever heard of the progress stopped it.
    Stopped,
    /// Anything else that only a vault says.
    Other,
}

impl Error {
    /// The family that it belongs to.
    #[must_use]
    pub fn family(&self) -> ErrorFamily {
        use filesystem::Error as File;
        match self {
            Self::File(File::Damaged { .. } | File::DamagedHistory | File::LostAtRemote(_))
            | Self::Damaged { .. }
            | Self::Odd { .. }
            | Self::HeaderLost { .. }
            | Self::DatabaseLost { .. }
            | Self::InterruptedCreate
            | Self::InterruptedClone
            | Self::InterruptedRecovery => ErrorFamily::Damaged,
            Self::File(File::OnlyAtRemote(_)) => ErrorFamily::Remote,
            Self::File(_) | Self::TooManySymlinks | Self::PathTooLong | Self::NotOpenFor(_) => {
                ErrorFamily::System
            }
            Self::Operation { error, .. } | Self::KeysChanged { error } => error.family(),
            Self::Closed => ErrorFamily::Closed,
            Self::Locked => ErrorFamily::Locked,
            Self::LockLost => ErrorFamily::LockLost,
            Self::OwnerGone => ErrorFamily::OwnerGone,
            Self::Changed => ErrorFamily::Changed,
            Self::NotAVault => ErrorFamily::NotAVault,
            Self::AlreadyAVault | Self::FolderNotEmpty => ErrorFamily::VaultExists,
            Self::WrongSecret(_) | Self::CostNotAllowed(_) | Self::NoSecret(_) => {
                ErrorFamily::WrongSecret
            }
            Self::OlderFolder(_)
            | Self::OtherVault { .. }
            | Self::PathOfAnother { .. }
            | Self::UnknownVault { .. }
            | Self::GenerationBehind { .. }
            | Self::HeaderForeign { .. } => ErrorFamily::Untrusted,
            Self::InUse
            | Self::BeingCreated
            | Self::KeysContended
            | Self::OwnerUnreachable
            | Self::OtherVersion => ErrorFamily::InUse,
            Self::Revision(_) => ErrorFamily::NoSuchSnapshot,
            Self::RemoteStopped | Self::BackupStopped => ErrorFamily::Stopped,
            Self::Remote(_)
            | Self::UnknownRemote(_)
            | Self::RemoteName
            | Self::Inbox(_)
            | Self::RemoteNameTaken(_)
            | Self::RemoteKept(_)
            | Self::RemoteNotCreateOnly
            | Self::RemoteAhead
            | Self::RemoteBusy
            | Self::RemoteUntrue(_)
            | Self::ContentAway { .. }
            | Self::NothingInCommon
            | Self::DeviceReplaced
            | Self::KeysInUse => ErrorFamily::Remote,
            _ => ErrorFamily::Other,
        }
    }
}
