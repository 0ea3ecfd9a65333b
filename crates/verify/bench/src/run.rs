//! One run over all file systems: in each round every workload runs on each in turn, so that slow changes of the
//! machine affect all.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Serialize;

use crate::kept::Kept;
use crate::place::{clear, timed};
use crate::probe::{Asked, probe_all};
use crate::report::{Absent, Report, RowReport, SystemReport};
use crate::serve::Running;
use crate::system::{PEERS, PLAIN, STRONGROOM, System};
use crate::{
    Content, Figures, GROUPS, Group, Machine, Place, ROWS, Row, Sizes, Span, interrupt, warm_up,
};

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program `strongroom`.
    pub strongroom: PathBuf,
    /// A folder on the disk to measure; a folder in it is made, and removed after.
    pub folder: PathBuf,
    /// `full`, or `quick`.
    pub mode: &'static str,
    /// How much work.
    pub sizes: Sizes,
    /// Rounds of the plain file system and of Strongroom.
    pub rounds: usize,
    /// Rounds of the peers, at most `rounds`.
    pub peer_rounds: usize,
    /// These rows only.
    pub rows: Option<Vec<Row>>,
    /// These peers only.
    pub peers: Option<Vec<String>>,
    /// Options of `strongroom mount`: Strongroom is measured once more with each, as one that is no peer.
    pub also: Vec<String>,
    /// Who is measured beside Strongroom and the peers.
    pub company: Company,
    /// A file for the process that serves Strongroom, and for when each of its figures was measured: a profile of the
    /// whole machine can be cut to a row by it.
    pub spans: Option<PathBuf>,
}

/// Whether the plain file system is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Company {
    /// As in every run whose figures are to be compared.
    WithPlain,
    /// Nothing that a profile would only have to leave out.
    Alone,
}

/// A file system and what was found of it.
struct Measured {
    running: Running,
    rounds: usize,
    figures: Figures,
    /// Groups that failed before they had all their figures, by their first rows.
    failed: BTreeSet<Row>,
}

/// Runs `plan`; `tell` hears what begins.
///
/// # Errors
/// If there is no Strongroom or no disk, or the run is interrupted: then it leaves nothing behind, or says what. A peer that
/// is missing or fails is named in the report.
pub fn run(plan: &Plan, tell: &mut dyn FnMut(&str)) -> io::Result<Report> {
    let work = tempfile::Builder::new()
        .prefix("bench-")
        .tempdir_in(&plan.folder)?;
    let report = run_in(work.path(), plan, tell);
    // Every server has ended.
    match interrupt::leave(work.path()) {
        Err(error) if interrupt::came() => return Err(error),
        Err(error) => tell(&format!("{} is left: {error}", work.path().display())),
        Ok(()) => {}
    }
    report
}

fn run_in(work: &Path, plan: &Plan, tell: &mut dyn FnMut(&str)) -> io::Result<Report> {
    let mut content = Content::new(crate::machine::seed());
    let kept = match plan.company {
        Company::WithPlain if plan.sizes.records > 0 => kept(plan, work, &mut content, tell)?,
        Company::WithPlain | Company::Alone => BTreeMap::new(),
    };
    let (mut systems, absent) = start(plan, work, tell)?;
    let suite = suite(plan, work);
    for measured in &mut systems {
        let place = measured.running.workplace();
        if let Err(error) = with_place(plan, &measured.running, &place, |place| {
            warm_up(place, &mut content)
        }) {
            let rows: Vec<Row> = ROWS.iter().map(|facts| facts.row).collect();
            measured
                .figures
                .fail(&rows, measured.rounds, &format!("warm-up: {error}"));
            measured.rounds = 0;
        }
        interrupt::check()?;
    }
    let wanted = |group: &&Group| systems[0].figures.want(group.rows);
    let groups: Vec<&Group> = GROUPS.iter().filter(wanted).collect();
    for group in groups {
        for round in 0..plan.rounds {
            for measured in &mut systems {
                measure(plan, group, round, measured, &mut content, tell);
                interrupt::check()?;
            }
        }
    }
    library(plan, work, &mut systems, &mut content, tell)?;
    if let Some(path) = &plan.spans {
        write_spans(path, &systems)?;
    }
    let report = assemble(plan, &systems, absent, suite, kept);
    for measured in systems {
        let name = measured.running.name.clone();
        if let Err(error) = measured.running.end() {
            tell(&format!("{name} ended badly: {error}"));
        }
    }
    Ok(report)
}

