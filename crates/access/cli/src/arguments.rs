//! The command line: parsing, `--help`, completions and manual pages all come from these types.

pub(crate) mod backup;
pub(crate) mod common;
pub(crate) mod conflicts;
pub(crate) mod content;
pub(crate) mod copy;
pub(crate) mod damage;
pub(crate) mod device;
pub(crate) mod help;
pub(crate) mod history;
pub(crate) mod inbox;
pub(crate) mod key;
pub(crate) mod location;
pub(crate) mod mount_helper;
pub(crate) mod pattern;
pub(crate) mod remote;
pub(crate) mod serve;
pub(crate) mod session;
pub(crate) mod size;
pub(crate) mod tool;
pub(crate) mod tune;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::arguments::backup::Backup;
use crate::arguments::common::{Common, SecretArguments, Whole};
use crate::arguments::conflicts::Conflicts;
use crate::arguments::content::{FindContent, Hash};
use crate::arguments::copy::{Get, Put, Transfer};
use crate::arguments::damage::{Recover, Repair, Verify};
use crate::arguments::device::Device;
use crate::arguments::history::{Diff, Erase, Log, Restore, SELECTORS, Snapshot};
use crate::arguments::inbox::{Deposit, Inbox};
use crate::arguments::key::Key;
use crate::arguments::location::Location;
use crate::arguments::remote::{Clone, Evict, Limits, Pin, Push, Remote, Sync, Unpin};
use crate::arguments::serve::Serve;
use crate::arguments::session::{Lock, Unlock};
use crate::arguments::size::NewQuota;
use crate::arguments::tool::{Bench, Completions, Man, Stats};
use crate::arguments::tune::Tune;

