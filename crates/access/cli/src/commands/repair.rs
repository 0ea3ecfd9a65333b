//! `repair`: repairs what a verification finds, and lists what stays lost.

use std::io::Write;

use serde_json::{Value, json};
use strongroom::{
    Brought, Damage, Error, FromRemote, Rebuild, RepairOptions, RepairReport, UseRemotes,
};

use super::recover::{NEWER_IS_LOST, alone, print as print_recovered, recover_json};
use super::verify::verify_json;
use crate::arguments::damage::Repair;
use crate::terminal::exit_code::ExitCode;
use crate::terminal::failure::{Failure, Result, tell};
use crate::terminal::output::{counted, print_json, show_bytes, stdout};
use crate::terminal::printable::show;
use crate::terminal::prompt;

/// Mends a vault.
pub(crate) fn repair(arguments: &Repair) -> Result<()> {
    let Repair {
        vault,
        dry_run,
        common,
        ..
    } = arguments;
    let rebuild = match (arguments.rebuild, dry_run) {
        (true, _) => Rebuild::Always,
        (false, true) => Rebuild::IfLost,
        (false, false) => Rebuild::Never,
    };
    let remotes = match &arguments.remote {
        Some(name) => UseRemotes::Only(name.clone()),
        None if arguments.no_remote => UseRemotes::None,
        None => UseRemotes::All,
    };
    let report = alone(vault, common, arguments.quiet, |secret, trust, told| {
        let options = |rebuild| RepairOptions {
            dry_run: *dry_run,
            rebuild,
            trust: trust.clone(),
            remotes: remotes.clone(),
        };
        match strongroom::repair(vault, secret, options(rebuild), told) {
            Err(Error::DatabaseLost { why }) if may_rebuild(&why, arguments.yes) => {
                strongroom::repair(vault, secret, options(Rebuild::IfLost), told)
            }
            repaired => repaired,
        }
    })?;
    if common.json {
        print_json(&repair_json(&report, *dry_run))?;
    } else {
        print(&report, *dry_run)?;
    }
    outcome(&report, *dry_run)
}

/// Says that the database has to be rebuilt, and asks whether it may be; nothing was done before.
fn may_rebuild(why: &str, yes: bool) -> bool {
    let lost = format!(
        "metadata.db cannot be used ({why}). It can be rebuilt to the state of the newest snapshot. Newer names are lost, and their content is put into lost+found."
    );
    if yes {
        tell(&format!("strongroom: {lost}"));
        return true;
    }
    // Without a terminal the error says the same, and what to do.
    prompt::confirm(&format!("{lost} Rebuild it? [yes/no] ")).unwrap_or(false)
}

fn outcome(report: &RepairReport, dry_run: bool) -> Result<()> {
    let advice = match (dry_run, report.is_whole()) {
        (true, _) if report.needs_nothing() => return Ok(()),
        (true, _) => {
            "damage found; run `strongroom repair` without --dry-run to make these repairs"
        }
        (false, true) if report.recovered.may_lack_newer() => NEWER_IS_LOST,
        (false, true) => return Ok(()),
        (false, false) => {
            "some content stays lost; a snapshot may still have it: see `strongroom log`, then `strongroom restore`"
        }
    };
    Err(Failure::new(ExitCode::DamageFound, advice))
}

/// Said of a database that is rebuilt.
const REMOTES_ARE_FORGOTTEN: &str = "a rebuilt database has no list of remotes. If the vault has remotes, add them again with `strongroom remote add`, run `strongroom sync`, then `strongroom repair`: it fetches damaged or lost content from them";

/// Said of every new database.
pub(crate) const ALL_ARE_KEPT: &str =
    "all snapshots are kept until `strongroom snapshot keep` sets a rule";

/// Said of one that is rebuilt from nothing.
const A_CLONE_HAS_MORE: &str = "if the vault was pushed to a remote, `strongroom clone` restores it from there, into a new folder";

