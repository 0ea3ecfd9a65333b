//! A small part of the attacks on vault folders by someone who can write to them; `make hostile` runs all of them.

use std::path::Path;

use strongroom_simulator::hostile::workers::Share;
use strongroom_simulator::hostile::{child, pages, sweep};

const SIMULATOR: &str = env!("CARGO_BIN_EXE_strongroom-sim");

/// Two at a time, whatever the machine: the other tests of this crate run beside it.
const JOBS: usize = 2;

/// A fixed choice of files, operations and commands, by the seed. Failed before: links of the folder were followed, pipes
/// were waited for, and older and mixed states were shown in silence.
/// SECURITY.md, claim 8.
#[test]
fn whatever_lies_in_a_vault_folder_nothing_outside_is_touched_no_wrong_byte_is_read_and_it_is_named()
 {
    let simulator = Path::new(SIMULATOR);
    let program = simulator.with_file_name("strongroom");
    assert!(
        program.exists(),
        "type first: cargo build --locked -p strongroom-cli"
    );
    let request = sweep::Request {
        program,
        simulator: simulator.to_path_buf(),
        seed: 1,
        cases: Some(160),
        only: None,
        share: Share::ALL,
        summary: None,
        jobs: JOBS,
        patience: child::PATIENCE,
    };
    assert_eq!(sweep::run(&request), Ok(true), "the violations are above");
}

/// Pages of two branches and of an older state, a fixed choice by the seed. Failed before: a file showed the content of
/// another, and newer files were zeros.
/// SECURITY.md, claim 9.
#[test]
fn pages_of_different_states_of_a_database_are_never_read_as_one() {
    let request = pages::Request {
        simulator: SIMULATOR.into(),
        sets: 1_000,
        sample: Some(120),
        seed: 1,
        only: None,
        jobs: JOBS,
    };
    assert_eq!(pages::run(&request), Ok(true), "the violations are above");
}