/// Every file system that is asked for, with options of its `mount`.
fn wanted(plan: &Plan) -> Vec<(&'static System, Option<&str>)> {
    let asked = |system: &&System| {
        plan.peers
            .as_ref()
            .is_none_or(|names| names.iter().any(|name| name == system.name))
    };
    let plain = (plan.company == Company::WithPlain).then_some(&PLAIN);
    let also = plan.also.iter().map(|options| Some(options.as_str()));
    let ours = [None].into_iter().chain(also);
    let wanted = plain.into_iter().map(|plain| (plain, None));
    let wanted = wanted.chain(ours.map(|options| (&STRONGROOM, options)));
    let peers = PEERS.iter().filter(asked).map(|peer| (peer, None));
    wanted.chain(peers).collect()
}

fn program_of(plan: &Plan, system: &System) -> Option<PathBuf> {
    system.find((system.name == STRONGROOM.name).then_some(plan.strongroom.as_path()))
}

/// What an fsync keeps of each that is there, before any of those that are measured is started.
fn kept(
    plan: &Plan,
    work: &Path,
    content: &mut Content,
    tell: &mut dyn FnMut(&str),
) -> io::Result<BTreeMap<String, Kept>> {
    let there = wanted(plan).into_iter().filter_map(|(system, options)| {
        Some(Asked {
            system,
            program: program_of(plan, system)?,
            options,
        })
    });
    let there: Vec<_> = there.collect();
    probe_all(&there, work, plan.sizes.records, content, tell)
}

/// Starts every file system that is there, and names the others.
fn start(
    plan: &Plan,
    work: &Path,
    tell: &mut dyn FnMut(&str),
) -> io::Result<(Vec<Measured>, Vec<Absent>)> {
    let mut systems = Vec::new();
    let mut absent = Vec::new();
    for (system, options) in wanted(plan) {
        let ours = PEERS.iter().all(|peer| peer.name != system.name);
        let started = match program_of(plan, system) {
            Some(program) => system.start(program, options, work),
            None => Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!("{} is not installed", system.program),
            )),
        };
        interrupt::check()?;
        match started {
            Ok(running) => {
                tell(&format!("{} {}", running.name, running.version));
                let rounds = if ours {
                    plan.rounds
                } else {
                    plan.peer_rounds.min(plan.rounds)
                };
                systems.push(Measured {
                    running,
                    rounds,
                    figures: Figures::of(plan.rows.clone()),
                    failed: BTreeSet::new(),
                });
            }
            Err(error) if ours => {
                let name = system.name_with(options);
                return Err(io::Error::new(error.kind(), format!("{name}: {error}")));
            }
            Err(error) => {
                tell(&format!("{} is left out: {error}", system.name));
                absent.push(Absent {
                    name: system.name,
                    reason: error.to_string(),
                });
            }
        }
    }
    Ok((systems, absent))
}