/// Shows what came from a remote, and why something did not.
fn print_remote(out: &mut impl Write, remote: &FromRemote, dry_run: bool) -> Result<()> {
    let FromRemote { name, bytes, .. } = remote;
    let (would, how_much) = match dry_run {
        true => ("would be ", String::new()),
        false => ("", format!(" ({})", show_bytes(*bytes))),
    };
    let mut came = Vec::new();
    if !remote.files.is_empty() {
        let files = counted(remote.files.len() as u64, "segment file");
        came.push(format!("{files} {would}replaced by the pushed content"));
    }
    if remote.blocks > 0 {
        let blocks = counted(remote.blocks, "block");
        came.push(format!("{blocks} {would}stored again"));
    }
    if !came.is_empty() {
        writeln!(out, "from {name}: {}{how_much}", came.join(", "))?;
    }
    for problem in &remote.problems {
        writeln!(out, "{name}: {problem}")?;
    }
    Ok(())
}

fn remote_json(remote: &FromRemote) -> Value {
    json!({
        "remote": remote.name,
        "files": remote.files,
        "blocks": remote.blocks,
        "bytes": remote.bytes,
        "problems": remote.problems,
    })
}

fn print(report: &RepairReport, dry_run: bool) -> Result<()> {
    print_recovered(&report.recovered, dry_run)?;
    let mut out = stdout();
    match (&report.recovered.database, &report.recovered.revision) {
        _ if dry_run => {}
        (Brought::Rebuilt(_), Some(_)) => {
            writeln!(out, "{REMOTES_ARE_FORGOTTEN}")?;
            writeln!(
                out,
                "the rebuilt database has no rule for snapshots either: {ALL_ARE_KEPT}"
            )?;
        }
        (Brought::Rebuilt(_), None) => writeln!(out, "{A_CLONE_HAS_MORE}")?,
        _ => {}
    }
    for remote in &report.remotes {
        print_remote(&mut out, remote, dry_run)?;
    }
    let would = if dry_run { "would be " } else { "" };
    for file in &report.set_aside {
        writeln!(out, "{file}: {would}moved to the folder `unexplained`")?;
    }
    for revision in &report.adopted {
        writeln!(
            out,
            "snapshot {}: {would}added to the database again",
            &revision[..12]
        )?;
    }
    for (count, what, done) in [
        (report.mended_blocks, "block", "replaced from another copy"),
        (report.records, "snapshot record", "written again"),
        (report.unnamed, "nameless file", "put into lost+found"),
    ] {
        if count > 0 {
            writeln!(out, "{} {would}{done}", counted(count, what))?;
        }
    }
    if report.lost_blocks > 0 {
        let blocks = counted(report.lost_blocks, "block");
        let most = if dry_run { "at most " } else { "" };
        writeln!(out, "completely or partly lost: {most}{blocks}")?;
    }
    for Damage { path, what, .. } in lost(report, dry_run) {
        writeln!(out, "{}: lost {what}", show(path))?;
    }
    // Nothing was verified again where nothing was mended.
    let seen = if dry_run { &report.found } else { &report.left };
    for problem in &seen.files {
        writeln!(out, "{}: {}", problem.file, problem.what)?;
    }
    for problem in &seen.structure.problems {
        writeln!(out, "{problem}")?;
    }
    Ok(out.flush()?)
}

/// What files lose; before a repair, at most.
fn lost(report: &RepairReport, dry_run: bool) -> &[Damage] {
    match dry_run {
        // Another copy is there for every block.
        true if report.lost_blocks == 0 && report.found.damaged_more == 0 => &[],
        true => &report.found.damages,
        false => &report.left.damages,
    }
}

fn repair_json(report: &RepairReport, dry_run: bool) -> Value {
    let is_whole = report.is_whole() && !dry_run && !report.recovered.may_lack_newer();
    json!({
        "dry_run": dry_run,
        "whole": is_whole || report.needs_nothing(),
        "recovered": recover_json(&report.recovered),
        "found": verify_json(&report.found),
        "from_remotes": report.remotes.iter().map(remote_json).collect::<Vec<_>>(),
        "mended_blocks": report.mended_blocks,
        "lost_blocks": report.lost_blocks,
        "kept_again": report.adopted,
        "records_written": report.records,
        "set_aside": report.set_aside,
        "unnamed_files": report.unnamed,
        "left": (!dry_run).then(|| verify_json(&report.left)),
    })
}
