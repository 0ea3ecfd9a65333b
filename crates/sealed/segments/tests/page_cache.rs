//! Ciphertext that is written or read does not stay in the page cache, except near many small random reads.

use std::fs;
use std::path::Path;

use strongroom_format::limits::sealed_len;
use strongroom_format::{BlockId, Epoch, Kind, Location, SealedBlock, SuiteId};
use strongroom_segments::{
    Appended, BatchTail, DirectIo, Part, SegmentStore, StoreOptions, Transfer,
};

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

/// How many bytes of `path` are in memory: those that reading it does not fetch from the disk.
/// Ask once per file: it changes the answer. `None` where the system does not count.
fn resident_bytes(path: &Path) -> Option<u64> {
    let before = fetched_bytes()?;
    let len = fs::read(path).expect("read").len() as u64;
    Some(len - (fetched_bytes()? - before).min(len))
}

/// What this thread has had fetched from disks so far, in bytes.
fn fetched_bytes() -> Option<u64> {
    let counts = fs::read_to_string("/proc/thread-self/io").ok()?;
    counts
        .lines()
        .find_map(|line| line.strip_prefix("read_bytes: "))?
        .parse()
        .ok()
}

#[test]
fn no_byte_of_a_segment_stays_in_memory() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    if rustix::fs::statfs(folder.path()).expect("told").f_type as u64 == 0x0102_1994 {
        eprintln!("skipped: a file system in memory has its files nowhere else");
        return;
    }
    let probe = folder.path().join("probe");
    fs::write(&probe, [1; 8192]).expect("written");
    let Some(cached) = resident_bytes(&probe) else {
        eprintln!("skipped: this system does not count what is fetched");
        return;
    };
    assert_eq!(cached, 8192, "the method sees what is cached");

    for transfer in [Transfer::Direct, Transfer::DontCache, Transfer::Buffered] {
        for reads in [0, 1] {
            let path = folder.path().join(format!("{transfer:?}-{reads}"));
            let direct = DirectIo::Only(transfer);
            let options = StoreOptions {
                direct,
                ..StoreOptions::new(SuiteId::Aes256GcmBlake3)
            };
            let Ok(store) = SegmentStore::open(&path, options) else {
                assert_ne!(
                    transfer,
                    Transfer::Buffered,
                    "every file system takes buffered transfers"
                );
                continue;
            };
            let bytes = vec![7; sealed_len(65_536)];
            let blocks = vec![
                SealedBlock {
                    id: BlockId([0; 32]),
                    kind: Kind::Data,
                    clear_len: 65_536,
                    bytes
                };
                30
            ];
            let refs: Vec<&SealedBlock> = blocks.iter().collect();
            let appended = append(&store, &refs, b"index").expect("appended");
            store.sync(appended.sequence).expect("synced");
            let whole = |&location: &Location| Part {
                location,
                range: 0..location.len,
            };
            let parts: Vec<Part> = appended.locations.iter().map(whole).collect();
            for _ in 0..reads {
                assert!(store.read_many(&parts).iter().all(Result::is_ok));
                assert!(store.read(appended.locations[3], 5..100).is_ok());
            }
            let name: String = appended
                .segment
                .0
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            let file = path.join(&name[..2]).join(&name);
            assert_eq!(
                resident_bytes(&file),
                Some(0),
                "{transfer:?}, read {reads} times"
            );
        }
    }
}

/// Goal: whoever reads half of a segment in pieces of 4 KiB, in no order, waits for the disk for not much more than half of them, and
/// few reads leave nothing behind. Method: what this thread has had fetched from disks, before and after each piece.
#[test]
fn random_reads_of_half_a_segment_find_half_of_what_they_want_in_memory() {
    /// A sealed piece of 4 KiB.
    const CHUNK: u32 = 4112;
    const CHUNKS: u32 = 16;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let path = folder.path().join("segments");
    let options = StoreOptions::new(SuiteId::Aes256GcmBlake3);
    let store = SegmentStore::open(&path, options).expect("opened");
    if store.transfer() != Transfer::Direct || fetched_bytes().is_none() {
        eprintln!("skipped: no direct reads here, or a system that does not count what is fetched");
        return;
    }
    let mut places = Vec::new();
    for batch in 0..8_u8 {
        let block = |index: u8| SealedBlock {
            id: BlockId([0; 32]),
            kind: Kind::Data,
            clear_len: 65_536,
            bytes: vec![batch * 30 + index; sealed_len(65_536)],
        };
        let blocks: Vec<SealedBlock> = (0..30).map(block).collect();
        let refs: Vec<&SealedBlock> = blocks.iter().collect();
        places.extend(append(&store, &refs, b"index").expect("appended").locations);
    }
    let chunks = u32::try_from(places.len()).expect("few") * CHUNKS;
    assert!(
        places
            .iter()
            .all(|place| place.segment == places[0].segment)
    );
    let (mut reads, mut waits, mut bytes) = (0, 0, 0);
    // No factor in common with the count, so that no piece comes twice.
    for index in 0..chunks / 2 {
        let chunk = index * 1_021 % chunks;
        let start = chunk % CHUNKS * CHUNK;
        let part = Part {
            location: places[(chunk / CHUNKS) as usize],
            range: start..start + CHUNK,
        };
        let before = fetched_bytes().expect("counted");
        let read = store.read_near(&[part]).remove(0).expect("read");
        let fetched = fetched_bytes().expect("counted") - before;
        assert!(read.iter().all(|&byte| u32::from(byte) == chunk / CHUNKS));
        reads += 1;
        waits += u64::from(fetched > 0);
        bytes += fetched;
    }
    assert!(waits <= reads * 11 / 20, "{waits} of {reads} reads waited");
    let counters = store.counters();
    assert!(
        counters.reads <= waits && counters.reads_cached >= reads - waits,
        "{counters:?}: nothing that was fetched is looked for on the disk again"
    );
    let most = u64::from(chunks * CHUNK) * 13 / 10;
    assert!(
        bytes <= most,
        "{bytes} bytes were fetched, more than {most}"
    );
}
