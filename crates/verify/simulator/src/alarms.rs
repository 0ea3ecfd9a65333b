//! Verifies and checks sound vaults during all other operations: nothing may be reported as damaged.
//!
//! Takes   the number of verifications and checks, and a seed
//! Gives   how often each simultaneous operation ran; the text of each alarm
//! Never   damages anything: every report of damage is a false alarm
//! Spec    spec/7-recovery.md
//!
//! Invariants
//!  (1) After each verification, the next one waits until every other operation has ended a round.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex};
use strongroom::filesystem::{Options, limits::Thresholds};
use strongroom::{
    AddKey, CreateOptions, Error, FileOptions, GoOn, KeyFile, Keys, NewKey, NewRevision,
    OpenOptions, Secret, SystemRandom, Vault, VerifyOptions,
};

use crate::random::Choices;
use crate::unseen;

/// Runs between two openings: each opening meets what the one before left half done.
const RUNS_AN_OPENING: u64 = 12;

/// Files that a churning thread has at once.
const FILES: u64 = 24;

/// What each thread rests between two rounds: a compaction ends only once nothing new is wasted.
const REST: std::time::Duration = std::time::Duration::from_millis(10);

/// Snapshots that stay.
const KEPT: usize = 4;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Verifications and checks.
    pub runs: u64,
    /// Of all choices.
    pub seed: u64,
}

/// What happened.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Verifications and checks that ended.
    pub runs: u64,
    /// What was done beside them, and how often.
    pub beside: BTreeMap<&'static str, u64>,
    /// What was reported of a sound vault.
    pub alarms: Vec<String>,
}

/// A thread of work: its name, one round of it.
type Round = fn(&Scene, &Vault, &mut Choices) -> strongroom::Result<()>;

const WORK: [(&str, Round); 7] = [
    ("writes", churn),
    ("small syncs", sync_small),
    ("removals", sweep),
    ("compactions", |_, vault, _| vault.compact()),
    ("snapshots", snapshot),
    ("erasures", erase),
    ("rotations", rotate),
];

/// One vault, and what everybody needs to know of it.
struct Scene {
    folder: PathBuf,
    key: KeyFile,
    rounds: [AtomicU64; WORK.len()],
    /// Where those wait who want a round to be over.
    round_over: (Mutex<()>, Condvar),
    stop: AtomicBool,
    alarms: Mutex<Vec<String>>,
}

