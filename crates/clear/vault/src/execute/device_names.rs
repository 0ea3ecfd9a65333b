//! The names of devices, as the root directory has them.
//!
//! Takes   the file system; the members of the vault
//! Gives   the members with their names; a root directory without names of devices that were removed
//! Never   fails because of a name: without it there is the id
//! Spec    spec/1-keys.md, section 1.12

use std::collections::HashSet;

use strongroom_filesystem::{Caller, Filesystem, InodeId};

use crate::device_name::{attribute_of, device_of, read};
use crate::request::member::Member;

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

/// Removes the names of devices that are not among `members`.                                                   [1.12.3]
pub(super) fn drop_others(filesystem: &Filesystem, members: &[Member]) {
    let is_member = |id: &[u8]| {
        let mut devices = members.iter().filter(|member| member.is_device);
        devices.any(|member| member.id.as_bytes() == id)
    };
    for attribute in attributes(filesystem) {
        if device_of(&attribute).is_some_and(|id| !is_member(id))
            && let Err(error) = filesystem.remove_xattr(&Caller::root(), InodeId::ROOT, &attribute)
        {
            // The next push tries again; nobody is shown it meanwhile.
            log::debug!("removing the name of a device: {error}");
        }
    }
}
