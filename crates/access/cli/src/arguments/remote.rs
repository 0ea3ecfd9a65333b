//! The command line of remotes: `remote`, `pull`, `push`, `sync`, `evict`, `pin`, `unpin` and `clone`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use strongroom::{CloneContent, Rates};

use crate::arguments::common::Common;
use crate::arguments::location::Location;
use crate::arguments::session::duration;
use crate::arguments::size::{self, NewQuota};

/// How fast remotes are used.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Send at most SIZE bytes a second on average, for example 500K or 2M
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(crate) limit_up: Option<u64>,
    /// Fetch at most SIZE bytes a second on average
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(crate) limit_down: Option<u64>,
}

impl Limits {
    /// Both rates.
    pub(crate) const fn rates(self) -> Rates {
        Rates {
            up: self.limit_up,
            down: self.limit_down,
        }
    }
}

/// Arguments of `remote`.
#[derive(Args, Debug)]
pub(crate) struct Remote {
    #[command(subcommand)]
    pub(crate) command: RemoteCommand,
}

/// What to do with remotes.
#[derive(Debug, Subcommand)]
pub(crate) enum RemoteCommand {
    /// Adds a remote: an empty place, or a place that already has this vault
    #[command(after_help = crate::arguments::help::remote_add())]
    Add(RemoteAdd),
    /// Lists the remotes, and for each what it has, what waits to be pushed to it, and who pushed last
    #[command(
        after_help = "The command asks no remote: it shows what this device knows. `to push` counts the files that were made, changed or moved since the last push, and the encrypted bytes on this disk that the remote lacks. `evicted` is content that the remote has and this disk does not have. `contact` is when the remote last answered this device. If nothing was new then, the shown time may be up to an hour too early; if `sync --watch` or a mount was killed, it may be even earlier. The other devices are listed with their last publications, as far as this device has read them; the times are by their own clocks. `strongroom info` shows the same.\n\nExample:\n  strongroom remote list photos"
    )]
    List(RemoteList),
    /// Removes a remote from the vault; deletes nothing at the remote
    #[command(after_help = "Example:\n  strongroom remote remove photos stick")]
    Remove(RemoteNamed),
    /// Checks whether a remote has everything that was pushed; exits with 14 if not
    #[command(
        after_help = "Example:\n  strongroom remote check photos\n  strongroom remote check --deep photos stick"
    )]
    Check(RemoteCheck),
    /// Sets whether `clone` accepts a passphrase of the vault; if so, anyone who can read a remote can try passphrases
    #[command(after_help = crate::arguments::help::remote_guessable())]
    Guessable(RemoteGuessable),
    /// Deletes unused objects from a remote, and reports how many
    #[command(after_help = crate::arguments::help::remote_prune())]
    Prune(RemotePrune),
}

