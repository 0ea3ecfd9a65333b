//! What a store holds when it is opened again after its program ended without closing it.

use std::fs;

use strongroom_metadata::{Error, InodeId, NodeKind, Store};

use crate::fixture::{Folder, KEY, create_file, entry, inode, names, small_options};

#[test]
fn dropping_a_store_loses_exactly_what_was_not_committed() {
    let folder = Folder::new();
    let store = folder.create();
    create_file(&store, "kept");
    assert_eq!(store.lock().commit().unwrap(), 1);
    create_file(&store, "lost");
    assert_eq!(names(&store), ["kept", "lost"]);
    drop(store);

    let store = folder.open();
    assert_eq!(names(&store), ["kept"]);
    assert_eq!(store.lock().inode_count().unwrap(), 1);
    assert_eq!(
        store.lock().commit().unwrap(),
        1,
        "nothing to commit, so the count stays"
    );
}

#[test]
fn a_copy_taken_while_open_has_every_commit_and_nothing_else() {
    let folder = Folder::new();
    let store = folder.create();
    for round in 0..5 {
        create_file(&store, &format!("committed {round}"));
        store.lock().commit().unwrap();
        create_file(&store, &format!("pending {round}"));

        let copy = folder.copy();
        let mut expected = names(&store);
        expected.pop();
        let reopened = copy.open();
        assert_eq!(names(&reopened), expected);
        assert_eq!(reopened.integrity_check().unwrap(), Vec::<String>::new());
    }
}

#[test]
fn a_log_cut_anywhere_leaves_a_prefix_of_the_commits() {
    let folder = Folder::new();
    let store = folder.create();
    let mut all = Vec::new();
    for round in 0..6 {
        let name = format!("file {round}");
        create_file(&store, &name);
        store.lock().commit().unwrap();
        all.push(name);
    }
    let log = fs::read(folder.file("metadata.db-wal")).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for len in (0..=log.len()).step_by(1031).chain([log.len()]) {
        let copy = folder.copy();
        fs::write(copy.file("metadata.db-wal"), &log[..len]).unwrap();
        let found = names(&copy.open());
        assert_eq!(found, all[..found.len()], "log cut at {len}");
        seen.insert(found.len());
    }
    assert_eq!(
        seen,
        (0..=6).collect(),
        "every prefix occurs, so the cuts were fine enough"
    );
}

#[test]
fn numbers_are_not_given_twice_once_committed() {
    let folder = Folder::new();
    let store = folder.create();
    let id = create_file(&store, "a");
    let cookie = store
        .lock()
        .entry(InodeId::ROOT, b"a")
        .unwrap()
        .unwrap()
        .cookie;
    store.lock().commit().unwrap();
    drop(store);

    let store = folder.open();
    let mut transaction = store.lock();
    assert!(transaction.next_inode().unwrap() > id);
    assert!(transaction.next_cookie() > cookie);
}

/// Inodes of other devices are found by their marks, those of this one by their numbers.
#[test]
fn each_device_has_numbers_of_its_own() {
    let folder = Folder::new();
    let store = folder.create();
    let first = create_file(&store, "a");
    let mut transaction = store.lock();
    assert_eq!(transaction.begin_inodes(0).unwrap(), None);
    assert_eq!(transaction.begin_inodes(3).unwrap(), None);
    let own = transaction.next_inode().unwrap();
    assert_eq!((own.prefix(), own.0 & 0xff), (3, 1));
    // What another device made takes no number from this one.
    transaction.skip_inodes(InodeId(5 << 40 | 70)).unwrap();
    transaction.skip_inodes(InodeId(first.0 + 9)).unwrap();
    transaction.skip_inodes(InodeId(own.0 + 9)).unwrap();
    assert_eq!(transaction.next_inode().unwrap().0, own.0 + 10);
    transaction.skip_inodes(InodeId((4 << 40) - 1)).unwrap();
    assert!(
        transaction.next_inode().is_err(),
        "no number is that of another device"
    );
    assert!(transaction.begin_inodes(1 << 23).is_err());
    transaction.commit().unwrap();
    drop(transaction);
    drop(store);
    let store = folder.open();
    let mut transaction = store.lock();
    assert_eq!(transaction.inode_prefix(), 3);
    // Back again it goes on behind what is there.
    transaction.begin_inodes(0).unwrap();
    assert_eq!(transaction.next_inode().unwrap().0, first.0 + 1);
    let changed = |transaction: &strongroom_metadata::Transaction<'_>, from: u64| {
        transaction.inodes_from(InodeId(from), 9).unwrap()
    };
    assert_eq!(changed(&transaction, 5 << 40), []);
    assert_eq!(changed(&transaction, 1), [first]);
}

#[test]
fn an_inode_that_was_removed_counts_no_more_after_reopening() {
    let folder = Folder::new();
    let store = folder.create();
    let id = create_file(&store, "a");
    let mut transaction = store.lock();
    transaction
        .put_inode(&inode(id.0, NodeKind::Directory))
        .unwrap();
    transaction
        .put_inode(&inode(InodeId::ROOT.0, NodeKind::Directory))
        .unwrap();
    assert_eq!(
        transaction.inode_count().unwrap(),
        2,
        "storing one again counts once"
    );
    transaction.remove_inode(id).unwrap();
    transaction.remove_inode(id).unwrap();
    assert_eq!(transaction.inode_count().unwrap(), 1);
    transaction.commit().unwrap();
    drop(transaction);
    drop(store);
    assert_eq!(folder.open().lock().inode_count().unwrap(), 1);
}

#[test]
fn a_database_that_was_cut_or_emptied_is_refused_or_reported() {
    let folder = Folder::new();
    let store = folder.create();
    let mut transaction = store.lock();
    for number in 0..2000 {
        transaction
            .insert_entry(
                InodeId::ROOT,
                &entry(&format!("name {number}"), 9, 3 + number),
            )
            .unwrap();
    }
    transaction.commit().unwrap();
    drop(transaction);
    drop(store);
    let whole = fs::metadata(folder.file("metadata.db")).unwrap().len();
    for len in [
        0,
        1,
        15,
        16,
        4095,
        4096,
        whole / 2 / 4096 * 4096,
        whole / 2,
        whole - 4096,
        whole - 1,
    ] {
        let copy = folder.copy();
        fs::OpenOptions::new()
            .write(true)
            .open(copy.file("metadata.db"))
            .unwrap()
            .set_len(len)
            .unwrap();
        match Store::open(copy.path(), &KEY, small_options()) {
            Err(Error::WrongKey | Error::Damaged(_) | Error::Disk(_)) => {}
            Err(other) => panic!("cut at {len}: {other:?}"),
            Ok(store) => {
                let problems = store.integrity_check().unwrap();
                assert!(
                    !problems.is_empty(),
                    "cut at {len} of {whole} was not noticed"
                );
            }
        }
    }
}
