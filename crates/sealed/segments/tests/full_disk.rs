//! A disk that becomes full: writes are refused in time, no acknowledged data is lost, and deleting frees space.
//!
//! It needs the right to mount a small file system in memory; without it the test reports that and ends.

use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use strongroom_format::limits::sealed_len;
use strongroom_format::{BlockId, Epoch, Kind, SealedBlock, SuiteId};
use strongroom_segments::{Appended, BatchTail, Error, Recovery, SegmentStore, StoreOptions, Tail};

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

/// A file system of 20 MiB, gone with the value.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path) -> Option<Self> {
        let mounted = mount("tmpfs", at, "tmpfs", MountFlags::empty(), Some(c"size=20m"));
        mounted.ok().map(|()| Self(at.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

fn block(fill: u8) -> SealedBlock {
    let clear_len = 65_536;
    SealedBlock {
        id: BlockId([fill; 32]),
        kind: Kind::Data,
        clear_len,
        bytes: vec![fill; sealed_len(clear_len as usize)],
    }
}

#[test]
fn a_full_disk_refuses_a_batch_as_a_whole_and_keeps_every_earlier_one() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(disk) = SmallDisk::mount(folder.path()) else {
        eprintln!("skipped: mounting is not permitted here");
        return;
    };
    let open = || {
        SegmentStore::open(
            &disk.0.join("segments"),
            StoreOptions::new(SuiteId::Aes256GcmBlake3),
        )
    };
    let store = open().expect("opened");
    let mut done = Vec::new();
    let refused = loop {
        let blocks: Vec<SealedBlock> = (0..8).map(|_| block(done.len() as u8)).collect();
        let refs: Vec<&SealedBlock> = blocks.iter().collect();
        match append(&store, &refs, b"index") {
            Ok(appended) => done.push(appended),
            Err(error) => break error,
        }
        assert!(done.len() < 100, "the disk has room for fewer");
    };
    assert!(matches!(refused, Error::NoSpace), "{refused}");
    // 20 MiB hold 38 batches of half a MiB, less what headers, padding and the file system need.
    assert!(done.len() >= 36, "only {} batches of 38 fitted", done.len());
    store
        .sync(u64::MAX)
        .expect("what was acknowledged has its room");

    let check_all = |store: &SegmentStore| {
        for (number, appended) in done.iter().enumerate() {
            for location in &appended.locations {
                let read = store.read(*location, 0..location.len).expect("read");
                assert!(read.iter().all(|&byte| byte == number as u8));
            }
        }
    };
    check_all(&store);

    // The vault opens on the full disk, and goes on once something was deleted.
    drop(store);
    let store = open().expect("opened on a full disk");
    let last = done.last().expect("some fitted");
    let found = store
        .recover_open(last.segment, last.end, &|_, _| None)
        .expect("recovered");
    assert!(matches!(found, Recovery::Resumed { .. }));
    assert!(matches!(
        store.scan(last.segment).expect("scanned").tail,
        Tail::Open
    ));
    check_all(&store);
    store
        .remove(done[0].segment)
        .expect("deleting needs no room");
    let more = block(200);
    let appended = append(&store, &[&more], b"index").expect("there is room again");
    store.sync(appended.sequence).expect("synced");
}
