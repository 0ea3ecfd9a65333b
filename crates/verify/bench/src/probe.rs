//! Finds out what an fsync of a file system keeps, on a mount that nothing else uses.
//!
//! Takes   a file system, and a work folder
//! Gives   counts of the disk's requests around the fsyncs, the content left after the server was killed, and whether
//!         it was stored in clear
//! Never   judges, which `kept.rs` does; never fails a run: a missing ability of a file system is a result
//!
//! A kill loses only what the server alone had: the kernel keeps what it was given. The flushes show what a power
//! failure would lose beyond that: without a flush, the written data may be only in the disk's cache.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::disk::{Counts, Disk};
use crate::kept::Kept;
use crate::place::clear;
use crate::records::Records;
use crate::serve::Running;
use crate::system::{PLAIN, System};
use crate::{Content, interrupt};

/// A file system to look at: its program, and the options it is mounted with.
pub struct Asked<'a> {
    /// Which.
    pub system: &'a System,
    /// Where its program is.
    pub program: PathBuf,
    /// Of its `mount`.
    pub options: Option<&'a str>,
}

/// Looks at each of `asked` in turn, with `count` records, in folders below `work` that are gone after; `tell` hears what
/// begins. By name.
///
/// # Errors
/// If the run is interrupted.
pub fn probe_all(
    asked: &[Asked<'_>],
    work: &Path,
    count: usize,
    content: &mut Content,
    tell: &mut dyn FnMut(&str),
) -> io::Result<BTreeMap<String, Kept>> {
    let disk = Disk::beneath(work);
    let mut found = BTreeMap::new();
    for one in asked {
        let name = one.system.name_with(one.options);
        tell(&format!("what an fsync keeps: {name}"));
        let records = Records::new(count, content);
        let kept = probe(one, work, disk.as_ref(), &records, tell);
        interrupt::check()?;
        found.insert(name, kept);
    }
    if found
        .get(PLAIN.name)
        .is_some_and(|plain| !plain.has_flushes())
    {
        tell(
            "the disk's flushes are not counted: not even those of the plain file system are seen",
        );
        for kept in found.values_mut() {
            kept.flushes_per_fsync = None;
        }
    }
    Ok(found)
}

fn probe(
    asked: &Asked<'_>,
    work: &Path,
    disk: Option<&Disk>,
    records: &Records,
    tell: &mut dyn FnMut(&str),
) -> Kept {
    let folder = work.join("probe");
    let started = fs::create_dir(&folder).and_then(|()| {
        asked
            .system
            .start(asked.program.clone(), asked.options, &folder)
    });
    let kept = match started {
        Ok(mut running) => {
            let kept = look(&mut running, disk, records, tell);
            // One that did not come back may end badly too; nothing is left of it either way.
            let name = running.name.clone();
            if let Err(error) = running.end() {
                tell(&format!("{name} ended badly: {error}"));
            }
            kept
        }
        Err(error) => Kept::unknown(error.to_string()),
    };
    // Of an interrupted run all is removed together.
    if !interrupt::came()
        && let Err(error) = clear(&folder)
    {
        tell(&format!("{} is left: {error}", folder.display()));
    }
    kept
}

/// Appends, kills, searches, mounts again and counts; ends with the first step that fails.
fn look(
    running: &mut Running,
    disk: Option<&Disk>,
    records: &Records,
    tell: &mut dyn FnMut(&str),
) -> Kept {
    let path = running.workplace().join("records");
    // What its making left to do is not what its fsync has to keep.
    let made = running.rest().and_then(|()| File::create(&path));
    let before = disk.and_then(Disk::counts);
    let appended = made.and_then(|mut file| records.append(&mut file).map(|()| file));
    let after = disk.and_then(Disk::counts);
    let file = match appended {
        Ok(file) => file,
        Err(error) => return Kept::unknown(format!("the records were not written: {error}")),
    };
    let mut kept = Kept {
        records: records.count(),
        ..Kept::default()
    };
    if let Some((before, after)) = before.zip(after) {
        set_counts(&mut kept, before, after);
    }
    // The file is still open: nothing that its close would set off has happened.
    let served = running.server().is_some();
    let killed = running.kill();
    drop(file);
    if let Err(error) = killed {
        kept.failure = Some(format!("it could not be killed: {error}"));
        return kept;
    }
    match records.lie_in_clear_below(&running.place) {
        Ok(found) => kept.in_clear = Some(found),
        Err(error) => {
            kept.failure = Some(format!("it was not searched for clear content: {error}"))
        }
    }
    if !served || interrupt::came() {
        return kept;
    }
    tell(&format!(
        "{} was killed, and is mounted again",
        running.name
    ));
    // It may bring back what it finds of its own only after it is mounted.
    match running.serve_again().and_then(|()| running.rest()) {
        Ok(()) => kept.records_after_kill = Some(records.count_in(&path)),
        Err(error) => {
            kept.records_after_kill = Some(0);
            kept.failure = Some(format!("it did not come back after a kill: {error}"));
        }
    }
    kept
}

fn set_counts(kept: &mut Kept, before: Counts, after: Counts) {
    let each = |before: u64, after: u64| after.saturating_sub(before) as f64 / kept.records as f64;
    let flushes = before.flushes.zip(after.flushes);
    let flushes = flushes.map(|(before, after)| each(before, after));
    let writes = each(before.writes, after.writes);
    kept.flushes_per_fsync = flushes;
    kept.writes_per_fsync = Some(writes);
}
