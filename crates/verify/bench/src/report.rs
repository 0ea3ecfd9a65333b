//! A run as JSON, and as tables.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use crate::figures::{figure, median};
use crate::system::{PEERS, PLAIN, STRONGROOM};
use crate::{Better, Machine, RowFacts, Sizes};

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

    /// The fastest of the peers that are FUSE file systems.
    fn best_fuse_peer(&self) -> Option<&str> {
        let names = PEERS.iter().map(|peer| peer.name);
        let over_fuse: Vec<_> = names.filter(|name| *name != IN_KERNEL).collect();
        let peers = self
            .figures
            .keys()
            .filter(|name| over_fuse.contains(&name.as_str()));
        let order = |name: &&String| {
            self.median(name)
                .map_or(f64::NEG_INFINITY, |value| match self.better {
                    Better::More => value,
                    Better::Less => -value,
                })
        };
        peers
            .max_by(|left, right| order(left).total_cmp(&order(right)))
            .map(String::as_str)
    }

    fn line(&self) -> String {
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
        let best = self.best_fuse_peer();
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
         Medians, in parentheses the least and the greatest. `×` is how many times as fast Strongroom is, for times and costs too;\n\
         ✓ and ✗ say whether the target is met.\n\n\
         | workload | unit | plain | Strongroom | × plain | target | best FUSE peer | × it | × fscrypt | target |\n\
         |---|---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for row in &report.rows {
        text.push_str(&row.line());
        text.push('\n');
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
            let _ = writeln!(
                text,
                "- **{system}** has no figure for {}: {reason}.",
                row.title
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ROWS, Row};

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
        assert_eq!(row(Row::Append, all).best_fuse_peer(), Some("cryfs"));
        assert_eq!(row(Row::Untar, all).best_fuse_peer(), Some("encfs"));
        assert_eq!(row(Row::Untar, &all[..4]).best_fuse_peer(), None);
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
        let report = Report {
            day: "2026-01-01".to_owned(),
            machine: Machine::here(std::path::Path::new("/")),
            mode: "quick",
            sizes: Sizes::LEAST,
            rounds: 2,
            peer_rounds: 1,
            algorithms: BTreeMap::new(),
            systems: vec![SystemReport {
                name: "plain".to_owned(),
                version: String::new(),
                note: "beneath",
            }],
            absent: vec![Absent {
                name: "cryfs",
                reason: "cryfs is not installed".to_owned(),
            }],
            rows,
        };
        let text = markdown(&report, &["content.svg"]);
        for facts in ROWS {
            assert_eq!(
                text.matches(&format!("\n| {} |", facts.title)).count(),
                2,
                "{}",
                facts.title
            );
        }
        for part in [
            "cryfs is not installed",
            "no room",
            "content.svg",
            "Quick",
            "2 rounds",
            "1 round of",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        // As many cells in each line of the first table as in its head.
        let table = text
            .lines()
            .skip_while(|line| !line.starts_with("| workload"))
            .take_while(|line| line.starts_with('|'));
        let cells: std::collections::BTreeSet<_> =
            table.map(|line| line.matches('|').count()).collect();
        assert_eq!(cells.len(), 1, "{text}");
    }
}
