//! `df`, `quota`, `stats`, `check`, `sync`, `compact`: about a whole vault.

use std::io::Write;

use serde::Serialize;
use strongroom::{OpenOptions, Vault};

use crate::arguments::{Common, Quota, Whole};
use crate::exit_code::ExitCode;
use crate::failure::{About, Failure, Result};
use crate::opening::{Intent, with};
use crate::output::{print_json, show_bytes, stdout};
use crate::size::NewQuota;
use crate::tool_arguments::Stats;

fn on(arguments: &Whole, intent: Intent, work: impl FnOnce(&Vault) -> Result<()>) -> Result<()> {
    with(&arguments.vault, &arguments.common.secret, intent, work)
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

#[derive(Serialize)]
struct QuotaJson {
    quota_bytes: Option<u64>,
}

/// Shows or sets the quota.
pub(crate) fn quota(arguments: &Quota) -> Result<()> {
    let intent = match arguments.size {
        Some(_) => Intent::Change,
        None => Intent::Read,
    };
    let Common { json, secret } = &arguments.common;
    with(&arguments.vault, secret, intent, |vault| {
        if let Some(NewQuota(bytes)) = arguments.size {
            vault.set_quota(bytes)?;
        }
        let quota_bytes = vault.quota()?;
        if *json {
            return print_json(&QuotaJson { quota_bytes });
        }
        let shown = match quota_bytes {
            Some(bytes) => format!("{bytes} bytes ({})", show_bytes(bytes)),
            None => "none".to_owned(),
        };
        Ok(writeln!(std::io::stdout(), "quota  {shown}")?)
    })
}

/// Shows counters. Only who has the vault open counts, so no secret is needed.
pub(crate) fn counters(arguments: &Stats) -> Result<()> {
    let options = OpenOptions::read_only();
    let vault =
        Vault::connect_if_owned(&arguments.vault, options).about(arguments.vault.display())?;
    let counters = match &vault {
        Some(vault) => vault.counters()?,
        None => Vec::new(),
    };
    if arguments.json {
        let map: serde_json::Map<_, _> = counters
            .into_iter()
            .map(|(name, count)| (name, serde_json::Value::from(count)))
            .collect();
        return print_json(&map);
    }
    let mut out = stdout();
    if vault.is_none() {
        writeln!(
            out,
            "nobody has the vault open; counting begins when it is mounted or opened"
        )?;
    }
    let width = |lens: &mut dyn Iterator<Item = usize>| lens.max().unwrap_or(0);
    let names = width(&mut counters.iter().map(|(name, _)| name.len()));
    let counts = width(&mut counters.iter().map(|(_, count)| count.to_string().len()));
    for (name, count) in counters {
        writeln!(out, "{name:names$}  {count:>counts$}")?;
    }
    Ok(out.flush()?)
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
        let message = "problems found; run `strongroom verify` to see which files they cost";
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
