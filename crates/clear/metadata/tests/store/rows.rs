//! Rows are read back as they were stored, and rows that belong together stay consistent.

use strongroom_format::limits::sealed_len;
use strongroom_format::{Epoch, Kind};
use strongroom_metadata::{
    BlockNumber, ERASED_SEGMENT, Entry, Error, Extent, InodeId, LOST_SEGMENT, NodeKind, Place,
    REGION_BYTES, Remote, SegmentNumber, SegmentState, Store,
};

use crate::fixture::{Folder, block_id, create_file, entry, inode, sealed, segment_id};

const KINDS: [NodeKind; 7] = [
    NodeKind::File,
    NodeKind::Directory,
    NodeKind::Symlink,
    NodeKind::Fifo,
    NodeKind::Socket,
    NodeKind::CharDevice,
    NodeKind::BlockDevice,
];

/// Commits, closes and opens again.
fn reopened(folder: &Folder, store: Store) -> Store {
    store.lock().commit().unwrap();
    drop(store);
    folder.open()
}

#[test]
fn an_inode_of_every_kind_comes_back_as_it_was_stored() {
    let folder = Folder::new();
    let store = folder.create();
    for (id, kind) in (1..).zip(KINDS) {
        store.lock().put_inode(&inode(id, kind)).unwrap();
    }
    let mut long = inode(8, NodeKind::Symlink);
    long.target = vec![b'x'; 4096];
    store.lock().put_inode(&long).unwrap();
    let store = reopened(&folder, store);
    for (id, kind) in (1..).zip(KINDS) {
        assert_eq!(
            store.lock().inode(InodeId(id)).unwrap(),
            Some(inode(id, kind))
        );
    }
    assert_eq!(store.lock().inode(InodeId(8)).unwrap(), Some(long));
    assert_eq!(store.lock().inode(InodeId(9)).unwrap(), None);
}

#[test]
fn orphans_are_the_inodes_without_a_name_in_order() {
    let folder = Folder::new();
    let store = folder.create();
    let mut transaction = store.lock();
    for id in 1..=20 {
        let mut node = inode(id, NodeKind::File);
        node.nlink = u32::from(id % 5 != 0);
        transaction.put_inode(&node).unwrap();
    }
    let ids = |found: Vec<InodeId>| found.into_iter().map(|id| id.0).collect::<Vec<_>>();
    assert_eq!(
        ids(transaction.orphans(InodeId(0), 3).unwrap()),
        [5, 10, 15]
    );
    assert_eq!(ids(transaction.orphans(InodeId(15), 3).unwrap()), [20]);
    transaction.remove_inode(InodeId(20)).unwrap();
    assert_eq!(
        ids(transaction.orphans(InodeId(15), 3).unwrap()),
        [] as [u64; 0]
    );
}

#[test]
fn a_listing_goes_by_cookie_and_can_be_resumed_after_any_entry() {
    let folder = Folder::new();
    let store = folder.create();
    let mut transaction = store.lock();
    let names = ["z", "a", "m", "b"];
    for (cookie, name) in (3..).zip(names) {
        transaction
            .insert_entry(InodeId::ROOT, &entry(name, cookie + 100, cookie))
            .unwrap();
        transaction
            .insert_entry(InodeId(2), &entry(name, 1, cookie + 50))
            .unwrap();
    }
    let listed = |after, limit| {
        let found = transaction.entries(InodeId::ROOT, after, limit).unwrap();
        found
            .into_iter()
            .map(|entry| String::from_utf8(entry.name).unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(listed(0, 100), names);
    assert_eq!(listed(4, 1), ["m"]);
    assert_eq!(listed(6, 100), [] as [&str; 0]);
    assert_eq!(listed(u64::MAX, 100), [] as [&str; 0]);
}

#[test]
fn a_listing_with_inodes_joins_each_entry_with_its_own() {
    let folder = Folder::new();
    let store = folder.create();
    create_file(&store, "there");
    let mut transaction = store.lock();
    transaction
        .insert_entry(InodeId::ROOT, &entry("dangling", 77, 99))
        .unwrap();
    let found = transaction
        .entries_with_inodes(InodeId::ROOT, 0, 10)
        .unwrap();
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].1, Some(inode(found[0].0.inode.0, NodeKind::File)));
    assert_eq!(found[1], (entry("dangling", 77, 99), None));
}

