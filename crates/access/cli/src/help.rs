//! The longer texts of `--help` and the manual; the shorter ones stand with the commands.

use crate::exit_code::ExitCode;

/// What `put` and `get` keep.
const KEPT: &str = "\
Kept: content and its holes, symbolic links, several names of one file within one command, pipes, sockets and devices, \
modes, times, extended attributes (user.*). The superuser's copies also keep owner, group, capabilities and trusted.*; \
--no-owner leaves them out. What could not be kept is listed at the end.

A file gets its name when it is whole. Interrupted, the command leaves no part of a file; killed with -9, at most one \
named .strongroom-*, which may be removed.";

fn example(lines: &[&str]) -> String {
    let lines = lines.iter().map(|line| format!("\n  {line}"));
    format!("Example:{}", lines.collect::<String>())
}

/// Of the command itself.
pub(crate) fn all() -> String {
    format!(
        "VAULT[:PATH] names a place in a vault: the vault's folder, a colon, and a path from the vault's root. \
         It is cut at the first colon behind a vault folder.\n\n{}\n{}",
        ExitCode::table(),
        example(&[
            "strongroom init photos",
            "strongroom put holiday.jpg photos:/2026/",
            "strongroom mount photos ~/photos",
        ])
    )
}

pub(crate) fn mount() -> String {
    format!(
        "A mount in the background logs to ~/.local/state/strongroom/strongroom.log (or in $XDG_STATE_HOME), at most \
         2 MiB with the older one beside it; `strongroom info` names the file. In the foreground the log goes to \
         standard error. -v and -vv tell more. No log names a file of the vault.\n\n{}",
        example(&[
            "strongroom mount photos ~/photos",
            "strongroom mount -o ro,allow-other photos /mnt",
        ])
    )
}

pub(crate) fn put() -> String {
    let example = example(&[
        "strongroom put holiday.jpg videos/ photos:/2026/",
        "tar c src | strongroom put - photos:/src.tar",
    ]);
    format!("{KEPT}\n\n{example}")
}

pub(crate) fn get() -> String {
    let example = example(&[
        "strongroom get photos:/2026 .",
        "strongroom get photos:/notes.txt copy.txt",
    ]);
    format!("{KEPT}\n\n{example}")
}

pub(crate) fn info() -> String {
    format!(
        "Without a secret it shows what the header says, for which nobody vouches. A process that has the vault open \
         vouches, and so does unlocking it.\n\n{}",
        example(&["strongroom info photos", "strongroom info --unlock photos"])
    )
}

pub(crate) fn quota() -> String {
    format!(
        "Counted are sealed content and the rows of the database. Under a quota that is used up already, removing \
         still works.\n\n{}",
        example(&[
            "strongroom quota photos",
            "strongroom quota photos 20G",
            "strongroom quota photos none",
        ])
    )
}

/// A line for each row that `stats` prints.
pub(crate) fn stats() -> String {
    let counters = strongroom::COUNTERS;
    let width = counters.iter().map(|counter| counter.name.len()).max();
    let width = width.unwrap_or(0);
    let rows = counters
        .iter()
        .map(|counter| format!("  {:width$}  {}\n", counter.name, counter.meaning));
    format!(
        "Rows:\n{}  {:width$}  requests of the kernel, by its names for them (fuse(4)); only those that occurred\n\n{}",
        rows.collect::<String>(),
        "mount.OPCODE",
        example(&["strongroom stats photos", "strongroom stats --json photos"])
    )
}
