//! `evict` removes local content that a remote has. `pin` fetches content and keeps it on this disk. `unpin` undoes `pin`.

use serde_json::json;
use strongroom::{BringBackReport, EvictReport, Vault};

use crate::arguments::location::Location;
use crate::arguments::remote::{Evict, Pin, Unpin};
use crate::arguments::size::NewQuota;
use crate::commands::opening::{Intent, with};
use crate::terminal::exit_code::ExitCode;
use crate::terminal::failure::{About, Failure, Result, tell};
use crate::terminal::interrupt;
use crate::terminal::output::{counted, path_json, print_json, print_line, show_bytes};
use crate::terminal::printable::show;
use crate::terminal::progress::Meter;

/// Lets content go, or brings it back.
pub(crate) fn evict(arguments: &Evict) -> Result<()> {
    interrupt::watch()?;
    let Location { vault, path, .. } = &arguments.place;
    let path = (path != b"/").then_some(path.as_slice());
    let secret = &arguments.common.secret;
    if arguments.keep_at_most.is_some() && path.is_some() {
        return Err(Failure::usage(
            "the limit is for the whole vault; give the vault folder without a path",
        ));
    }
    with(vault, secret, Intent::Change, |vault| {
        match (arguments.keep_at_most, arguments.undo) {
            (Some(NewQuota(limit)), _) => keep_at_most(vault, limit, arguments),
            (None, true) => bring_back(vault, path, arguments),
            (None, false) => let_go(vault, path, arguments),
        }
    })
}

fn let_go(vault: &Vault, path: Option<&[u8]>, arguments: &Evict) -> Result<()> {
    let place = show(path.unwrap_or(b"/"));
    check_remotes(vault)?;
    let mut meter = Meter::new(arguments.quiet, "evicted");
    let report = vault.evict(path, &mut |progress| {
        meter.show(progress.bytes, progress.bytes_total);
        interrupt::go_on()
    });
    drop(meter);
    let report = report.about(place)?;
    for problem in &report.problems {
        tell(&format!("strongroom: {problem}"));
    }
    match arguments.common.json {
        true => print_json(&json!({
            "segments": report.segments,
            "bytes": report.bytes,
            "kept": report.kept,
            "kept_bytes": report.kept_bytes,
            "pinned": report.pinned,
            "pinned_bytes": report.pinned_bytes,
            "problems": report.problems,
            "stopped": report.is_stopped,
        }))?,
        false => print_line(&told(&report))?,
    }
    ended(&report)
}

fn check_remotes(vault: &Vault) -> Result<()> {
    match vault.remotes()?.is_empty() {
        true => Err(Failure::usage(
            "the vault has no remote that could keep the content; `strongroom remote add` adds one",
        )),
        false => Ok(()),
    }
}

/// Sets the limit of this device, and evicts what is above it.
fn keep_at_most(vault: &Vault, limit: Option<u64>, arguments: &Evict) -> Result<()> {
    if limit.is_some() {
        check_remotes(vault)?;
    }
    vault.set_keep_at_most(limit)?;
    let mut meter = Meter::new(arguments.quiet, "evicted");
    let report = vault.evict_to_limit(&mut |progress| {
        meter.show(progress.bytes, progress.bytes_total);
        interrupt::go_on()
    });
    drop(meter);
    let report = report?;
    for problem in &report.problems {
        tell(&format!("strongroom: {problem}"));
    }
    let here = vault.information()?.here_bytes;
    match arguments.common.json {
        true => print_json(&json!({
            "keep_at_most_bytes": limit,
            "here_bytes": here,
            "segments": report.segments,
            "bytes": report.bytes,
            "problems": report.problems,
            "stopped": report.is_stopped,
        }))?,
        false => print_line(&limited(&report, limit, here))?,
    }
    ended(&report)
}

fn limited(report: &EvictReport, limit: Option<u64>, here: u64) -> String {
    let Some(limit) = limit else {
        return "this device has no limit now; `strongroom evict --undo` fetches evicted content"
            .to_owned();
    };
    let now = format!(
        "evicted {} in {}; this device has {} now, and keeps at most {}",
        show_bytes(report.bytes),
        counted(report.segments, "segment"),
        show_bytes(here),
        show_bytes(limit)
    );
    match here > limit {
        true => format!(
            "{now}\nThe rest stays for now: it is pinned, was read last, or no remote lists it. Each sync tries again"
        ),
        false => now,
    }
}

