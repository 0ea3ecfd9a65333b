//! A large source tree under `git`: the cost of a program that does little with each of many files.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::source::{git, text};
use crate::place::{run as program, timed};
use crate::{Content, Figures, Place, Row, interrupt};

const FILES_IN_DIRECTORY: usize = 20;
const DIRECTORIES_IN_PART: usize = 25;
/// One in so many differs between the two states, one in so many is there in one of them only.
const CHANGED: usize = 3;
const GONE: usize = 15;
/// One in so many is changed before the commit that is measured.
const COMMITTED: usize = 50;
/// The tag of the state before.
const OLD: &str = "old";
/// Is in no file: words are hexadecimal.
const SOUGHT: &str = "zz.*sought";

pub(super) const ROWS: &[Row] = &[
    Row::TreeClone,
    Row::TreeCheckout,
    Row::TreeBack,
    Row::TreeGrep,
    Row::TreeGrepCold,
    Row::TreeStatus,
    Row::TreeStatusCold,
    Row::TreeCommit,
    Row::TreeWorktree,
    Row::TreeCopy,
    Row::TreeRemove,
];

pub(super) fn run(
    place: &Place<'_>,
    content: &mut Content,
    figures: &mut Figures,
) -> io::Result<()> {
    let origin = &place.directory.join("origin");
    let tree = &place.directory.join("tree");
    build(origin, place.sizes.tree_files, content)?;
    settle(place)?;

    let clone = || program(git(place.directory).args(["clone", "--quiet", "origin", "tree"]));
    figures.add(Row::TreeClone, stored(place, clone)?);
    // From now on it is only in the way.
    fs::remove_dir_all(origin)?;
    states(place, tree, figures)?;
    looks(place, tree, figures)?;
    additions(place, tree, figures)
}

/// Seconds until what `work` does is stored.
fn stored(place: &Place<'_>, work: impl FnOnce() -> io::Result<()>) -> io::Result<f64> {
    timed(|| {
        work()?;
        (place.sync)()
    })
}

/// From one state of the files to another and back.
fn states(place: &Place<'_>, tree: &Path, figures: &mut Figures) -> io::Result<()> {
    for (row, state) in [(Row::TreeCheckout, OLD), (Row::TreeBack, "main")] {
        settle(place)?;
        let check_out = || program(git(tree).args(["checkout", "--quiet", state]));
        figures.add(row, stored(place, check_out)?);
    }
    Ok(())
}

/// Every file read, every file looked at.
fn looks(place: &Place<'_>, tree: &Path, figures: &mut Figures) -> io::Result<()> {
    let grep = || nothing_found(git(tree).args(["grep", "--quiet", SOUGHT]));
    let status = || program(git(tree).args(["status", "--short"]));
    settle(place)?;
    figures.add(Row::TreeGrep, timed(grep)?);
    figures.add(Row::TreeStatus, timed(status)?);
    if place.may_drop_caches {
        place.drop_caches()?;
        figures.add(Row::TreeStatusCold, timed(status)?);
        place.drop_caches()?;
        figures.add(Row::TreeGrepCold, timed(grep)?);
    }
    Ok(())
}

/// A commit, a second working tree, a copy of everything, and its end.
fn additions(place: &Place<'_>, tree: &Path, figures: &mut Figures) -> io::Result<()> {
    let copy = &place.directory.join("copy");
    for number in (0..place.sizes.tree_files).step_by(COMMITTED) {
        let file = tree.join(path(number));
        if file.exists() {
            File::options()
                .append(true)
                .open(file)?
                .write_all(b"more\n")?;
        }
    }
    settle(place)?;
    let commit = || program(git(tree).args(["commit", "--quiet", "-a", "-m", "measured"]));
    figures.add(Row::TreeCommit, stored(place, commit)?);

    settle(place)?;
    let add = || program(git(tree).args(["worktree", "add", "--quiet", "../second", OLD]));
    figures.add(Row::TreeWorktree, stored(place, add)?);

    settle(place)?;
    let make = || program(Command::new("cp").arg("-r").args([tree, copy]));
    figures.add(Row::TreeCopy, stored(place, make)?);

    settle(place)?;
    let remove = || program(Command::new("rm").arg("-r").arg(copy));
    figures.add(Row::TreeRemove, stored(place, remove)?);
    Ok(())
}

/// Nothing that a step left to do is part of the next one.
fn settle(place: &Place<'_>) -> io::Result<()> {
    interrupt::check()?;
    (place.sync)()
}

/// Runs a search that is to find nothing, which `git grep` says by 1.
fn nothing_found(command: &mut Command) -> io::Result<()> {
    interrupt::check()?;
    let output = command.stdin(std::process::Stdio::null()).output()?;
    match output.status.code() {
        Some(1) => Ok(()),
        _ => Err(io::Error::other(format!("git grep: {}", output.status))),
    }
}

fn path(number: usize) -> PathBuf {
    let directory = number / FILES_IN_DIRECTORY;
    let (part, unit) = (
        directory / DIRECTORIES_IN_PART,
        directory % DIRECTORIES_IN_PART,
    );
    PathBuf::from(format!("part-{part}/unit-{unit}/file-{number}.rs"))
}

/// A repository of two states of about `count` files each, the older one tagged.
fn build(at: &Path, count: usize, content: &mut Content) -> io::Result<()> {
    fs::create_dir(at)?;
    program(git(at).args(["init", "--quiet", "--initial-branch=main"]))?;
    for number in (0..count).filter(|number| number % GONE != 1) {
        write(at, number, content)?;
    }
    commit(at)?;
    program(git(at).args(["tag", OLD]))?;
    for number in 0..count {
        match (number % GONE, number % CHANGED) {
            (2, _) => fs::remove_file(at.join(path(number)))?,
            (1, _) | (_, 0) => write(at, number, content)?,
            _ => {}
        }
    }
    commit(at)?;
    program(git(at).args(["gc", "--quiet"]))
}

fn write(at: &Path, number: usize, content: &mut Content) -> io::Result<()> {
    interrupt::check()?;
    let file = at.join(path(number));
    if number % FILES_IN_DIRECTORY <= 1 {
        fs::create_dir_all(file.parent().unwrap_or(at))?;
    }
    fs::write(file, text(content))
}

fn commit(at: &Path) -> io::Result<()> {
    program(git(at).args(["add", "-A"]))?;
    program(git(at).args(["commit", "--quiet", "-m", "a state"]))
}
