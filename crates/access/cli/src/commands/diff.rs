//! `diff`: compares two snapshots, or a snapshot with the current vault.

use std::io::{IsTerminal, Write};

use serde_json::{Value, json};
use similar::{ChangeTag, TextDiff};
use strongroom::filesystem::NodeKind;
use strongroom::{PathDifference, RevisionInfo, Side, Vault};

use crate::arguments::history::Diff;
use crate::commands::dates::in_utc;
use crate::commands::history::{SHORT_ID, path_in};
use crate::commands::opening::{Intent, with};
use crate::terminal::failure::Result;
use crate::terminal::output::{JsonArray, Out, joined, path_json, stdout};
use crate::terminal::printable::show;
use crate::terminal::time::{json_time, text_time};

/// Longer files are not compared line by line.
const TEXT_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// What compares a run of lines gives up on being exact after this.
const EXACT_FOR: std::time::Duration = std::time::Duration::from_secs(5);

/// Shows the differences.
pub(crate) fn diff(arguments: &Diff) -> Result<()> {
    let (place, common) = (&arguments.place, &arguments.common);
    with(&place.vault, &common.secret, Intent::Read, |vault| {
        let before = vault.select_revision(&in_utc(&arguments.before))?;
        let after = arguments.after.as_ref();
        let after = after
            .map(|selector| vault.select_revision(&in_utc(selector)))
            .transpose()?;
        let after_id = after.as_ref().map(|after| after.id);
        let showing = Showing {
            vault,
            before: &before,
            after: after.as_ref(),
        };
        let path = place.path.strip_suffix(b"/").unwrap_or(&place.path);
        let mut out = stdout();
        if common.json {
            let mut array = JsonArray::begin(out)?;
            vault.differences(before.id, after_id, path, |one| {
                array.push(&difference_json(&one))
            })?;
            return array.end();
        }
        let mut total = (0, 0, 0);
        vault.differences(before.id, after_id, path, |one| {
            if arguments.stat {
                let (added, removed) = showing.stat(&mut out, &one)?;
                total = (total.0 + 1, total.1 + added, total.2 + removed);
                return Ok(());
            }
            showing.line(&mut out, &one)?;
            if arguments.patch {
                showing.patch(&mut out, &one)?;
            }
            Result::Ok(())
        })?;
        if arguments.stat {
            let (paths, added, removed) = total;
            writeln!(
                out,
                "paths that differ: {paths}; lines added: {added}, removed: {removed}"
            )?;
        }
        Ok(out.flush()?)
    })
}

fn side_json(side: &Side) -> Value {
    json!({
        "kind": kind_name(side.kind),
        "mode": format!("{:04o}", side.mode),
        "uid": side.uid,
        "gid": side.gid,
        "size": side.size,
        "modified": json_time(side.mtime),
    })
}

fn difference_json(one: &PathDifference) -> Value {
    let attributes = attributes_changed(one).into_iter().map(|(name, ..)| name);
    let difference = json!({
        "change": match (&one.before, &one.after) {
            (None, _) => "added",
            (_, None) => "removed",
            _ => "changed",
        },
        "content_changed": content_changed(one),
        "attributes_changed": attributes.collect::<Vec<_>>(),
        "before": one.before.as_ref().map(side_json),
        "after": one.after.as_ref().map(side_json),
    });
    joined(path_json(&one.path), difference)
}

const fn kind_name(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::File => "file",
        NodeKind::Directory => "directory",
        NodeKind::Symlink => "symlink",
        NodeKind::Fifo => "fifo",
        NodeKind::Socket => "socket",
        NodeKind::CharDevice => "char device",
        NodeKind::BlockDevice => "block device",
    }
}

fn content_changed(one: &PathDifference) -> bool {
    !one.same_content
}

/// Name, before and after of each attribute that differs.
fn attributes_changed(one: &PathDifference) -> Vec<(&'static str, String, String)> {
    let (Some(before), Some(after)) = (&one.before, &one.after) else {
        return Vec::new();
    };
    let mut changed = Vec::new();
    let mut compare = |name, before: String, after: String| {
        if before != after {
            changed.push((name, before, after));
        }
    };
    compare(
        "kind",
        kind_name(before.kind).to_owned(),
        kind_name(after.kind).to_owned(),
    );
    compare(
        "mode",
        format!("{:04o}", before.mode),
        format!("{:04o}", after.mode),
    );
    compare("uid", before.uid.to_string(), after.uid.to_string());
    compare("gid", before.gid.to_string(), after.gid.to_string());
    if before.kind != NodeKind::Directory && one.same_content {
        compare("modified", text_time(before.mtime), text_time(after.mtime));
    }
    if !one.same_xattrs {
        compare("xattrs", "some".to_owned(), "others".to_owned());
    }
    changed
}

