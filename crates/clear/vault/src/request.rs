//! The closed list of requests to a vault, and of its answers.
//!
//! Takes   the calls of the public API
//! Gives   values that are executed here or sent to the owner: one code path for both
//! Never   carries a key or a passphrase in clear. `WholeRequest::InstallKeys` carries a public header with grants that only
//!         members can open, and a new device's secrets, sealed to the device that it replaces
//!
//! Invariants
//!  (1) `PROTOCOL` changes with every change of these types or those in failure.rs, so that two versions never misread each other.

pub(crate) mod failure;
pub(crate) mod frame;
pub(crate) mod greeting;
pub(crate) mod hash;
pub(crate) mod history;
mod information;
pub(crate) mod lock;
pub(crate) mod member;
pub(crate) mod remote;
pub(crate) mod steps;
pub(crate) mod verify;
mod whole;

use serde::{Deserialize, Serialize};
use strongroom_filesystem::{
    AllocateMode, Attributes, NodeKind, RenameMode, SeekTarget, SetAttributes, Space, XattrMode,
};

use crate::Error;
use crate::path::Links;
use crate::request::failure::Failure;
use crate::request::frame::{ByteBuffer, Bytes};
use crate::request::hash::{EqualContents, HashRequest, HashedFields, NamedContent};
use crate::request::history::{HistoryRequest, HistoryResponse};
use crate::request::verify::{DamagePage, FileProblem, PartFields, ResumeFields, VerifyRequest};

pub use crate::request::greeting::Access;
pub(crate) use crate::request::greeting::{Greeting, Successor, Welcome};
pub use crate::request::information::{CheckReport, Information, Rotation};
use crate::request::lock::{LockKind, Patience};
use crate::request::remote::{
    DepositFields, JoinedFields, LoginFields, PublicationFields, PushFields, RemoteFields,
    RemoteRequest, SegmentFields, StatusFields, VaultObject,
};
use crate::request::steps::Steps;
pub(crate) use crate::request::whole::{BackupRequest, Purpose, WholeRequest};

/// The version of the messages.                                                                              (1)
pub(crate) const PROTOCOL: u32 = 40;

/// A file or directory that a session holds open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Handle(pub(crate) u64);

/// How a file is to be opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Opening {
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) append: bool,
    pub(crate) truncate: bool,
    pub(crate) create: Creation,
    pub(crate) mode: u32,
    /// A directory is fine too: to list it.
    pub(crate) directory: bool,
}

/// What opening does about a name that does or does not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Creation {
    /// It must exist.
    #[default]
    Never,
    /// Made when it does not exist.
    IfMissing,
    /// It must not exist.
    Always,
}

