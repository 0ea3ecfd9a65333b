//! The command lines of simulated sync histories, and of hostile remotes.
//!
//! Takes   a range of seeds or cases, how many to run at a time, where the remote is, and whether to print the steps
//! Gives   for each violation the command that repeats it; totals

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rustix::process::{Resource, Rlimit, setrlimit};

use crate::hostile::child::{MEMORY_BYTES_MAX, peak};
use crate::sync::history::{COUNTED, Mode, RemoteKind, Story, run};
use crate::sync::hostile;

/// Of so many histories one has a folder that is put back from an older copy, and one has a copy that is used beside its original.
const COPIES_EVERY: u64 = 8;

/// The most address space of hostile remotes: libraries, arenas and stacks beside the memory. A length that is only claimed is more.
const ADDRESSES_MAX: u64 = 16 << 30;

struct Request {
    seeds: std::ops::Range<u64>,
    jobs: usize,
    remote: RemoteKind,
    is_told: bool,
}

fn parse(rest: &[String], seeds: std::ops::Range<u64>) -> Result<Request, String> {
    let mut request = Request {
        seeds,
        jobs: 1,
        remote: RemoteKind::Memory,
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
            "--remote" => request.remote = remote(value()?)?,
            "--seeds" | "--cases" => {
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

/// Where the remote is that the command line calls `name`.
fn remote(name: &str) -> Result<RemoteKind, String> {
    match name {
        "memory" => Ok(RemoteKind::Memory),
        "server" => {
            let simulator = std::env::current_exe().map_err(|error| error.to_string())?;
            RemoteKind::server_beside(&simulator)
        }
        _ => Err(format!("no remote {name:?}: memory or server")),
    }
}

/// Which sort of history a seed is.
#[must_use]
pub fn mode(seed: u64) -> Mode {
    match seed % COPIES_EVERY {
        0 => Mode::PutBack,
        4 => Mode::Copied,
        _ => Mode::Usual,
    }
}

/// The command line of it.
///
/// # Errors
/// The words are wrong.
pub fn command(rest: &[String]) -> Result<bool, String> {
    let request = parse(rest, 0..100)?;
    let next = AtomicU64::new(request.seeds.start);
    let violations = AtomicU64::new(0);
    let (sums, at_server) = (Mutex::new([0; COUNTED.len()]), Mutex::new([0; 3]));
    let remote = &request.remote;
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
        if let Err(violation) = run(seed, mode(seed), remote, place.path(), &mut story) {
            violations.fetch_add(1, Ordering::Relaxed);
            println!(
                "seed {seed}: VIOLATION {violation}\n  repeat: target/debug/strongroom-sim sync --seeds {seed} --remote {} --tell",
                remote.name()
            );
        }
        let mut at_server = at_server.lock();
        at_server[0] += story.server_kills;
        at_server[1] += story.server_put_back;
        at_server[2] += story.deposits;
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
    let mut sums: Vec<String> = sums.map(|(sum, what)| format!("{sum} {what}")).collect();
    if *remote != RemoteKind::Memory {
        let [kills, put_back, deposits] = at_server.into_inner();
        sums.push(format!("{kills} kills of the server"));
        sums.push(format!("{put_back} servers put back"));
        sums.push(format!("{deposits} deposits"));
    }
    println!(
        "{} histories of sync, {violations} violations; {}",
        request.seeds.end - request.seeds.start,
        sums.join(", ")
    );
    Ok(violations == 0)
}

/// The command line of hostile remotes: every case, or those of `--cases`.
///
/// # Errors
/// The words are wrong, or nothing could be tried.
pub fn hostile_command(rest: &[String]) -> Result<bool, String> {
    let request = parse(rest, 0..hostile::count())?;
    if request.remote != RemoteKind::Memory {
        return Err("only a remote in memory lies".to_owned());
    }
    let limit = Rlimit {
        current: Some(ADDRESSES_MAX),
        maximum: Some(ADDRESSES_MAX),
    };
    setrlimit(Resource::As, limit).map_err(|error| error.to_string())?;
    let place = tempfile::tempdir().map_err(|error| error.to_string())?;
    let (said, mut broken) = hostile::sweep(request.seeds, 1, request.jobs, place.path())?;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let most = peak(&status).unwrap_or(0);
    if most > MEMORY_BYTES_MAX * request.jobs as u64 {
        broken.push(format!("VIOLATION (1): {} MiB of memory", most >> 20));
    }
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for (case, words) in &said {
        let words = words.join(", ");
        if request.is_told {
            println!("{case}: {words}");
        }
        *sums.entry(words).or_default() += 1;
    }
    for (words, count) in sums {
        println!("{count} times: {words}");
    }
    println!(
        "{} lies of a remote, {} violations; {} MiB of memory",
        said.len() + broken.len(),
        broken.len(),
        most >> 20
    );
    Ok(broken.is_empty())
}
