//! The command line of `conflicts`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::arguments::common::Common;
use crate::arguments::location::Location;

/// Arguments of `conflicts`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Conflicts {
    #[command(subcommand)]
    pub(crate) command: Option<ConflictsCommand>,
    /// The vault folder
    #[arg(value_name = "VAULT", required = true)]
    pub(crate) vault: Option<PathBuf>,
    /// Show no progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// What to do with conflicts.
#[derive(Debug, Subcommand)]
pub(crate) enum ConflictsCommand {
    /// Resolves conflicts: keeps the conflict copy, the published file, or both
    #[command(after_help = crate::arguments::help::conflicts_keep())]
    Keep(KeepConflicts),
}

/// Which of the two stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Which {
    /// Keep the conflict copy: it replaces the published file, the one that was pushed first and kept the name
    Mine,
    /// Keep the published file, and remove the conflict copy
    Theirs,
    /// Keep both; the conflict copy gets an ordinary name
    Both,
}

/// Arguments of `conflicts keep`.
#[derive(Args, Debug)]
pub(crate) struct KeepConflicts {
    /// Which of the two files to keep
    #[arg(value_name = "WHICH")]
    pub(crate) which: Which,
    /// The conflict copies, as `strongroom conflicts` lists them
    #[arg(value_name = "VAULT:PATH", required = true)]
    pub(crate) places: Vec<Location>,
    #[command(flatten)]
    pub(crate) common: Common,
}
