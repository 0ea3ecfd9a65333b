//! `snapshot`, `log` and `restore`: take, list and restore snapshots of the whole vault.

use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde_json::{Value, json};
use strongroom::filesystem::{Attributes, Error as FileError, InodeId};
use strongroom::{Links, NewRevision, Restored, RevisionId, RevisionInfo, Vault};

use crate::arguments::common::Common;
use crate::arguments::history::{
    Log, Restore, SnapshotCommand, SnapshotCreate, SnapshotList, SnapshotRemove,
};
use crate::commands::dates::in_utc;
use crate::commands::opening::{Intent, with};
use crate::terminal::failure::{About, Failures, Result};
use crate::terminal::output::{
    JsonArray, hex, joined, path_json, print_json, show_bytes, sparse, stdout,
};
use crate::terminal::printable::show;
use crate::terminal::time::{json_time, text_day, text_time};

use super::retention;

/// How much of an id people are shown: enough to be the only one, and to be typed.
pub(crate) const SHORT_ID: usize = 16;

pub(crate) fn revision_json(revision: &RevisionInfo) -> Value {
    let parents = revision.parents.iter().map(ToString::to_string);
    json!({
        "id": revision.id.to_string(),
        "parents": parents.collect::<Vec<_>>(),
        "device": hex(&revision.device),
        "sequence": revision.sequence,
        "time": json_time(revision.time),
        "message": revision.message,
        "tags": revision.tags,
    })
}

/// Runs `snapshot …`.
pub(crate) fn snapshot(command: &SnapshotCommand) -> Result<()> {
    match command {
        SnapshotCommand::Create(arguments) => create(arguments),
        SnapshotCommand::List(arguments) => list(arguments),
        SnapshotCommand::Remove(arguments) => remove(arguments),
        SnapshotCommand::Keep(arguments) => retention::keep(arguments),
    }
}

fn on(
    vault: &Path,
    common: &Common,
    intent: Intent,
    work: impl FnOnce(&Vault) -> Result<()>,
) -> Result<()> {
    with(vault, &common.secret, intent, work)
}

fn create(arguments: &SnapshotCreate) -> Result<()> {
    on(
        &arguments.vault,
        &arguments.common,
        Intent::Change,
        |vault| {
            let mut tags = arguments.tag.clone();
            tags.sort();
            tags.dedup();
            let taken = vault.take_revision(&NewRevision {
                message: arguments.message.clone(),
                tags,
                only_if_changed: arguments.if_changed,
            })?;
            if arguments.common.json {
                return print_json(&taken.as_ref().map(revision_json));
            }
            let mut out = stdout();
            match taken {
                Some(revision) => writeln!(out, "{}", revision.id)?,
                None => writeln!(out, "nothing changed since the newest snapshot")?,
            }
            Ok(out.flush()?)
        },
    )
}

fn list(arguments: &SnapshotList) -> Result<()> {
    on(&arguments.vault, &arguments.common, Intent::Read, |vault| {
        let all = vault.revisions()?;
        let alone: Vec<Option<u64>> = match arguments.size {
            true => {
                let ids: Vec<RevisionId> = all.iter().map(|one| one.id).collect();
                let each = vault.each_held_alone(&ids)?;
                each.into_iter().map(Some).collect()
            }
            false => vec![None; all.len()],
        };
        if arguments.common.json {
            let mut array = JsonArray::begin(stdout())?;
            for (revision, alone_bytes) in all.iter().zip(alone) {
                // With `--size` only.
                let alone = sparse(json!({ "alone_bytes": alone_bytes }));
                array.push(&joined(revision_json(revision), alone))?;
            }
            return array.end();
        }
        let mut out = stdout();
        for (revision, alone) in all.iter().zip(alone) {
            let size =
                alone.map_or_else(String::new, |bytes| format!("{:>12}  ", show_bytes(bytes)));
            writeln!(out, "{}", line(revision, &size))?;
        }
        if arguments.size {
            writeln!(out, "{}", super::whole::usage_line(&vault.usage()?))?;
        }
        Ok(out.flush()?)
    })
}

/// A snapshot on one line; `size` comes after its time.
pub(crate) fn line(revision: &RevisionInfo, size: &str) -> String {
    let tags = revision.tags.join(", ");
    let separator = if tags.is_empty() { "" } else { "  " };
    let first_line = revision.message.lines().next().unwrap_or("");
    format!(
        "{}  {}  {size}{}{separator}{}",
        &revision.id.to_string()[..SHORT_ID],
        text_time(revision.time),
        show(tags.as_bytes()),
        show(first_line.as_bytes()),
    )
}

