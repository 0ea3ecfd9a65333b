//! `make bench`: Strongroom, the plain file system beneath it and every installed peer, in one run.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use clap::Parser;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use strongroom_bench::run::{Company, Plan, run};
use strongroom_bench::{Sizes, chart, interrupt, is_root, new_folder, parse_rows, report};

/// Measures Strongroom, the plain file system below it, and its peers: other encrypted file systems that are installed. Run it as root, on an idle machine
#[derive(Debug, Parser)]
struct Arguments {
    /// The program to measure
    #[arg(long, default_value = "target/release/strongroom")]
    strongroom: PathBuf,
    /// A folder on the disk to measure
    #[arg(long, default_value = "target")]
    folder: PathBuf,
    /// Do little work in one round, in less than three minutes
    #[arg(long)]
    quick: bool,
    /// How many rounds measure Strongroom and the plain file system [default: 3; quick: 1]
    #[arg(long)]
    rounds: Option<usize>,
    /// How many rounds measure each peer [default: as --rounds]
    #[arg(long)]
    peer_rounds: Option<usize>,
    /// Measure only these rows, separated by commas
    #[arg(long, value_name = "ROW,…")]
    only: Option<String>,
    /// Measure only these peers, separated by commas; "none" for no peer
    #[arg(long, value_name = "PEER,…", value_delimiter = ',')]
    peers: Option<Vec<String>>,
    /// Measure Strongroom once more, mounted with `-o OPTIONS`; may be given several times
    #[arg(long, value_name = "OPTIONS")]
    also: Vec<String>,
    /// Measure only Strongroom, not even the plain file system
    #[arg(long)]
    alone: bool,
    /// Write to FILE when each figure of Strongroom was measured, for a profiler
    #[arg(long, value_name = "FILE")]
    spans: Option<PathBuf>,
    /// How many records to append for the test of what an fsync keeps; 0 skips the test [default: 100; quick: 0]
    #[arg(long)]
    records: Option<usize>,
    /// Where to create a folder with table, JSON and charts
    #[arg(long, default_value = "docs/performance")]
    into: PathBuf,
    /// Print JSON and write no folder
    #[arg(long)]
    json: bool,
}

fn main() -> std::process::ExitCode {
    let arguments = Arguments::parse();
    let came = Arc::new(AtomicUsize::new(0));
    let ended = watch(&came).map_err(Into::into);
    if let Err(error) = ended.and_then(|()| measure(&arguments)) {
        eprintln!("bench: {error}");
        if let Ok(signal @ 1..) = came.load(Ordering::Relaxed).try_into() {
            // Dies of it, as its starter asked. If it cannot be raised, the exit code says enough.
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
        return std::process::ExitCode::FAILURE;
    }
    std::process::ExitCode::SUCCESS
}

/// From now on the first signal that asks for the end is noted in `came`; a second one ends the process at once.
fn watch(came: &Arc<AtomicUsize>) -> std::io::Result<()> {
    let again = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // In this order: the second handler arms the first one, for the next signal.
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&again))?;
        signal_hook::flag::register(signal, Arc::clone(&again))?;
        signal_hook::flag::register_usize(signal, Arc::clone(came), signal as usize)?;
    }
    interrupt::heed(Arc::clone(came));
    Ok(())
}

fn measure(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    if !is_root() {
        return Err("run it as root: it drops the kernel's caches and mounts".into());
    }
    let mut also = arguments.also.clone();
    let mut seen = BTreeSet::new();
    also.retain(|options| seen.insert(options.clone()));
    let rounds = arguments
        .rounds
        .unwrap_or(if arguments.quick { 1 } else { 3 });
    let absolute = |path: &Path| {
        path.canonicalize()
            .map_err(|error| format!("{}: {error}", path.display()))
    };
    let mut sizes = match arguments.quick {
        true => Sizes::QUICK,
        false => Sizes::FULL,
    };
    sizes.records = arguments.records.unwrap_or(sizes.records);
    let plan = Plan {
        strongroom: absolute(&arguments.strongroom)?,
        folder: absolute(&arguments.folder)?,
        mode: if arguments.quick { "quick" } else { "full" },
        sizes,
        rounds,
        peer_rounds: arguments.peer_rounds.unwrap_or(rounds),
        rows: arguments.only.as_deref().map(parse_rows).transpose()?,
        peers: match arguments.alone {
            true => Some(Vec::new()),
            false => arguments.peers.clone(),
        },
        also,
        company: match arguments.alone {
            true => Company::Alone,
            false => Company::WithPlain,
        },
        spans: arguments.spans.clone(),
    };
    let start = Instant::now();
    let mut tell = |text: &str| eprintln!("{:>5} s  {text}", start.elapsed().as_secs());
    let report = run(&plan, &mut tell)?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
        return Ok(());
    }
    let folder = save(&arguments.into, &report)?;
    eprintln!(
        "{:>5} s  written to {}",
        start.elapsed().as_secs(),
        folder.display()
    );
    Ok(())
}

/// Writes table, JSON and charts into a new folder below `into`, named after day and machine.
fn save(into: &Path, report: &report::Report) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let charts = chart::charts(report)?;
    let kind = if report.mode == "quick" { "quick" } else { "" };
    let folder = new_folder(into, &report.machine, kind)?;
    let files: Vec<&str> = charts.iter().map(|(file, _)| *file).collect();
    let text = report::markdown(report, &files);
    print!("{text}");
    std::fs::write(folder.join("README.md"), text)?;
    std::fs::write(
        folder.join("figures.json"),
        serde_json::to_string_pretty(report)? + "\n",
    )?;
    for (file, svg) in charts {
        std::fs::write(folder.join(file), svg)?;
    }
    Ok(folder)
}
