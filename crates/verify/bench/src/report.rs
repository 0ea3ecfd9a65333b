//! Writes a run as JSON, and as tables.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use crate::figures::{figure, median};
use crate::kept::Kept;
use crate::system::{PEERS, PLAIN, STRONGROOM};
use crate::{Better, Machine, Promise, RowFacts, Sizes};

/// The peer that is part of the kernel.
const IN_KERNEL: &str = "fscrypt";

/// A whole run.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Day in UTC.
    pub day: String,
    /// What it ran on.
    pub machine: Machine,
    /// `full` or `quick`.
    pub mode: &'static str,
    /// How much work.
    pub sizes: Sizes,
    /// Rounds of plain and Strongroom.
    pub rounds: usize,
    /// Rounds of the peers.
    pub peer_rounds: usize,
    /// Suite and provider of the vault.
    pub algorithms: BTreeMap<String, String>,
    /// Who was measured.
    pub systems: Vec<SystemReport>,
    /// Who was not.
    pub absent: Vec<Absent>,
    /// What an fsync of each was found to keep; empty if nobody looked.
    pub kept: BTreeMap<String, Kept>,
    /// What was found.
    pub rows: Vec<RowReport>,
}

/// One file system.
#[derive(Debug, Serialize)]
pub struct SystemReport {
    /// In tables.
    pub name: String,
    /// As it says itself.
    pub version: String,
    /// What to know.
    pub note: &'static str,
}

/// One that was not measured.
#[derive(Debug, Serialize)]
pub struct Absent {
    /// In tables.
    pub name: &'static str,
    /// Why.
    pub reason: String,
}

/// One row.
#[derive(Debug, Serialize)]
pub struct RowReport {
    /// On the command line.
    pub name: &'static str,
    /// In tables.
    pub title: &'static str,
    /// Of the figures.
    pub unit: &'static str,
    /// Which way is better.
    pub better: Better,
    /// What its figures stand for.
    pub promise: Promise,
    /// Target: as a speed, against the plain file system.
    pub against_plain: Option<f64>,
    /// Target: as a speed, against the best peer.
    pub against_peers: Option<f64>,
    /// Target: the figure itself.
    pub at_most: Option<f64>,
    /// Of each file system, one for each round.
    pub figures: BTreeMap<String, Vec<f64>>,
    /// Why a file system has none.
    pub failures: BTreeMap<String, String>,
}

impl RowReport {
    pub(crate) fn of(facts: &RowFacts) -> Self {
        Self {
            name: facts.name,
            title: facts.title,
            unit: facts.unit,
            better: facts.better,
            promise: facts.promise,
            against_plain: facts.against_plain,
            against_peers: facts.against_peers,
            at_most: facts.at_most,
            figures: BTreeMap::new(),
            failures: BTreeMap::new(),
        }
    }

    pub(crate) fn median(&self, system: &str) -> Option<f64> {
        median(self.figures.get(system)?)
    }

    /// How many times as fast `system` is as `base`.
    pub(crate) fn speed(&self, system: &str, base: &str) -> Option<f64> {
        let (value, base) = (self.median(system)?, self.median(base)?);
        let speed = match self.better {
            Better::More => value / base,
            Better::Less => base / value,
        };
        speed.is_finite().then_some(speed)
    }

