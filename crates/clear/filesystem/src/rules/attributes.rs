//! The attributes that `stat` shows, and the effect of setting attributes.
//!
//! Takes   a row, and the attributes to set
//! Gives   attributes; the changed row, or why the change is refused
//! Never   reads or changes a node: every function here is pure

use strongroom_metadata::{Inode, NodeKind, Timestamp};

use crate::limits::FILE_BYTES_MAX;
use crate::rules::permission::{self, MODE_BITS};
use crate::{Attributes, Caller, Error, Result, SetAttributes, SetTime};

/// The unit of `st_blocks`, in bytes.
const STAT_BLOCK_BYTES: u64 = 512;

/// The attributes that a row shows when nothing of the node is in memory.
pub(crate) fn attributes_of_row(inode: &Inode) -> Attributes {
    with_pending(inode, 0)
}

/// The same with `pending_bytes` of content that is not stored yet.
pub(crate) fn with_pending(inode: &Inode, pending_bytes: u64) -> Attributes {
    Attributes {
        inode: inode.id,
        kind: inode.kind,
        mode: inode.mode & MODE_BITS,
        uid: inode.uid,
        gid: inode.gid,
        rdev: inode.rdev,
        nlink: inode.nlink,
        size: inode.size,
        blocks: stat_blocks(inode, pending_bytes),
        atime: inode.atime,
        mtime: inode.mtime,
        ctime: inode.ctime,
        btime: inode.btime,
    }
}

/// Pending content may lie over stored content or beside it, and rows of a hole go in steps. The sum is therefore an
/// upper bound, cut at the size: nothing is stored beyond it. A reservation counts in any case.
fn stat_blocks(inode: &Inode, pending_bytes: u64) -> u64 {
    let units = |bytes: u64| bytes.div_ceil(STAT_BLOCK_BYTES);
    units(inode.allocated.saturating_add(pending_bytes))
        .min(units(inode.size))
        .saturating_add(units(inode.reserved))
}

/// Everything that can refuse `set`, before anything changes.
pub(crate) fn check(inode: &Inode, caller: &Caller, set: &SetAttributes) -> Result<()> {
    if let Some(size) = set.size {
        match inode.kind {
            NodeKind::File => {}
            NodeKind::Directory => return Err(Error::IsADirectory),
            _ => {
                return Err(Error::InvalidArgument(
                    "only a regular file has a length to set".into(),
                ));
            }
        }
        if size > FILE_BYTES_MAX {
            return Err(Error::FileTooLarge);
        }
    }
    if set.mode.is_some() && inode.kind == NodeKind::Symlink {
        return Err(Error::NotSupported);
    }
    // -1 means "leave alone" in the system call; as an owner it would be nobody's.
    if set.uid == Some(u32::MAX) || set.gid == Some(u32::MAX) {
        return Err(Error::InvalidArgument(
            "no user or group has the number -1".into(),
        ));
    }
    permission::require_settable(inode, caller, set)
}

/// Whether setting attributes changed nothing but the times of the last changes: so `fchown` to the owner that a file has, with
/// which SQLite begins each transaction of the superuser.
pub(crate) fn is_but_for_times(before: &Inode, after: &Inode) -> bool {
    let of = |inode: &Inode| (inode.mode, inode.uid, inode.gid, inode.atime);
    of(before) == of(after)
}

/// Makes the changes that `check` allowed; the length has been set already.
pub(crate) fn apply(inode: &mut Inode, caller: &Caller, set: &SetAttributes, now: Timestamp) {
    if set.uid.is_some() || set.gid.is_some() {
        inode.mode = permission::mode_after_chown(inode, caller);
    }
    if set.size.is_some() {
        inode.mode = permission::mode_after_truncate(inode, caller);
    }
    inode.uid = set.uid.unwrap_or(inode.uid);
    inode.gid = set.gid.unwrap_or(inode.gid);
    if let Some(mode) = set.mode {
        inode.mode = permission::mode_by_chmod(mode, inode.gid, caller);
    }
    let time = |set: Option<SetTime>, old: Timestamp| match set {
        None => old,
        Some(SetTime::Now) => now,
        Some(SetTime::At(time)) => time,
    };
    inode.atime = time(set.atime, inode.atime);
    inode.mtime = time(set.mtime, inode.mtime);
    inode.ctime = now;
}

/// The end of `len` bytes at `offset`, if a file may be that long.
pub(crate) fn end_in_file(offset: u64, len: u64) -> Result<u64> {
    let end = offset.checked_add(len).filter(|end| *end <= FILE_BYTES_MAX);
    end.ok_or(Error::FileTooLarge)
}

/// Refuses what has no content.
pub(crate) fn check_kind(inode: &Inode) -> Result<()> {
    match inode.kind {
        NodeKind::File => Ok(()),
        NodeKind::Directory => Err(Error::IsADirectory),
        _ => Err(Error::InvalidArgument("not a regular file".into())),
    }
}

/// A user changed the content: times and version follow.
pub(crate) fn content_changed(inode: &mut Inode, now: Timestamp) {
    inode.mtime = now;
    inode.ctime = now;
    inode.content_version += 1;
}

#[cfg(test)]
mod tests {
    use strongroom_metadata::InodeId;

    use super::*;

    fn row(size: u64, allocated: u64, reserved: u64) -> Inode {
        let time = Timestamp(0);
        Inode {
            id: InodeId(9),
            birth_id: 1,
            kind: NodeKind::File,
            mode: 0o644,
            uid: 1,
            gid: 2,
            rdev: 0,
            nlink: 1,
            size,
            allocated,
            atime: time,
            mtime: time,
            ctime: time,
            btime: time,
            content_version: 0,
            parent: InodeId(0),
            target: Vec::new(),
            reserved,
        }
    }

    #[test]
    fn blocks_count_stored_pending_and_reserved_bytes() {
        let table = [
            (row(0, 0, 0), 0, 0),
            (row(1, 0, 0), 1, 1),
            (row(513, 513, 0), 0, 2),
            (row(1 << 30, 0, 0), 4096, 8),
            (row(4096, 4096, 0), 4096, 8),
            (row(4000, 4000, 0), 4000, 8),
            (row(100, 4096, 0), 0, 1),
            (row(0, 0, 1000), 0, 2),
            (row(4096, 4096, 4096), 0, 16),
        ];
        for (inode, pending, expected) in table {
            assert_eq!(
                stat_blocks(&inode, pending),
                expected,
                "{inode:?} {pending}"
            );
        }
    }

    #[test]
    fn blocks_of_a_row_out_of_bounds_do_not_overflow() {
        let inode = row(u64::MAX, u64::MAX, u64::MAX);
        assert_eq!(stat_blocks(&inode, u64::MAX), 2 * u64::MAX.div_ceil(512));
    }

    #[test]
    fn a_mode_set_with_an_owner_has_the_last_word() {
        let mut inode = row(0, 0, 0);
        inode.mode = 0o6755;
        let set = SetAttributes {
            uid: Some(5),
            mode: Some(0o4711),
            ..SetAttributes::default()
        };
        apply(&mut inode, &Caller::root(), &set, Timestamp(3));
        assert_eq!(
            (inode.uid, inode.gid, inode.mode, inode.ctime),
            (5, 2, 0o4711, Timestamp(3))
        );
    }
}