struct Showing<'a> {
    vault: &'a Vault,
    before: &'a RevisionInfo,
    /// `None` for what is there now.
    after: Option<&'a RevisionInfo>,
}

/// The text on both sides of a difference, empty where there is none.
struct Texts {
    before: String,
    after: String,
}

impl Showing<'_> {
    /// `A`, `D`, `M` or `C` for a path that was added, removed, or changed in content or in attributes alone.
    fn line(&self, out: &mut impl Write, one: &PathDifference) -> Result<()> {
        let letter = match (&one.before, &one.after) {
            (None, _) => 'A',
            (_, None) => 'D',
            _ if content_changed(one) => 'M',
            _ => 'C',
        };
        write!(out, "{letter} {}", show(&one.path))?;
        let is_directory = |side: &Option<Side>| {
            side.as_ref()
                .is_some_and(|side| side.kind == NodeKind::Directory)
        };
        if is_directory(&one.before) || is_directory(&one.after) {
            write!(out, "/")?;
        }
        for (name, before, after) in attributes_changed(one) {
            write!(out, "  {name} {before} -> {after}")?;
        }
        Ok(writeln!(out)?)
    }

    /// Lines of content are exact, so that `patch` takes them, but on a terminal.
    fn patch(&self, out: &mut Out, one: &PathDifference) -> Result<()> {
        if !content_changed(one) {
            return Ok(());
        }
        let Some(texts) = self.texts(one)? else {
            return Ok(writeln!(out, "  not a text, or longer than 4 MiB")?);
        };
        let diff = TextDiff::configure()
            .timeout(EXACT_FOR)
            .diff_lines(&texts.before, &texts.after);
        let name = |side: &Option<Side>, revision: Option<&RevisionInfo>| match side {
            Some(_) => {
                let id = revision.map(|revision| revision.id.to_string());
                let of = id.as_ref().map_or("now", |id| &id[..SHORT_ID]);
                format!("{of}{}", show(&one.path))
            }
            None => "/dev/null".to_owned(),
        };
        let before = name(&one.before, Some(self.before));
        let after = name(&one.after, self.after);
        let mut unified = diff.unified_diff();
        let unified = unified.context_radius(3).header(&before, &after);
        match std::io::stdout().is_terminal() {
            true => Ok(write!(out, "{unified}")?),
            false => Ok(write!(out.0, "{unified}")?),
        }
    }

    /// One line with counts; gives lines added and removed.
    fn stat(&self, out: &mut impl Write, one: &PathDifference) -> Result<(usize, usize)> {
        let texts = if content_changed(one) {
            self.texts(one)?
        } else {
            None
        };
        let Some(texts) = texts else {
            let size = |side: &Option<Side>| side.as_ref().map_or(0, |side| side.size);
            let (before, after) = (size(&one.before), size(&one.after));
            writeln!(out, "{}  {before} -> {after} bytes", show(&one.path))?;
            return Ok((0, 0));
        };
        let diff = TextDiff::configure()
            .timeout(EXACT_FOR)
            .diff_lines(&texts.before, &texts.after);
        let count = |tag| {
            diff.iter_all_changes()
                .filter(|one| one.tag() == tag)
                .count()
        };
        let (added, removed) = (count(ChangeTag::Insert), count(ChangeTag::Delete));
        writeln!(out, "{}  +{added} -{removed}", show(&one.path))?;
        Ok((added, removed))
    }

    /// `None` unless both sides are texts, or nothing.
    fn texts(&self, one: &PathDifference) -> Result<Option<Texts>> {
        let sides = [(&one.before, Some(self.before)), (&one.after, self.after)];
        let mut texts = Vec::new();
        for (side, revision) in sides {
            let text = match side {
                None => String::new(),
                Some(side) if side.kind == NodeKind::File && side.size <= TEXT_BYTES_MAX => {
                    let path = match revision {
                        Some(revision) => path_in(revision, &one.path),
                        None => one.path.clone(),
                    };
                    let content = self.vault.read(path)?;
                    match String::from_utf8(content) {
                        Ok(text) if !text.contains('\0') => text,
                        _ => return Ok(None),
                    }
                }
                Some(_) => return Ok(None),
            };
            texts.push(text);
        }
        let after = texts.pop().unwrap_or_default();
        let before = texts.pop().unwrap_or_default();
        Ok(Some(Texts { before, after }))
    }
}