/// So small that a second of work fills and empties many segments.
pub(crate) fn engine() -> Options {
    Options {
        commit_interval: std::time::Duration::from_millis(20),
        threads: Some(2),
        thresholds: Thresholds {
            drain_bytes: 64 * 1024,
            batch_bytes: 64 * 1024,
            move_blocks: 2,
            small_segment_bytes: 512 * 1024,
            small_segments_max: 2,
            ..Thresholds::default()
        },
        ..Options::default()
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Makes a vault below `place` and runs.
///
/// # Errors
/// The vault cannot be made or opened.
pub fn run(place: &Path, request: Request) -> Result<Outcome, String> {
    let scene = Scene {
        folder: place.join("vault"),
        key: KeyFile::random(&SystemRandom).map_err(text)?,
        rounds: Default::default(),
        round_over: Default::default(),
        stop: AtomicBool::new(false),
        alarms: Mutex::default(),
    };
    let options = CreateOptions::new()
        .key_file(scene.key.clone())
        .seen(unseen().seen)
        .engine(engine());
    let made = Vault::create(&scene.folder, options).map_err(text)?;
    fill(&made.vault).map_err(text)?;
    made.vault.close().map_err(text)?;
    let mut outcome = Outcome::default();
    let mut opening = 0;
    while outcome.runs < request.runs && scene.alarms.lock().is_empty() {
        let count = RUNS_AN_OPENING.min(request.runs - outcome.runs);
        outcome.runs += scene.opening(request.seed, opening, count)?;
        opening += 1;
    }
    outcome.beside.insert("openings", opening);
    for ((name, _), rounds) in WORK.iter().zip(&scene.rounds) {
        outcome.beside.insert(name, rounds.load(Ordering::Relaxed));
    }
    outcome.alarms = scene.alarms.into_inner();
    Ok(outcome)
}

fn fill(vault: &Vault) -> strongroom::Result<()> {
    for folder in ["/churn", "/small", "/gone", "/secret", "/still"] {
        vault.make_directory(folder, 0o755)?;
    }
    let mut choices = Choices::named(0, &[41]);
    for index in 0..30 {
        let len = [900, 20_000, 140_000][index % 3];
        vault.write(format!("/still/{index}"), choices.bytes(len))?;
    }
    vault.sync()
}

impl Scene {
    fn open(&self) -> Result<Vault, String> {
        let options = OpenOptions {
            engine: engine(),
            trust: unseen(),
            ..OpenOptions::default()
        };
        Vault::open(&self.folder, Secret::KeyFile(self.key.clone()), options).map_err(text)
    }

    /// Opens, verifies what the opening before left, then `count` times beside everything; closes.
    fn opening(&self, seed: u64, opening: u64, count: u64) -> Result<u64, String> {
        let vault = self.open()?;
        self.stop.store(false, Ordering::Release);
        // A rotation that was under way goes on by itself from here.
        self.look(&vault, opening, "just opened");
        let done = std::thread::scope(|scope| {
            for (index, (name, round)) in WORK.iter().enumerate() {
                let (vault, stopping) = (vault.clone(), &self.stop);
                let choices = Choices::named(seed, &[42, opening, index as u64]);
                scope.spawn(move || self.work(&vault, index, (name, *round), choices, stopping));
            }
            let mut done = 1;
            while done < count && self.alarms.lock().is_empty() {
                let before = self.counted();
                self.look(&vault, opening + done, "beside everything");
                done += 1;
                self.wait_for_all(&before); // (1)
            }
            self.stop.store(true, Ordering::Release);
            done
        });
        vault.close().map_err(text)?;
        Ok(done)
    }

    fn counted(&self) -> Vec<u64> {
        let rounds = self.rounds.iter();
        rounds.map(|round| round.load(Ordering::Acquire)).collect()
    }

    /// Until each thread has ended a round that was under way, or an alarm was told.
    fn wait_for_all(&self, before: &[u64]) {
        let (lock, over) = &self.round_over;
        let mut waiting = lock.lock();
        let is_behind = || {
            self.counted()
                .iter()
                .zip(before)
                .any(|(now, then)| now == then)
        };
        while self.alarms.lock().is_empty() && is_behind() {
            over.wait(&mut waiting);
        }
    }

    fn tell_waiting(&self) {
        // Whoever looked before this is waiting by now.
        drop(self.round_over.0.lock());
        self.round_over.1.notify_all();
    }

    fn work(
        &self,
        vault: &Vault,
        index: usize,
        (name, round): (&str, Round),
        mut choices: Choices,
        stopping: &AtomicBool,
    ) {
        while !stopping.load(Ordering::Acquire) {
            if let Err(error) = round(self, vault, &mut choices) {
                self.alarm(format!("{name}: {error}"));
                return;
            }
            self.rounds[index].fetch_add(1, Ordering::AcqRel);
            self.tell_waiting();
            std::thread::sleep(REST);
        }
    }

    fn alarm(&self, what: String) {
        self.alarms.lock().push(what);
        self.tell_waiting();
    }

    /// A verification, a deep one, or one of the structure, in turn.
    fn look(&self, vault: &Vault, turn: u64, when: &str) {
        let found = match turn % 3 {
            0 => verify(vault, false),
            1 => verify(vault, true),
            _ => vault.check().map(|found| found.problems),
        };
        let how = ["verify", "verify --deep", "verify --structure"][(turn % 3) as usize];
        match found {
            Ok(problems) if problems.is_empty() => {}
            Ok(problems) => self.alarm(format!("{how}, {when}: {}", problems.join("; "))),
            Err(error) => self.alarm(format!("{how}, {when}: {error}")),
        }
    }
}

/// What a verification tells.
///
/// # Errors
/// Of the vault.
pub fn verify(vault: &Vault, deep: bool) -> strongroom::Result<Vec<String>> {
    let options = VerifyOptions {
        deep,
        resume: false,
    };
    let report = vault.verify(options, &mut |_| GoOn::Yes)?;
    let mut told = report.structure.problems.clone();
    let files = report.files.iter();
    told.extend(files.map(|one| format!("{}: {}", one.file, one.what)));
    let damages = report.damages.iter();
    told.extend(damages.map(|one| {
        let kept = one.revisions.len();
        format!(
            "{} lost {}, in {kept} states",
            one.path.escape_ascii(),
            one.what
        )
    }));
    if told.is_empty() && !report.is_sound() {
        let blocks = report.progress.damaged_blocks;
        told.push(format!("{blocks} blocks do not open"));
    }
    Ok(told)
}

/// That `check`, `verify` and `verify --deep` say nothing.
///
/// # Errors
/// What they say, or that they fail.
pub(crate) fn sound(vault: &Vault) -> Result<(), String> {
    let said = |how: &str, found: strongroom::Result<Vec<String>>| match found {
        Ok(problems) if problems.is_empty() => Ok(()),
        Ok(problems) => Err(format!("{how}: {}", problems.join("; "))),
        Err(error) => Err(format!("{how} fails: {error}")),
    };
    said("verify", verify(vault, false))?;
    said("verify --deep", verify(vault, true))?;
    said("check", vault.check().map(|found| found.problems))
}

// ---- the work beside it

fn churn(_: &Scene, vault: &Vault, choices: &mut Choices) -> strongroom::Result<()> {
    let path = format!("/churn/{}", choices.below(FILES));
    let len = [300, 5_000, 70_000, 300_000][choices.index(4)];
    let bytes = choices.bytes(len);
    vault.write(&path, bytes)?;
    if choices.chance(1, 4) {
        vault.sync()?;
    }
    Ok(())
}

fn sync_small(_: &Scene, vault: &Vault, choices: &mut Choices) -> strongroom::Result<()> {
    let path = format!("/small/{}", choices.below(4));
    let options = FileOptions::new().write().create();
    let file = vault.open_file(&path, options)?;
    let bytes = choices.bytes(60);
    file.write_all_at(&bytes, choices.below(3_000))?;
    file.sync_all()
}

fn sweep(_: &Scene, vault: &Vault, choices: &mut Choices) -> strongroom::Result<()> {
    let path = format!("/gone/{}", choices.below(FILES));
    let len = choices.index(200_000);
    vault.write(&path, choices.bytes(len))?;
    vault.remove_file(&path)
}

fn snapshot(_: &Scene, vault: &Vault, _: &mut Choices) -> strongroom::Result<()> {
    vault.take_revision(&NewRevision::default())?;
    let kept = vault.revisions()?;
    for old in kept.iter().rev().skip(KEPT) {
        vault.remove_revision(old.id)?;
    }
    Ok(())
}

fn erase(_: &Scene, vault: &Vault, choices: &mut Choices) -> strongroom::Result<()> {
    let path = format!("/secret/{}", choices.below(FILES));
    vault.write(&path, choices.bytes(40_000))?;
    vault.sync()?;
    vault.take_revision(&NewRevision::default())?;
    vault.remove_file(&path)?;
    vault.erase(&path, false).map(drop)
}

/// Begins a rotation if none is under way; else a key comes and goes now and then, which begins an epoch too.
fn rotate(scene: &Scene, vault: &Vault, choices: &mut Choices) -> strongroom::Result<()> {
    let keys = || Keys::open_with(&scene.folder, &Secret::KeyFile(scene.key.clone()), unseen());
    if !vault.rotation()?.is_running {
        return keys()?.rotate();
    }
    if !choices.chance(1, 50) {
        // It goes on by itself.
        std::thread::sleep(std::time::Duration::from_millis(2));
        return Ok(());
    }
    let mut keys = keys()?;
    let key = KeyFile::random(&SystemRandom).map_err(|error| Error::Keys(error.to_string()))?;
    keys.add("guest", AddKey::Other(NewKey::KeyFile(key)))?;
    let guest = keys.slots().into_iter().find(|slot| slot.label == "guest");
    match guest {
        Some(guest) => keys.remove(guest.id),
        None => Ok(()),
    }
}

/// The command line of it.
///
/// # Errors
/// The words are wrong, or the vault cannot be made.
pub fn command(rest: &[String]) -> Result<bool, String> {
    let mut request = Request {
        runs: 1_000,
        seed: 1,
    };
    for pair in rest.chunks(2) {
        let [option, value] = pair else {
            return Err(format!("{} needs a value", pair.concat()));
        };
        let number = value
            .parse()
            .map_err(|_| format!("{value:?} is no number"))?;
        match option.as_str() {
            "--runs" => request.runs = number,
            "--seed" => request.seed = number,
            _ => return Err(format!("no option {option:?}")),
        }
    }
    let place = tempfile::tempdir().map_err(text)?;
    let outcome = run(place.path(), request)?;
    for alarm in &outcome.alarms {
        println!("VIOLATION {alarm}");
    }
    let beside = outcome.beside.iter();
    let beside: Vec<String> = beside
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    println!(
        "{} verifications and checks beside {}: {} alarms",
        outcome.runs,
        beside.join(", "),
        outcome.alarms.len()
    );
    Ok(outcome.alarms.is_empty())
}
