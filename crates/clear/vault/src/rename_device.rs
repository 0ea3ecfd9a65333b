//! The names of devices in the public API.
//!
//! Takes   a device, by its id, and a name
//! Gives   the device with that name, on every device that syncs
//! Never   stores a name that deceives
//! Spec    spec/1-keys.md, section 1.12

use strongroom_crypto::KeyError;
use strongroom_filesystem::{Error as FileError, XattrMode};

use crate::device_name::{attribute_of, is_plain};
use crate::path::Links;
use crate::{Error, Result, Vault};

/// What is wrong with a name that is refused.
const NOT_PLAIN: &str = "the name of a device has 1 to 64 bytes, and no control characters, invisible characters, quotation marks, \
                         backslashes, or spaces at its ends";

impl Vault {
    /// Gives a device a name, which people see beside its id; no name if that is empty. `device`: its id, as `Member` has it, or the
    /// beginning of it. The name is sealed like files: no remote can read it. Other devices have it after a sync; if two devices name
    /// one at once, the name that was pushed first stays. Gives the id; durable on return.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let place = tempfile::tempdir()?;
    /// use strongroom::{CreateOptions, Vault};
    ///
    /// # let vault = Vault::create(place.path().join("vault"), CreateOptions::new())?.vault;
    /// let members = vault.information()?.members;
    /// let this = members.iter().find(|member| member.is_this).ok_or("no device")?;
    /// vault.rename_device(&this.id, "laptop")?;
    /// let named = vault.information()?.members.into_iter().find(|member| member.is_this);
    /// assert_eq!(named.and_then(|member| member.name).as_deref(), Some("laptop"));
    /// # vault.close()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Keys` if there is no such device, or `device` means several; `File(InvalidArgument)` for a name that is longer than
    /// `DEVICE_NAME_BYTES_MAX`, or deceives; `File(NoSpace)`.
    pub fn rename_device(&self, device: &str, name: &str) -> Result<String> {
        if !name.is_empty() && !is_plain(name) {
            let why = FileError::InvalidArgument(NOT_PLAIN.into());
            return Err(Error::File(why));
        }
        let id = self.device_called(device)?;
        let attribute = attribute_of(&id);
        if name.is_empty() {
            match self.remove_xattr("/", Links::Stay, &attribute) {
                Err(Error::File(FileError::NoAttribute)) => {}
                removed => removed?,
            }
        } else {
            self.set_xattr("/", Links::Stay, &attribute, name, XattrMode::Set)?;
        }
        self.sync()?;
        Ok(id)
    }

    /// The id of the device whose id begins so.
    fn device_called(&self, device: &str) -> Result<String> {
        let wanted = device.to_ascii_lowercase();
        let members = self.information()?.members.into_iter();
        let is_it = |id: &str| id.starts_with(&wanted) || wanted.starts_with(id);
        let devices = members.filter(|member| member.is_device && is_it(&member.id));
        let mut found: Vec<String> = devices.map(|member| member.id).collect();
        match (found.pop(), found.is_empty()) {
            (Some(only), true) if !wanted.is_empty() => Ok(only),
            (Some(_), false) => {
                let why = format!("{device:?} matches several devices; give more digits of the id");
                Err(Error::Keys(why))
            }
            _ => Err(KeyError::NoSuchDevice.into()),
        }
    }
}
