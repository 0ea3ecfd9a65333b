//! The command line of backups.

use std::path::PathBuf;

use clap::Args;

use crate::arguments::common::Common;

/// Arguments of `backup`.
#[derive(Args, Debug)]
pub(crate) struct Backup {
    /// The vault folder
    #[arg(value_name = "VAULT")]
    pub(crate) vault: PathBuf,
    /// The folder of the backup: a new folder, or an earlier backup of this vault
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
    /// Show no progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}
