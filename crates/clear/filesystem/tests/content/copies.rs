//! Copies of ranges that end early, cross long holes, or come from a snapshot.

use strongroom_filesystem::{Caller, Error, InodeId};
use strongroom_history::RevisionId;

use crate::support::{Lab, ROOT};
use crate::tree_reads::take;
use crate::{all, pattern};

/// The file of that name in a snapshot; stays open.
fn kept(lab: &Lab, snapshot: RevisionId, name: &str) -> InodeId {
    let look_up = |parent, name: &[u8]| {
        let found = lab.lookup(&Caller::root(), parent, name);
        found.expect("is there").inode
    };
    let top = look_up(ROOT, b".history");
    let tree = look_up(top, snapshot.to_string()[..16].as_bytes());
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
