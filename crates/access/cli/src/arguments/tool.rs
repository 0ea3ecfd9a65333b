//! The command line of commands that need no secret: counters, the benchmark, completions, manual pages.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `bench`.
#[derive(Args, Debug)]
pub(crate) struct Bench {
    /// The directory to measure; the command works in a new directory in it, and removes that at the end
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// Do a tenth of the work, in one round
    #[arg(long)]
    pub(crate) quick: bool,
    /// Measure only these rows of the result
    #[arg(long, value_name = "ROW,…")]
    pub(crate) only: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `completions`.
#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: clap_complete::Shell,
}

/// Arguments of `man`.
#[derive(Args, Debug)]
pub(crate) struct Man {
    /// The folder for the pages
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
}

/// Arguments of `stats`.
#[derive(Args, Debug)]
pub(crate) struct Stats {
    /// The vault folder
    #[arg(value_name = "VAULT")]
    pub(crate) vault: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
