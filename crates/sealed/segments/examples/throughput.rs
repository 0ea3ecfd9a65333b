//! Measures appending and reading, in each way that the file system of a folder supports.
//!
//! `cargo run --release -p strongroom-segments --example throughput -- FOLDER [MIB] [THREADS]` writes MIB (1024) to
//! FOLDER from THREADS (1) threads, twice for each way in turn. It reads them back in runs and at random places, and
//! removes them. The processor time shown is for writing and syncing, in user and system mode.

use std::path::Path;
use std::time::Instant;
use std::{env, fs, process, thread};

use strongroom_format::limits::{CHUNK_BYTES, TAG_BYTES, sealed_len};
use strongroom_format::{BlockId, Epoch, Kind, Location, SealedBlock, SuiteId};
use strongroom_segments::{BatchTail, DirectIo, Part, SegmentStore, StoreOptions, Transfer};

const MIB: f64 = 1024.0 * 1024.0;
const BLOCK_BYTES: u32 = 64 * 1024;
const BATCH_BLOCKS: usize = 64;
const RUN_BLOCKS: usize = 64;

fn main() {
    let mut arguments = env::args().skip(1);
    let Some(folder) = arguments.next() else {
        eprintln!("usage: throughput FOLDER [MIB]");
        process::exit(2);
    };
    let mib = arguments
        .next()
        .and_then(|mib| mib.parse().ok())
        .unwrap_or(1024);
    let threads = arguments
        .next()
        .and_then(|threads| threads.parse().ok())
        .unwrap_or(1);
    for round in 0..2 {
        for transfer in [Transfer::Direct, Transfer::DontCache, Transfer::Buffered] {
            let path = Path::new(&folder).join(format!("throughput-{transfer:?}"));
            match measure(&path, transfer, mib, threads) {
                Ok(line) => println!("round {round} {line}"),
                Err(error) => println!("round {round} {transfer:?}: {error}"),
            }
            let _ = fs::remove_dir_all(&path);
        }
    }
}

fn measure(
    path: &Path,
    transfer: Transfer,
    mib: usize,
    threads: usize,
) -> Result<String, strongroom_segments::Error> {
    let options = StoreOptions {
        direct: DirectIo::Only(transfer),
        ..StoreOptions::new(SuiteId::Aes256GcmBlake3)
    };
    let store = SegmentStore::open(path, options)?;
    let bytes: Vec<u8> = (0..sealed_len(BLOCK_BYTES as usize))
        .map(|at| (at * 31 % 251) as u8)
        .collect();
    let block = SealedBlock {
        id: BlockId([0; 32]),
        kind: Kind::Data,
        clear_len: BLOCK_BYTES,
        bytes,
    };
    let batch = vec![&block; BATCH_BLOCKS];

    let start = Instant::now();
    let cpu_start = cpu_seconds();
    let append_share = || -> Result<Vec<Location>, strongroom_segments::Error> {
        let mut places = Vec::new();
        for _ in 0..mib * 16 / BATCH_BLOCKS / threads {
            let blocks_len: usize = batch.iter().map(|block| block.bytes.len()).sum();
            let tail = vec![7; (blocks_len + 3064).next_multiple_of(4096) - blocks_len - 64];
            let tail = BatchTail {
                bytes: &tail,
                index_len: 3000,
            };
            let appended = store.append(Epoch(0), store.batch_of(&batch, 3000)?, tail)?;
            if let Some(full) = appended.full {
                store.finish(full, &[7; 3 * 4096 - 64])?;
            }
            places.extend(appended.locations);
        }
        Ok(places)
    };
    let places: Vec<Location> = thread::scope(|scope| {
        let shares: Vec<_> = (0..threads).map(|_| scope.spawn(append_share)).collect();
        let mut places = Vec::new();
        for share in shares {
            places.extend(share.join().expect("no thread panics")?);
        }
        Ok::<_, strongroom_segments::Error>(places)
    })?;
    let written = start.elapsed().as_secs_f64();
    store.sync(u64::MAX)?;
    let synced = start.elapsed().as_secs_f64();
    let cpu = cpu_seconds() - cpu_start;

    let start = Instant::now();
    for places in places.chunks(RUN_BLOCKS) {
        let whole = |&location: &Location| Part {
            location,
            range: 0..location.len,
        };
        let parts: Vec<Part> = places.iter().map(whole).collect();
        store
            .read_many(&parts)
            .into_iter()
            .collect::<Result<Vec<_>, _>>()?;
    }
    let run_seconds = start.elapsed().as_secs_f64();

    let start = Instant::now();
    let small_reads = 4000;
    let chunk = CHUNK_BYTES as u32 + TAG_BYTES as u32;
    let second = chunk..2 * chunk;
    for number in 0..small_reads {
        let place = places[number * 7919 % places.len()];
        store.read(place, second.clone())?;
    }
    let small_seconds = start.elapsed().as_secs_f64();
    let clear_mib = f64::from(BLOCK_BYTES) * places.len() as f64 / MIB;
    Ok(format!(
        "{transfer:?}: append {:.0} MB/s, with sync {:.0} MB/s and {cpu:.2} s of processor; read in runs {:.0} MB/s, a chunk at random {:.0}/s",
        clear_mib * MIB / 1e6 / written,
        clear_mib * MIB / 1e6 / synced,
        clear_mib * MIB / 1e6 / run_seconds,
        small_reads as f64 / small_seconds,
    ))
}

/// Processor time of this process so far, in seconds.
fn cpu_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default();
    fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|ticks| ticks.parse::<f64>().ok())
        .sum::<f64>()
        / 100.0
}
