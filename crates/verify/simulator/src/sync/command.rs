//! The command line of histories of sync.
//!
//! Takes   a range of seeds, how many to run at a time, whether what is done is printed
//! Gives   for each violation the seed and the command that repeats it; sums

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::sync::history::{COUNTED, Mode, Story, run};

/// Of so many histories one has a folder that is put back from an older copy.
const PUT_BACK_EVERY: u64 = 8;

struct Request {
    seeds: std::ops::Range<u64>,
    jobs: usize,
    is_told: bool,
}

fn parse(rest: &[String]) -> Result<Request, String> {
    let mut request = Request {
        seeds: 0..100,
        jobs: 1,
        is_told: false,
    };
    let number = |text: &str| {
        text.parse::<u64>()
            .map_err(|_| format!("{text:?} is no number"))
    };
    let mut rest = rest.iter();
    while let Some(option) = rest.next() {
        let mut value = || rest.next().ok_or_else(|| format!("{option} needs a value"));
        match option.as_str() {
            "--tell" => request.is_told = true,
            "--jobs" => request.jobs = number(value()?)?.clamp(1, 64) as usize,
            "--seeds" => {
                let value = value()?;
                request.seeds = match value.split_once("..") {
                    Some((from, to)) => number(from)?..number(to)?,
                    None => number(value).map(|seed| seed..seed + 1)?,
                }
            }
            _ => return Err(format!("no option {option:?}")),
        }
    }
    Ok(request)
}

/// Which sort of history a seed is.
#[must_use]
pub fn mode(seed: u64) -> Mode {
    match seed % PUT_BACK_EVERY {
        0 => Mode::PutBack,
        _ => Mode::Usual,
    }
}

/// The command line of it.
///
/// # Errors
/// The words are wrong.
pub fn command(rest: &[String]) -> Result<bool, String> {
    let request = parse(rest)?;
    let next = AtomicU64::new(request.seeds.start);
    let (violations, sums) = (AtomicU64::new(0), Mutex::new([0; COUNTED.len()]));
    let work = || loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= request.seeds.end {
            return;
        }
        let place = tempfile::tempdir().expect("there is a folder for temporary files");
        let mut story = Story {
            is_told: request.is_told,
            ..Story::default()
        };
        if let Err(violation) = run(seed, mode(seed), place.path(), &mut story) {
            violations.fetch_add(1, Ordering::Relaxed);
            println!(
                "seed {seed}: VIOLATION {violation}\n  repeat: target/debug/strongroom-sim sync --seeds {seed} --tell"
            );
        }
        let mut sums = sums.lock();
        sums.iter_mut()
            .zip(story.counts)
            .for_each(|(sum, count)| *sum += count);
    };
    std::thread::scope(|scope| {
        for _ in 0..request.jobs {
            scope.spawn(work);
        }
    });
    let violations = violations.into_inner();
    let sums = sums.into_inner().into_iter().zip(COUNTED);
    let sums: Vec<String> = sums.map(|(sum, what)| format!("{sum} {what}")).collect();
    println!(
        "{} histories of sync, {violations} violations; {}",
        request.seeds.end - request.seeds.start,
        sums.join(", ")
    );
    Ok(violations == 0)
}
