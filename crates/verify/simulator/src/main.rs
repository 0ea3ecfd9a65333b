//! `strongroom-sim`: cuts the power under a vault, many times.
//!
//! Takes   a range of seeds
//! Gives   one line a seed; for a violation the command that repeats it, and exit code 1
//! Never   touches a real vault: every disk is simulated
//! Spec    spec/5-crash-contract.md
#![forbid(unsafe_code)]

mod arguments;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use arguments::{Arguments, USAGE, number, parse, threads};

use rustix::process::{getpid, kill_process};
use strongroom::{KeyFile, RepairOptions, Secret};
use strongroom_conformance::engine;
use strongroom_filesystem::Work;
use strongroom_metadata::DiskFault;
use strongroom_simulator::alarms;
use strongroom_simulator::backups;
use strongroom_simulator::damage::{self, inflict::Sort};
use strongroom_simulator::database_faults::{self, Outcome, Plan, Target};
use strongroom_simulator::disk::{Call, Failure, Fault, NameSync, Policy};
use strongroom_simulator::hostile::command as hostile;
use strongroom_simulator::rotations;
use strongroom_simulator::run::{NOT_MADE, NOT_MADE_CODE, Seen, Trial, WORKER_DONE, run};
use strongroom_simulator::small_disk::{self, Kind};
#[cfg(feature = "testing")]
use strongroom_simulator::sync;
use strongroom_simulator::transactions;
use strongroom_simulator::vault;
use strongroom_simulator::worker::{Scale, recover, work};

/// The counts of cuts within each sort of background work, in words.
fn in_words(within: &[u64]) -> String {
    let each = Work::ALL.iter().zip(within);
    let each = each.map(|(work, cuts)| format!("{cuts} in {}", format!("{work:?}").to_lowercase()));
    each.collect::<Vec<_>>().join(", ")
}

/// Runs every seed by `run`, which the command line calls `verb`.
fn run_seeds(
    arguments: &Arguments,
    verb: &str,
    run: fn(u64, &Trial) -> Result<Seen, String>,
) -> bool {
    let mut sound = true;
    let mut all = Seen::default();
    let trial = &arguments.trial;
    for seed in arguments.seeds.clone() {
        match run(seed, trial) {
            Ok(seen) => {
                println!(
                    "seed {seed}: sound; {} acts, {} requests, {} moments, {} trees; cuts: {}",
                    seen.returned,
                    seen.calls,
                    seen.moments,
                    seen.trees,
                    in_words(&seen.within)
                );
                all.add(&seen);
            }
            Err(complaint) => {
                sound = false;
                let journal = if trial.names == NameSync::Journal {
                    " --journal"
                } else {
                    ""
                };
                let threads = trial.threads;
                println!("seed {seed}: VIOLATION {complaint}");
                println!(
                    "  repeat: target/debug/strongroom-sim {verb} --seeds {seed} --ops {} --stride {} --threads {threads} --scale {}{journal}",
                    trial.acts,
                    trial.stride,
                    trial.scale.name()
                );
            }
        }
    }
    println!(
        "all: {} moments, {} trees, {} vaults used further, {} recoveries cut; cuts: {}",
        all.moments,
        all.trees,
        all.used,
        all.recoveries,
        in_words(&all.within)
    );
    // A run that itself sealed nothing has not read what the others noted.
    let noted = engine::nonce_ledger_len().filter(|noted| trial.ledger.is_some() && *noted > 0);
    if let Some(noted) = noted {
        println!("all: {noted} keys and nonces in the ledger, none met two plaintexts");
    }
    if arguments.cover && all.within.contains(&0) {
        println!("NOT COVERED: a sort of background work was never cut; try more seeds");
        return false;
    }
    sound
}

/// The ways in which one request can fail: how, which sort counts, whether it stays so.
const FAILURES: [(Failure, Option<Call>, bool); 3] = [
    (Failure::Io, None, false),
    (Failure::NoSpace, None, true),
    (Failure::Short, Some(Call::Write), false),
];

