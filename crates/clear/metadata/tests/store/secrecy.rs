//! What somebody who steals the disk can learn from the files.

use std::fs;

use strongroom_metadata::{Error, InodeId, NodeKind, Store};

use crate::fixture::{Folder, KEY, create_file, inode, small_options};

const CANARY: &str = "canary-name-that-nobody-may-read";

/// Every byte of every file in the folder.
fn all_bytes(folder: &Folder) -> Vec<(String, Vec<u8>)> {
    fs::read_dir(folder.path())
        .unwrap()
        .map(|found| {
            let found = found.unwrap();
            (
                found.file_name().into_string().unwrap(),
                fs::read(found.path()).unwrap(),
            )
        })
        .collect()
}

fn assert_no_trace(folder: &Folder, expected_files: &[&str]) {
    let files = all_bytes(folder);
    for expected in expected_files {
        assert!(
            files
                .iter()
                .any(|(name, bytes)| name == expected && !bytes.is_empty()),
            "{expected} is searched"
        );
    }
    for (name, bytes) in files {
        for clear in [
            CANARY.as_bytes(),
            b"SQLite format 3",
            b"CREATE TABLE",
            b"metadata.db",
        ] {
            assert!(
                !bytes.windows(clear.len()).any(|window| window == clear),
                "{name} holds plaintext"
            );
        }
    }
}

/// SECURITY.md, claim 1.
#[test]
fn no_name_target_attribute_or_schema_is_in_the_bytes_of_any_file() {
    let folder = Folder::new();
    let store = folder.create();
    let id = create_file(&store, CANARY);
    let mut link = inode(id.0 + 1, NodeKind::Symlink);
    link.target = CANARY.as_bytes().to_vec();
    let mut transaction = store.lock();
    transaction.put_inode(&link).unwrap();
    transaction
        .put_xattr(id, b"user.x", CANARY.repeat(300).as_bytes())
        .unwrap();
    transaction.put_setting("note", CANARY.as_bytes()).unwrap();
    assert_no_trace(&folder, &["metadata.db"]);
    transaction.commit().unwrap();
    drop(transaction);
    store.sync_log().unwrap();
    assert_no_trace(&folder, &["metadata.db", "metadata.db-wal"]);
    drop(store);
    assert_no_trace(&folder, &["metadata.db"]);
}

/// A large open transaction with statements that SQLite would spill to temporary files.
#[test]
fn nothing_is_written_before_the_commit_however_much_is_changed() {
    let folder = Folder::new();
    let options = strongroom_metadata::Options {
        cache_bytes: 256 * 1024,
        ..small_options()
    };
    let store = Store::create(folder.path(), &KEY, options).unwrap();
    let written = || {
        let disk = store.counters().disk;
        [disk.database, disk.log].map(|file| (file.writes, file.bytes, file.syncs))
    };
    let before = written();
    for round in 0..2000 {
        create_file(&store, &format!("{CANARY} {round} {}", "x".repeat(150)));
    }
    assert_eq!(written(), before);
    store.lock().commit().unwrap();
    assert!(store.counters().disk.log.bytes > 256 * 4096);
    assert_no_trace(&folder, &["metadata.db-wal"]);
}

#[test]
fn the_database_file_is_private_to_its_user() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let _store = folder.create();
    for name in ["metadata.db", "reserve"] {
        let mode = fs::metadata(folder.file(name))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[test]
fn no_debug_output_holds_the_key_or_a_name() {
    let folder = Folder::new();
    let store = folder.create();
    create_file(&store, CANARY);
    let reader = store.reader().unwrap();
    let text = format!(
        "{store:?} {:?} {reader:?} {:?}",
        store.lock(),
        small_options()
    );
    for secret in ["5a5a", "90, 90", CANARY] {
        assert!(!text.contains(secret), "{text}");
    }
}

/// For every page: change one byte and read everything. The change is reported, or was in a part nobody reads;
/// nothing ever comes back altered.
/// SECURITY.md, claim 1.
#[test]
fn a_changed_byte_in_any_page_is_reported_and_never_read_as_something_else() {
    let folder = Folder::new();
    let store = folder.create();
    let long: Vec<u8> = (0..60_000u32).map(|index| (index % 251) as u8).collect();
    let id = create_file(&store, "a");
    store.lock().put_xattr(id, b"user.long", &long).unwrap();
    store.lock().commit().unwrap();
    drop(store);
    let whole = fs::read(folder.file("metadata.db")).unwrap();
    let mut reported = 0;
    let pages = whole.len() / 4096;
    for page in 0..pages {
        let mut changed = whole.clone();
        changed[page * 4096 + 2000] ^= 0x40;
        let copy = folder.copy();
        fs::write(copy.file("metadata.db"), changed).unwrap();
        let store = match Store::open(copy.path(), &KEY, small_options()) {
            Ok(store) => store,
            Err(Error::WrongKey | Error::Damaged(_)) => {
                reported += 1;
                continue;
            }
            Err(other) => panic!("page {page}: {other:?}"),
        };
        assert_ne!(
            store.integrity_check().unwrap(),
            [] as [String; 0],
            "page {page}"
        );
        match store.reader().unwrap().xattr(InodeId(id.0), b"user.long") {
            Ok(found) => assert!(
                found.as_ref() == Some(&long),
                "page {page} came back as something else"
            ),
            Err(Error::Damaged(_)) => reported += 1,
            Err(other) => panic!("page {page}: {other:?}"),
        }
    }
    assert!(
        reported >= 60_000 / 4096,
        "the pages of the long value were read: {reported} of {pages}"
    );
}