#[test]
fn an_entry_is_added_once_replaced_in_place_and_removed_once() {
    let folder = Folder::new();
    let store = folder.create();
    let mut transaction = store.lock();
    assert!(transaction.is_empty(InodeId::ROOT).unwrap());
    transaction
        .insert_entry(InodeId::ROOT, &entry("a", 5, 3))
        .unwrap();
    assert!(matches!(
        transaction.insert_entry(InodeId::ROOT, &entry("a", 6, 4)),
        Err(Error::EntryExists)
    ));
    assert!(
        transaction
            .replace_entry(InodeId::ROOT, b"a", InodeId(9), NodeKind::Fifo)
            .unwrap()
    );
    assert!(
        !transaction
            .replace_entry(InodeId::ROOT, b"b", InodeId(9), NodeKind::Fifo)
            .unwrap()
    );
    let replaced = Entry {
        name: b"a".to_vec(),
        inode: InodeId(9),
        kind: NodeKind::Fifo,
        cookie: 3,
    };
    assert_eq!(
        transaction.entry(InodeId::ROOT, b"a").unwrap(),
        Some(replaced.clone())
    );
    assert_eq!(
        transaction.entries(InodeId::ROOT, 0, 9).unwrap(),
        [replaced]
    );
    assert!(transaction.remove_entry(InodeId::ROOT, b"a").unwrap());
    assert!(!transaction.remove_entry(InodeId::ROOT, b"a").unwrap());
    assert!(transaction.is_empty(InodeId::ROOT).unwrap());
    transaction.commit().unwrap();
}

#[test]
fn names_are_bytes_and_differ_by_each_byte() {
    let folder = Folder::new();
    let store = folder.create();
    let mut transaction = store.lock();
    let names: [&[u8]; 5] = [
        b"a",
        b"A",
        b"a\xff\xfe",
        b"'; DROP TABLE inode",
        &[0x80; 255],
    ];
    for (cookie, name) in (3..).zip(names) {
        let row = Entry {
            name: name.to_vec(),
            inode: InodeId(cookie),
            kind: NodeKind::File,
            cookie,
        };
        transaction.insert_entry(InodeId::ROOT, &row).unwrap();
    }
    for (cookie, name) in (3..).zip(names) {
        assert_eq!(
            transaction
                .entry(InodeId::ROOT, name)
                .unwrap()
                .unwrap()
                .cookie,
            cookie
        );
    }
}

#[test]
fn xattrs_come_back_are_counted_in_bytes_and_go_with_their_inode() {
    let folder = Folder::new();
    let store = folder.create();
    let (one, other) = (InodeId(5), InodeId(6));
    let mut transaction = store.lock();
    let long: Vec<u8> = (0..65_536u32).map(|index| index as u8).collect();
    transaction.put_xattr(one, b"user.b", b"").unwrap();
    transaction.put_xattr(one, b"user.a", b"old").unwrap();
    transaction.put_xattr(one, b"user.a", &long).unwrap();
    transaction.put_xattr(other, b"user.a", b"other").unwrap();
    assert_eq!(transaction.xattrs(one).unwrap(), [b"user.a", b"user.b"]);
    let found = transaction.xattr(one, b"user.a").unwrap().unwrap();
    let same = found
        .iter()
        .zip(&long)
        .take_while(|(one, other)| one == other)
        .count();
    assert_eq!((found.len(), same), (long.len(), long.len()));
    assert_eq!(transaction.xattr(one, b"user.b").unwrap(), Some(Vec::new()));
    assert_eq!(transaction.xattr(one, b"user.c").unwrap(), None);
    assert_eq!(transaction.xattr_bytes(one).unwrap(), 6 + 65_536 + 6);
    assert!(transaction.remove_xattr(one, b"user.b").unwrap());
    assert!(!transaction.remove_xattr(one, b"user.b").unwrap());
    transaction.remove_all_xattrs(one).unwrap();
    assert_eq!(transaction.xattr_bytes(one).unwrap(), 0);
    assert_eq!(
        transaction.xattr(other, b"user.a").unwrap(),
        Some(b"other".to_vec())
    );
}