/// What an eviction ends with.
fn ended(report: &EvictReport) -> Result<()> {
    if report.is_stopped {
        return Err(Failure::new(
            ExitCode::Other,
            "interrupted; nothing is lost: evicted content is at a remote, the rest is still here. Run the same command again to continue",
        ));
    }
    match report.problems.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(
            ExitCode::Unreachable,
            "some content could not be evicted, for the reasons above; it stays here",
        )),
    }
}

fn told(report: &EvictReport) -> String {
    let went = format!(
        "evicted {} in {}; reading the content fetches it from a remote again",
        show_bytes(report.bytes),
        counted(report.segments, "segment")
    );
    let went = match report.pinned {
        0 => went,
        pinned => format!(
            "{went}\n{} in {} stay, because these segments have pinned content",
            show_bytes(report.pinned_bytes),
            counted(pinned, "segment")
        ),
    };
    match report.kept {
        0 => went,
        kept => format!(
            "{went}\n{} in {} stay, because no remote lists them; `strongroom push` uploads what is missing",
            show_bytes(report.kept_bytes),
            counted(kept, "segment")
        ),
    }
}

fn bring_back(vault: &Vault, path: Option<&[u8]>, arguments: &Evict) -> Result<()> {
    let place = show(path.unwrap_or(b"/"));
    let mut meter = Meter::new(arguments.quiet, "fetched");
    let report = vault.bring_back(path, &mut |progress| {
        meter.show(progress.bytes, progress.bytes_total);
        interrupt::go_on()
    });
    drop(meter);
    brought(report.about(place)?, arguments.common.json)
}

/// Brings content here and keeps it, or lists what is kept.
pub(crate) fn pin(arguments: &Pin) -> Result<()> {
    interrupt::watch()?;
    let Location { vault, path, .. } = &arguments.place;
    let (secret, json) = (&arguments.common.secret, arguments.common.json);
    if arguments.list {
        return with(vault, secret, Intent::Read, |vault| list_pins(vault, json));
    }
    with(vault, secret, Intent::Change, |vault| {
        let mut meter = Meter::new(arguments.quiet, "fetched");
        let report = vault.pin(path, &mut |progress| {
            meter.show(progress.bytes, progress.bytes_total);
            interrupt::go_on()
        });
        drop(meter);
        brought(report.about(show(path))?, json)
    })
}

fn list_pins(vault: &Vault, json: bool) -> Result<()> {
    let pins = vault.pins()?;
    if json {
        let pins: Vec<_> = pins.iter().map(|path| path_json(path)).collect();
        return print_json(&json!({ "pinned": pins }));
    }
    for path in pins {
        print_line(&show(&path))?;
    }
    Ok(())
}

/// Lets `evict` take it again.
pub(crate) fn unpin(arguments: &Unpin) -> Result<()> {
    let Location { vault, path, .. } = &arguments.place;
    with(vault, &arguments.common.secret, Intent::Change, |vault| {
        let was_pinned = vault.unpin(path).about(show(path))?;
        if !was_pinned {
            return Err(Failure::new(
                ExitCode::NotFound,
                format!(
                    "{} is not pinned; `strongroom pin --list` shows all pinned paths",
                    show(path)
                ),
            ));
        }
        match arguments.common.json {
            true => print_json(&json!({ "unpinned": path_json(path) })),
            false => Ok(()),
        }
    })
}

fn brought(report: BringBackReport, json: bool) -> Result<()> {
    let BringBackReport {
        segments,
        bytes,
        lost,
        lost_bytes,
        is_stopped,
    } = report;
    match json {
        true => print_json(&json!({
            "segments": segments,
            "bytes": bytes,
            "lost": lost,
            "lost_bytes": lost_bytes,
            "stopped": is_stopped,
        }))?,
        false => print_line(&format!(
            "fetched {} in {}",
            show_bytes(bytes),
            counted(segments, "segment")
        ))?,
    }
    match lost {
        0 if is_stopped => Err(Failure::new(
            ExitCode::Other,
            "interrupted; fetched content stays here, the rest is still at the remote. Run the same command again to continue",
        )),
        0 => Ok(()),
        lost => Err(Failure::new(
            ExitCode::Damaged,
            format!(
                "no remote has {} in {} any more; `strongroom verify` names the affected files. When a remote has these segments again, \
                 `strongroom repair` fetches them",
                show_bytes(lost_bytes),
                counted(lost, "segment")
            ),
        )),
    }
}
