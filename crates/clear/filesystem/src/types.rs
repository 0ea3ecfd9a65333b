//! The types that callers pass to the file system and get from it.

use serde::{Deserialize, Serialize};
use strongroom_metadata::{InodeId, NodeKind, Timestamp};

/// On whose behalf an operation runs: who owns what it creates, and what it may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// Who checks permissions.
    pub checks: Checks,
}

/// Who checks permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checks {
    /// The file system does, as POSIX says.
    Here,
    /// Somebody above already did: the kernel under `default_permissions`. Only the rules the kernel
    /// leaves to the file system remain (who may set the sgid bit, suid dropping).
    Above,
}

impl Caller {
    /// The superuser, checked by nobody.
    #[must_use]
    pub const fn root() -> Self {
        Self {
            uid: 0,
            gid: 0,
            groups: Vec::new(),
            checks: Checks::Above,
        }
    }
}

/// What `stat` shows of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    /// Number, never reused.
    pub inode: InodeId,
    /// What it is.
    pub kind: NodeKind,
    /// The low 12 bits of `st_mode`.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number, else 0.
    pub rdev: u64,
    /// Count of names.
    pub nlink: u32,
    /// Bytes.
    pub size: u64,
    /// `st_blocks`: units of 512 bytes.
    pub blocks: u64,
    /// Last access.
    pub atime: Timestamp,
    /// Last change of content.
    pub mtime: Timestamp,
    /// Last change of the inode.
    pub ctime: Timestamp,
    /// Creation.
    pub btime: Timestamp,
}

/// A new node, as `mknod`, `mkdir`, `symlink` and `open(O_CREAT)` ask for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewNode {
    /// What it is to be.
    pub kind: NodeKind,
    /// The low 12 bits of its mode, umask already taken off.
    pub mode: u32,
    /// Device number, else 0.
    pub rdev: u64,
    /// Symlink target, else empty.
    pub target: Vec<u8>,
}

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SetTime {
    /// The clock's now.
    Now,
    /// A given one.
    At(Timestamp),
}

/// Which attributes to change; `None` leaves one alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetAttributes {
    /// The low 12 bits of the mode.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Length in bytes: truncates or extends by a hole.
    pub size: Option<u64>,
    /// Last access.
    pub atime: Option<SetTime>,
    /// Last change of content.
    pub mtime: Option<SetTime>,
}

/// What a rename does when the new name exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RenameMode {
    /// Replaces it, as POSIX says.
    Replace,
    /// Refuses.
    NoReplace,
    /// Swaps the two.
    Exchange,
    /// Replaces it, and leaves a whiteout at the old name: a character device with the number 0, by which an overlay file system marks
    /// that a name of the layer below is hidden.
    Whiteout,
}

/// When a transaction returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When it has happened; the next commit makes it durable, as any other change.
    #[default]
    WriteBehind,
    /// When it is durable.
    OnReturn,
}

/// One line of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedEntry {
    /// 1 to 255 bytes.
    pub name: Vec<u8>,
    /// What it names.
    pub inode: InodeId,
    /// Its kind.
    pub kind: NodeKind,
    /// Give this as `after` to go on behind this entry.
    pub cookie: u64,
    /// What `stat` tells, if asked for.
    pub attributes: Option<Attributes>,
}

/// How a listing treats the nodes it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// Names and kinds only.
    Names,
    /// Attributes too, and one reference is taken on each node: give it back with `forget`.
    WithReferences,
    /// Attributes too, no reference.
    WithAttributes,
}

/// What `set_xattr` does about an existing value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum XattrMode {
    /// Creates or replaces.
    Set,
    /// `XATTR_CREATE`.
    CreateOnly,
    /// `XATTR_REPLACE`.
    ReplaceOnly,
}

/// What `allocate` does to a byte range; the names are those of `fallocate(2)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AllocateMode {
    /// Mode 0: reserves space, extends the size.
    Reserve,
    /// `FALLOC_FL_KEEP_SIZE`: reserves space, leaves the size.
    ReserveKeepSize,
    /// `FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE`.
    PunchHole,
    /// `FALLOC_FL_ZERO_RANGE`, may extend the size.
    ZeroRange,
    /// `FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE`.
    ZeroRangeKeepSize,
}

/// What `seek` looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SeekTarget {
    /// `SEEK_DATA`.
    Data,
    /// `SEEK_HOLE`; the end of the file counts as one.
    Hole,
}

/// What `statfs` tells. Bytes, not blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Space {
    /// Of the disk, or the quota if that is less.
    pub total_bytes: u64,
    /// What a writer can still use.
    pub free_bytes: u64,
    /// Nodes in the vault.
    pub inodes: u64,
}
