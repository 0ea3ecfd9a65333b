//! `info`: describes a vault. Most facts need no secret; facts that a secret has proved are marked.

use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde::Serialize;
use serde_json::{Map, Value, json};
use strongroom::{
    Attachment, Error, Information, LastSeen, OpenOptions, ProviderInUse, PublicInformation,
    RemoteStatus, SeenPlace, SeenRecords, Vault, describe, last_seen,
};

use super::device::{DeviceJson, devices};
use super::key::{SlotJson, slot_json};
use crate::arguments::Info;
use crate::arguments::common::SecretArguments;
use crate::commands::opening::{Intent, with};
use crate::commands::remote_status::{status_json, status_lines, statuses};
use crate::commands::secret;
use crate::terminal::failure::{About, Result};
use crate::terminal::output::{Exact, joined, path_json, print_json, show_bytes, stdout};
use crate::terminal::printable::{show, show_path};
use crate::terminal::time::{json_time, seconds, text_time};

/// Who has the vault open.
pub(super) enum Owner {
    None,
    /// A process that answers, and so proves it.
    Process(u32),
    /// One that does not answer.
    Silent,
}

#[derive(Serialize)]
struct InfoJson<'a> {
    /// Whether all this was proved by unlocking the vault.
    verified: bool,
    format: u64,
    fingerprint: &'a str,
    suite: &'a str,
    generation: u64,
    keys: Vec<SlotJson>,
    devices: Vec<DeviceJson<'a>>,
    /// Membership records that were not made here; only who unlocked the vault knows.
    unknown_records: &'a [String],
    epoch: Option<u32>,
    /// How what is new is compressed; only who unlocked the vault knows.
    compression: Option<&'a str>,
    /// Whether whoever can read a remote can try passphrases.
    guessable: bool,
    /// Bytes of content that only remotes have; only who unlocked the vault knows.
    away_bytes: Option<u64>,
    /// What this copy knows of each remote; only who unlocked the vault knows.
    remotes: Option<Vec<Value>>,
    /// Bytes of segments on this disk, and how many this device keeps at most; only who unlocked the vault knows.
    here_bytes: Option<u64>,
    keep_at_most_bytes: Option<u64>,
    compare_fingerprint: Option<bool>,
    read_only: Option<bool>,
    owner: &'static str,
    owner_pid: Option<u32>,
    mounts: Vec<Value>,
    /// Until when `strongroom unlock` holds the vault open.
    unlocked_until: Option<String>,
    /// In the process that has the vault open; if none has, in one that would open it here.
    providers: &'a [ProviderInUse],
    seen: Value,
}

/// What this user has seen of the vault: the folder of the records, none if nothing is kept; what was last seen in this folder, and
/// in all; fingerprints of vaults that were seen at this path, where this one was not.
fn seen_json(seen: &LastSeen) -> Value {
    let places: Vec<_> = seen.places.iter().map(place_json).collect();
    joined(
        named_json("kept_in", seen.kept_in.as_deref().map(bytes)),
        json!({
            "trouble": seen.trouble,
            "here": seen.here.as_ref().map(place_json),
            "places": places,
            "path_of_others": seen.path_of_others,
        }),
    )
}

fn place_json(place: &SeenPlace) -> Value {
    let copy_of = named_json("copy_of", place.copy_of.as_deref().map(bytes));
    let facts = json!({
        "time": json_time(seconds(place.seen_s)),
        "commits": place.commits,
        "generation": place.generation,
    });
    joined(joined(path_json(bytes(&place.path)), facts), copy_of)
}

fn mount_json(attachment: &Attachment) -> Value {
    joined(
        named_json("mount_point", Some(&attachment.mount_point)),
        named_json("log_file", attachment.log_file.as_deref()),
    )
}

