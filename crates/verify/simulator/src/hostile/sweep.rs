//! `strongroom-sim hostile`: combines every file of a vault with every operation and every command.
//!
//! Takes   a seed, and how many of all cases to run
//! Gives   a line for each broken promise, with the command that repeats it; counts
//! Never   omits a file, an operation or a command: impossible combinations are counted

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command as Process;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use strongroom::{CreateOptions, SystemRandom, Vault};

use super::child;
use super::commands::{self, COMMANDS, Command, Judge};
use super::judgement::{Case, Stands, Verdict, bounds, is_named, stands, words};
use super::known::{May, by_design};
use super::operations::{Applied, Operation};
use super::pages_base::{INTENT_ROUNDS, Images, with_intents};
use super::stage::{Done, Ground, Stage};
use super::tally::{self, Part, Tally};
use super::workers::{Share, user_folders};
use crate::damage::base::{copy, files};
use crate::random::Choices;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// The command under test.
    pub program: PathBuf,
    /// This program.
    pub simulator: PathBuf,
    /// Of all choices.
    pub seed: u64,
    /// So many cases of all, chosen by the seed; `None` for all. Then each violation is printed.
    pub cases: Option<usize>,
    /// Only this file, operation and command; `-` for every.
    pub only: Option<[String; 3]>,
    /// Only this part of the cases, so that a long run can be made in several.
    pub share: Share,
    /// Where what the part came to is kept.
    pub summary: Option<PathBuf>,
    /// How many at once.
    pub jobs: usize,
    /// The longest that a command may take; only one that hangs takes so long.
    pub patience: Duration,
}

/// Names that a vault may have beside those of the template.
const FURTHER: &[&str] = &[
    ".new-0123456789abcdef0123456789abcdef",
    "init-unfinished",
    "intents.unreadable",
    "metadata.db-journal",
    "metadata.db-shm",
    "recovered-1",
    "recovering",
    "rekeyed",
    "replica.json.new",
    "replica.json.next",
    "replica.json.saved.new",
    "reserve",
    "unexplained",
    "vault.json.new",
    "vault.json.saved.new",
    "verify-state.json",
];

/// Whole states that the template was before; one of them may be shown where nothing in the folder can tell.
const OLDER: &[&str] = &[
    "A killed 4",
    "A killed 3",
    "A killed 2",
    "A killed 1",
    "A",
    "older",
    "B killed 4",
];

/// The command that brings a vault back as far as it can.
const REBUILDING: &str = "repair";

/// The state that is attacked.
fn template() -> String {
    with_intents(INTENT_ROUNDS)
}

/// What it was before, newest first.
fn older() -> Vec<String> {
    let intents = (0..INTENT_ROUNDS).rev().map(with_intents);
    let named = OLDER.iter().map(|name| (*name).to_owned());
    intents.chain(named).collect()
}

/// The verb by which this program makes the states in a process of its own.
pub const MAKE: &str = "hostile-images";

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Makes the states: in a process of its own, so that no record of them is kept for the user who runs this.
///
/// # Errors
/// Of the disk.
pub fn make(place: &Path, seed: u64) -> Result<(), String> {
    let images = Images::new(place, seed)?;
    fs::write(images.folder(&template()).join("lock"), "").map_err(text)?;
    let other = place.join("other now");
    let made = Vault::create(&other, CreateOptions::new().key_file(key()?)).map_err(text)?;
    made.vault.write("/desk", vec![7; 90_000]).map_err(text)?;
    let new = strongroom::NewRevision::default();
    made.vault.take_revision(&new).map_err(text)?;
    made.vault.sync().map_err(text)?;
    copy(&other, &place.join("other")).map_err(text)?;
    let _ = fs::remove_file(place.join("other/reserve"));
    made.vault.close().map_err(text)?;
    let slots = strongroom::list_slots(images.folder(&template())).map_err(text)?;
    let kept = slots
        .iter()
        .find(|slot| slot.kind != strongroom::SlotKind::KeyFile);
    let kept = kept.ok_or("no second slot")?;
    fs::write(place.join("slot"), kept.id.to_string()).map_err(text)
}

