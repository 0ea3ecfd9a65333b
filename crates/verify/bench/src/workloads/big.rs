//! One large file: written and read in sequence and at random, by one thread and by four at once.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::place::{cached_bytes, timed};
use crate::{Content, Figures, Place, Row, interrupt};

const MIB: usize = 1 << 20;
const PAGE: u64 = 4096;
/// Read in the row of the page cache.
const GROWTH_BYTES: u64 = 256 << 20;

pub(super) const ROWS: &[Row] = &[
    Row::WriteSequential,
    Row::ReadCold,
    Row::ReadWarm,
    Row::ReadFourStreams,
    Row::ReadRandom,
    Row::ReadRandomFour,
    Row::WriteRandom,
    Row::CacheGrowth,
    Row::CpuWrite,
    Row::CpuRead,
];

pub(super) fn run(
    place: &Place<'_>,
    content: &mut Content,
    figures: &mut Figures,
) -> io::Result<()> {
    let path = &place.directory.join("big");
    let mib = place.sizes.big_mib;
    let megabytes = (mib << 20) as f64 / 1e6;
    let gib = mib as f64 / 1024.0;

    // What was done before is not a part of what this costs.
    place.server_seconds_at_rest()?;
    let (seconds, processor) = costed(place, || write(path, mib, content))?;
    figures.add(Row::WriteSequential, megabytes / seconds);
    add_cost(place, figures, Row::CpuWrite, processor, gib);

    if place.may_drop_caches {
        if figures.want(&[Row::ReadCold, Row::CpuRead]) {
            place.drop_caches()?;
            let (seconds, processor) = costed(place, || read(path, 0, mib << 20))?;
            figures.add(Row::ReadCold, megabytes / seconds);
            add_cost(place, figures, Row::CpuRead, processor, gib);
        }
    } else {
        read(path, 0, mib << 20)?;
    }
    if figures.want(&[Row::ReadWarm]) {
        read(path, 0, mib << 20)?;
        figures.add(
            Row::ReadWarm,
            megabytes / timed(|| read(path, 0, mib << 20))?,
        );
    }
    if place.may_drop_caches {
        cold(place, path, content, figures)?;
    }
    if figures.want(&[Row::WriteRandom]) {
        figures.add(Row::WriteRandom, write_random(place, path, content)?);
    }
    Ok(())
}

/// Seconds that `work` takes, and seconds of processor time that the server takes for it until it is at rest: what it
/// leaves for later is a part of what it costs.
fn costed(
    place: &Place<'_>,
    work: impl FnOnce() -> io::Result<()>,
) -> io::Result<(f64, Option<f64>)> {
    let before = place.server_seconds();
    let seconds = timed(work)?;
    let after = place.server_seconds_at_rest()?;
    let processor = after.zip(before).map(|(after, before)| after - before);
    Ok((seconds, processor))
}

/// Takes what `gib` GiB cost the server, or notes why that is not known; who has no server costs nothing.
fn add_cost(place: &Place<'_>, figures: &mut Figures, row: Row, processor: Option<f64>, gib: f64) {
    if let Some(seconds) = processor {
        figures.add(row, seconds / gib);
    } else if place.server.is_some() {
        let reason = "its server ended, or was still at work a minute later";
        figures.fail(&[row], usize::MAX, reason);
    }
}

/// The rows before each of which the caches are dropped.
fn cold(
    place: &Place<'_>,
    path: &Path,
    content: &mut Content,
    figures: &mut Figures,
) -> io::Result<()> {
    let len = place.sizes.big_mib << 20;
    if figures.want(&[Row::CacheGrowth]) {
        let read_bytes = len.min(GROWTH_BYTES);
        place.drop_caches()?;
        let before = cached_bytes()?;
        read(path, 0, read_bytes)?;
        let growth = cached_bytes()?.saturating_sub(before);
        figures.add(Row::CacheGrowth, growth as f64 / read_bytes as f64);
    }
    if figures.want(&[Row::ReadFourStreams]) {
        place.drop_caches()?;
        let part = len / 4;
        let parts: Vec<_> = (0..4)
            .map(|job| move || read(path, job * part, part))
            .collect();
        figures.add(
            Row::ReadFourStreams,
            len as f64 / 1e6 / timed(|| together(parts))?,
        );
    }
    for (row, jobs) in [(Row::ReadRandom, 1), (Row::ReadRandomFour, 4)] {
        if !figures.want(&[row]) {
            continue;
        }
        let chosen = content.choose(place.sizes.random_operations * jobs, len / PAGE);
        let share = chosen.len().div_ceil(jobs);
        let of_jobs: Vec<_> = chosen
            .chunks(share)
            .map(|pages| move || read_pages(path, pages))
            .collect();
        place.drop_caches()?;
        figures.add(row, chosen.len() as f64 / timed(|| together(of_jobs))?);
    }
    Ok(())
}

/// Runs all of `jobs` at once, each on a thread.
fn together(jobs: Vec<impl FnOnce() -> io::Result<()> + Send>) -> io::Result<()> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = jobs.into_iter().map(|job| scope.spawn(job)).collect();
        let ends = threads
            .into_iter()
            .map(|thread| thread.join().expect("a job does not panic"));
        ends.collect()
    })
}

/// Writes a new file of `mib` MiB, 1 MiB at a time, and syncs it.
pub(super) fn write(path: &Path, mib: u64, content: &mut Content) -> io::Result<()> {
    let mut file = File::create(path)?;
    for _ in 0..mib {
        interrupt::check()?;
        file.write_all(content.take(MIB))?;
    }
    file.sync_all()
}

/// Reads `len` bytes from `offset`, 1 MiB at a time.
fn read(path: &Path, offset: u64, len: u64) -> io::Result<()> {
    let mut file = File::open(path)?;
    io::Seek::seek(&mut file, io::SeekFrom::Start(offset))?;
    let mut buffer = vec![0; MIB];
    let mut left = len;
    while left > 0 {
        interrupt::check()?;
        let most = left.min(MIB as u64) as usize;
        match file.read(&mut buffer[..most])? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => left -= count as u64,
        }
    }
    Ok(())
}

fn read_pages(path: &Path, pages: &[u64]) -> io::Result<()> {
    let file = File::open(path)?;
    let mut buffer = [0; PAGE as usize];
    pages.iter().try_for_each(|page| {
        interrupt::check()?;
        file.read_exact_at(&mut buffer, page * PAGE)
    })
}

/// Pages of 4 KiB written a second, the one sync at the end included.
fn write_random(place: &Place<'_>, path: &Path, content: &mut Content) -> io::Result<f64> {
    let pages = content.choose(
        place.sizes.random_operations,
        (place.sizes.big_mib << 20) / PAGE,
    );
    let seconds = timed(|| {
        let file = File::options().write(true).open(path)?;
        for page in &pages {
            interrupt::check()?;
            file.write_all_at(content.take(PAGE as usize), page * PAGE)?;
        }
        file.sync_all()
    })?;
    Ok(pages.len() as f64 / seconds)
}