fn with_place<T>(
    plan: &Plan,
    running: &Running,
    directory: &Path,
    work: impl FnOnce(&Place<'_>) -> io::Result<T>,
) -> io::Result<T> {
    let sync = || running.sync();
    work(&Place {
        directory,
        sync: &sync,
        server: running.server(),
        sizes: plan.sizes,
        may_drop_caches: crate::is_root(),
    })
}

/// One group on one file system, unless it failed there before.
fn measure(
    plan: &Plan,
    group: &Group,
    round: usize,
    measured: &mut Measured,
    content: &mut Content,
    tell: &mut dyn FnMut(&str),
) {
    let first = group.rows[0];
    if round >= measured.rounds || measured.failed.contains(&first) {
        return;
    }
    let name = &measured.running.name;
    tell(&format!(
        "{} …, round {} of {}: {name}",
        first.facts().name,
        round + 1,
        measured.rounds
    ));
    let place = measured.running.workplace();
    let figures = &mut measured.figures;
    let result = with_place(plan, &measured.running, &place, |place| {
        group.measure(place, content, figures)
    });
    if let Err(error) = result {
        tell(&format!("{name}: {error}"));
        if figures.fail(group.rows, round + 1, &error.to_string()) {
            measured.failed.insert(first);
        }
    }
    measured.running.settle();
}

/// The library without a mount, and the plain file system by system calls: create, sync, read.
fn library(
    plan: &Plan,
    work: &Path,
    systems: &mut [Measured],
    content: &mut Content,
    tell: &mut dyn FnMut(&str),
) -> io::Result<()> {
    if !systems[0].figures.want(&[Row::Library]) {
        return Ok(());
    }
    let files = plan.sizes.files;
    for round in 0..plan.rounds {
        tell(&format!("library, round {} of {}", round + 1, plan.rounds));
        if let Some(figures) = figures_of(systems, &PLAIN) {
            let plain = work.join("plain-files");
            let seconds = timed(|| plain_files(&plain, files, content))?;
            clear(&plain)?;
            figures.add(Row::Library, files as f64 / seconds);
        }
        if let Some(figures) = figures_of(systems, &STRONGROOM) {
            let folder = work.join("library-vault");
            // Made and thrown away: nothing is remembered of it.
            let options = strongroom::CreateOptions::new().seen(strongroom::SeenRecords::Nowhere);
            let created = strongroom::Vault::create(&folder, options).map_err(io::Error::other)?;
            let seconds = timed(|| vault_files(&created.vault, files, content))?;
            figures.add(Row::Library, files as f64 / seconds);
            created.vault.close().map_err(io::Error::other)?;
            clear(&folder)?;
        }
    }
    Ok(())
}

fn figures_of<'a>(systems: &'a mut [Measured], system: &System) -> Option<&'a mut Figures> {
    let found = systems
        .iter_mut()
        .find(|measured| measured.running.name == system.name)?;
    Some(&mut found.figures)
}

/// Who serves Strongroom, and when each of its figures was measured.
#[derive(Serialize)]
struct Spans<'a> {
    server: Option<u32>,
    rows: BTreeMap<&'static str, &'a [Span]>,
}

fn write_spans(path: &Path, systems: &[Measured]) -> io::Result<()> {
    let mut systems = systems.iter();
    let ours = systems.find(|measured| measured.running.name == STRONGROOM.name);
    let spans = ours.map(|ours| Spans {
        server: ours.running.server(),
        rows: ours
            .figures
            .spans
            .iter()
            .map(|(row, spans)| (row.facts().name, spans.as_slice()))
            .collect(),
    });
    fs::write(path, serde_json::to_string_pretty(&spans)? + "\n")
}

fn plain_files(top: &Path, count: usize, content: &mut Content) -> io::Result<()> {
    let path = |number: usize| top.join(format!("d{}/f{number}", number / 100));
    for number in 0..count {
        interrupt::check()?;
        if number % 100 == 0 {
            fs::create_dir_all(path(number).parent().expect("a file stands in a directory"))?;
        }
        fs::write(path(number), content.take(5000))?;
    }
    rustix::fs::syncfs(fs::File::open(top)?)?;
    (0..count).try_for_each(|number| whole(fs::read(path(number))?.len()))
}

