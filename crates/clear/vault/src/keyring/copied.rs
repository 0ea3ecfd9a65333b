//! Stores a mark in the metadata, which means: another copy of this folder may act as the same device. Gives each device its own
//! inode numbers.
//!
//! Takes   the settings of a vault, and the device that this copy acts as
//! Gives   whether another copy may act as that device too
//! Never   applies the mark to the new device that replaces the copied one: only this copy has the new device's key
//! Spec    spec/11-sync.md, 11.10

use strongroom_crypto::Keyring;
use strongroom_filesystem::Filesystem;
use strongroom_format::PrincipalId;
use strongroom_metadata::{Remote, Transaction};
use strongroom_sync::{RemoteState, object_hash};

use crate::Result;
use crate::keyring::known_records::Settings;

/// The setting that keeps which device it is.
const COPIED: &str = "copied";

/// Notes it, durably.
pub(crate) fn mark(settings: &dyn Settings, device: PrincipalId) -> Result<()> {
    match is_marked(settings, device)? {
        true => Ok(()),
        false => settings.keep_setting(COPIED, &device.0),
    }
}

/// Says what this copy needs at remotes under names of its own from now on, drawn from `random`: what another copy says under the same
/// name would say that this one has followed as far.                                                          [11.10.6]
pub(crate) fn need_under_other_names(
    writer: &mut Transaction<'_>,
    random: [u8; 16],
) -> strongroom_metadata::Result<()> {
    for remote in writer.remotes()? {
        let Some(mut state) = RemoteState::decode(&remote.state) else {
            continue;
        };
        if state.needs.0 != [0; 16] {
            let hash = object_hash(&[random, remote.id].concat());
            state.needs = (*hash.first_chunk().expect("a hash has 32 bytes"), 0);
            let state = state.encode();
            writer.put_remote(&Remote { state, ..remote })?;
        }
    }
    Ok(())
}

/// Whether it was noted of that device.
pub(crate) fn is_marked(settings: &dyn Settings, device: PrincipalId) -> Result<bool> {
    Ok(settings
        .setting(COPIED)?
        .is_some_and(|marked| marked == device.0))
}

/// Sees to it that no two devices give an inode the same number: each has a prefix, the place of the record that added it.   [4.6.2]
pub(crate) fn number_inodes(keyring: &Keyring, filesystem: &Filesystem) -> Result<()> {
    let own = keyring.device();
    let members = keyring.members();
    let member = members.iter().find(|member| Some(member.id) == own);
    match member {
        Some(member) => Ok(filesystem.begin_inodes(member.added_in)?),
        None => Ok(()),
    }
}
