//! The command line of `key`: the ways to unlock a vault.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::arguments::common::{Common, SecretArguments};
use crate::arguments::help;

/// Arguments of `key`.
#[derive(Args, Debug)]
pub(crate) struct Key {
    #[command(subcommand)]
    pub(crate) command: KeyCommand,
}

/// What to do with keys.
#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Adds a way to unlock the vault: a passphrase, unless an option chooses another
    #[command(
        after_help = "Example:\n  strongroom key add photos\n  strongroom key add photos --new-key-file usb/photos.key"
    )]
    Add(KeyAdd),
    /// Lists the ways to unlock the vault; needs no secret
    #[command(after_help = "Example:\n  strongroom key list photos")]
    List(KeyList),
    /// Removes a way to unlock the vault: its secret no longer opens the vault, nor anything stored from now on
    #[command(after_help = help::key_remove())]
    Remove(KeyRemove),
    /// Replaces the passphrase that you unlock with
    #[command(after_help = "Example:\n  strongroom key change photos")]
    Change(KeyChange),
    /// Encrypts everything again under new keys, and deletes the old keys; the vault may be mounted
    #[command(after_help = help::rotate())]
    Rotate(KeyRotate),
}

/// Arguments of `key add`.
#[derive(Args, Debug)]
pub(crate) struct KeyAdd {
    /// The vault folder
    #[arg(value_name = "VAULT")]
    pub(crate) vault: PathBuf,
    /// A name for the new key; `key list` shows it to anyone who can read the vault folder
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) label: String,
    /// Add a recovery code, and print it once
    #[arg(long, group = "new")]
    pub(crate) new_recovery_code: bool,
    /// Add a key file, and create it at FILE
    #[arg(long, value_name = "FILE", group = "new")]
    pub(crate) new_key_file: Option<PathBuf>,
    /// Add an age or SSH public key
    #[arg(long, value_name = "RECIPIENT", group = "new")]
    pub(crate) recipient: Option<String>,
    /// Read the new passphrase from the first line of FILE
    #[arg(long, value_name = "FILE", group = "new")]
    pub(crate) new_passphrase_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Arguments of `key list`.
#[derive(Args, Debug)]
pub(crate) struct KeyList {
    /// The vault folder
    #[arg(value_name = "VAULT")]
    pub(crate) vault: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `key remove`.
#[derive(Args, Debug)]
pub(crate) struct KeyRemove {
    /// The vault folder
    #[arg(value_name = "VAULT")]
    pub(crate) vault: PathBuf,
    /// The id of the key in `key list`, or the beginning of the id
    #[arg(value_name = "KEY")]
    pub(crate) key: String,
    #[command(flatten)]
    pub(crate) secret: SecretArguments,
}

/// Arguments of `key change`.
#[derive(Args, Debug)]
pub(crate) struct KeyChange {
    /// The vault folder
    #[arg(value_name = "VAULT")]
    pub(crate) vault: PathBuf,
    /// Read the new passphrase from the first line of FILE
    #[arg(long, value_name = "FILE")]
    pub(crate) new_passphrase_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) secret: SecretArguments,
}

/// Arguments of `key rotate`.
#[derive(Args, Debug)]
pub(crate) struct KeyRotate {
    /// The vault folder
    #[arg(value_name = "VAULT")]
    pub(crate) vault: PathBuf,
    /// Return only when the old keys are deleted, not as soon as the new keys are in use
    #[arg(long)]
    pub(crate) wait: bool,
    /// Only show the progress of a rotation
    #[arg(long, conflicts_with_all = ["wait", "again"])]
    pub(crate) status: bool,
    /// Start a new rotation even if one is running; everything is then encrypted again from the start
    #[arg(long)]
    pub(crate) again: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}
