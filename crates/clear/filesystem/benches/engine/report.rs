//! Writes a run as JSON, and as tables.

use std::fmt::Write;

use serde::Serialize;
use strongroom_bench::{Machine, figure, median, today};

use crate::names::Size;
use crate::process::Figures;
use crate::threads::{Rows, THREADS};

/// A whole run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Day in UTC.
    pub(crate) day: String,
    /// What it ran on.
    pub(crate) machine: Machine,
    /// By size, the smallest first.
    pub(crate) names: Vec<Size>,
    /// Content over threads.
    pub(crate) threads: Option<Rows>,
}

/// Whether more is better.
#[derive(Clone, Copy)]
enum Kind {
    /// A rate.
    PerSecond,
    /// Seconds, shown in milliseconds.
    Milliseconds,
    /// Bytes, shown in MiB.
    Memory,
}

/// A line of a table: its title, the figures it is made of, and what they are.
type Line = (&'static str, &'static str, Kind);

const RATES: &[Line] = &[
    ("made, from none to all", "grow", Kind::PerSecond),
    ("made", "create", Kind::PerSecond),
    ("looked up", "look_up", Kind::PerSecond),
    ("listed, names", "list", Kind::PerSecond),
    ("listed, attributes too", "list_attributes", Kind::PerSecond),
    ("removed", "remove", Kind::PerSecond),
    ("vault opened", "open_seconds", Kind::Milliseconds),
];

const COMMITS: &[Line] = &[
    ("one file made", "commit_create", Kind::Milliseconds),
    ("4 KiB appended", "commit_append", Kind::Milliseconds),
    ("4 KiB overwritten", "commit_overwrite", Kind::Milliseconds),
    (
        "the disk beneath: 4 KiB overwritten, `fdatasync`",
        "commit_disk",
        Kind::Milliseconds,
    ),
];

const MEMORY: &[Line] = &[
    ("before the vault is opened", "memory_empty", Kind::Memory),
    (
        "at rest: open, nothing done",
        "memory_at_rest",
        Kind::Memory,
    ),
    ("after all names were listed", "memory_after", Kind::Memory),
    ("at most while all are made", "memory_growing", Kind::Memory),
    ("at most under load", "memory_loaded", Kind::Memory),
];

impl Report {
    pub(crate) fn new(machine: Machine) -> Self {
        Self {
            day: today(),
            machine,
            names: Vec::new(),
            threads: None,
        }
    }

    /// The run as a Markdown document.
    pub(crate) fn markdown(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(
            text,
            "# {}, the engine without a mount\n\n\
             {}; {} GiB of memory. What each row is stands in [performance.md](../../performance.md#the-engine-without-a-mount);\n\
             every single figure in [figures.json](figures.json).",
            self.day, self.machine.kind, self.machine.memory_gib
        );
        if !self.names.is_empty() {
            self.names_tables(&mut text);
        }
        if let Some(threads) = &self.threads {
            threads_table(&mut text, threads, self.machine.cores);
        }
        text
    }

    fn names_tables(&self, text: &mut String) {
        text.push_str(
            "\nMedians. `×` is the cost at a size in that at a tenth of it: 1.00 is no growth, and more is worse.\n",
        );
        for (title, of) in [
            ("All in one directory, entries per second", directory as Of),
            ("100 in each directory, entries per second", tree as Of),
        ] {
            let _ = writeln!(text, "\n## {title}\n");
            self.table(text, RATES, of, middle);
        }
        text.push_str("\n## One commit after each change, milliseconds\n\nMedian, all entries in one directory.\n\n");
        self.table(text, COMMITS, directory, middle);
        text.push_str("\nThe 99th of a hundred.\n\n");
        self.table(text, COMMITS, directory, late);
        for (title, of) in [
            ("Memory, all in one directory, MiB", directory as Of),
            ("Memory, 100 in each directory, MiB", tree as Of),
        ] {
            let _ = writeln!(text, "\n## {title}\n");
            self.table(text, MEMORY, of, middle);
        }
    }

    fn table(&self, text: &mut String, lines: &[Line], of: Of, pick: fn(&[f64]) -> Option<f64>) {
        text.push_str("| |");
        for (index, size) in self.names.iter().enumerate() {
            let growth = if index > 0 { " × |" } else { "" };
            let _ = write!(text, " {} |{growth}", figure(size.count as f64));
        }
        text.push_str("\n|---|");
        text.push_str(&"--:|".repeat((2 * self.names.len()).saturating_sub(1)));
        text.push('\n');
        for (title, name, kind) in lines {
            let _ = write!(text, "| {title} |");
            let mut smaller = None;
            for (index, size) in self.names.iter().enumerate() {
                let value = of(size).get(*name).and_then(|values| pick(values));
                let _ = write!(text, " {} |", shown(*kind, value));
                if index > 0 {
                    let _ = write!(text, " {} |", growth(*kind, smaller, value));
                }
                smaller = value;
            }
            text.push('\n');
        }
    }
}

/// Which of the two shapes.
type Of = fn(&Size) -> &Figures;

fn directory(size: &Size) -> &Figures {
    &size.directory
}

fn tree(size: &Size) -> &Figures {
    &size.tree
}

fn middle(values: &[f64]) -> Option<f64> {
    median(values)
}

/// The value that one in a hundred is above.
fn late(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() * 99 / 100).copied()
}

fn shown(kind: Kind, value: Option<f64>) -> String {
    let scale = match kind {
        Kind::PerSecond => 1.0,
        Kind::Milliseconds => 1e3,
        Kind::Memory => 1.0 / (1 << 20) as f64,
    };
    value.map_or_else(|| "–".to_owned(), |value| figure(value * scale))
}

/// The cost of `larger` in that of `smaller`.
fn growth(kind: Kind, smaller: Option<f64>, larger: Option<f64>) -> String {
    let ratio = smaller.zip(larger).map(|(smaller, larger)| match kind {
        Kind::PerSecond => smaller / larger,
        Kind::Milliseconds | Kind::Memory => larger / smaller,
    });
    ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}"))
}

fn threads_table(text: &mut String, rows: &Rows, cores: usize) {
    let _ = write!(
        text,
        "\n## Content over threads, MiB/s\n\n\
         {cores} cores; a disk of memory. In parentheses how many cores were busy; `1` and `4` are callers. Medians.\n\n| |"
    );
    for threads in THREADS {
        let plural = if threads == 1 { "" } else { "s" };
        let _ = write!(text, " {threads} thread{plural} |");
    }
    text.push_str("\n|---|");
    text.push_str(&"--:|".repeat(THREADS.len()));
    text.push('\n');
    for (name, row) in rows {
        let _ = write!(text, "| {name} |");
        for threads in THREADS {
            let of = |figures: &std::collections::BTreeMap<usize, Vec<f64>>| {
                figures.get(&threads).and_then(|values| median(values))
            };
            match of(&row.speed).zip(of(&row.cores)) {
                Some((speed, busy)) => {
                    let _ = write!(text, " {} ({busy:.1}) |", figure(speed));
                }
                None => text.push_str(" – |"),
            }
        }
        text.push('\n');
    }
}
