//! The arguments of the commands about kept states.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::arguments::Common;
use crate::location::Location;

/// What a revision may be called, for `--help`.
pub(crate) const SELECTORS: &str = "A revision is named by the beginning of its id, or by a selector: t:TAG, d:DATE (the newest of that date or before), \
    e:DATE and l:DATE (earlier, later), h: (the newest), p:SELECTOR (the one before), a:DEVICE, i:ID. `/` between selectors \
    means both, `|` either. Dates are those of this machine's zone, of TZ, or with a Z behind them of UTC: 2026-11-22, 2026-11-22T14:30, yesterday, '3 days ago'. In \
    paths below /.history they are of UTC.";

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
    /// Lists the kept snapshots, oldest first
    #[command(after_help = "Example:\n  strongroom snapshot list photos --json")]
    List(SnapshotList),
    /// Removes snapshots; the space of what only they held comes back in the background
    #[command(
        after_help = format!("Example:\n  strongroom snapshot remove photos 3ebb\n\n{SELECTORS}")
    )]
    Remove(SnapshotRemove),
    /// Sets how many snapshots stay, and removes the others now and whenever a mount takes one by the clock; without
    /// numbers, shows the rule
    #[command(after_help = KEEP)]
    Keep(SnapshotKeep),
}

const KEEP: &str = "Of each of the last so many hours, days, … in which there is a snapshot, the newest stays. Snapshots with a tag, or \
    with a message of yours, always stay; those that `restore` and `put --delete` take before they begin count as scheduled. Unless a rule is set, a mount keeps 24 hourly, 30 daily and 12 monthly of those \
    that it took itself. Periods are those of UTC.\n\n\
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
    /// Take none if nothing changed since the newest
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
    /// Also show what each alone holds: what would come back if it were removed
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
    /// Which; each must mean one
    #[arg(value_name = "REVISION", required = true)]
    pub(crate) revisions: Vec<String>,
    /// Remove all that a selector means
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
    /// Only show what would go; set nothing
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
    /// Only those with the message `scheduled`, as a mount takes them; those without message and tag stay too
    #[arg(long)]
    pub(crate) scheduled_only: bool,
}

/// Arguments of `log`.
#[derive(Args, Debug)]
pub(crate) struct Log {
    /// The vault; with a path, what it was in each of them
    #[arg(value_name = "VAULT[:PATH]")]
    pub(crate) place: Location,
    /// Only those that a selector means
    #[arg(value_name = "SELECTOR")]
    pub(crate) selector: Option<String>,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Arguments of `diff`.
#[derive(Args, Debug)]
pub(crate) struct Diff {
    /// The vault; with a path, only what lies there
    #[arg(value_name = "VAULT[:PATH]")]
    pub(crate) place: Location,
    /// The state before; the newest unless it is named
    #[arg(value_name = "BEFORE", default_value = "h:")]
    pub(crate) before: String,
    /// The state after; what is there now unless it is named
    #[arg(value_name = "AFTER")]
    pub(crate) after: Option<String>,
    /// Show the lines of texts that differ
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
    /// The state that has it
    #[arg(value_name = "REVISION")]
    pub(crate) revision: String,
    /// Put it at this path of the vault instead of where it was
    #[arg(long, value_name = "PATH")]
    pub(crate) to: Option<OsString>,
    /// Take no snapshot first of what is replaced
    #[arg(long)]
    pub(crate) no_snapshot: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Arguments of `erase`.
#[derive(Args, Debug)]
pub(crate) struct Erase {
    /// The file, or the directory with all below it, as snapshots have it
    #[arg(value_name = "VAULT:PATH")]
    pub(crate) place: Location,
    /// Only say how much it would be
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}
