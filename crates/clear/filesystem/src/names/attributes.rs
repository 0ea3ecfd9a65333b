//! What `stat` tells of a node, and the changes that `chmod`, `chown`, `truncate` and `utimens` make to it.
//!
//! Takes   a node and the attributes to set
//! Gives   its attributes as they are now, content in memory included
//! Never   writes rows: the next commit stores what changed here
//!
//! Invariants
//!  (1) A change of attributes, the length included, happens in one hold of the node's state, and is refused before
//!      anything changes. What a commit stores of it follows `NodeState::row`: all of it or nothing.
//!  (2) Whoever may run a file never gains by a change of its owner, length or content: suid, sgid and
//!      `security.capability` go with it.

use std::sync::Arc;

use strongroom_metadata::{Inode, InodeId, NodeKind, Timestamp, Transaction};

use crate::content::node::{Node, NodeState};
use crate::core::Core;
use crate::limits::FILE_BYTES_MAX;
use crate::rules::permission::{self, MODE_BITS, WRITE};
use crate::{Attributes, Caller, Error, Filesystem, Result, SetAttributes, SetTime};

/// The unit of `st_blocks`, in bytes.
const STAT_BLOCK_BYTES: u64 = 512;

/// The xattr by which a program runs with capabilities; it goes where suid goes.
pub(crate) const CAPABILITY: &[u8] = b"security.capability";

impl Filesystem {
    /// What `stat` tells of `inode`.
    ///
    /// # Errors
    /// `Stale` if there is no such inode any more.
    pub fn attributes(&self, inode: InodeId) -> Result<Attributes> {
        if let Some(snapshots) = self.snapshots(inode) {
            return snapshots.attributes(inode);
        }
        let node = self.core.node(inode)?;
        attributes_now(&node)
    }

    /// Changes the attributes that `set` names, all or none, and gives what they are then.
    ///
    /// A change of owner or group takes suid and sgid from everything but directories, truncation takes them
    /// for callers other than the superuser; a `mode` in the same `set` has the last word. The sgid bit is
    /// given only by the superuser and by members of the node's group.
    ///
    /// # Errors
    /// `PermissionDenied` and `NotPermitted` as POSIX says; `IsADirectory` or `InvalidArgument` for the length
    /// of what is no file; `NotSupported` for the mode of a symlink; those of a truncation.
    pub fn set_attributes(
        &self,
        caller: &Caller,
        inode: InodeId,
        set: &SetAttributes,
    ) -> Result<Attributes> {
        if *set == SetAttributes::default() {
            return self.attributes(inode);
        }
        let core = &self.core;
        let _gate = core.mutate()?;
        let node = core.node(inode)?;
        let drops_capability = set.uid.is_some() || set.gid.is_some() || set.size.is_some();
        // The writer only for what may have the attribute, so that truncation needs none.
        let may_have = drops_capability && node.lock().has_capability != Some(false);
        let mut writer = may_have.then(|| core.store.lock());
        let mut state = node.lock();
        if drops_capability && writer.is_none() && state.has_capability != Some(false) {
            // Set in between.
            drop(state);
            writer = Some(core.store.lock());
            state = node.lock();
        }
        if state.purged {
            return Err(Error::Stale);
        }
        check(&state.inode, caller, set)?;
        if let Some(writer) = &mut writer {
            take_capability(writer, &mut state)?;
        }
        let now = core.now();
        if let Some(size) = set.size {
            crate::files::write::resize(core, &mut state, size, now);
        }
        let before = state.inode.clone();
        apply(&mut state.inode, caller, set, now);
        if writer.is_none() && set.size.is_none() && is_but_for_times(&before, &state.inode) {
            state.times_changed();
        } else {
            state.changed();
        }
        core.list_dirty(&node, &mut state);
        let attributes = attributes_of(&state);
        drop(state);
        core.changed();
        Ok(attributes)
    }

