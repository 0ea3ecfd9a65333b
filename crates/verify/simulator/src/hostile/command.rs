//! The command line of the hostile tests.
//!
//! Takes   the words after the verb
//! Gives   whether every promise was kept

use std::path::{Path, PathBuf};

use super::canary::{self, Facts};
use super::child;
use super::pages;
use super::stage;
use super::sweep;
use super::tally;
use super::workers::{self, Share};

/// Whether `verb` is one of them.
#[must_use]
pub fn is_verb(verb: &str) -> bool {
    let own = [
        sweep::MAKE,
        pages::MAKE,
        "pages-worker",
        "hostile-look",
        "hostile-clean",
        "hostile-join",
    ];
    matches!(verb, "pages" | "hostile") || own.contains(&verb)
}

/// Does it.
///
/// # Errors
/// The words are wrong, or the run cannot begin.
pub fn run(verb: &str, rest: &[String]) -> Result<bool, String> {
    match (verb, rest) {
        ("pages", _) => pages::run(&pages_request(rest)?),
        ("pages-worker", [share, rest @ ..]) => {
            pages::work(Share::parse(share)?, rest)?;
            workers::end();
            Ok(true)
        }
        (pages::MAKE, [place, seed]) => pages::make(Path::new(place), number(seed)?).map(|()| true),
        ("hostile", _) => sweep::run(&sweep_request(rest)?),
        ("hostile-look", [folder]) => {
            let picture = canary::picture(Path::new(folder), Facts::Content);
            print!("{}", stage::lines(&picture));
            Ok(true)
        }
        ("hostile-join", files) => {
            let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
            tally::join(&files)
        }
        ("hostile-clean", [place]) => {
            child::clean(Path::new(place));
            Ok(true)
        }
        (sweep::MAKE, [place, seed]) => {
            sweep::make(Path::new(place), number(seed)?)?;
            Ok(true)
        }
        _ => Err(format!("strongroom-sim {verb}: wrong arguments")),
    }
}

/// As many processes as there are processors.
#[must_use]
pub fn jobs_default() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text:?} is no number"))
}

fn pages_request(rest: &[String]) -> Result<pages::Request, String> {
    let mut request = pages::Request {
        simulator: std::env::current_exe().map_err(|error| error.to_string())?,
        sets: 1_000,
        sample: None,
        seed: 1,
        only: None,
        jobs: jobs_default(),
    };
    for pair in rest.chunks(2) {
        let [option, value] = pair else {
            return Err(format!("{} needs a value", pair.concat()));
        };
        match option.as_str() {
            "--sample" => request.sample = Some(number(value)?),
            "--sets" => request.sets = number(value)?,
            "--seed" => request.seed = number(value)?,
            "--jobs" => request.jobs = number::<usize>(value)?.max(1),
            "--only" => request.only = Some(value.clone()),
            _ => return Err(format!("no option {option:?}")),
        }
    }
    Ok(request)
}

/// The command that lies beside this program.
fn program_beside() -> Result<(PathBuf, PathBuf), String> {
    let simulator = std::env::current_exe().map_err(|error| error.to_string())?;
    Ok((simulator.with_file_name("strongroom"), simulator))
}

fn sweep_request(rest: &[String]) -> Result<sweep::Request, String> {
    let (program, simulator) = program_beside()?;
    let mut request = sweep::Request {
        program,
        simulator,
        seed: 1,
        cases: None,
        only: None,
        share: Share::ALL,
        summary: None,
        jobs: jobs_default(),
        patience: child::PATIENCE,
    };
    let mut rest = rest.iter();
    while let Some(option) = rest.next() {
        let mut value = || {
            let value = rest.next().cloned();
            value.ok_or_else(|| format!("{option} needs a value"))
        };
        match option.as_str() {
            "--patience" => {
                request.patience = std::time::Duration::from_secs(number(&value()?)?);
            }
            "--program" => request.program = value()?.into(),
            "--seed" => request.seed = number(&value()?)?,
            "--cases" => request.cases = Some(number(&value()?)?),
            "--part" => request.share = Share::of_part(&value()?)?,
            "--summary" => request.summary = Some(value()?.into()),
            "--jobs" => request.jobs = number::<usize>(&value()?)?.max(1),
            "--only" => request.only = Some([value()?, value()?, value()?]),
            _ => return Err(format!("no option {option:?}")),
        }
    }
    Ok(request)
}