fn key() -> Result<strongroom::KeyFile, String> {
    strongroom::KeyFile::random(&SystemRandom).map_err(text)
}

/// Runs the cases. Gives whether no promise was broken.
///
/// # Errors
/// The states cannot be made, a command cannot be run, or one is missing in the table.
pub fn run(request: &Request) -> Result<bool, String> {
    let place = tempfile::tempdir().map_err(text)?;
    let images = place.path().join("images");
    fs::create_dir_all(&images).map_err(text)?;
    let codes = commands::exit_codes(&request.program)?;
    let made = Process::new(&request.simulator)
        .arg(MAKE)
        .arg(&images)
        .arg(request.seed.to_string())
        .envs(user_folders(&place.path().join("user")).map_err(text)?)
        .status();
    if !made.map_err(text)?.success() {
        return Err("the states could not be made".to_owned());
    }
    let ground = Ground {
        program: request.program.clone(),
        simulator: request.simulator.clone(),
        slot: fs::read_to_string(images.join("slot")).map_err(text)?,
        template: template(),
        seed: request.seed,
        patience: request.patience,
        images,
    };
    let all = cases(&ground, request);
    let part = Part {
        seed: request.seed,
        share: request.share,
        all: all.len() as u64,
    };
    let of_part = all.into_iter().enumerate();
    let of_part = of_part.filter(|(index, _)| request.share.has(*index));
    let cases: Vec<Case> = of_part.map(|(_, case)| case).collect();
    println!(
        "{} of {} cases, {} at once",
        cases.len(),
        part.all,
        request.jobs
    );
    let sweep = Sweep {
        ground: &ground,
        codes: &codes,
        cases: &cases,
        next: AtomicUsize::new(0),
        right: Mutex::new(BTreeMap::new()),
        tally: Mutex::new(Tally::default()),
        request,
    };
    let ended = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..request.jobs)
            .map(|index| {
                let own = place.path().join(format!("worker {index}"));
                let sweep = &sweep;
                scope.spawn(move || sweep.work(&own))
            })
            .collect();
        let ended = workers.into_iter().map(|worker| match worker.join() {
            Ok(ended) => ended,
            Err(_) => Err("a worker panicked".to_owned()),
        });
        ended.collect::<Result<Vec<()>, String>>()
    });
    child::clean(place.path());
    ended?;
    let tally = sweep.tally.into_inner();
    if let Some(summary) = &request.summary {
        tally::keep(summary, &part, &tally)?;
    }
    Ok(tally.print())
}

/// What each file is called in reports: names that are random are counted, the shortest first.
fn labels(template: &Path) -> Vec<(String, String)> {
    let all = files(template);
    let mut labels = vec![(".".to_owned(), ".".to_owned())];
    let mut folders: BTreeSet<String> = BTreeSet::new();
    let sorts = [("segments/", "segment"), ("revisions/", "record")];
    for (below, called) in sorts {
        let mut of_it: Vec<&String> = all.iter().filter(|file| file.starts_with(below)).collect();
        of_it.sort_by_key(|file| fs::metadata(template.join(file)).map_or(0, |file| file.len()));
        for (index, file) in of_it.into_iter().enumerate() {
            labels.push((format!("{below}{called}-{index}"), file.clone()));
            let mut above = Path::new(file).parent();
            while let Some(folder) = above.filter(|folder| !folder.as_os_str().is_empty()) {
                let folder = folder.to_string_lossy().into_owned();
                if folders.insert(folder.clone()) {
                    let is_top = !folder.contains('/');
                    let number = format!("{below}folder-{index}");
                    labels.push((if is_top { folder.clone() } else { number }, folder));
                }
                above = above.and_then(Path::parent);
            }
        }
    }
    let plain = all
        .iter()
        .filter(|file| !sorts.iter().any(|(below, _)| file.starts_with(below)));
    labels.extend(plain.map(|file| (file.clone(), file.clone())));
    for name in FURTHER {
        if !all.iter().any(|file| file == name) {
            labels.push(((*name).to_owned(), (*name).to_owned()));
        }
    }
    labels
}

