//! Decides, as Linux does, what a caller may do to a node, and which mode bits an operation leaves.
//!
//! Takes   an inode in its current state, and the caller
//! Gives   permission or the error to return, and modes
//! Never   reads or changes a node: every function here is pure
//!
//! With `Checks::Above` (the kernel has checked already), the functions named `require_…` allow everything. The mode
//! rules hold for every caller: sgid depends on group membership, and a change of owner removes suid and sgid.

use strongroom_metadata::{Inode, NodeKind};

use crate::{Caller, Checks, Error, Result, SetAttributes, SetTime};

/// Leave to read a file or list a directory.
pub(crate) const READ: u32 = 4;
/// Leave to write a file or change the names in a directory.
pub(crate) const WRITE: u32 = 2;
/// Leave to run a file or look a name up in a directory.
pub(crate) const EXECUTE: u32 = 1;

/// All bits that a mode may have.
pub(crate) const MODE_BITS: u32 = 0o7777;
const SUID: u32 = 0o4000;
const SGID: u32 = 0o2000;
const STICKY: u32 = 0o1000;
const GROUP_EXECUTE: u32 = 0o010;
const ANY_EXECUTE: u32 = 0o111;

/// The superuser has every capability that matters here.
pub(crate) const fn is_superuser(caller: &Caller) -> bool {
    caller.uid == 0
}

/// Whether `gid` is the caller's group or one of the supplementary ones.
pub(crate) fn is_member(caller: &Caller, gid: u32) -> bool {
    caller.gid == gid || caller.groups.contains(&gid)
}

/// Whether the mode bits give the caller all of `mask` (`READ`, `WRITE`, `EXECUTE`), whoever checks.
///
/// One class decides: the owner's bits for the owner even where the group's give more.
pub(crate) fn allows(inode: &Inode, caller: &Caller, mask: u32) -> bool {
    if is_superuser(caller) {
        // A file that nobody may execute is not executable for the superuser either.
        let runs = inode.kind == NodeKind::Directory || inode.mode & ANY_EXECUTE != 0;
        return mask & EXECUTE == 0 || runs;
    }
    let class = if caller.uid == inode.uid {
        inode.mode >> 6
    } else if is_member(caller, inode.gid) {
        inode.mode >> 3
    } else {
        inode.mode
    };
    class & mask == mask
}

/// Demands `mask` of the mode bits.
///
/// # Errors
/// `PermissionDenied`.
pub(crate) fn require(inode: &Inode, caller: &Caller, mask: u32) -> Result<()> {
    if caller.checks == Checks::Above || allows(inode, caller, mask) {
        return Ok(());
    }
    Err(Error::PermissionDenied)
}

/// Demands that the caller owns the node or is the superuser.
///
/// # Errors
/// `NotPermitted`.
pub(crate) fn require_owner(inode: &Inode, caller: &Caller) -> Result<()> {
    if caller.checks == Checks::Above || owns(inode, caller) {
        return Ok(());
    }
    Err(Error::NotPermitted)
}

/// Demands the superuser.
///
/// # Errors
/// `NotPermitted`.
pub(crate) fn require_superuser(caller: &Caller) -> Result<()> {
    if caller.checks == Checks::Above || is_superuser(caller) {
        return Ok(());
    }
    Err(Error::NotPermitted)
}

/// Demands leave to take the name of `victim` out of `directory`: write and search, and under a sticky
/// bit to own one of the two.
///
/// # Errors
/// `PermissionDenied` by the mode bits, else `NotPermitted` by the sticky bit.
pub(crate) fn require_removable(directory: &Inode, victim: &Inode, caller: &Caller) -> Result<()> {
    require(directory, caller, WRITE | EXECUTE)?;
    let bound = is_sticky(directory) && caller.checks == Checks::Here;
    if bound && !owns(victim, caller) && !owns(directory, caller) {
        return Err(Error::NotPermitted);
    }
    Ok(())
}

