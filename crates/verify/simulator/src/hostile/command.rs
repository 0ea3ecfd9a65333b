//! The command line of what is hostile.
//!
//! Takes   the words behind the verb
//! Gives   whether no promise was broken

use super::pages;
use super::workers::{self, Share};

/// Whether `verb` is one of them.
#[must_use]
pub fn is_verb(verb: &str) -> bool {
    matches!(verb, "pages" | "pages-worker")
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
        sets: 1_000,
        seed: 1,
        only: None,
        jobs: jobs_default(),
    };
    for pair in rest.chunks(2) {
        let [option, value] = pair else {
            return Err(format!("{} needs a value", pair.concat()));
        };
        match option.as_str() {
            "--sets" => request.sets = number(value)?,
            "--seed" => request.seed = number(value)?,
            "--jobs" => request.jobs = number::<usize>(value)?.max(1),
            "--only" => request.only = Some(value.clone()),
            _ => return Err(format!("no option {option:?}")),
        }
    }
    Ok(request)
}
