//! Converts the attributes of a node for Python's `stat`.
//!
//! Takes   `Attributes`
//! Gives   a tuple in the order that `strongroom/_stat.py` expects
//! Never   gives times as floats: they are nanoseconds since 1970

use strongroom::filesystem::{Attributes, NodeKind};

/// `st_mode`, `st_ino`, `st_nlink`, `st_uid`, `st_gid`, `st_size`; access, modification, change and creation in nanoseconds;
/// `st_blocks`, `st_rdev`.
pub(crate) type Stat = (u32, u64, u32, u32, u32, u64, i64, i64, i64, i64, u64, u64);

/// The tuple of `attributes`.
pub(crate) fn stat_of(attributes: &Attributes) -> Stat {
    (
        kind_bits(attributes.kind) | attributes.mode,
        attributes.inode.0,
        attributes.nlink,
        attributes.uid,
        attributes.gid,
        attributes.size,
        attributes.atime.0,
        attributes.mtime.0,
        attributes.ctime.0,
        attributes.btime.0,
        attributes.blocks,
        attributes.rdev,
    )
}

/// The bits of `st_mode` that name a kind, as `stat.S_IFMT` takes them out.
pub(crate) const fn kind_bits(kind: NodeKind) -> u32 {
    match kind {
        NodeKind::File => 0o100_000,
        NodeKind::Directory => 0o040_000,
        NodeKind::Symlink => 0o120_000,
        NodeKind::Fifo => 0o010_000,
        NodeKind::Socket => 0o140_000,
        NodeKind::CharDevice => 0o020_000,
        NodeKind::BlockDevice => 0o060_000,
    }
}