fn json(revisions: &[RevisionInfo]) -> Result<()> {
    let mut array = JsonArray::begin(stdout())?;
    for revision in revisions {
        array.push(&revision_json(revision))?;
    }
    array.end()
}

fn remove(arguments: &SnapshotRemove) -> Result<()> {
    on(
        &arguments.vault,
        &arguments.common,
        Intent::Change,
        |vault| {
            let mut failures = Failures::default();
            let mut removed = Vec::new();
            // All are found before any goes: what is removed must not change what a later selector means.
            let mut chosen = Vec::new();
            for selector in &arguments.revisions {
                let found = if arguments.all {
                    vault.select_revisions(&in_utc(selector))
                } else {
                    vault
                        .select_revision(&in_utc(selector))
                        .map(|one| vec![one])
                };
                chosen.extend(found?);
            }
            chosen.sort_by_key(|revision| revision.id);
            chosen.dedup_by_key(|revision| revision.id);
            for revision in &chosen {
                let short = &revision.id.to_string()[..SHORT_ID];
                let result = vault.remove_revision(revision.id).about(short);
                if result.is_ok() {
                    removed.push(revision.id.to_string());
                }
                failures.note(result);
            }
            if arguments.common.json {
                print_json(&removed)?;
            }
            failures.end()
        },
    )
}

/// The path of what `revision` has at `path`.
pub(crate) fn path_in(revision: &RevisionInfo, path: &[u8]) -> Vec<u8> {
    let id = revision.id.to_string();
    [b"/.history/", id.as_bytes(), path].concat()
}

/// Shows the snapshots, newest first; of a path, only those in which it differs from the one before.
pub(crate) fn log(arguments: &Log) -> Result<()> {
    let (place, common) = (&arguments.place, &arguments.common);
    on(&place.vault, common, Intent::Read, |vault| {
        let mut all = match &arguments.selector {
            Some(selector) => vault.select_revisions(&in_utc(selector))?,
            None => vault.revisions()?,
        };
        let mut versions = Vec::new();
        if place.explicit {
            versions = versions_of(vault, &mut all, &place.path)?;
        }
        all.reverse();
        versions.reverse();
        if common.json {
            return json(&all);
        }
        let mut out = stdout();
        for (index, revision) in all.iter().enumerate() {
            if index > 0 {
                writeln!(out)?;
            }
            writeln!(out, "snapshot {}", revision.id)?;
            writeln!(out, "time     {}", text_time(revision.time))?;
            for tag in &revision.tags {
                writeln!(out, "tag      {}", show(tag.as_bytes()))?;
            }
            if let Some(version) = versions.get(index) {
                writeln!(out, "path     {version}")?;
            }
            for line in revision.message.lines() {
                writeln!(out, "    {}", show(line.as_bytes()))?;
            }
        }
        Ok(out.flush()?)
    })
}

/// Leaves in `all` the revisions in which `path` is not what it was in the one before; gives what it is there.
fn versions_of(vault: &Vault, all: &mut Vec<RevisionInfo>, path: &[u8]) -> Result<Vec<String>> {
    let mut versions = Vec::new();
    let mut last: Option<Option<Attributes>> = None;
    let mut kept = Vec::new();
    for revision in all.drain(..) {
        let found = match vault.attributes(path_in(&revision, path), Links::Stay) {
            Ok(found) => Some(Attributes {
                // Numbers are those of the view.
                inode: InodeId(0),
                ..found
            }),
            Err(strongroom::Error::File(FileError::NotFound | FileError::NotADirectory)) => None,
            Err(error) => return Err(error.into()),
        };
        let was_there = last.as_ref().is_some_and(Option::is_some);
        if last.as_ref() != Some(&found) && (found.is_some() || was_there) {
            versions.push(match &found {
                None => "removed".to_owned(),
                Some(found) => format!(
                    "{} bytes, mode {:o}, changed {}",
                    found.size,
                    found.mode,
                    text_time(found.mtime)
                ),
            });
            kept.push(revision);
        }
        last = Some(found);
    }
    *all = kept;
    Ok(versions)
}

