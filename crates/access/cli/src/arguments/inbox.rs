//! The command line of inboxes: `inbox`, and `deposit`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::arguments::common::Common;

/// Arguments of `inbox`.
#[derive(Args, Debug)]
pub(crate) struct Inbox {
    #[command(subcommand)]
    pub(crate) command: InboxCommand,
}

/// What to do with the inbox.
#[derive(Debug, Subcommand)]
pub(crate) enum InboxCommand {
    /// Makes an address of the inbox, and prints its URL: whoever has the URL can deposit files for the vault, and nothing else
    #[command(after_help = crate::arguments::help::inbox_add())]
    Add(InboxAdd),
    /// Prints the URL of an address again
    #[command(after_help = "Example:\n  strongroom inbox address photos scanner")]
    Address(InboxNamed),
    /// Lists the addresses, and the deposits that wait at the servers
    #[command(after_help = "Example:\n  strongroom inbox list photos")]
    List(InboxList),
    /// Withdraws an address: nobody can deposit with its URL any more
    #[command(after_help = crate::arguments::help::inbox_remove())]
    Remove(InboxNamed),
    /// Deletes a waiting deposit, or all that were set aside, from the server without taking them into the vault
    #[command(after_help = crate::arguments::help::inbox_discard())]
    Discard(InboxDiscard),
    /// Lets the next pull try again to open a deposit that was set aside
    #[command(
        after_help = "Example:\n  strongroom inbox retry photos 5f2c9a0113de4c7b8a90ee21c4d7b663"
    )]
    Retry(InboxDeposit),
}

/// Arguments of `inbox add`.
#[derive(Args, Debug)]
pub(crate) struct InboxAdd {
    /// The vault folder
    #[arg(value_name = "VAULT")]
    pub(crate) vault: PathBuf,
    /// A name for the address; the files that come through it have this name in an attribute
    #[arg(value_name = "LABEL")]
    pub(crate) label: String,
    /// The name of the remote, which must be a Strongroom server; needed if there are several remotes
    #[arg(value_name = "REMOTE")]
    pub(crate) remote: Option<String>,
    /// Show no progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Arguments of `inbox list`.
#[derive(Args, Debug)]
pub(crate) struct InboxList {
    /// The vault folder
    #[arg(value_name = "VAULT")]
    pub(crate) vault: PathBuf,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Arguments of what is done with one address.
#[derive(Args, Debug)]
pub(crate) struct InboxNamed {
    /// The vault folder
    #[arg(value_name = "VAULT")]
    pub(crate) vault: PathBuf,
    /// The name of the address
    #[arg(value_name = "LABEL")]
    pub(crate) label: String,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Arguments of `inbox retry`.
#[derive(Args, Debug)]
pub(crate) struct InboxDeposit {
    /// The vault folder
    #[arg(value_name = "VAULT")]
    pub(crate) vault: PathBuf,
    /// The id of the deposit, as `inbox list` shows it
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Arguments of `inbox discard`.
#[derive(Args, Debug)]
pub(crate) struct InboxDiscard {
    /// The vault folder
    #[arg(value_name = "VAULT")]
    pub(crate) vault: PathBuf,
    /// The id of the deposit, as `inbox list` shows it
    #[arg(
        value_name = "ID",
        required_unless_present_any = ["unfinished", "set_aside"],
        conflicts_with_all = ["unfinished", "set_aside"]
    )]
    pub(crate) id: Option<String>,
    /// Delete all deposits that were set aside, because they could not be opened; `inbox list` shows which these are
    #[arg(long, conflicts_with = "unfinished")]
    pub(crate) set_aside: bool,
    /// Delete parts of deposits that were begun and not finished, also of those that are on their way
    #[arg(long)]
    pub(crate) unfinished: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Arguments of `deposit`.
#[derive(Args, Debug)]
pub(crate) struct Deposit {
    /// The URL of the address, from the owner of the vault. Without its token, the token comes from STRONGROOM_TOKEN
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    /// Files to deposit; "-" is standard input, and needs --name
    #[arg(value_name = "FILE", required = true, value_hint = clap::ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,
    /// Call the file NAME in the vault; for one FILE
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<OsString>,
    /// Say who deposits: at most 128 bytes, stored in an attribute of the file. Nobody checks it
    #[arg(long, value_name = "SENDER")]
    pub(crate) from: Option<String>,
    /// Deposit each file once, however often this command is run with the same TEXT and the same name
    #[arg(long, value_name = "TEXT")]
    pub(crate) id: Option<OsString>,
    /// Show no progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
