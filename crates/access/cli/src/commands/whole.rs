//! `info`, `df`, `stats`, `check`, `sync`, `compact`: about a whole vault.

use std::io::Write;

use serde::Serialize;
use strongroom::Vault;

use crate::arguments::Whole;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::opening::{Intent, with};
use crate::output::{print_json, show_bytes, stdout};

fn on(arguments: &Whole, intent: Intent, work: impl FnOnce(&Vault) -> Result<()>) -> Result<()> {
    with(&arguments.vault, &arguments.common.secret, intent, work)
}

#[derive(Serialize)]
struct InfoJson {
    fingerprint: String,
    suite: String,
    generation: u64,
    epoch: u32,
    owner: &'static str,
    owner_pid: u32,
    read_only: bool,
    compare_fingerprint: bool,
}

/// Shows what a vault is.
pub(crate) fn info(arguments: &Whole) -> Result<()> {
    on(arguments, Intent::Read, |vault| {
        let found = vault.information()?;
        let owner = if vault.is_owner() {
            "none"
        } else {
            "another process"
        };
        if arguments.common.json {
            return print_json(&InfoJson {
                fingerprint: found.fingerprint,
                suite: found.suite,
                generation: found.generation,
                epoch: found.epoch,
                owner,
                owner_pid: found.owner_pid,
                read_only: found.read_only,
                compare_fingerprint: found.compare_fingerprint,
            });
        }
        let mut out = stdout();
        writeln!(out, "fingerprint  {}", found.fingerprint)?;
        if found.compare_fingerprint {
            writeln!(
                out,
                "             compare it with the one printed at init: anyone can make a vault for your key"
            )?;
        }
        writeln!(out, "suite        {}", found.suite)?;
        writeln!(out, "generation   {}", found.generation)?;
        writeln!(out, "epoch        {}", found.epoch)?;
        if !vault.is_owner() {
            writeln!(out, "open in      process {}", found.owner_pid)?;
        }
        Ok(out.flush()?)
    })
}

#[derive(Serialize)]
struct SpaceJson {
    total_bytes: u64,
    used_bytes: u64,
    free_bytes: u64,
    inodes: u64,
}

/// Shows how full the disk is.
pub(crate) fn space(arguments: &Whole) -> Result<()> {
    on(arguments, Intent::Read, |vault| {
        let found = vault.space()?;
        let used = found.total_bytes.saturating_sub(found.free_bytes);
        if arguments.common.json {
            let (total_bytes, free_bytes, inodes) =
                (found.total_bytes, found.free_bytes, found.inodes);
            return print_json(&SpaceJson {
                total_bytes,
                used_bytes: used,
                free_bytes,
                inodes,
            });
        }
        let mut out = stdout();
        writeln!(
            out,
            "{:>12} {:>12} {:>12} {:>12}",
            "total", "used", "free", "inodes"
        )?;
        let (total, used, free) = (
            show_bytes(found.total_bytes),
            show_bytes(used),
            show_bytes(found.free_bytes),
        );
        writeln!(
            out,
            "{total:>12} {used:>12} {free:>12} {:>12}",
            found.inodes
        )?;
        Ok(out.flush()?)
    })
}

/// Shows counters.
pub(crate) fn counters(arguments: &Whole) -> Result<()> {
    on(arguments, Intent::Read, |vault| {
        let counters = vault.counters()?;
        if arguments.common.json {
            let map: serde_json::Map<_, _> = counters
                .into_iter()
                .map(|(name, count)| (name, serde_json::Value::from(count)))
                .collect();
            return print_json(&map);
        }
        let width = counters
            .iter()
            .map(|(name, _)| name.len())
            .max()
            .unwrap_or(0);
        let mut out = stdout();
        for (name, count) in counters {
            writeln!(out, "{name:width$}  {count}")?;
        }
        Ok(out.flush()?)
    })
}

#[derive(Serialize)]
struct CheckJson {
    sound: bool,
    inodes: u64,
    entries: u64,
    blocks: u64,
    problems: Vec<String>,
}

/// Checks the structure.
pub(crate) fn check(arguments: &Whole) -> Result<()> {
    on(arguments, Intent::Read, |vault| {
        let found = vault.check()?;
        let sound = found.problems.is_empty();
        if arguments.common.json {
            let (inodes, entries, blocks) = (found.inodes, found.entries, found.blocks);
            print_json(&CheckJson {
                sound,
                inodes,
                entries,
                blocks,
                problems: found.problems,
            })?;
        } else {
            let mut out = stdout();
            for problem in &found.problems {
                writeln!(out, "{problem}")?;
            }
            writeln!(
                out,
                "{} inodes, {} entries, {} blocks checked",
                found.inodes, found.entries, found.blocks
            )?;
            out.flush()?;
        }
        if sound {
            return Ok(());
        }
        let message = "problems found; copy out what you need with `strongroom get` and keep the folder as it is";
        Err(Failure::new(ExitCode::Damaged, message))
    })
}

/// Makes everything durable.
pub(crate) fn sync(arguments: &Whole) -> Result<()> {
    on(arguments, Intent::Change, |vault| Ok(vault.sync()?))
}

#[derive(Serialize)]
struct CompactJson {
    free_bytes_before: u64,
    free_bytes_after: u64,
}

/// Gives space back.
pub(crate) fn compact(arguments: &Whole) -> Result<()> {
    on(arguments, Intent::Change, |vault| {
        let before = vault.space()?.free_bytes;
        vault.compact()?;
        let after = vault.space()?.free_bytes;
        if arguments.common.json {
            return print_json(&CompactJson {
                free_bytes_before: before,
                free_bytes_after: after,
            });
        }
        let mut out = stdout();
        writeln!(
            out,
            "{} free before, {} after",
            show_bytes(before),
            show_bytes(after)
        )?;
        Ok(out.flush()?)
    })
}
