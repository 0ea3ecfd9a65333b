//! What this copy of a vault knows of its remotes, as `info` and `remote list` show it.

use serde_json::{Value, json};
use strongroom::{DevicePublication, Error, RemoteStatus, Removal, Vault};

use crate::terminal::failure::Result;
use crate::terminal::output::{counted, show_bytes};
use crate::terminal::printable::with_name;
use crate::terminal::time::{json_time, seconds, text_time};

/// The state of each remote of the vault.
pub(super) fn statuses(vault: &Vault) -> Result<Vec<RemoteStatus>> {
    let mut all = Vec::new();
    for one in vault.remotes()? {
        match vault.remote_status(&one.name) {
            // Somebody removed it meanwhile.
            Err(Error::UnknownRemote(_)) => {}
            status => all.push(status?),
        }
    }
    Ok(all)
}

/// The state of a remote, as JSON.
pub(super) fn status_json(status: &RemoteStatus) -> Value {
    let remote = &status.remote;
    let device = |one: &DevicePublication| {
        json!({
            "device": one.device,
            "name": one.name,
            "this": one.is_this,
            "publication": one.number,
            "time": json_time(seconds(one.time_s)),
        })
    };
    json!({
        "name": remote.name,
        "address": remote.address,
        "publications": remote.publications,
        "code": remote.code,
        "objects": remote.objects,
        "keep": remote.removal == Removal::Never,
        "waiting": status.is_waiting,
        "waiting_bytes": status.waiting_bytes,
        // Null: not known, as the snapshot that was pushed last is not kept.
        "waiting_files": status.waiting_files,
        "away_bytes": status.away_bytes,
        "only_there_bytes": status.alone_bytes,
        "last_contact": status.contact_s.map(|at_s| json_time(seconds(at_s))),
        "devices": status.newest.iter().map(device).collect::<Vec<_>>(),
    })
}

/// The state of a remote in lines, without its name.
pub(super) fn status_lines(status: &RemoteStatus) -> Vec<String> {
    let remote = &status.remote;
    let mut lines = vec![match remote.publications {
        0 => "published    nothing yet".to_owned(),
        number => format!("published    {number}, code {}", remote.code),
    }];
    let bytes = show_bytes(status.waiting_bytes);
    lines.push(match (status.is_waiting, status.waiting_files) {
        (false, _) => "to push      nothing".to_owned(),
        (true, Some(files)) => format!("to push      {}, {bytes}", counted(files, "file")),
        (true, None) => format!("to push      {bytes}"),
    });
    if status.away_bytes > 0 {
        let (there, only) = (show_bytes(status.away_bytes), status.alone_bytes);
        lines.push(match only == status.away_bytes {
            true => format!("evicted      {there} of content, all of it only there"),
            false => format!(
                "evicted      {there} of content, {} of it only there",
                show_bytes(only)
            ),
        });
    }
    lines.push(match status.contact_s {
        Some(at_s) => format!("contact      {}", text_time(seconds(at_s))),
        None => "contact      not known".to_owned(),
    });
    for one in status.newest.iter().filter(|one| !one.is_this) {
        let time = text_time(seconds(one.time_s));
        let (device, number) = (with_name(&one.device, one.name.as_deref()), one.number);
        lines.push(format!(
            "device       {device}, publication {number}, {time}"
        ));
    }
    lines
}
