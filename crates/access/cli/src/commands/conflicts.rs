//! `conflicts`: lists files that are kept twice because two devices changed them, and keeps the one that the user chooses.

use std::io::Write;
use std::path::Path;

use crate::arguments::common::Common;
use crate::arguments::conflicts::{Conflicts, ConflictsCommand, KeepConflicts, Which};
use crate::commands::opening::{Intent, same_vault, with};
use crate::terminal::failure::{About, Failure, Failures, Result};
use crate::terminal::output::{counted, joined, path_json, print_json, show_bytes, sparse, stdout};
use crate::terminal::printable::{show, with_name};
use crate::terminal::progress::Meter;
use crate::terminal::time::{json_time, text_minute};
use serde_json::{Value, json};
use strongroom::filesystem::Attributes;
use strongroom::{Conflict, Keep, Member};

/// Lists, or carries out a choice.
pub(crate) fn conflicts(arguments: &Conflicts) -> Result<()> {
    match (&arguments.command, &arguments.vault) {
        (Some(ConflictsCommand::Keep(choice)), _) => keep(choice),
        (None, Some(vault)) => list(vault, &arguments.common, arguments.quiet),
        (None, None) => Err(Failure::usage("no vault named; see --help")),
    }
}

fn list(vault: &Path, common: &Common, quiet: bool) -> Result<()> {
    with(vault, &common.secret, Intent::Read, |vault| {
        let mut meter = Meter::new(quiet, "");
        let found = vault.conflicts(&mut |names| meter.count(counted(names, "name") + " checked"));
        drop(meter);
        let (found, members) = (found?, vault.information()?.members);
        if common.json {
            let name = |one: &Conflict| name_of(&members, &one.device);
            let shown = found.iter().map(|one| conflict_json(one, name(one)));
            let all: Vec<Value> = shown.collect();
            return print_json(&json!({ "conflicts": all }));
        }
        let mut out = stdout();
        for one in &found {
            writeln!(out, "{}", show(&one.path))?;
            let device = with_name(&one.device, name_of(&members, &one.device));
            let when = format!("device {device}, {} UTC", one.time);
            writeln!(out, "  copy       {}  ({when})", about(&one.copy))?;
            match &one.published {
                Some(node) => writeln!(out, "  published  {}  {}", about(node), show(&one.beside))?,
                None => writeln!(out, "  published  {} no longer exists", show(&one.beside))?,
            }
        }
        match found.len() as u64 {
            0 => writeln!(out, "no conflicts")?,
            count => writeln!(
                out,
                "{}; settle each with `strongroom conflicts keep mine|theirs|both`",
                counted(count, "conflict")
            )?,
        }
        Ok(out.flush()?)
    })
}

fn about(node: &Attributes) -> String {
    let changed = text_minute(node.mtime);
    format!("{:>10}  changed {changed}", show_bytes(node.size))
}

/// The name of the one device whose id begins so.
fn name_of<'a>(members: &'a [Member], device: &str) -> Option<&'a str> {
    let is_it = |member: &&Member| member.is_device && member.id.starts_with(device);
    let mut found = members.iter().filter(is_it);
    match (found.next(), found.next()) {
        (Some(only), None) => only.name.as_deref(),
        _ => None,
    }
}

fn conflict_json(one: &Conflict, name: Option<&str>) -> Value {
    let node = |node: &Attributes| json!({ "size": node.size, "mtime": json_time(node.mtime) });
    let about = json!({
        "device": one.device,
        "device_name": name,
        "time": format!("{}Z", one.time.replace(' ', "T").replace('.', ":")),
        "copy": node(&one.copy),
        "beside": path_json(&one.beside),
        "published": one.published.as_ref().map(node),
    });
    joined(path_json(&one.path), sparse(about))
}

fn keep(arguments: &KeepConflicts) -> Result<()> {
    let vault = same_vault(&arguments.places)?;
    let choice = match arguments.which {
        Which::Mine => Keep::Mine,
        Which::Theirs => Keep::Theirs,
        Which::Both => Keep::Both,
    };
    let common = &arguments.common;
    with(vault, &common.secret, Intent::ChangeFiles, |vault| {
        let mut failures = Failures::default();
        let mut ended = Vec::new();
        for place in &arguments.places {
            match vault.settle_conflict(&place.path, choice) {
                Ok(kept) => ended.push((&place.path, kept)),
                Err(error) => failures.note(Err(error).about(place.shown())),
            }
        }
        if common.json {
            let line = |(path, kept): &(&Vec<u8>, Vec<u8>)| {
                joined(path_json(path), json!({ "kept": path_json(kept) }))
            };
            print_json(&json!({ "ended": ended.iter().map(line).collect::<Vec<_>>() }))?;
        } else {
            let mut out = stdout();
            for (_, kept) in &ended {
                writeln!(out, "kept as {}", show(kept))?;
            }
            out.flush()?;
        }
        failures.end()
    })
}
