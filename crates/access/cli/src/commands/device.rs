//! `device list`, `device remove`, `device rename`, `device compare`, `device accept`, and the entry to `device add`: manages the copies of a vault
//! with the right to change the vault's keys.

use std::io::Write;

use serde::Serialize;
use serde_json::json;
use strongroom::{Keys, Member, Vault, describe};

use super::info::ask;
use crate::arguments::common::Whole;
use crate::arguments::device::{
    DeviceAccept, DeviceCommand, DeviceList, DeviceRemove, DeviceRename,
};
use crate::commands::opening::{Intent, unlocking, with};
use crate::commands::pair::add;
use crate::terminal::failure::{About, Result};
use crate::terminal::output::{print_json, print_line, stdout};
use crate::terminal::printable::{show_path, with_name};
use crate::terminal::progress::while_keys_change;

/// Runs one of the device commands.
pub(crate) fn device(command: &DeviceCommand) -> Result<()> {
    match command {
        DeviceCommand::List(arguments) => list(arguments),
        DeviceCommand::Add(arguments) => add(arguments),
        DeviceCommand::Remove(arguments) => remove(arguments).about(show_path(&arguments.vault)),
        DeviceCommand::Rename(arguments) => rename(arguments),
        DeviceCommand::Compare(arguments) => compare(arguments),
        DeviceCommand::Accept(arguments) => accept(arguments),
    }
}

/// A device, as JSON shows it.
#[derive(Serialize)]
pub(super) struct DeviceJson<'a> {
    device: &'a str,
    /// What people call it; only who unlocked the vault knows.
    name: Option<&'a str>,
    /// Whether this copy acts as it; only who unlocked the vault knows.
    this: Option<bool>,
    added_in_record: u64,
    added_by: &'a str,
}

/// The devices among `members`. `verified`: whether it is known which one this copy acts as.
pub(super) fn devices(members: &[Member], verified: bool) -> Vec<DeviceJson<'_>> {
    let devices = members.iter().filter(|member| member.is_device);
    devices
        .map(|member| DeviceJson {
            device: &member.id,
            name: member.name.as_deref(),
            this: verified.then_some(member.is_this),
            added_in_record: member.added_in,
            added_by: &member.added_by,
        })
        .collect()
}

impl DeviceJson<'_> {
    /// What people read.
    pub(super) fn line(&self) -> String {
        let this = match self.this {
            Some(true) => ", this copy",
            _ => "",
        };
        let (record, by) = (self.added_in_record, self.added_by);
        let device = with_name(self.device, self.name);
        format!("{device}, added in record {record} by {by}{this}")
    }
}

fn rename(arguments: &DeviceRename) -> Result<()> {
    let (vault, common) = (&arguments.vault, &arguments.common);
    with(vault, &common.secret, Intent::Change, |vault| {
        let name = &arguments.name;
        let device = vault.rename_device(&arguments.id, name)?;
        let name = Some(name.as_str()).filter(|name| !name.is_empty());
        if common.json {
            return print_json(&json!({ "device": device, "name": name }));
        }
        print_line(&match name {
            Some(name) => format!("device {device} is called \"{name}\" now"),
            None => format!("device {device} has no name now"),
        })
    })
}

fn list(arguments: &DeviceList) -> Result<()> {
    let vault = &arguments.vault;
    let public = describe(vault).about(show_path(vault))?;
    let (_, verified) = ask(vault, arguments.unlock, &arguments.common.secret)?;
    let found = verified.as_ref();
    let members = found.map_or(&public.members, |found| &found.members);
    let unknown = found.map_or(&[][..], |found| &found.unknown_records);
    let devices = devices(members, found.is_some());
    if arguments.common.json {
        return print_json(&json!({
            // Whether this was proved by unlocking the vault.
            "verified": found.is_some(),
            "devices": devices,
            // Those that were not made here; only who unlocked the vault knows.
            "unknown_records": unknown,
        }));
    }
    let mut out = stdout();
    for device in &devices {
        writeln!(out, "{}", device.line())?;
    }
    for line in unknown {
        writeln!(out, "{line}")?;
    }
    Ok(out.flush()?)
}

fn remove(arguments: &DeviceRemove) -> Result<()> {
    // Before a person types a passphrase for nothing.
    describe(&arguments.vault)?;
    let vault = &arguments.vault;
    let mut keys = unlocking(&arguments.secret, vault, |source, trust| {
        Keys::open_with(vault, &source()?, trust.clone())
    })?;
    let change = || match &arguments.id {
        Some(id) => keys.remove_device(id),
        None => keys.renew_device(),
    };
    Ok(while_keys_change(vault, change)?)
}

fn compare(arguments: &Whole) -> Result<()> {
    let (vault, common) = (&arguments.vault, &arguments.common);
    with(vault, &common.secret, Intent::Read, |vault| {
        show_codes(vault, common.json)
    })
}

/// Shows the code of each remote.
fn show_codes(vault: &Vault, json: bool) -> Result<()> {
    let remotes = vault.remotes()?;
    if json {
        let all = remotes.iter().map(|one| {
            json!({
                "name": one.name,
                "publication": one.publications,
                "code": one.code,
            })
        });
        return print_json(&json!({ "remotes": all.collect::<Vec<_>>() }));
    }
    let mut out = stdout();
    if remotes.is_empty() {
        writeln!(out, "the vault has no remote")?;
    }
    for one in remotes {
        match one.publications {
            0 => writeln!(out, "{}: nothing pushed yet", one.name)?,
            number => writeln!(out, "{}: publication {number}, code {}", one.name, one.code)?,
        }
    }
    Ok(out.flush()?)
}

fn accept(arguments: &DeviceAccept) -> Result<()> {
    let vault = &arguments.vault;
    with(vault, &arguments.secret, Intent::Change, |vault| {
        Ok(vault.accept_records()?)
    })
}
