//! The closed list of what can be asked of a vault, and of what it answers.
//!
//! Takes   the calls of the public API
//! Gives   values that are executed here or sent to the owner: one code path for both
//! Never   carries a key or a passphrase in clear: `InstallKeys` carries a header, which is public, with grants that only
//!         members can open, and a new device sealed to the one that it replaces
//!
//! Invariants
//!  (1) `PROTOCOL` changes with every change of these types and of those in failure.rs, so that two versions never misread one another.

use serde::{Deserialize, Serialize};
use strongroom_filesystem::{
    Attributes, InodeId, ListedEntry, NodeKind, SetAttributes, SetTime, Space, Timestamp,
};

use crate::Error;
use crate::failure::Failure;
use crate::frame::{ByteBuffer, Bytes};
use crate::held_keys::Purpose;
use crate::locks::{LockKind, Patience};
use crate::member::Member;
use crate::observer::{Attachment, HeldOpen};
use crate::path::Links;
use crate::provider_in_use::ProviderInUse;
use crate::request_hash::{HashRequest, HashResponse};
use crate::request_history::{HistoryRequest, HistoryResponse};
use crate::request_verify::{VerifyRequest, VerifyResponse};
use crate::rotation::Rotation;
use crate::settings::CompressionField;
use crate::transaction::Steps;

pub(crate) use crate::greeting::{Greeting, Successor, Welcome};
pub(crate) use crate::request_enums::{AllocateName, RenameName, SeekName, XattrName};

/// The version of the messages.                                                                              (1)
pub(crate) const PROTOCOL: u32 = 16;

/// A file or directory that a session holds open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Handle(pub(crate) u64);

/// What a session may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Access {
    /// Everything.
    ReadWrite,
    /// Nothing that changes the vault.
    ReadOnly,
}

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
        set: SetFields,
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
        mode: AllocateName,
        offset: u64,
        len: u64,
    },
    Seek {
        handle: Handle,
        target: SeekName,
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
        kind: u8,
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
        mode: RenameName,
    },
    SetAttributes {
        path: Bytes<'a>,
        links: Links,
        set: SetFields,
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
        mode: XattrName,
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
    Space,
    Quota,
    SetQuota {
        bytes: Option<u64>,
    },
    SetCompression(CompressionField),
    Sync,
    Information,
    Counters,
    Check,
    Compact,
    /// Puts a new header in the place of the one of generation `base`.
    InstallKeys {
        base: u64,
        header: Bytes<'a>,
        #[serde(borrow)]
        handover: Option<Bytes<'a>>,
        purpose: Purpose,
    },
    /// Notes that a person knows of every membership record so far.
    AcceptRecords,
    Rotation,
    /// Asks who only holds the vault open for others to let go.
    LetGo,
    History(HistoryRequest),
    Verify(VerifyRequest),
    Hash(HashRequest),
    /// Somebody wants to own the vault who can do more for others: the owner leaves as soon as that costs nobody anything.
    AskToLeave,
    /// From now on, until `BackupEnd` or the end of the session, every segment file stays.
    BackupBegin,
    /// Puts the database with all that was acknowledged, and the replica file, into the vault folder `target`, where they wait; and
    /// the records of its revisions.
    BackupDatabase {
        target: Bytes<'a>,
    },
    /// `renewed`: a backup whose records of revisions that its database does not know shall go.
    BackupEnd {
        #[serde(borrow)]
        renewed: Option<Bytes<'a>>,
    },
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
            | Self::Space
            | Self::Quota
            | Self::SetQuota { .. }
            | Self::SetCompression(_)
            | Self::AcceptRecords
            | Self::Sync
            | Self::Information
            | Self::Counters
            | Self::Rotation
            | Self::LetGo
            | Self::Check
            | Self::Verify(_)
            // Stored hashes are no change that anybody sees.
            | Self::Hash(_) => true,
            Self::History(request) => request.is_repeatable(),
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
            | Self::SetQuota { .. }
            | Self::SetCompression(_)
            | Self::Transaction { .. }
            | Self::Compact
            | Self::AcceptRecords
            | Self::InstallKeys { .. } => true,
            Self::History(request) => request.changes(),
            _ => false,
        }
    }
}

/// Everything a vault answers.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Response {
    Done,
    Attributes(NodeFields),
    Opened(Handle, NodeFields),
    Entries(Vec<EntryFields>),
    Data(ByteBuffer),
    Count(u64),
    Removed {
        whole: bool,
    },
    /// False: somebody else has it.
    Locked(bool),
    Names(Vec<ByteBuffer>),
    Space {
        total_bytes: u64,
        free_bytes: u64,
        inodes: u64,
    },
    Quota(Option<u64>),
    Information(Information),
    Counters(Vec<(String, u64)>),
    Check(CheckFields),
    /// The header is not of generation `base` any more; nothing was done.
    KeysStale,
    Rotation(Rotation),
    LetGo(bool),
    History(HistoryResponse),
    Verify(VerifyResponse),
    Hash(HashResponse),
    /// The header that belongs to the database; or what is in the folder that no backup may replace.
    Backup(Result<ByteBuffer, String>),
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

