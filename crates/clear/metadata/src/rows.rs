//! One struct per table row, in the words of the glossary. Rows are plaintext and never leave the clear zone.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use strongroom_format::{BlockId, Epoch, Kind, SegmentId};

use crate::limits::INODE_PREFIX_SHIFT;

/// A file, directory or other node. 64 bits: the top bit clear, 23 bits of device prefix, 40 bits of counter.                [4.6.2]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct InodeId(pub u64);

impl InodeId {
    /// The root directory of every vault.
    pub const ROOT: Self = Self(1);

    /// The prefix of the device that made it.
    #[must_use]
    pub const fn prefix(self) -> u64 {
        self.0 >> INODE_PREFIX_SHIFT
    }

    /// Whether it is one of those of its device from `first` on.
    #[must_use]
    pub const fn is_from(self, first: u64) -> bool {
        self.prefix() == Self(first).prefix() && self.0 >= first
    }
}

/// Nanoseconds since 1970-01-01T00:00:00Z, negative before; covers the years 1677 to 2262.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
pub struct Timestamp(pub i64);

/// A time that a `Timestamp` cannot hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the time is outside the years 1677 to 2262")]
pub struct TimeOutOfRange;

impl TryFrom<SystemTime> for Timestamp {
    type Error = TimeOutOfRange;

    fn try_from(time: SystemTime) -> Result<Self, TimeOutOfRange> {
        let nanoseconds = match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_nanos()).ok(),
            // The earliest time has no positive counterpart.
            Err(before) => i128::try_from(before.duration().as_nanos())
                .ok()
                .and_then(|before| i64::try_from(-before).ok()),
        };
        nanoseconds.map(Self).ok_or(TimeOutOfRange)
    }
}

impl From<Timestamp> for SystemTime {
    fn from(time: Timestamp) -> Self {
        let distance = Duration::from_nanos(time.0.unsigned_abs());
        match time.0 {
            0.. => Self::UNIX_EPOCH + distance,
            _ => Self::UNIX_EPOCH - distance,
        }
    }
}

/// What a node is. The numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum NodeKind {
    /// Regular file.
    File = 1,
    /// Directory.
    Directory = 2,
    /// Symbolic link.
    Symlink = 3,
    /// Named pipe.
    Fifo = 4,
    /// Unix domain socket.
    Socket = 5,
    /// Character device.
    CharDevice = 6,
    /// Block device.
    BlockDevice = 7,
}

impl NodeKind {
    const ALL: [Self; 7] = [
        Self::File,
        Self::Directory,
        Self::Symlink,
        Self::Fifo,
        Self::Socket,
        Self::CharDevice,
        Self::BlockDevice,
    ];

    /// The kind of this number, if it is one.
    #[must_use]
    pub fn from_number(number: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u64 == number)
    }
}

/// One inode: what `stat` tells, and what only the engine needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inode {
    /// Number, never reused.
    pub id: InodeId,
    /// Random; tells two nodes of one number apart when devices merge.
    pub birth_id: u64,
    /// What it is.
    pub kind: NodeKind,
    /// Permission, suid, sgid and sticky bits: the low 12 bits of `st_mode`.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a device node, as `makedev` gives it; else 0.
    pub rdev: u64,
    /// Count of names (directories: 2 plus subdirectories).
    pub nlink: u32,
    /// Content length in bytes; of a symlink, of its target.
    pub size: u64,
    /// Bytes that extents hold: `st_blocks` is this in units of 512, rounded up.
    pub allocated: u64,
    /// Last access.
    pub atime: Timestamp,
    /// Last change of content.
    pub mtime: Timestamp,
    /// Last change of the inode.
    pub ctime: Timestamp,
    /// Creation.
    pub btime: Timestamp,
    /// Counts user writes, never background work.
    pub content_version: u64,
    /// The directory that holds this directory; of the root, itself; 0 for everything that is no directory.
    pub parent: InodeId,
    /// Symlink target, else empty.
    pub target: Vec<u8>,
    /// Bytes that `fallocate` reserved and no extent holds yet: the sum of its row in `reservation`.
    pub reserved: u64,
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// 1 to 255 bytes, neither `/` nor NUL in it.
    pub name: Vec<u8>,
    /// What it names.
    pub inode: InodeId,
    /// The kind of that node, so that a listing needs no second look-up.
    pub kind: NodeKind,
    /// Position in listings: rises with every new entry of the vault, never reused, starts at 3.
    pub cookie: u64,
}