fn cases(ground: &Ground, request: &Request) -> Vec<Case> {
    let mut cases = Vec::new();
    let template = ground.images.join(&ground.template);
    for (label, relative) in labels(&template) {
        let kind = fs::symlink_metadata(template.join(&relative)).ok();
        for operation in Operation::ALL {
            if !operation.fits(&relative, kind.as_ref()) {
                continue;
            }
            for command in COMMANDS {
                let case = Case {
                    label: label.clone(),
                    relative: relative.clone(),
                    operation,
                    command,
                    seen: false,
                };
                let goes_back = matches!(operation, Operation::Older | Operation::Branch);
                if goes_back && !relative.contains('/') {
                    cases.push(Case {
                        label: format!("{label} (seen)"),
                        seen: true,
                        ..case.clone()
                    });
                }
                cases.push(case);
            }
        }
    }
    let is_asked = |case: &Case| match &request.only {
        None => true,
        Some([file, operation, command]) => {
            (file == "-" || *file == case.label)
                && (operation == "-" || *operation == case.operation.name())
                && (command == "-" || *command == case.command.name)
        }
    };
    cases.retain(is_asked);
    let count = request.cases.unwrap_or(usize::MAX);
    Choices::named(request.seed, &[19]).some_of(cases, count)
}

/// Whether a command that brings a vault back said that something stays lost.
fn is_told(case: &Case, done: &Done) -> bool {
    let is_rebuilding = case.command.name.starts_with(REBUILDING);
    is_rebuilding && done.ended.code == Some(14)
}

/// The cases under way.
struct Sweep<'a> {
    ground: &'a Ground,
    codes: &'a BTreeSet<i32>,
    cases: &'a [Case],
    next: AtomicUsize,
    /// What each command gives on an untouched state: `(state, command)`.
    right: Mutex<BTreeMap<(String, &'static str), Done>>,
    tally: Mutex<Tally>,
    request: &'a Request,
}