/// Cuts one scene of whole vaults, which the command line calls `verb`.
fn run_scene(arguments: &Arguments, verb: &str, run: fn(&Trial) -> Result<Seen, String>) -> bool {
    let trial = &arguments.trial;
    match run(trial) {
        Ok(cuts) => println!(
            "{verb}: sound; {} acts, {} requests, {} moments, {} trees",
            cuts.returned, cuts.calls, cuts.moments, cuts.trees
        ),
        Err(complaint) => {
            println!("{verb}: VIOLATION {complaint}");
            let journal = match trial.names {
                NameSync::Journal => " --journal",
                NameSync::Directory => "",
            };
            println!(
                "  repeat: target/debug/strongroom-sim {verb} --ops {} --stride {}{journal}",
                trial.acts, trial.stride
            );
            return false;
        }
    }
    true
}

fn run_vault(arguments: &Arguments) -> bool {
    let journal = match arguments.trial.names {
        NameSync::Journal => " --journal",
        NameSync::Directory => "",
    };
    let stride = arguments.trial.stride;
    let cuts = match vault::run(&arguments.trial) {
        Ok(cuts) => cuts,
        Err(complaint) => {
            println!("vault: VIOLATION {complaint}");
            println!(
                "  repeat: target/debug/strongroom-sim vault --stride {stride} --last 0{journal}"
            );
            return false;
        }
    };
    println!(
        "vault: sound; {} acts, {} requests, {} moments, {} trees",
        cuts.returned, cuts.calls, cuts.moments, cuts.trees
    );
    let mut sound = true;
    let (mut tried, mut struck) = (0, 0);
    let last = arguments.last.unwrap_or(cuts.calls).min(cuts.calls);
    let step = usize::try_from(arguments.trial.stride).unwrap_or(1).max(1);
    for (failure, call, lasting) in FAILURES {
        for nth in (arguments.first..=last).step_by(step) {
            let fault = Fault {
                call,
                nth,
                failure,
                lasting,
            };
            let trial = Trial {
                policies: vec![Policy::KEEP_ALL, Policy::LOSE_ALL],
                stride: u64::MAX,
                fault: Some(fault),
                ..arguments.trial.clone()
            };
            match vault::run(&trial) {
                Ok(seen) => struck += seen.faults,
                Err(complaint) => {
                    sound = false;
                    println!("vault {failure:?} at request {nth}: VIOLATION {complaint}");
                    println!(
                        "  repeat: target/debug/strongroom-sim vault --stride {stride} --first {nth} --last {nth}{journal}"
                    );
                }
            }
            tried += 1;
        }
    }
    println!("vault: {tried} faults planned, {struck} requests failed");
    sound
}

fn run_database(arguments: &Arguments) -> Result<bool, String> {
    let mut sound = true;
    let step = usize::try_from(arguments.trial.stride).unwrap_or(1).max(1);
    for seed in arguments.seeds.clone() {
        let mut count = [0_u64; 3];
        for (target, fault) in [
            (Target::Read, DiskFault::Failure),
            (Target::Write, DiskFault::Failure),
            (Target::Write, DiskFault::NoSpace),
            (Target::Sync, DiskFault::Failure),
        ] {
            for nth in (arguments.first..=arguments.last.unwrap_or(u64::MAX)).step_by(step) {
                let plan = Plan { target, nth, fault };
                match database_faults::run(seed, arguments.trial.acts, plan) {
                    Ok(Outcome::NotReached) => break,
                    Ok(Outcome::Unnoticed) => count[0] += 1,
                    Ok(Outcome::Alone) => count[1] += 1,
                    Ok(Outcome::Stopped) => count[2] += 1,
                    Err(complaint) => {
                        sound = false;
                        println!(
                            "seed {seed} {fault:?} of {target:?} {nth}: VIOLATION {complaint}"
                        );
                        println!(
                            "  repeat: target/debug/strongroom-sim database --seeds {seed} --ops {} --stride 1 --first {nth} --last {nth}",
                            arguments.trial.acts
                        );
                    }
                }
            }
        }
        let [unnoticed, alone, stopped] = count;
        println!(
            "seed {seed}: {} faults in the database; {stopped} stopped the vault, {alone} one operation, {unnoticed} nobody",
            unnoticed + alone + stopped
        );
    }
    Ok(sound)
}

/// What this program is called as when it is the process on the simulated disk.
const WORKERS: [&str; 6] = [
    "worker",
    "recover",
    "transactions-worker",
    "vault-worker",
    "rotations-worker",
    "backups-worker",
];

/// What all workers are told last: where the nonce ledger is, if it is kept.
fn begin_ledger(rest: &[String]) -> Result<(), String> {
    match rest.first() {
        Some(path) => engine::keep_nonce_ledger(Path::new(path)).map_err(|error| error.to_string()),
        None => Ok(()),
    }
}

