//! Hashes of contents: found by file and by hash, missing once the content has another version, and removed with the file.

use strongroom_metadata::{ContentHash, InodeId, NodeKind, SCHEMA_VERSION, Store};

use crate::fixture::{Folder, KEY, inode, without_tree};

const BLAKE3: u8 = 1;
const SHA256: u8 = 2;

fn hash(inode: u64, algorithm: u8, version: u64, first: u8) -> ContentHash {
    ContentHash {
        inode: InodeId(inode),
        algorithm,
        version,
        hash: [first; 32],
    }
}

fn put(store: &Store, rows: &[ContentHash]) {
    let mut transaction = store.lock();
    for row in rows {
        transaction.put_content_hash(row).unwrap();
    }
}

fn missing(store: &Store, algorithm: u8) -> Vec<u64> {
    let found = store
        .lock()
        .files_without_hash(algorithm, InodeId(0), 100)
        .unwrap();
    found.into_iter().map(|(id, _)| id.0).collect()
}

#[test]
fn a_hash_comes_back_by_file_and_the_newer_one_takes_its_place() {
    let folder = Folder::new();
    let store = folder.create();
    put(&store, &[hash(5, BLAKE3, 1, 9), hash(5, SHA256, 1, 8)]);
    put(&store, &[hash(5, BLAKE3, 2, 7)]);
    store.lock().commit().unwrap();
    drop(store);
    let store = folder.open();
    let found = |algorithm| store.lock().content_hash(InodeId(5), algorithm).unwrap();
    assert_eq!(found(BLAKE3), Some(hash(5, BLAKE3, 2, 7)));
    assert_eq!(found(SHA256), Some(hash(5, SHA256, 1, 8)));
    assert_eq!(store.lock().content_hash(InodeId(6), BLAKE3).unwrap(), None);
}

#[test]
fn files_of_a_hash_are_found_in_the_order_of_hashes_page_by_page() {
    let folder = Folder::new();
    let store = folder.create();
    put(
        &store,
        &[
            hash(3, BLAKE3, 1, 5),
            hash(1, BLAKE3, 1, 5),
            hash(2, BLAKE3, 1, 4),
            hash(4, BLAKE3, 1, 6),
            hash(4, SHA256, 1, 5),
        ],
    );
    let page = |after: &([u8; 32], InodeId), last: [u8; 32], limit| -> Vec<u64> {
        let found = store
            .lock()
            .content_hashes(BLAKE3, after, &last, limit)
            .unwrap();
        found.into_iter().map(|row| row.inode.0).collect()
    };
    let first = ([0; 32], InodeId(0));
    assert_eq!(page(&first, [0xff; 32], 10), [2, 1, 3, 4]);
    assert_eq!(page(&first, [0xff; 32], 2), [2, 1]);
    assert_eq!(page(&([5; 32], InodeId(1)), [0xff; 32], 10), [3, 4]);
    assert_eq!(page(&([5; 32], InodeId(0)), [5; 32], 10), [1, 3]);
}

#[test]
fn a_file_lacks_a_hash_until_there_is_one_of_its_version_and_what_is_no_file_never_does() {
    let folder = Folder::new();
    let store = folder.create();
    for (id, kind) in [
        (1, NodeKind::Directory),
        (2, NodeKind::File),
        (3, NodeKind::Symlink),
        (4, NodeKind::File),
    ] {
        store.lock().put_inode(&inode(id, kind)).unwrap();
    }
    let mut nameless = inode(5, NodeKind::File);
    nameless.nlink = 0;
    store.lock().put_inode(&nameless).unwrap();
    assert_eq!(missing(&store, BLAKE3), [2, 4]);
    // The version of the fixture's inodes is 3.
    put(&store, &[hash(2, BLAKE3, 3, 1), hash(4, BLAKE3, 2, 1)]);
    assert_eq!(missing(&store, BLAKE3), [4]);
    assert_eq!(missing(&store, SHA256), [2, 4]);
    let mut changed = inode(2, NodeKind::File);
    changed.content_version = 4;
    store.lock().put_inode(&changed).unwrap();
    assert_eq!(missing(&store, BLAKE3), [2, 4]);
}

#[test]
fn the_hashes_of_a_removed_inode_go_with_it() {
    let folder = Folder::new();
    let store = folder.create();
    store.lock().put_inode(&inode(2, NodeKind::File)).unwrap();
    put(
        &store,
        &[
            hash(2, BLAKE3, 3, 1),
            hash(2, SHA256, 3, 1),
            hash(3, BLAKE3, 3, 1),
        ],
    );
    store.lock().remove_inode(InodeId(2)).unwrap();
    let mut left = Vec::new();
    store
        .lock()
        .for_each_content_hash(|row| left.push(row.inode.0))
        .unwrap();
    assert_eq!(left, [3]);
}

#[test]
fn a_database_of_schema_version_4_gets_room_for_hashes() {
    assert_eq!(
        SCHEMA_VERSION, 7,
        "a new version needs a test like this one; of the last it is in the vault's tests, with a vault of the version before"
    );
    let folder = Folder::new();
    let store = folder.create();
    store.lock().put_inode(&inode(2, NodeKind::File)).unwrap();
    store.lock().commit().unwrap();
    store.sync_log().unwrap();
    drop(store);
    let hex: String = KEY.iter().map(|byte| format!("{byte:02x}")).collect();
    let connection = rusqlite::Connection::open(folder.file("metadata.db")).unwrap();
    connection
        .execute_batch(&format!(
            "PRAGMA key = \"x'{hex}'\"; DROP TABLE content_hash; DROP TABLE remote; DROP TABLE published; PRAGMA user_version = 4;"
        ))
        .unwrap();
    drop(connection);
    let store = Store::open(folder.path(), &KEY, without_tree(&folder)).unwrap();
    assert_eq!(missing(&store, BLAKE3), [2]);
    put(&store, &[hash(2, BLAKE3, 3, 1)]);
    assert_eq!(missing(&store, BLAKE3), [0; 0]);
}
