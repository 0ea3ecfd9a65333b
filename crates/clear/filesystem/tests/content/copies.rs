//! Copies of ranges that end early, cross long holes, or come from a snapshot.

use strongroom_filesystem::{Caller, Error, InodeId};
use strongroom_history::RevisionId;

use crate::support::{Lab, ROOT, assert_refused};
use crate::tree_reads::take;
use crate::{all, pattern, truncate};

/// The file of that name in a snapshot; stays open.
fn kept(lab: &Lab, snapshot: RevisionId, name: &str) -> InodeId {
    let look_up = |parent, name: &[u8]| {
        let found = lab.lookup(&Caller::root(), parent, name);
        found.expect("is there").inode
    };
    let top = look_up(ROOT, b".history");
    let tree = look_up(top, &snapshot.to_string().as_bytes()[..16]);
    look_up(tree, name.as_bytes())
}

/// Goal: a copy never takes the last reference of what it copies. Method: a file of a snapshot is open while the snapshot is removed, and
/// is copied back over the file, whose content lies in two regions. Failed before: the blocks of the first region went before they were
/// shared, and the whole vault was `Failed`.
#[test]
fn a_file_of_a_removed_snapshot_is_copied_back_over_the_file() {
    let lab = Lab::new();
    let file = lab.file(ROOT, "file");
    lab.write(file, 0, &pattern(1, 100)).expect("writes");
    lab.write(file, 5 << 20, &pattern(2, 100)).expect("writes");
    lab.sync().expect("syncs");
    let content = all(&lab, file);
    let snapshot = take(&lab);
    let source = kept(&lab, snapshot, "file");
    lab.remove_revision(snapshot, || Ok::<_, Error>(()))
        .expect("goes");
    lab.compact().expect("compacts");
    let copied = lab.copy_range(source, 0, file, 0, content.len() as u64);
    assert_eq!(copied.expect("copies"), content.len() as u64);
    lab.sync().expect("syncs");
    assert!(all(&lab, file) == content);
}

/// Goal: a copy takes as long as the content, whatever lies between. Method: statements of a copy of a file of 4 EiB with two extents, from
/// the file itself and from a snapshot. Failed before: it went over the holes in steps of 1 GiB, and did not end.
#[test]
fn a_hole_is_one_step_of_a_copy() {
    const LEN: u64 = 1 << 62;
    const MIDDLE: u64 = 1 << 40;
    let lab = Lab::new();
    let file = lab.file(ROOT, "file");
    lab.write(file, 0, &pattern(1, 100)).expect("writes");
    lab.write(file, MIDDLE, &pattern(2, 100)).expect("writes");
    truncate(&lab, file, LEN);
    lab.sync().expect("syncs");
    let snapshot = take(&lab);
    for (source, name) in [(file, "one"), (kept(&lab, snapshot, "file"), "other")] {
        let copy = lab.file(ROOT, name);
        let before = lab.counters().metadata.statements;
        let copied = lab.copy_range(source, 0, copy, 0, u64::MAX / 2);
        assert_eq!(copied.expect("copies"), LEN, "{name}");
        let statements = lab.counters().metadata.statements - before;
        // Each of the two extents takes a step, in which every region is looked at.
        assert!(statements < 2_000, "{name}: {statements}");
        assert_eq!(lab.stat(copy).size, LEN, "{name}");
        for (offset, seed) in [(0, 1), (MIDDLE, 2)] {
            let mut found = vec![0xAA; 101];
            lab.read(copy, offset, &mut found).expect("reads");
            assert!(found[..100] == pattern(seed, 100) && found[100] == 0);
        }
    }
}

/// Goal: the caller learns how far a copy came, and why it did not go on. Method: a file of a snapshot whose content was erased but for
/// what another file shares, in the first GiB. Failed before: the first call said only that content was erased, of what it had copied too.
#[test]
fn a_copy_that_fails_on_the_way_says_how_far_it_came() {
    const STEP: u64 = 1 << 30;
    const LEN: u64 = STEP + (1 << 20) + 100;
    let lab = Lab::new();
    let (file, other) = (lab.file(ROOT, "file"), lab.file(ROOT, "other"));
    lab.write(file, 0, &pattern(1, 100)).expect("writes");
    lab.write(file, LEN - 100, &pattern(2, 100))
        .expect("writes");
    let shared = lab.copy_range(file, 0, other, 0, 100);
    assert_eq!(shared.expect("copies"), 100);
    lab.sync().expect("syncs");
    let snapshot = take(&lab);
    let source = kept(&lab, snapshot, "file");
    lab.unlink(&Caller::root(), ROOT, b"file").expect("unlinks");
    lab.forget(file, 1);
    let erased = lab.erase_content(b"/file", false).expect("erases");
    assert!(erased.bytes > 0 && erased.shared_bytes > 0, "{erased:?}");
    let copy = lab.file(ROOT, "copy");
    let copied = lab.copy_range(source, 0, copy, 0, LEN);
    assert_eq!(copied.expect("copies the first step"), STEP);
    assert_eq!(lab.stat(copy).size, STEP);
    assert!(lab.content(copy)[..100] == pattern(1, 100));
    let copied = lab.copy_range(source, STEP, copy, STEP, LEN - STEP);
    assert_refused!(copied, Error::Erased { .. });
    lab.sync().expect("syncs");
}
