//! The command line of `device`: manages the copies of a vault that may change its keys.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::arguments::common::{Common, SecretArguments};

/// Arguments of `device`.
#[derive(Args, Debug)]
pub(crate) struct Device {
    #[command(subcommand)]
    pub(crate) command: DeviceCommand,
}

/// What to do with devices.
#[derive(Debug, Subcommand)]
pub(crate) enum DeviceCommand {
    /// Lists the devices, who added them, and changes of keys or devices that were not made in this copy; needs no secret
    #[command(
        after_help = "Example:\n  strongroom device list photos\n\nWithout a secret the list comes from the header unchecked. --unlock, or an option that names the secret, verifies it and marks the device of this copy."
    )]
    List(DeviceList),
    /// Lets a new device in: shows a code for `strongroom clone --pair` there, waits for it, and asks whether to let it in
    #[command(after_help = crate::arguments::help::device_add())]
    Add(DeviceAdd),
    /// Removes a device: it can no longer change keys, and opens nothing that is stored after the removal
    #[command(
        after_help = "Example:\n  strongroom device list photos\n  strongroom device remove photos 3fa2\n\nWithout ID, or with the ID of this copy's own device, this copy gets new device keys, and its old ones stop working."
    )]
    Remove(DeviceRemove),
    /// Accepts every membership record so far, so that commands stop naming them
    #[command(
        after_help = "Example:\n  strongroom device accept photos\n\nA membership record adds or removes a key or a device. Every command names those that were not made in this copy of the vault, until they are accepted here."
    )]
    Accept(DeviceAccept),
}

/// Arguments of `device list`.
#[derive(Args, Debug)]
pub(crate) struct DeviceList {
    /// The vault folder
    #[arg(value_name = "VAULT")]
    pub(crate) vault: PathBuf,
    /// Ask for the passphrase, and verify what is shown
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
    /// The name of the remote through which the two devices speak; needed if there are several
    #[arg(value_name = "REMOTE")]
    pub(crate) remote: Option<String>,
    /// Do not draw the code for a camera
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
    /// Its id in `device list`, or the beginning of it
    #[arg(value_name = "ID")]
    pub(crate) id: Option<String>,
    #[command(flatten)]
    pub(crate) secret: SecretArguments,
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
