//! The attributes of a node that `stat` shows, and the changes that `chmod`, `chown`, `truncate` and `utimens` make.
//!
//! Takes   a node and the attributes to set
//! Gives   its current attributes, content in memory included
//! Never   writes rows: the next commit stores the changes
//!
//! Invariants
//!  (1) A change of attributes, including the length, is made while the node stays locked. If it is refused,
//!      nothing has changed. A commit stores the present attributes, and the length of the stored content (`NodeState::row`).
//!  (2) A change of owner, length or content removes suid, sgid and `security.capability`.

use std::sync::Arc;

use strongroom_metadata::{InodeId, NodeKind, Transaction};

use crate::content::node::{Node, NodeState};
use crate::core::Core;
use crate::files::write::resize;
use crate::rules::attributes::{apply, check, is_but_for_times};
use crate::rules::permission::{self, WRITE};
use crate::{Attributes, Caller, Error, Filesystem, Result, SetAttributes};

/// The xattr by which a program runs with capabilities; it goes where suid goes.
pub(crate) const CAPABILITY: &[u8] = b"security.capability";

impl Filesystem {
    /// What `stat` shows of `inode`.
    ///
    /// # Errors
    /// `Stale` if there is no such inode any more.
    pub fn attributes(&self, inode: InodeId) -> Result<Attributes> {
        if let Some(snapshots) = self.snapshots(inode) {
            return snapshots.attributes(inode);
        }
        let node = self.core.node(inode)?;
        node.attributes()
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
            resize(core, &mut state, size, now);
        }
        let before = state.inode.clone();
        apply(&mut state.inode, caller, set, now);
        if writer.is_none() && set.size.is_none() && is_but_for_times(&before, &state.inode) {
            state.times_changed();
        } else {
            state.changed();
        }
        core.content.list_dirty(&node, &mut state);
        let attributes = state.attributes();
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
        let state = node.living()?;
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
        let mut state = node.living()?;
        let mode = permission::mode_after_write(&state.inode);
        let is_file = state.inode.kind == NodeKind::File;
        let dropped = is_file && (dropped || mode != state.inode.mode);
        if dropped {
            state.inode.mode = mode;
            state.inode.ctime = now;
            state.changed();
            core.content.list_dirty(&node, &mut state);
            drop(state);
            core.changed();
        }
        Ok(dropped)
    }
}

/// (2): takes `security.capability` from a file; gives whether it was there. Call without locks, with the
/// mutation begun.
fn drop_capability(core: &Core, node: &Arc<Node>) -> Result<bool> {
    if node.lock().has_capability == Some(false) {
        return Ok(false);
    }
    let mut writer = core.store.lock();
    let mut state = node.living()?;
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
