//! Many small files: created, copied, walked, read and removed.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::Command;

use crate::place::{run as program, timed};
use crate::{Content, Figures, Place, Row, interrupt};

const FILE_BYTES: usize = 5000;
const FILES_IN_DIRECTORY: usize = 100;

pub(super) const ROWS: &[Row] = &[
    Row::Create,
    Row::CopyTree,
    Row::ReadFiles,
    Row::WalkCold,
    Row::WalkWarm,
    Row::Remove,
];

pub(super) fn run(
    place: &Place<'_>,
    content: &mut Content,
    figures: &mut Figures,
) -> io::Result<()> {
    let tree = &place.directory.join("tree");
    let copy = &place.directory.join("copy");
    let count = place.sizes.files as f64;

    let seconds = timed(|| {
        create(tree, place.sizes.files, content)?;
        (place.sync)()
    })?;
    figures.add(Row::Create, count / seconds);

    if figures.want(&[Row::CopyTree]) {
        let seconds = timed(|| {
            program(Command::new("cp").arg("-r").args([tree, copy]))?;
            (place.sync)()
        })?;
        figures.add(Row::CopyTree, seconds);
    }
    if place.may_drop_caches && figures.want(&[Row::WalkCold]) {
        place.drop_caches()?;
        let mut entries = 0;
        let seconds = timed(|| walk(tree).map(|found| entries = found))?;
        figures.add(Row::WalkCold, entries as f64 / seconds);
    }
    if figures.want(&[Row::WalkWarm]) {
        walk(tree)?;
        let mut entries = 0;
        let seconds = timed(|| walk(tree).map(|found| entries = found))?;
        figures.add(Row::WalkWarm, entries as f64 / seconds);
    }
    if place.may_drop_caches && figures.want(&[Row::ReadFiles]) {
        place.drop_caches()?;
        let seconds = timed(|| read(tree, place.sizes.files))?;
        figures.add(Row::ReadFiles, count / seconds);
    }
    if figures.want(&[Row::Remove]) {
        let seconds = timed(|| {
            program(Command::new("rm").arg("-r").arg(tree))?;
            (place.sync)()
        })?;
        figures.add(Row::Remove, count / seconds);
    }
    Ok(())
}

fn directory(number: usize) -> String {
    format!("d{}", number / FILES_IN_DIRECTORY)
}

fn create(tree: &Path, count: usize, content: &mut Content) -> io::Result<()> {
    fs::create_dir(tree)?;
    for number in 0..count {
        interrupt::check()?;
        let directory = tree.join(directory(number));
        if number % FILES_IN_DIRECTORY == 0 {
            fs::create_dir(&directory)?;
        }
        File::create(directory.join(format!("f{number}")))?.write_all(content.take(FILE_BYTES))?;
    }
    Ok(())
}

/// Opens, reads to the end and closes each, in the order in which they were made.
fn read(tree: &Path, count: usize) -> io::Result<()> {
    let mut buffer = [0; 2 * FILE_BYTES];
    for number in 0..count {
        interrupt::check()?;
        let mut file = File::open(tree.join(directory(number)).join(format!("f{number}")))?;
        let mut len = 0;
        while let read @ 1.. = file.read(&mut buffer[len..])? {
            len += read;
        }
        if len != FILE_BYTES {
            return Err(io::Error::other(format!("file {number} has {len} bytes")));
        }
    }
    Ok(())
}

/// Lists everything below `top` and looks at each entry; gives how many there are.
fn walk(top: &Path) -> io::Result<usize> {
    let mut entries = 0;
    for entry in fs::read_dir(top)? {
        interrupt::check()?;
        let entry = entry?;
        entries += 1;
        if entry.metadata()?.is_dir() {
            entries += walk(&entry.path())?;
        }
    }
    Ok(entries)
}
