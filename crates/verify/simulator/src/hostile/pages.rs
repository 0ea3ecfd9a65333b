//! `strongroom-sim pages`: opens and reads every mixture of the pages of several states of a database.
//!
//! Takes   a seed, and a count of random mixtures
//! Gives   a line for every mixture whose content does not all belong to one whole state, for every harmful one that a
//!         verification does not report, and for every unclear refusal
//! Never   carries a user's records from one mixture to the next: each worker has its own user folders, and empties them

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command as Process;
use std::time::Duration;

use strongroom::{GoOn, OpenOptions, Vault, VerifyOptions, VerifyReport};

use super::mixing::{DATABASE, Mixing, Mixture};
use super::pages_base::{BRANCHES, Images, killed, last_killed};
use super::reading::Reading;
use super::workers::{self, Share, user_folders};
use crate::damage::base::{copy, files};
use crate::random::Choices;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// This program.
    pub simulator: PathBuf,
    /// So many of all mixtures, chosen by the seed; `None` for all.
    pub sample: Option<usize>,
    /// Random sets.
    pub sets: u64,
    /// Of all choices.
    pub seed: u64,
    /// Only the mixture of this name.
    pub only: Option<String>,
    /// Processes side by side.
    pub jobs: usize,
}

/// The longest time for one mixture; only a hang takes that long.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often violations are printed before they are only counted.
const PRINTED_MAX: usize = 8;

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// The verb by which this program makes the images in a process of its own: no record of them is kept for the user.
pub const MAKE: &str = "pages-images";

/// Makes the images.
///
/// # Errors
/// Of the disk.
pub fn make(place: &Path, seed: u64) -> Result<(), String> {
    Images::new(place, seed).map(drop)
}

/// Makes the images, reads all mixtures on several processes, prints what is wrong. Gives whether nothing is.
///
/// # Errors
/// The images cannot be made.
pub fn run(request: &Request) -> Result<bool, String> {
    let place = tempfile::tempdir().map_err(text)?;
    let base = place.path().join("images");
    fs::create_dir_all(&base).map_err(text)?;
    let own = user_folders(&place.path().join("user")).map_err(text)?;
    let made = Process::new(&request.simulator)
        .arg(MAKE)
        .arg(&base)
        .arg(request.seed.to_string())
        .envs(own)
        .status();
    if !made.map_err(text)?.success() {
        return Err("the images could not be made".to_owned());
    }
    let images = Images::at(&base)?;
    let mixing = Mixing::new(&images, request.seed);
    println!("{}", mixing.sizes());
    for branch in BRANCHES {
        if !mixing.has_log(&last_killed(branch)) {
            return Err(format!("{branch}: no log was left to mix"));
        }
    }
    let mut arguments = vec![
        "pages-worker".to_owned(),
        base.to_string_lossy().into_owned(),
        request.sets.to_string(),
        request.seed.to_string(),
        request.sample.unwrap_or(usize::MAX).to_string(),
    ];
    arguments.extend(request.only.clone());
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let mut printed: BTreeMap<String, usize> = BTreeMap::new();
    let count = workers::share(
        &request.simulator,
        &arguments,
        request.jobs,
        place.path(),
        PATIENCE,
        &mut |line| {
            let (verdict, rest) = line.split_once('\t').unwrap_or((line, ""));
            *counts.entry(verdict.to_owned()).or_default() += 1;
            if verdict.starts_with("VIOLATION") {
                let printed = printed.entry(verdict.to_owned()).or_default();
                *printed += 1;
                let (name, what) = rest.split_once('\t').unwrap_or((rest, ""));
                if *printed <= PRINTED_MAX {
                    println!("{verdict}: {name}: {what}");
                    println!(
                        "  strongroom-sim pages --seed {} --sets {} --only '{name}'",
                        request.seed, request.sets
                    );
                }
            }
        },
    )?;
    for (verdict, count) in &counts {
        println!("{count:>7}  {verdict}");
    }
    let violations: u64 = counts
        .iter()
        .filter(|(verdict, _)| verdict.starts_with("VIOLATION"))
        .map(|(_, count)| count)
        .sum();
    println!("{count} answers to mixtures, {violations} violations");
    if count == 0 {
        return Err("nothing was mixed".to_owned());
    }
    Ok(violations == 0)
}

/// Reads the mixtures of one share, a line each.
///
/// # Errors
/// The images cannot be read untouched.
pub fn work(share: Share, arguments: &[String]) -> Result<(), String> {
    let [base, sets, seed, sample, only @ ..] = arguments else {
        return Err("pages-worker IMAGES SETS SEED SAMPLE [NAME]".to_owned());
    };
    let (sets, seed) = (sets.parse().map_err(text)?, seed.parse().map_err(text)?);
    let sample: usize = sample.parse().map_err(text)?;
    let place = tempfile::tempdir().map_err(text)?;
    let images = Images::at(Path::new(base))?;
    let mixing = Mixing::new(&images, seed);
    let trials = Trials::new(&images, place.path())?;
    let plans = Choices::named(seed, &[18]).some_of(mixing.plans(sets), sample);
    for (index, plan) in plans.iter().enumerate() {
        let is_asked = only.first().is_none_or(|name| *name == plan.to_string());
        if !share.has(index) || !is_asked {
            continue;
        }
        workers::forget()?;
        let mixture = mixing.mixture(plan);
        let name = mixture.name.clone();
        let done = catch_unwind(AssertUnwindSafe(|| trials.judge(&mixture)));
        let lines = done.unwrap_or_else(|_| vec![("VIOLATION panic", String::new())]);
        for (verdict, what) in lines {
            workers::say(&format!("{verdict}\t{name}\t{}", what.replace('\n', " ")));
        }
    }
    Ok(())
}

