//! The list of all commands, as they are run on a hostile folder.
//!
//! Takes   the program, whose help is read: a command that is missing here is an error
//! Gives   arguments for each command
//! Never   omits a command silently: commands that use no vault are listed with the reason

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command as Process;

/// What a command is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judge {
    /// What it prints is of the vault, line by line, and depends on nothing else.
    Lines,
    /// What it copies out is of the vault.
    Copies,
    /// It mounts, and what is seen there is of the vault.
    Mount,
    /// It reads everything, and must name what is wrong.
    Verify,
    /// It says something of the vault that is not its content.
    Says,
    /// It changes the vault; then everything is copied out and compared.
    Changes,
}

/// A command line; `@V` the vault, `@K` its key, `@O` a folder for what comes out, `@I` one with files, `@R` the id of the second slot.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// How it is called here.
    pub name: &'static str,
    /// The words behind the program's name.
    pub words: &'static str,
    /// How it is judged.
    pub judge: Judge,
}

const fn command(name: &'static str, words: &'static str, judge: Judge) -> Command {
    Command { name, words, judge }
}

/// All of them. Each begins with the name that the help has.
pub const COMMANDS: &[Command] = &[
    command("ls", "ls -l @V:/desk @V:/shelf @K", Judge::Lines),
    command("tree", "tree @V @K", Judge::Lines),
    command(
        "cat",
        "cat @V:/desk/late\u{a0}4\u{a0}of\u{a0}A @K",
        Judge::Lines,
    ),
    command(
        "stat",
        "stat @V:/desk/new @V:/shelf/late\u{a0}4 @V:/desk/link @K",
        Judge::Lines,
    ),
    command("get", "get -q @V:/ @O @K", Judge::Copies),
    command(
        "get history",
        "get -q @V:/.history/t:branch @O @K",
        Judge::Copies,
    ),
    command("find", "find @V @K", Judge::Lines),
    command("hash", "hash -q -r @V @K", Judge::Lines),
    command("log", "log @V @K", Judge::Lines),
    command("diff", "diff @V t:trunk h: @K", Judge::Lines),
    command("snapshot list", "snapshot list @V @K", Judge::Lines),
    command("mount", "mount -f -o snapshot=off @V @M @K", Judge::Mount),
    command("verify", "verify -q @V @K", Judge::Says),
    command("verify --deep", "verify -q --deep @V @K", Judge::Verify),
    command("verify --resume", "verify -q --resume @V @K", Judge::Verify),
    command(
        "verify --structure",
        "verify --structure @V @K",
        Judge::Says,
    ),
    command("info", "info @V", Judge::Says),
    command("info --unlock", "info --unlock @V @K", Judge::Says),
    command("key list", "key list @V", Judge::Says),
    command(
        "key rotate --status",
        "key rotate --status @V @K",
        Judge::Says,
    ),
    command("df", "df @V @K", Judge::Says),
    command("stats", "stats @V", Judge::Says),
    command("quota", "quota @V @K", Judge::Says),
    command("compression", "compression @V @K", Judge::Says),
    command("snapshot keep", "snapshot keep @V @K", Judge::Says),
    command("repair --dry-run", "repair -q --dry-run @V @K", Judge::Says),
    command("init", "init @V --key-file @O/new-key", Judge::Changes),
    command("put", "put -q @I @V:/in @K", Judge::Changes),
    command("mkdir", "mkdir @V:/made @K", Judge::Changes),
    command("rm", "rm -r @V:/shelf/of\u{a0}A @K", Judge::Changes),
    command("mv", "mv @V:/desk/new :/desk/newer @K", Judge::Changes),
    command("cp", "cp @V:/desk/new :/desk/copy @K", Judge::Changes),
    command("snapshot create", "snapshot create @V @K", Judge::Changes),
    command(
        "snapshot remove",
        "snapshot remove @V t:trunk @K",
        Judge::Changes,
    ),
    command(
        "restore",
        "restore @V:/desk/paper\u{a0}0 t:trunk --no-snapshot @K",
        Judge::Changes,
    ),
    command("erase", "erase @V:/shelf/book\u{a0}7 @K", Judge::Changes),
    command(
        "key add",
        "key add @V --new-key-file @O/another-key @K",
        Judge::Changes,
    ),
    command("key remove", "key remove @V @R @K", Judge::Changes),
    command(
        "key change",
        "key change @V --new-passphrase-file @I/passphrase @K",
        Judge::Changes,
    ),
    command("key rotate", "key rotate @V --wait @K", Judge::Changes),
    command("device list", "device list @V", Judge::Says),
    command(
        "device list --unlock",
        "device list --unlock @V @K",
        Judge::Says,
    ),
    command("device accept", "device accept @V @K", Judge::Changes),
    command("device remove", "device remove @V @K", Judge::Changes),
    command("quota set", "quota @V 20G @K", Judge::Changes),
    command("compression set", "compression @V zstd @K", Judge::Changes),
    command("compact", "compact @V @K", Judge::Changes),
    command("sync", "sync @V @K", Judge::Changes),
    command("evict --undo", "evict --undo @V @K", Judge::Says),
    command("backup", "backup -q @V @O/backup @K", Judge::Says),
    command("repair", "repair -q @V @K", Judge::Changes),
    command("repair --yes", "repair -q --yes @V @K", Judge::Changes),
    command(
        "repair --rebuild",
        "repair -q --rebuild @V @K",
        Judge::Changes,
    ),
];

