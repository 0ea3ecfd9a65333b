//! The command line of `verify` and `repair`, and of `recover`, the earlier name of a part of `repair`.

use std::path::PathBuf;

use clap::Args;

use crate::arguments::common::Common;

/// Arguments of `verify`.
#[derive(Args, Debug)]
pub(crate) struct Verify {
    /// The vault folder
    #[arg(value_name = "VAULT")]
    pub(crate) vault: PathBuf,
    /// Only compare the tables of the database with each other; reads no content
    #[arg(long, conflicts_with_all = ["deep", "resume", "quiet"])]
    pub(crate) structure: bool,
    /// Also recompute each block's id from its content, and check the trees and signatures of all snapshots
    #[arg(long)]
    pub(crate) deep: bool,
    /// Continue where an earlier verification of the same depth was stopped
    #[arg(long)]
    pub(crate) resume: bool,
    /// Report no progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Arguments of `recover`.
#[derive(Args, Debug)]
pub(crate) struct Recover {
    /// The vault folder
    #[arg(value_name = "VAULT")]
    pub(crate) vault: PathBuf,
    /// Rebuild the database even if it is sound: useful if, for example, it is older than the rest of the folder
    #[arg(long)]
    pub(crate) rebuild: bool,
    /// Report no progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Arguments of `repair`.
#[derive(Args, Debug)]
pub(crate) struct Repair {
    /// The vault folder
    #[arg(value_name = "VAULT")]
    pub(crate) vault: PathBuf,
    /// Only show what would be done
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// Rebuild a lost database without asking
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Rebuild the database even if it is sound: useful if, for example, it is older than the rest of the folder
    #[arg(long)]
    pub(crate) rebuild: bool,
    /// Fetch damaged or lost content only from this remote, instead of from all remotes of the vault
    #[arg(long, value_name = "NAME", conflicts_with = "no_remote")]
    pub(crate) remote: Option<String>,
    /// Fetch nothing from remotes
    #[arg(long)]
    pub(crate) no_remote: bool,
    /// Report no progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}