/// Arguments of `remote add`.
#[derive(Args, Debug)]
pub(crate) struct RemoteAdd {
    /// The vault folder
    #[arg(value_name = "VAULT")]
    pub(crate) vault: PathBuf,
    /// A name for the remote
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// The address of the remote: folder:/PATH, https://SERVER/ACCOUNT/VAULT, s3://BUCKET/PATH, gs://BUCKET/PATH or az://CONTAINER/PATH
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    /// Never delete anything at the remote from this device; use this with credentials that may only add objects
    #[arg(long)]
    pub(crate) keep: bool,
    /// Let `clone` accept a passphrase at all remotes of the vault, as `remote guessable VAULT yes` does; then anyone who can read a
    /// remote can try passphrases
    #[arg(long)]
    pub(crate) guessable: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Arguments of `remote guessable`.
#[derive(Args, Debug)]
pub(crate) struct RemoteGuessable {
    /// The vault folder
    #[arg(value_name = "VAULT")]
    pub(crate) vault: PathBuf,
    /// Whether `clone` accepts a passphrase of the vault
    #[arg(value_name = "yes|no")]
    pub(crate) answer: Answer,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// An answer to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Answer {
    /// `clone` accepts a passphrase, and anyone who can read a remote can try passphrases
    Yes,
    /// `clone` accepts no passphrase, and remotes have nothing to try passphrases against
    No,
}

/// Arguments of `remote list`.
#[derive(Args, Debug)]
pub(crate) struct RemoteList {
    /// The vault folder
    #[arg(value_name = "VAULT")]
    pub(crate) vault: PathBuf,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Arguments of what is done with one remote.
#[derive(Args, Debug)]
pub(crate) struct RemoteNamed {
    /// The vault folder
    #[arg(value_name = "VAULT")]
    pub(crate) vault: PathBuf,
    /// The name of the remote
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Arguments of `remote check`.
#[derive(Args, Debug)]
pub(crate) struct RemoteCheck {
    /// The vault folder
    #[arg(value_name = "VAULT")]
    pub(crate) vault: PathBuf,
    /// The name of the remote; needed if there are several
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Read every byte, and compare it with what was pushed
    #[arg(long)]
    pub(crate) deep: bool,
    /// Show no progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Arguments of `remote prune`.
#[derive(Args, Debug)]
pub(crate) struct RemotePrune {
    /// The vault folder
    #[arg(value_name = "VAULT")]
    pub(crate) vault: PathBuf,
    /// The name of the remote; needed if there are several
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Delete at once, not a week later; a clone or pull that is running on another device may fail and have to be run again
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) now: bool,
    /// Delete nothing; report how many objects are unused
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Show no progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Arguments of `sync`.
#[derive(Args, Debug)]
pub(crate) struct Sync {
    #[command(flatten)]
    pub(crate) moved: Push,
    /// Run until Ctrl-C: push changes within seconds, and pull what other devices push
    #[arg(long, conflicts_with = "remote")]
    pub(crate) watch: bool,
    /// With --watch, how often to check a remote after a long time without changes: a number with s, m, h or d
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration, requires = "watch")]
    pub(crate) every: Duration,
}

/// Arguments of `pull` and `push`, and of one round of `sync`.
#[derive(Args, Debug)]
pub(crate) struct Push {
    /// The vault folder
    #[arg(value_name = "VAULT")]
    pub(crate) vault: PathBuf,
    /// The name of the remote. If the vault has several remotes, `push` and `pull` need a name; `sync` without a name uses all remotes
    #[arg(value_name = "REMOTE")]
    pub(crate) remote: Option<String>,
    #[command(flatten)]
    pub(crate) limits: Limits,
    /// Show no progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Arguments of `evict`.
#[derive(Args, Debug)]
pub(crate) struct Evict {
    /// A place in a vault
    #[arg(value_name = "VAULT[:PATH]")]
    pub(crate) place: Location,
    /// Fetch evicted content again
    #[arg(long, conflicts_with = "keep_at_most")]
    pub(crate) undo: bool,
    /// Keep at most SIZE of encrypted content on this device from now on: a number of bytes, or a number with K, M, G or T; "none" removes
    /// the limit
    #[arg(long, value_name = "SIZE", value_parser = size::parse_or_none)]
    pub(crate) keep_at_most: Option<NewQuota>,
    /// Show no progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Arguments of `pin`.
#[derive(Args, Debug)]
pub(crate) struct Pin {
    /// A place in a vault
    #[arg(value_name = "VAULT[:PATH]")]
    pub(crate) place: Location,
    /// List the pinned paths
    #[arg(long)]
    pub(crate) list: bool,
    /// Show no progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Arguments of `unpin`.
#[derive(Args, Debug)]
pub(crate) struct Unpin {
    /// A place in a vault
    #[arg(value_name = "VAULT[:PATH]")]
    pub(crate) place: Location,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Arguments of `clone`.
#[derive(Args, Debug)]
pub(crate) struct Clone {
    /// The address of the remote, as given to `remote add`
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    /// The folder to create; a folder that exists must be empty
    #[arg(value_name = "VAULT")]
    pub(crate) vault: PathBuf,
    /// Ask for the code that `strongroom device add` shows on another device; this device gets a new passphrase or key file
    #[arg(long, conflicts_with_all = ["recovery_code", "identity"])]
    pub(crate) pair: bool,
    /// Leave the content of files at the remote; reading a file fetches its content, which then stays here
    #[arg(long)]
    pub(crate) on_demand: bool,
    /// With --pair, a name for this device instead of the name of the machine; the name is not secret
    #[arg(long, value_name = "NAME", requires = "pair")]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) limits: Limits,
    /// Show no progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

impl Clone {
    /// What becomes of the content of files.
    pub(crate) const fn content(&self) -> CloneContent {
        match self.on_demand {
            true => CloneContent::AtRemote,
            false => CloneContent::Here,
        }
    }
}