    /// The peers that are FUSE file systems and have a figure.
    fn fuse_peers(&self) -> impl Iterator<Item = &'static str> {
        let names = PEERS.iter().map(|peer| peer.name);
        names.filter(|name| *name != IN_KERNEL && self.median(name).is_some())
    }

    /// Why the figure of `system` stands for less than this row's; none if it does not.
    fn shortfall(&self, system: &str, kept: &BTreeMap<String, Kept>) -> Option<String> {
        match self.promise {
            Promise::Nothing => None,
            Promise::Durable => kept.get(system)?.shortfall(),
        }
    }

    /// The fastest of the FUSE peers whose figures stand for what the row's do.
    fn best_fuse_peer(&self, kept: &BTreeMap<String, Kept>) -> Option<&'static str> {
        let comparable = |name: &&str| self.shortfall(name, kept).is_none();
        let order = |name: &&str| {
            self.median(name)
                .map_or(f64::NEG_INFINITY, |value| match self.better {
                    Better::More => value,
                    Better::Less => -value,
                })
        };
        self.fuse_peers()
            .filter(comparable)
            .max_by(|left, right| order(left).total_cmp(&order(right)))
    }

    /// FUSE peers that are ahead of Strongroom, and why they are not compared with it.
    fn ahead(&self, kept: &BTreeMap<String, Kept>) -> Vec<(&'static str, String)> {
        let ahead = |name: &&str| {
            self.speed(STRONGROOM.name, name)
                .is_some_and(|speed| speed < 1.0)
        };
        let short = |name| Some((name, self.shortfall(name, kept)?));
        self.fuse_peers().filter(ahead).filter_map(short).collect()
    }

    fn line(&self, kept: &BTreeMap<String, Kept>) -> String {
        let ours = STRONGROOM.name;
        let spread = |system| {
            let values = self.figures.get(system)?;
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            let most = values.iter().copied().fold(0.0, f64::max);
            Some(format!(
                "{} ({} to {})",
                figure(self.median(system)?),
                figure(least),
                figure(most)
            ))
        };
        let dash = || "–".to_owned();
        let judged = |speed: Option<f64>, target: Option<f64>| match (speed, target) {
            (None, _) => dash(),
            (Some(speed), None) => format!("{}×", figure(speed)),
            (Some(speed), Some(target)) => format!("{}× {}", figure(speed), mark(speed >= target)),
        };
        let plain = match (self.at_most, self.median(ours)) {
            (Some(most), Some(value)) => {
                format!("at most {} {}", figure(most), mark(value <= most))
            }
            _ => judged(self.speed(ours, PLAIN.name), self.against_plain),
        };
        let best = self.best_fuse_peer(kept);
        let named = best.and_then(|best| Some(format!("{} {best}", figure(self.median(best)?))));
        format!(
            "| {} | {} | {} | {} | {plain} | {} | {} | {} | {} | {} |",
            self.title,
            self.unit,
            spread(PLAIN.name).unwrap_or_else(dash),
            spread(ours).unwrap_or_else(dash),
            self.against_plain
                .map_or_else(dash, |target| format!("{}×", figure(target))),
            named.unwrap_or_else(dash),
            judged(
                best.and_then(|best| self.speed(ours, best)),
                self.against_peers
            ),
            judged(self.speed(ours, IN_KERNEL), self.against_peers),
            self.against_peers
                .map_or_else(dash, |target| format!("{}×", figure(target))),
        )
    }
}

fn mark(met: bool) -> &'static str {
    if met { "✓" } else { "✗" }
}

/// The run as a Markdown document; `charts` are files beside it.
#[must_use]
pub fn markdown(report: &Report, charts: &[&str]) -> String {
    let mut text = String::new();
    head(&mut text, report);
    for chart in charts {
        let _ = writeln!(
            text,
            "\n![{}]({chart})",
            chart.trim_end_matches(".svg").replace('-', " ")
        );
    }
    ratios(&mut text, report);
    ahead(&mut text, report);
    kept(&mut text, report);
    everybody(&mut text, report);
    notes(&mut text, report);
    text
}

