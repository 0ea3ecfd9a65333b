//! The arguments of the commands about hashes of contents.

use clap::Args;
use strongroom::HashPrefix;

use crate::arguments::common::Common;
use crate::arguments::location::Location;

/// Arguments of `hash`.
#[derive(Args, Debug)]
pub(crate) struct Hash {
    /// Print SHA-256 hashes, as sha256sum does, instead of BLAKE3 hashes, as b3sum does
    #[arg(long)]
    pub(crate) sha256: bool,
    /// Also hash all files below directories
    #[arg(short, long)]
    pub(crate) recursive: bool,
    /// Hash the files of the snapshot that SELECTOR matches (see `strongroom log --help`); these hashes are not stored
    #[arg(long, value_name = "SELECTOR")]
    pub(crate) at: Option<String>,
    /// A place in a vault
    #[arg(value_name = "VAULT[:PATH]", required = true)]
    pub(crate) places: Vec<Location>,
    /// Report no progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// The options of `find` that look at content.
#[derive(Args, Debug)]
pub(crate) struct FindContent {
    /// Find only files whose BLAKE3 hash begins with PREFIX, or whose SHA-256 hash is already stored and begins with
    /// PREFIX (see --sha256)
    #[arg(long, value_name = "PREFIX", value_parser = HashPrefix::parse, conflicts_with_all = ["duplicates", "name", "kind", "min_size"])]
    pub(crate) hash: Option<HashPrefix>,
    /// PREFIX is the beginning of a SHA-256 hash; the command computes this hash for every file for which none is stored
    #[arg(long, requires = "hash")]
    pub(crate) sha256: bool,
    /// Search the snapshot that SELECTOR matches (see `strongroom log --help`)
    #[arg(long, value_name = "SELECTOR", requires = "hash")]
    pub(crate) at: Option<String>,
    /// Show groups of files with the same content, and the space that they take beyond one copy (often none, because equal blocks are
    /// stored once)
    #[arg(long, conflicts_with_all = ["name", "kind"])]
    pub(crate) duplicates: bool,
    /// Report no progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
}
