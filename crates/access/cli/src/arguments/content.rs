//! The arguments of the commands about hashes of contents.

use clap::Args;
use strongroom::HashPrefix;

use crate::arguments::common::Common;
use crate::arguments::location::Location;

/// Arguments of `hash`.
#[derive(Args, Debug)]
pub(crate) struct Hash {
    /// SHA-256, as sha256sum prints it, instead of BLAKE3, as b3sum does
    #[arg(long)]
    pub(crate) sha256: bool,
    /// Hash all files below directories too
    #[arg(short, long)]
    pub(crate) recursive: bool,
    /// Hash the files as they are in the snapshot that SELECTOR names; these hashes are not remembered
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

/// What of `find` is about contents.
#[derive(Args, Debug)]
pub(crate) struct FindContent {
    /// Only files whose content has a hash that begins with PREFIX: BLAKE3, or SHA-256 for files whose SHA-256 was
    /// computed earlier
    #[arg(long, value_name = "PREFIX", value_parser = HashPrefix::parse, conflicts_with_all = ["duplicates", "name", "kind", "min_size"])]
    pub(crate) hash: Option<HashPrefix>,
    /// PREFIX is the beginning of a SHA-256 hash; computes SHA-256 of every file that has none stored
    #[arg(long, requires = "hash")]
    pub(crate) sha256: bool,
    /// Look into the snapshot SELECTOR
    #[arg(long, value_name = "SELECTOR", requires = "hash")]
    pub(crate) at: Option<String>,
    /// Show groups of files with the same content, and the space in their copies
    #[arg(long, conflicts_with_all = ["name", "kind"])]
    pub(crate) duplicates: bool,
    /// Report no progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
}