fn work_as_told(arguments: &[String]) -> Result<(), String> {
    let scale = |name: &str| Scale::by_name(name).ok_or_else(|| format!("no scale {name:?}"));
    match arguments {
        [verb, folder, first, second, rest @ ..] if verb == "vault-worker" => {
            begin_ledger(rest)?;
            vault::work(Path::new(folder), first, second)
        }
        [verb, folder, key, count, rest @ ..] if verb == "rotations-worker" => {
            begin_ledger(rest)?;
            let count = usize::try_from(number(count)?).map_err(|error| error.to_string())?;
            rotations::work(Path::new(folder), key, count)
        }
        [verb, folder, key, rest @ ..] if verb == "backups-worker" => {
            begin_ledger(rest)?;
            backups::work(Path::new(folder), key)
        }
        [verb, folder, size, rest @ ..] if verb == "recover" => {
            begin_ledger(rest)?;
            recover(Path::new(folder), scale(size)?)
        }
        [verb, folder, size, seed, count, rest @ ..] if verb == "transactions-worker" => {
            begin_ledger(rest)?;
            transactions::work(
                Path::new(folder),
                number(seed)?,
                number(count)?,
                scale(size)?,
            )
        }
        [_, folder, size, seed, count, workers, rest @ ..] => {
            begin_ledger(rest)?;
            let count = usize::try_from(number(count)?).map_err(|error| error.to_string())?;
            let seed = number(seed)?;
            work(
                Path::new(folder),
                seed,
                count,
                threads(workers)?,
                scale(size)?,
            )
        }
        _ => Err(USAGE.to_owned()),
    }
}

fn run_faults(arguments: &Arguments) -> Result<bool, String> {
    let mut sound = true;
    for seed in arguments.seeds.clone() {
        let plain = Trial {
            policies: vec![Policy::KEEP_ALL],
            stride: u64::MAX,
            ..arguments.trial.clone()
        };
        let calls = run(seed, &plain)
            .map_err(|complaint| format!("seed {seed} without a fault: {complaint}"))?
            .calls;
        let last = arguments.last.unwrap_or(calls).min(calls);
        let (mut tried, mut struck) = (0, 0);
        for (failure, call, lasting) in FAILURES {
            for nth in arguments.first..=last {
                let fault = Some(Fault {
                    call,
                    nth,
                    failure,
                    lasting,
                });
                let policies = vec![Policy::KEEP_ALL, Policy::LOSE_ALL, Policy::TORN];
                let trial = Trial {
                    policies,
                    stride: u64::MAX,
                    fault,
                    ..arguments.trial.clone()
                };
                match run(seed, &trial) {
                    Ok(seen) => struck += seen.faults,
                    // A vault that could not even be made is a refusal, not a loss.
                    Err(complaint) if complaint == NOT_MADE => {}
                    Err(complaint) => {
                        sound = false;
                        println!("seed {seed} {failure:?} at request {nth}: VIOLATION {complaint}");
                        println!(
                            "  repeat: target/debug/strongroom-sim faults --seeds {seed} --ops {} --scale {} --first {nth} --last {nth}",
                            arguments.trial.acts,
                            arguments.trial.scale.name()
                        );
                    }
                }
                tried += 1;
            }
        }
        println!(
            "seed {seed}: {tried} faults planned over {calls} requests, {struck} requests failed"
        );
    }
    Ok(sound)
}

