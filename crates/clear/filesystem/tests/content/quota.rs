//! A vault with a quota.

use strongroom_filesystem::{Caller, Error, NodeKind, SetAttributes};

use crate::support::{Lab, ROOT, assert_refused};
use crate::{all, pattern};

/// What the vault takes now, by what `statfs` says under a bound that the disk does not undercut.
fn used(lab: &Lab) -> u64 {
    let space = lab.space().expect("the space");
    space.total_bytes - space.free_bytes
}

/// Goal: without a commit in between, so that the drained content itself is counted.
#[test]
fn writes_stop_at_the_quota_however_they_are_drained() {
    let lab = Lab::new();
    lab.set_quota(Some(8 << 20)).expect("sets");
    let file = lab.file(ROOT, "file");
    let mut written = 0;
    let refused = (0..200).find_map(|round: u64| {
        let result = lab.write(file, written, &pattern(round, 100_000));
        written += if result.is_ok() { 100_000 } else { 0 };
        if round.is_multiple_of(3) {
            lab.sync_inode(file).expect("what was accepted fits");
        }
        result.err()
    });
    assert_refused!(
        Err::<(), _>(refused.expect("the quota is noticed")),
        Error::QuotaExceeded
    );
    assert!((6_000_000..8 << 20).contains(&written), "{written}");
    lab.sync().expect("syncs");
    assert!(used(&lab) <= 8 << 20, "{}", used(&lab));
}

#[test]
fn at_the_quota_nothing_is_made_and_everything_can_be_removed() {
    let lab = Lab::new();
    let (file, other) = (lab.file(ROOT, "file"), lab.file(ROOT, "other"));
    lab.forget(file, 1);
    lab.forget(other, 1);
    lab.write(file, 0, &pattern(1, 3_000_000)).expect("writes");
    lab.sync().expect("syncs");
    lab.set_quota(Some(1 << 20))
        .expect("a bound below the use is fine");
    assert_eq!(lab.space().expect("the space").free_bytes, 0);
    let root = Caller::root();
    let make = |name| lab.make_as(&root, ROOT, name, NodeKind::File, 0o600);
    assert_refused!(make("more"), Error::QuotaExceeded);
    assert_refused!(lab.write(other, 0, b"a"), Error::QuotaExceeded);
    assert_refused!(lab.link(&root, file, ROOT, b"name"), Error::QuotaExceeded);
    let shorter = SetAttributes {
        size: Some(2_000_000),
        ..SetAttributes::default()
    };
    lab.set_attributes(&root, file, &shorter).expect("shrinks");
    assert!(all(&lab, file) == pattern(1, 3_000_000)[..2_000_000]);
    lab.unlink(&root, ROOT, b"file").expect("removes");
    lab.tick().expect("purges");
    let made = make("more").expect("there is room again");
    lab.write(made.inode, 0, &pattern(2, 400_000))
        .expect("writes");
    lab.sync().expect("syncs");
}

/// Goal: empty files and attributes take space too, and cannot fill the disk beside the bound.
#[test]
fn files_without_content_meet_the_quota() {
    let lab = Lab::new();
    lab.set_quota(Some(1 << 20)).expect("sets");
    let refused = (0..20_000).find(|number| {
        let name = format!("a name that takes some space {number}");
        let made = lab.make_as(&Caller::root(), ROOT, &name, NodeKind::File, 0o600);
        if number % 100 == 50 {
            lab.sync().expect("syncs");
        }
        made.is_err()
    });
    assert!((1_000..10_000).contains(&refused.expect("the quota is noticed")));
}

#[test]
fn the_quota_outlives_crash_and_reopening_and_can_be_lifted() {
    let mut lab = Lab::new();
    assert_eq!(lab.quota(), None);
    let unbounded = lab.space().expect("the space");
    lab.set_quota(Some(5 << 20)).expect("sets");
    lab.crash();
    assert_eq!(lab.quota(), Some(5 << 20));
    let space = lab.space().expect("the space");
    assert_eq!(space.total_bytes, 5 << 20);
    assert!(space.free_bytes < 5 << 20);
    lab.reopen_read_only();
    assert_eq!(lab.quota(), Some(5 << 20));
    assert_refused!(lab.set_quota(None), Error::ReadOnly);
    lab.reopen();
    lab.set_quota(None).expect("lifts");
    assert_eq!(lab.space().expect("the space"), unbounded);
    lab.reopen();
    assert_eq!(lab.quota(), None);
}
