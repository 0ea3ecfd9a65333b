//! Turns attributes of the file system into those of the protocol, and back.
//!
//! Takes   `Attributes`, modes, device numbers and times of either side
//! Gives   the same values in the form of the other side
//! Never   rounds or clamps a time that the other side cannot represent: it gives an error

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, Generation, INodeNo, TimeOrNow};
use strongroom::filesystem::{Attributes, InodeId, NodeKind, SetTime, Timestamp};

use crate::limits;

/// Inode numbers are never reused, so one generation serves all.
pub(crate) const GENERATION: Generation = Generation(0);

/// The low 12 bits of a mode.
pub(crate) const PERMISSION_BITS: u32 = 0o7777;

/// The set-group-id bit.
pub(crate) const SGID: u32 = 0o2000;

const NANOS_PER_SECOND: i128 = 1_000_000_000;

/// Shows all files as belonging to one owner or with other permissions; what is stored stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) umask: Option<u32>,
}

impl View {
    /// A node as the kernel shows it.
    pub(crate) fn attributes(&self, attributes: &Attributes) -> FileAttr {
        let mode = self.umask.map_or(attributes.mode, |umask| 0o777 & !umask);
        FileAttr {
            ino: INodeNo(attributes.inode.0),
            size: attributes.size,
            blocks: blocks(attributes),
            atime: system_time(attributes.atime),
            mtime: system_time(attributes.mtime),
            ctime: system_time(attributes.ctime),
            crtime: system_time(attributes.btime),
            kind: file_type(attributes.kind),
            perm: u16::try_from(mode & PERMISSION_BITS).expect("twelve bits fit into sixteen"),
            nlink: attributes.nlink,
            uid: self.uid.unwrap_or(attributes.uid),
            gid: self.gid.unwrap_or(attributes.gid),
            rdev: kernel_device(attributes.rdev),
            blksize: limits::IO_BLOCK_BYTES,
            flags: 0,
        }
    }
}

/// What is written to mapped memory takes no blocks until the kernel sends it, and `tar -S` does not look into a file without blocks:
/// so no file with a length shows none.
fn blocks(attributes: &Attributes) -> u64 {
    let may_be_mapped = attributes.kind == NodeKind::File && attributes.size > 0;
    attributes.blocks.max(u64::from(may_be_mapped))
}

/// A directory of which only number and kind matter: `.` and `..` in a listing, and "no such name".
pub(crate) fn nameless(inode: u64) -> FileAttr {
    FileAttr {
        ino: INodeNo(inode),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: FileType::Directory,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 0,
        flags: 0,
    }
}

/// The node of a request.
pub(crate) fn inode(number: INodeNo) -> InodeId {
    InodeId(number.0)
}

pub(crate) fn file_type(kind: NodeKind) -> FileType {
    match kind {
        NodeKind::File => FileType::RegularFile,
        NodeKind::Directory => FileType::Directory,
        NodeKind::Symlink => FileType::Symlink,
        NodeKind::Fifo => FileType::NamedPipe,
        NodeKind::Socket => FileType::Socket,
        NodeKind::CharDevice => FileType::CharDevice,
        NodeKind::BlockDevice => FileType::BlockDevice,
    }
}

/// The kind in the type bits of a mode, as `mknod` has it; `None` for directories, links and nonsense.
pub(crate) fn kind_of_mknod(mode: u32) -> Option<NodeKind> {
    match mode & 0o170_000 {
        0 | 0o100_000 => Some(NodeKind::File),
        0o010_000 => Some(NodeKind::Fifo),
        0o140_000 => Some(NodeKind::Socket),
        0o020_000 => Some(NodeKind::CharDevice),
        0o060_000 => Some(NodeKind::BlockDevice),
        _ => None,
    }
}

/// The kernel's 32-bit device number (12 bits major, 20 bits minor) as `makedev` gives it.
pub(crate) fn library_device(device: u32) -> u64 {
    let major = (device >> 8) & 0xfff;
    let minor = (device & 0xff) | ((device >> 12) & 0xf_ff00);
    rustix::fs::makedev(major, minor)
}

/// The way back; bits that the kernel cannot hold are cut.
pub(crate) fn kernel_device(device: u64) -> u32 {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    (minor & 0xff) | ((major & 0xfff) << 8) | ((minor & 0xf_ff00) << 12)
}

fn system_time(time: Timestamp) -> SystemTime {
    let distance = Duration::from_nanos(time.0.unsigned_abs());
    if time.0 >= 0 {
        UNIX_EPOCH + distance
    } else {
        UNIX_EPOCH - distance
    }
}