fn end_worker(worked: Result<(), String>) -> ExitCode {
    match worked {
        // Nothing of the engine is closed or dropped: a power cut would not either. Nor are there handlers of an exit to run, as
        // those of OpenSSL, which take away what threads of the engine still use.
        Ok(()) => {
            let ended = kill_process(getpid(), WORKER_DONE);
            eprintln!("the worker cannot end: {ended:?}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(NOT_MADE_CODE)
        }
    }
}

/// Damages a vault once a seed.
fn run_damage(parsed: &Arguments) -> Result<bool, String> {
    let base = damage::base::Base::new()?;
    let mut sorts: BTreeMap<Sort, (u64, u64)> = BTreeMap::new();
    let mut violations = 0;
    let mut lost = 0;
    // The words of a panic are in the violation.
    std::panic::set_hook(Box::new(|panic| eprintln!("{panic}")));
    for seed in parsed.seeds.clone() {
        match damage::run(&base, seed, Some(&parsed.trial.program)) {
            Ok(outcome) => {
                let counts = sorts.entry(outcome.sort).or_default();
                counts.0 += 1;
                counts.1 += u64::from(outcome.lost_bytes > 0);
                lost += outcome.lost_bytes;
                println!(
                    "seed {seed}: {}, {} bytes lost",
                    outcome.what, outcome.lost_bytes
                );
            }
            Err(violation) => {
                violations += 1;
                println!("seed {seed}: VIOLATION: {violation}");
                println!("  strongroom-sim damage --seeds {seed}");
            }
        }
    }
    for (sort, (count, with_loss)) in sorts {
        println!("{sort:?}: {count} damages, {with_loss} with loss");
    }
    println!("{lost} bytes lost and told, {violations} violations");
    Ok(violations == 0)
}

/// Bytes of the disks that are filled.
const SMALL_DISK_BYTES: u64 = 300 << 20;

fn run_small_disks(parsed: &Arguments) -> bool {
    let mut sound = true;
    for seed in parsed.seeds.clone() {
        for kind in Kind::ALL {
            let rounds = parsed.trial.acts as u64;
            match small_disk::run_rounds(kind, SMALL_DISK_BYTES, seed, rounds) {
                Ok(done) => println!(
                    "{}, seed {seed}: {rounds} rounds sound; {} MiB written, {} times all that was free, {} refusals that were announced, {} files compared",
                    kind.name(),
                    done.bytes >> 20,
                    done.filled,
                    done.refused,
                    done.compared
                ),
                Err(violation) => {
                    sound = false;
                    println!("VIOLATION: {violation}");
                    println!(
                        "  repeat: target/debug/strongroom-sim small-disk --seeds {seed} --ops {rounds}"
                    );
                }
            }
        }
    }
    sound
}

/// Repairs a vault, to be killed over it.
fn mend(folder: &str, key: &str) -> Result<bool, String> {
    let key = std::fs::read(key).map_err(|error| error.to_string())?;
    let key = KeyFile::parse(&key).map_err(|error| error.to_string())?;
    let options = RepairOptions {
        dry_run: false,
        trust: strongroom_simulator::unseen(),
        ..RepairOptions::default()
    };
    let secret = Secret::KeyFile(key);
    let report = strongroom::repair(folder, &secret, options, &mut |_| {});
    report.map(|_| true).map_err(|error| error.to_string())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let verdict = match arguments.split_first() {
        Some((verb, rest)) if verb == "run" => {
            parse(rest).map(|parsed| run_seeds(&parsed, verb, run))
        }
        Some((verb, rest)) if verb == "transactions" => {
            parse(rest).map(|parsed| run_seeds(&parsed, verb, transactions::run))
        }
        Some((verb, rest)) if verb == "faults" => {
            parse(rest).and_then(|parsed| run_faults(&parsed))
        }
        Some((verb, rest)) if verb == "damage" => {
            parse(rest).and_then(|parsed| run_damage(&parsed))
        }
        Some((verb, rest)) if verb == "small-disk" => {
            parse(rest).map(|parsed| run_small_disks(&parsed))
        }
        Some((verb, [folder, key])) if verb == "mend" => mend(folder, key),
        Some((verb, rest)) if verb == "vault" => parse(rest).map(|parsed| run_vault(&parsed)),
        Some((verb, rest)) if verb == "rotations" => {
            parse(rest).map(|parsed| run_scene(&parsed, verb, rotations::run))
        }
        Some((verb, rest)) if verb == "backups" => {
            parse(rest).map(|parsed| run_scene(&parsed, verb, backups::run))
        }
        Some((verb, rest)) if verb == "database" => {
            parse(rest).and_then(|parsed| run_database(&parsed))
        }
        Some((verb, rest)) if verb == "alarms" => alarms::command(rest),
        #[cfg(feature = "testing")]
        Some((verb, rest)) if verb == "sync" => sync::command(rest),
        #[cfg(feature = "testing")]
        Some((verb, rest)) if verb == "remote" => sync::hostile_command(rest),
        Some((verb, rest)) if hostile::is_verb(verb) => hostile::run(verb, rest),
        Some((verb, _)) if WORKERS.contains(&verb.as_str()) => {
            return end_worker(work_as_told(&arguments));
        }
        _ => Err(USAGE.to_owned()),
    };
    match verdict {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}
