//! `df`, `quota`, `compression`, `stats`, `compact`: operations on a whole vault.

use std::io::Write;

use serde_json::{Value, json};
use strongroom::{OpenOptions, RevisionId, RevisionInfo, Usage, Vault};

use crate::arguments::common::{Common, Whole};
use crate::arguments::help::{SPACE_ROWS, SPACE_SNAPSHOT};
use crate::arguments::size::NewQuota;
use crate::arguments::tool::Stats;
use crate::arguments::{Compression, Quota};
use crate::commands::opening::{Intent, with};
use crate::terminal::failure::{About, Result};
use crate::terminal::output::{joined, print_json, print_line, show_bytes, stdout};
use crate::terminal::printable::show_path;

fn on(arguments: &Whole, intent: Intent, work: impl FnOnce(&Vault) -> Result<()>) -> Result<()> {
    with(&arguments.vault, &arguments.common.secret, intent, work)
}

/// What the stored content is for, and what each snapshot alone holds.
struct Content {
    usage: Usage,
    snapshots: Vec<(RevisionInfo, u64)>,
}

impl Content {
    fn of(vault: &Vault) -> Result<Self> {
        let snapshots = vault.revisions()?;
        let ids: Vec<RevisionId> = snapshots.iter().map(|one| one.id).collect();
        let alone = vault.each_held_alone(&ids)?;
        Ok(Self {
            usage: vault.usage()?,
            snapshots: snapshots.into_iter().zip(alone).collect(),
        })
    }
}

/// In sealed bytes; of a snapshot, what would come back if it were removed.
fn content_json(Content { usage, snapshots }: &Content) -> Value {
    let snapshots = snapshots
        .iter()
        .map(|(one, alone)| json!({ "id": one.id.to_string(), "alone_bytes": alone }));
    json!({
        "live_bytes": usage.live_bytes,
        "kept_bytes": usage.kept_bytes,
        "waste_bytes": usage.waste_bytes,
        "snapshots": snapshots.collect::<Vec<_>>(),
    })
}

/// Shows how full the disk is, and with what.
pub(crate) fn space(arguments: &Whole) -> Result<()> {
    on(arguments, Intent::Read, |vault| {
        let found = vault.space()?;
        let used = found.total_bytes.saturating_sub(found.free_bytes);
        // A history that cannot be read does not hide how full the disk is.
        let content = Content::of(vault);
        let away_bytes = vault.information()?.away_bytes;
        if arguments.common.json {
            let space = json!({
                "total_bytes": found.total_bytes,
                "used_bytes": used,
                "free_bytes": found.free_bytes,
                "inodes": found.inodes,
                "away_bytes": away_bytes,
            });
            let shown = content.as_ref().map_or(Value::Null, content_json);
            print_json(&joined(space, shown))?;
            return content.map(drop);
        }
        let mut out = stdout();
        writeln!(
            out,
            "{:>12} {:>12} {:>12} {:>12}",
            "total", "used", "free", "inodes"
        )?;
        let (total, used, free) = (
            show_bytes(found.total_bytes),
            show_bytes(used),
            show_bytes(found.free_bytes),
        );
        writeln!(
            out,
            "{total:>12} {used:>12} {free:>12} {:>12}",
            found.inodes
        )?;
        if let Ok(content) = &content {
            show_content(&mut out, content, away_bytes)?;
        }
        out.flush()?;
        content.map(drop)
    })
}

fn show_content(out: &mut impl Write, content: &Content, away_bytes: u64) -> Result<()> {
    writeln!(out, "{}", usage_line(&content.usage))?;
    if away_bytes > 0 {
        writeln!(out, "only at remotes: {}", show_bytes(away_bytes))?;
    }
    if !content.snapshots.is_empty() {
        writeln!(out, "used by each snapshot alone:")?;
    }
    for (snapshot, alone) in &content.snapshots {
        let size = format!("{:>12}  ", show_bytes(*alone));
        writeln!(out, "{}", super::history::line(snapshot, &size))?;
    }
    Ok(())
}

/// What stored content is for, on one line.
pub(super) fn usage_line(usage: &Usage) -> String {
    format!(
        "{} in files, {} only in snapshots, {} garbage",
        show_bytes(usage.live_bytes),
        show_bytes(usage.kept_bytes),
        show_bytes(usage.waste_bytes)
    )
}

