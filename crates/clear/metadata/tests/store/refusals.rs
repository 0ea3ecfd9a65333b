//! The changes and databases that the store refuses; and that a refusal changes nothing.

use std::fs;

use strongroom_format::Epoch;
use strongroom_metadata::{
    BlockNumber, Error, Extent, InodeId, NodeKind, Place, SegmentNumber, Store,
};

use crate::fixture::{
    FILES, Folder, KEY, block_id, create_file, entry, inode, names, sealed, segment_id,
    small_options, without_tree,
};

#[test]
fn another_key_is_refused_as_such() {
    let folder = Folder::new();
    drop(folder.create());
    let open = |key: &[u8; 80]| Store::open(folder.path(), key, small_options());
    let refusal = open(&[0xa5; 80]);
    assert!(matches!(refusal, Err(Error::WrongKey)), "{refusal:?}");
    // Half a right key, which no program makes, need not be told from damage.
    for position in [0, 31, 32, 63] {
        let mut key = KEY;
        key[position] ^= 1;
        let refusal = open(&key);
        assert!(
            matches!(refusal, Err(Error::WrongKey | Error::Damaged(_))),
            "byte {position}: {refusal:?}"
        );
    }
    folder.open();
}

#[test]
fn a_database_is_created_once_and_only_opened_where_there_is_one() {
    let folder = Folder::new();
    assert!(matches!(
        Store::open(folder.path(), &KEY, small_options()),
        Err(Error::Missing)
    ));
    drop(folder.create());
    let before = fs::read(folder.file("metadata.db")).unwrap();
    assert!(matches!(
        Store::create(folder.path(), &KEY, small_options()),
        Err(Error::AlreadyThere)
    ));
    assert_eq!(fs::read(folder.file("metadata.db")).unwrap(), before);
}

#[test]
fn a_newer_schema_is_refused_with_both_versions() {
    let folder = Folder::new();
    drop(folder.create());
    let hex: String = KEY.iter().map(|byte| format!("{byte:02x}")).collect();
    let connection = rusqlite::Connection::open(folder.file("metadata.db")).unwrap();
    connection
        .execute_batch(&format!(
            "PRAGMA key = \"x'{hex}'\"; PRAGMA user_version = 99;"
        ))
        .unwrap();
    drop(connection);
    assert!(matches!(
        Store::open(folder.path(), &KEY, without_tree(&folder)),
        Err(Error::NewerVersion {
            found: 99,
            known: strongroom_metadata::SCHEMA_VERSION
        })
    ));
}

#[test]
fn a_database_of_schema_version_1_is_brought_up_to_date() {
    let folder = Folder::new();
    let store = folder.create();
    create_file(&store, "a");
    store.lock().commit().unwrap();
    store.sync_log().unwrap();
    drop(store);
    let hex: String = KEY.iter().map(|byte| format!("{byte:02x}")).collect();
    let connection = rusqlite::Connection::open(folder.file("metadata.db")).unwrap();
    connection
        .execute_batch(&format!(
            "PRAGMA key = \"x'{hex}'\"; DROP TABLE hole; DROP TABLE reservation;
             DROP TABLE changed; DROP TABLE released; DROP TABLE revision; DROP TABLE content_hash; DROP TABLE remote; DROP TABLE published; DROP INDEX entry_inode; ALTER TABLE block DROP COLUMN kind; PRAGMA user_version = 1;
             CREATE TABLE truncation (inode INTEGER PRIMARY KEY, size INTEGER NOT NULL) STRICT;"
        ))
        .unwrap();
    drop(connection);
    let options = without_tree(&folder);
    assert!(matches!(
        Store::open_read_only(folder.path(), &KEY, options.clone()),
        Err(Error::OlderVersion { found: 1 })
    ));
    let store = Store::open(folder.path(), &KEY, options).unwrap();
    assert_eq!(names(&store), ["a"]);
    store.lock().put_hole(InodeId(7), &(1..2)).unwrap();
    assert_eq!(store.lock().holes().unwrap(), [(InodeId(7), 1..2)]);
}

