//! The names of devices, as the root directory has them.
//!
//! Takes   the file system; the members of the vault
//! Gives   the members with their names; a root directory that has names of members only
//! Never   fails because of a name: a device without one still has its id
//! Spec    spec/1-keys.md, section 1.12

use std::collections::HashSet;

use strongroom_filesystem::{Caller, Filesystem, InodeId, XattrMode};

use crate::device_name::{attribute_of, device_of, read};
use crate::request::member::Member;

/// The setting with the id under which this device had a name at its last push.
const NAMED: &str = "device_named";

/// All attributes of the root directory.
fn attributes(filesystem: &Filesystem) -> HashSet<Vec<u8>> {
    let found = filesystem.xattrs(&Caller::root(), InodeId::ROOT);
    let found = found.unwrap_or_else(|error| {
        log::debug!("reading the names of devices: {error}");
        Vec::new()
    });
    found.into_iter().collect()
}

/// Gives the devices among `members` their names.
pub(super) fn give_names(filesystem: &Filesystem, members: &mut [Member]) {
    let there = attributes(filesystem);
    for member in members.iter_mut().filter(|member| member.is_device) {
        let attribute = attribute_of(&member.id);
        if there.contains(&attribute)
            && let Ok(value) = filesystem.xattr(&Caller::root(), InodeId::ROOT, &attribute)
        {
            member.name = read(&value).map(str::to_owned);
        }
    }
}

/// Brings the names to the members that there are: this device keeps its name where it was made new, as with every removal of a device, and
/// names of devices that are not among `members` go.                                                   [1.12.3] [1.12.5]
pub(super) fn follow_members(filesystem: &Filesystem, members: &[Member]) {
    let is_member = |id: &[u8]| {
        let mut devices = members.iter().filter(|member| member.is_device);
        devices.any(|member| member.id.as_bytes() == id)
    };
    let kept = match members
        .iter()
        .find(|member| member.is_device && member.is_this)
    {
        Some(own) => keep_name(filesystem, &own.id, is_member),
        None => Ok(()),
    };
    if let Err(error) = kept {
        // The names of before stay until the next push.
        log::debug!("keeping the name of this device: {error}");
        return;
    }
    for attribute in attributes(filesystem) {
        if device_of(&attribute).is_some_and(|id| !is_member(id))
            && let Err(error) = filesystem.remove_xattr(&Caller::root(), InodeId::ROOT, &attribute)
        {
            // The next push tries again; nobody is shown it meanwhile.
            log::debug!("removing the name of a device: {error}");
        }
    }
}

/// Notes under which id this device has a name; gives the name to `own` if that id is no member any more.        [1.12.5]
fn keep_name(
    filesystem: &Filesystem,
    own: &str,
    is_member: impl Fn(&[u8]) -> bool,
) -> strongroom_filesystem::Result<()> {
    let there = attributes(filesystem);
    let named = filesystem.setting(NAMED)?.unwrap_or_default();
    if !there.contains(&attribute_of(own)) {
        let before = std::str::from_utf8(&named).map(attribute_of);
        let Some(before) = before.ok().filter(|before| there.contains(before)) else {
            return Ok(());
        };
        if is_member(&named) {
            // This is a copy of that device, which goes on.
            return Ok(());
        }
        let value = filesystem.xattr(&Caller::root(), InodeId::ROOT, &before)?;
        let (root, attribute) = (InodeId::ROOT, attribute_of(own));
        filesystem.set_xattr(&Caller::root(), root, &attribute, &value, XattrMode::Set)?;
    }
    match named == own.as_bytes() {
        true => Ok(()),
        false => filesystem.keep_setting(NAMED, own.as_bytes()),
    }
}
