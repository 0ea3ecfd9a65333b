//! Decides as POSIX does what a caller may do.
//!
//! Takes   a caller and a node
//! Gives   nothing, or the error: `PermissionDenied` if mode bits forbid the access, `NotPermitted` if only the owner is allowed
//! Never   uses names
//! Spec    POSIX.1-2017 4.5, path_resolution(7), chmod(2), chown(2), utimensat(2)

use strongroom_filesystem::{Caller, Checks, Error, NodeKind, Result, SetAttributes, SetTime};

use super::node::Node;

pub(super) const READ: u32 = 4;
pub(super) const WRITE: u32 = 2;
pub(super) const SEARCH: u32 = 1;

fn is_member(caller: &Caller, gid: u32) -> bool {
    caller.gid == gid || caller.groups.contains(&gid)
}

fn is_free(caller: &Caller) -> bool {
    caller.checks == Checks::Above
}

pub(super) fn may(caller: &Caller, node: &Node, mask: u32) -> Result<()> {
    if is_free(caller) {
        return Ok(());
    }
    let granted = if caller.uid == 0 {
        let search = node.kind == NodeKind::Directory || node.mode & 0o111 != 0;
        READ | WRITE | if search { SEARCH } else { 0 }
    } else if caller.uid == node.uid {
        node.mode >> 6
    } else if is_member(caller, node.gid) {
        node.mode >> 3
    } else {
        node.mode
    };
    if granted & mask == mask {
        Ok(())
    } else {
        Err(Error::PermissionDenied)
    }
}

/// The sticky bit: only who owns the entry's node or the directory may take the name away.
pub(super) fn may_take(caller: &Caller, directory: &Node, node: &Node) -> Result<()> {
    let sticky = directory.mode & 0o1000 != 0;
    if is_free(caller) || !sticky || [0, node.uid, directory.uid].contains(&caller.uid) {
        Ok(())
    } else {
        Err(Error::NotPermitted)
    }
}

pub(super) fn may_set(caller: &Caller, node: &Node, set: &SetAttributes) -> Result<()> {
    if is_free(caller) || caller.uid == 0 {
        return Ok(());
    }
    let owner = caller.uid == node.uid;
    let uid_stays = set.uid.is_none_or(|uid| owner && uid == node.uid);
    let gid_allowed = set
        .gid
        .is_none_or(|gid| owner && (gid == node.gid || is_member(caller, gid)));
    let given = |time: Option<SetTime>| matches!(time, Some(SetTime::At(_)));
    let now = |time: Option<SetTime>| matches!(time, Some(SetTime::Now));
    let needs_owner = set.mode.is_some() || given(set.atime) || given(set.mtime);
    if !uid_stays || !gid_allowed || (needs_owner && !owner) {
        return Err(Error::NotPermitted);
    }
    if set.size.is_some() || ((now(set.atime) || now(set.mtime)) && !owner) {
        may(caller, node, WRITE)?;
    }
    Ok(())
}

/// xattr(7): only files and directories have attributes of users; of anything else `refusal`.
pub(super) fn may_have_xattrs(node: &Node, refusal: Error) -> Result<()> {
    if matches!(node.kind, NodeKind::File | NodeKind::Directory) {
        Ok(())
    } else {
        Err(refusal)
    }
}
