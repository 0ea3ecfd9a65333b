//! Truncating and punching files of many regions: observers see the result at once, and the rows are deleted in steps.

use strongroom_filesystem::{
    AllocateMode, Caller, Error, InodeId, SeekTarget, SetAttributes, XattrMode, limits::Thresholds,
};

use crate::support::{Lab, ROOT, assert_refused};
use crate::{pattern, truncate};

const REGION: u64 = 4 << 20;

/// Regions of a file that no single hold of the writer may empty: six steps.
const REGIONS: u64 = 6 * Thresholds::DEFAULT.purge_regions_per_step as u64;

const SIZE: u64 = REGIONS * REGION;

/// A file with a row for every region, each of one extent fewer than a run of cells, made by sharing one region.
fn huge(lab: &Lab, name: &str) -> InodeId {
    let file = lab.file(ROOT, name);
    lab.write(file, 0, &pattern(1, REGION as usize))
        .expect("writes");
    for region in 1..REGIONS {
        let copied = lab.copy_range(file, 0, file, region * REGION, REGION);
        assert_eq!(copied.expect("copies"), REGION);
    }
    lab.sync().expect("syncs");
    file
}

fn bytes(lab: &Lab, file: InodeId, offset: u64, len: usize) -> Vec<u8> {
    let mut buffer = vec![0xAA; len];
    let count = lab.read(file, offset, &mut buffer).expect("reads");
    buffer.truncate(count);
    buffer
}

fn assert_zeros(lab: &Lab, file: InodeId, offset: u64) {
    assert!(
        bytes(lab, file, offset, 100_000) == vec![0; 100_000],
        "at {offset}"
    );
}

fn extents(lab: &Lab) -> u64 {
    let report = lab.check().expect("checks");
    assert_eq!(report.problems, Vec::<String>::new());
    report.extents
}

/// Goal: the bound of one hold, for the truncation and for each step of what follows it.
#[test]
fn no_hold_of_the_writer_changes_more_than_a_step_of_rows() {
    let mut lab = Lab::new();
    let (file, other) = (huge(&lab, "file"), huge(&lab, "other"));
    lab.reopen();
    truncate(&lab, file, 10);
    lab.allocate(other, AllocateMode::PunchHole, 5, SIZE - 10)
        .expect("punches");
    lab.sync().expect("syncs");
    let left = extents(&lab);
    assert!(left > REGIONS * 64, "most rows are still there: {left}");
    lab.tick().expect("purges");
    assert_eq!(
        extents(&lab),
        1 + 2,
        "the head of one, both ends of the other"
    );
    let most = lab.counters().metadata.hold_changes_max;
    // Each extent and each region is a change; the two ends of a punch come to a step of their own.
    let step = (Thresholds::DEFAULT.purge_extents_per_step
        + 2 * 64
        + Thresholds::DEFAULT.purge_regions_per_step) as u64;
    assert!(most <= step + 50, "{most} changes in one hold");
}

#[test]
fn what_was_cut_reads_as_zeros_whatever_is_done_before_its_rows_have_gone() {
    for crashes in [false, true] {
        let mut lab = Lab::new();
        let file = huge(&lab, "file");
        truncate(&lab, file, REGION + 10);
        truncate(&lab, file, SIZE);
        lab.sync().expect("syncs");
        if crashes {
            lab.crash();
        }
        assert!(bytes(&lab, file, REGION, 10) == pattern(1, 10));
        for region in [1, 2, REGIONS / 2, REGIONS - 1] {
            assert_zeros(&lab, file, region * REGION + 10);
        }
        let seek = |offset, target| lab.seek(file, offset, target);
        assert_eq!(seek(0, SeekTarget::Hole).expect("a hole"), REGION + 10);
        assert_refused!(seek(2 * REGION, SeekTarget::Data), Error::NoSuchOffset);
        // New content in the middle of the hole, and a copy out of it and into it.
        let middle = REGIONS / 2 * REGION + 70_000;
        lab.write(file, middle, b"new").expect("writes");
        lab.sync_inode(file).expect("syncs");
        assert_eq!(seek(2 * REGION, SeekTarget::Data).expect("data"), middle);
        assert_eq!(bytes(&lab, file, middle - 2, 7), b"\0\0new\0\0");
        let copy = lab.file(ROOT, "copy");
        lab.write(copy, 0, &pattern(9, 200_000)).expect("writes");
        lab.copy_range(file, middle - 1000, copy, 0, 100_000)
            .expect("copies out");
        assert_eq!(bytes(&lab, copy, 999, 5), b"\0new\0");
        assert!(bytes(&lab, copy, 100_000, 100_000) == pattern(9, 200_000)[100_000..]);
        lab.copy_range(copy, 100_000, file, 8 * REGION + 5, 100_000)
            .expect("copies in");
        assert!(bytes(&lab, file, 8 * REGION + 5, 100_000) == pattern(9, 200_000)[100_000..]);
        assert_zeros(&lab, file, 8 * REGION + 100_005);
        assert_zeros(&lab, file, 9 * REGION);
        extents(&lab);
        if crashes {
            lab.sync().expect("syncs");
            lab.crash();
        }
        lab.tick().expect("purges");
        assert_eq!(bytes(&lab, file, middle - 2, 7), b"\0\0new\0\0");
        assert!(bytes(&lab, file, 8 * REGION + 5, 100_000) == pattern(9, 200_000)[100_000..]);
        assert_zeros(&lab, file, 20 * REGION);
        assert_zeros(&lab, file, SIZE - 100_000);
        assert!(extents(&lab) < 64 * 3);
        assert!(lab.stat(file).blocks < 2 * (2 * REGION) / 512);
    }
}

