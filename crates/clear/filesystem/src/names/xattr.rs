//! Extended attributes: small named values beside a node.
//!
//! Takes   names of the spaces `user.`, `trusted.` and `security.`
//! Gives   their values, or the errors that Linux gives
//! Never   interprets a value
//!
//! `system.` is refused, as by a Linux file system mounted without ACLs. An ACL that is kept but not enforced
//! would be worse: setting one widens the group bits of the mode, and only the ACL narrows them again.
//!
//! Invariants
//!  (1) A node's names and values together stay within `XATTR_TOTAL_BYTES_MAX`.

use strongroom_metadata::{Inode, InodeId, NodeKind, Transaction};

use crate::core::Core;
use crate::drain::{Reason, drain_node};
use crate::limits::{XATTR_NAME_BYTES_MAX, XATTR_TOTAL_BYTES_MAX, XATTR_VALUE_BYTES_MAX};
use crate::names::attributes::{CAPABILITY, living};
use crate::names::scene::{Held, Live, Scene};
use crate::rules::permission::{self, READ, WRITE};
use crate::{Caller, Checks, Error, Filesystem, Result, XattrMode};

/// How often content is drained so that an xattr may be stored; more than once only if somebody truncates meanwhile.
const DRAINS_MAX: usize = 64;

/// Which rules hold for a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Space {
    /// Anyone's, on files and directories.
    User,
    /// The superuser's; others do not even see it.
    Trusted,
    /// The system's: all may read, the superuser writes.
    Security,
}

/// The space of a name.
///
/// # Errors
/// `ValueTooLarge` for its length, `NotSupported` for an unknown space, `InvalidArgument` for nothing behind
/// the dot or a NUL.
fn space_of(name: &[u8]) -> Result<Space> {
    if name.is_empty() || name.len() > XATTR_NAME_BYTES_MAX {
        return Err(Error::ValueTooLarge);
    }
    let spaces = [
        (&b"user."[..], Space::User),
        (b"trusted.", Space::Trusted),
        (b"security.", Space::Security),
    ];
    let found = spaces
        .into_iter()
        .find_map(|(prefix, space)| Some((name.strip_prefix(prefix)?, space)));
    let (rest, space) = found.ok_or(Error::NotSupported)?;
    if rest.is_empty() || rest.contains(&0) {
        return Err(Error::InvalidArgument(
            "an extended attribute needs a name behind its space, without NUL".into(),
        ));
    }
    Ok(space)
}

/// Demands leave to read a value.
///
/// # Errors
/// `NoAttribute` where the caller may not know whether it exists, else `PermissionDenied`.
fn require_readable(inode: &Inode, caller: &Caller, space: Space) -> Result<()> {
    if caller.checks == Checks::Above {
        return Ok(());
    }
    match space {
        Space::User if !carries_user_names(inode) => Err(Error::NoAttribute),
        Space::User => permission::require(inode, caller, READ),
        Space::Trusted if !permission::is_superuser(caller) => Err(Error::NoAttribute),
        Space::Trusted | Space::Security => Ok(()),
    }
}

/// Demands leave to read the value of `name`.
pub(crate) fn require_readable_by_name(inode: &Inode, caller: &Caller, name: &[u8]) -> Result<()> {
    require_readable(inode, caller, space_of(name)?)
}

/// Demands leave to set or remove a value.
///
/// # Errors
/// `NotPermitted` by kind, sticky bit or space, else `PermissionDenied`.
fn require_writable(inode: &Inode, caller: &Caller, space: Space) -> Result<()> {
    if space == Space::User && !carries_user_names(inode) {
        return Err(Error::NotPermitted);
    }
    match space {
        Space::User => {
            // Else anyone could leave notes on /tmp.
            if inode.kind == NodeKind::Directory && permission::is_sticky(inode) {
                permission::require_owner(inode, caller)?;
            }
            permission::require(inode, caller, WRITE)
        }
        Space::Trusted | Space::Security => permission::require_superuser(caller),
    }
}

/// The mode bits of other kinds mean something else than leave to write to them, and a quota would be evaded.
fn carries_user_names(inode: &Inode) -> bool {
    matches!(inode.kind, NodeKind::File | NodeKind::Directory)
}

/// (1): refuses a value that does not fit beside the others.
fn require_room(
    writer: &Transaction<'_>,
    id: InodeId,
    added: usize,
    replaced: usize,
) -> Result<()> {
    let held = writer.xattr_bytes(id)?;
    let after = held
        .saturating_sub(replaced as u64)
        .saturating_add(added as u64);
    if after > XATTR_TOTAL_BYTES_MAX as u64 {
        return Err(Error::NoSpace);
    }
    Ok(())
}

impl Filesystem {
    /// The value of the extended attribute `name`.
    ///
    /// # Errors
    /// `NoAttribute`; `NotSupported` for an unknown space; `PermissionDenied`.
    pub fn xattr(&self, caller: &Caller, inode: InodeId, name: &[u8]) -> Result<Vec<u8>> {
        if let Some(snapshots) = self.snapshots(inode) {
            return snapshots.xattr(caller, inode, name);
        }
        let space = space_of(name)?;
        let mut writer = self.core.store.lock();
        let node = self.core.node_in(&mut writer, inode)?;
        require_readable(&living(&node)?.inode, caller, space)?;
        writer.xattr(inode, name)?.ok_or(Error::NoAttribute)
    }

