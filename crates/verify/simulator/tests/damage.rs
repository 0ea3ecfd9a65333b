//! A small part of the damage sweep; `make damage` runs all of it.

use std::path::Path;

use strongroom_simulator::damage::{base::Base, run};

#[test]
fn every_damage_is_named_no_wrong_byte_is_read_and_a_repair_brings_back_the_rest() {
    let base = Base::new().expect("a vault is made");
    let program = Path::new(env!("CARGO_BIN_EXE_strongroom-sim"));
    let violations: Vec<String> = (0..24)
        .filter_map(|seed| {
            run(&base, seed, Some(program))
                .err()
                .map(|why| format!("seed {seed}: {why}"))
        })
        .collect();
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}