/// An end-to-end encrypted file system in a folder.
#[derive(Debug, Parser)]
#[command(
    name = "strongroom",
    version,
    max_term_width = 100,
    disable_help_subcommand = true
)]
#[command(after_help = crate::terminal::exit_code::ExitCode::table())]
#[command(after_long_help = help::all())]
pub(crate) struct Arguments {
    /// Log to standard error; -vv logs more
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Creates a vault and prints its recovery code once
    #[command(
        after_help = "Example:\n  strongroom init photos\n  strongroom init --key-file usb/photos.key photos"
    )]
    Init(Init),
    /// Mounts a vault as a drive, in the background unless -f is given
    #[command(after_help = help::mount())]
    Mount(Mount),
    /// Unmounts a vault; returns when everything is stored and the process of the mount has ended
    #[command(after_help = help::umount())]
    Umount(Umount),
    /// Keeps a vault open in the background, so that most commands need no passphrase or key for a while
    #[command(after_help = help::unlock())]
    Unlock(Unlock),
    /// Locks a vault again after `unlock`; returns when everything is stored and no process has the keys
    #[command(after_help = "Example:\n  strongroom lock photos")]
    Lock(Lock),
    /// Lists directories
    #[command(after_help = help::ls())]
    Ls(Ls),
    /// Shows a directory tree
    #[command(after_help = "Example:\n  strongroom tree --depth 2 photos:/2026")]
    Tree(Tree),
    /// Writes files to standard output
    #[command(after_help = "Example:\n  strongroom cat photos:/notes.txt | less")]
    Cat(Paths),
    /// Shows the attributes of files and directories
    #[command(after_help = "Example:\n  strongroom stat photos:/2026/holiday.jpg")]
    Stat(Stat),
    /// Copies files and directories into a vault
    #[command(after_help = help::put(), override_usage = "strongroom put [OPTIONS] LOCAL... VAULT[:PATH]")]
    Put(Put),
    /// Copies files and directories out of a vault
    #[command(after_help = help::get(), override_usage = "strongroom get [OPTIONS] VAULT:PATH... LOCAL")]
    Get(Get),
    /// Copies inside a vault; a copy shares the stored content of its original, so it takes no space
    #[command(
        after_help = "Example:\n  strongroom cp photos:/2026 :/2026-backup",
        override_usage = "strongroom cp [OPTIONS] VAULT:PATH... [VAULT]:PATH"
    )]
    Cp(Transfer),
    /// Moves or renames inside a vault
    #[command(
        after_help = "Example:\n  strongroom mv photos:/draft.txt :/final.txt",
        override_usage = "strongroom mv [OPTIONS] VAULT:PATH... [VAULT]:PATH"
    )]
    Mv(Transfer),
    /// Removes files, and with -r directories
    #[command(
        after_help = "Example:\n  strongroom rm photos:/old.txt\n  strongroom rm -r photos:/2019"
    )]
    Rm(Rm),
    /// Makes directories
    #[command(after_help = "Example:\n  strongroom mkdir -p photos:/2026/may")]
    Mkdir(Mkdir),
    /// Finds files by name, kind, size or content
    #[command(after_help = help::find())]
    Find(Find),
    /// Prints the hashes of files, as b3sum and sha256sum do
    #[command(after_help = help::hash())]
    Hash(Hash),
    /// Shows the fingerprint, algorithms and keys of a vault, and which process has it open; needs no secret
    #[command(after_help = help::info())]
    Info(Info),
    /// Shows how full the disk is, how much space files take, and how much removing each snapshot would free
    #[command(after_help = "Example:\n  strongroom df photos")]
    Df(Whole),
    /// Shows or sets how much space a vault may take
    #[command(after_help = help::quota())]
    Quota(Quota),
    /// Shows or sets whether new content is compressed before it is encrypted
    #[command(after_help = help::compression())]
    Compression(Compression),
    /// Shows counters of a vault that is open in another process; needs no secret
    #[command(after_help = help::stats())]
    Stats(Stats),
    /// Adds, lists, changes and removes the ways to unlock a vault
    #[command(
        after_help = "Example:\n  strongroom key list photos\n  strongroom key add photos --recipient 'age1…'"
    )]
    Key(Key),
    /// Adds, lists and removes devices. A device is a copy of the vault with the right to change the keys of the vault. Removing a
    /// device ends that right; it does not delete the copy
    #[command(
        after_help = "Example:\n  strongroom device list photos\n  strongroom device add photos"
    )]
    Device(Device),
    /// Copies a vault into a folder; the copy opens with the same keys. The vault may be in use
    #[command(after_help = help::backup())]
    Backup(Backup),
    /// Adds, lists, removes and checks remotes: places outside the vault folder (another disk, a server, an object store) that store
    /// the encrypted vault
    #[command(
        after_help = "Example:\n  strongroom remote add photos stick folder:/media/stick/photos\n  strongroom push photos stick"
    )]
    Remote(Remote),
    /// Runs a server that stores encrypted vaults for other devices and people, until Ctrl-C
    #[command(after_help = help::serve())]
    Serve(Serve),
    /// Adds, lists and removes addresses of the inbox: others can deposit files for the vault with them, and cannot read anything
    #[command(
        after_help = "Example:\n  strongroom inbox add photos scanner\n  strongroom inbox list photos"
    )]
    Inbox(Inbox),
    /// Deposits files in the inbox of a vault of somebody else: encrypts them for the vault and sends them to its server; needs the
    /// URL of an address, and no secret of the vault
    #[command(after_help = help::deposit())]
    Deposit(Deposit),
    /// Fetches the changes that other devices pushed to a remote, and joins them with the changes of this device
    #[command(after_help = help::pull())]
    Pull(Push),
    /// Sends the state of the vault to a remote; sends only what the remote lacks
    #[command(after_help = help::push())]
    Push(Push),
    /// Frees disk space by deleting content that a remote has; a later read fetches the content again
    #[command(after_help = help::evict())]
    Evict(Evict),
    /// Fetches the content of a file or directory to this disk, and keeps it here: `evict` skips it
    #[command(after_help = help::pin())]
    Pin(Pin),
    /// Unpins a file or directory: `evict` may delete its content from this disk again
    #[command(after_help = "Example:\n  strongroom unpin photos:/2026")]
    Unpin(Unpin),
    /// Lists and resolves conflicts: files that were kept twice because two devices changed them
    #[command(after_help = help::conflicts())]
    Conflicts(Conflicts),
    /// Creates a vault from a remote, with all snapshots; the copy is a new device of the vault
    #[command(after_help = help::clone())]
    Clone(Clone),
    /// Reads everything in a vault, except content that is only at remotes, and names damaged files; exits with 14 if
    /// there are any, and with 16 if there are none but keys or devices wait for your decision
    #[command(after_help = help::verify())]
    Verify(Verify),
    /// Repairs the damage that verify finds; exits with 14 if something stays lost
    #[command(after_help = help::repair())]
    Repair(Repair),
    /// The earlier name of `verify --structure`; exits with 5 if something is wrong
    #[command(
        hide = true,
        after_help = "Example:\n  strongroom verify --structure photos"
    )]
    Check(Whole),
    /// Old name for the part of `repair --yes` that restores the header, the replica file and the database
    #[command(hide = true, after_help = "Example:\n  strongroom repair photos")]
    Recover(Recover),
    /// Writes everything to the disk, then pulls from the remotes of the vault and pushes to them
    #[command(after_help = help::sync())]
    Sync(Sync),
    /// Reclaims the space of removed content now, instead of later in the background
    #[command(after_help = "Example:\n  strongroom compact photos")]
    Compact(Whole),
    /// Measures the speed of a directory, on a mount or on a plain disk; needs 3 GB of free space in it
    #[command(
        after_help = "Example:\n  strongroom bench --quick ~/photos\n  strongroom bench --only create,remove /mnt --json"
    )]
    Bench(Bench),
    /// Measures how fast the crypto libraries are on this machine, and selects the fastest
    #[command(after_help = help::tune())]
    Tune(Tune),
    /// Takes, lists and removes snapshots of the whole vault
    #[command(
        after_help = "Example:\n  strongroom snapshot create photos -m 'before sorting' --tag unsorted\n  \
            strongroom ls photos:/.history/t:unsorted/2026"
    )]
    Snapshot(Snapshot),
    /// Lists snapshots, newest first; with a path, only snapshots in which the path changed
    #[command(
        after_help = format!("Example:\n  strongroom log photos 'l:3 days ago'\n  strongroom log photos:/notes.txt\n\n{SELECTORS}")
    )]
    Log(Log),
    /// Shows what changed since a snapshot, or between two snapshots
    #[command(
        after_help = format!("Example:\n  strongroom diff photos\n  strongroom diff photos d:yesterday\n  strongroom diff --patch photos:/notes.txt t:draft h:\n\n{SELECTORS}")
    )]
    Diff(Diff),
    /// Restores a path, or everything, from a snapshot
    #[command(
        after_help = format!("Example:\n  strongroom restore photos:/2026 d:yesterday\n  strongroom restore photos:/notes.txt 3ebb --to /notes-old.txt\n  strongroom get photos:/.history/3ebb/notes.txt .\n\n{SELECTORS}")
    )]
    Restore(Restore),
    /// Removes the content of a deleted file from all snapshots, for good
    #[command(after_help = help::erase())]
    Erase(Erase),
    /// Prints a completion script for a shell
    #[command(
        after_help = "Example:\n  strongroom completions bash > ~/.local/share/bash-completion/completions/strongroom"
    )]
    Completions(Completions),
    /// Writes the manual pages into a folder
    #[command(after_help = "Example:\n  strongroom man ~/.local/share/man/man1")]
    Man(Man),
}