impl Sweep<'_> {
    fn work(&self, place: &Path) -> Result<(), String> {
        let stage = Stage::new(self.ground, place)?;
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(case) = self.cases.get(index) else {
                return Ok(());
            };
            let verdicts = self.case(&stage, case)?;
            let each = self.request.only.is_some() || self.request.cases.is_some();
            let seed = self.request.seed;
            self.tally.lock().add(case, verdicts, seed, each);
        }
    }

    /// What `command` gives on a state that nobody touched; of one that changes, what is there after.
    fn right(
        &self,
        stage: &Stage<'_>,
        state: &str,
        command: &'static Command,
    ) -> Result<Done, String> {
        let key = (state.to_owned(), command.name);
        if let Some(done) = self.right.lock().get(&key) {
            return Ok(done.clone());
        }
        stage.set(state)?;
        let mut done = stage.run(command)?;
        if command.judge == Judge::Changes {
            done.picture = self.after(stage)?.picture;
        }
        if state == self.ground.template && done.ended.code != Some(0) {
            let said = String::from_utf8_lossy(&done.ended.error).into_owned();
            println!(
                "untouched, {}: {:?} {}",
                command.name,
                done.ended.code,
                said.trim_end()
            );
        }
        self.right.lock().insert(key, done.clone());
        Ok(done)
    }

    /// Everything is copied out after a change.
    fn after(&self, stage: &Stage<'_>) -> Result<Done, String> {
        let get = commands::by_name("get").ok_or("no get")?;
        stage.clear()?;
        stage.run(get)
    }

    fn case(&self, stage: &Stage<'_>, case: &Case) -> Result<Vec<Verdict>, String> {
        let right = self.right(stage, &self.ground.template, case.command)?;
        stage.set(&self.ground.template)?;
        if case.seen {
            let look = commands::by_name("ls").ok_or("no ls")?;
            stage.run(look)?;
        }
        let applied = stage.apply(case.operation, &case.relative)?;
        if applied == Applied::Nothing {
            return Ok(vec![("not possible there".to_owned(), String::new())]);
        }
        let mut done = stage.run(case.command)?;
        let mut verdicts = bounds(&done, self.codes);
        let is_reading = matches!(
            case.command.judge,
            Judge::Lines | Judge::Copies | Judge::Mount
        );
        // 14 of a repair: done, and not everything could be brought back.
        let is_done = match done.ended.code {
            Some(14) => case.command.name.starts_with(REBUILDING),
            code => code == Some(0),
        };
        if case.command.judge == Judge::Changes && is_done {
            let after = self.after(stage)?;
            verdicts.extend(bounds(&after, self.codes));
            done.picture = after.picture;
            // A command that reads no content leaves what was lost to the next one, which says so.
            done.ended.error.extend(after.ended.error);
            if after.ended.code == Some(0) {
                verdicts.push(self.reading(stage, case, &done, &right)?);
            }
        }
        if is_reading {
            verdicts.push(self.reading(stage, case, &done, &right)?);
        }
        if case.seen && done.ended.code == Some(0) && is_reading && case.relative == "." {
            verdicts.push(("VIOLATION went back in silence".to_owned(), String::new()));
        }
        verdicts.extend(words(case, applied, &done, &right));
        if verdicts.is_empty() {
            verdicts.push(("answered".to_owned(), String::new()));
        }
        Ok(verdicts)
    }

    /// Whether a command that brings a vault back left only files that one of its states had, or that have no name.
    fn is_rebuilt(&self, stage: &Stage<'_>, case: &Case, done: &Done) -> Result<bool, String> {
        let is_asked = case.command.name.starts_with(REBUILDING);
        let (true, Some(picture)) = (is_asked, &done.picture) else {
            return Ok(false);
        };
        let get = commands::by_name("get").ok_or("no get")?;
        let mut states = vec![self.right(stage, &self.ground.template, get)?];
        for state in older() {
            states.push(self.right(stage, &state, get)?);
        }
        let is_known = |path: &Vec<u8>, text: &String| {
            let mut pictures = states.iter().filter_map(|state| state.picture.as_ref());
            path.starts_with(b"lost+found") || pictures.any(|one| one.get(path) == Some(text))
        };
        Ok(picture.iter().all(|(path, text)| is_known(path, text)))
    }

    fn reading(
        &self,
        stage: &Stage<'_>,
        case: &Case,
        done: &Done,
        right: &Done,
    ) -> Result<Verdict, String> {
        match stands(case.command, done, right) {
            Stands::Same => return Ok(("right".to_owned(), String::new())),
            Stands::Part => return Ok(("right, or an error".to_owned(), String::new())),
            Stands::Other => {}
        }
        let said = String::from_utf8_lossy(&done.ended.error).into_owned();
        for state in older() {
            let then = self.right(stage, &state, case.command)?;
            if stands(case.command, done, &then) == Stands::Other {
                continue;
            }
            let why = by_design(&case.label, case.operation, May::BeOlder);
            return Ok(match why {
                Some(why) => (format!("by design, older: {why}"), String::new()),
                None if is_named(case, &said) || is_told(case, done) => {
                    ("older, and told".to_owned(), String::new())
                }
                None => (
                    "VIOLATION older in silence".to_owned(),
                    format!("as {state}"),
                ),
            });
        }
        if self.is_rebuilt(stage, case, done)? {
            return Ok(match done.ended.out.is_empty() && said.is_empty() {
                true => ("VIOLATION rebuilt in silence".to_owned(), String::new()),
                false => (
                    "rebuilt and told, each file of a state".to_owned(),
                    String::new(),
                ),
            });
        }
        let differs = match (&right.picture, &done.picture) {
            (Some(right), Some(seen)) => super::canary::difference(right, seen),
            _ => None,
        };
        let what = format!(
            "code {:?}, {} {said}",
            done.ended.code,
            differs.unwrap_or_default()
        );
        Ok(("VIOLATION wrong read".to_owned(), what))
    }
}