#[test]
fn a_mistake_of_the_caller_changes_nothing_and_does_not_fail_the_store() {
    let folder = Folder::new();
    let store = folder.create();
    let mut transaction = store.lock();
    let segment = transaction
        .insert_segment(&segment_id(1), Epoch(0))
        .unwrap();
    let number = transaction
        .insert_block(
            &block_id(1),
            9,
            Epoch(0),
            1,
            Place::Segment(segment, 0),
            None,
        )
        .unwrap();
    let before = (
        transaction.segments().unwrap(),
        transaction.block(number).unwrap(),
    );
    let nowhere = Place::Segment(SegmentNumber(99), 0);
    let mut far = inode(5, NodeKind::File);
    far.size = u64::MAX;
    let bad_extent = Extent {
        start: 1,
        len: 65_536,
        block: number,
        block_offset: 0,
    };
    let refused = [
        transaction
            .insert_block(
                &block_id(1),
                9,
                Epoch(0),
                1,
                Place::Waiting,
                Some(&sealed(9)),
            )
            .err(),
        transaction
            .insert_block(&block_id(2), 9, Epoch(0), 1, Place::Waiting, None)
            .err(),
        transaction
            .insert_block(
                &block_id(2),
                9,
                Epoch(0),
                1,
                Place::Waiting,
                Some(&sealed(8)),
            )
            .err(),
        transaction
            .insert_block(
                &block_id(2),
                65_537,
                Epoch(0),
                1,
                Place::Segment(segment, 0),
                None,
            )
            .err(),
        transaction
            .insert_block(&block_id(2), 9, Epoch(0), 1, nowhere.clone(), None)
            .err(),
        transaction.insert_segment(&segment_id(1), Epoch(0)).err(),
        transaction.move_block(number, Epoch(0), nowhere).err(),
        transaction
            .move_block(number, Epoch(0), Place::Waiting)
            .err(),
        transaction
            .move_block(BlockNumber(99), Epoch(0), Place::Segment(segment, 0))
            .err(),
        transaction
            .change_references(number, -2)
            .err()
            .map(|error| {
                assert!(matches!(error, Error::References(_)));
                error
            }),
        transaction
            .change_references(number, i64::from(u32::MAX))
            .err(),
        transaction.change_references(number, i64::MIN).err(),
        transaction.change_references(BlockNumber(99), 1).err(),
        transaction.remove_segment(segment).err().map(|error| {
            assert!(matches!(error, Error::SegmentInUse(_)));
            error
        }),
        transaction.add_total_bytes(SegmentNumber(99), 1).err(),
        transaction.put_inode(&far).err(),
        transaction.put_region(InodeId(5), 0, &[bad_extent]).err(),
        transaction.insert_entry(InodeId(1), &entry("", 5, 3)).err(),
        transaction
            .insert_entry(InodeId(1), &entry(&"x".repeat(256), 5, 3))
            .err(),
        transaction
            .put_xattr(InodeId(5), b"user.x", &[0; 65_537])
            .err(),
        transaction.put_setting("counters", b"").err(),
    ];
    for (index, error) in refused.into_iter().enumerate() {
        let error = error.unwrap_or_else(|| panic!("number {index} was accepted"));
        assert!(error.is_callers(), "number {index}: {error:?}");
    }
    assert_eq!(
        (
            transaction.segments().unwrap(),
            transaction.block(number).unwrap()
        ),
        before
    );
    assert!(!store.has_failed());
    transaction.commit().unwrap();
}

#[test]
fn a_store_opened_for_reading_reads_what_a_killed_writer_left_and_changes_nothing() {
    let folder = Folder::new();
    let store = folder.create();
    create_file(&store, "a");
    store.lock().commit().unwrap();
    create_file(&store, "b");
    store.lock().commit().unwrap();
    let left = folder.copy();
    let files = || FILES.map(|name| fs::read(left.file(name)).ok());
    let before = files();
    let reading = Store::open_read_only(left.path(), &KEY, small_options()).unwrap();
    assert_eq!(names(&reading), ["a", "b"]);
    assert_eq!(reading.lock().inode_count().unwrap(), 2);
    assert!(matches!(
        reading.lock().put_hole(InodeId(1), &(0..1)),
        Err(Error::ReadOnly)
    ));
    assert!(matches!(reading.sync_log(), Err(Error::ReadOnly)));
    assert!(matches!(reading.checkpoint(), Err(Error::ReadOnly)));
    let reader = reading.reader().unwrap();
    assert_eq!(reader.entries(InodeId(1), 0, 9).unwrap().len(), 2);
    drop(reader);
    drop(reading);
    assert!(files() == before);
}

#[test]
fn a_folder_with_a_strange_name_works_like_any_other() {
    let folder = Folder::new();
    let strange = folder.file("a ?x=1&b#c%41 ü\n");
    fs::create_dir(&strange).unwrap();
    drop(Store::create(&strange, &KEY, small_options()).unwrap());
    Store::open(&strange, &KEY, small_options()).unwrap();
    assert!(strange.join("metadata.db").exists());
}
