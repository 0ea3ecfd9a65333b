//! Goal: a strange entry among the segments loses only its own content, and nothing outside is touched.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use strongroom_format::{Epoch, SegmentId, SuiteId};
use strongroom_segments::{Error, Recovery, SegmentStore, StoreOptions};

/// Two segments in two folders, in the name order, and a store that knows of neither.
fn ids() -> [SegmentId; 2] {
    [SegmentId([0x11; 16]), SegmentId([0x22; 16])]
}

fn hex(id: SegmentId) -> String {
    id.0.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn open(place: &Path) -> strongroom_segments::Result<SegmentStore> {
    let options = StoreOptions::new(SuiteId::Aes256GcmBlake3);
    SegmentStore::open(&place.join("segments"), options)
}

fn header(id: SegmentId) -> Vec<u8> {
    let header = strongroom_format::segment::SegmentHeader {
        version: strongroom_format::segment::SegmentVersion::Sectors,
        suite: SuiteId::Aes256GcmBlake3,
        epoch: Epoch(0),
        id,
    };
    let mut sector = header.encode().to_vec();
    sector.resize(4096, 0);
    sector
}

/// Failed before: the listing ended with an error of the system at the link, and so did every opening of a vault.
#[test]
fn a_link_in_the_place_of_a_folder_hides_its_segments_and_is_named() {
    let place = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    let [hidden, sound] = ids();
    drop(open(place.path()).unwrap());
    let segments = place.path().join("segments");
    fs::write(outside.path().join(hex(hidden)), header(hidden)).unwrap();
    symlink(outside.path(), segments.join("11")).unwrap();
    fs::create_dir(segments.join("22")).unwrap();
    fs::write(segments.join("22").join(hex(sound)), header(sound)).unwrap();
    let store = open(place.path()).unwrap();
    assert_eq!(store.list().unwrap(), [sound]);
    let odd = store.odd_folders().unwrap();
    assert_eq!(odd.len(), 1);
    assert_eq!(odd[0].to_string(), "segments/11 is a symbolic link");
    assert!(matches!(store.whole(hidden), Err(Error::Odd(_))));
    assert!(matches!(
        store.recover_open(hidden, 1 << 20, &|_, _| None),
        Err(Error::Odd(_))
    ));
    store.remove(hidden).unwrap();
    assert_eq!(
        fs::read(outside.path().join(hex(hidden))).unwrap(),
        header(hidden)
    );
    assert_eq!(
        store.recover_open(sound, 0, &|_, _| None).unwrap(),
        Recovery::Empty
    );
}

/// Failed before: a hard link was opened for writing, and cut where its last whole batch ended.
#[test]
fn a_file_with_another_name_elsewhere_is_neither_read_nor_cut() {
    let place = tempfile::tempdir().unwrap();
    let [id, _] = ids();
    drop(open(place.path()).unwrap());
    let holder = place.path().join("segments/11");
    fs::create_dir(&holder).unwrap();
    let elsewhere = place.path().join("elsewhere");
    let bytes = [header(id), vec![7; 9000]].concat();
    fs::write(&elsewhere, &bytes).unwrap();
    fs::hard_link(&elsewhere, holder.join(hex(id))).unwrap();
    let store = open(place.path()).unwrap();
    assert_eq!(store.list().unwrap(), [id]);
    for error in [
        store.whole(id).unwrap_err(),
        store.scan(id).unwrap_err(),
        store.recover_open(id, 4096 * 2, &|_, _| None).unwrap_err(),
    ] {
        assert!(matches!(error, Error::Odd(_)), "{error}");
    }
    assert_eq!(fs::read(&elsewhere).unwrap(), bytes);
}

/// Failed before: the folder itself was followed.
#[test]
fn a_link_in_the_place_of_the_folder_of_segments_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    symlink(outside.path(), place.path().join("segments")).unwrap();
    match open(place.path()) {
        Err(Error::Odd(odd)) => assert_eq!(odd.to_string(), "segments is a symbolic link"),
        other => panic!("opened: {:?}", other.map(drop)),
    }
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}
