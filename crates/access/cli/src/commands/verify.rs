//! `verify`: reads every byte in the vault folder, unless only the structure is to be checked, and names the files that
//! are damaged. Content that is only at remotes is not read.

use std::io::Write;
use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};
use strongroom::{
    CheckReport, Damage, FileProblem, Loss, RevisionId, Vault, VerifyOptions, VerifyReport,
};

use crate::arguments::common::Common;
use crate::arguments::damage::Verify;
use crate::commands::opening::{Intent, with};
use crate::terminal::exit_code::ExitCode;
use crate::terminal::failure::{Failure, Result, tell};
use crate::terminal::interrupt;
use crate::terminal::output::{
    counted, joined, path_json, print_json, print_line, show_bytes, sparse, stdout,
};
use crate::terminal::printable::show;
use crate::terminal::progress::Meter;
use crate::terminal::time::{seconds, text_time};

/// Looks for damage.
pub(crate) fn verify(arguments: &Verify) -> Result<()> {
    if arguments.structure {
        return structure(&arguments.vault, &arguments.common, ExitCode::DamageFound);
    }
    let Verify {
        vault,
        deep,
        resume,
        quiet,
        common,
        ..
    } = arguments;
    interrupt::watch()?;
    with(vault, &common.secret, Intent::Read, |vault| {
        let options = VerifyOptions {
            deep: *deep,
            resume: *resume,
        };
        let mut meter = Meter::new(*quiet, "verified");
        let begun = Instant::now();
        let report = vault.verify(options, &mut |progress| {
            meter.show(progress.bytes, progress.bytes_total);
            interrupt::go_on()
        });
        drop(meter);
        let (report, took_s) = (report?, begun.elapsed().as_secs_f64());
        tell_resumed(&report);
        let away_bytes = vault.information()?.away_bytes;
        if common.json {
            let away = json!({ "away_bytes": away_bytes });
            print_json(&joined(verify_json(&report), away))?;
        } else {
            print(&report, took_s)?;
            if away_bytes > 0 {
                let bytes = show_bytes(away_bytes);
                print_line(&format!(
                    "{bytes} are only at remotes and were not read; `strongroom remote check --deep` reads them there"
                ))?;
            }
        }
        outcome(vault, &report)
    })
}

/// Compares the tables; ends with `if_damaged` if they do not fit together.
pub(crate) fn structure(vault: &Path, common: &Common, if_damaged: ExitCode) -> Result<()> {
    with(vault, &common.secret, Intent::Read, |vault| {
        let found = &vault.check()?;
        let sound = found.problems.is_empty();
        if common.json {
            print_json(&joined(json!({ "sound": sound }), json!(found)))?;
        } else {
            let mut out = stdout();
            for problem in &found.problems {
                writeln!(out, "{problem}")?;
            }
            let CheckReport {
                inodes,
                entries,
                blocks,
                ..
            } = found;
            let sound = if sound { "sound: " } else { "" };
            writeln!(
                out,
                "{sound}{}, {}, {} checked",
                counted(*inodes, "inode"),
                counted(*entries, "entry"),
                counted(*blocks, "block")
            )?;
            out.flush()?;
        }
        if sound {
            return Ok(());
        }
        let advice = "problems found; run `strongroom verify` to see which files are damaged";
        Err(Failure::new(if_damaged, advice))
    })
}

/// Says where it began, if it was to go on.
fn tell_resumed(report: &VerifyReport) {
    if let Some(why) = &report.begun_anew {
        tell(&format!(
            "strongroom: started from the beginning instead of continuing: {why}"
        ));
    }
    if let Some(stopped) = report.resumed_s {
        let stopped = text_time(seconds(stopped));
        tell(&format!(
            "strongroom: continued; earlier results are as of {stopped}"
        ));
    }
}

fn outcome(vault: &Vault, report: &VerifyReport) -> Result<()> {
    if !report.finished {
        let how = match report.can_resume {
            true => "stopped; `strongroom verify --resume` continues here",
            false => {
                "stopped; the progress could not be saved, so the next run starts from the beginning"
            }
        };
        return Err(Failure::new(ExitCode::Other, how));
    }
    let undecided = undecided(report);
    if !report.is_damaged() {
        let Some(keys) = undecided else {
            return Ok(());
        };
        let message = format!("no damage found, but {keys}");
        return Err(Failure::new(ExitCode::KeysUndecided, message));
    }
    // A database that is damaged knows of none.
    let has_remotes = vault.remotes().is_ok_and(|remotes| !remotes.is_empty());
    let from_remotes = match has_remotes {
        true => ", also from the vault's remotes",
        false => "",
    };
    let besides = undecided.map_or(String::new(), |keys| format!(". Besides, {keys}"));
    let advice = format!(
        "damage found; before you change anything in the vault, run `strongroom repair --dry-run` to see what can be mended{from_remotes}{besides}"
    );
    Err(Failure::new(ExitCode::DamageFound, advice))
}