/// `{NAME: path}`, null if there is none, and if it is not UTF-8, all of it in hex as `NAME_bytes`.
fn named_json(name: &str, path: Option<&[u8]>) -> Value {
    let path = path.map(Exact::new);
    let mut members = Map::new();
    if let Some(hex) = path.as_ref().and_then(|path| path.bytes.clone()) {
        members.insert(format!("{name}_bytes"), hex.into());
    }
    members.insert(name.to_owned(), path.map(|path| path.text).into());
    Value::Object(members)
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

/// Shows what a vault is.
pub(crate) fn info(arguments: &Info) -> Result<()> {
    if arguments.forget {
        return forget_path(arguments);
    }
    let public = describe(&arguments.vault).about(show_path(&arguments.vault))?;
    let (unlock, secret) = (arguments.unlock, &arguments.common.secret);
    let (owner, found) = ask_for(&arguments.vault, unlock, secret, |vault| {
        Ok((vault.information()?, statuses(vault)?))
    })?;
    let (verified, remotes) = found.unzip();
    let (verified, remotes) = (verified.as_ref(), remotes.as_deref());
    let seen =
        last_seen(&arguments.vault, &SeenRecords::OfUser).about(show_path(&arguments.vault))?;
    // Two answers about two states of the header, if it changed in between: then the verified one counts.
    if arguments.common.json {
        return print_json(&json(&public, &owner, (verified, remotes), &seen));
    }
    text(&public, &owner, (verified, remotes), &seen)
}

/// Forgets what was seen at the path of a vault.
fn forget_path(arguments: &Info) -> Result<()> {
    let forgotten = strongroom::forget(&arguments.vault, &SeenRecords::OfUser);
    let forgotten = forgotten.about(show_path(&arguments.vault))?;
    if arguments.common.json {
        return print_json(&json!({ "forgotten": forgotten }));
    }
    let mut out = stdout();
    match forgotten {
        true => writeln!(
            out,
            "forgotten: the next vault at this path is accepted without a comparison"
        )?,
        false => writeln!(out, "nothing was recorded for this path")?,
    }
    Ok(out.flush()?)
}

/// Who has the vault open, and what is known for certain.
pub(super) fn ask(
    vault: &Path,
    unlock: bool,
    arguments: &SecretArguments,
) -> Result<(Owner, Option<Information>)> {
    ask_for(vault, unlock, arguments, |vault| Ok(vault.information()?))
}

/// Who has the vault open, and what `look` finds in it if it can be opened.
fn ask_for<T>(
    vault: &Path,
    unlock: bool,
    arguments: &SecretArguments,
    look: impl Fn(&Vault) -> Result<T>,
) -> Result<(Owner, Option<T>)> {
    // Shown whatever it is: what was seen before is shown beside it.
    let mut options = OpenOptions::read_only();
    options.trust.seen = SeenRecords::Nowhere;
    match Vault::connect_if_owned(vault, options) {
        Ok(Some(vault)) => {
            let pid = vault.information()?.owner_pid;
            return Ok((Owner::Process(pid), Some(look(&vault)?)));
        }
        Ok(None) => {}
        Err(Error::OwnerUnreachable | Error::OtherVersion) => return Ok((Owner::Silent, None)),
        Err(error) => return Err(error).about(show_path(vault)),
    }
    if !unlock && !secret::is_given(arguments) {
        return Ok((Owner::None, None));
    }
    let mut found = None;
    with(vault, arguments, Intent::Read, |vault| {
        found = Some(look(vault)?);
        Ok(())
    })?;
    Ok((Owner::None, found))
}

fn json<'a>(
    public: &'a PublicInformation,
    owner: &Owner,
    (verified, remotes): (Option<&'a Information>, Option<&[RemoteStatus]>),
    seen: &LastSeen,
) -> InfoJson<'a> {
    let mounts = verified.iter().flat_map(|found| &found.attachments);
    InfoJson {
        verified: verified.is_some(),
        format: public.format,
        fingerprint: verified.map_or(&public.fingerprint, |found| &found.fingerprint),
        suite: verified.map_or(&public.suite, |found| &found.suite),
        generation: verified.map_or(public.generation, |found| found.generation),
        keys: public
            .slots
            .iter()
            .map(|slot| slot_json(slot, &public.members))
            .collect(),
        devices: devices(
            verified.map_or(&public.members, |found| &found.members),
            verified.is_some(),
        ),
        unknown_records: verified.map_or(&[], |found| &found.unknown_records),
        epoch: verified.map(|found| found.epoch),
        compression: verified.map(|found| found.compression.as_str()),
        guessable: verified.map_or(public.guessable, |found| found.guessable),
        away_bytes: verified.map(|found| found.away_bytes),
        remotes: remotes.map(|all| all.iter().map(status_json).collect()),
        here_bytes: verified.map(|found| found.here_bytes),
        keep_at_most_bytes: verified.and_then(|found| found.keep_at_most),
        compare_fingerprint: verified.map(|found| found.compare_fingerprint),
        read_only: verified.map(|found| found.read_only),
        owner: match owner {
            Owner::None => "none",
            Owner::Process(_) => "another process",
            Owner::Silent => "another process that does not answer",
        },
        owner_pid: match owner {
            Owner::Process(pid) => Some(*pid),
            _ => None,
        },
        mounts: mounts.map(mount_json).collect(),
        unlocked_until: verified
            .and_then(|found| found.held_open)
            .map(|held| json_time(seconds(held.until_s))),
        providers: verified.map_or(&public.providers, |found| &found.providers),
        seen: seen_json(seen),
    }
}