#[test]
fn regions_come_back_in_order_and_an_empty_one_is_no_row() {
    let folder = Folder::new();
    let store = folder.create();
    let id = InodeId(5);
    let extents = |region: u64| {
        (0..64)
            .map(|cell| Extent {
                start: region * REGION_BYTES + cell * 65_536,
                len: 65_536,
                block: BlockNumber(1000 * region + cell),
                block_offset: 0,
            })
            .collect::<Vec<_>>()
    };
    let mut transaction = store.lock();
    for region in [7, 0, 1 << 40] {
        transaction
            .put_region(id, region, &extents(region))
            .unwrap();
    }
    transaction.put_region(InodeId(6), 9, &extents(9)).unwrap();
    drop(transaction);
    let store = reopened(&folder, store);
    let mut transaction = store.lock();
    assert_eq!(transaction.region(id, 7).unwrap(), extents(7));
    assert_eq!(transaction.region(id, 1 << 40).unwrap(), extents(1 << 40));
    assert_eq!(transaction.region(id, 8).unwrap(), []);
    assert_eq!(
        transaction.regions_from(id, 0, 10).unwrap(),
        [0, 7, 1 << 40]
    );
    assert_eq!(transaction.regions_from(id, 1, 1).unwrap(), [7]);
    transaction.put_region(id, 1 << 40, &[]).unwrap();
    assert_eq!(transaction.regions_from(id, 8, 10).unwrap(), [0; 0]);
}

#[test]
fn many_blocks_are_shared_and_found_at_once_and_one_that_cannot_be_is_named() {
    let folder = Folder::new();
    let store = folder.create();
    let mut transaction = store.lock();
    let segment = transaction
        .insert_segment(&segment_id(1), Epoch(2))
        .unwrap();
    let mut insert = |id: u32, references: u32| {
        let place = Place::Segment(segment, 4096 * id);
        transaction
            .insert_block(
                &block_id(u64::from(id)),
                70,
                Epoch(2),
                references,
                place,
                None,
            )
            .unwrap()
    };
    let numbers = [
        insert(1, 1),
        insert(2, 7),
        insert(3, 1),
        insert(4, u32::MAX),
    ];
    let references = |transaction: &strongroom_metadata::Transaction<'_>| {
        numbers.map(|number| transaction.block(number).unwrap().unwrap().references)
    };
    transaction.share_blocks(numbers[0], numbers[1]).unwrap();
    assert_eq!(references(&transaction), [2, 8, 1, u32::MAX]);
    transaction.share_blocks(numbers[2], numbers[2]).unwrap();
    assert_eq!(references(&transaction), [2, 8, 2, u32::MAX]);
    let full = transaction.share_blocks(numbers[2], numbers[3]);
    assert!(matches!(full, Err(Error::References(number)) if number == numbers[3]));
    let run = transaction.blocks(numbers[1].0..=numbers[3].0 + 5).unwrap();
    let alone = numbers[1..].iter();
    let alone = alone.map(|number| transaction.block(*number).unwrap().unwrap());
    assert_eq!(run, alone.collect::<Vec<_>>());
    let beyond = BlockNumber(numbers[3].0 + 1);
    let unknown = transaction.share_blocks(beyond, beyond);
    assert!(matches!(unknown, Err(Error::UnknownBlock(number)) if number == beyond));
}

