//! The arguments of the commands about snapshots.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::arguments::common::Common;
use crate::arguments::location::Location;

/// How a snapshot is named, for `--help`.
pub(crate) const SELECTORS: &str = "A snapshot is named by the beginning of its id, or by a selector: t:TAG, d:DATE (the newest of that date or before), \
    e:DATE and l:DATE (earlier, later), h: (the newest), p:SELECTOR (the snapshot before the selected one), a:DEVICE (taken by \
    that device), i:ID (its id begins so). `/` between selectors means both, `|` means either. Dates are 2026-11-22, \
    2026-11-22T14:30, yesterday or '3 days ago', in the zone of TZ or of this machine; with a Z at the end, and in paths below /.history, they are in UTC.";

/// Arguments of `snapshot`.
#[derive(Args, Debug)]
pub(crate) struct Snapshot {
    #[command(subcommand)]
    pub(crate) command: SnapshotCommand,
}

/// What to do with snapshots.
#[derive(Debug, Subcommand)]
pub(crate) enum SnapshotCommand {
    /// Takes a snapshot of the whole vault, mounted or not; prints its id
    #[command(
        after_help = "Example:\n  strongroom snapshot create photos -m 'before sorting' --tag sorted"
    )]
    Create(SnapshotCreate),
    /// Lists the snapshots, oldest first
    #[command(after_help = "Example:\n  strongroom snapshot list photos --json")]
    List(SnapshotList),
    /// Removes snapshots; the space that only they held is reclaimed in the background
    #[command(
        after_help = format!("Example:\n  strongroom snapshot remove photos 3ebb\n\n{SELECTORS}")
    )]
    Remove(SnapshotRemove),
    /// Sets how many snapshots stay, and removes the others, now and whenever a mount takes one; without numbers,
    /// shows the rule
    #[command(after_help = KEEP)]
    Keep(SnapshotKeep),
}

const KEEP: &str = "For each of the last N hours (days, …) in which there is a snapshot, the newest snapshot of that hour stays. Snapshots \
    with a tag or with a message of yours always stay. The rule treats snapshots that `restore` and `put --delete` take first \
    like scheduled ones. Unless a rule is set, a mount keeps 24 hourly, 30 daily and 12 monthly of the scheduled ones. Hours \
    and days are those of UTC.\n\n\
    Example:\n  strongroom snapshot keep photos --hourly 24 --daily 30 --monthly 12 --dry-run\n  strongroom snapshot keep photos --everything";

/// Arguments of `snapshot create`.
#[derive(Args, Debug)]
pub(crate) struct SnapshotCreate {
    /// The vault folder
    #[arg(value_name = "VAULT")]
    pub(crate) vault: PathBuf,
    /// What it is for
    #[arg(short, long, value_name = "TEXT", default_value = "")]
    pub(crate) message: String,
    /// A name for it; may be given more than once
    #[arg(short, long, value_name = "TAG")]
    pub(crate) tag: Vec<String>,
    /// Take none if nothing changed since the newest one
    #[arg(long)]
    pub(crate) if_changed: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Arguments of `snapshot list`.
#[derive(Args, Debug)]
pub(crate) struct SnapshotList {
    /// The vault folder
    #[arg(value_name = "VAULT")]
    pub(crate) vault: PathBuf,
    /// Also show the space that each alone holds, which removing it would reclaim
    #[arg(short, long)]
    pub(crate) size: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Arguments of `snapshot remove`.
#[derive(Args, Debug)]
pub(crate) struct SnapshotRemove {
    /// The vault folder
    #[arg(value_name = "VAULT")]
    pub(crate) vault: PathBuf,
    /// Which snapshots, by id or selector; each argument must match exactly one
    #[arg(value_name = "SNAPSHOT", required = true)]
    pub(crate) revisions: Vec<String>,
    /// Remove all that the selector matches
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Arguments of `snapshot keep`.
#[derive(Args, Debug)]
pub(crate) struct SnapshotKeep {
    /// The vault folder
    #[arg(value_name = "VAULT")]
    pub(crate) vault: PathBuf,
    #[command(flatten)]
    pub(crate) rule: RuleArguments,
    /// Only show what would be removed, and set nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// How many stay.
#[derive(Args, Debug)]
pub(crate) struct RuleArguments {
    /// The last N, whenever they were taken
    #[arg(long, value_name = "N")]
    pub(crate) last: Option<u32>,
    /// One for each of N hours
    #[arg(long, value_name = "N")]
    pub(crate) hourly: Option<u32>,
    /// One for each of N days
    #[arg(long, value_name = "N")]
    pub(crate) daily: Option<u32>,
    /// One for each of N weeks, which begin on Monday
    #[arg(long, value_name = "N")]
    pub(crate) weekly: Option<u32>,
    /// One for each of N months
    #[arg(long, value_name = "N")]
    pub(crate) monthly: Option<u32>,
    /// One for each of N years
    #[arg(long, value_name = "N")]
    pub(crate) yearly: Option<u32>,
    /// All of them
    #[arg(long, conflicts_with_all = ["last", "hourly", "daily", "weekly", "monthly", "yearly"])]
    pub(crate) everything: bool,
    /// Apply the rule only to automatic snapshots: of a mount's schedule, and before `restore` and `put --delete`
    #[arg(long)]
    pub(crate) scheduled_only: bool,
}

/// Arguments of `log`.
#[derive(Args, Debug)]
pub(crate) struct Log {
    /// The vault, or one path in it
    #[arg(value_name = "VAULT[:PATH]")]
    pub(crate) place: Location,
    /// Only snapshots that this selector matches
    #[arg(value_name = "SELECTOR")]
    pub(crate) selector: Option<String>,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Arguments of `diff`.
#[derive(Args, Debug)]
pub(crate) struct Diff {
    /// The vault, or one path in it
    #[arg(value_name = "VAULT[:PATH]")]
    pub(crate) place: Location,
    /// The earlier side of the comparison; without it, the newest snapshot
    #[arg(value_name = "BEFORE", default_value = "h:")]
    pub(crate) before: String,
    /// The later side; without it, the vault as it is now
    #[arg(value_name = "AFTER")]
    pub(crate) after: Option<String>,
    /// Show the lines that differ
    #[arg(short, long, conflicts_with_all = ["stat", "json"])]
    pub(crate) patch: bool,
    /// Count the lines that differ
    #[arg(long, conflicts_with = "json")]
    pub(crate) stat: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Arguments of `restore`.
#[derive(Args, Debug)]
pub(crate) struct Restore {
    /// What to bring back; without a path, everything
    #[arg(value_name = "VAULT[:PATH]")]
    pub(crate) place: Location,
    /// The snapshot that has it
    #[arg(value_name = "SNAPSHOT")]
    pub(crate) revision: String,
    /// Put it at this path of the vault instead of where it was
    #[arg(long, value_name = "PATH")]
    pub(crate) to: Option<OsString>,
    /// Do not take a snapshot before replacing anything
    #[arg(long)]
    pub(crate) no_snapshot: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Arguments of `erase`.
#[derive(Args, Debug)]
pub(crate) struct Erase {
    /// The file, or the directory with all below it: its path in the snapshots
    #[arg(value_name = "VAULT:PATH")]
    pub(crate) place: Location,
    /// Only show how much it would be
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}
