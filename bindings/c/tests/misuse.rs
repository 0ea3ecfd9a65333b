//! Mistakes of programs: every misuse gives an error number.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::path::Path;

use support::{Program, Watched};

fn run(watched: Watched) -> String {
    let place = tempfile::tempdir().unwrap();
    let program = Program::compile(&[Path::new("tests/misuse.c")], watched);
    program.run_well(&[place.path().to_str().unwrap()])
}

/// Handles, arguments, threads, signals, a fork: `tests/misuse.c`. The sanitizers see what a number would hide.
#[test]
fn misuse_ends_in_a_number_and_never_in_undefined_behaviour() {
    assert_eq!(run(Watched::No), "all refused, nothing broken\n");
    assert_eq!(run(Watched::Sanitizers), "all refused, nothing broken\n");
}
