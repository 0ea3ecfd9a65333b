//! The part of `repair` that restores a lost database, header or replica file; also available by its earlier name, `recover`.

use std::io::Write;
use std::path::Path;

use serde_json::{Value, json};
use strongroom::{Brought, Rebuild, RecoverOptions, RecoverProgress, RecoverReport, Secret, Trust};

use super::verify::damages_json;
use crate::arguments::common::Common;
use crate::arguments::damage::Recover;
use crate::commands::opening::{make_way, open_already, unlocking};
use crate::terminal::exit_code::ExitCode;
use crate::terminal::failure::{About, Failure, Result};
use crate::terminal::output::{counted, print_json, show_bytes, sparse, stdout};
use crate::terminal::printable::{show, show_path};
use crate::terminal::progress::Meter;
use crate::terminal::time::{json_time, text_time};

/// Brings a vault back, and mends nothing else.
pub(crate) fn recover(arguments: &Recover) -> Result<()> {
    let rebuild = match arguments.rebuild {
        true => Rebuild::Always,
        false => Rebuild::IfLost,
    };
    let Recover { vault, common, .. } = arguments;
    let report = alone(vault, common, arguments.quiet, |secret, trust, told| {
        let trust = trust.clone();
        strongroom::recover(vault, secret, RecoverOptions { rebuild, trust }, told)
    })?;
    if common.json {
        print_json(&recover_json(&report))?;
    } else {
        print(&report, false)?;
    }
    let advice = match (report.is_whole(), report.may_lack_newer()) {
        (true, false) => return Ok(()),
        (true, true) => NEWER_IS_LOST,
        (false, _) => {
            "some content could not be restored; a snapshot may still have it: see `strongroom log`, then `strongroom restore`"
        }
    };
    Err(Failure::new(ExitCode::DamageFound, advice))
}

/// Does `work` on a vault that no other process has open, and shows how far it is.
pub(super) fn alone<T>(
    vault: &Path,
    common: &Common,
    quiet: bool,
    mut work: impl FnMut(&Secret, &Trust, &mut dyn FnMut(RecoverProgress)) -> strongroom::Result<T>,
) -> Result<T> {
    make_way(vault, strongroom::Access::ReadWrite).about(show_path(vault))?;
    let mut meter = Meter::new(quiet, "read");
    let mut told = |progress| match progress {
        RecoverProgress::Segments(bytes, total) => meter.show(bytes, total),
        RecoverProgress::Nodes(nodes) => meter.say(format!("{nodes} files restored")),
        RecoverProgress::FromRemotes(bytes, total) => {
            let (bytes, total) = (show_bytes(bytes), show_bytes(total));
            meter.say(format!("{bytes} of {total} from remotes"));
        }
    };
    let done = unlocking(&common.secret, vault, |source, trust| {
        work(&source()?, trust, &mut told)
    });
    drop(meter);
    done.map_err(|error| open_already(vault, error))
        .about(show_path(vault))
}

/// Said where all that the snapshots name is back.
pub(super) const NEWER_IS_LOST: &str = "everything in the snapshots was restored; changes after the newest snapshot, if there were any, are lost";

/// Shows what was brought back, or in a dry run would be.
pub(super) fn print(report: &RecoverReport, dry_run: bool) -> Result<()> {
    let mut out = stdout();
    let would = if dry_run { "would be " } else { "" };
    for (name, brought) in [
        ("vault.json", &report.header),
        ("replica.json", &report.replica),
        ("metadata.db", &report.database),
    ] {
        match brought {
            Brought::Sound => writeln!(out, "{name}: sound")?,
            Brought::PutBack => writeln!(out, "{name}: {would}restored from its second copy")?,
            Brought::Cut => {
                writeln!(
                    out,
                    "{name}: extra bytes after its last page {would}removed"
                )?;
            }
            Brought::Rebuilt(None) => writeln!(out, "{name}: {would}rebuilt")?,
            Brought::Rebuilt(Some(aside)) => {
                writeln!(
                    out,
                    "{name}: {would}rebuilt; the old one is kept as {aside}"
                )?;
            }
        }
    }
    if let Brought::Rebuilt(_) = report.database {
        print_database(&mut out, report, dry_run)?;
    }
    if report.renamed > 0 {
        let were = if dry_run { "would be" } else { "were" };
        writeln!(
            out,
            "{} with a wrong name {were} renamed, where the right name was free",
            counted(report.renamed, "segment file")
        )?;
    }
    for problem in &report.files {
        writeln!(out, "{}: {}", problem.file, problem.what)?;
    }
    for revision in &report.lost_revisions {
        writeln!(out, "snapshot lost: {revision}")?;
    }
    for damage in &report.damages {
        writeln!(out, "{}: lost {}", show(&damage.path), damage.what)?;
    }
    Ok(out.flush()?)
}

fn print_database(out: &mut impl Write, report: &RecoverReport, dry_run: bool) -> Result<()> {
    let (is, loses, brought) = match dry_run {
        true => ("would be", "would lose", "would be restored"),
        false => ("is", "lost", "restored"),
    };
    match &report.revision {
        Some(newest) => writeln!(
            out,
            "the vault {is} as it was at {} ({}); content stored later {loses} its file names, and {is} in lost+found",
            text_time(newest.time),
            &newest.id.to_string()[..12],
        )?,
        None => writeln!(
            out,
            "there is no snapshot, so all file names are lost; content {is} in lost+found"
        )?,
    }
    writeln!(
        out,
        "{brought}: {} with {}, and {}",
        counted(report.nodes, "file"),
        show_bytes(report.bytes),
        counted(report.revisions, "snapshot")
    )?;
    let (count, bytes) = report.unnamed;
    if count > 0 {
        writeln!(
            out,
            "content in no snapshot, including removed files, {is} in lost+found: {} with {}",
            counted(count, "file"),
            show_bytes(bytes)
        )?;
    }
    Ok(())
}

pub(super) fn recover_json(report: &RecoverReport) -> Value {
    let word = |brought: &Brought| match brought {
        Brought::Sound => "sound",
        Brought::PutBack => "put back",
        Brought::Cut => "cut to its pages",
        Brought::Rebuilt(_) => "rebuilt",
    };
    let revision = report.revision.as_ref();
    sparse(json!({
        "whole": report.is_whole() && !report.may_lack_newer(),
        "header": word(&report.header),
        "replica": word(&report.replica),
        "database": word(&report.database),
        "kept_aside": match &report.database {
            Brought::Rebuilt(aside) => aside.as_ref(),
            _ => None,
        },
        "revision": revision.map(|revision| revision.id.to_string()),
        "revision_time": revision.map(|revision| json_time(revision.time)),
        "revisions": report.revisions,
        "lost_revisions": report.lost_revisions,
        "nodes": report.nodes,
        "bytes": report.bytes,
        "unnamed_files": report.unnamed.0,
        "unnamed_bytes": report.unnamed.1,
        "files": report.files,
        "damages": damages_json(&report.damages),
    }))
}
