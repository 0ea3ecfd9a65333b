//! The options that many commands share: the vault, the source of its secret, and the format of results.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use strongroom::Fingerprint;

use crate::arguments::size;

/// A fingerprint as `init` prints it.
fn fingerprint(text: &str) -> Result<Fingerprint, String> {
    Fingerprint::parse(text)
        .ok_or_else(|| "a fingerprint is ten groups of four digits or letters a to f".to_owned())
}

/// Where the secret comes from. Never from an argument or the environment, which other users may see.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct SecretArguments {
    /// Read the passphrase from the first line of FILE
    #[arg(long, value_name = "FILE", group = "secret", help_heading = "Secret")]
    pub(crate) passphrase_file: Option<PathBuf>,
    /// Read the passphrase from the open file descriptor N
    #[arg(long, value_name = "N", group = "secret", help_heading = "Secret")]
    pub(crate) passphrase_fd: Option<u32>,
    /// Run COMMAND with the shell and take the first line it prints as the passphrase
    #[arg(
        long,
        value_name = "COMMAND",
        group = "secret",
        help_heading = "Secret"
    )]
    pub(crate) passphrase_command: Option<OsString>,
    /// Use at most SIZE of memory to check a passphrase (default 1G); the vault states how much each passphrase needs
    #[arg(long, value_name = "SIZE", value_parser = size::parse, help_heading = "Secret")]
    pub(crate) allow_memory: Option<u64>,
    /// Unlock with the recovery code in FILE; "-" asks for it
    #[arg(long, value_name = "FILE", group = "secret", help_heading = "Secret")]
    pub(crate) recovery_code: Option<PathBuf>,
    /// Unlock with a key file
    #[arg(long, value_name = "FILE", group = "secret", help_heading = "Secret")]
    pub(crate) key_file: Option<PathBuf>,
    /// Unlock with an age or SSH private key
    #[arg(long, value_name = "FILE", group = "secret", help_heading = "Secret")]
    pub(crate) identity: Option<PathBuf>,
    /// Use the vault only if it has this fingerprint, and do not ask at its first use whether to trust it
    #[arg(long, value_name = "FINGERPRINT", value_parser = fingerprint, help_heading = "Trust")]
    pub(crate) fingerprint: Option<Fingerprint>,
    /// Use the vault even if you have seen a newer state of it, for example after restoring a backup
    #[arg(long, help_heading = "Trust")]
    pub(crate) accept_older: bool,
}

/// `--json`, and the secret: what most commands take.
#[derive(Args, Clone, Debug)]
pub(crate) struct Common {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) secret: SecretArguments,
}

/// A whole vault.
#[derive(Args, Debug)]
pub(crate) struct Whole {
    /// The vault folder
    #[arg(value_name = "VAULT")]
    pub(crate) vault: PathBuf,
    #[command(flatten)]
    pub(crate) common: Common,
}
