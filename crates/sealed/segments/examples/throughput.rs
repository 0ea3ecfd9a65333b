//! Measures appending and reading in each way that the file system of a folder takes.
//!
//! `cargo run --release -p strongroom-segments --example throughput -- FOLDER [MIB]` writes MIB (1024) to
//! FOLDER, twice for each way in turn, reads them back in runs and at random, and removes them.

use std::path::Path;
use std::time::Instant;
use std::{env, fs, process};

use strongroom_format::limits::sealed_len;
use strongroom_format::{BlockId, Epoch, Location, SealedBlock, SuiteId};
use strongroom_segments::{DirectIo, Part, SegmentStore, StoreOptions, Transfer};

const MIB: f64 = 1024.0 * 1024.0;
const BLOCK_BYTES: u32 = 64 * 1024;
const BATCH_BLOCKS: usize = 64;

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
    for round in 0..2 {
        for transfer in [Transfer::Direct, Transfer::DontCache, Transfer::Buffered] {
            let path = Path::new(&folder).join(format!("throughput-{transfer:?}"));
            match measure(&path, transfer, mib) {
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
        clear_len: BLOCK_BYTES,
        bytes,
    };
    let batch = vec![&block; BATCH_BLOCKS];

    let start = Instant::now();
    let mut places: Vec<Location> = Vec::new();
    let mut sequence = 0;
    for _ in 0..mib * 16 / BATCH_BLOCKS {
        let appended = store.append(Epoch(0), &batch, &[0; 3000])?;
        if let Some(full) = appended.full {
            store.finish(full, &[0; 9000])?;
        }
        places.extend(appended.locations);
        sequence = appended.sequence;
    }
    let written = start.elapsed().as_secs_f64();
    store.sync(sequence)?;
    let synced = start.elapsed().as_secs_f64();

    let start = Instant::now();
    for places in places.chunks(16) {
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
    for number in 0..small_reads {
        let place = places[number * 7919 % places.len()];
        store.read(place, 16_400..32_800)?;
    }
    let small_seconds = start.elapsed().as_secs_f64();
    let clear_mib = f64::from(BLOCK_BYTES) * places.len() as f64 / MIB;
    Ok(format!(
        "{transfer:?}: append {:.0} MB/s, with sync {:.0} MB/s; read in 1 MiB runs {:.0} MB/s; {:.0} random reads of 16 KiB per second",
        clear_mib * MIB / 1e6 / written,
        clear_mib * MIB / 1e6 / synced,
        clear_mib * MIB / 1e6 / run_seconds,
        small_reads as f64 / small_seconds,
    ))
}