    /// `access(2)`: whether the mode bits give the caller all of `mask` (R = 4, W = 2, X = 1; 0 asks for
    /// existence only), whoever checks permissions otherwise.
    ///
    /// # Errors
    /// `PermissionDenied`; `ReadOnly` for writing to a file, directory or symlink of a vault open for reading.
    pub fn access(&self, caller: &Caller, inode: InodeId, mask: u32) -> Result<()> {
        if mask > 7 {
            return Err(Error::InvalidArgument("an access mask beyond 7".into()));
        }
        if let Some(snapshots) = self.snapshots(inode) {
            return snapshots.access(caller, inode, mask);
        }
        let node = self.core.node(inode)?;
        let state = living(&node)?;
        let stored = matches!(
            state.inode.kind,
            NodeKind::File | NodeKind::Directory | NodeKind::Symlink
        );
        if mask & WRITE != 0 && stored && self.core.options.read_only {
            return Err(Error::ReadOnly);
        }
        if permission::allows(&state.inode, caller, mask) {
            Ok(())
        } else {
            Err(Error::PermissionDenied)
        }
    }

    /// Drops suid, sgid and `security.capability`, as a write by an unprivileged caller must; gives whether there was any of it. Memory
    /// only when there is nothing to drop, so it may precede every write.
    ///
    /// # Errors
    /// `Stale`, or those of the store.
    pub fn drop_privileges(&self, inode: InodeId) -> Result<bool> {
        let core = &self.core;
        let _gate = core.mutate()?;
        let node = core.node(inode)?;
        let dropped = drop_capability(core, &node)?;
        let now = core.now();
        let mut state = living(&node)?;
        let mode = permission::mode_after_write(&state.inode);
        let is_file = state.inode.kind == NodeKind::File;
        let dropped = is_file && (dropped || mode != state.inode.mode);
        if dropped {
            state.inode.mode = mode;
            state.inode.ctime = now;
            state.changed();
            core.list_dirty(&node, &mut state);
            drop(state);
            core.changed();
        }
        Ok(dropped)
    }
}

/// Locks a node's state.
///
/// # Errors
/// `Stale` if its rows are gone.
pub(crate) fn living(node: &Node) -> Result<parking_lot::MutexGuard<'_, NodeState>> {
    let state = node.lock();
    if state.purged {
        Err(Error::Stale)
    } else {
        Ok(state)
    }
}

/// The attributes of a node in use.
pub(crate) fn attributes_now(node: &Node) -> Result<Attributes> {
    let state = living(node)?;
    Ok(attributes_of(&state))
}

/// The attributes that a state shows: what is written and not yet stored counts.
pub(crate) fn attributes_of(state: &NodeState) -> Attributes {
    let draining = state
        .draining
        .as_ref()
        .map_or(0, |overlay| overlay.data_bytes());
    with_pending(
        &state.inode,
        state.active.data_bytes().saturating_add(draining),
    )
}

/// The attributes that a row shows when nothing of the node is in memory.
pub(crate) fn attributes_of_row(inode: &Inode) -> Attributes {
    with_pending(inode, 0)
}

fn with_pending(inode: &Inode, pending_bytes: u64) -> Attributes {
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
fn is_but_for_times(before: &Inode, after: &Inode) -> bool {
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

/// (2): takes `security.capability` from a file; gives whether it was there. Call without locks, with the
/// mutation begun.
fn drop_capability(core: &Core, node: &Arc<Node>) -> Result<bool> {
    if node.lock().has_capability == Some(false) {
        return Ok(false);
    }
    let mut writer = core.store.lock();
    let mut state = living(node)?;
    let dropped = take_capability(&mut writer, &mut state)?;
    drop(state);
    if dropped {
        core.changed();
    }
    Ok(dropped)
}

/// (2): takes `security.capability` from a file, if it is there; gives whether it was.
fn take_capability(writer: &mut Transaction<'_>, state: &mut NodeState) -> Result<bool> {
    let inode = state.inode.id;
    let present = state.inode.kind == NodeKind::File && writer.xattr(inode, CAPABILITY)?.is_some();
    if present {
        writer.remove_xattr(inode, CAPABILITY)?;
    }
    state.has_capability = Some(false);
    Ok(present)
}

#[cfg(test)]
mod tests {
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