#[test]
fn a_second_cut_joins_the_first_and_unlinking_ends_both() {
    let mut lab = Lab::new();
    let (file, gone) = (huge(&lab, "file"), huge(&lab, "gone"));
    for file in [file, gone] {
        truncate(&lab, file, SIZE / 2);
        lab.sync_inode(file).expect("syncs");
        truncate(&lab, file, 3);
        truncate(&lab, file, SIZE);
        lab.sync_inode(file).expect("syncs");
        assert_zeros(&lab, file, SIZE / 2 - REGION);
        assert_zeros(&lab, file, SIZE / 2 + REGION);
    }
    assert_eq!(lab.stat(file).size, SIZE);
    lab.unlink(&Caller::root(), ROOT, b"gone").expect("unlinks");
    assert_zeros(&lab, gone, REGION);
    lab.forget(gone, 1);
    lab.sync().expect("syncs");
    lab.crash();
    assert_eq!(lab.names(ROOT), ["file"]);
    assert_zeros(&lab, file, SIZE / 2 - REGION);
    lab.tick().expect("purges");
    assert_eq!(extents(&lab), 1);
    assert_eq!(bytes(&lab, file, 0, 3), pattern(1, 3));
}

/// Goal: a crash before the commit takes the cut back whole, one behind it keeps it whole.
#[test]
fn a_crash_shows_all_of_a_cut_or_nothing() {
    let mut lab = Lab::new();
    let file = huge(&lab, "file");
    truncate(&lab, file, 0);
    lab.seek(file, 0, SeekTarget::Data)
        .expect_err("drained, not committed");
    lab.crash();
    assert_eq!(lab.stat(file).size, SIZE);
    assert!(bytes(&lab, file, SIZE - REGION, 100_000) == pattern(1, REGION as usize)[..100_000]);
    truncate(&lab, file, 0);
    lab.sync().expect("syncs");
    lab.crash();
    assert_eq!((lab.stat(file).size, lab.stat(file).blocks), (0, 0));
    lab.write(file, 0, &pattern(3, 5_000_000)).expect("writes");
    lab.sync().expect("syncs");
    lab.crash();
    assert!(bytes(&lab, file, 0, 5_000_000) == pattern(3, 5_000_000));
}

#[test]
fn the_space_of_a_cut_comes_back() {
    let lab = Lab::new();
    lab.set_quota(Some(1 << 30)).expect("sets");
    let before = lab.space().expect("the space").free_bytes;
    let file = lab.file(ROOT, "file");
    for part in 0..8 {
        lab.write(file, part << 20, &pattern(part + 1, 1 << 20))
            .expect("writes");
    }
    lab.sync().expect("syncs");
    let full = lab.space().expect("the space").free_bytes;
    assert!(full + (7 << 20) <= before, "{full} {before}");
    truncate(&lab, file, 0);
    lab.tick().expect("drains and purges");
    let after = lab.space().expect("the space").free_bytes;
    assert!(after + 200_000 > before, "{after} {before}");
}

/// Goal: whatever commit comes in between, for another file, stores length, owner and mode of one moment.
#[test]
fn a_length_set_with_other_attributes_survives_a_crash_with_them_or_not_at_all() {
    for (size, pending) in [(10, false), (10, true), (300_000, false), (300_000, true)] {
        for fsynced in [false, true] {
            let mut lab = Lab::new();
            let (file, other) = (lab.file(ROOT, "file"), lab.file(ROOT, "other"));
            lab.write(file, 0, &pattern(1, 200_000)).expect("writes");
            lab.sync().expect("syncs");
            if pending {
                lab.write(file, 50, b"pending").expect("writes");
            }
            let set = SetAttributes {
                size: Some(size),
                uid: Some(5),
                mode: Some(0o640),
                ..SetAttributes::default()
            };
            let now = lab
                .set_attributes(&Caller::root(), file, &set)
                .expect("sets");
            assert_eq!((now.size, now.uid, now.mode), (size, 5, 0o640));
            lab.sync_inode(other).expect("a commit");
            if fsynced {
                lab.sync_inode(file).expect("syncs");
            }
            lab.crash();
            let after = lab.stat(file);
            let all_or_nothing = [(200_000, 0, 0o666), (size, 5, 0o640)];
            let found = (after.size, after.uid, after.mode);
            assert!(all_or_nothing.contains(&found), "{found:?}");
            assert!(!fsynced || found == all_or_nothing[1], "{found:?}");
        }
    }
}

/// Goal: after a cut no file has the xattrs of one moment and the attributes of another. Those are held back while a
/// truncation is pending, and a commit for another file comes in between.
#[test]
fn an_xattr_never_outlives_the_attributes_that_were_set_before_it() {
    let mut lab = Lab::new();
    let file = lab.file(ROOT, "file");
    let other = lab.file(ROOT, "other");
    lab.write(file, 0, &pattern(1, 100_000)).expect("writes");
    lab.sync().expect("syncs");
    truncate(&lab, file, 10);
    let closed = SetAttributes {
        mode: Some(0o600),
        ..SetAttributes::default()
    };
    lab.set_attributes(&Caller::root(), file, &closed)
        .expect("closed to others");
    lab.set_xattr(&Caller::root(), file, b"user.secret", b"1", XattrMode::Set)
        .expect("set");
    lab.write(other, 0, b"something").expect("writes");
    lab.sync_inode(other).expect("commits");
    lab.crash();
    let file = lab.find(ROOT, "file").expect("there");
    assert_eq!(
        lab.xattr(&Caller::root(), file, b"user.secret").ok(),
        Some(b"1".to_vec())
    );
    assert_eq!(lab.stat(file).mode & 0o777, 0o600);
    assert_eq!(lab.stat(file).size, 10);
}