/// What a vault is, as `strongroom info` shows it. Nothing in it is secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Information {
    /// The vault id in readable groups: compare it with the one printed at `init`.
    pub fingerprint: String,
    /// The algorithms, by name.
    pub suite: String,
    /// How often the header has changed.
    pub generation: u64,
    /// The newest generation of keys.
    pub epoch: u32,
    /// The process that has the vault open.
    pub owner_pid: u32,
    /// Whether that process opened it for reading only.
    pub read_only: bool,
    /// Whether the fingerprint should be compared before the vault is trusted: anyone can make a vault for an age or
    /// SSH key.
    pub compare_fingerprint: bool,
    /// Where that process shows it now.
    pub attachments: Vec<Attachment>,
    /// Whether that process only holds it open for others, and how long.
    pub held_open: Option<HeldOpen>,
    /// Which providers compute in that process.
    pub providers: Vec<ProviderInUse>,
    /// How what is new is compressed, by name.
    pub compression: String,
    /// Who belongs to the vault: devices, then key slots.
    pub members: Vec<Member>,
    /// Membership records that nobody here made or accepted, a line each.
    pub unknown_records: Vec<String>,
}

/// Attributes on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeFields {
    inode: u64,
    kind: u8,
    mode: u32,
    uid: u32,
    gid: u32,
    rdev: u64,
    nlink: u32,
    size: u64,
    blocks: u64,
    times: [i64; 4],
}

impl From<&Attributes> for NodeFields {
    fn from(node: &Attributes) -> Self {
        Self {
            inode: node.inode.0,
            kind: node.kind as u8,
            mode: node.mode,
            uid: node.uid,
            gid: node.gid,
            rdev: node.rdev,
            nlink: node.nlink,
            size: node.size,
            blocks: node.blocks,
            times: [node.atime.0, node.mtime.0, node.ctime.0, node.btime.0],
        }
    }
}

impl TryFrom<NodeFields> for Attributes {
    type Error = Error;

    fn try_from(fields: NodeFields) -> Result<Self, Error> {
        let [atime, mtime, ctime, btime] = fields.times.map(Timestamp);
        Ok(Self {
            inode: InodeId(fields.inode),
            kind: node_kind(fields.kind)?,
            mode: fields.mode,
            uid: fields.uid,
            gid: fields.gid,
            rdev: fields.rdev,
            nlink: fields.nlink,
            size: fields.size,
            blocks: fields.blocks,
            atime,
            mtime,
            ctime,
            btime,
        })
    }
}

/// The kind of a stored number.
pub(crate) fn node_kind(number: u8) -> Result<NodeKind, Error> {
    use NodeKind::{BlockDevice, CharDevice, Directory, Fifo, File, Socket, Symlink};
    let kinds = [
        File,
        Directory,
        Symlink,
        Fifo,
        Socket,
        CharDevice,
        BlockDevice,
    ];
    kinds
        .into_iter()
        .find(|kind| *kind as u8 == number)
        .ok_or(Error::Protocol("an unknown kind of node"))
}

/// One line of a listing on its way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EntryFields {
    pub(crate) name: ByteBuffer,
    pub(crate) cookie: u64,
    pub(crate) node: NodeFields,
}

impl EntryFields {
    /// `None` for an entry that was listed without attributes.
    pub(crate) fn new(entry: ListedEntry) -> Option<Self> {
        let node = NodeFields::from(&entry.attributes?);
        Some(Self {
            name: ByteBuffer(entry.name),
            cookie: entry.cookie,
            node,
        })
    }
}

/// Attributes to set, on their way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SetFields {
    mode: Option<u32>,
    uid: Option<u32>,
    gid: Option<u32>,
    size: Option<u64>,
    /// `Some(None)` is the clock's now.
    atime: Option<Option<i64>>,
    mtime: Option<Option<i64>>,
}

impl From<&SetAttributes> for SetFields {
    fn from(set: &SetAttributes) -> Self {
        let time = |time: SetTime| match time {
            SetTime::Now => None,
            SetTime::At(at) => Some(at.0),
        };
        Self {
            mode: set.mode,
            uid: set.uid,
            gid: set.gid,
            size: set.size,
            atime: set.atime.map(time),
            mtime: set.mtime.map(time),
        }
    }
}

impl From<SetFields> for SetAttributes {
    fn from(set: SetFields) -> Self {
        let time = |time: Option<i64>| time.map_or(SetTime::Now, |at| SetTime::At(Timestamp(at)));
        Self {
            mode: set.mode,
            uid: set.uid,
            gid: set.gid,
            size: set.size,
            atime: set.atime.map(time),
            mtime: set.mtime.map(time),
        }
    }
}

/// What `check` found, on its way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CheckFields {
    pub(crate) inodes: u64,
    pub(crate) entries: u64,
    pub(crate) blocks: u64,
    pub(crate) problems: Vec<String>,
}

impl From<Space> for Response {
    fn from(space: Space) -> Self {
        Self::Space {
            total_bytes: space.total_bytes,
            free_bytes: space.free_bytes,
            inodes: space.inodes,
        }
    }
}
