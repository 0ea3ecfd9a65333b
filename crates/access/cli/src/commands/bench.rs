//! `bench`: measures the speed of a directory.

use std::io::Write;

use serde_json::{Value, json};
use strongroom_bench::{Figures, ROWS, Row, RowFacts, Sizes, bench_directory, is_root, parse_rows};

use crate::arguments::tool::Bench;
use crate::terminal::failure::{self, About, Failure, Result};
use crate::terminal::interrupt;
use crate::terminal::output::{print_json, sparse, stdout};
use crate::terminal::printable::show_path;

/// Rounds of a run that is not quick; shown are medians.
const ROUNDS: usize = 3;

/// Measures a directory.
pub(crate) fn bench(arguments: &Bench) -> Result<()> {
    let wanted = arguments.only.as_deref().map(parse_rows);
    let wanted = wanted.transpose().map_err(Failure::usage)?;
    let (sizes, rounds) = if arguments.quick {
        (Sizes::QUICK, 1)
    } else {
        (Sizes::FULL, ROUNDS)
    };
    let mut tell = |round: usize, rows: &[Row]| {
        let first = rows.first().map_or("", |row| row.facts().name);
        failure::tell(&format!("round {} of {rounds}: {first} …", round + 1));
    };
    strongroom_bench::interrupt::heed(interrupt::watch()?);
    let figures = bench_directory(&arguments.directory, sizes, rounds, wanted, &mut tell)
        .about(show_path(&arguments.directory))?;
    let shown = ROWS.iter().filter(|facts| {
        figures.values.contains_key(&facts.row) || figures.failures.contains_key(&facts.row)
    });
    if arguments.json {
        let rows: Vec<_> = shown.map(|facts| row(facts, &figures)).collect();
        return print_json(&rows);
    }
    let mut out = stdout();
    for facts in shown {
        match (figures.median(facts.row), figures.failures.get(&facts.row)) {
            (Some(median), _) => {
                writeln!(out, "{:<56} {median:>14.3} {}", facts.title, facts.unit)?;
            }
            (None, reason) => {
                let reason = reason.map_or("", String::as_str);
                writeln!(out, "{:<56} failed: {reason}", facts.title)?;
            }
        }
    }
    if !is_root() {
        writeln!(
            out,
            "rows with \"cold\" in their name were not measured: they need root, to drop the kernel's caches"
        )?;
    }
    Ok(out.flush()?)
}

fn row(facts: &RowFacts, figures: &Figures) -> Value {
    sparse(json!({
        "row": facts.name,
        "title": facts.title,
        "unit": facts.unit,
        "median": figures.median(facts.row),
        "figures": figures.values.get(&facts.row).map_or(&[][..], Vec::as_slice),
        "failure": figures.failures.get(&facts.row),
    }))
}