/// The local number of a block. Never reused within a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockNumber(pub u64);

/// The local number of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SegmentNumber(pub u32);

/// A byte range of a file and the part of a block that holds it. Lies inside one 64 KiB cell of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First byte in the file.
    pub start: u64,
    /// Count of bytes, 1 to `BLOCK_BYTES_MAX`.
    pub len: u32,
    /// The block.
    pub block: BlockNumber,
    /// First byte inside the clear block.
    pub block_offset: u32,
}

/// Where a block's sealed bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a segment, at this offset.
    Segment(SegmentNumber, u32),
    /// In the `waiting` table, until a segment takes it.
    Waiting,
}

/// A stored block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Local number.
    pub number: BlockNumber,
    /// Keyed hash.
    pub id: BlockId,
    /// Bytes of clear content.
    pub clear_len: u32,
    /// The keys that sealed it.
    pub epoch: Epoch,
    /// How many extents, nodes of stored trees and revisions name it.
    pub references: u32,
    /// Where its sealed bytes are.
    pub place: Place,
    /// What it holds.
    pub kind: Kind,
}

/// The segment of blocks that are lost: its row has blocks, so that reading what names them fails, and it never has a file.
pub const LOST_SEGMENT: SegmentId = SegmentId([0; 16]);

/// The segment of blocks that were erased: its row has blocks, and it never has a file.
pub const ERASED_SEGMENT: SegmentId = SegmentId([0xff; 16]);

/// Whether a segment is one of those that have a row and never a file: what lies in it takes no space.
#[must_use]
pub fn has_no_file(id: &SegmentId) -> bool {
    [LOST_SEGMENT, ERASED_SEGMENT].contains(id)
}

/// What becomes of a segment file. The numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SegmentState {
    /// Being appended to.
    Open = 1,
    /// Never changes again.
    Finished = 2,
    /// To be unlinked once a later durable commit finds it still empty.
    Leaving = 3,
    /// Finished, and at a remote that says so: its file need not be here.
    Away = 4,
}

/// A segment file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Local number.
    pub number: SegmentNumber,
    /// Random name of the file.
    pub id: SegmentId,
    /// The keys it was sealed under.
    pub epoch: Epoch,
    /// What becomes of it.
    pub state: SegmentState,
    /// Sealed bytes of blocks that something still references.
    pub live_bytes: u64,
    /// Sealed bytes of all blocks ever appended.
    pub total_bytes: u64,
    /// End of the last committed batch, in bytes from the start of the file.
    pub committed_len: u64,
}

/// The hash of a file's whole content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentHash {
    /// The file.
    pub inode: InodeId,
    /// How it was computed: 1 BLAKE3, 2 SHA-256.
    pub algorithm: u8,
    /// The version of the content.
    pub version: u64,
    /// The hash.
    pub hash: [u8; 32],
}

/// A snapshot of the whole tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// Local number, rising.
    pub number: u64,
    /// The hash of its body.
    pub id: [u8; 32],
    /// The block that holds the root of its tree.
    pub root: BlockNumber,
    /// When it was taken.
    pub taken: Timestamp,
    /// The signed body, as the history writes it.
    pub body: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_and_a_time_of_the_system_say_the_same_at_both_ends_and_around_1970() {
        for nanoseconds in [
            i64::MIN,
            -1_000_000_001,
            -1,
            0,
            1,
            1_700_000_000_123_456_789,
            i64::MAX,
        ] {
            let time = SystemTime::from(Timestamp(nanoseconds));
            assert_eq!(Timestamp::try_from(time), Ok(Timestamp(nanoseconds)));
        }
        let step = Duration::from_nanos(1);
        let late = SystemTime::from(Timestamp(i64::MAX)) + step;
        assert_eq!(Timestamp::try_from(late), Err(TimeOutOfRange));
        let early = SystemTime::from(Timestamp(i64::MIN)) - step;
        assert_eq!(Timestamp::try_from(early), Err(TimeOutOfRange));
    }
}
