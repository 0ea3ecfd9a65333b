//! Attributes, lines of listings, and the modes of operations on their way.
//!
//! Takes   values of the file system
//! Gives   twins that travel with `request.rs`, under its version
//! Never   takes a kind or a time that the file system does not know

use serde::{Deserialize, Serialize};
use strongroom_crypto::Compression;
use strongroom_filesystem::{
    AllocateMode, Attributes, InodeId, ListedEntry, NodeKind, RenameMode, SeekTarget,
    SetAttributes, SetTime, Timestamp, XattrMode,
};

use crate::Error;
use crate::request::frame::ByteBuffer;

/// A compression on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum CompressionField {
    None,
    Zstd,
}

impl From<Compression> for CompressionField {
    fn from(compression: Compression) -> Self {
        match compression {
            Compression::None => Self::None,
            Compression::Zstd => Self::Zstd,
        }
    }
}

impl From<CompressionField> for Compression {
    fn from(field: CompressionField) -> Self {
        match field {
            CompressionField::None => Self::None,
            CompressionField::Zstd => Self::Zstd,
        }
    }
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

/// Gives an enum of the file system a twin that can travel.
macro_rules! twin {
    ($(#[$doc:meta])* $twin:ident = $original:ident { $($variant:ident),+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub(crate) enum $twin { $($variant),+ }

        impl From<$original> for $twin {
            fn from(value: $original) -> Self {
                match value { $($original::$variant => Self::$variant),+ }
            }
        }

        impl From<$twin> for $original {
            fn from(value: $twin) -> Self {
                match value { $($twin::$variant => Self::$variant),+ }
            }
        }
    };
}

twin!(/// `RenameMode` on its way.
    RenameName = RenameMode { Replace, NoReplace, Exchange, Whiteout });
twin!(/// `XattrMode` on its way.
    XattrName = XattrMode { Set, CreateOnly, ReplaceOnly });
twin!(/// `AllocateMode` on its way.
    AllocateName = AllocateMode { Reserve, ReserveKeepSize, PunchHole, ZeroRange, ZeroRangeKeepSize });
twin!(/// `SeekTarget` on its way.
    SeekName = SeekTarget { Data, Hole });
