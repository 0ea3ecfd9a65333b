//! Many threads on one store: no two batches overlap, and every thread reads back what it wrote.

use std::collections::{BTreeMap, HashSet};
use std::thread;

use strongroom_format::limits::sealed_len;
use strongroom_format::{BlockId, Epoch, Kind, Location, SealedBlock, SegmentId, SuiteId};
use strongroom_segments::{Appended, BatchTail, Part, SegmentStore, StoreOptions};

/// What follows blocks of `blocks_len` bytes, as it is sealed elsewhere: it fills the last sector, and ends with `label`.
fn tail(label: &[u8], blocks: &[&SealedBlock]) -> Vec<u8> {
    let blocks_len: usize = blocks.iter().map(|block| block.bytes.len()).sum();
    let before = 64 + blocks_len;
    let mut bytes = vec![0x5a; (before + label.len() + 92).next_multiple_of(4096) - before];
    let start = bytes.len() - label.len();
    bytes[start..].copy_from_slice(label);
    bytes
}

fn append(
    store: &SegmentStore,
    blocks: &[&SealedBlock],
    label: &[u8],
) -> strongroom_segments::Result<Appended> {
    let bytes = tail(label, blocks);
    let tail = BatchTail {
        bytes: &bytes,
        index_len: label.len(),
    };
    store.append(Epoch(0), store.batch_of(blocks, bytes.len())?, tail)
}

const APPENDERS: u8 = 8;
const BATCHES: u8 = 40;

/// Blocks whose every byte tells who wrote them and when.
fn blocks(appender: u8, batch: u8) -> Vec<SealedBlock> {
    [1000, 65_536, 1 + 100 * u32::from(batch)]
        .map(|clear_len| SealedBlock {
            id: BlockId([0; 32]),
            kind: Kind::Data,
            clear_len,
            bytes: [appender, batch]
                .iter()
                .copied()
                .cycle()
                .take(sealed_len(clear_len as usize))
                .collect(),
        })
        .to_vec()
}

fn read_back(store: &SegmentStore, appended: &Appended, written: &[SealedBlock]) {
    let whole = |&location: &Location| Part {
        location,
        range: 0..location.len,
    };
    let parts: Vec<Part> = appended.locations.iter().map(whole).collect();
    for (read, block) in store.read_many(&parts).into_iter().zip(written) {
        assert_eq!(*read.expect("read"), *block.bytes);
    }
}

#[test]
fn eight_appenders_get_places_of_their_own_and_syncs_are_shared() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let options = StoreOptions::new(SuiteId::Aes256GcmBlake3);
    let store = SegmentStore::open(&folder.path().join("segments"), options).expect("opened");
    let append_all = |appender: u8| {
        let mut done = Vec::new();
        for batch in 0..BATCHES {
            let written = blocks(appender, batch);
            let refs: Vec<&SealedBlock> = written.iter().collect();
            let appended = append(&store, &refs, &[appender, batch]).expect("appended");
            read_back(&store, &appended, &written);
            if batch % 8 == 7 {
                store.sync(appended.sequence).expect("synced");
            }
            done.push((appender, batch, appended));
        }
        done
    };
    let all: Vec<(u8, u8, Appended)> = thread::scope(|scope| {
        let append_all = &append_all;
        let threads: Vec<_> = (0..APPENDERS)
            .map(|appender| scope.spawn(move || append_all(appender)))
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("no thread panics"))
            .collect()
    });

    let sequences: HashSet<u64> = all.iter().map(|(.., appended)| appended.sequence).collect();
    assert_eq!(
        sequences.len(),
        all.len(),
        "each batch has a sequence of its own"
    );
    let begun = all.iter().filter(|(.., appended)| appended.started).count();
    assert_eq!(begun, store.list().expect("listed").len());
    assert_eq!(
        all.iter()
            .filter(|(.., appended)| appended.full.is_some())
            .count(),
        begun - 1
    );
    assert!(
        store.counters().data_syncs <= u64::from(APPENDERS) * 5 * 2,
        "at most two files for each sync"
    );

    // What the files tell by themselves is what the appenders were told.
    let mut told = BTreeMap::new();
    for (appender, batch, appended) in &all {
        let place = (appended.segment, appended.locations[0].offset);
        assert!(
            told.insert(place, vec![*appender, *batch]).is_none(),
            "no two batches in one place"
        );
    }
    let mut found = BTreeMap::new();
    for id in store.list().expect("listed") {
        for batch in store.scan(id).expect("scanned").batches {
            found.insert(
                (id, batch.blocks_offset),
                batch.sealed_lengths[90..].to_vec(),
            );
        }
    }
    assert_eq!(found, told);
    for (appender, batch, appended) in &all {
        read_back(&store, appended, &blocks(*appender, *batch));
    }
}

/// Goal: threads put files into one folder at the same time. Method: ids with one first byte. Failed before: one of them removed the file that
/// the other had not finished, whose read then failed.
#[test]
fn files_are_put_into_one_folder_by_several_threads_at_once() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let options = StoreOptions::new(SuiteId::Aes256GcmBlake3);
    let store = SegmentStore::open(&folder.path().join("segments"), options).expect("opened");
    thread::scope(|scope| {
        for appender in 0..APPENDERS {
            let store = &store;
            scope.spawn(move || {
                for number in 0..BATCHES {
                    let mut id = SegmentId([7; 16]);
                    (id.0[1], id.0[2]) = (appender, number);
                    store.replace(id, &[appender; 8192]).expect("put there");
                }
            });
        }
    });
    let there = store.list().expect("listed").len();
    assert_eq!(there, usize::from(APPENDERS) * usize::from(BATCHES));
}
