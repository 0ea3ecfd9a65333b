//! A process that may open few files reads many segments. This program has only one test, because it changes a limit of
//! its process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use strongroom_format::limits::sealed_len;
use strongroom_format::{BlockId, Epoch, Kind, Location, SealedBlock, SuiteId};
use strongroom_segments::{BatchTail, SegmentStore, StoreOptions};

const SEGMENTS: u8 = 100;
const THREADS: usize = 4;

fn block(fill: u8) -> SealedBlock {
    let clear_len = 20_000;
    SealedBlock {
        id: BlockId([fill; 32]),
        kind: Kind::Data,
        clear_len,
        bytes: vec![fill; sealed_len(clear_len as usize)],
    }
}

fn options() -> StoreOptions {
    StoreOptions {
        // One block each.
        segment_bytes_max: 32 * 1024,
        ..StoreOptions::new(SuiteId::Aes256GcmBlake3)
    }
}

fn append(store: &SegmentStore, fill: u8) -> Location {
    let block = block(fill);
    let before = 64 + block.bytes.len();
    let bytes = vec![0x5a; (before + 100).next_multiple_of(4096) - before];
    let tail = BatchTail {
        bytes: &bytes,
        index_len: 8,
    };
    let appended = store
        .batch_of(&[&block], 0)
        .and_then(|batch| store.append(Epoch(0), batch, tail))
        .expect("appended");
    appended.locations[0]
}

fn read_all(store: &SegmentStore, places: &[Location]) {
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for round in 0..2 * places.len() {
                    let place = places[(round * 7 + thread * 13) % places.len()];
                    let read = store.read(place, 0..place.len).expect("read");
                    let fill = places.iter().position(|other| *other == place);
                    assert!(read.iter().all(|byte| Some(usize::from(*byte)) == fill));
                }
            });
        }
    });
}

fn allow(descriptors: u64) {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let limit = Rlimit {
        current: Some(descriptors),
        maximum,
    };
    setrlimit(Resource::Nofile, limit).expect("a limit may be lowered, and raised again");
}

/// Goal: first of a store that was opened with many descriptors, which others need by now, then of one that had few.
/// Failed before: up to 128 files were kept open whatever the limit was, and a further one could not be opened.
#[test]
fn many_segments_are_read_with_few_descriptors() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("segments");
    allow(1024);
    let store = SegmentStore::open(&path, options()).expect("opened");
    let places: Vec<Location> = (0..SEGMENTS).map(|fill| append(&store, fill)).collect();
    store.sync(u64::MAX).expect("synced");
    read_all(&store, &places);
    allow(40);
    read_all(&store, &places);
    drop(store);
    let store = SegmentStore::open(&path, options()).expect("opened");
    read_all(&store, &places);
}
