//! Runs a target over its mutants and judges each execution.
//!
//! Invariants
//!  (1) Execution `n` depends only on seed, target and `n`, so each execution can be repeated by itself.
//!  (2) An execution that takes longer than `EXECUTION_MS_MAX` ends the whole process, with its number.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use strongroom_conformance::hostile::{Chance, mutant};

use crate::measured::measured;
use crate::target::Target;

/// How many mutants a cheap decoder meets, unless told otherwise.
const EXECUTIONS_DEFAULT: u64 = 20_000;
/// What no execution may take. A hundred thousand times what one takes; also a busy machine stays below.
const EXECUTION_MS_MAX: u64 = 30_000;

/// What to run.
pub(crate) struct Plan {
    pub(crate) targets: Vec<String>,
    executions: u64,
    seed: u64,
    only: Option<u64>,
    input: Option<PathBuf>,
}

impl Plan {
    /// As the variables say.
    pub(crate) fn of_environment() -> Self {
        let number = |name| {
            std::env::var(name).ok().map(|text| {
                text.parse::<u64>()
                    .unwrap_or_else(|_| panic!("{name}={text} is no number"))
            })
        };
        let targets = std::env::var("FUZZ_TARGETS").unwrap_or_default();
        Self {
            targets: targets
                .split(',')
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect(),
            executions: number("FUZZ_EXECUTIONS").unwrap_or(EXECUTIONS_DEFAULT),
            seed: number("FUZZ_SEED").unwrap_or(0),
            only: number("FUZZ_ONLY"),
            input: std::env::var_os("FUZZ_INPUT").map(PathBuf::from),
        }
    }
}

/// The line of a target that held.
pub(crate) fn run(target: &Target, plan: &Plan) -> Result<String, String> {
    if let Some(path) = &plan.input {
        let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        return judge(target, &bytes)
            .map(|accepted| format!("{}: accepted: {accepted}", target.name));
    }
    let executions = (plan.executions / target.cost).max(1);
    let numbers = plan.only.map_or(0..executions, |only| only..only + 1);
    let current = AtomicU64::new(numbers.start);
    let start = Instant::now();
    let accepted = std::thread::scope(|scope| {
        let (ended, end) = mpsc::channel::<()>();
        let (name, current) = (target.name, &current);
        scope.spawn(move || watch(name, plan.seed, current, &end));
        let accepted = over(target, plan.seed, numbers.clone(), current);
        drop(ended);
        accepted
    })?;
    let count = numbers.end - numbers.start;
    let rate = count as f64 / start.elapsed().as_secs_f64();
    Ok(format!(
        "{:<22} {count:>9} executions, {accepted:>8} accepted, {rate:>9.0} per second",
        target.name
    ))
}

/// How many of the executions `numbers` were accepted, if all held.
fn over(
    target: &Target,
    seed: u64,
    numbers: std::ops::Range<u64>,
    current: &AtomicU64,
) -> Result<u64, String> {
    let mut accepted = 0;
    for number in numbers {
        current.store(number, Ordering::Relaxed);
        let bytes = input(target, seed, number);
        let judged = judge(target, &bytes);
        accepted += u64::from(judged.map_err(|why| explain(target, seed, number, &bytes, &why))?);
    }
    Ok(accepted)
}

/// The bytes of one execution.                                                                                 (1)
fn input(target: &Target, seed: u64, number: u64) -> Vec<u8> {
    let mut chance = Chance::of(seed, target.name, number);
    let mut bytes = mutant(&target.seeds, &mut chance);
    // One in four keeps its wrong checksum.
    if chance.below(4) != 0 {
        (target.repair)(&mut bytes);
    }
    bytes
}

/// Whether the target accepted `bytes`; the fault, if it broke a promise.
pub(crate) fn judge(target: &Target, bytes: &[u8]) -> Result<bool, String> {
    let work = AssertUnwindSafe(|| (target.decode)(bytes));
    let (outcome, held) = measured(|| catch_unwind(work));
    let accepted = outcome.map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        format!("panicked: {}", text.unwrap_or("no text"))
    })?;
    let bound = (target.bound)(bytes.len());
    if held > bound {
        return Err(format!(
            "held {held} bytes at once for {} bytes of input; its bound is {bound}",
            bytes.len()
        ));
    }
    Ok(accepted)
}

/// Writes the input to a file; says what happened and how to see it again.
fn explain(target: &Target, seed: u64, number: u64, bytes: &[u8], why: &str) -> String {
    let name = format!("hostile-{}-{seed}-{number}.bin", target.name);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let written = match std::fs::write(&path, bytes) {
        Ok(()) => format!("FUZZ_INPUT={}", path.display()),
        // The number alone makes the same bytes again.
        Err(_) => format!("FUZZ_SEED={seed} FUZZ_ONLY={number}"),
    };
    format!(
        "{} {why}\nrepeat: {}",
        target.name,
        command(target.name, &written)
    )
}

fn command(name: &str, variables: &str) -> String {
    format!(
        "FUZZ_TARGETS={name} {variables} cargo test -p strongroom-conformance --test hostile no_decoder -- --nocapture"
    )
}

/// Ends the process when one execution takes too long.                                                        (2)
fn watch(name: &str, seed: u64, current: &AtomicU64, end: &mpsc::Receiver<()>) {
    let mut seen = None;
    loop {
        match end.recv_timeout(Duration::from_millis(EXECUTION_MS_MAX)) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
        }
        let number = current.load(Ordering::Relaxed);
        if seen == Some(number) {
            let variables = format!("FUZZ_SEED={seed} FUZZ_ONLY={number}");
            eprintln!("{name} hangs\nrepeat: {}", command(name, &variables));
            std::process::abort();
        }
        seen = Some(number);
    }
}

/// A decoder with every fault there is, for who watches the watchman.
fn faulty(decode: fn(&[u8]) -> bool) -> Target {
    Target::new("faulty", vec![vec![0; 64]], decode)
}

fn run_of(target: &Target) -> Result<String, String> {
    let plan = Plan {
        targets: Vec::new(),
        executions: 2_000,
        seed: 0,
        only: None,
        input: None,
    };
    run(target, &plan)
}

/// The file that the command at the end of `failure` names.
fn input_of(failure: &str) -> PathBuf {
    let rest = failure.split_once("FUZZ_INPUT=").unwrap().1;
    PathBuf::from(rest.split(' ').next().unwrap())
}

#[test]
fn a_decoder_that_panics_is_found_and_its_input_repeats_the_panic() {
    let target = faulty(|bytes| bytes[8] != 0);
    let failure = run_of(&target).unwrap_err();
    assert!(
        failure.contains("panicked: index out of bounds"),
        "{failure}"
    );
    let path = input_of(&failure);
    let bytes = std::fs::read(&path).unwrap();
    assert!(judge(&target, &bytes).unwrap_err().contains("panicked"));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_decoder_that_believes_a_length_is_found() {
    let target = faulty(|bytes| {
        let len = bytes
            .first_chunk::<4>()
            .map_or(0, |len| u32::from_le_bytes(*len));
        let room: Vec<u8> = Vec::with_capacity(std::hint::black_box(len as usize));
        room.capacity() == 0
    });
    let failure = run_of(&target).unwrap_err();
    assert!(failure.contains("its bound is"), "{failure}");
    std::fs::remove_file(input_of(&failure)).unwrap();
}