#[test]
fn a_block_that_loses_its_last_reference_is_gone_with_its_bytes_and_its_share_of_the_segment() {
    let folder = Folder::new();
    let store = folder.create();
    let mut transaction = store.lock();
    let segment = transaction
        .insert_segment(&segment_id(1), Epoch(2))
        .unwrap();
    let place = Place::Segment(segment, 4096);
    let stored = transaction
        .insert_block(&block_id(1), 70, Epoch(2), 1, place, None)
        .unwrap();
    let waiting = transaction
        .insert_block(
            &block_id(2),
            100,
            Epoch(2),
            2,
            Place::Waiting,
            Some(&sealed(100)),
        )
        .unwrap();
    let live = |transaction: &strongroom_metadata::Transaction<'_>| {
        transaction.segment(segment).unwrap().unwrap().live_bytes
    };
    assert_eq!(transaction.waiting_bytes().unwrap(), sealed_len(100) as u64);
    assert_eq!(transaction.waiting(waiting).unwrap(), Some(sealed(100)));
    assert_eq!(
        transaction.waiting_blocks(BlockNumber(0), 9).unwrap(),
        [(waiting, sealed(100))]
    );
    assert_eq!(live(&transaction), sealed_len(70) as u64);

    assert_eq!(transaction.change_references(waiting, -1).unwrap(), 1);
    assert_eq!(transaction.change_references(waiting, -1).unwrap(), 0);
    assert_eq!(transaction.block(waiting).unwrap(), None);
    assert_eq!(transaction.waiting(waiting).unwrap(), None);
    assert_eq!(transaction.waiting_bytes().unwrap(), 0);
    assert_eq!(transaction.change_references(stored, 3).unwrap(), 4);
    assert_eq!(transaction.change_references(stored, -4).unwrap(), 0);
    assert_eq!(transaction.block_by_id(&block_id(1)).unwrap(), None);
    assert_eq!(live(&transaction), 0);
    transaction.commit().unwrap();
    assert_eq!(
        store
            .reader()
            .unwrap()
            .segment(segment)
            .unwrap()
            .unwrap()
            .live_bytes,
        0
    );
    drop(transaction);
    assert_eq!(store.integrity_check().unwrap(), [] as [String; 0]);
}

#[test]
fn a_block_that_moves_takes_its_live_bytes_along() {
    let folder = Folder::new();
    let store = folder.create();
    let mut transaction = store.lock();
    let from = transaction
        .insert_segment(&segment_id(1), Epoch(0))
        .unwrap();
    let to = transaction
        .insert_segment(&segment_id(2), Epoch(0))
        .unwrap();
    let number = transaction
        .insert_block(
            &block_id(1),
            9,
            Epoch(0),
            1,
            Place::Waiting,
            Some(&sealed(9)),
        )
        .unwrap();
    for (place, lives) in [
        (Place::Segment(from, 1), [25, 0]),
        (Place::Segment(to, 2), [0, 25]),
        (Place::Segment(to, 3), [0, 25]),
    ] {
        transaction
            .move_block(number, Epoch(0), place.clone())
            .unwrap();
        let block = transaction.block(number).unwrap().unwrap();
        assert_eq!(
            (block.place, block.id, block.clear_len),
            (place, block_id(1), 9)
        );
        let found = transaction.segments().unwrap();
        assert_eq!([found[0].live_bytes, found[1].live_bytes], lives);
        assert_eq!(transaction.waiting(number).unwrap(), None);
        transaction.commit().unwrap();
        let found = store.reader().unwrap().segments().unwrap();
        assert_eq!([found[0].live_bytes, found[1].live_bytes], lives);
    }
    assert_eq!(
        transaction
            .blocks_in_segment(from, BlockNumber(0), 9)
            .unwrap(),
        []
    );
    assert_eq!(
        transaction
            .blocks_in_segment(to, BlockNumber(0), 9)
            .unwrap()
            .len(),
        1
    );
    assert_eq!(transaction.blocks_in_segment(to, number, 9).unwrap(), []);
}

#[test]
fn segments_keep_their_state_and_their_lengths() {
    let folder = Folder::new();
    let store = folder.create();
    let mut transaction = store.lock();
    let number = transaction
        .insert_segment(&segment_id(1), Epoch(3))
        .unwrap();
    transaction
        .set_segment_state(number, SegmentState::Leaving)
        .unwrap();
    transaction.set_committed_len(number, 8192).unwrap();
    transaction.add_total_bytes(number, 100).unwrap();
    transaction.add_total_bytes(number, 11).unwrap();
    drop(transaction);
    let store = reopened(&folder, store);
    let mut transaction = store.lock();
    let segment = transaction.segment_by_id(&segment_id(1)).unwrap().unwrap();
    assert_eq!(
        (
            segment.number,
            segment.epoch,
            segment.state,
            segment.committed_len,
            segment.total_bytes
        ),
        (number, Epoch(3), SegmentState::Leaving, 8192, 111)
    );
    for _ in 0..2 {
        assert_eq!(transaction.segment_id(number).unwrap(), Some(segment_id(1)));
    }
    transaction.remove_segment(number).unwrap();
    assert_eq!(transaction.segment_id(number).unwrap(), None);
    assert_eq!(transaction.segments().unwrap(), []);
    assert!(matches!(
        transaction.remove_segment(number),
        Err(Error::UnknownSegment(_))
    ));
    assert_eq!(
        transaction
            .insert_segment(&segment_id(1), Epoch(3))
            .unwrap(),
        SegmentNumber(number.0 + 1)
    );
}