/// One line: each algorithm with its provider, apart for each work where they differ, and with the length from which another
/// takes over.
fn providers(entries: &[ProviderInUse]) -> String {
    let mut line = String::new();
    for entry in entries {
        let comma = if line.is_empty() { "" } else { ", " };
        line += &match entry.from_bytes {
            0 => {
                let work = entry.work.iter().map(|work| format!(" {work}"));
                let work: String = work.collect();
                format!("{comma}{}{work} by {}", entry.algorithm, entry.provider)
            }
            bytes => format!(" (from {} KiB by {})", bytes / 1024, entry.provider),
        };
    }
    line
}

/// What this user has seen of the vault, as lines.
fn tell_seen(out: &mut impl Write, seen: &LastSeen) -> Result<()> {
    let time = |place: &SeenPlace| text_time(seconds(place.seen_s));
    match (&seen.here, seen.places.last()) {
        (Some(here), _) => {
            let commits = here.commits.map(|commits| format!(", commit {commits}"));
            let commits = commits.unwrap_or_default();
            writeln!(out, "last seen    {}{commits}", time(here))?;
            if let Some(of) = &here.copy_of {
                writeln!(out, "copy of      {}", show_path(of))?;
            }
        }
        (None, Some(last)) => {
            writeln!(out, "last seen    {}, in another folder", time(last))?;
        }
        (None, None) => writeln!(out, "last seen    never by this user")?,
    }
    for place in &seen.places {
        writeln!(out, "known at     {}", show_path(&place.path))?;
    }
    for other in &seen.path_of_others {
        writeln!(
            out,
            "warning      another vault was seen at this path: {other}"
        )?;
    }
    let why = seen.trouble.as_deref().unwrap_or_default();
    match seen.kept_in.as_ref().map(show_path) {
        Some(folder) if why.is_empty() => writeln!(out, "record       {folder}")?,
        Some(folder) => writeln!(
            out,
            "record       {folder}; this vault's record cannot be used ({why}), so an older state of the vault would not be noticed"
        )?,
        None => writeln!(
            out,
            "record       none is kept on this machine ({why}): an older state of a vault would not be noticed"
        )?,
    }
    Ok(())
}

