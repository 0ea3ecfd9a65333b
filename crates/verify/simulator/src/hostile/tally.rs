//! Counts and prints the results of all cases, and stores them as lines, so that parts of a run can be combined.
//!
//! Takes   the verdicts of each case
//! Gives   a summary; whether every promise was kept
//! Never   combines parts of different runs, or treats a run with missing parts as complete

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::judgement::{Case, Verdict};
use super::workers::Share;

/// How often a class is printed before it is only counted.
const PRINTED_MAX: usize = 5;

/// How many cases of a class are named in a summary.
const NAMED_MAX: usize = 60;

/// Which part of which run this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Of all choices.
    pub seed: u64,
    /// Which cases of all it has.
    pub share: Share,
    /// How many cases all parts have together.
    pub all: u64,
}

/// What cases came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tally {
    counts: BTreeMap<String, u64>,
    broken: BTreeMap<String, BTreeSet<String>>,
    cases: u64,
    violations: u64,
}

impl Tally {
    /// Adds a case. `each`: every violation is printed, not only the first ones of a class.
    pub fn add(&mut self, case: &Case, verdicts: Vec<Verdict>, seed: u64, each: bool) {
        self.cases += 1;
        for (class, what) in verdicts {
            *self.counts.entry(class.clone()).or_default() += 1;
            if !class.starts_with("VIOLATION") {
                continue;
            }
            self.violations += 1;
            let (file, operation, command) =
                (&case.label, case.operation.name(), case.command.name);
            let seen = self.broken.entry(class.clone()).or_default();
            let is_new = seen.insert(format!("{file} {operation}, {command}"));
            if each || is_new && seen.len() <= PRINTED_MAX {
                let what = what.replace('\n', " ");
                println!(
                    "{class}: {file} {operation}, {command}: {}",
                    what.trim_end()
                );
                println!(
                    "  strongroom-sim hostile --seed {seed} --only '{file}' {operation} '{command}'"
                );
            }
        }
    }

    /// Prints it. Gives whether there were cases, and nothing was broken.
    #[must_use]
    pub fn print(&self) -> bool {
        for (class, count) in &self.counts {
            println!("{count:>7}  {class}");
            if let Some(about) = self.broken.get(class) {
                let some: Vec<&str> = about.iter().take(NAMED_MAX).map(String::as_str).collect();
                println!("         {}", some.join("; "));
            }
        }
        println!("{} cases, {} violations", self.cases, self.violations);
        self.violations == 0 && self.cases > 0
    }

    /// It as lines of a file.
    #[must_use]
    pub fn lines(&self, part: &Part) -> String {
        let (index, of) = part.share.in_words();
        let mut lines = format!(
            "part\t{index}\t{of}\nseed\t{}\nall\t{}\ncases\t{}\nviolations\t{}\n",
            part.seed, part.all, self.cases, self.violations
        );
        for (class, count) in &self.counts {
            lines.push_str(&format!("count\t{count}\t{class}\n"));
        }
        for (class, about) in &self.broken {
            for case in about {
                lines.push_str(&format!("broken\t{class}\t{case}\n"));
            }
        }
        lines
    }

    fn parse(text: &str) -> Result<(Part, Self), String> {
        let mut tally = Self::default();
        let (mut share, mut seed, mut all) = (None, None, None);
        for line in text.lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            match fields[..] {
                ["part", index, of] => share = Some(Share::of_part(&format!("{index}/{of}"))?),
                ["seed", number] => seed = Some(whole(number)?),
                ["all", number] => all = Some(whole(number)?),
                ["cases", number] => tally.cases = whole(number)?,
                ["violations", number] => tally.violations = whole(number)?,
                ["count", count, class] => {
                    tally.counts.insert(class.to_owned(), whole(count)?);
                }
                ["broken", class, case] => {
                    let seen = tally.broken.entry(class.to_owned()).or_default();
                    seen.insert(case.to_owned());
                }
                _ => return Err(format!("{line:?} is no line of a summary")),
            }
        }
        match (share, seed, all) {
            (Some(share), Some(seed), Some(all)) => Ok((Part { seed, share, all }, tally)),
            _ => Err("the summary does not say which part it is".to_owned()),
        }
    }

    fn add_all(&mut self, other: Self) {
        self.cases += other.cases;
        self.violations += other.violations;
        for (class, count) in other.counts {
            *self.counts.entry(class).or_default() += count;
        }
        for (class, about) in other.broken {
            self.broken.entry(class).or_default().extend(about);
        }
    }
}

