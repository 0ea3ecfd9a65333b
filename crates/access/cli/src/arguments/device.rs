//! The command line of `device`: manages the copies of a vault with the right to change the vault's keys.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::arguments::common::{Common, SecretArguments, Whole};

/// Arguments of `device`.
#[derive(Args, Debug)]
pub(crate) struct Device {
    #[command(subcommand)]
    pub(crate) command: DeviceCommand,
}

/// What to do with devices.
#[derive(Debug, Subcommand)]
pub(crate) enum DeviceCommand {
    /// Lists the devices and who added each; needs no secret
    #[command(
        after_help = "Example:\n  strongroom device list photos\n\nWith --unlock, with an option for the secret, or if a process has the vault open, the list is verified, and the device of this copy is marked. The command then also lists the changes of keys and devices that another copy of the vault made, until you accept them with `strongroom device accept`. Otherwise the list is read from the header (vault.json), is not verified, and has no names."
    )]
    List(DeviceList),
    /// Adds a new device: shows a code, which you type into `strongroom clone --pair` on the new device; waits, and asks before adding it
    #[command(after_help = crate::arguments::help::device_add())]
    Add(DeviceAdd),
    /// Removes a device: it can no longer change keys, and its device keys open nothing that is stored from now on
    #[command(after_help = crate::arguments::help::device_remove())]
    Remove(DeviceRemove),
    /// Gives a device a name, which is shown beside its id
    #[command(
        after_help = "The name is encrypted like files, so no remote can read it. Other devices show it after a sync. If two devices rename one device at the same time, the name that was pushed first stays. A name has at most 64 bytes. With an empty NAME the device has no name any more. A device that was removed, or that got new device keys, has no name either. Conflict copies of files have the id of the device in their names, never its name.\n\nExample:\n  strongroom device rename photos 3fa2 \"Anna's laptop\""
    )]
    Rename(DeviceRename),
    /// Shows a short code for each remote; if another device shows the same code, the remote has shown both the same history
    #[command(after_help = crate::arguments::help::device_compare())]
    Compare(Whole),
    /// Accepts all changes of keys and devices so far, so that commands no longer report them
    #[command(
        after_help = "Example:\n  strongroom device accept photos\n\nCommands that open the vault report changes of keys and devices that another copy of the vault made, until you accept them in this copy. These commands do not report them: `mount`, `unlock`, `key add`, `key remove`, `key change`, `key rotate` (without --status), `device remove` and `remote guessable`."
    )]
    Accept(DeviceAccept),
}

/// Arguments of `device list`.
#[derive(Args, Debug)]
pub(crate) struct DeviceList {
    /// The vault folder
    #[arg(value_name = "VAULT")]
    pub(crate) vault: PathBuf,
    /// Verify what is shown; asks for the passphrase, unless a process has the vault open
    #[arg(long)]
    pub(crate) unlock: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Arguments of `device add`.
#[derive(Args, Debug)]
pub(crate) struct DeviceAdd {
    /// The vault folder
    #[arg(value_name = "VAULT")]
    pub(crate) vault: PathBuf,
    /// The name of the remote through which the devices exchange messages; needed if there are several
    #[arg(value_name = "REMOTE")]
    pub(crate) remote: Option<String>,
    /// Do not draw a QR code
    #[arg(long)]
    pub(crate) no_qr: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Arguments of `device remove`.
#[derive(Args, Debug)]
pub(crate) struct DeviceRemove {
    /// The vault folder
    #[arg(value_name = "VAULT")]
    pub(crate) vault: PathBuf,
    /// The id of the device in `device list`, or the beginning of the id
    #[arg(value_name = "ID")]
    pub(crate) id: Option<String>,
    #[command(flatten)]
    pub(crate) secret: SecretArguments,
}

/// Arguments of `device rename`.
#[derive(Args, Debug)]
pub(crate) struct DeviceRename {
    /// The vault folder
    #[arg(value_name = "VAULT")]
    pub(crate) vault: PathBuf,
    /// The id of the device in `device list`, or the beginning of the id
    #[arg(value_name = "DEVICE")]
    pub(crate) id: String,
    /// The name of the device
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Arguments of `device accept`.
#[derive(Args, Debug)]
pub(crate) struct DeviceAccept {
    /// The vault folder
    #[arg(value_name = "VAULT")]
    pub(crate) vault: PathBuf,
    #[command(flatten)]
    pub(crate) secret: SecretArguments,
}