#[test]
fn holes_and_settings_come_back_until_removed_or_replaced() {
    let folder = Folder::new();
    let store = folder.create();
    let mut transaction = store.lock();
    transaction.put_hole(InodeId(5), &(10..12)).unwrap();
    transaction.put_hole(InodeId(5), &(10..20)).unwrap();
    transaction.put_hole(InodeId(5), &(30..31)).unwrap();
    transaction.put_hole(InodeId(9), &(0..1)).unwrap();
    transaction.put_setting("generation", b"one").unwrap();
    transaction.put_setting("generation", b"").unwrap();
    drop(transaction);
    let store = reopened(&folder, store);
    let mut transaction = store.lock();
    assert_eq!(
        transaction.holes().unwrap(),
        [
            (InodeId(5), 10..20),
            (InodeId(5), 30..31),
            (InodeId(9), 0..1)
        ]
    );
    transaction.remove_hole(InodeId(5), 10).unwrap();
    transaction.remove_hole(InodeId(9), 7).unwrap();
    assert_eq!(
        transaction.holes().unwrap(),
        [(InodeId(5), 30..31), (InodeId(9), 0..1)]
    );
    assert!(matches!(
        transaction.put_hole(InodeId(5), &(3..3)),
        Err(Error::Invalid(_))
    ));
    transaction.put_hole(InodeId(5), &(29..32)).unwrap();
    assert!(matches!(transaction.holes(), Err(Error::Damaged(_))));
    assert_eq!(transaction.setting("generation").unwrap(), Some(Vec::new()));
    assert_eq!(transaction.setting("nothing").unwrap(), None);
}

#[test]
fn reservations_come_back_and_only_ranges_in_order_are_taken() {
    let folder = Folder::new();
    let store = folder.create();
    let mut transaction = store.lock();
    let ranges = [0..10, 20..1 << 40];
    transaction.put_reservation(InodeId(5), &ranges).unwrap();
    transaction.put_reservation(InodeId(6), &ranges).unwrap();
    transaction.put_reservation(InodeId(6), &[]).unwrap();
    for wrong in [
        vec![1..2, 3..3],
        vec![0..5, 5..6],
        vec![9..10, 1..2],
        vec![0..1, 2..1 << 63],
    ] {
        let refused = transaction.put_reservation(InodeId(7), &wrong);
        assert!(matches!(refused, Err(Error::Invalid(_))), "{wrong:?}");
    }
    drop(transaction);
    let store = reopened(&folder, store);
    let transaction = store.lock();
    assert_eq!(transaction.reservation(InodeId(5)).unwrap(), ranges);
    assert_eq!(transaction.reservation(InodeId(6)).unwrap(), []);
    let bytes = (1 << 40) - 10;
    assert_eq!(transaction.reservations().unwrap(), [(InodeId(5), bytes)]);
}

#[test]
fn a_reader_sees_commits_only_and_a_snapshot_stays_with_one() {
    let folder = Folder::new();
    let store = folder.create();
    create_file(&store, "a");
    let reader = store.reader().unwrap();
    let count = || reader.entries(InodeId::ROOT, 0, 9).unwrap().len();
    assert_eq!(count(), 0);
    store.lock().commit().unwrap();
    assert_eq!(count(), 1);
    let snapshot = reader.snapshot().unwrap();
    assert!(matches!(reader.snapshot(), Err(Error::Invalid(_))));
    create_file(&store, "b");
    store.lock().commit().unwrap();
    assert_eq!(snapshot.entries(InodeId::ROOT, 0, 9).unwrap().len(), 1);
    drop(snapshot);
    assert_eq!(count(), 2);
    assert_eq!(
        (reader.inode_count().unwrap(), reader.commits().unwrap()),
        (2, 2)
    );
}

