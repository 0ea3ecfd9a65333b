//! How many writes to the log, and how many pages, a commit costs.

use strongroom_metadata::limits::PAGE_BYTES;
use strongroom_metadata::{InodeId, NodeKind, Store};

use crate::fixture::{Folder, inode};

const FILE: InodeId = InodeId(2);
/// A header of 24 bytes, the page, and room for a seal.
const FRAME_BYTES: u64 = PAGE_BYTES as u64 + 24 + 64;

/// Writes, and frames, of the log that a commit of `change` adds.
fn cost(store: &Store, change: impl FnOnce(&Store)) -> (u64, u64) {
    let before = store.counters().disk.log;
    change(store);
    store.lock().commit().unwrap();
    let after = store.counters().disk.log;
    assert_eq!((after.bytes - before.bytes) % FRAME_BYTES, 0);
    let frames = (after.bytes - before.bytes) / FRAME_BYTES;
    (after.writes - before.writes, frames)
}

/// A store whose log has begun, with a file.
fn begun(folder: &Folder) -> Store {
    let store = folder.create();
    store
        .lock()
        .put_inode(&inode(FILE.0, NodeKind::File))
        .unwrap();
    store.lock().commit().unwrap();
    store
}

#[test]
fn a_commit_is_one_write_however_many_pages_it_has() {
    let folder = Folder::new();
    let store = begun(&folder);
    for names in [1, 10, 200] {
        let (writes, frames) = cost(&store, |store| {
            for number in 0..names {
                let name = format!("{names}-{number}-{}", "x".repeat(100));
                store
                    .lock()
                    .put_xattr(FILE, name.as_bytes(), b"value")
                    .unwrap();
            }
        });
        assert_eq!(writes, 1, "{frames} frames");
    }
}

/// Goal: what is gathered is bounded, and all of it comes to the log.
#[test]
fn a_long_commit_is_few_writes_and_survives_a_crash() {
    let folder = Folder::new();
    let store = begun(&folder);
    let value = vec![7; 60_000];
    let (writes, frames) = cost(&store, |store| {
        for number in 0..100 {
            let name = format!("{number}");
            store
                .lock()
                .put_xattr(FILE, name.as_bytes(), &value)
                .unwrap();
        }
    });
    assert!(frames > 1_400, "{frames} frames");
    assert!(
        (frames / 32..=frames / 28).contains(&writes),
        "{writes} writes of {frames} frames"
    );
    // Only what is in the files counts: the copy has no process that gathers.
    let crashed = folder.copy();
    let store = crashed.open();
    assert_eq!(store.lock().xattrs(FILE).unwrap().len(), 100);
    assert_eq!(store.integrity_check().unwrap(), [] as [String; 0]);
}
