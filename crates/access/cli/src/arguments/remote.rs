//! The command line of remotes: `remote`, `pull`, `push`, `sync`, `evict` and `clone`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use strongroom::{CloneContent, Rates};

use crate::arguments::common::Common;
use crate::arguments::location::Location;
use crate::arguments::session::duration;
use crate::arguments::size;

/// How fast remotes are used.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Send at most SIZE bytes a second on average, as 500K or 2M
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
    /// Adds an empty place, or one that holds this vault already, as a remote
    #[command(after_help = crate::arguments::help::remote_add())]
    Add(RemoteAdd),
    /// Lists the remotes, and how much of the vault each one has
    #[command(after_help = "Example:\n  strongroom remote list photos")]
    List(RemoteList),
    /// Forgets a remote; what is there stays there
    #[command(after_help = "Example:\n  strongroom remote remove photos stick")]
    Remove(RemoteNamed),
    /// Looks whether a remote has everything that was pushed; exits with 14 if not
    #[command(
        after_help = "Example:\n  strongroom remote check photos\n  strongroom remote check --deep photos stick"
    )]
    Check(RemoteCheck),
    /// Says whether whoever can read a remote of the vault can try passphrases
    #[command(after_help = crate::arguments::help::remote_guessable())]
    Guessable(RemoteGuessable),
    /// Removes from a remote what does not count there any more, and says how much
    #[command(after_help = crate::arguments::help::remote_prune())]
    Prune(RemotePrune),
}

/// Arguments of `remote add`.
#[derive(Args, Debug)]
pub(crate) struct RemoteAdd {
    /// The vault folder
    #[arg(value_name = "VAULT")]
    pub(crate) vault: PathBuf,
    /// What to call it
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Where it is: folder:/PATH, https://SERVER/ACCOUNT/VAULT, s3://BUCKET/PATH, gs://BUCKET/PATH or az://CONTAINER/PATH
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    /// Never remove anything there from this device, as credentials that may only add ask for
    #[arg(long)]
    pub(crate) keep: bool,
    /// Let all remotes of the vault have what passphrases are tried against: then a passphrase brings it back from there, and whoever can
    /// read a remote can guess
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
    /// yes: remotes get what passphrases are tried against; no: they do not
    #[arg(value_name = "yes|no")]
    pub(crate) answer: Answer,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// An answer to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Answer {
    /// It is so.
    Yes,
    /// It is not.
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
    /// Remove at once what would stay some days longer: a clone or pull of another device that is under way may have to be run again
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) now: bool,
    /// Remove nothing; say how much does not count any more
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
    /// Go on until interrupted: what changes here goes up within seconds, and remotes are asked for what is new
    #[arg(long, conflicts_with = "remote")]
    pub(crate) watch: bool,
    /// With --watch, how often a remote is asked while nothing happens: a number with s, m, h or d
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration, requires = "watch")]
    pub(crate) every: Duration,
}

/// Arguments of `pull` and `push`, and of one round of `sync`.
#[derive(Args, Debug)]
pub(crate) struct Push {
    /// The vault folder
    #[arg(value_name = "VAULT")]
    pub(crate) vault: PathBuf,
    /// The name of the remote; needed if there are several
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
    /// Bring back what was let go
    #[arg(long)]
    pub(crate) undo: bool,
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
    /// List what is pinned
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
    /// Where the remote is, as it was given to `remote add`
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    /// The folder to create; it must not exist, or be empty
    #[arg(value_name = "VAULT")]
    pub(crate) vault: PathBuf,
    /// Ask for the code that `strongroom device add` shows on another device; the passphrase or key file given here is a new one, for
    /// this device
    #[arg(long, conflicts_with_all = ["recovery_code", "identity"])]
    pub(crate) pair: bool,
    /// Leave the content of files at the remote: what is read comes from there, and stays
    #[arg(long)]
    pub(crate) on_demand: bool,
    /// With --pair, what this device is called instead of the name of the machine; not secret
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