/// The images unpacked for one worker.
struct Trials<'a> {
    images: &'a Images,
    states: BTreeMap<String, Reading>,
    place: PathBuf,
}

type Verdicts = Vec<(&'static str, String)>;

impl<'a> Trials<'a> {
    fn new(images: &'a Images, place: &Path) -> Result<Self, String> {
        let mut names = vec!["older".to_owned()];
        for branch in BRANCHES {
            names.push(branch.to_owned());
            names.extend((1..=4).map(|commit| killed(branch, commit)));
        }
        let mut states = BTreeMap::new();
        for name in names {
            workers::forget()?;
            states.insert(name.clone(), images.state(&name, &place.join("look"))?);
        }
        for branch in BRANCHES {
            for image in [branch.to_owned(), last_killed(branch)] {
                copy(&images.folder(&image), &place.join(image)).map_err(text)?;
            }
        }
        Ok(Self {
            images,
            states,
            place: place.to_path_buf(),
        })
    }

    /// Puts the mixture in place.
    fn place(&self, mixture: &Mixture) -> Result<PathBuf, String> {
        let folder = self.place.join(&mixture.target);
        let image = self.images.folder(&mixture.target);
        for file in files(&folder) {
            let is_segment = file.starts_with("segments/");
            if !is_segment {
                fs::remove_file(folder.join(file)).map_err(text)?;
            }
        }
        for file in files(&image) {
            let (from, to) = (image.join(&file), folder.join(&file));
            let is_same = fs::metadata(&to).map(|to| to.len()).ok()
                == fs::metadata(&from).map(|from| from.len()).ok();
            if !file.starts_with("segments/") || !is_same {
                fs::copy(from, to).map_err(text)?;
            }
        }
        for (name, bytes) in &mixture.files {
            match bytes {
                Some(bytes) => fs::write(folder.join(name), bytes).map_err(text)?,
                None => drop(fs::remove_file(folder.join(name))),
            }
        }
        Ok(folder)
    }

    fn judge(&self, mixture: &Mixture) -> Verdicts {
        let folder = match self.place(mixture) {
            Ok(folder) => folder,
            Err(error) => return vec![("VIOLATION harness", error)],
        };
        // Closed images are only read; a log is taken in by the first who may write.
        let options = match BRANCHES.contains(&mixture.target.as_str()) {
            true => OpenOptions::read_only(),
            false => OpenOptions::default(),
        };
        let vault = match self.images.open(&folder, options) {
            Ok(vault) => vault,
            Err(error) => return vec![refusal(&error)],
        };
        let reading = Reading::of(&vault);
        let mut verdicts = vec![self.reading(mixture, &reading)];
        verdicts.extend(verification(mixture, &vault));
        // A failure to write back a ruined database is told by `verify` and by reads.
        let _ = vault.close();
        verdicts
    }

    fn reading(&self, mixture: &Mixture, reading: &Reading) -> (&'static str, String) {
        let mut why = String::new();
        for (index, state) in mixture.states.iter().enumerate() {
            let Some(state) = self.states.get(state) else {
                return ("VIOLATION harness", format!("no state {state}"));
            };
            match reading.is_of(state) {
                Ok(()) if reading.errors > 0 => return ("read: right, or an error", String::new()),
                Ok(()) if index > 0 => return ("read: an older whole state", String::new()),
                Ok(()) => return ("read: all right", String::new()),
                Err(what) if why.is_empty() => why = what,
                Err(_) => {}
            }
        }
        ("VIOLATION wrong read", why)
    }
}

/// An opening that is refused must say why.
fn refusal(error: &str) -> (&'static str, String) {
    let is_told = ["damage", "tamper", "older", "database"];
    match is_told.iter().any(|word| error.contains(word)) {
        true => ("refused by name", String::new()),
        false => ("VIOLATION unclear refusal", error.to_owned()),
    }
}

fn verification(mixture: &Mixture, vault: &Vault) -> Option<(&'static str, String)> {
    let options = VerifyOptions {
        deep: true,
        resume: false,
    };
    let report = match vault.verify(options, &mut |_| GoOn::Yes) {
        Ok(report) => report,
        Err(error) => return Some(refusal(&error.to_string())),
    };
    if !mixture.is_harmed {
        return None;
    }
    Some(match is_named(&report) {
        true => ("verify names it", String::new()),
        false => ("VIOLATION verify is silent", format!("{:?}", report.files)),
    })
}

/// Whether the database is named; a loss of what it means is not enough, for that could be the segments.
fn is_named(report: &VerifyReport) -> bool {
    let named = report.files.iter();
    let mut named = named.filter(|problem| problem.file.starts_with(DATABASE));
    named.next().is_some() || !report.structure.problems.is_empty()
}