fn head(text: &mut String, report: &Report) {
    let machine = &report.machine;
    let algorithms: Vec<_> = report
        .algorithms
        .iter()
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    let _ = write!(
        text,
        "# {}, {} run\n\n{}; {} GiB of memory; instructions: {}. Strongroom: {}. {} of plain and Strongroom, {} of each peer,\n\
         in turn within one run. What each row does stands in [performance.md](../../performance.md); every single figure in\n\
         [figures.json](figures.json).\n",
        report.day,
        report.mode,
        machine.kind,
        machine.memory_gib,
        machine.instructions.join(" "),
        if algorithms.is_empty() {
            "–".to_owned()
        } else {
            algorithms.join(", ")
        },
        count(report.rounds, "round"),
        count(report.peer_rounds, "round"),
    );
    if report.mode != "full" {
        text.push_str("\n**Quick:** too little work for figures that could be compared with those of a full run.\n");
    }
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn ratios(text: &mut String, report: &Report) {
    text.push_str(
        "\n## Against the targets\n\n\
         Medians, in parentheses the least and the greatest. `×` is how many times as fast Strongroom is: in rows of times and\n\
         costs the ratio is turned round, so that more is always better;\n\
         ✓ and ✗ say whether the target is met.\n\n\
         | workload | unit | plain | Strongroom | × plain | target | best FUSE peer | × it | × fscrypt | target |\n\
         |---|---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for row in &report.rows {
        text.push_str(&row.line(&report.kept));
        text.push('\n');
    }
}

fn ahead(text: &mut String, report: &Report) {
    let mut lines = String::new();
    for row in &report.rows {
        for (name, why) in row.ahead(&report.kept) {
            let value = |system| row.median(system).map_or_else(String::new, figure);
            // What a program said may be in it.
            let why = why.replace('|', "\\|");
            let _ = writeln!(
                lines,
                "| {} | {} | {} | {name} | {} | {why} |",
                row.title,
                row.unit,
                value(STRONGROOM.name),
                value(name),
            );
        }
    }
    if !lines.is_empty() {
        let _ = write!(
            text,
            "\n### Ahead, for a smaller promise\n\n\
             These FUSE peers are ahead of Strongroom in rows of synced content, and are not the best peer there: their figures\n\
             are for content that is stored unencrypted, or that is lost although `fsync` confirmed it. The section below says how that was found out.\n\n\
             | workload | unit | Strongroom | peer | its figure | why it is not compared |\n\
             |---|---|--:|---|--:|---|\n{lines}"
        );
    }
}

fn kept(text: &mut String, report: &Report) {
    if report.kept.is_empty() {
        text.push_str(
            "\nWhat an fsync keeps was not looked at: every FUSE peer counts in every row.\n",
        );
        return;
    }
    let _ = write!(
        text,
        "\n## What an fsync keeps\n\n\
         {} of 4 KiB appended to a file, with an fsync after each. How often the disk flushed its cache and wrote meanwhile,\n\
         whoever asked for it; how many records were there, and correct, after the server was killed and the store mounted again;\n\
         whether their content can be read in what the file system stores.\n\n\
         | file system | flushes per fsync | writes per fsync | records after `kill -9` | content in clear on the disk |\n\
         |---|--:|--:|--:|---|\n",
        count(report.sizes.records, "record"),
    );
    let named = |system: &SystemReport| Some((system.name.clone(), report.kept.get(&system.name)?));
    for (name, kept) in report.systems.iter().filter_map(named) {
        let counted = |count: Option<f64>| {
            count.map_or_else(|| "not counted".to_owned(), |count| format!("{count:.2}"))
        };
        let clear = match kept.in_clear {
            Some(true) => "yes",
            Some(false) => "no",
            None => "not known",
        };
        let _ = writeln!(
            text,
            "| {name} | {} | {} | {} | {clear} |",
            counted(kept.flushes_per_fsync),
            counted(kept.writes_per_fsync),
            kept.after_kill(),
        );
    }
    for (name, kept) in report.systems.iter().filter_map(named) {
        if let Some(failure) = &kept.failure {
            let _ = writeln!(text, "\n**{name}**: {failure}.");
        }
    }
}

fn everybody(text: &mut String, report: &Report) {
    text.push_str("\n## Everybody\n\nMedians.\n\n| workload | unit |");
    for system in &report.systems {
        let _ = write!(text, " {} |", system.name);
    }
    text.push_str("\n|---|---|");
    text.push_str(&"--:|".repeat(report.systems.len()));
    text.push('\n');
    for row in &report.rows {
        let _ = write!(text, "| {} | {} |", row.title, row.unit);
        for system in &report.systems {
            let cell = row.median(&system.name).map_or_else(
                || {
                    if row.failures.contains_key(&system.name) {
                        "failed".to_owned()
                    } else {
                        "–".to_owned()
                    }
                },
                figure,
            );
            let _ = write!(text, " {cell} |");
        }
        text.push('\n');
    }
}

fn notes(text: &mut String, report: &Report) {
    text.push_str("\n## Who they are\n\n");
    for system in &report.systems {
        let version = if system.version.is_empty() {
            String::new()
        } else {
            format!(" ({})", system.version)
        };
        let _ = writeln!(text, "- **{}**{version}: {}.", system.name, system.note);
    }
    for absent in &report.absent {
        let _ = writeln!(
            text,
            "- **{}** was left out: {}.",
            absent.name, absent.reason
        );
    }
    for row in &report.rows {
        for (system, reason) in &row.failures {
            let found = match row.figures.get(system).map_or(0, Vec::len) {
                0 => "no figure".to_owned(),
                found => format!("only {}", count(found, "figure")),
            };
            let _ = writeln!(
                text,
                "- **{system}** has {found} for {}: {reason}.",
                row.title
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ROWS, Row, kept};

    fn row(row: Row, figures: &[(&str, &[f64])]) -> RowReport {
        let mut report = RowReport::of(row.facts());
        for (name, values) in figures {
            report.figures.insert((*name).to_owned(), values.to_vec());
        }
        report
    }

    #[test]
    fn a_speed_of_2_is_twice_the_rate_or_half_the_time() {
        let rate = row(Row::Append, &[("plain", &[1.0]), ("strongroom", &[2.0])]);
        let time = row(Row::Untar, &[("plain", &[2.0]), ("strongroom", &[1.0])]);
        assert_eq!(rate.speed("strongroom", "plain"), Some(2.0));
        assert_eq!(time.speed("strongroom", "plain"), Some(2.0));
        assert_eq!(time.speed("strongroom", "none"), None);
        assert_eq!(
            row(Row::Append, &[("plain", &[0.0]), ("strongroom", &[1.0])])
                .speed("strongroom", "plain"),
            None
        );
    }

    #[test]
    fn the_best_peer_is_the_fastest_that_is_neither_plain_nor_ours_nor_in_the_kernel() {
        let all: &[(&str, &[f64])] = &[
            ("plain", &[9.0]),
            ("strongroom", &[8.0]),
            ("strongroom -o writeback", &[8.5]),
            ("fscrypt", &[7.0]),
            ("encfs", &[1.0]),
            ("cryfs", &[2.0]),
        ];
        let kept = BTreeMap::new();
        assert_eq!(row(Row::Append, all).best_fuse_peer(&kept), Some("cryfs"));
        assert_eq!(row(Row::Untar, all).best_fuse_peer(&kept), Some("encfs"));
        assert_eq!(row(Row::Untar, &all[..4]).best_fuse_peer(&kept), None);
    }

    /// Found of three peers: one keeps everything, one loses it, one leaves it in clear.
    fn found() -> BTreeMap<String, Kept> {
        let lost = Kept {
            records_after_kill: Some(0),
            flushes_per_fsync: Some(0.0),
            ..kept::tests::all()
        };
        let clear = Kept {
            in_clear: Some(true),
            ..kept::tests::all()
        };
        let found = [
            ("encfs", kept::tests::all()),
            ("cryfs", lost),
            ("rclone", clear),
        ];
        found.map(|(name, kept)| (name.to_owned(), kept)).into()
    }

    const FIGURES: &[(&str, &[f64])] = &[
        ("plain", &[9.0]),
        ("strongroom", &[3.0]),
        ("encfs", &[2.0]),
        ("rclone", &[2.5]),
        ("cryfs", &[4.0]),
    ];

    #[test]
    fn where_synced_content_counts_the_best_peer_is_one_that_encrypts_and_keeps_it() {
        let found = found();
        let append = row(Row::Append, FIGURES);
        assert_eq!(append.best_fuse_peer(&found), Some("encfs"));
        // Who is ahead is named; who keeps less and is behind is not worth a word.
        let ahead = append.ahead(&found);
        assert_eq!(ahead.len(), 1, "{ahead:?}");
        assert_eq!(ahead[0].0, "cryfs");
        assert!(ahead[0].1.contains("0 of 100 records"), "{ahead:?}");
        // In a row of times the least is ahead.
        let untar = row(Row::Untar, FIGURES);
        assert_eq!(untar.best_fuse_peer(&found), Some("encfs"));
        let ahead = untar.ahead(&found);
        assert_eq!(ahead, [("rclone", "content in clear".to_owned())]);
    }

    #[test]
    fn where_nothing_is_synced_everybody_counts_and_nobody_is_excused() {
        let found = found();
        let read = row(Row::ReadCold, FIGURES);
        assert_eq!(read.best_fuse_peer(&found), Some("cryfs"));
        assert!(read.ahead(&found).is_empty());
    }

    #[test]
    fn a_report_names_every_row_who_is_missing_and_what_failed() {
        let mut rows: Vec<RowReport> = ROWS
            .iter()
            .map(|facts| row(facts.row, &[("plain", &[1.0, 3.0]), ("strongroom", &[2.0])]))
            .collect();
        rows[0]
            .failures
            .insert("encfs".to_owned(), "no room".to_owned());
        rows[1]
            .failures
            .insert("plain".to_owned(), "worn out".to_owned());
        rows[0].figures.insert("cryfs".to_owned(), vec![4.0]);
        let mut kept = found();
        let broken = Kept {
            failure: Some("it did not come back after a kill: broken | gone".to_owned()),
            ..kept["cryfs"].clone()
        };
        kept.insert("cryfs".to_owned(), broken);
        let described = |name: &str| SystemReport {
            name: name.to_owned(),
            version: String::new(),
            note: "beneath",
        };
        let report = Report {
            day: "2026-01-01".to_owned(),
            machine: Machine::here(std::path::Path::new("/")),
            mode: "quick",
            sizes: Sizes::LEAST,
            rounds: 2,
            peer_rounds: 1,
            algorithms: BTreeMap::new(),
            systems: vec![described("plain"), described("cryfs")],
            absent: vec![Absent {
                name: "fscrypt",
                reason: "e4crypt is not installed".to_owned(),
            }],
            kept,
            rows,
        };
        let text = markdown(&report, &["content.svg"]);
        let rows_first = ROWS[0].row;
        for facts in ROWS {
            // Once against the targets, once with everybody; the first once more, as cryfs is ahead.
            let times = if facts.row == rows_first { 3 } else { 2 };
            assert_eq!(
                text.matches(&format!("\n| {} |", facts.title)).count(),
                times,
                "{}",
                facts.title
            );
        }
        for part in [
            "e4crypt is not installed",
            "has no figure for sequential write + fsync: no room",
            "has only 2 figures for sequential read, cold: worn out",
            "| cryfs | 4.00 | does not keep what it acknowledged: 0 of 100 records after a kill, 0.00 flushes per fsync; it did not come back after a kill: broken \\| gone |",
            "| cryfs | 0.00 | 3.00 | 0 of 100 | no |",
            "**cryfs**: it did not come back after a kill: broken | gone.",
            "content.svg",
            "Quick",
            "2 rounds",
            "1 round of",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        // As many cells in each line of a table as in its head.
        for (number, table) in text.split("\n\n|").skip(1).enumerate() {
            let lines = table.lines().take_while(|line| !line.is_empty());
            let lines = lines.map(|line| line.trim_start_matches('|').replace("\\|", ""));
            let cells: std::collections::BTreeSet<_> =
                lines.map(|line| line.matches('|').count()).collect();
            assert_eq!(cells.len(), 1, "{number}: {table}");
        }
        assert_eq!(text.split("\n\n|").count(), 5, "{text}");
    }
}
