//! The command line of `put`, `get`, `cp` and `mv`.
//!
//! Sources and target are one list, with the target last, so that options may be anywhere between them.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::Args;

use crate::arguments::common::SecretArguments;
use crate::arguments::location::Location;
use crate::arguments::pattern::Exclude;
use crate::arguments::size;
use crate::terminal::failure::{Failure, Result};

/// Which parts of a tree `put` and `get` copy, and how they report it.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Copying {
    /// Skip files and directories that match PATTERN; may be given more than once. As in .gitignore, a pattern without a slash matches
    /// names at any depth; with a slash, it matches paths below each source. *, ? and [a-z] match within one name. ** matches any
    /// number of directories. A pattern with a slash at its end matches only directories
    #[arg(long, value_name = "PATTERN", value_parser = Exclude::parse)]
    pub(crate) exclude: Vec<Exclude>,
    /// Compare the content of files that look unchanged
    #[arg(long)]
    pub(crate) checksum: bool,
    /// In copied directories, delete what the source does not have, except what --exclude matches
    #[arg(long)]
    pub(crate) delete: bool,
    /// Make yourself the owner of the copies; without this option, copies by root keep owner and group
    #[arg(long)]
    pub(crate) no_owner: bool,
    /// Print as JSON what was copied, and what was skipped and why
    #[arg(long)]
    pub(crate) json: bool,
    /// Report no progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) secret: SecretArguments,
}

/// Arguments of `put`.
#[derive(Args, Debug)]
pub(crate) struct Put {
    /// Files and directories to copy ("-" is standard input), then the target: a directory in the vault, or the new name
    #[arg(value_name = "LOCAL… VAULT[:PATH]", required = true, value_hint = clap::ValueHint::AnyPath)]
    operands: Vec<OsString>,
    #[command(flatten)]
    pub(crate) copying: Copying,
}

impl Put {
    /// The sources, and the target.
    pub(crate) fn places(&self) -> Result<(Vec<PathBuf>, Location)> {
        let (sources, target) = split(&self.operands)?;
        let sources = sources.iter().map(PathBuf::from).collect();
        Ok((sources, Location::parse(target)))
    }
}

/// Arguments of `get`.
#[derive(Args, Debug)]
pub(crate) struct Get {
    /// Files and directories to copy, then the target: a local directory, the new name, or "-" for standard output
    #[arg(value_name = "VAULT:PATH… LOCAL", required = true, value_hint = clap::ValueHint::AnyPath)]
    operands: Vec<OsString>,
    /// Also copy set-user-id and set-group-id bits, capabilities, trusted attributes and devices, which can give rights
    #[arg(long)]
    pub(crate) special: bool,
    /// Fetch at most SIZE bytes a second from remotes on average, for example 500K or 2M
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(crate) limit_down: Option<u64>,
    #[command(flatten)]
    pub(crate) copying: Copying,
}

impl Get {
    /// The sources, and the target.
    pub(crate) fn places(&self) -> Result<(Vec<Location>, PathBuf)> {
        let (sources, target) = split(&self.operands)?;
        let sources = sources.iter().map(|one| Location::parse(one)).collect();
        Ok((sources, PathBuf::from(target)))
    }
}

/// Arguments of `cp` and `mv`.
#[derive(Args, Debug)]
pub(crate) struct Transfer {
    /// Paths to copy or move, then the target in the same vault: a directory or a new name. For the target, ":PATH" is enough
    #[arg(value_name = "VAULT:PATH… [VAULT]:PATH", required = true)]
    operands: Vec<OsString>,
    /// Do not replace existing files
    #[arg(short, long)]
    pub(crate) no_replace: bool,
    #[command(flatten)]
    pub(crate) secret: SecretArguments,
}

impl Transfer {
    /// The sources, and the target.
    pub(crate) fn places(&self) -> Result<(Vec<Location>, Location)> {
        let (sources, target) = split(&self.operands)?;
        let sources = sources.iter().map(|one| Location::parse(one)).collect();
        Ok((sources, Location::parse(target)))
    }
}

/// The last operand is the target.
fn split(operands: &[OsString]) -> Result<(&[OsString], &OsStr)> {
    match operands.split_last() {
        Some((target, sources)) if !sources.is_empty() => Ok((sources, target)),
        _ => Err(Failure::usage(
            "two arguments are needed: what to copy, then where to copy it; see --help",
        )),
    }
}
