//! `erase`: removes content from every snapshot.

use std::io::Write;

use serde_json::json;
use strongroom::ErasedContent;

use crate::arguments::history::Erase;
use crate::commands::opening::{Intent, with};
use crate::terminal::exit_code::ExitCode;
use crate::terminal::failure::{About, Failure, Result};
use crate::terminal::output::{counted, print_json, show_bytes, stdout};

/// Takes the content of a path out of every snapshot.
pub(crate) fn erase(arguments: &Erase) -> Result<()> {
    let (place, common) = (&arguments.place, &arguments.common);
    let intent = match arguments.dry_run {
        true => Intent::Read,
        false => Intent::Change,
    };
    with(&place.vault, &common.secret, intent, |vault| {
        let erased = vault
            .erase(&place.path, arguments.dry_run)
            .about(place.shown())?;
        if common.json {
            print_json(&json!({
                "erased": !arguments.dry_run,
                "snapshots": erased.states,
                "files": erased.files,
                "bytes": erased.bytes,
                "shared_bytes": erased.shared_bytes,
                "segments_left": erased.segments_left,
            }))?;
        } else {
            show(&erased, arguments.dry_run)?;
        }
        match erased.segments_left {
            0 => Ok(()),
            left => Err(Failure::new(
                ExitCode::Damaged,
                format!(
                    "the content could not be erased from {}, because other blocks in the same segment are damaged or cannot be fetched \
                     from a remote; `strongroom verify` names damaged files; repair them, then erase again",
                    counted(left, "segment")
                ),
            )),
        }
    })
}

fn show(erased: &ErasedContent, trial: bool) -> Result<()> {
    let mut out = stdout();
    let verb = match trial {
        true => "would be erased",
        false => "erased",
    };
    writeln!(
        out,
        "{} of {} in {} {verb}",
        show_bytes(erased.bytes),
        counted(erased.files, "file"),
        counted(erased.states, "snapshot")
    )?;
    if erased.shared_bytes > 0 {
        writeln!(
            out,
            "{} stay, because other files have the same content",
            show_bytes(erased.shared_bytes)
        )?;
    }
    if !trial && erased.bytes > 0 {
        writeln!(
            out,
            "earlier copies of the vault folder still have the content: remove them"
        )?;
    }
    Ok(out.flush()?)
}