/// A time to set.
///
/// # Errors
/// `OutOfRange` for one that is not within 292 years of 1970: the vault keeps nanoseconds in 64 bits.
pub(crate) fn set_time(time: TimeOrNow) -> Result<SetTime, OutOfRange> {
    match time {
        TimeOrNow::Now => Ok(SetTime::Now),
        TimeOrNow::SpecificTime(time) => timestamp(time).map(SetTime::At),
    }
}

/// A time that the vault cannot keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutOfRange;

/// The protocol library decodes seconds `s` below zero and nanoseconds `n` as `s - n` where the kernel
/// means `s + n`; this undoes it. (A later version of it will fail the test of this function.)
fn timestamp(time: SystemTime) -> Result<Timestamp, OutOfRange> {
    let nanos = match time.duration_since(UNIX_EPOCH) {
        Ok(after) => {
            i128::from(after.as_secs()) * NANOS_PER_SECOND + i128::from(after.subsec_nanos())
        }
        Err(before) => {
            let before = before.duration();
            i128::from(before.subsec_nanos()) - i128::from(before.as_secs()) * NANOS_PER_SECOND
        }
    };
    i64::try_from(nanos).map(Timestamp).map_err(|_| OutOfRange)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Attributes {
        Attributes {
            inode: InodeId(42),
            kind: NodeKind::File,
            mode: 0o4755,
            uid: 1000,
            gid: 1001,
            rdev: 0,
            nlink: 2,
            size: 5,
            blocks: 8,
            atime: Timestamp(1),
            mtime: Timestamp(-1),
            ctime: Timestamp(i64::MAX),
            btime: Timestamp(i64::MIN),
        }
    }

    #[test]
    fn without_a_view_everything_is_told_as_it_is() {
        let told = View::default().attributes(&sample());
        assert_eq!(
            (told.ino, told.perm, told.uid, told.gid),
            (INodeNo(42), 0o4755, 1000, 1001)
        );
        assert_eq!(told.mtime, UNIX_EPOCH - Duration::from_nanos(1));
    }

    #[test]
    fn a_view_replaces_owner_and_permissions() {
        let view = View {
            uid: Some(7),
            gid: Some(8),
            umask: Some(0o027),
        };
        let told = view.attributes(&sample());
        assert_eq!((told.perm, told.uid, told.gid), (0o750, 7, 8));
    }

    #[test]
    fn device_numbers_survive_both_ways() {
        for (major, minor) in [(0, 0), (1, 3), (8, 17), (0xfff, 0xf_ffff), (259, 1_000)] {
            let device = rustix::fs::makedev(major, minor);
            assert_eq!(
                library_device(kernel_device(device)),
                device,
                "{major}:{minor}"
            );
        }
        assert_eq!(kernel_device(rustix::fs::makedev(1, 3)), 0x103);
    }

    #[test]
    fn times_before_1970_are_what_the_kernel_meant() {
        // -0.5 s arrives as seconds -1 and nanoseconds 5e8, decoded to 1.5 s before the epoch.
        let decoded = UNIX_EPOCH - Duration::new(1, 500_000_000);
        assert_eq!(timestamp(decoded), Ok(Timestamp(-500_000_000)));
        let before = UNIX_EPOCH - Duration::new(7, 0);
        assert_eq!(timestamp(before), Ok(Timestamp(-7_000_000_000)));
        let after = UNIX_EPOCH + Duration::new(7, 9);
        assert_eq!(timestamp(after), Ok(Timestamp(7_000_000_009)));
    }

    /// Failed before: they were cut to the nearest time that can be kept, and no error said so.
    #[test]
    fn times_out_of_range_are_refused() {
        let far = Duration::from_secs(u64::MAX / 4);
        assert_eq!(timestamp(UNIX_EPOCH + far), Err(OutOfRange));
        assert_eq!(timestamp(UNIX_EPOCH - far), Err(OutOfRange));
        let last = UNIX_EPOCH + Duration::from_nanos(i64::MAX.unsigned_abs());
        assert_eq!(timestamp(last), Ok(Timestamp(i64::MAX)));
        assert_eq!(timestamp(last + Duration::from_nanos(1)), Err(OutOfRange));
    }

    #[test]
    fn mknod_makes_neither_directories_nor_links() {
        assert_eq!(kind_of_mknod(0o100_644), Some(NodeKind::File));
        assert_eq!(kind_of_mknod(0o010_644), Some(NodeKind::Fifo));
        assert_eq!(kind_of_mknod(0o040_755), None);
        assert_eq!(kind_of_mknod(0o120_777), None);
        assert_eq!(kind_of_mknod(0o170_000), None);
    }
}
