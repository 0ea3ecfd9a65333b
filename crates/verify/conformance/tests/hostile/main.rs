//! Hostile bytes for every decoder: none panics, hangs, or allocates more than its stated bound.
//!
//! `FUZZ_EXECUTIONS` is the number of mutants for a cheap decoder (default 20,000), `FUZZ_SEED` chooses them (0),
//! `FUZZ_TARGETS` lists the decoders to run, separated by commas (all), and `FUZZ_INPUT` names a file to decode instead
//! of mutants. A failure writes its input to a file and prints the one command that repeats it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod crypto_targets;
mod format_targets;
mod history_targets;
mod measured;
mod run;
mod target;
mod vault_targets;

use target::Target;

fn targets() -> Vec<Target> {
    let mut targets = format_targets::all();
    targets.extend(crypto_targets::all());
    targets.extend(vault_targets::all());
    targets.extend(history_targets::all());
    targets
}

/// SECURITY.md, claim 17.
#[test]
fn no_decoder_panics_hangs_or_allocates_beyond_its_bound_whatever_the_bytes() {
    let plan = run::Plan::of_environment();
    let targets = targets();
    let known: Vec<_> = targets.iter().map(|target| target.name).collect();
    let unknown = strongroom_conformance::hostile::unknown(&plan.targets, &known);
    assert!(
        unknown.is_empty(),
        "no target {unknown:?}; there are {known:?}"
    );
    let mut failures = Vec::new();
    for target in &targets {
        if plan.targets.is_empty() || plan.targets.iter().any(|name| name == target.name) {
            match run::run(target, &plan) {
                Ok(report) => println!("{report}"),
                Err(failure) => failures.push(failure),
            }
        }
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

#[test]
fn every_decoder_accepts_its_seeds() {
    for target in targets() {
        for (number, seed) in target.seeds.iter().enumerate() {
            assert!(
                (target.decode)(seed),
                "{} refuses seed {number}",
                target.name
            );
            let mut repaired = seed.clone();
            (target.repair)(&mut repaired);
            assert!(
                (target.decode)(&repaired),
                "{} refuses seed {number} after the repair of its checksums",
                target.name
            );
        }
    }
}
