//! Keeps in the metadata that another copy of this folder may act as the same device.
//!
//! Takes   the settings of a vault, and the device that this copy acts as
//! Gives   whether that device is one that another copy has too
//! Never   says so of the device that takes its place: only this copy has the key of that
//! Spec    spec/11-sync.md, 11.9

use strongroom_format::PrincipalId;

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

/// Whether it was noted of that device.
pub(crate) fn is_marked(settings: &dyn Settings, device: PrincipalId) -> Result<bool> {
    Ok(settings
        .setting(COPIED)?
        .is_some_and(|marked| marked == device.0))
}