/// Commands that are not run by themselves, and why.
const LEFT_OUT: &[(&str, &str)] = &[
    ("umount", "ends each mount"),
    ("unlock", "opens a vault as mount does, and is judged there"),
    ("lock", "asks the process of unlock to end, opens no vault"),
    (
        "remote add",
        "opens a vault as `sync` does; what a remote does is tried in vault/tests/remotes.rs",
    ),
    ("device add", "as `remote add`; it waits for a person"),
    ("device compare", "as `remote list`"),
    (
        "device rename",
        "changes the root directory, as `mkdir` does; hostile names are tried in vault/tests/sync/names.rs",
    ),
    ("conflicts", "as `find`"),
    ("conflicts keep", "as `mv`"),
    ("remote list", "as `remote add`"),
    ("remote remove", "as `remote add`"),
    ("remote check", "as `remote add`"),
    ("remote prune", "as `remote add`"),
    ("remote guessable", "changes keys as `key add` does"),
    (
        "push",
        "as `remote add`; a segment that is not as it was written is refused",
    ),
    ("pull", "as `remote add`"),
    (
        "inbox add",
        "as `remote add`; what deposits do is tried in vault/tests/inbox.rs",
    ),
    ("inbox address", "as `inbox add`"),
    ("inbox list", "as `inbox add`"),
    ("inbox remove", "as `inbox add`"),
    ("inbox discard", "as `inbox add`"),
    ("inbox retry", "as `inbox add`"),
    ("deposit", "opens no vault"),
    (
        "evict",
        "as `remote add`; without a remote it says that there is none",
    ),
    ("pin", "as `evict --undo`"),
    ("unpin", "as `rm` of a name that is not there"),
    ("clone", "makes a vault, opens none"),
    (
        "serve",
        "opens no vault, and refuses a folder that is one; tried in tests/serve.rs",
    ),
    ("bench", "measures a folder, opens no vault"),
    ("tune", "measures this machine, opens no vault"),
    ("completions", "prints text of the program"),
    ("man", "writes text of the program"),
];

/// The command of that name.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name == name)
}

impl Command {
    /// Its arguments. `values`: what stands for `@V` and the others.
    #[must_use]
    pub fn arguments(&self, values: &[(&str, String)]) -> Vec<String> {
        let mut arguments = Vec::new();
        for word in self.words.split(' ') {
            let mut word = word.to_owned();
            if word == "@K" {
                arguments.push("--key-file".to_owned());
            }
            for (name, value) in values {
                word = word.replace(name, value);
            }
            arguments.push(word.replace('\u{a0}', " "));
        }
        arguments
    }
}

/// The subcommands that a help text lists.
fn listed(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = lines.take_while(|line| !line.is_empty());
    lines
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_ascii_whitespace().next())
        .map(str::to_owned)
        .collect()
}

fn help(program: &Path, words: &[&str]) -> Result<String, String> {
    let said = Process::new(program).args(words).arg("--help").output();
    let said = said.map_err(|error| format!("{}: {error}", program.display()))?;
    Ok(String::from_utf8_lossy(&said.stdout).into_owned())
}

/// Compares the table with the help of the program, and gives the exit codes that this promises.
///
/// # Errors
/// A command is in one of them only.
pub fn exit_codes(program: &Path) -> Result<BTreeSet<i32>, String> {
    let top = help(program, &[])?;
    for name in listed(&top) {
        let below = listed(&help(program, &[&name])?);
        let wanted = match below.is_empty() {
            true => vec![name.clone()],
            false => below.iter().map(|sub| format!("{name} {sub}")).collect(),
        };
        for wanted in wanted {
            let is_left_out = LEFT_OUT.iter().any(|(left, _)| *left == wanted);
            if by_name(&wanted).is_none() && !is_left_out {
                return Err(format!(
                    "the command {wanted:?} is not run; add it to COMMANDS"
                ));
            }
        }
    }
    let table = top
        .lines()
        .skip_while(|line| *line != "Exit codes:")
        .skip(1)
        .take_while(|line| !line.is_empty());
    let codes: BTreeSet<i32> = table
        .filter_map(|line| line.split_ascii_whitespace().next()?.parse().ok())
        .collect();
    match codes.len() {
        0 => Err("the help lists no exit codes".to_owned()),
        _ => Ok(codes),
    }
}
