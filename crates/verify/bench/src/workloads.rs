//! The workloads, in groups. Each group leaves its directory as it found it.

mod big;
mod copy;
mod database;
mod files;
mod programs;
mod small_writes;
mod source;
mod tree;

use std::fs;
use std::io;
use std::path::Path;

use crate::place::clear;
use crate::{Content, Figures, Place, Row, interrupt};

/// Workloads that use the same files.
#[derive(Clone, Copy)]
pub struct Group {
    /// The figures that it gives.
    pub rows: &'static [Row],
    /// Measures them once. The directory of the place is empty, and is emptied by whoever calls.
    run: fn(&Place<'_>, &mut Content, &mut Figures) -> io::Result<()>,
}

/// All of them.
pub const GROUPS: &[Group] = &[
    Group {
        rows: big::ROWS,
        run: big::run,
    },
    Group {
        rows: small_writes::ROWS,
        run: small_writes::run,
    },
    Group {
        rows: files::ROWS,
        run: files::run,
    },
    Group {
        rows: copy::ROWS,
        run: copy::run,
    },
    Group {
        rows: programs::ROWS,
        run: programs::run,
    },
    Group {
        rows: tree::ROWS,
        run: tree::run,
    },
    Group {
        rows: database::ROWS,
        run: database::run,
    },
];

impl Group {
    /// Runs once in a new directory below that of `place`, which is removed after, and takes the figures.
    ///
    /// # Errors
    /// Of the directory; figures taken until then stay.
    pub fn measure(
        &self,
        place: &Place<'_>,
        content: &mut Content,
        figures: &mut Figures,
    ) -> io::Result<()> {
        // Another name each time: not every file system lets one that was removed be taken again at once.
        let name = format!("workload-{:016x}", content.random());
        let directory = place.directory.join(name);
        fs::create_dir(&directory)?;
        let inner = Place {
            directory: &directory,
            ..*place
        };
        let result = (self.run)(&inner, content, figures);
        // With the folder of the whole run, then.
        interrupt::check()?;
        let removed = clear(&directory);
        result.and(removed)?;
        (place.sync)()
    }
}

/// Does a little of everything once: first use of memory and code is slow, and nobody's figure should hold it.
///
/// # Errors
/// Of the directory.
pub fn warm_up(place: &Place<'_>, content: &mut Content) -> io::Result<()> {
    let directory = place.directory.join("warm-up");
    fs::create_dir(&directory)?;
    let big = directory.join("big");
    big::write(&big, 64.min(place.sizes.big_mib), content)?;
    fs::read(&big)?;
    for number in 0..200.min(place.sizes.files) {
        fs::write(directory.join(number.to_string()), content.take(5000))?;
    }
    clear(&directory)?;
    (place.sync)()
}

/// Measures one directory, of which nothing else is known: syncs by `syncfs` and by `fsync` of the directory.
///
/// Works in a new directory below it, and removes that. `tell` hears what begins.
///
/// # Errors
/// If the directory cannot be used at all, or the run is interrupted; a group that fails is noted in the figures.
pub fn bench_directory(
    directory: &Path,
    sizes: crate::Sizes,
    rounds: usize,
    wanted: Option<Vec<Row>>,
    tell: &mut dyn FnMut(usize, &[Row]),
) -> io::Result<Figures> {
    let work = directory.join(format!("strongroom-bench-{}", std::process::id()));
    fs::create_dir(&work)?;
    let figures = bench_in(&work, sizes, rounds, wanted, tell);
    // Of an interrupted run the folder is what matters.
    interrupt::leave(&work).and(figures)
}

fn bench_in(
    work: &Path,
    sizes: crate::Sizes,
    rounds: usize,
    wanted: Option<Vec<Row>>,
    tell: &mut dyn FnMut(usize, &[Row]),
) -> io::Result<Figures> {
    let handle = fs::File::open(work)?;
    let sync = || -> io::Result<()> {
        rustix::fs::syncfs(&handle)?;
        // On a mount of Strongroom, where syncfs does not reach, this covers all that was done before.
        handle.sync_all()
    };
    let place = Place {
        directory: work,
        sync: &sync,
        server: None,
        sizes,
        may_drop_caches: crate::is_root(),
    };
    let mut figures = Figures::of(wanted);
    let mut content = Content::new(crate::machine::seed());
    warm_up(&place, &mut content)?;
    for round in 0..rounds {
        for group in GROUPS {
            if !figures.want(group.rows) || interrupt::came() {
                continue;
            }
            tell(round, group.rows);
            if let Err(error) = group.measure(&place, &mut content, &mut figures) {
                figures.fail(group.rows, round + 1, &error.to_string());
            }
        }
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ROWS, Sizes};

    #[test]
    fn every_workload_runs_on_a_plain_directory_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        // It costs nothing, and is at rest whatever else this machine does.
        let mut server = std::process::Command::new("sleep")
            .arg("1000")
            .spawn()
            .unwrap();
        // Dropping the caches of the whole machine is no business of a test.
        let sync = || Ok(());
        let place = Place {
            directory: folder.path(),
            sync: &sync,
            server: Some(server.id()),
            sizes: Sizes::LEAST,
            may_drop_caches: false,
        };
        let mut content = Content::new(7);
        let mut figures = Figures::of(None);
        warm_up(&place, &mut content).unwrap();
        for group in GROUPS {
            group.measure(&place, &mut content, &mut figures).unwrap();
        }
        server.kill().unwrap();
        server.wait().unwrap();
        let cold = [
            Row::ReadCold,
            Row::ReadFourStreams,
            Row::ReadRandom,
            Row::ReadRandomFour,
            Row::CacheGrowth,
            Row::CpuRead,
            Row::ReadFiles,
            Row::WalkCold,
            Row::TreeGrepCold,
            Row::TreeStatusCold,
            Row::Library,
        ];
        for facts in ROWS {
            let measured = figures.median(facts.row);
            assert_eq!(
                measured.is_none(),
                cold.contains(&facts.row),
                "{}",
                facts.name
            );
            assert!(
                measured.is_none_or(|value| value.is_finite() && value >= 0.0),
                "{}",
                facts.name
            );
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_workload_that_fails_leaves_its_directory_empty_too() {
        let folder = tempfile::tempdir().unwrap();
        let sync = || Err(io::Error::other("no disk"));
        let place = Place {
            directory: folder.path(),
            sync: &sync,
            server: None,
            sizes: Sizes::LEAST,
            may_drop_caches: false,
        };
        for group in GROUPS {
            let result = group.measure(&place, &mut Content::new(7), &mut Figures::of(None));
            assert!(result.is_err());
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
