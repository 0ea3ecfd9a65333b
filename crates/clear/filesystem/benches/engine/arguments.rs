//! The command line of the bench.

use std::error::Error;
use std::path::PathBuf;

/// Entries that every run measures.
const SIZES: [usize; 3] = [1_000, 10_000, 100_000];
/// The one that takes as long as all others.
const MILLION: usize = 1_000_000;

/// A half of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Names, commits and memory at growing sizes.
    Names,
    /// Content over growing numbers of threads.
    Threads,
}

/// What to measure, and where.
#[derive(Debug)]
pub(crate) struct Arguments {
    /// On the disk to measure.
    pub(crate) folder: PathBuf,
    /// On a disk that costs nothing.
    pub(crate) memory_folder: PathBuf,
    /// Where the run is kept as a folder of its own.
    pub(crate) into: Option<PathBuf>,
    /// All of it, if `None`.
    pub(crate) part: Option<Part>,
    million: bool,
}

impl Arguments {
    pub(crate) fn parse(words: &[String]) -> Result<Self, Box<dyn Error>> {
        let mut arguments = Self {
            folder: PathBuf::from(env!("CARGO_TARGET_TMPDIR")),
            memory_folder: PathBuf::from("/dev/shm"),
            into: None,
            part: None,
            million: false,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} needs a value"));
            match word.as_str() {
                // Cargo says that it runs a bench.
                "--bench" => {}
                "--million" => arguments.million = true,
                "--folder" => arguments.folder = value()?.into(),
                "--memory-folder" => arguments.memory_folder = value()?.into(),
                "--into" => arguments.into = Some(value()?.into()),
                "--only" => {
                    arguments.part = Some(match value()?.as_str() {
                        "names" => Part::Names,
                        "threads" => Part::Threads,
                        other => {
                            return Err(
                                format!("no part {other:?}; there are names, threads").into()
                            );
                        }
                    });
                }
                other => {
                    return Err(format!(
                        "no option {other:?}; there are --million, --only names|threads, --folder, --memory-folder, --into"
                    )
                    .into());
                }
            }
        }
        Ok(arguments)
    }

    /// Numbers of entries, each ten times the one before.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = usize> {
        SIZES.into_iter().chain(self.million.then_some(MILLION))
    }
}