fn vault_files(vault: &strongroom::Vault, count: usize, content: &mut Content) -> io::Result<()> {
    let path = |number: usize| format!("/d{}/f{number}", number / 100);
    for number in 0..count {
        interrupt::check()?;
        if number % 100 == 0 {
            let made = vault.make_directory(format!("/d{}", number / 100), 0o755);
            made.map_err(io::Error::other)?;
        }
        let written = vault.write(path(number), content.take(5000));
        written.map_err(io::Error::other)?;
    }
    vault.sync().map_err(io::Error::other)?;
    (0..count)
        .try_for_each(|number| whole(vault.read(path(number)).map_err(io::Error::other)?.len()))
}

fn whole(len: usize) -> io::Result<()> {
    if len == 5000 {
        Ok(())
    } else {
        Err(io::Error::other(format!("a file has {len} bytes")))
    }
}

/// What Strongroom says of its algorithms.
fn suite(plan: &Plan, work: &Path) -> BTreeMap<String, String> {
    let store = work.join(STRONGROOM.name).join("store");
    let secret = work.join(STRONGROOM.name).join("secret");
    let mut info = Command::new(&plan.strongroom);
    info.args(["info", "--json", "--passphrase-file"])
        .args([secret, store]);
    let told = info.output().ok().and_then(|output| {
        serde_json::from_slice::<BTreeMap<String, serde_json::Value>>(&output.stdout).ok()
    });
    let told = told.unwrap_or_default().into_iter();
    let named = told.filter(|(name, _)| name == "suite" || name.contains("provider"));
    named
        .map(|(name, value)| (name, in_words(&value)))
        .collect()
}

/// A text as it is; of the list of providers, who computes what.
fn in_words(value: &serde_json::Value) -> String {
    let Some(uses) = value.as_array() else {
        return value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
    };
    let word = |one: &serde_json::Value, field: &str| one[field].as_str().unwrap_or("").to_owned();
    let words: Vec<String> = uses
        .iter()
        .map(|one| {
            let from = match one["from_bytes"].as_u64().unwrap_or(0) {
                0 => String::new(),
                bytes => format!(" from {bytes} bytes on"),
            };
            let work = [word(one, "algorithm"), word(one, "work")];
            let work = work.join(" ");
            format!("{}{from} by {}", work.trim_end(), word(one, "provider"))
        })
        .collect();
    words.join(", ")
}

fn assemble(
    plan: &Plan,
    systems: &[Measured],
    absent: Vec<Absent>,
    suite: BTreeMap<String, String>,
    kept: BTreeMap<String, Kept>,
) -> Report {
    let row = |facts: &'static crate::RowFacts| {
        let mut report = RowReport::of(facts);
        for measured in systems {
            let name = measured.running.name.clone();
            if let Some(values) = measured.figures.values.get(&facts.row) {
                report.figures.insert(name.clone(), values.clone());
            }
            if let Some(reason) = measured.figures.failures.get(&facts.row) {
                report.failures.insert(name, reason.clone());
            }
        }
        report
    };
    let described = systems.iter().map(|measured| SystemReport {
        name: measured.running.name.clone(),
        version: measured.running.version.clone(),
        note: measured.running.system.note,
    });
    Report {
        day: crate::today(),
        machine: Machine::here(&plan.folder),
        mode: plan.mode,
        sizes: plan.sizes,
        rounds: plan.rounds,
        peer_rounds: plan.peer_rounds.min(plan.rounds),
        algorithms: suite,
        systems: described.collect(),
        absent,
        kept,
        rows: ROWS
            .iter()
            .filter(|facts| systems[0].figures.want(&[facts.row]))
            .map(row)
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn providers_are_told_in_words() {
        let told = serde_json::json!([
            {"algorithm": "AES-256-GCM", "from_bytes": 16384, "provider": "ring", "work": "decrypt"},
            {"algorithm": "BLAKE3", "from_bytes": 0, "provider": "simd", "work": null},
        ]);
        assert_eq!(
            in_words(&told),
            "AES-256-GCM decrypt from 16384 bytes on by ring, BLAKE3 by simd"
        );
        assert_eq!(in_words(&serde_json::json!("a text")), "a text");
    }
}