fn text(
    public: &PublicInformation,
    owner: &Owner,
    (verified, remotes): (Option<&Information>, Option<&[RemoteStatus]>),
    seen: &LastSeen,
) -> Result<()> {
    let found = json(public, owner, (verified, remotes), seen);
    let mut out = stdout();
    writeln!(out, "format       {}", found.format)?;
    writeln!(out, "fingerprint  {}", found.fingerprint)?;
    writeln!(out, "suite        {}", found.suite)?;
    writeln!(out, "providers    {}", providers(found.providers))?;
    writeln!(out, "generation   {}", found.generation)?;
    if let Some(epoch) = found.epoch {
        writeln!(out, "epoch        {epoch}")?;
    }
    if let Some(compression) = found.compression {
        writeln!(out, "compression  {compression}")?;
    }
    if let Some(bytes) = found.away_bytes.filter(|bytes| *bytes > 0) {
        let bytes = show_bytes(bytes);
        writeln!(out, "away         {bytes} of content are only at remotes")?;
    }
    if let (Some(limit), Some(here)) = (found.keep_at_most_bytes, found.here_bytes) {
        let (limit, here) = (show_bytes(limit), show_bytes(here));
        writeln!(out, "limit        {here} of at most {limit} are here")?;
    }
    let kinds: Vec<_> = found.keys.iter().map(|key| key.kind.as_str()).collect();
    writeln!(out, "keys         {}", kinds.join(", "))?;
    if found.guessable {
        writeln!(
            out,
            "guessable    anyone who can read a remote can try passphrases"
        )?;
    }
    for device in &found.devices {
        writeln!(out, "device       {}", device.line())?;
    }
    for line in found.unknown_records {
        writeln!(out, "membership   {line}")?;
    }
    for remote in remotes.unwrap_or_default() {
        let about = &remote.remote;
        writeln!(out, "remote       {}  {}", about.name, about.address)?;
        for line in status_lines(remote) {
            writeln!(out, "  {line}")?;
        }
    }
    match owner {
        Owner::None => writeln!(out, "open in      no process")?,
        Owner::Process(pid) => writeln!(out, "open in      process {pid}")?,
        Owner::Silent => writeln!(
            out,
            "open in      a process that does not answer: of another user, of another version, or on another machine"
        )?,
    }
    for attachment in verified.iter().flat_map(|found| &found.attachments) {
        writeln!(out, "mounted on   {}", show(&attachment.mount_point))?;
        if let Some(log) = &attachment.log_file {
            writeln!(out, "log          {}", show(log))?;
        }
    }
    if let Some(held) = verified.and_then(|found| found.held_open) {
        let until = text_time(seconds(held.until_s));
        writeln!(out, "unlocked     until {until}; `strongroom lock` ends it")?;
    }
    tell_seen(&mut out, seen)?;
    writeln!(
        out,
        "verified     {}",
        if found.verified {
            "yes, except the list of keys, which is read from the header unchecked"
        } else {
            "no: anyone who can write to the vault folder can change these values; --unlock, or an option that names the secret, verifies them"
        }
    )?;
    if found.compare_fingerprint == Some(true) {
        writeln!(
            out,
            "             compare the fingerprint with the one printed at init: anyone can make a vault that your key opens"
        )?;
    }
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    /// Goal: a path in JSON is there exactly, as text or as bytes. Failed before: without the bytes, and with a backslash as two.
    /// SECURITY.md, claim 15.
    #[test]
    fn a_path_is_exact_in_json() {
        let mounted = |log_file: Option<&[u8]>| {
            mount_json(&Attachment {
                mount_point: b"/a\\b\xff".to_vec(),
                log_file: log_file.map(<[u8]>::to_vec),
            })
        };
        let replaced = "/a\\b\u{fffd}";
        let hex = "2f615c62ff";
        assert_eq!(
            mounted(None),
            json!({ "mount_point": replaced, "mount_point_bytes": hex, "log_file": null })
        );
        assert_eq!(mounted(Some(b"/l\\"))["log_file"], "/l\\");
        let place = SeenPlace {
            path: OsStr::from_bytes(b"/a\\b\xff").into(),
            seen_s: 0,
            commits: None,
            generation: None,
            copy_of: Some("/c\\\u{a0}".into()),
        };
        let place = place_json(&place);
        assert_eq!(
            (&place["path"], &place["bytes"]),
            (&replaced.into(), &hex.into())
        );
        assert_eq!(place["copy_of"], "/c\\\u{a0}");
    }

    #[test]
    fn a_provider_that_takes_over_from_a_size_on_is_shown_with_it() {
        let entry = |algorithm: &str, provider: &str, from_bytes| ProviderInUse {
            algorithm: algorithm.to_owned(),
            work: None,
            provider: provider.to_owned(),
            from_bytes,
        };
        let entries = [
            entry("AES-256-GCM", "ring", 0),
            entry("AES-256-GCM", "aws-lc", 16 * 1024),
            entry("BLAKE3", "simd", 0),
        ];
        assert_eq!(
            providers(&entries),
            "AES-256-GCM by ring (from 16 KiB by aws-lc), BLAKE3 by simd"
        );
        let mut signing = entry("Ed25519", "dalek", 0);
        signing.work = Some("sign".to_owned());
        assert_eq!(providers(&[signing]), "Ed25519 sign by dalek");
    }
}
