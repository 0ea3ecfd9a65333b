//! Locks through the file system; their arithmetic is tested beside it.

use strongroom_filesystem::{ByteRangeLock, Error, LockKind};

use crate::support::{Lab, ROOT, assert_refused, superuser};

const fn range(kind: LockKind, start: u64, end: u64) -> ByteRangeLock {
    ByteRangeLock {
        start,
        end,
        kind,
        pid: 40,
    }
}

#[test]
fn a_lock_keeps_others_out_until_it_is_given_back() {
    let lab = Lab::new();
    let file = lab.file(ROOT, "f");
    let whole = range(LockKind::Write, 0, u64::MAX);
    lab.lock(file, 1, whole).expect("free");
    assert_refused!(
        lab.lock(file, 2, range(LockKind::Read, 5, 5)),
        Error::WouldBlock
    );
    assert_eq!(
        lab.conflicting_lock(file, 2, range(LockKind::Read, 5, 5))
            .expect("asked"),
        Some(whole)
    );
    assert_eq!(lab.conflicting_lock(file, 1, whole).expect("asked"), None);
    lab.unlock_owner(file, 1);
    lab.lock(file, 2, range(LockKind::Read, 5, 5))
        .expect("free now");
}

#[test]
fn locks_of_two_files_and_of_two_kinds_are_apart() {
    let lab = Lab::new();
    let (file, other) = (lab.file(ROOT, "f"), lab.file(ROOT, "g"));
    lab.lock(file, 1, range(LockKind::Write, 0, u64::MAX))
        .expect("free");
    lab.lock(other, 2, range(LockKind::Write, 0, u64::MAX))
        .expect("another file");
    lab.lock_whole(file, 2, LockKind::Write)
        .expect("another kind");
    assert_refused!(lab.lock_whole(file, 1, LockKind::Read), Error::WouldBlock);
    lab.lock_whole(file, 2, LockKind::Unlock)
        .expect("given back");
    lab.lock_whole(file, 1, LockKind::Read).expect("free now");
}

#[test]
fn a_range_that_ends_before_it_starts_and_a_node_that_is_gone_are_refused() {
    let lab = Lab::new();
    let file = lab.file(ROOT, "f");
    assert_refused!(
        lab.lock(file, 1, range(LockKind::Read, 6, 5)),
        Error::InvalidArgument(_)
    );
    assert_refused!(
        lab.conflicting_lock(file, 1, range(LockKind::Read, 6, 5)),
        Error::InvalidArgument(_)
    );
    lab.unlink(&superuser(), ROOT, b"f").expect("removed");
    lab.forget(file, 1);
    lab.tick().expect("background work");
    assert_refused!(lab.lock(file, 1, range(LockKind::Read, 0, 0)), Error::Stale);
    assert_refused!(lab.lock_whole(file, 1, LockKind::Read), Error::Stale);
}