/// The first key or device that waits for a person's decision, and what to do about it; no repair does anything about it.
fn undecided(report: &VerifyReport) -> Option<String> {
    let mut all = report.files.iter().filter(|one| !one.is_damage);
    let first = &all.next()?.what;
    Some(match all.count() {
        0 => first.clone(),
        more => format!("{first} (and {more} more)"),
    })
}

fn print(report: &VerifyReport, seconds: f64) -> Result<()> {
    let mut out = stdout();
    for FileProblem { file, what, .. } in &report.files {
        writeln!(out, "{file}: {what}")?;
    }
    for problem in &report.structure.problems {
        writeln!(out, "{problem}")?;
    }
    for damage in &report.damages {
        let path = match damage.path.is_empty() {
            true => "(no name)".to_owned(),
            false => show(&damage.path),
        };
        writeln!(out, "{path}: lost {} {}", damage.what, where_lost(damage))?;
    }
    if report.damaged_more > 0 {
        writeln!(
            out,
            "further lost content: {}",
            counted(report.damaged_more, "block")
        )?;
    }
    let progress = report.progress;
    let rate = progress.bytes as f64 / seconds.max(0.001);
    let damaged = match progress.damaged_blocks {
        0 => "none damaged".to_owned(),
        several => format!("{several} damaged"),
    };
    let sound = match (report.is_sound(), report.is_damaged()) {
        (true, _) => "sound: ",
        (false, false) => "undamaged: ",
        (false, true) => "",
    };
    writeln!(
        out,
        "{sound}{} in {} read, {damaged}; {}, {}{}; {}/s",
        show_bytes(progress.bytes),
        counted(progress.blocks, "block"),
        counted(report.structure.inodes, "inode"),
        counted(report.structure.entries, "entry"),
        match report.nodes {
            0 => String::new(),
            nodes => format!(", {} of snapshots", counted(nodes, "node")),
        },
        show_bytes(rate as u64),
    )?;
    Ok(out.flush()?)
}

/// In which states a path lost something.
fn where_lost(damage: &Damage) -> String {
    let kept: Vec<String> = damage.revisions.iter().map(short).collect();
    match (damage.now, kept.is_empty()) {
        (true, true) => "in its present state; no snapshot lost it".to_owned(),
        (true, false) => format!("in its present state, and in snapshot {}", kept.join(", ")),
        (false, _) => format!("in snapshot {}", kept.join(", ")),
    }
}

fn short(id: &RevisionId) -> String {
    id.to_string()[..12].to_owned()
}

/// In JSON; what a path that is not UTF-8 has is in `bytes` too.
fn damage_json(damage: &Damage) -> Value {
    let (lost, range, count) = match damage.what {
        Loss::Content(start, end) => ("content", Some((start, end)), None),
        Loss::Names(count) => ("names", None, Some(count)),
        Loss::Xattrs => ("extended attributes", None, None),
        Loss::Tree => ("tree", None, None),
        Loss::Structure => ("structure", None, None),
        Loss::Unnamed => ("content of a file without a name", None, None),
    };
    let revisions = damage.revisions.iter().map(ToString::to_string);
    let found = json!({
        "lost": lost,
        "start": range.map(|range| range.0),
        "end": range.map(|range| range.1),
        "count": count,
        "now": damage.now,
        "revisions": revisions.collect::<Vec<_>>(),
    });
    joined(path_json(&damage.path), sparse(found))
}

pub(super) fn damages_json(damages: &[Damage]) -> Vec<Value> {
    damages.iter().map(damage_json).collect()
}

pub(super) fn verify_json(report: &VerifyReport) -> Value {
    sparse(json!({
        "finished": report.finished,
        // Seconds since 1970 at which the earlier one was stopped, if this one continued it.
        "resumed_s": report.resumed_s,
        // Why this one did not continue, if it was to.
        "begun_anew": report.begun_anew,
        "sound": report.finished && report.is_sound(),
        // What is not sound may be undamaged: then a file in `files` says which key or device waits for a decision.
        "damaged": report.is_damaged(),
        "bytes": report.progress.bytes,
        "bytes_total": report.progress.bytes_total,
        "blocks": report.progress.blocks,
        "damaged_blocks": report.progress.damaged_blocks,
        "damaged_blocks_unnamed": report.damaged_more,
        "inodes": report.structure.inodes,
        "entries": report.structure.entries,
        "kept_nodes": report.nodes,
        "problems": report.structure.problems,
        "files": report.files,
        "damages": damages_json(&report.damages),
    }))
}