    /// Sets the extended attribute `name`: up to 255 bytes of name, 64 KiB of value, 1 MiB of both together
    /// on one node.
    ///
    /// # Errors
    /// `Exists` or `NoAttribute` as `mode` asks; `ValueTooLarge` for one value, `NoSpace` for all of a node
    /// or of the disk;
    /// `NotSupported` for an unknown space; `NotPermitted`, `PermissionDenied`.
    pub fn set_xattr(
        &self,
        caller: &Caller,
        inode: InodeId,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<()> {
        let core = &self.core;
        core.make_room(value.len() as u64);
        let _gate = core.mutate()?;
        let mut writer = writer_when_attributes_flow(core, inode)?;
        set_in(
            &mut Live(core),
            &mut writer,
            caller,
            inode,
            name,
            value,
            mode,
        )?;
        core.changed();
        Ok(())
    }

    /// Removes the extended attribute `name`.
    ///
    /// # Errors
    /// `NoAttribute`; `NotSupported` for an unknown space; `NotPermitted`, `PermissionDenied`.
    pub fn remove_xattr(&self, caller: &Caller, inode: InodeId, name: &[u8]) -> Result<()> {
        let core = &self.core;
        let _gate = core.mutate()?;
        let mut writer = writer_when_attributes_flow(core, inode)?;
        remove_in(&mut Live(core), &mut writer, caller, inode, name)?;
        core.changed();
        Ok(())
    }

    /// The names of all extended attributes that the caller may know of.
    ///
    /// # Errors
    /// `Stale`, or those of the store.
    pub fn xattrs(&self, caller: &Caller, inode: InodeId) -> Result<Vec<Vec<u8>>> {
        if let Some(snapshots) = self.snapshots(inode) {
            return snapshots.xattrs(caller, inode);
        }
        let mut writer = self.core.store.lock();
        let node = self.core.node_in(&mut writer, inode)?;
        drop(living(&node)?);
        let mut names = writer.xattrs(inode)?;
        if !permission::is_superuser(caller) {
            names.retain(|name| !name.starts_with(b"trusted."));
        }
        Ok(names)
    }
}

/// The writer, at a moment at which no commit would hold the attributes of `inode` back until its content is stored: an
/// xattr is stored at once, and beside older attributes it would make a state that never was.
fn writer_when_attributes_flow(core: &Core, inode: InodeId) -> Result<Transaction<'_>> {
    for _ in 0..DRAINS_MAX {
        let mut writer = core.store.lock();
        let node = core.node_in(&mut writer, inode)?;
        let holds_back = {
            let state = node.lock();
            state.has_pending_content() && state.holds_back()
        };
        if !holds_back {
            return Ok(writer);
        }
        drop(writer);
        drain_node(core, &node, Reason::Namespace)?;
    }
    // Somebody truncates it all the time.
    Ok(core.store.lock())
}

/// Sets the extended attribute `name`.
pub(crate) fn set_in(
    scene: &mut impl Scene,
    writer: &mut Transaction<'_>,
    caller: &Caller,
    inode: InodeId,
    name: &[u8],
    value: &[u8],
    mode: XattrMode,
) -> Result<()> {
    let space = space_of(name)?;
    if value.len() > XATTR_VALUE_BYTES_MAX {
        return Err(Error::ValueTooLarge);
    }
    let held = scene.held(writer, inode)?;
    require_writable(&held.inode, caller, space)?;
    let old = writer.xattr(inode, name)?;
    match (mode, &old) {
        (XattrMode::CreateOnly, Some(_)) => return Err(Error::Exists),
        (XattrMode::ReplaceOnly, None) => return Err(Error::NoAttribute),
        _ => {}
    }
    let replaced = old.map_or(0, |old| name.len() + old.len());
    require_room(writer, inode, name.len() + value.len(), replaced)?;
    scene.core().admit(value.len() as u64)?;
    writer.put_xattr(inode, name, value)?;
    changed(scene, &held, name, true);
    Ok(())
}

/// Removes the extended attribute `name`.
pub(crate) fn remove_in(
    scene: &mut impl Scene,
    writer: &mut Transaction<'_>,
    caller: &Caller,
    inode: InodeId,
    name: &[u8],
) -> Result<()> {
    let space = space_of(name)?;
    let held = scene.held(writer, inode)?;
    require_writable(&held.inode, caller, space)?;
    if !writer.remove_xattr(inode, name)? {
        return Err(Error::NoAttribute);
    }
    changed(scene, &held, name, false);
    Ok(())
}

fn changed(scene: &mut impl Scene, held: &Held, name: &[u8], present: bool) {
    let now = scene.now();
    scene.touch(&held.node, |inode| inode.ctime = now);
    if name == CAPABILITY {
        scene.note_capability(&held.node, present);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_lies_in_a_known_space_and_says_something() {
        assert_eq!(space_of(b"user.a").expect("known"), Space::User);
        assert_eq!(space_of(b"user.a.b/c").expect("known"), Space::User);
        assert_eq!(space_of(b"trusted.a").expect("known"), Space::Trusted);
        assert_eq!(
            space_of(b"security.capability").expect("known"),
            Space::Security
        );
        for name in [
            &b"a"[..],
            b"user",
            b"USER.a",
            b"system.posix_acl_access",
            b"system.posix_acl_default",
            b"os2.a",
        ] {
            assert!(
                matches!(space_of(name), Err(Error::NotSupported)),
                "{name:?}"
            );
        }
        for name in [&b"user."[..], b"trusted.", b"security.", b"user.a\0"] {
            assert!(
                matches!(space_of(name), Err(Error::InvalidArgument(_))),
                "{name:?}"
            );
        }
    }

    #[test]
    fn a_name_has_1_to_255_bytes() {
        let mut name = b"user.".to_vec();
        name.resize(XATTR_NAME_BYTES_MAX, b'n');
        assert_eq!(space_of(&name).expect("fits"), Space::User);
        name.push(b'n');
        assert!(matches!(space_of(&name), Err(Error::ValueTooLarge)));
        assert!(matches!(space_of(b""), Err(Error::ValueTooLarge)));
    }
}
