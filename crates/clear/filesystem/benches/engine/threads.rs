//! Content over growing numbers of threads, on a disk in memory: sealing and opening alone, and whole writes and reads.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::time::Instant;

use serde::Serialize;
use strongroom_bench::Content;
use strongroom_conformance::engine::sealer;
use strongroom_crypto::Pool;
use strongroom_filesystem::{Filesystem, InodeId, NodeKind};
use strongroom_format::{Epoch, Kind, SealedBlock};

use crate::vault;

/// Threads that seal and open.
pub(crate) const THREADS: [usize; 5] = [1, 2, 4, 8, 16];
/// Rounds in which the numbers of threads take turns, after one that warms up.
const ROUNDS: usize = 5;
/// MiB that one figure writes or reads, and that one call does.
const MIB: usize = 256;
const CALL_BYTES: usize = 1 << 20;
const BLOCK_BYTES: usize = 64 * 1024;
/// MiB of content that is sealed at once: what a drain takes.
const BATCH_MIB: usize = 4;

/// One row of the table.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Row {
    /// MiB/s by number of threads, one for each round.
    pub(crate) speed: BTreeMap<usize, Vec<f64>>,
    /// Cores that were busy meanwhile.
    pub(crate) cores: BTreeMap<usize, Vec<f64>>,
}

/// By name: `seal`, `open`, `write 1`, `write 4`, `read 1`, `read 4`; the numbers are those of the callers.
pub(crate) type Rows = BTreeMap<String, Row>;

/// Measures every number of threads in a vault below `folder`.
pub(crate) fn measure(folder: &Path) -> Result<Rows, Box<dyn Error>> {
    vault::settle();
    let mut rows = Rows::new();
    for round in 0..=ROUNDS {
        eprintln!("threads, round {round} of {ROUNDS}");
        for threads in THREADS {
            let mut add = |name: &str, mib: usize, (seconds, processor): (f64, f64)| {
                if round > 0 {
                    let row = rows.entry(name.to_owned()).or_default();
                    let speeds = row.speed.entry(threads).or_default();
                    speeds.push(mib as f64 / seconds);
                    let cores = row.cores.entry(threads).or_default();
                    cores.push(processor / seconds);
                }
            };
            alone(threads, &mut add)?;
            let seed = (round * 100 + threads) as u64;
            whole(folder, threads, seed, &mut add)?;
        }
    }
    Ok(rows)
}

/// Seconds on the clock and of the processors, of all threads.
fn costed(work: impl FnOnce() -> Result<(), Box<dyn Error>>) -> Result<(f64, f64), Box<dyn Error>> {
    let processor = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    };
    let (start, before) = (Instant::now(), processor());
    work()?;
    Ok((start.elapsed().as_secs_f64(), processor() - before))
}

/// The gate without anything around it.
fn alone(
    threads: usize,
    add: &mut impl FnMut(&str, usize, (f64, f64)),
) -> Result<(), Box<dyn Error>> {
    let (pool, sealer) = (Pool::new(threads - 1), sealer(0));
    let count = BATCH_MIB * CALL_BYTES / BLOCK_BYTES;
    let mut buffers: Vec<Vec<u8>> = (0..count)
        .map(|number| vec![number as u8; BLOCK_BYTES])
        .collect();
    let mut sealed: Vec<SealedBlock> = Vec::new();
    let cost = costed(|| {
        for _ in 0..MIB / BATCH_MIB {
            let pairs = sealer.seal_all(&pool, Kind::Data, std::mem::take(&mut buffers));
            (sealed, buffers) = pairs.into_iter().unzip();
        }
        Ok(())
    })?;
    add("seal", MIB, cost);
    let cost = costed(|| {
        for _ in 0..MIB / BATCH_MIB {
            let job = |block: SealedBlock| {
                let sealer = sealer.clone();
                move || {
                    let opened =
                        sealer.open(Epoch(0), Kind::Data, &block.id, BLOCK_BYTES, &block.bytes);
                    (opened.map(drop), block)
                }
            };
            let jobs = std::mem::take(&mut sealed).into_iter().map(job).collect();
            for (opened, block) in pool.run_all(jobs) {
                opened?;
                sealed.push(block);
            }
        }
        Ok(())
    })?;
    add("open", MIB, cost);
    Ok(())
}

/// The whole engine: files written by one caller and by four, and read again.
fn whole(
    folder: &Path,
    threads: usize,
    seed: u64,
    add: &mut impl FnMut(&str, usize, (f64, f64)),
) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir_in(folder)?;
    let filesystem = vault::create(folder.path(), Some(threads))?;
    for callers in [1, 4] {
        let files = (0..callers)
            .map(|number| {
                let name = format!("{callers}-{number}");
                vault::make(&filesystem, InodeId::ROOT, &name, NodeKind::File)
            })
            .collect::<Result<Vec<_>, _>>()?;
        let mut contents: Vec<Content> = (0..callers as u64)
            .map(|number| Content::new(seed * 1000 + callers as u64 * 10 + number))
            .collect();
        let calls = MIB * (1 << 20) / CALL_BYTES / callers;
        let written = costed(|| {
            let jobs = files.iter().zip(&mut contents);
            together(jobs.map(|(file, content)| {
                let filesystem = &filesystem;
                move || write(filesystem, *file, calls, content)
            }))?;
            Ok(filesystem.sync()?)
        })?;
        add(&format!("write {callers}"), MIB, written);
        let read = costed(|| {
            together(files.iter().map(|file| {
                let filesystem = &filesystem;
                move || read(filesystem, *file, calls)
            }))
        })?;
        add(&format!("read {callers}"), MIB, read);
    }
    Ok(filesystem.close()?)
}

fn write(
    filesystem: &Filesystem,
    file: InodeId,
    calls: usize,
    content: &mut Content,
) -> Result<(), String> {
    for call in 0..calls {
        let offset = (call * CALL_BYTES) as u64;
        let written = filesystem.write(file, offset, content.take(CALL_BYTES));
        written.map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn read(filesystem: &Filesystem, file: InodeId, calls: usize) -> Result<(), String> {
    let mut buffer = vec![0; CALL_BYTES];
    for call in 0..calls {
        let offset = (call * CALL_BYTES) as u64;
        let count = filesystem.read(file, offset, &mut buffer);
        if count.map_err(|error| error.to_string())? != CALL_BYTES {
            return Err("a file is shorter than it was written".to_owned());
        }
    }
    Ok(())
}

/// Runs all of `jobs` at once.
fn together<J>(jobs: impl Iterator<Item = J>) -> Result<(), Box<dyn Error>>
where
    J: FnOnce() -> Result<(), String> + Send,
{
    std::thread::scope(|scope| {
        let threads: Vec<_> = jobs.map(|job| scope.spawn(job)).collect();
        for thread in threads {
            thread.join().expect("a job does not panic")?;
        }
        Ok(())
    })
}
