//! Judges whether the end of a history is correct.
//!
//! Takes   devices that synced until nothing was left to publish, and the expected state
//! Gives   the first violation, with the number of the rule in the head of `sync.rs`
//! Never   changes anything, except that it accepts devices that other devices added, as a user does

use std::collections::{BTreeMap, BTreeSet};

use strongroom::filesystem::NodeKind;
use strongroom::{Error, GoOn, Links, VerifyOptions};

use crate::sync::contents::{Piece, Truth};
use crate::sync::device::Device;
use crate::sync::files::{Fail, nodes, pieces};

/// A tree: each path with what is there.
pub(crate) type Tree = BTreeMap<String, String>;

/// The rule that is broken.
pub(crate) fn words(fail: Fail) -> String {
    match fail {
        Fail::Vault(error) => format!("(1): reading: {error}"),
        Fail::Violation(why) => format!("(2): {why}"),
    }
}

/// What a device shows, and the pieces that are in it.
fn look(device: &Device, truth: &Truth) -> Result<(Tree, BTreeSet<Piece>), Fail> {
    let (mut tree, mut found) = (Tree::new(), BTreeSet::new());
    let vault = device.vault();
    for node in nodes(device)? {
        let is = &node.is;
        let mut what = format!(
            "{:?} {:o} {}:{} names {} mtime {} ctime {}",
            is.kind, is.mode, is.uid, is.gid, is.nlink, is.mtime.0, is.ctime.0
        );
        match is.kind {
            NodeKind::File => {
                let pieces = pieces(device, truth, &node.path)?;
                what += &format!(" {pieces:?}");
                found.extend(pieces);
            }
            NodeKind::Symlink => what += &format!(" to {:?}", vault.read_link(&*node.path)?),
            _ => {}
        }
        for name in vault.xattrs(&*node.path, Links::Stay)? {
            let value = vault.xattr(&*node.path, Links::Stay, &name)?;
            what += &format!(" {name:?}={value:?}");
        }
        tree.insert(node.path, what);
    }
    Ok((tree, found))
}

/// Whether somebody gave the last name in `path`, or a merge did. (2)
fn is_given(path: &str, truth: &Truth) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let mut name = name.to_owned();
    // A conflict name may come into a conflict again.
    while let Some((before, behind)) = name.rsplit_once(" (conflict") {
        let Some((_, extension)) = behind.split_once(')') else {
            return false;
        };
        name = format!("{before}{extension}");
    }
    truth.names.contains(&name) || path == "/moved"
}

/// The same, if all of it was written by somebody.
fn shown(device: &Device, truth: &Truth) -> Result<(Tree, BTreeSet<Piece>), String> {
    let (tree, found) = look(device, truth).map_err(words)?;
    match tree.keys().find(|path| !is_given(path, truth)) {
        None => Ok((tree, found)),
        Some(path) => {
            let number = device.number;
            Err(format!(
                "(2): nobody gave the name {path} on device {number}"
            ))
        }
    }
}

/// What a device shows, if it is sound by itself, whatever its remote is.
pub(crate) fn intact(device: &Device, truth: &Truth) -> Result<(Tree, BTreeSet<Piece>), String> {
    sound_while_away(device)?;
    let shown = shown(device, truth)?;
    sound_alone(device).map_err(|why| format!("(5): device {}: {why}", device.number))?;
    Ok(shown)
}

/// What is away is no damage, and no remote is asked for it: reading brings it back. (5)
pub(crate) fn sound_while_away(device: &Device) -> Result<(), String> {
    let away = || device.vault().information().map(|now| now.away_bytes);
    let before = away().map_err(|error| format!("(1): {error}"))?;
    if before == 0 {
        return Ok(());
    }
    let number = device.number;
    sound_alone(device)
        .map_err(|why| format!("(5): device {number} with content that is away: {why}"))?;
    match away().map_err(|error| format!("(1): {error}"))? {
        after if after == before => Ok(()),
        after => Err(format!(
            "(5): a verification on device {number} fetched what is away: {before} bytes before, {after} behind"
        )),
    }
}

/// Judges the devices that are members, all of which have the same by now.
pub(crate) fn judge(devices: &[&Device], truth: &Truth) -> Result<(), String> {
    let mut first: Option<(&Device, Tree)> = None;
    for device in devices {
        sound_while_away(device)?;
        let (tree, found) = shown(device, truth)?;
        let lost: Vec<&Piece> = (truth.published.difference(&truth.removed))
            .filter(|piece| !found.contains(piece))
            .collect();
        if !lost.is_empty() {
            let number = device.number;
            return Err(format!("(4): device {number} has lost the pieces {lost:?}"));
        }
        if let Some((other, like)) = &first {
            let differs = |path: &&String| tree.get(*path) != like.get(*path);
            if let Some(path) = tree.keys().chain(like.keys()).find(differs) {
                return Err(format!(
                    "(3): {path} differs on devices {} and {}: {:?} and {:?}",
                    other.number,
                    device.number,
                    like.get(path),
                    tree.get(path)
                ));
            }
        } else {
            first = Some((device, tree));
        }
        sound(device).map_err(|why| format!("(5): device {}: {why}", device.number))?;
    }
    judge_guessing(devices)
}

/// (3), for the setting `remote guessable`.
fn judge_guessing(devices: &[&Device]) -> Result<(), String> {
    let mut all = Vec::new();
    for device in devices {
        all.push((device.guessable_changes()?, device.said, device.number));
    }
    let least = devices.iter().map(|device| device.said).max();
    match all
        .iter()
        .any(|one| Some(one.0) < least || one.0 != all[0].0)
    {
        false => Ok(()),
        true => Err(format!(
            "(3): the setting `remote guessable` that devices set is not the one in force (changes of the setting, changes when the device set it, \
             device): {all:?}"
        )),
    }
}

fn failed(what: &'static str) -> impl Fn(Error) -> String {
    move |error| format!("{what}: {error}")
}

/// (5), without the remote.
fn sound_alone(device: &Device) -> Result<(), String> {
    let vault = device.vault();
    vault
        .accept_records()
        .map_err(failed("accepting devices"))?;
    let deep = VerifyOptions {
        deep: true,
        resume: false,
    };
    let verified = vault
        .verify(deep, &mut |_| GoOn::Yes)
        .map_err(failed("verify"))?;
    if !verified.is_sound() {
        return Err(format!("verify --deep: {verified:?}"));
    }
    let checked = vault.check().map_err(failed("check"))?;
    match checked.problems.first() {
        None => Ok(()),
        Some(problem) => Err(format!("check: {problem}")),
    }
}

/// (5)
fn sound(device: &Device) -> Result<(), String> {
    sound_alone(device)?;
    let vault = device.vault();
    let remote = vault.check_remote(device.remote, true, &mut |_| GoOn::Yes);
    let remote = remote.map_err(failed("remote check"))?;
    if let Some(problem) = remote.problems.first() {
        return Err(format!("remote check: {problem}"));
    }
    match vault.rotation().map_err(failed("rotation"))? {
        rotation if rotation.is_running => Err(format!("old keys stay: {rotation:?}")),
        _ => Ok(()),
    }
}