/// Brings back what a snapshot had.
pub(crate) fn restore(arguments: &Restore) -> Result<()> {
    let (place, common) = (&arguments.place, &arguments.common);
    on(&place.vault, common, Intent::Change, |vault| {
        let revision = vault.select_revision(&in_utc(&arguments.revision))?;
        let to = match &arguments.to {
            Some(to) => {
                let path = to.as_bytes();
                // `:/path` is how other commands name a place in the same vault.
                let path = path.strip_prefix(b":").unwrap_or(path);
                [
                    if path.first() == Some(&b'/') {
                        &b""[..]
                    } else {
                        b"/"
                    },
                    path,
                ]
                .concat()
            }
            None => place.path.clone(),
        };
        // Before anything is replaced, so that a mistake can be taken back.
        let mut snapshot = None;
        let short = &revision.id.to_string()[..SHORT_ID];
        let message = format!("before restoring {} from {short}", place.shown());
        if !arguments.no_snapshot {
            vault
                .attributes(path_in(&revision, &place.path), Links::Stay)
                .about(place.shown())?;
            snapshot = vault.take_revision(&NewRevision {
                message: message.clone(),
                tags: Vec::new(),
                only_if_changed: true,
            })?;
        }
        let restored = match arguments.no_snapshot {
            true => vault.restore(revision.id, &place.path, &to),
            false => vault.restore_keeping(revision.id, &place.path, &to, &message),
        };
        let restored = restored.about(place.shown())?;
        let snapshot = snapshot.map(|snapshot| snapshot.id);
        if common.json {
            return print_json(&restored_json(&restored, snapshot));
        }
        let mut out = stdout();
        write_restored(&mut out, &restored, snapshot)?;
        Ok(out.flush()?)
    })
}

/// `snapshot`: taken before the restore.
fn restored_json(restored: &Restored, snapshot: Option<RevisionId>) -> Value {
    // Files that were left out, because their content was erased.
    let erased = restored.erased.iter().map(|(path, when)| {
        let when = when.map(json_time);
        joined(path_json(path), json!({ "when": when }))
    });
    json!({
        "nodes": restored.nodes,
        "snapshot": snapshot.map(|id| id.to_string()),
        "snapshot_meanwhile": restored.snapshot_meanwhile.map(|id| id.to_string()),
        "erased": erased.collect::<Vec<_>>(),
        "erased_more": restored.erased_more,
    })
}

/// The same for people.
fn write_restored(
    out: &mut impl Write,
    restored: &Restored,
    snapshot: Option<RevisionId>,
) -> Result<()> {
    writeln!(out, "files and directories restored: {}", restored.nodes)?;
    for (path, when) in &restored.erased {
        let when = when.map_or_else(String::new, |when| format!(" on {}", text_day(when)));
        writeln!(out, "left out: {} was erased{when}", show(path))?;
    }
    let more = restored.erased_more;
    if more > 0 {
        writeln!(out, "left out: {more} more files that were erased")?;
    }
    if let Some(id) = snapshot {
        let short = &id.to_string()[..SHORT_ID];
        writeln!(
            out,
            "the state before the restore is kept as snapshot {short}"
        )?;
    }
    if let Some(id) = restored.snapshot_meanwhile {
        let short = &id.to_string()[..SHORT_ID];
        writeln!(
            out,
            "what was changed meanwhile is in snapshot {short}, under names that begin with .strongroom-restore-"
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the output names the snapshot of the state before, and that of what was changed meanwhile. Method: the output for
    /// both, and for none. Failed before: the second was in no output.
    #[test]
    fn a_restore_shows_both_snapshots_of_what_it_replaced() {
        let (before, meanwhile) = (RevisionId([0x11; 32]), RevisionId([0x22; 32]));
        let mut restored = Restored {
            nodes: 3,
            snapshot_meanwhile: Some(meanwhile),
            ..Restored::default()
        };
        let text = |restored: &Restored, snapshot| {
            let mut out = Vec::new();
            write_restored(&mut out, restored, snapshot).unwrap();
            String::from_utf8(out).unwrap()
        };
        let shown = text(&restored, Some(before));
        assert!(shown.contains("snapshot 1111111111111111\n"), "{shown}");
        assert!(shown.contains("snapshot 2222222222222222, "), "{shown}");
        let shown = restored_json(&restored, Some(before));
        assert_eq!(shown["snapshot"], "11".repeat(32));
        assert_eq!(shown["snapshot_meanwhile"], "22".repeat(32));
        restored.snapshot_meanwhile = None;
        assert_eq!(text(&restored, None), "files and directories restored: 3\n");
        let shown = restored_json(&restored, None);
        assert_eq!(shown.get("snapshot_meanwhile"), Some(&Value::Null));
    }
}