/// Demands leave for every change in `set`, in the order in which Linux asks.
///
/// # Errors
/// `PermissionDenied` where write permission would do (length, both times to now), `NotPermitted` where
/// only the owner or the superuser may.
pub(crate) fn require_settable(inode: &Inode, caller: &Caller, set: &SetAttributes) -> Result<()> {
    if caller.checks == Checks::Above {
        return Ok(());
    }
    if set.size.is_some() {
        require(inode, caller, WRITE)?;
    }
    // `utimes` without times is a touch, which a writer may do. Every other combination is the owner's.
    let touches = set.atime == Some(SetTime::Now) && set.mtime == Some(SetTime::Now);
    if touches && !owns(inode, caller) {
        require(inode, caller, WRITE)?;
    }
    if set.uid.is_some_and(|uid| uid != inode.uid) {
        require_superuser(caller)?;
    }
    if set.uid.is_some() || set.mode.is_some() {
        require_owner(inode, caller)?;
    }
    if let Some(gid) = set.gid {
        require_owner(inode, caller)?;
        if gid != inode.gid && !is_member(caller, gid) {
            require_superuser(caller)?;
        }
    }
    if !touches && (set.atime.is_some() || set.mtime.is_some()) {
        require_owner(inode, caller)?;
    }
    Ok(())
}

/// The mode and group that a node of `kind` gets in `directory`.
///
/// A directory with the sgid bit gives its group on, and the bit itself to directories.
pub(crate) fn mode_and_group_of_new(
    directory: &Inode,
    caller: &Caller,
    kind: NodeKind,
    mode: u32,
) -> (u32, u32) {
    let mode = if kind == NodeKind::Symlink {
        0o777
    } else {
        mode & MODE_BITS
    };
    if directory.mode & SGID == 0 {
        return (mode, caller.gid);
    }
    let runs_as_group = mode & (SGID | GROUP_EXECUTE) == SGID | GROUP_EXECUTE;
    let mode = match kind {
        NodeKind::Directory => mode | SGID,
        // Else anyone could make a program that runs as the directory's group.
        _ if runs_as_group => mode_by_chmod(mode, directory.gid, caller),
        _ => mode,
    };
    (mode, directory.gid)
}

/// What `chmod` to `mode` leaves on a node of group `gid`: the sgid bit only from a member or the superuser.
pub(crate) fn mode_by_chmod(mode: u32, gid: u32, caller: &Caller) -> u32 {
    let mode = mode & MODE_BITS;
    if is_superuser(caller) || is_member(caller, gid) {
        mode
    } else {
        mode & !SGID
    }
}

/// What a change of owner or group leaves of the mode; `inode` is the node before it.
///
/// Who runs the file must not run it as its new owner. The superuser's change counts too. An sgid bit
/// without group-execute runs nothing (it once meant mandatory locking) and stays for members.
pub(crate) fn mode_after_chown(inode: &Inode, caller: &Caller) -> u32 {
    if inode.kind == NodeKind::Directory {
        return inode.mode;
    }
    let mode = mode_after_write(inode);
    mode_by_chmod(mode, inode.gid, caller)
}

/// What truncation by the caller leaves of the mode of a file.
pub(crate) fn mode_after_truncate(inode: &Inode, caller: &Caller) -> u32 {
    if is_superuser(caller) || inode.kind != NodeKind::File {
        inode.mode
    } else {
        mode_after_chown(inode, caller)
    }
}

/// What a write by an unprivileged caller leaves of the mode: no suid, no sgid that would run something.
pub(crate) fn mode_after_write(inode: &Inode) -> u32 {
    let lost = if inode.mode & GROUP_EXECUTE == 0 {
        SUID
    } else {
        SUID | SGID
    };
    inode.mode & !lost
}

/// Whether names in this directory belong to the owners of what they name.
pub(crate) const fn is_sticky(directory: &Inode) -> bool {
    directory.mode & STICKY != 0
}

/// Whether the caller owns the node or is the superuser.
pub(crate) fn owns(inode: &Inode, caller: &Caller) -> bool {
    is_superuser(caller) || caller.uid == inode.uid
}

#[cfg(test)]
mod tests {
    use strongroom_metadata::{InodeId, Timestamp};

    use super::*;

    const OWNER: u32 = 1000;
    const GROUP: u32 = 100;
    const OTHER: u32 = 2000;

