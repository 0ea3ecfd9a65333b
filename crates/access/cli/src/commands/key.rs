//! `key add`, `key list`, `key remove`, `key change`: manage the keys that unlock a vault. `key rotate` is in `rotate.rs`.

use std::io::{IsTerminal, Write};
use std::path::Path;

use serde::Serialize;
use strongroom::{
    AddKey, AgeRecipient, Error, KeyFile, Keys, Member, NewKey, RecoveryCode, SlotId, SlotInfo,
    SlotKind, SystemRandom, describe, list_slots,
};

use super::device::devices;
use super::init::write_secret;
use super::rotate::rotate;
use crate::arguments::common::SecretArguments;
use crate::arguments::key::{KeyAdd, KeyChange, KeyCommand, KeyList, KeyRemove};
use crate::commands::opening::unlocking;
use crate::commands::secret;
use crate::terminal::exit_code::ExitCode;
use crate::terminal::failure::{About, Failure, Result, tell};
use crate::terminal::output::{print_json, stdout};
use crate::terminal::printable::show_path;
use crate::terminal::progress::while_keys_change;
use crate::terminal::prompt;
use crate::terminal::time::{json_time, seconds};

/// Runs one of the key commands.
pub(crate) fn key(command: &KeyCommand) -> Result<()> {
    match command {
        KeyCommand::Add(arguments) => add(arguments).about(show_path(&arguments.vault)),
        KeyCommand::List(arguments) => list(arguments).about(show_path(&arguments.vault)),
        KeyCommand::Remove(arguments) => remove(arguments).about(show_path(&arguments.vault)),
        KeyCommand::Change(arguments) => change(arguments).about(show_path(&arguments.vault)),
        KeyCommand::Rotate(arguments) => rotate(arguments).about(show_path(&arguments.vault)),
    }
}

fn open(vault: &Path, arguments: &SecretArguments) -> Result<Keys> {
    // Before a person types a passphrase for nothing.
    list_slots(vault)?;
    Ok(unlocking(arguments, vault, |source, trust| {
        Keys::open_with(vault, &source()?, trust.clone())
    })?)
}

#[derive(Serialize)]
pub(crate) struct SlotJson {
    key: String,
    pub(crate) kind: String,
    label: String,
    created: String,
    /// The membership record that added it, and who signed that.
    added_in_record: Option<u64>,
    added_by: Option<String>,
}

pub(crate) fn slot_json(slot: &SlotInfo, members: &[Member]) -> SlotJson {
    let key = slot.id.to_string();
    let member = members
        .iter()
        .find(|member| member.key.as_ref() == Some(&key));
    SlotJson {
        key,
        kind: slot.kind.to_string(),
        label: slot.label.clone(),
        created: json_time(seconds(slot.created_s)),
        added_in_record: member.map(|member| member.added_in),
        added_by: member.map(|member| member.added_by.clone()),
    }
}

fn list(arguments: &KeyList) -> Result<()> {
    let public = describe(&arguments.vault)?;
    let slots = public.slots.iter();
    let slots: Vec<_> = slots.map(|slot| slot_json(slot, &public.members)).collect();
    if arguments.json {
        return print_json(&slots);
    }
    let mut out = stdout();
    writeln!(
        out,
        "{:<16}  {:<14}  {:<10}  label",
        "key", "kind", "created"
    )?;
    for slot in slots {
        writeln!(
            out,
            "{:<16}  {:<14}  {:<10}  {}",
            slot.key,
            slot.kind,
            &slot.created[..10],
            slot.label
        )?;
    }
    for device in devices(&public.members, false) {
        writeln!(out, "device {}", device.line())?;
    }
    Ok(out.flush()?)
}

#[derive(Serialize)]
struct AddedJson<'a> {
    kind: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    recovery_code: Option<&'a str>,
}

fn add(arguments: &KeyAdd) -> Result<()> {
    let mut keys = open(&arguments.vault, &arguments.common.secret)?;
    let (kind, new, code) = new_key(arguments)?;
    let added = keys.add(&arguments.label, new);
    // After the other errors nothing was added.
    if matches!(added, Ok(()) | Err(Error::KeysChanged { .. })) {
        show_added(arguments, kind, code.as_ref())?;
    } else if let Some(path) = &arguments.new_key_file {
        // It opens nothing. That it cannot be removed would only hide the reason of the failure.
        let _ = std::fs::remove_file(path);
    }
    Ok(added?)
}

fn show_added(arguments: &KeyAdd, kind: &str, code: Option<&RecoveryCode>) -> Result<()> {
    let text = code.map(RecoveryCode::text);
    if arguments.common.json {
        return print_json(&AddedJson {
            kind,
            recovery_code: text.as_deref().map(String::as_str),
        });
    }
    let mut out = stdout();
    writeln!(out, "added: {kind}")?;
    if let Some(text) = text {
        writeln!(out, "recovery code  {}", *text)?;
        writeln!(
            out,
            "Write it down and keep it away from this machine: it is shown only now."
        )?;
    }
    Ok(out.flush()?)
}

