//! The library behaves as the conformance table says.
//!
//! Goal: every language behaves as this one. Method: the public API carries out each case of
//! `bindings/conformance.toml`, and each outcome is compared.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod calls;
mod machine;

use std::io::Write;
use std::path::Path;

use strongroom_table::{Outcome, Table};

use calls::Given;
use machine::Machine;

/// The least that the table must hold, so that it does not get empty unnoticed.
const CASES_MIN: usize = 250;

fn table() -> Table {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../bindings/conformance.toml");
    Table::read(&std::fs::read_to_string(path).unwrap())
}

#[test]
fn the_library_does_what_the_table_says() {
    let table = table();
    let mut wrong = Vec::new();
    let mut machine = Machine::new(&table);
    let mut count = 0;
    for case in table.cases_for("rust") {
        machine.begin(case.begin);
        for (index, step) in case.steps.iter().enumerate() {
            let found = machine.call(step);
            let is_right = match (&step.outcome, &found) {
                (Outcome::Succeeds, Ok(_)) => true,
                (Outcome::Gives(expected), Ok(given)) => given.is(expected),
                (Outcome::Fails(_, expected), Err(number)) => expected == number,
                _ => false,
            };
            if !is_right {
                wrong.push(format!(
                    "{}: step {index}, {}: {} instead of {}",
                    case.name,
                    step.op,
                    shown(&found),
                    wanted(&step.outcome)
                ));
                break;
            }
        }
        machine.end();
        count += 1;
    }
    // Not `println!`: it shows nothing of a test that passes.
    let all = table.cases.len();
    let right = count - wrong.len();
    writeln!(std::io::stdout(), "Rust: {right} of {all} cases right").unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(table.cases.len() >= CASES_MIN);
}

#[test]
fn a_case_that_is_left_out_has_a_reason_and_a_language() {
    for case in &table().cases {
        for (language, why) in &case.skip {
            let known = ["rust", "c", "python", "java"].contains(&language.as_str());
            assert!(known && why.len() > 10, "{}: {language}", case.name);
        }
        assert!(case.skip.len() < 3, "{}: who carries it out?", case.name);
    }
}

/// At most so much of what was found is shown.
const SHOWN: usize = 200;

fn shown(found: &Result<Given, i32>) -> String {
    let text = match found {
        Ok(given) => format!("{given:?}"),
        Err(number) => {
            let name = std::io::Error::from_raw_os_error(*number);
            format!("{name}")
        }
    };
    text.chars().take(SHOWN).collect()
}

fn wanted(outcome: &Outcome) -> String {
    let text = match outcome {
        Outcome::Succeeds => "success".to_owned(),
        Outcome::Gives(value) => format!("{value:?}"),
        Outcome::Fails(name, _) => name.clone(),
    };
    text.chars().take(SHOWN).collect()
}