/// Shows or sets the quota.
pub(crate) fn quota(arguments: &Quota) -> Result<()> {
    let intent = match arguments.size {
        Some(_) => Intent::Change,
        None => Intent::Read,
    };
    let Common { json, secret } = &arguments.common;
    with(&arguments.vault, secret, intent, |vault| {
        if let Some(NewQuota(bytes)) = arguments.size {
            vault.set_quota(bytes)?;
        }
        let quota_bytes = vault.quota()?;
        if *json {
            return print_json(&json!({ "quota_bytes": quota_bytes }));
        }
        let shown = match quota_bytes {
            Some(bytes) => format!("{bytes} bytes ({})", show_bytes(bytes)),
            None => "none".to_owned(),
        };
        print_line(&format!("quota  {shown}"))
    })
}

/// Sets whether what is new is compressed; or shows it.
pub(crate) fn compression(arguments: &Compression) -> Result<()> {
    let intent = match arguments.how {
        Some(_) => Intent::Change,
        None => Intent::Read,
    };
    let Common { json, secret } = &arguments.common;
    with(&arguments.vault, secret, intent, |vault| {
        if let Some(how) = arguments.how {
            vault.set_compression(how.into())?;
        }
        let compression = vault.compression()?.name();
        if *json {
            return print_json(&json!({ "compression": compression }));
        }
        print_line(&format!("compression  {compression}"))
    })
}

fn space_rows(vault: &Vault) -> Result<Vec<(String, u64)>> {
    let Content { usage, snapshots } = Content::of(vault)?;
    let numbers = [usage.live_bytes, usage.kept_bytes, usage.waste_bytes];
    let sums = SPACE_ROWS.iter().zip(numbers);
    let sums = sums.map(|((name, _), bytes)| ((*name).to_owned(), bytes));
    let each = snapshots.iter().map(|(snapshot, alone)| {
        let id = snapshot.id.to_string();
        (SPACE_SNAPSHOT.replace("ID", &id[..12]), *alone)
    });
    Ok(sums.chain(each).collect())
}

/// Shows counters. Only who has the vault open counts, so no secret is needed.
pub(crate) fn counters(arguments: &Stats) -> Result<()> {
    let mut options = OpenOptions::read_only();
    // Counters of whatever vault it is; nothing of it is used.
    options.trust.seen = strongroom::SeenRecords::Nowhere;
    let vault =
        Vault::connect_if_owned(&arguments.vault, options).about(show_path(&arguments.vault))?;
    let (mut counters, space) = match &vault {
        // A history that cannot be read does not hide what was counted.
        Some(vault) => (vault.counters()?, space_rows(vault)),
        None => (Vec::new(), Ok(Vec::new())),
    };
    if let Ok(rows) = &space {
        counters.extend_from_slice(rows);
    }
    if arguments.json {
        let map: serde_json::Map<_, _> = counters
            .into_iter()
            .map(|(name, count)| (name, Value::from(count)))
            .collect();
        print_json(&map)?;
        return space.map(drop);
    }
    let mut out = stdout();
    if vault.is_none() {
        writeln!(
            out,
            "no process has the vault open; counting begins when it is mounted or opened"
        )?;
    }
    let width = |lens: &mut dyn Iterator<Item = usize>| lens.max().unwrap_or(0);
    let names = width(&mut counters.iter().map(|(name, _)| name.len()));
    let counts = width(&mut counters.iter().map(|(_, count)| count.to_string().len()));
    for (name, count) in counters {
        writeln!(out, "{name:names$}  {count:>counts$}")?;
    }
    out.flush()?;
    space.map(drop)
}

/// Gives space back.
pub(crate) fn compact(arguments: &Whole) -> Result<()> {
    on(arguments, Intent::Change, |vault| {
        let before = vault.space()?.free_bytes;
        vault.compact()?;
        let after = vault.space()?.free_bytes;
        if arguments.common.json {
            return print_json(&json!({ "free_bytes_before": before, "free_bytes_after": after }));
        }
        let mut out = stdout();
        writeln!(
            out,
            "{} free before, {} after",
            show_bytes(before),
            show_bytes(after)
        )?;
        Ok(out.flush()?)
    })
}