fn new_key(arguments: &KeyAdd) -> Result<(&'static str, AddKey, Option<RecoveryCode>)> {
    let no_random =
        |error: &dyn std::fmt::Display| Failure::new(ExitCode::Other, error.to_string());
    if arguments.new_recovery_code {
        let code = RecoveryCode::random(&SystemRandom).map_err(|error| no_random(&error))?;
        return Ok((
            "recovery code",
            AddKey::Other(NewKey::RecoveryCode(code.clone())),
            Some(code),
        ));
    }
    if let Some(path) = &arguments.new_key_file {
        let key_file = KeyFile::random(&SystemRandom).map_err(|error| no_random(&error))?;
        write_secret(path, key_file.text().as_bytes())?;
        return Ok(("key file", AddKey::Other(NewKey::KeyFile(key_file)), None));
    }
    if let Some(text) = &arguments.recipient {
        let recipient =
            AgeRecipient::parse(text).map_err(|error| Failure::usage(error.to_string()))?;
        return Ok((
            "recipient",
            AddKey::Other(NewKey::Recipient(recipient)),
            None,
        ));
    }
    let vault = show_path(&arguments.vault);
    let passphrase = secret::new_passphrase(arguments.new_passphrase_file.as_deref(), &vault)?;
    Ok(("passphrase", AddKey::Passphrase(passphrase), None))
}

fn remove(arguments: &KeyRemove) -> Result<()> {
    let slots = list_slots(&arguments.vault)?;
    let slot = find(&slots, &arguments.key)?;
    confirm_last(&slots, slot)?;
    let mut keys = open(&arguments.vault, &arguments.secret)?;
    while_keys_change(&arguments.vault, || keys.remove(slot))?;
    tell_of_other_devices(&keys);
    Ok(())
}

/// Says where a key that was removed may open something yet.
fn tell_of_other_devices(keys: &Keys) {
    let others = keys.other_devices();
    if !others.is_empty() {
        tell(&format!(
            "strongroom: the vault has other devices: {}. Anyone who had the old key and could read the vault folder of one of these devices may \
             know the keys of that device. To replace them, run on that device `strongroom sync`, then `strongroom device remove` without an id, \
             then `strongroom sync`",
            others.join(", ")
        ));
    }
}

/// Says of the last passphrase that it is, and asks a person who sits there.
fn confirm_last(slots: &[SlotInfo], going: SlotId) -> Result<()> {
    let is_passphrase = |slot: &&SlotInfo| slot.kind == SlotKind::Passphrase;
    let mut passphrases = slots.iter().filter(is_passphrase);
    let is_last = passphrases.next().is_some_and(|slot| slot.id == going);
    if !is_last || passphrases.next().is_some() {
        return Ok(());
    }
    let mut left: Vec<String> = slots.iter().map(|slot| slot.kind.to_string()).collect();
    left.retain(|kind| *kind != SlotKind::Passphrase.to_string());
    left.dedup();
    let warning = format!(
        "this is the vault's last passphrase; without it only these open the vault: {}",
        left.join(", ")
    );
    if !std::io::stdin().is_terminal() {
        tell(&format!("strongroom: {warning}"));
        return Ok(());
    }
    match prompt::confirm(&format!("{warning}\nRemove it? [yes/no] "))? {
        true => Ok(()),
        false => Err(Failure::usage("not removed")),
    }
}

/// The slot whose name begins with `text`.
fn find(slots: &[SlotInfo], text: &str) -> Result<SlotId> {
    let text = text.to_ascii_lowercase();
    let found: Vec<_> = slots
        .iter()
        .filter(|slot| slot.id.to_string().starts_with(&text))
        .collect();
    match found.as_slice() {
        [] => Err(Failure::new(
            ExitCode::NotFound,
            "no such key; `strongroom key list` shows them",
        )),
        [slot] => Ok(slot.id),
        _ => {
            let ids: Vec<_> = found.iter().map(|slot| slot.id.to_string()).collect();
            Err(Failure::usage(format!(
                "{text:?} matches several keys: {}",
                ids.join(", ")
            )))
        }
    }
}

fn change(arguments: &KeyChange) -> Result<()> {
    let mut keys = open(&arguments.vault, &arguments.secret)?;
    let slots = keys.slots();
    let opened = slots
        .iter()
        .find(|slot| Some(slot.id) == keys.unlocked_by());
    // Unlocked by something else, as after forgetting the passphrase: the only passphrase is meant.
    let mut passphrases = slots
        .iter()
        .filter(|slot| slot.kind == SlotKind::Passphrase);
    let slot = match opened.filter(|slot| slot.kind == SlotKind::Passphrase) {
        Some(slot) => slot.id,
        None => match (passphrases.next(), passphrases.next()) {
            (Some(slot), None) => slot.id,
            (None, _) => {
                return Err(Failure::usage(
                    "the vault has no passphrase; add one with `strongroom key add`",
                ));
            }
            (Some(_), Some(_)) => {
                return Err(Failure::usage(
                    "the vault has several passphrases; unlock with the one to change",
                ));
            }
        },
    };
    let vault = show_path(&arguments.vault);
    let passphrase = secret::new_passphrase(arguments.new_passphrase_file.as_deref(), &vault)?;
    while_keys_change(&arguments.vault, || {
        keys.change_passphrase(slot, passphrase)
    })?;
    tell_of_other_devices(&keys);
    Ok(())
}