#[test]
fn one_pass_gives_every_row() {
    let folder = Folder::new();
    let store = folder.create();
    let file = create_file(&store, "a");
    let mut transaction = store.lock();
    let number = transaction
        .insert_block(
            &block_id(1),
            9,
            Epoch(0),
            1,
            Place::Waiting,
            Some(&sealed(9)),
        )
        .unwrap();
    let extent = Extent {
        start: REGION_BYTES,
        len: 9,
        block: number,
        block_offset: 0,
    };
    transaction.put_region(file, 1, &[extent]).unwrap();
    transaction.commit().unwrap();
    let reader = store.reader().unwrap();
    let mut seen = Vec::new();
    reader
        .for_each_inode(|inode| seen.push(format!("inode {}", inode.id.0)))
        .unwrap();
    reader
        .for_each_entry(|parent, entry| seen.push(format!("entry {} {}", parent.0, entry.inode.0)))
        .unwrap();
    reader
        .for_each_region(|inode, region, list| seen.push(format!("{} {region} {list:?}", inode.0)))
        .unwrap();
    reader
        .for_each_block(|block, len| seen.push(format!("block {} {len:?}", block.number.0)))
        .unwrap();
    let file = file.0;
    assert_eq!(
        seen,
        [
            format!("inode {file}"),
            format!("entry 1 {file}"),
            format!("{file} 1 {:?}", [extent]),
            format!("block {} Some(25)", number.0),
        ]
    );
}

/// Goal: equal content that is stored again takes the place of bytes that are damaged, lost or erased, wherever either lies,
/// and every sum stays right.
#[test]
fn a_block_gets_other_bytes_from_and_to_every_place_and_the_sums_follow() {
    let folder = Folder::new();
    let store = folder.create();
    let mut transaction = store.lock();
    let [one, other] = [1, 2].map(|seed| {
        transaction
            .insert_segment(&segment_id(seed), Epoch(0))
            .unwrap()
    });
    let places = [
        Place::Waiting,
        Place::Segment(one, 64),
        Place::Segment(other, 4096),
    ];
    let waiting = |place: &Place, bytes| (*place == Place::Waiting).then_some(bytes);
    let (short, long) = (sealed(100), sealed(3_000));
    for (seed, from) in (1..).zip(&places) {
        for (seed, to) in (10 * seed..).zip(&places) {
            let bytes = waiting(from, &long[..]);
            let number = transaction
                .insert_block(&block_id(seed), 3_000, Epoch(0), 7, from.clone(), bytes)
                .unwrap();
            let bytes = waiting(to, &short[..]);
            transaction
                .replace_block(
                    number,
                    Kind::CompressedData,
                    100,
                    Epoch(3),
                    to.clone(),
                    bytes,
                )
                .unwrap();
            let block = transaction.block(number).unwrap().unwrap();
            assert_eq!(
                (block.place, block.kind, block.clear_len),
                (to.clone(), Kind::CompressedData, 100),
                "{from:?} to {to:?}"
            );
            assert_eq!(
                (block.epoch, block.references),
                (Epoch(3), 7),
                "{from:?} to {to:?}"
            );
            let carried = transaction.waiting(number).unwrap();
            assert_eq!(carried.as_deref(), bytes, "{from:?} to {to:?}");
            let live = |segment| transaction.segment(segment).unwrap().unwrap().live_bytes;
            let lies_in =
                |segment| u64::from(matches!(to, Place::Segment(at, _) if *at == segment));
            let len = short.len() as u64;
            assert_eq!(live(one), lies_in(one) * len, "{from:?} to {to:?}");
            assert_eq!(live(other), lies_in(other) * len, "{from:?} to {to:?}");
            let waits = u64::from(*to == Place::Waiting) * len;
            assert_eq!(transaction.waiting_bytes().unwrap(), waits);
            assert_eq!(transaction.change_references(number, -7).unwrap(), 0);
        }
    }
    assert_eq!(transaction.waiting_bytes().unwrap(), 0);
}

