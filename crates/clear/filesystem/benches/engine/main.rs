//! Measures the engine without a mount: names, commits and memory at growing sizes, and content over growing numbers of threads.
//!
//! ```text
//! cargo bench -p strongroom-filesystem --bench engine                  two minutes: 1,000, 10,000 and 100,000 entries
//! cargo bench -p strongroom-filesystem --bench engine -- --million     1,000,000 as well; one minute more, several on a slow disk
//! ```
//!
//! `--only names` or `--only threads` measures one half. `--folder` and `--memory-folder` name the places to measure.
//! `--into FOLDER` saves the run, as `make bench-engine` does. Prints tables and writes every figure as JSON. Times are only
//! reported; they never decide a test. `docs/performance.md` explains the rows.

mod arguments;
mod commits;
mod memory;
mod names;
mod process;
mod report;
mod threads;
mod vault;

use std::error::Error;

use arguments::{Arguments, Part};
use strongroom_bench::{Machine, new_folder};

fn main() -> std::process::ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.first().map(String::as_str) {
        Some(process::CHILD) => process::serve(&words[1..]),
        _ => Arguments::parse(&words).and_then(|arguments| measure(&arguments)),
    };
    match done {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("engine: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}

fn measure(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let mut report = report::Report::new(Machine::here(&arguments.folder));
    if arguments.part != Some(Part::Threads) {
        for count in arguments.sizes() {
            report.names.push(names::measure(arguments, count)?);
        }
    }
    if arguments.part != Some(Part::Names) {
        report.threads = Some(threads::measure(&arguments.memory_folder)?);
    }
    let text = report.markdown();
    let json = serde_json::to_string_pretty(&report)? + "\n";
    print!("{text}");
    let figures = match &arguments.into {
        Some(into) => {
            let folder = new_folder(into, &report.machine, "engine")?;
            std::fs::write(folder.join("README.md"), text)?;
            folder.join("figures.json")
        }
        None => arguments.folder.join("engine.json"),
    };
    std::fs::write(&figures, json)?;
    eprintln!("every figure: {}", figures.display());
    Ok(())
}