    fn node(kind: NodeKind, mode: u32) -> Inode {
        let time = Timestamp(0);
        Inode {
            id: InodeId(7),
            birth_id: 0,
            kind,
            mode,
            uid: OWNER,
            gid: GROUP,
            rdev: 0,
            nlink: 1,
            size: 0,
            allocated: 0,
            atime: time,
            mtime: time,
            ctime: time,
            btime: time,
            content_version: 0,
            parent: InodeId(0),
            target: Vec::new(),
            reserved: 0,
        }
    }

    fn file(mode: u32) -> Inode {
        node(NodeKind::File, mode)
    }

    fn directory(mode: u32) -> Inode {
        node(NodeKind::Directory, mode)
    }

    fn user(uid: u32, gid: u32, groups: &[u32]) -> Caller {
        Caller {
            uid,
            gid,
            groups: groups.to_vec(),
            checks: Checks::Here,
        }
    }

    fn root() -> Caller {
        user(0, 0, &[])
    }

    /// One letter per answer, so that a table row is one line.
    fn answer(result: &Result<()>) -> &'static str {
        match result {
            Ok(()) => "ok",
            Err(Error::PermissionDenied) => "EACCES",
            Err(Error::NotPermitted) => "EPERM",
            Err(_) => "?",
        }
    }

    #[test]
    fn the_first_class_that_fits_decides_alone() {
        let table = [
            (0o700, user(OWNER, OTHER, &[]), 7, true),
            (0o077, user(OWNER, GROUP, &[]), 1, false),
            (0o070, user(OTHER, GROUP, &[]), 7, true),
            (0o070, user(OTHER, OTHER, &[5, GROUP]), 7, true),
            (0o707, user(OTHER, GROUP, &[]), 4, false),
            (0o707, user(OTHER, OTHER, &[GROUP]), 4, false),
            (0o007, user(OTHER, OTHER, &[]), 7, true),
            (0o770, user(OTHER, OTHER, &[]), 4, false),
            (0o640, user(OTHER, GROUP, &[]), 4, true),
            (0o640, user(OTHER, GROUP, &[]), 6, false),
            (0o000, user(OWNER, GROUP, &[]), 0, true),
        ];
        for (mode, caller, mask, expected) in table {
            assert_eq!(
                allows(&file(mode), &caller, mask),
                expected,
                "{mode:o} {caller:?} {mask}"
            );
        }
    }

    #[test]
    fn the_superuser_lacks_only_the_execution_of_what_nobody_executes() {
        assert!(allows(&file(0), &root(), READ | WRITE));
        assert!(!allows(&file(0o666), &root(), EXECUTE));
        assert!(allows(&file(0o001), &root(), EXECUTE));
        assert!(allows(&directory(0), &root(), READ | WRITE | EXECUTE));
    }

    #[test]
    fn nothing_is_refused_to_a_caller_who_was_checked_above() {
        let caller = Caller {
            checks: Checks::Above,
            ..user(OTHER, OTHER, &[])
        };
        let all = SetAttributes {
            mode: Some(0),
            uid: Some(3),
            gid: Some(3),
            size: Some(0),
            atime: Some(SetTime::Now),
            mtime: Some(SetTime::At(Timestamp(1))),
        };
        assert!(require(&file(0), &caller, 7).is_ok());
        assert!(require_owner(&file(0), &caller).is_ok());
        assert!(require_superuser(&caller).is_ok());
        assert!(require_removable(&directory(0o1000), &file(0), &caller).is_ok());
        assert!(require_settable(&file(0), &caller, &all).is_ok());
    }

    #[test]
    fn a_sticky_directory_lets_owners_remove() {
        let theirs = Inode {
            uid: OTHER,
            ..file(0o644)
        };
        let table = [
            (0o0777, file(0o644), user(OTHER, OTHER, &[]), "ok"),
            (0o1777, file(0o644), user(OTHER, OTHER, &[]), "EPERM"),
            (0o1777, theirs.clone(), user(OTHER, OTHER, &[]), "ok"),
            (0o1777, theirs.clone(), user(OWNER, OTHER, &[]), "ok"),
            (0o1777, theirs.clone(), root(), "ok"),
            (0o1755, theirs.clone(), user(OTHER, OTHER, &[]), "EACCES"),
            (0o0666, theirs.clone(), user(OWNER, OTHER, &[]), "EACCES"),
            (0o0555, theirs, user(OWNER, OTHER, &[]), "EACCES"),
        ];
        for (mode, victim, caller, expected) in table {
            let result = require_removable(&directory(mode), &victim, &caller);
            assert_eq!(answer(&result), expected, "{mode:o} {caller:?}");
        }
    }

    #[test]
    fn each_attribute_has_its_own_rule_and_error() {
        let owner = || user(OWNER, GROUP, &[5]);
        let writer = || user(OTHER, GROUP, &[]);
        let reader = || user(OTHER, OTHER, &[]);
        let none = SetAttributes::default;
        let at = Some(SetTime::At(Timestamp(1)));
        let now = Some(SetTime::Now);
        let table = [
            (
                SetAttributes {
                    mode: Some(0o600),
                    ..none()
                },
                owner(),
                "ok",
            ),
            (
                SetAttributes {
                    mode: Some(0o600),
                    ..none()
                },
                writer(),
                "EPERM",
            ),
            (
                SetAttributes {
                    mode: Some(0o600),
                    ..none()
                },
                root(),
                "ok",
            ),
            (
                SetAttributes {
                    uid: Some(OWNER),
                    ..none()
                },
                owner(),
                "ok",
            ),
            (
                SetAttributes {
                    uid: Some(OWNER),
                    ..none()
                },
                writer(),
                "EPERM",
            ),
            (
                SetAttributes {
                    uid: Some(OTHER),
                    ..none()
                },
                owner(),
                "EPERM",
            ),
            (
                SetAttributes {
                    uid: Some(OTHER),
                    ..none()
                },
                root(),
                "ok",
            ),
            (
                SetAttributes {
                    gid: Some(GROUP),
                    ..none()
                },
                owner(),
                "ok",
            ),
            (
                SetAttributes {
                    gid: Some(5),
                    ..none()
                },
                owner(),
                "ok",
            ),
            (
                SetAttributes {
                    gid: Some(6),
                    ..none()
                },
                owner(),
                "EPERM",
            ),
            (
                SetAttributes {
                    gid: Some(GROUP),
                    ..none()
                },
                writer(),
                "EPERM",
            ),
            (
                SetAttributes {
                    gid: Some(6),
                    ..none()
                },
                root(),
                "ok",
            ),
            (
                SetAttributes {
                    size: Some(0),
                    ..none()
                },
                writer(),
                "ok",
            ),
            (
                SetAttributes {
                    size: Some(0),
                    ..none()
                },
                reader(),
                "EACCES",
            ),
            (
                SetAttributes {
                    atime: now,
                    mtime: now,
                    ..none()
                },
                owner(),
                "ok",
            ),
            (
                SetAttributes {
                    atime: now,
                    mtime: now,
                    ..none()
                },
                writer(),
                "ok",
            ),
            (
                SetAttributes {
                    atime: now,
                    mtime: now,
                    ..none()
                },
                reader(),
                "EACCES",
            ),
            (
                SetAttributes {
                    atime: now,
                    ..none()
                },
                writer(),
                "EPERM",
            ),
            (
                SetAttributes {
                    mtime: now,
                    ..none()
                },
                writer(),
                "EPERM",
            ),
            (
                SetAttributes {
                    atime: at,
                    mtime: now,
                    ..none()
                },
                writer(),
                "EPERM",
            ),
            (
                SetAttributes {
                    atime: at,
                    mtime: at,
                    ..none()
                },
                writer(),
                "EPERM",
            ),
            (
                SetAttributes {
                    atime: at,
                    mtime: at,
                    ..none()
                },
                owner(),
                "ok",
            ),
            (
                SetAttributes {
                    atime: at,
                    mtime: at,
                    ..none()
                },
                root(),
                "ok",
            ),
        ];
        for (set, caller, expected) in table {
            let result = require_settable(&file(0o664), &caller, &set);
            assert_eq!(answer(&result), expected, "{set:?} {caller:?}");
        }
    }

    #[test]
    fn an_owner_without_write_permission_may_touch_but_not_truncate() {
        let owner = user(OWNER, GROUP, &[]);
        let touch = SetAttributes {
            atime: Some(SetTime::Now),
            mtime: Some(SetTime::Now),
            ..SetAttributes::default()
        };
        let truncate = SetAttributes {
            size: Some(0),
            ..SetAttributes::default()
        };
        assert_eq!(
            answer(&require_settable(&file(0o444), &owner, &touch)),
            "ok"
        );
        assert_eq!(
            answer(&require_settable(&file(0o444), &owner, &truncate)),
            "EACCES"
        );
    }

    #[test]
    fn an_sgid_directory_gives_its_group_and_to_directories_its_bit() {
        let stranger = user(OTHER, OTHER, &[]);
        let member = user(OTHER, OTHER, &[GROUP]);
        let table = [
            (0o0755, NodeKind::File, 0o2755, &stranger, (0o2755, OTHER)),
            (0o2755, NodeKind::File, 0o0644, &stranger, (0o0644, GROUP)),
            (0o2755, NodeKind::File, 0o2755, &stranger, (0o0755, GROUP)),
            (0o2755, NodeKind::File, 0o2755, &member, (0o2755, GROUP)),
            (0o2755, NodeKind::File, 0o2745, &stranger, (0o2745, GROUP)),
            (
                0o2755,
                NodeKind::Directory,
                0o0700,
                &stranger,
                (0o2700, GROUP),
            ),
            (
                0o0755,
                NodeKind::Directory,
                0o1700,
                &stranger,
                (0o1700, OTHER),
            ),
            (0o2755, NodeKind::Symlink, 0, &stranger, (0o0777, GROUP)),
            (0o0755, NodeKind::Fifo, 0o10_644, &stranger, (0o0644, OTHER)),
        ];
        for (parent, kind, mode, caller, expected) in table {
            assert_eq!(
                mode_and_group_of_new(&directory(parent), caller, kind, mode),
                expected,
                "{parent:o} {kind:?}"
            );
        }
    }

    #[test]
    fn chmod_keeps_sgid_only_for_members_and_the_superuser() {
        let table = [
            (user(OWNER, GROUP, &[]), 0o6755),
            (user(OWNER, OTHER, &[GROUP]), 0o6755),
            (user(OWNER, OTHER, &[]), 0o4755),
            (root(), 0o6755),
        ];
        for (caller, expected) in table {
            assert_eq!(
                mode_by_chmod(0o106_755, GROUP, &caller),
                expected,
                "{caller:?}"
            );
        }
    }

    #[test]
    fn a_new_owner_never_inherits_suid_and_sgid() {
        let member = user(OWNER, GROUP, &[]);
        let stranger = user(OWNER, OTHER, &[]);
        let table = [
            (file(0o6755), root(), 0o0755),
            (file(0o6755), member.clone(), 0o0755),
            (file(0o6745), member.clone(), 0o2745),
            (file(0o6745), stranger.clone(), 0o0745),
            (file(0o6745), root(), 0o2745),
            (node(NodeKind::Fifo, 0o6755), root(), 0o0755),
            (directory(0o6755), root(), 0o6755),
            (directory(0o6755), stranger, 0o6755),
        ];
        for (inode, caller, expected) in table {
            assert_eq!(
                mode_after_chown(&inode, &caller),
                expected,
                "{:o} {caller:?}",
                inode.mode
            );
        }
        let above = Caller {
            checks: Checks::Above,
            ..member
        };
        assert_eq!(mode_after_chown(&file(0o6755), &above), 0o0755);
    }

    #[test]
    fn truncation_drops_privileges_unless_the_superuser_does_it() {
        assert_eq!(mode_after_truncate(&file(0o6755), &root()), 0o6755);
        assert_eq!(
            mode_after_truncate(&file(0o6755), &user(OWNER, GROUP, &[])),
            0o0755
        );
        assert_eq!(
            mode_after_truncate(&file(0o2745), &user(OWNER, GROUP, &[])),
            0o2745
        );
        assert_eq!(
            mode_after_truncate(&file(0o2745), &user(OWNER, OTHER, &[])),
            0o0745
        );
    }

    #[test]
    fn a_write_drops_suid_and_the_sgid_that_runs() {
        assert_eq!(mode_after_write(&file(0o6755)), 0o0755);
        assert_eq!(mode_after_write(&file(0o6745)), 0o2745);
        assert_eq!(mode_after_write(&file(0o1644)), 0o1644);
    }
}
