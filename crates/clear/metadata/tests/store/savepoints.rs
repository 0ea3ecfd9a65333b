//! The changes since a savepoint are kept as a whole or rolled back as a whole.

use strongroom_format::Epoch;
use strongroom_metadata::{Error, InodeId, NodeKind, Place, Transaction};

use crate::fixture::{Folder, block_id, entry, inode, sealed, segment_id};

fn make(transaction: &mut Transaction<'_>, id: u64, name: &str) {
    transaction.put_inode(&inode(id, NodeKind::File)).unwrap();
    let entry = entry(name, id, id);
    transaction.insert_entry(InodeId::ROOT, &entry).unwrap();
}

/// Goal: what came before a savepoint stays, what came after goes, counts and growth of segments with it.
#[test]
fn a_roll_back_takes_back_rows_and_counts_of_its_savepoint_only() {
    let folder = Folder::new();
    let store = folder.create();
    let mut transaction = store.lock();
    make(&mut transaction, 2, "before");
    let segment = transaction
        .insert_segment(&segment_id(1), Epoch(0))
        .unwrap();
    let block = |transaction: &mut Transaction<'_>, id, place: Place| {
        let bytes = sealed(100);
        let waiting = (place == Place::Waiting).then_some(&bytes[..]);
        transaction
            .insert_block(&block_id(id), 100, Epoch(0), 1, place, waiting)
            .unwrap()
    };
    block(&mut transaction, 1, Place::Segment(segment, 64));
    let counts = |transaction: &Transaction<'_>| {
        let live = transaction.segments().unwrap()[0].live_bytes;
        let waiting = transaction.waiting_bytes().unwrap();
        (transaction.inode_count().unwrap(), waiting, live)
    };
    let before = counts(&transaction);
    let (stored, of_segments) = (store.stored_bytes(), store.segment_bytes());

    let savepoint = transaction.savepoint().unwrap();
    make(&mut transaction, 3, "after");
    transaction.add_total_bytes(segment, 10_000).unwrap();
    let number = block(&mut transaction, 2, Place::Waiting);
    block(&mut transaction, 3, Place::Segment(segment, 4096));
    assert_ne!(counts(&transaction), before);
    let lost = transaction
        .insert_segment(&segment_id(7), Epoch(0))
        .unwrap();
    assert_eq!(transaction.segment_id(lost).unwrap(), Some(segment_id(7)));
    transaction.roll_back(savepoint).unwrap();
    assert_eq!(transaction.segment_id(lost).unwrap(), None);
    assert_eq!(counts(&transaction), before);
    assert_eq!(store.stored_bytes(), stored);
    assert_eq!(store.segment_bytes(), of_segments);
    assert_eq!(transaction.entry(InodeId::ROOT, b"after").unwrap(), None);
    assert_eq!(transaction.inode(InodeId(3)).unwrap(), None);

    let savepoint = transaction.savepoint().unwrap();
    make(&mut transaction, 4, "kept");
    transaction.keep(savepoint).unwrap();
    assert!(
        block(&mut transaction, 2, Place::Waiting) > number,
        "a number was given twice"
    );
    transaction.commit().unwrap();
    drop(transaction);
    drop(store);
    let store = folder.open();
    for name in ["before", "kept"] {
        let found = store.lock().entry(InodeId::ROOT, name.as_bytes()).unwrap();
        assert!(found.is_some(), "{name}");
    }
    assert_eq!(store.integrity_check().unwrap(), Vec::<String>::new());
}

#[test]
fn a_savepoint_that_is_neither_kept_nor_rolled_back_fails_the_store() {
    let folder = Folder::new();
    let store = folder.create();
    let mut transaction = store.lock();
    make(&mut transaction, 2, "before");
    transaction.commit().unwrap();
    let savepoint = transaction.savepoint().unwrap();
    make(&mut transaction, 3, "half");
    drop(savepoint);
    assert!(matches!(transaction.commit(), Err(Error::Failed)));
    drop(transaction);
    drop(store);
    let store = folder.open();
    let entry = |name: &[u8]| store.lock().entry(InodeId::ROOT, name).unwrap();
    assert!(entry(b"before").is_some() && entry(b"half").is_none());
}