/// The algorithms of a new vault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Suite {
    /// AES-256-GCM and BLAKE3
    Aes,
    /// ChaCha20-Poly1305 and BLAKE3, for processors without AES instructions
    Chacha,
    /// AEGIS-256 and BLAKE3, faster on processors with AES instructions; some builds cannot open such a vault
    Aegis,
}

/// How new content is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HowCompressed {
    /// No compression: stored lengths do not show how well content could be compressed
    None,
    /// zstd, for each block that becomes at least an eighth shorter: stored lengths show how well content could be compressed
    Zstd,
}

impl From<HowCompressed> for strongroom::Compression {
    fn from(how: HowCompressed) -> Self {
        match how {
            HowCompressed::None => Self::None,
            HowCompressed::Zstd => Self::Zstd,
        }
    }
}

/// Arguments of `init`. The options that name a secret of an existing vault are hidden in the help; `init` refuses them
/// and says why.
#[derive(Args, Debug)]
#[command(mut_args(|argument| match argument.get_id().as_str() {
    "recovery_code" | "identity" | "fingerprint" | "accept_older" => argument.hide(true),
    "key_file" => argument.help("Create FILE, a key file that unlocks the vault"),
    _ => argument,
}))]
pub(crate) struct Init {
    /// The folder to create; a folder that exists must be empty
    #[arg(value_name = "VAULT")]
    pub(crate) vault: PathBuf,
    /// The algorithms of the vault
    #[arg(long, value_enum, default_value = "aes")]
    pub(crate) suite: Suite,
    /// Also let the private key of this age or SSH public key unlock the vault
    #[arg(long, value_name = "RECIPIENT")]
    pub(crate) recipient: Vec<String>,
    /// The most space that the vault may take: a number of bytes, or a number with K, M, G or T
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(crate) quota: Option<u64>,
    /// Whether new content is compressed before it is encrypted
    #[arg(long, value_enum, default_value = "none")]
    pub(crate) compression: HowCompressed,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Arguments of `mount`.
#[derive(Args, Debug)]
pub(crate) struct Mount {
    /// The vault folder
    #[arg(value_name = "VAULT")]
    pub(crate) vault: PathBuf,
    /// The empty directory to mount on
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// Stay in the foreground
    #[arg(short, long)]
    pub(crate) foreground: bool,
    /// Write the log of the background process to FILE instead of ~/.local/state/strongroom/strongroom.log
    #[arg(long, value_name = "FILE")]
    pub(crate) log_file: Option<PathBuf>,
    /// Keep the vault in sync with its remotes while it is mounted
    #[arg(long)]
    pub(crate) sync: bool,
    #[command(flatten)]
    pub(crate) limits: Limits,
    /// Set by the program when it starts itself in the background
    #[arg(long, hide = true)]
    pub(crate) daemon: bool,
    /// How much the background process logs: the number of -v options
    #[arg(long, hide = true, default_value_t = 0)]
    pub(crate) log_verbosity: u8,
    /// Options, separated by commas: ro (read only), allow-other (other users may use the mount), uid=N, gid=N and umask=OCTAL
    /// (show all files with these), no-xattr (no extended attributes), no-permissions (permissions are not checked), threads=N
    /// (1 to 16 event loops), idle=SECONDS (unmount after SECONDS without use), writeback (the kernel collects small writes;
    /// programs that use the vault without this mount see them later), save-power (processors may sleep between requests;
    /// slower), snapshot=WHEN (how often to take a snapshot if something changed: hourly, daily, off, or a number with m, h or
    /// d; default: hourly)
    #[arg(short, value_name = "OPTIONS", value_delimiter = ',')]
    pub(crate) options: Vec<String>,
    #[command(flatten)]
    pub(crate) secret: SecretArguments,
}

/// Arguments of `umount`.
#[derive(Args, Debug)]
pub(crate) struct Umount {
    /// The mount point
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// Unmount even if files are open, and return at once; the process of the mount ends when the last file is closed
    #[arg(long)]
    pub(crate) lazy: bool,
}

/// Places in vaults.
#[derive(Args, Debug)]
pub(crate) struct Paths {
    /// A place in a vault
    #[arg(value_name = "VAULT:PATH", required = true)]
    pub(crate) places: Vec<Location>,
    #[command(flatten)]
    pub(crate) secret: SecretArguments,
}

/// Arguments of `ls`.
#[derive(Args, Debug)]
pub(crate) struct Ls {
    /// Show kind, mode, owner, size and time
    #[arg(short, long)]
    pub(crate) long: bool,
    /// End each name with a zero byte instead of a line break, for other programs
    #[arg(short = '0', long, conflicts_with_all = ["long", "json"])]
    pub(crate) null: bool,
    /// A place in a vault
    #[arg(value_name = "VAULT[:PATH]", required = true)]
    pub(crate) places: Vec<Location>,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Arguments of `tree`.
#[derive(Args, Debug)]
pub(crate) struct Tree {
    /// Show at most N levels
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) depth: usize,
    /// A place in a vault
    #[arg(value_name = "VAULT[:PATH]")]
    pub(crate) place: Location,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Arguments of `stat`.
#[derive(Args, Debug)]
pub(crate) struct Stat {
    /// Follow symbolic links
    #[arg(short = 'L', long)]
    pub(crate) follow: bool,
    /// A place in a vault
    #[arg(value_name = "VAULT[:PATH]", required = true)]
    pub(crate) places: Vec<Location>,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Arguments of `rm`.
#[derive(Args, Debug)]
pub(crate) struct Rm {
    /// Remove directories with everything in them
    #[arg(short, long)]
    pub(crate) recursive: bool,
    /// Ignore paths that do not exist
    #[arg(short, long)]
    pub(crate) force: bool,
    /// A place in a vault
    #[arg(value_name = "VAULT:PATH", required = true)]
    pub(crate) places: Vec<Location>,
    #[command(flatten)]
    pub(crate) secret: SecretArguments,
}

/// Arguments of `mkdir`.
#[derive(Args, Debug)]
pub(crate) struct Mkdir {
    /// Make parent directories too, and ignore those that exist
    #[arg(short, long)]
    pub(crate) parents: bool,
    /// The mode, in octal
    #[arg(short, long, value_name = "OCTAL", default_value = "755", value_parser = parse_octal)]
    pub(crate) mode: u32,
    /// A place in a vault
    #[arg(value_name = "VAULT:PATH", required = true)]
    pub(crate) places: Vec<Location>,
    #[command(flatten)]
    pub(crate) secret: SecretArguments,
}

/// A kind of node to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FindKind {
    /// Files
    F,
    /// Directories
    D,
    /// Symbolic links
    L,
}

/// Arguments of `find`.
#[derive(Args, Debug)]
pub(crate) struct Find {
    /// The directory to search
    #[arg(value_name = "VAULT[:PATH]")]
    pub(crate) place: Location,
    /// Find only names that match PATTERN: * matches any text, ? any character, [a-z] one of a set
    #[arg(long, value_name = "PATTERN")]
    pub(crate) name: Option<OsString>,
    /// Find only this kind
    #[arg(long = "type", value_enum, value_name = "KIND")]
    pub(crate) kind: Option<FindKind>,
    /// Find only files of at least this many bytes
    #[arg(long, value_name = "BYTES")]
    pub(crate) min_size: Option<u64>,
    /// End each path with a zero byte instead of a line break, for `xargs -0`
    #[arg(short = '0', long, conflicts_with_all = ["json", "duplicates"])]
    pub(crate) null: bool,
    #[command(flatten)]
    pub(crate) content: FindContent,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Arguments of `quota`.
#[derive(Args, Debug)]
pub(crate) struct Quota {
    /// The vault folder
    #[arg(value_name = "VAULT")]
    pub(crate) vault: PathBuf,
    /// The new quota: a number of bytes, or a number with K, M, G or T; "none" removes the quota
    #[arg(value_name = "SIZE", value_parser = size::parse_or_none)]
    pub(crate) size: Option<NewQuota>,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Arguments of `compression`.
#[derive(Args, Debug)]
pub(crate) struct Compression {
    /// The vault folder
    #[arg(value_name = "VAULT")]
    pub(crate) vault: PathBuf,
    /// How to compress new content; without HOW, the command shows the setting
    #[arg(value_name = "HOW", value_enum)]
    pub(crate) how: Option<HowCompressed>,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Arguments of `info`.
#[derive(Args, Debug)]
pub(crate) struct Info {
    /// The vault folder
    #[arg(value_name = "VAULT")]
    pub(crate) vault: PathBuf,
    /// Verify what is shown; asks for the passphrase, unless a process has the vault open
    #[arg(long)]
    pub(crate) unlock: bool,
    /// Forget which vaults were seen at this path, and their last states
    #[arg(long, conflicts_with_all = ["unlock", "secret"])]
    pub(crate) forget: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

fn parse_octal(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o7777 => Ok(mode),
        _ => Err("a mode is an octal number up to 7777".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_command_has_an_example_in_its_help() {
        fn look(command: &clap::Command) {
            for subcommand in command.get_subcommands() {
                let help = subcommand
                    .get_after_help()
                    .map(ToString::to_string)
                    .unwrap_or_default();
                assert!(
                    help.contains("Example:\n  strongroom "),
                    "{} has no example",
                    subcommand.get_name()
                );
                look(subcommand);
            }
        }
        look(&Arguments::command());
    }
}