fn whole(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text:?} is no number"))
}

/// Puts the parts of one run together and prints what they came to. Gives whether nothing was broken.
///
/// # Errors
/// A summary cannot be read, is of another run, or one is missing.
pub fn join(files: &[PathBuf]) -> Result<bool, String> {
    let read = |path: &PathBuf| {
        let text = fs::read_to_string(path).map_err(|error| error.to_string());
        let parsed = text.and_then(|text| Tally::parse(&text));
        parsed.map_err(|error| format!("{}: {error}", path.display()))
    };
    let parts = files.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    Ok(joined(parts)?.print())
}

fn joined(parts: Vec<(Part, Tally)>) -> Result<Tally, String> {
    let Some((first, _)) = parts.first() else {
        return Err("there are no parts".to_owned());
    };
    let (of, seed, all) = (first.share.in_words().1, first.seed, first.all);
    let mut whole = Tally::default();
    let mut missing: BTreeSet<usize> = (1..=of).collect();
    for (part, tally) in parts {
        let (index, count) = part.share.in_words();
        if (part.seed, part.all, count) != (seed, all, of) || !missing.remove(&index) {
            return Err(format!("part {index} is of another run, or there twice"));
        }
        whole.add_all(tally);
    }
    if !missing.is_empty() || whole.cases != all {
        let cases = whole.cases;
        return Err(format!(
            "{cases} of {all} cases; missing parts: {missing:?}"
        ));
    }
    Ok(whole)
}

/// Keeps the summary of a part.
///
/// # Errors
/// Of the disk.
pub fn keep(path: &Path, part: &Part, tally: &Tally) -> Result<(), String> {
    fs::write(path, tally.lines(part)).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(index: usize, of: usize, all: u64) -> Part {
        let share = Share::of_part(&format!("{index}/{of}")).unwrap();
        Part {
            seed: 7,
            share,
            all,
        }
    }

    fn tally(cases: u64, broken: &[&str]) -> Tally {
        let mut tally = Tally {
            cases,
            violations: broken.len() as u64,
            ..Tally::default()
        };
        tally.counts.insert("right".to_owned(), cases);
        for case in broken {
            let seen = tally.broken.entry("VIOLATION hang".to_owned()).or_default();
            seen.insert((*case).to_owned());
        }
        tally
    }

    #[test]
    fn a_part_is_kept_and_read_back() {
        let (part, tally) = (
            part(2, 3, 9),
            tally(3, &["intents missing, ls", ". older, get"]),
        );
        assert_eq!(Tally::parse(&tally.lines(&part)), Ok((part, tally)));
        assert!(Tally::parse("part\t1\t2\n").is_err());
        assert!(Tally::parse("anything").is_err());
    }

    #[test]
    fn only_all_parts_of_one_run_are_a_whole_one() {
        let parts = |indexes: &[usize]| {
            let parts = indexes
                .iter()
                .map(|index| (part(*index, 3, 9), tally(3, &["one"])));
            parts.collect::<Vec<_>>()
        };
        let whole = joined(parts(&[3, 1, 2])).unwrap();
        assert_eq!((whole.cases, whole.violations), (9, 3));
        assert!(!whole.print());
        assert!(joined(parts(&[1, 2])).is_err(), "one is missing");
        assert!(joined(parts(&[1, 2, 2])).is_err(), "one is there twice");
        let mut other = parts(&[1, 2, 3]);
        other[1].0.seed = 8;
        assert!(joined(other).is_err(), "one is of another run");
        let mut short = parts(&[1, 2, 3]);
        short[2].1.cases = 2;
        assert!(joined(short).is_err(), "one was not finished");
        assert!(joined(Vec::new()).is_err());
    }
}
