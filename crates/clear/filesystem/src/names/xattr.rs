//! Extended attributes: small named values of a node.
//!
//! Takes   names in the namespaces `user.`, `trusted.` and `security.`
//! Gives   their values, which the table `xattr` of the database stores; or the errors that Linux gives
//! Never   interprets a value
//!
//! Names in `system.` are refused, as Linux file systems do if they are mounted without ACLs. To store an ACL without
//! enforcing it would be worse: setting an ACL widens the group bits of the mode, and only the ACL narrows them again.
//!
//! Invariants
//!  (1) All names and values of a node together stay within `XATTR_TOTAL_BYTES_MAX`; `limits.rs` also bounds each name and value.

use strongroom_metadata::{InodeId, Transaction};

use crate::blocks::place::Reason;
use crate::core::Core;
use crate::drain::drains::drain_node;
use crate::limits::{XATTR_TOTAL_BYTES_MAX, XATTR_VALUE_BYTES_MAX};
use crate::names::attributes::CAPABILITY;
use crate::names::scene::{Held, Live, Scene};
use crate::rules::permission;
use crate::rules::xattrs::{require_readable, require_writable, space_of};
use crate::upkeep::room::make_room;
use crate::{Caller, Error, Filesystem, Result, XattrMode};

/// How often content is drained so that an xattr may be stored; more than once only if somebody truncates meanwhile.
const DRAINS_MAX: usize = 64;

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
        require_readable(&node.living()?.inode, caller, space)?;
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
        make_room(core, value.len() as u64);
        let _gate = core.mutate()?;
        let mut live = when_attributes_flow(core, caller, inode)?;
        set_in(&mut live, inode, name, value, mode)?;
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
        let mut live = when_attributes_flow(core, caller, inode)?;
        remove_in(&mut live, inode, name)?;
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
        drop(node.living()?);
        let mut names = writer.xattrs(inode)?;
        if !permission::is_superuser(caller) {
            names.retain(|name| !name.starts_with(b"trusted."));
        }
        Ok(names)
    }
}

/// The writer, at a moment at which no commit would hold the attributes of `inode` back until its content is stored: an
/// xattr is stored at once, and beside older attributes it would make a state that never was.
fn when_attributes_flow<'a>(
    core: &'a Core,
    caller: &'a Caller,
    inode: InodeId,
) -> Result<Live<'a>> {
    for _ in 0..DRAINS_MAX {
        let mut live = Live::new(core, caller);
        let node = core.node_in(&mut live.writer, inode)?;
        let holds_back = {
            let state = node.lock();
            state.has_pending_content() && state.holds_back()
        };
        if !holds_back {
            return Ok(live);
        }
        drop(live);
        drain_node(core, &node, Reason::Namespace)?;
    }
    // Somebody truncates it all the time.
    Ok(Live::new(core, caller))
}

/// Sets the extended attribute `name`.
pub(crate) fn set_in<'s>(
    scene: &mut impl Scene<'s>,

    inode: InodeId,
    name: &[u8],
    value: &[u8],
    mode: XattrMode,
) -> Result<()> {
    let space = space_of(name)?;
    if value.len() > XATTR_VALUE_BYTES_MAX {
        return Err(Error::ValueTooLarge);
    }
    let held = scene.held(inode)?;
    require_writable(&held.inode, scene.caller(), space)?;
    let old = scene.writer().xattr(inode, name)?;
    match (mode, &old) {
        (XattrMode::CreateOnly, Some(_)) => return Err(Error::Exists),
        (XattrMode::ReplaceOnly, None) => return Err(Error::NoAttribute),
        _ => {}
    }
    let replaced = old.map_or(0, |old| name.len() + old.len());
    require_room(scene.writer(), inode, name.len() + value.len(), replaced)?;
    scene.core().admit(value.len() as u64)?;
    scene.writer().put_xattr(inode, name, value)?;
    changed(scene, &held, name, true);
    Ok(())
}

/// Removes the extended attribute `name`.
pub(crate) fn remove_in<'s>(scene: &mut impl Scene<'s>, inode: InodeId, name: &[u8]) -> Result<()> {
    let space = space_of(name)?;
    let held = scene.held(inode)?;
    require_writable(&held.inode, scene.caller(), space)?;
    if !scene.writer().remove_xattr(inode, name)? {
        return Err(Error::NoAttribute);
    }
    changed(scene, &held, name, false);
    Ok(())
}

fn changed<'s>(scene: &mut impl Scene<'s>, held: &Held, name: &[u8], present: bool) {
    let now = scene.now();
    scene.touch(&held.node, |inode| inode.ctime = now);
    if name == CAPABILITY {
        scene.note_capability(&held.node, present);
    }
}