/// Everything that can be asked of a vault.
#[derive(Debug, Serialize, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(crate) enum Request<'a> {
    Attributes {
        path: Bytes<'a>,
        links: Links,
    },
    Open {
        path: Bytes<'a>,
        opening: Opening,
    },
    OpenUnnamed {
        path: Bytes<'a>,
        mode: u32,
    },
    Close {
        handle: Handle,
    },
    HandleAttributes {
        handle: Handle,
    },
    SetHandleAttributes {
        handle: Handle,
        set: SetAttributes,
    },
    List {
        handle: Handle,
        after: u64,
        limit: u32,
    },
    Read {
        handle: Handle,
        offset: u64,
        len: u32,
    },
    Write {
        handle: Handle,
        offset: u64,
        data: Bytes<'a>,
    },
    Append {
        handle: Handle,
        data: Bytes<'a>,
    },
    Allocate {
        handle: Handle,
        mode: AllocateMode,
        offset: u64,
        len: u64,
    },
    Seek {
        handle: Handle,
        target: SeekTarget,
        offset: u64,
    },
    CopyRange {
        source: Handle,
        source_offset: u64,
        target: Handle,
        target_offset: u64,
        len: u64,
    },
    SyncHandle {
        handle: Handle,
    },
    /// Opens once more what an owner that has gone had open for this session.
    Reopen {
        inode: u64,
        opening: Opening,
    },
    Lock {
        handle: Handle,
        kind: LockKind,
        patience: Patience,
    },
    Unlock {
        handle: Handle,
    },
    Name {
        handle: Handle,
        path: Bytes<'a>,
    },
    MakeNode {
        path: Bytes<'a>,
        kind: NodeKind,
        mode: u32,
        rdev: u64,
        target: Bytes<'a>,
    },
    Link {
        path: Bytes<'a>,
        new_path: Bytes<'a>,
    },
    ReadLink {
        path: Bytes<'a>,
    },
    RemoveFile {
        path: Bytes<'a>,
    },
    RemoveDirectory {
        path: Bytes<'a>,
    },
    /// Removes a directory with what lies below, or a part of that.
    RemoveTree {
        path: Bytes<'a>,
    },
    Rename {
        path: Bytes<'a>,
        new_path: Bytes<'a>,
        mode: RenameMode,
    },
    SetAttributes {
        path: Bytes<'a>,
        links: Links,
        set: SetAttributes,
    },
    Xattr {
        path: Bytes<'a>,
        links: Links,
        name: Bytes<'a>,
    },
    SetXattr {
        path: Bytes<'a>,
        links: Links,
        name: Bytes<'a>,
        value: Bytes<'a>,
        mode: XattrMode,
    },
    RemoveXattr {
        path: Bytes<'a>,
        links: Links,
        name: Bytes<'a>,
    },
    Xattrs {
        path: Bytes<'a>,
        links: Links,
    },
    Transaction {
        steps: Steps<'a>,
        durable: bool,
    },
    Whole(WholeRequest<'a>),
    History(HistoryRequest),
    Verify(VerifyRequest),
    Hash(HashRequest),
    /// Somebody wants to own the vault, with the access of this session: who only holds it open for others lets go of it, and a program
    /// leaves it as soon as that costs nobody anything.
    MakeWay,
    Backup(BackupRequest<'a>),
    Remote(RemoteRequest<'a>),
}

impl Request<'_> {
    /// Whether asking twice does no harm.
    pub(crate) fn is_repeatable(&self) -> bool {
        match self {
            Self::Open { opening, .. } => !opening.truncate && opening.create == Creation::Never,
            Self::Attributes { .. }
            | Self::HandleAttributes { .. }
            | Self::Read { .. }
            | Self::Seek { .. }
            | Self::SyncHandle { .. }
            | Self::Reopen { .. }
            // An owner takes its locks with it.
            | Self::Lock { .. }
            | Self::Unlock { .. }
            | Self::ReadLink { .. }
            | Self::Xattr { .. }
            | Self::Xattrs { .. }
            | Self::MakeWay
            | Self::Verify(_)
            // Stored hashes are no change that anybody sees.
            | Self::Hash(_) => true,
            Self::Whole(request) => request.is_repeatable(),
            Self::History(request) => request.is_repeatable(),
            Self::Remote(request) => request.is_repeatable(),
            _ => false,
        }
    }

    /// Whether the vault may be another one afterwards.
    pub(crate) fn changes(&self) -> bool {
        match self {
            Self::Open { opening, .. } => opening.truncate || opening.create != Creation::Never,
            Self::OpenUnnamed { .. }
            | Self::SetHandleAttributes { .. }
            | Self::Write { .. }
            | Self::Append { .. }
            | Self::Allocate { .. }
            | Self::CopyRange { .. }
            | Self::Name { .. }
            | Self::MakeNode { .. }
            | Self::Link { .. }
            | Self::RemoveFile { .. }
            | Self::RemoveDirectory { .. }
            | Self::RemoveTree { .. }
            | Self::Rename { .. }
            | Self::SetAttributes { .. }
            | Self::SetXattr { .. }
            | Self::RemoveXattr { .. }
            | Self::Transaction { .. } => true,
            Self::Whole(request) => request.changes(),
            Self::History(request) => request.changes(),
            Self::Remote(request) => request.changes(),
            _ => false,
        }
    }

    /// Whether it may change what is durable only after a sync.
    pub(crate) fn needs_sync(&self) -> bool {
        self.changes() && !matches!(self, Self::Transaction { durable: true, .. })
    }
}

/// Declares `Response`. A value that a request is answered with has a type that no other variant has: from `T` to `Response`
/// and back there is one way each.
macro_rules! responses {
    ($($(#[$about:meta])* $variant:ident($type:ty),)+ ; $($rest:tt)+) => {
        /// Everything a vault answers.
        #[derive(Debug, Serialize, Deserialize)]
        pub(crate) enum Response {
            $($(#[$about])* $variant($type),)+
            $($rest)+
        }

        $(impl From<$type> for Response {
            fn from(value: $type) -> Self {
                Self::$variant(value)
            }
        }

        impl TryFrom<Response> for $type {
            type Error = Error;

            fn try_from(response: Response) -> Result<Self, Error> {
                match response {
                    Response::$variant(value) => Ok(value),
                    _ => Err(Error::Protocol("an answer to a different request")),
                }
            }
        })+
    };
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryEntry {
    /// 1 to 255 bytes; never `.` or `..`.
    pub name: Vec<u8>,
    /// What `stat` shows of the node, of a symlink itself.
    pub attributes: Attributes,
}

responses! {
    Done(()),
    Attributes(Attributes),
    Opened((Handle, Attributes)),
    /// Each with where the next page begins behind it.
    Entries(Vec<(u64, DirectoryEntry)>),
    Data(ByteBuffer),
    Count(u64),
    /// Whether the lock was taken, nothing of the tree is left, the session ends now, the state is kept, the remote is forgotten, the
    /// snapshot is gone.
    Whether(bool),
    Names(Vec<ByteBuffer>),
    Space(Space),
    Quota(Option<u64>),
    Information(Information),
    Counters(Vec<(String, u64)>),
    Check(CheckReport),
    Rotation(Rotation),
    History(HistoryResponse),
    /// Small files of the vault folder that are not as they were written.
    Files(Vec<FileProblem>),
    Part(PartFields),
    Damage(DamagePage),
    Resume(ResumeFields),
    /// One for each file, and how many bytes were read.
    Hashed((Vec<HashedFields>, u64)),
    /// Files and their lengths.
    Missing(Vec<(u64, u64)>),
    /// A page of files, and where the next begins.
    Named((Vec<NamedContent>, Option<([u8; 32], u64)>)),
    /// The same of groups.
    Equal((Vec<EqualContents>, Option<[u8; 32]>)),
    /// Bytes, or why there are none: the header that belongs to a copied database, or what is in the folder that no backup may
    /// replace; what a publication says, or why it is none.
    Backup(Result<ByteBuffer, String>),
    /// Segments, and the bytes that each has at least.
    Needed(Vec<([u8; 16], u64)>),
    Remotes(Vec<RemoteFields>),
    Push(PushFields),
    Objects(Vec<VaultObject>),
    Segments(Vec<SegmentFields>),
    /// The first bytes of hashes.
    Hashes(Vec<[u8; 8]>),
    Publication(PublicationFields),
    Joined(JoinedFields),
    Login(Option<LoginFields>),
    Deposit(DepositFields),
    RemoteStatus(StatusFields),
    ;
    /// The header is not of generation `base` any more; nothing was done.
    KeysStale,
    /// The owner is closing and did nothing: ask the next one.
    Leaving,
    /// The last message of an owner that has closed: everything that it acknowledged is durable. Unasked.
    Left,
    Failed(Failure),
    /// The operation of this index, of a transaction of which nothing was done. Beside `Failure` and not in it, so that no
    /// message nests without end.
    OperationFailed(u32, Failure),
}

impl Response {
    /// The answer to a request that met `error`.
    pub(crate) fn failed(error: &Error) -> Self {
        match error {
            Error::Operation { index, error } => {
                let index = u32::try_from(*index).unwrap_or(u32::MAX);
                Self::OperationFailed(index, Failure::from(&**error))
            }
            other => Self::Failed(Failure::from(other)),
        }
    }
}