#[test]
fn what_lies_in_a_segment_without_a_file_takes_no_space() {
    let folder = Folder::new();
    let store = folder.create();
    let mut transaction = store.lock();
    let segment = transaction
        .insert_segment(&segment_id(1), Epoch(0))
        .unwrap();
    let graves =
        [LOST_SEGMENT, ERASED_SEGMENT].map(|id| transaction.insert_segment(&id, Epoch(0)).unwrap());
    let numbers = [1, 2, 3].map(|seed| {
        let place = Place::Segment(segment, 64);
        transaction
            .insert_block(&block_id(seed), 60_000, Epoch(0), 1, place, None)
            .unwrap()
    });
    transaction.commit().unwrap();
    let len = sealed_len(60_000) as u64;
    let stored = store.stored_bytes();
    for (number, grave) in numbers.into_iter().zip(graves) {
        transaction
            .move_block(number, Epoch(0), Place::Segment(grave, 0))
            .unwrap();
    }
    assert_eq!(store.stored_bytes(), stored - 2 * len);
    transaction.commit().unwrap();
    drop(transaction);
    drop(store);
    let store = folder.open();
    store
        .lock()
        .put_setting("open", b"so that it is counted")
        .unwrap();
    assert_eq!(
        store.stored_bytes(),
        stored - 2 * len,
        "and so after opening"
    );
    // Content that is stored again counts again; what goes without ever having come back takes nothing with it.
    let place = Place::Segment(segment, 64);
    store
        .lock()
        .replace_block(numbers[0], Kind::Data, 60_000, Epoch(0), place, None)
        .unwrap();
    assert_eq!(store.stored_bytes(), stored - len);
    store.lock().change_references(numbers[1], -1).unwrap();
    assert_eq!(store.stored_bytes(), stored - len);
}

/// Goal: what lives and what is waste is known without a look at the rows, also after opening.
#[test]
fn live_and_wasted_bytes_of_segments_are_those_of_their_rows() {
    let folder = Folder::new();
    let store = folder.create();
    let mut transaction = store.lock();
    let ids = [segment_id(1), segment_id(2), LOST_SEGMENT];
    let segments = ids.map(|id| transaction.insert_segment(&id, Epoch(0)).unwrap());
    let len = sealed_len(60_000) as u64;
    let numbers = [0_usize, 1, 2].map(|index| {
        let segment = segments[index];
        transaction.add_total_bytes(segment, 3 * len).unwrap();
        let place = Place::Segment(segment, 64);
        transaction
            .insert_block(&block_id(index as u64), 60_000, Epoch(0), 1, place, None)
            .unwrap()
    });
    assert_eq!(store.segment_bytes(), (2 * len, 4 * len));
    transaction.commit().unwrap();
    transaction.change_references(numbers[0], -1).unwrap();
    assert_eq!(store.segment_bytes(), (len, 5 * len));
    transaction.commit().unwrap();
    drop(transaction);
    drop(store);
    let store = folder.open();
    assert_eq!(store.segment_bytes(), (len, 5 * len));
    store.lock().remove_segment(segments[0]).unwrap();
    assert_eq!(store.segment_bytes(), (len, 2 * len));
}

/// Goal: whoever still has the number of a remote that was forgotten reaches no other remote by it. Method: the newest remote is forgotten, and
/// later all of them; in between the database is opened again. Failed before: the next remote got the number of the last.
#[test]
fn the_number_of_a_remote_that_was_forgotten_goes_to_no_other() {
    let folder = Folder::new();
    let store = folder.create();
    let new = |name: &str| Remote {
        number: 0,
        name: name.to_owned(),
        id: [1; 16],
        state: Vec::new(),
    };
    let add = |store: &Store, name: &str| store.lock().put_remote(&new(name)).unwrap();
    assert_eq!([add(&store, "one"), add(&store, "two")], [1, 2]);
    store.lock().remove_remote(2).unwrap();
    // One that is not there changes nothing.
    store.lock().remove_remote(99).unwrap();
    let store = reopened(&folder, store);
    assert_eq!(add(&store, "two"), 3);
    for number in [3, 1] {
        store.lock().remove_remote(number).unwrap();
    }
    let store = reopened(&folder, store);
    assert_eq!(add(&store, "one"), 4);
    for wrong in [&[1; 7][..], &[0xff; 8]] {
        store.lock().remove_remote(4).unwrap();
        store.lock().put_setting("remote_forgotten", wrong).unwrap();
        let refused = store.lock().put_remote(&new("one")).err();
        assert!(matches!(refused, Some(Error::Damaged(_))), "{refused:?}");
        let all = 3_u64.to_le_bytes();
        store.lock().put_setting("remote_forgotten", &all).unwrap();
        assert_eq!(add(&store, "one"), 4);
    }
}
