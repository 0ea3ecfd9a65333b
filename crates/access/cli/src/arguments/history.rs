//! The arguments of the commands about snapshots.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::arguments::common::Common;
use crate::arguments::location::Location;

/// How a snapshot is named, for `--help`.
pub(crate) const SELECTORS: &str = "Name a snapshot by the beginning of its id, or by a selector: t:TAG, d:DATE (the newest on or before DATE), \
    e:DATE (earlier than DATE), l:DATE (later than DATE), h: (the newest), p:SELECTOR (the snapshot before the selected one), a:DEVICE (taken by \
    DEVICE), i:ID (its id begins with ID). `/` between selectors means both, `|` means either. Examples of dates: 2026-11-22, 2026-11-22T14:30, \
    yesterday and '3 days ago'. Dates are in the time zone of TZ or of this machine; dates with a Z at the end, and in /.history, are in UTC.";

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
        after_help = "Example:\n  strongroom snapshot create photos -m 'before sorting' --tag unsorted"
    )]
    Create(SnapshotCreate),
    /// Lists the snapshots, oldest first
    #[command(after_help = "Example:\n  strongroom snapshot list photos --json")]
    List(SnapshotList),
    /// Removes snapshots; the space that only they used is reclaimed in the background
    #[command(
        after_help = format!("Example:\n  strongroom snapshot remove photos 3ebb\n\n{SELECTORS}")
    )]
    Remove(SnapshotRemove),
    /// Shows or sets the rule for which snapshots to keep; all others are removed when you set it, and then whenever a
    /// scheduled snapshot is due
    #[command(after_help = KEEP)]
    Keep(SnapshotKeep),
}

const KEEP: &str = "In each of the last N hours (days, …) that have a snapshot, the newest snapshot stays. Snapshots with a tag, or with \
    a message that you gave, always stay. A mount and a session that `unlock` began take scheduled snapshots; so do commands that \
    change files while no other process has the vault open. A snapshot that `restore` takes before it replaces files, or `put --delete` \
    before its first removal, counts as scheduled too. The default rule keeps 24 hourly, 30 daily and 12 monthly scheduled snapshots; \
    a clone, and a vault whose database was rebuilt, keep all snapshots until you set a rule. In a vault with remotes, other devices use \
    the rule too once they have synced. If you set a rule there too, that device removes a snapshot only if both rules allow it. Hours and days \
    are in UTC.\n\n\
    Example:\n  strongroom snapshot keep photos --hourly 24 --daily 30 --monthly 12 --dry-run\n  strongroom snapshot keep photos --everything";

/// Arguments of `snapshot create`.
#[derive(Args, Debug)]
pub(crate) struct SnapshotCreate {
    /// The vault folder
    #[arg(value_name = "VAULT")]
    pub(crate) vault: PathBuf,
    /// What the snapshot is for
    #[arg(short, long, value_name = "TEXT", default_value = "")]
    pub(crate) message: String,
    /// A name for the snapshot; may be given more than once
    #[arg(short, long, value_name = "TAG")]
    pub(crate) tag: Vec<String>,
    /// Take no snapshot if nothing changed since the newest one. With --message or --tag, a newest snapshot that has neither
    /// does not count
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
    /// Also show how much space removing each snapshot would free
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
    /// The snapshots, by id or selector; without --all, each argument must match exactly one snapshot
    #[arg(value_name = "SNAPSHOT", required = true)]
    pub(crate) revisions: Vec<String>,
    /// Remove all snapshots that the selectors match
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
    /// Only show which snapshots would be removed, and set no rule
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// How many stay.
#[derive(Args, Debug)]
pub(crate) struct RuleArguments {
    /// Keep the last N snapshots, whenever they were taken
    #[arg(long, value_name = "N")]
    pub(crate) last: Option<u32>,
    /// Keep one snapshot for each of N hours
    #[arg(long, value_name = "N")]
    pub(crate) hourly: Option<u32>,
    /// Keep one snapshot for each of N days
    #[arg(long, value_name = "N")]
    pub(crate) daily: Option<u32>,
    /// Keep one snapshot for each of N weeks, which begin on Monday
    #[arg(long, value_name = "N")]
    pub(crate) weekly: Option<u32>,
    /// Keep one snapshot for each of N months
    #[arg(long, value_name = "N")]
    pub(crate) monthly: Option<u32>,
    /// Keep one snapshot for each of N years
    #[arg(long, value_name = "N")]
    pub(crate) yearly: Option<u32>,
    /// Keep all snapshots
    #[arg(long, conflicts_with_all = ["last", "hourly", "daily", "weekly", "monthly", "yearly"])]
    pub(crate) everything: bool,
    /// Apply the rule only to automatic snapshots: scheduled ones, and those that `restore` and `put --delete` take
    #[arg(long)]
    pub(crate) scheduled_only: bool,
}

/// Arguments of `log`.
#[derive(Args, Debug)]
pub(crate) struct Log {
    /// The vault, or one path in it
    #[arg(value_name = "VAULT[:PATH]")]
    pub(crate) place: Location,
    /// List only snapshots that SELECTOR matches
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
    /// What to restore; without a path, everything
    #[arg(value_name = "VAULT[:PATH]")]
    pub(crate) place: Location,
    /// The snapshot to restore from
    #[arg(value_name = "SNAPSHOT")]
    pub(crate) revision: String,
    /// Restore it to this path of the vault instead of its old path
    #[arg(long, value_name = "PATH")]
    pub(crate) to: Option<OsString>,
    /// Do not take a snapshot of what is replaced
    #[arg(long)]
    pub(crate) no_snapshot: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Arguments of `erase`.
#[derive(Args, Debug)]
pub(crate) struct Erase {
    /// The path of the file or directory in the snapshots; a directory includes all files below it
    #[arg(value_name = "VAULT:PATH")]
    pub(crate) place: Location,
    /// Only show how much content would be erased
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}
