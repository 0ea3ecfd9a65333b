//! Why an operation on a vault failed.

use strongroom_crypto::Fingerprint;
use strongroom_filesystem as filesystem;
use strongroom_metadata as metadata;

use crate::error_kind::{file_kind, remote_kind};
use crate::older_folder::{OlderFolder, show};
use crate::pairing::PairingError;

/// What every operation gives.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation failed. The side at fault is said with each variant.
///
/// The same values come from a vault this process owns and from one that another process owns. As a `std::io::Error` it has the
/// kind that `std::fs` gives for the same reason:
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let place = tempfile::tempdir()?;
/// # let folder = place.path().join("vault");
/// # use strongroom::{CreateOptions, Vault};
/// # let vault = Vault::create(&folder, CreateOptions::new())?.vault;
/// fn load(vault: &Vault) -> std::io::Result<String> {
///     Ok(vault.read_to_string("/settings")?)
/// }
/// assert_eq!(load(&vault).unwrap_err().kind(), std::io::ErrorKind::NotFound);
/// # vault.close()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Caller or environment: what the file system says of the node or name.
    #[error("{0}")]
    File(filesystem::Error),
    /// Caller: a path that leads through more than `SYMLINKS_MAX` symlinks.
    #[error("too many symbolic links in the path")]
    TooManySymlinks,
    /// Caller: a path longer than `PATH_BYTES_MAX`.
    #[error("the path is too long")]
    PathTooLong,
    /// Caller: the file was not opened for this.
    #[error("the file is not open for {0}")]
    NotOpenFor(&'static str),
    /// Environment: somebody else holds a lock on the file.
    #[error("this file is locked by somebody else who has it open; wait with `lock`, or try again")]
    Locked,
    /// Environment: the process that kept the lock has gone, so that others may have had it since.
    #[error(
        "the lock of this file is lost, because the process that kept it has ended; open the file again and lock it"
    )]
    LockLost,
    /// Environment: the content is no text; read its bytes instead.
    #[error("the content is not UTF-8; read it as bytes")]
    NotText,
    /// Caller: more open files than one session may hold.
    #[error("too many open files; close some")]
    TooManyOpenFiles,
    /// Caller: a transaction beyond its bounds.
    #[error(
        "the transaction is too large: at most 1024 operations, 1 MiB of paths, names and values, and 1 GiB of content; \
         write larger content to a file of its own first, and rename it in the transaction"
    )]
    TransactionTooLarge,
    /// Whoever `error` says: an operation of a transaction failed, and nothing of the transaction was done.
    #[error("operation {index} (counted from 0): {error}; nothing of the transaction was done")]
    Operation {
        /// Which, from 0.
        index: usize,
        /// Why.
        error: Box<Error>,
    },
    /// Caller: a file that a transaction requires to be unchanged, or one that is being read, was changed or replaced.
    #[error(
        "a file or directory that had to stay unchanged was changed or replaced; look at it, then try again"
    )]
    Changed,
    /// Caller: no `vault.json` in that folder.
    #[error("no vault at this path; make one with `strongroom init`")]
    NotAVault,
    /// Environment: the header is gone from a folder that holds the rest of a vault.
    #[error(
        "{}",
        if *saved {
            "vault.json is missing; run `strongroom repair`: it restores the saved copy"
        } else {
            "vault.json and its saved copy are both missing, and without them no key opens the vault: restore vault.json from a backup, or `strongroom clone` the vault from a remote into a new folder"
        }
    )]
    HeaderLost {
        /// Whether the second copy is there.
        saved: bool,
    },
    /// Environment: the database is gone or ruined, and it was not allowed to rebuild it. It is as it was, but for bytes
    /// behind its last page.
    #[error(
        "metadata.db cannot be used ({why}). It can be rebuilt to the state of the newest snapshot, but newer names are lost: run `strongroom repair --dry-run` to see what would be restored, then `strongroom repair --yes`"
    )]
    DatabaseLost {
        /// What is wrong with it.
        why: String,
    },
    /// Caller: a clone was interrupted.
    #[error(
        "a clone into this folder was interrupted; run the same `strongroom clone` again to continue"
    )]
    InterruptedClone,
    /// Caller: a remote has no such name.
    #[error("the name of a remote has 1 to 64 letters, digits, `-`, `_` and `.`")]
    RemoteName,
    /// Caller: another remote has that name.
    #[error("there is already a remote called {0}; `strongroom remote list` shows all remotes")]
    RemoteNameTaken(String),
    /// Caller: the remote of that name was added with the promise that this device removes nothing there.
    #[error(
        "{0} was added with --keep, so this device removes nothing from it; prune it from a device that added it without --keep"
    )]
    RemoteKept(String),
    /// Caller: there is no remote of that name.
    #[error("the vault has no remote called {0}; `strongroom remote list` shows all remotes")]
    UnknownRemote(String),
    /// As that says: something is wrong with a remote.
    #[error("{0}")]
    Remote(#[from] strongroom_sync::Error),
    /// As that says: two devices did not pair.
    #[error("{0}")]
    Pairing(#[from] PairingError),
    /// Environment: two tried to create the same object at a remote, and the remote confirmed it to both.
    #[error(
        "this remote lets two devices create the same object, so one device could overwrite what another published; use a remote that refuses to create an object whose name is taken"
    )]
    RemoteNotCreateOnly,
    /// Caller: the operation needs content that is not here.
    #[error(
        "{} MiB of content are {what}: fetch them first with `strongroom evict --undo`",
        bytes.div_ceil(1 << 20)
    )]
    ContentAway {
        /// Sealed bytes of that content.
        bytes: u64,
        /// Where that content is, and why it is needed here.
        what: String,
    },
    /// Environment: another device pushed changes that this one does not have.
    #[error(
        "another device has pushed changes to this remote that this device does not have; run `strongroom sync` to fetch them first"
    )]
    RemoteAhead,
    /// Environment: files here change faster than the changes of others can be joined with them.
    #[error(
        "the pull could not finish: programs on this device keep changing files that another device changed too, or another pull, a push or a backup is running at the same time; run `strongroom pull` again"
    )]
    RemoteBusy,
    /// Caller: a state that was published has another root than the vault here, which was rebuilt from nothing.
    #[error(
        "this vault was rebuilt without any snapshot and shares no history with the vault at the remote: clone the remote into a new \
         folder, then copy into that folder the files that only this vault has"
    )]
    NothingInCommon,
    /// Caller: another copy of this folder changed its keys, and only a key of the vault can add this one as a device.
    #[error(
        "this folder and a copy of it had the same device keys. The copy has replaced these keys by new ones, so the keys of this folder no longer \
         work. To make this folder a device of its own, close the vault (`strongroom umount`, `strongroom lock`), then run `strongroom sync \
         --accept-older` and unlock with the passphrase or another key"
    )]
    DeviceReplaced,
    /// Environment: keys were removed, here or on another device, under which something is sealed here.
    #[error(
        "old keys were removed, and some files here are still sealed under them. They are being re-sealed; run the same command \
         again when `strongroom key rotate --status` reports that nothing is left to re-seal"
    )]
    KeysInUse,
    /// Tampering: data from a remote failed verification.
    #[error("data from the remote failed verification: {0}")]
    RemoteUntrue(String),
    /// Caller: the name is none that a conflict gives.
    #[error(
        "this is not the name of a conflict copy; `strongroom conflicts` lists all conflict copies"
    )]
    NoConflict,
    /// Caller: what the copy of a conflict was made beside is not there any more.
    #[error(
        "the published file of this conflict no longer exists, so there is nothing to choose from; rename the copy with `strongroom mv`"
    )]
    ConflictAlone,
    /// Caller: the copy of a conflict or what is beside it is a directory.
    #[error(
        "one of the two versions is a directory; look into it, then use `strongroom mv` or `strongroom rm`, or `strongroom conflicts keep both`"
    )]
    ConflictOfDirectories,
    /// Caller: something about an inbox or a deposit that cannot be; see the text.
    #[error("{0}")]
    Inbox(String),
    /// Somebody asked to stop.
    #[error("stopped; objects that have arrived are not sent again")]
    RemoteStopped,
    /// Caller: the progress function of a call wants to move something to or from a remote by itself.
    #[error(
        "a progress function may not push, pull, sync, prune or evict during the call that it reports on; do it after that call has returned"
    )]
    CalledBack,
    /// Environment: a recovery or a change of keys was interrupted after its last step began, and the folder is opened for reading only.
    #[error(
        "a recovery or a change of keys was interrupted in its last step; to finish it, open the vault once with write access to its folder"
    )]
    InterruptedRecovery,
    /// Caller: `create` on a folder that holds a vault.
    #[error("the folder already has a vault; choose another folder")]
    AlreadyAVault,
    /// Caller: `create` on a folder that holds other things.
    #[error("the folder is not empty; choose a new or an empty one")]
    FolderNotEmpty,
    /// Caller: a backup into a folder where it may not be.
    #[error("no backup can be made in this folder: {0}")]
    BackupTarget(String),
    /// Caller: a backup is only read.
    #[error(
        "the folder is a backup, which is read-only; `strongroom backup` updates it. To use it as the vault from now on, remove the file `backup` in it"
    )]
    IsBackup,
    /// Caller: the listener to the progress of a backup wished it to end.
    #[error(
        "stopped; an earlier backup is unchanged, and the next run copies only what is still missing"
    )]
    BackupStopped,
    /// Caller: `create` in a folder that does not exist.
    #[error("the folder that should hold the vault does not exist; make it first")]
    ParentMissing,
    /// Environment: a vault there would be full from its first day.
    #[error(
        "the disk has {} MiB free; a vault needs {} MiB for itself, and more for your files",
        free_bytes >> 20, needed_bytes >> 20
    )]
    DiskTooSmall {
        /// What the disk has.
        free_bytes: u64,
        /// What it should have, at least.
        needed_bytes: u64,
    },
    /// Environment: an earlier `create` was interrupted; nothing of value is in the folder, unless somebody made a vault look so.
    #[error(
        "`init-unfinished` exists and vault.json does not: an earlier `init` did not finish. If no vault was ever used here, remove the folder and run `strongroom init` again; otherwise restore vault.json and remove `init-unfinished`"
    )]
    InterruptedCreate,
    /// Environment: another process creates a vault in this folder now.
    #[error("another process is creating a vault in this folder")]
    BeingCreated,
    /// Environment: the vault is open already, in another process or in this one.
    #[error(
        "the vault is already open, in another process or in this one; close it there, or use `open_or_connect`"
    )]
    InUse,
    /// Environment: others change the keys all the time.
    #[error("other processes are changing the keys of this vault at the same time; try again")]
    KeysContended,
    /// Environment: the folder of an open vault is not where it was opened.
    #[error(
        "the vault folder was moved or replaced while a process has the vault open; move the folder back, or close the vault in that process"
    )]
    FolderMoved,
    /// Environment: another process has the vault open but does not answer.
    #[error(
        "the vault is open in another process that does not answer; it may run as another user, with another XDG_RUNTIME_DIR or on another machine: close the vault there"
    )]
    OwnerUnreachable,
    /// Environment: the process that had the vault open has gone; what it was asked may or may not have happened, and what it
    /// acknowledged and did not make durable may be lost.
    #[error(
        "the process that had the vault open has ended, and it is not known whether your last requests were carried out and kept: check, then try again"
    )]
    OwnerGone,
    /// Caller: only the process that owns the vault can do this.
    #[error("{0} works only in the process that has the vault open")]
    OwnerOnly(&'static str),
    /// Caller: the vault was closed.
    #[error("the vault is closed")]
    Closed,
    /// Environment: locks do not work where the vault lies.
    #[error(
        "the file system that holds the vault has no reliable locks; move the vault, or open it for reading only"
    )]
    NoLocks,
    /// Environment: no private folder for the socket.
    #[error(
        "no private folder for the socket of the vault: {0}; set XDG_RUNTIME_DIR to a folder of yours with mode 0700"
    )]
    NoRuntimeFolder(&'static str),
    /// Environment: another version of the program owns the vault.
    #[error("another version of strongroom has the vault open; close it there first")]
    OtherVersion,
    /// Tampering or bug: a message that breaks the protocol of the socket.
    #[error("invalid message between the processes that use the vault: {0}")]
    Protocol(&'static str),
    /// Caller: the secret opens no slot; see the text of the cause.
    #[error("{0}")]
    WrongSecret(String),
    /// Caller: a passphrase does not open the vault at a remote; the text says which secrets do.
    #[error("{0}")]
    PassphraseWithheld(String),
    /// Caller, or tampering: a passphrase slot wants more memory or time than is given unasked; see `Passphrase::allow_memory`.
    #[error("{0}")]
    CostNotAllowed(String),
    /// Caller: no secret was given; see the text.
    #[error("{0}")]
    NoSecret(String),
    /// Environment or tampering: a file of the vault is damaged.
    #[error("damaged {what}: {why}")]
    Damaged {
        /// The file.
        what: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// Tampering: something lies in the vault folder, under a name of ours, that no vault has.
    #[error(
        "{file} is {what}, which does not belong in this place of a vault. Nothing was read or written through it. Move it out of the vault folder. If opening then says that a file is missing, run `strongroom repair`"
    )]
    Odd {
        /// Where, below the vault folder.
        file: String,
        /// What it is.
        what: String,
    },
    /// Environment: the vault needs a newer version.
    #[error("{0}")]
    UnknownFormat(String),
    /// Environment: nothing here computes what the vault needs, or `STRONGROOM_PROVIDERS` asks for what is not there.
    #[error("{0}")]
    Provider(strongroom_crypto::ProviderError),
    /// Tampering, or a restored copy: the header is older than one that was seen here.
    #[error(
        "vault.json is older than the one this folder had before: its change number (generation) is {found}, but at least {seen} is expected; put the newer file back, or restore the whole folder from one backup"
    )]
    GenerationBehind {
        /// The newest that was seen.
        seen: u64,
        /// What the folder holds now.
        found: u64,
    },
    /// Tampering, or a restored backup: the folder is behind what was last seen of the vault.
    #[error("{0}")]
    OlderFolder(Box<OlderFolder>),
    /// Tampering, or another vault than the caller means: it has another fingerprint than the one that was given.
    #[error(
        "the fingerprint of this vault is {found}, not {expected}: it is not the expected vault, and nothing of it was used"
    )]
    OtherVault {
        /// The one that was given.
        expected: Fingerprint,
        /// The vault's.
        found: Fingerprint,
    },
    /// Tampering, or a folder that was replaced: another vault was seen at this path before.
    #[error(
        "{} held another vault before, with fingerprint {expected}; the vault there now has {found}. If you put the new vault there \
         yourself, open it once with --fingerprint {found}, or forget the old vault with `strongroom info --forget`",
        show(path)
    )]
    PathOfAnother {
        /// The folder.
        path: std::path::PathBuf,
        /// What was seen there.
        expected: Fingerprint,
        /// What is there now.
        found: Fingerprint,
    },
    /// Caller: an age or SSH key opened a vault that this user has not seen before. Anybody who has the public key can make one.
    #[error(
        "this user has not opened this vault before, and anyone who has your public key can make a vault that your key opens: compare its \
         fingerprint with the one printed at init, then open it once with --fingerprint {fingerprint}"
    )]
    UnknownVault {
        /// What to compare.
        fingerprint: Fingerprint,
    },
    /// Tampering, or a restored copy: the header does not go on from the newest one that was seen here.
    #[error(
        "vault.json is an older or foreign header (of an earlier state, or of another vault): its list of added and removed devices and keys (the membership chain) lacks record {record}, which this folder had before; put the newer file back, or restore the whole folder from one backup"
    )]
    HeaderForeign {
        /// The place of the membership record that was seen.
        record: u64,
    },
    /// Caller or tampering: anything else about keys and slots.
    #[error("{0}")]
    Keys(String),
    /// Whoever `error` says: a change of keys is in force, and what had to follow it failed.
    #[error(
        "the change of keys is in force, but not all of it could be finished: {error}; the next command that opens the vault for writing \
         tries again"
    )]
    KeysChanged {
        /// Why.
        error: Box<Error>,
    },
    /// Caller: a tag that another kept revision has.
    #[error(
        "the snapshot {revision} already has the tag `{tag}`; choose another tag, or remove that snapshot first"
    )]
    TagTaken {
        /// The tag.
        tag: String,
        /// The beginning of the id of the snapshot that has the tag.
        revision: String,
    },
    /// Caller: a revision that is not there, or not the only one that is meant; see the text.
    #[error("{0}")]
    Revision(String),
    /// Caller: a wish for a crypto provider that cannot be met.
    #[error("{0}")]
    Preference(#[from] strongroom_crypto::providers::PreferenceError),
    /// Environment: another process measures the crypto providers and does not end.
    #[error("another process is measuring the crypto providers; try again when it has ended")]
    MeasuringElsewhere,
    /// Environment: this user has no folder to remember anything in.
    #[error("this user has no home folder; set HOME or {0} to a folder of yours")]
    NoUserFolder(&'static str),
    /// Environment: the metadata store or the segment store.
    #[error("{0}")]
    Storage(String),
    /// Environment: the disk or system said no.
    #[error("{what}: {source}")]
    Io {
        /// What was attempted.
        what: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
}

impl Error {
    /// Keys were changed on two devices before either had heard of the other.
    pub(crate) fn keys_diverged() -> Self {
        Self::Keys(
            "this device and another one changed keys or devices before either had synced, and the other one published first: copy out the \
             files that only this vault has, clone the remote into a new folder, and copy them into it"
                .to_owned(),
        )
    }

    /// Names what was attempted when the system refused.
    pub(crate) fn io(what: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { what, source }
    }

    /// The same for errors of direct system calls.
    pub(crate) fn system(what: &'static str) -> impl FnOnce(rustix::io::Errno) -> Self {
        move |source| Self::io(what)(source.into())
    }
}

impl From<strongroom_remote::Error> for Error {
    fn from(error: strongroom_remote::Error) -> Self {
        strongroom_sync::Error::from(error).into()
    }
}

impl From<strongroom_folder::Odd> for Error {
    fn from(odd: strongroom_folder::Odd) -> Self {
        Self::Odd {
            file: odd.shown_path(),
            what: odd.what.to_string(),
        }
    }
}

impl From<filesystem::Error> for Error {
    fn from(error: filesystem::Error) -> Self {
        match error {
            filesystem::Error::Metadata(metadata::Error::Odd(odd)) => odd.into(),
            filesystem::Error::Segments(strongroom_segments::Error::Odd(odd)) => odd.into(),
            filesystem::Error::Metadata(source) => of_metadata(&source),
            // Its source cannot cross a socket; text can, so that both kinds of caller see the same.
            filesystem::Error::Segments(source) => Self::Storage(format!("segments: {source}")),
            filesystem::Error::TagTaken { tag, revision } => Self::TagTaken { tag, revision },
            filesystem::Error::UnknownRevision(text) => Self::Revision(text),
            filesystem::Error::UnknownFormat(text) => Self::UnknownFormat(text),
            filesystem::Error::History(error) => Self::Damaged {
                what: "history",
                why: error.to_string(),
            },
            other => Self::File(other),
        }
    }
}

impl From<strongroom_history::Error> for Error {
    fn from(error: strongroom_history::Error) -> Self {
        filesystem::Error::from(error).into()
    }
}

/// Tells damage and a newer format from every other reason.
fn of_metadata(error: &metadata::Error) -> Error {
    let damaged = |why: &str| Error::Damaged {
        what: metadata::DATABASE_FILE,
        why: format!("{why}; run `strongroom repair`, or restore the whole folder from a backup"),
    };
    match error {
        metadata::Error::WrongKey => {
            damaged("it is from another vault, or its first page was altered")
        }
        metadata::Error::Damaged(why) => damaged(why),
        metadata::Error::Missing => damaged("the file is missing"),
        metadata::Error::NewerVersion { .. } => Error::UnknownFormat(error.to_string()),
        // As for the segments.
        other => Error::Storage(format!("metadata: {other}")),
    }
}

impl Error {
    /// What `std::io` calls it: the kind that `std::fs` gives for the same reason, as far as there is one. No variant is left
    /// to a rest, so that a new one gets its kind.
    #[must_use]
    pub fn io_kind(&self) -> std::io::ErrorKind {
        use std::io::ErrorKind as Kind;
        match self {
            Self::Io { source, .. } => source.kind(),
            Self::File(file) => file_kind(file),
            Self::Operation { error, .. } | Self::KeysChanged { error } => error.io_kind(),
            // Its name in `std` is not stable yet.
            Self::TooManySymlinks => std::io::Error::from(rustix::io::Errno::LOOP).kind(),
            Self::NotOpenFor(_)
            | Self::WrongSecret(_)
            | Self::PassphraseWithheld(_)
            | Self::CostNotAllowed(_)
            | Self::NoSecret(_)
            | Self::UnknownVault { .. } => Kind::PermissionDenied,
            Self::PathTooLong => Kind::InvalidFilename,
            Self::TransactionTooLarge | Self::BackupTarget(_) | Self::Preference(_) => {
                Kind::InvalidInput
            }
            Self::NotAVault
            | Self::ParentMissing
            | Self::Revision(_)
            | Self::NoRuntimeFolder(_)
            | Self::NoUserFolder(_) => Kind::NotFound,
            Self::AlreadyAVault | Self::TagTaken { .. } => Kind::AlreadyExists,
            Self::FolderNotEmpty => Kind::DirectoryNotEmpty,
            Self::DiskTooSmall { .. } => Kind::StorageFull,
            Self::IsBackup => Kind::ReadOnlyFilesystem,
            Self::InUse
            | Self::Changed
            | Self::BeingCreated
            | Self::KeysContended
            | Self::OwnerUnreachable
            | Self::OtherVersion
            | Self::MeasuringElsewhere => Kind::ResourceBusy,
            Self::NotText
            | Self::Protocol(_)
            | Self::Damaged { .. }
            | Self::Odd { .. }
            | Self::HeaderLost { .. }
            | Self::DatabaseLost { .. }
            | Self::InterruptedCreate
            | Self::InterruptedClone
            | Self::InterruptedRecovery
            | Self::GenerationBehind { .. }
            | Self::HeaderForeign { .. }
            | Self::OlderFolder(_)
            | Self::OtherVault { .. }
            | Self::PathOfAnother { .. } => Kind::InvalidData,
            Self::UnknownFormat(_) | Self::NoLocks | Self::OwnerOnly(_) | Self::Provider(_) => {
                Kind::Unsupported
            }
            Self::RemoteName | Self::NoConflict | Self::Inbox(_) => Kind::InvalidInput,
            Self::RemoteNameTaken(_) => Kind::AlreadyExists,
            Self::UnknownRemote(_) | Self::ConflictAlone => Kind::NotFound,
            Self::ConflictOfDirectories => Kind::IsADirectory,
            Self::NothingInCommon | Self::DeviceReplaced => Kind::InvalidInput,
            Self::Remote(error) => remote_kind(error),
            Self::Pairing(error) => error.io_kind(),
            Self::RemoteNotCreateOnly => Kind::Unsupported,
            Self::RemoteKept(_) => Kind::PermissionDenied,
            Self::RemoteAhead | Self::RemoteBusy | Self::KeysInUse | Self::ContentAway { .. } => {
                Kind::ResourceBusy
            }
            Self::RemoteUntrue(_) => Kind::InvalidData,
            Self::RemoteStopped => Kind::Other,
            Self::CalledBack => Kind::Deadlock,
            Self::FolderMoved => Kind::StaleNetworkFileHandle,
            Self::Locked => Kind::WouldBlock,
            Self::OwnerGone | Self::LockLost => Kind::ConnectionAborted,
            Self::Closed => Kind::NotConnected,
            Self::TooManyOpenFiles | Self::BackupStopped | Self::Keys(_) | Self::Storage(_) => {
                Kind::Other
            }
        }
    }
}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        Self::new(error.io_kind(), error)
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind as Kind;

    use super::*;

    fn kind(error: Error) -> Kind {
        std::io::Error::from(error).kind()
    }

    fn text() -> String {
        "text".to_owned()
    }

    /// What the kernel's number of the same reason is to `std::fs`.
    fn kind_of(errno: rustix::io::Errno) -> Kind {
        std::io::Error::from(errno).kind()
    }

    /// Failed before: `Other` for too many symlinks, a missing attribute, a closed vault, a backup, and others.
    #[test]
    fn what_the_file_system_says_has_the_kind_that_std_gives_its_number() {
        use filesystem::Error as File;
        use rustix::io::Errno;
        for (error, errno) in [
            (File::NotFound, Errno::NOENT),
            (File::Exists, Errno::EXIST),
            (File::NotADirectory, Errno::NOTDIR),
            (File::IsADirectory, Errno::ISDIR),
            (File::NotEmpty, Errno::NOTEMPTY),
            (File::NameTooLong, Errno::NAMETOOLONG),
            (File::InvalidName, Errno::INVAL),
            (File::InvalidArgument("x".into()), Errno::INVAL),
            (File::PermissionDenied, Errno::ACCESS),
            (File::NotPermitted, Errno::PERM),
            (File::TooManyLinks, Errno::MLINK),
            (File::FileTooLarge, Errno::FBIG),
            (File::NotSupported, Errno::OPNOTSUPP),
            (File::WouldBlock, Errno::AGAIN),
            (File::Stale, Errno::STALE),
            (File::NoSpace, Errno::NOSPC),
            (File::QuotaExceeded, Errno::DQUOT),
            (File::ReadOnly, Errno::ROFS),
            (File::InSnapshot, Errno::ROFS),
        ] {
            let shown = error.to_string();
            assert_eq!(kind(Error::File(error)), kind_of(errno), "{shown}");
        }
        // Numbers that `std` has no kind for.
        let (inode, offset) = (strongroom_filesystem::InodeId(7), 0);
        let thread = std::io::Error::from(Errno::AGAIN);
        for (error, expected) in [
            (File::NoAttribute, Kind::NotFound),
            (File::ValueTooLarge, Kind::InvalidInput),
            (File::NoSuchOffset, Kind::InvalidInput),
            (File::Failed, Kind::Other),
            (File::NoThread(thread), Kind::WouldBlock),
            (File::DamagedHistory, Kind::InvalidData),
            (File::OnlyAtRemote(text()), Kind::HostUnreachable),
            (File::LostAtRemote(text()), Kind::InvalidData),
            (File::Damaged { inode, offset }, Kind::InvalidData),
            (
                File::Erased {
                    inode,
                    offset,
                    when: None,
                },
                Kind::NotFound,
            ),
        ] {
            let shown = error.to_string();
            assert_eq!(kind(Error::File(error)), expected, "{shown}");
        }
    }

    /// Failed before: `Other` for too many symlinks, a missing attribute, a closed vault, a backup, and others.
    #[test]
    fn what_a_vault_says_has_the_kind_that_fits() {
        use rustix::io::Errno;
        let source = || std::io::Error::from(Errno::NOSPC);
        let io = Error::Io {
            what: "a test",
            source: source(),
        };
        let operation = Error::Operation {
            index: 1,
            error: Box::new(Error::PathTooLong),
        };
        for (error, expected) in [
            (io, Kind::StorageFull),
            (operation, Kind::InvalidFilename),
            (Error::TooManySymlinks, kind_of(Errno::LOOP)),
            (Error::PathTooLong, Kind::InvalidFilename),
            (Error::NotOpenFor("reading"), Kind::PermissionDenied),
            (Error::WrongSecret(text()), Kind::PermissionDenied),
            (Error::PassphraseWithheld(text()), Kind::PermissionDenied),
            (Error::CostNotAllowed(text()), Kind::PermissionDenied),
            (Error::NoSecret(text()), Kind::PermissionDenied),
            (Error::TransactionTooLarge, Kind::InvalidInput),
            (Error::BackupTarget(text()), Kind::InvalidInput),
            (Error::NotAVault, Kind::NotFound),
            (Error::ParentMissing, Kind::NotFound),
            (Error::Revision(text()), Kind::NotFound),
            (Error::NoRuntimeFolder("x"), Kind::NotFound),
            (Error::NoUserFolder("x"), Kind::NotFound),
            (Error::AlreadyAVault, Kind::AlreadyExists),
            (
                Error::TagTaken {
                    tag: text(),
                    revision: text(),
                },
                Kind::AlreadyExists,
            ),
            (Error::FolderNotEmpty, Kind::DirectoryNotEmpty),
            (
                Error::DiskTooSmall {
                    free_bytes: 1,
                    needed_bytes: 2,
                },
                Kind::StorageFull,
            ),
            (Error::IsBackup, Kind::ReadOnlyFilesystem),
            (Error::InUse, Kind::ResourceBusy),
            (Error::Changed, Kind::ResourceBusy),
            (Error::BeingCreated, Kind::ResourceBusy),
            (Error::KeysContended, Kind::ResourceBusy),
            (Error::OwnerUnreachable, Kind::ResourceBusy),
            (Error::OtherVersion, Kind::ResourceBusy),
            (Error::MeasuringElsewhere, Kind::ResourceBusy),
            (Error::NotText, Kind::InvalidData),
            (Error::Protocol("x"), Kind::InvalidData),
            (
                Error::Damaged {
                    what: "x",
                    why: text(),
                },
                Kind::InvalidData,
            ),
            (
                Error::Odd {
                    file: text(),
                    what: text(),
                },
                Kind::InvalidData,
            ),
            (Error::HeaderLost { saved: true }, Kind::InvalidData),
            (Error::InterruptedCreate, Kind::InvalidData),
            (Error::InterruptedRecovery, Kind::InvalidData),
            (
                Error::GenerationBehind { seen: 2, found: 1 },
                Kind::InvalidData,
            ),
            (Error::HeaderForeign { record: 1 }, Kind::InvalidData),
            (Error::UnknownFormat(text()), Kind::Unsupported),
            (Error::NoLocks, Kind::Unsupported),
            (Error::OwnerOnly("x"), Kind::Unsupported),
            (Error::FolderMoved, Kind::StaleNetworkFileHandle),
            (Error::Locked, Kind::WouldBlock),
            (Error::LockLost, Kind::ConnectionAborted),
            (Error::OwnerGone, Kind::ConnectionAborted),
            (Error::Closed, Kind::NotConnected),
            (Error::TooManyOpenFiles, Kind::Other),
            (Error::BackupStopped, Kind::Other),
            (Error::Keys(text()), Kind::Other),
            (Error::Storage(text()), Kind::Other),
        ] {
            let shown = error.to_string();
            assert_eq!(kind(error), expected, "{shown}");
        }
        // Opened twice in one process: failed before, as it spoke of another one.
        let shown = Error::InUse.to_string();
        assert!(
            shown.contains("in another process or in this one"),
            "{shown}"
        );
    }
}
