//! `sync --watch` and `mount --sync`: keep a vault in sync with its remotes, and report the state of the sync.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::json;
use strongroom::{SyncEvent, SyncReport, Vault};

use crate::arguments::remote::Sync;
use crate::commands::remote::{
    evicted_json, pull_json, push_json, show_evicted, show_pull, show_push,
};
use crate::terminal::failure::{Failure, Result, tell};
use crate::terminal::interrupt;
use crate::terminal::output::{counted, print_json_line, print_line, show_bytes};
use crate::terminal::progress::Meter;

/// How often a mount asks a remote while nothing happens.
const MOUNT_ASKS_EVERY: Duration = Duration::from_secs(30);

/// How often is looked whether the user wants to end it.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Keeps the vault in sync until interrupted.
pub(crate) fn watch(vault: &Vault, arguments: &Sync) -> Result<()> {
    let json = arguments.moved.common.json;
    if vault.remotes()?.is_empty() {
        return Err(Failure::usage(
            "the vault has no remote; `strongroom remote add` adds one",
        ));
    }
    let (sender, events) = channel();
    let running = vault.keep_in_sync(arguments.every, move |event| {
        // Nobody listens any more when it ends anyway.
        let _ = sender.send(event);
    })?;
    let mut meter = None;
    let ended = loop {
        if interrupt::came() {
            break Ok(());
        }
        match events.recv_timeout(LOOK_EVERY) {
            Ok(SyncEvent::Moving { progress, .. }) if !json => {
                let meter =
                    meter.get_or_insert_with(|| Meter::new(arguments.moved.quiet, "in sync"));
                meter.show(progress.bytes, progress.bytes_total);
            }
            Ok(SyncEvent::Ended { error }) => break Err(error.into()),
            Ok(event) => {
                drop(meter.take());
                let said = match json {
                    true => say_json(&event),
                    false => say(&event),
                };
                if said.is_err() {
                    break said;
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break Ok(()),
        }
    };
    drop(meter);
    drop(running);
    ended
}

fn say(event: &SyncEvent) -> Result<()> {
    match event {
        SyncEvent::Synced { remote, report } => {
            let pulled = &report.pulled;
            let has_others = pulled.received > 0 || !pulled.deposit_problems.is_empty();
            if pulled.publications > 0 || has_others {
                show_pull(remote, &report.pulled)?;
            }
            if report.pushed.publications > 0 {
                show_push(remote, &report.pushed)?;
            }
            show_evicted(report)?;
        }
        SyncEvent::Failed {
            remote,
            error,
            again_in,
        } => tell(&format!(
            "strongroom: {remote}: {error}; the next try is in {} s",
            again_in.as_secs()
        )),
        SyncEvent::Recovered { remote } => print_line(&format!("{remote} works again"))?,
        _ => {}
    }
    Ok(())
}

fn say_json(event: &SyncEvent) -> Result<()> {
    let value = match event {
        SyncEvent::Moving { remote, progress } => json!({
            "event": "moving",
            "remote": remote,
            "bytes": progress.bytes,
            "bytes_total": progress.bytes_total,
        }),
        SyncEvent::Synced { remote, report } => json!({
            "event": "synced",
            "remote": remote,
            "pulled": pull_json(remote, &report.pulled),
            "pushed": push_json(remote, &report.pushed),
            "evicted": evicted_json(report),
        }),
        SyncEvent::Failed {
            remote,
            error,
            again_in,
        } => json!({
            "event": "failed",
            "remote": remote,
            "error": error.to_string(),
            "again_in_s": again_in.as_secs(),
        }),
        SyncEvent::Recovered { remote } => json!({ "event": "recovered", "remote": remote }),
        _ => return Ok(()),
    };
    print_json_line(&value)
}

/// Keeps the vault of a mount in sync, and logs what happens.
pub(crate) fn of_mount(vault: &Vault) -> Result<strongroom::ContinuousSync> {
    if vault.remotes()?.is_empty() {
        log::warn!(
            "the vault has no remote to sync with; add one with `strongroom remote add`, also while it is mounted"
        );
    }
    Ok(vault.keep_in_sync(MOUNT_ASKS_EVERY, |event| log(&event))?)
}

/// A log names no file.
fn log(event: &SyncEvent) {
    match event {
        SyncEvent::Synced { remote, report } => {
            let SyncReport { pulled, pushed, .. } = report;
            log::info!(
                "remote {remote}: pulled {} with {}, pushed {} with {}",
                counted(pulled.objects, "object"),
                show_bytes(pulled.bytes),
                counted(pushed.objects, "object"),
                show_bytes(pushed.bytes)
            );
            if report.evicted_segments > 0 {
                log::info!(
                    "remote {remote}: evicted {} in {}, for the limit of this device",
                    show_bytes(report.evicted_bytes),
                    counted(report.evicted_segments, "segment")
                );
            }
            if pulled.merged > 0 {
                log::info!(
                    "remote {remote}: {} merged: changed here and on another device, in different lines",
                    counted(pulled.merged, "file")
                );
            }
            if pulled.conflicts > 0 {
                log::warn!(
                    "remote {remote}: {} in conflict: changed here and on another device; both versions are kept, one with \"conflict\" in its name",
                    counted(pulled.conflicts, "file")
                );
            }
            if pulled.received > 0 {
                log::info!(
                    "remote {remote}: {} deposited by others",
                    counted(pulled.received, "file")
                );
            }
            for problem in &pulled.deposit_problems {
                log::warn!("remote {remote}: {problem}");
            }
        }
        SyncEvent::Failed {
            remote,
            error,
            again_in,
        } => log::warn!(
            "remote {remote}: {error}; the next try is in {} s",
            again_in.as_secs()
        ),
        SyncEvent::Recovered { remote } => log::info!("remote {remote} works again"),
        SyncEvent::Ended { error } => log::error!("the vault is no longer kept in sync: {error}"),
        _ => {}
    }
}
