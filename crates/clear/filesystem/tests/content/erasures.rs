//! Erasures that other devices noted, several at once.

use strongroom_filesystem::{Caller, XattrMode};
use strongroom_history::{ERASURES, ErasureNote, Erasures};

use crate::pattern;
use crate::support::{Lab, ROOT};
use crate::tree_reads::{DIRECTORIES, fill, take};

fn name(number: u64) -> String {
    format!("file{number}")
}

/// Files with a block each, which no other has.
fn write_files(lab: &Lab, count: u64) {
    for number in 0..count {
        let file = lab.file(ROOT, &name(number));
        lab.write(file, 0, &pattern(number + 1, 100))
            .expect("writes");
        lab.forget(file, 1);
    }
    lab.sync().expect("syncs");
}

/// An erasure of that file by a device that knew all snapshots here, or none.
fn note(lab: &Lab, number: u64, knew: bool) -> ErasureNote {
    let had = lab.revisions().expect("they prove themselves");
    let had = had.iter().filter(|_| knew).map(|one| &**one);
    ErasureNote::new(
        (number + 1, number),
        format!("/{}", name(number)).as_bytes(),
        had,
    )
}

/// Has the tree say so, as after a pull.
fn tell(lab: &Lab, notes: impl Iterator<Item = ErasureNote>) {
    let all = notes.fold(Erasures::default(), Erasures::with);
    let value = all.encode();
    lab.set_xattr(&Caller::root(), ROOT, ERASURES, &value, XattrMode::Set)
        .expect("sets");
}

/// Goal: each of several erasures takes its own content and no other, whatever the others know. Method: of four files three are removed. One
/// erasure knows no snapshot, another one is about the file that is still there.
#[test]
fn each_of_several_erasures_takes_what_it_is_about() {
    let lab = Lab::new();
    write_files(&lab, 4);
    take(&lab);
    for number in 0..3 {
        lab.unlink(&Caller::root(), ROOT, name(number).as_bytes())
            .expect("unlinks");
    }
    lab.sync().expect("syncs");
    tell(&lab, (0..4).map(|number| note(&lab, number, number != 1)));
    let erased = lab.erase_as_noted().expect("erases");
    assert_eq!((erased.states, erased.files), (3, 3), "{erased:?}");
    assert!(erased.bytes > 0 && erased.shared_bytes > 0, "{erased:?}");
    let blocks = |number| {
        let path = format!("/{}", name(number));
        lab.erased_blocks(path.as_bytes())
            .expect("is in a snapshot")
    };
    assert_eq!([0, 1, 2, 3].map(blocks), [(1, 1), (0, 1), (1, 1), (0, 0)]);
    let again = lab.erase_as_noted().expect("has nothing to do");
    assert_eq!((again.states, again.bytes), (0, 0), "{again:?}");
}

/// Goal: while content is being erased, no remote counts as rid of it. Method: the settings are as an interrupted erasure leaves them. Failed
/// before: the note went, and what was erased later stayed at the remote for as long as anything that is retired.
#[test]
fn a_remote_is_not_rid_of_what_is_being_erased() {
    let lab = Lab::new();
    let numbers: Vec<u8> = [1_u64, 2]
        .iter()
        .flat_map(|one| one.to_le_bytes())
        .collect();
    lab.keep_setting("prune_now", &numbers).expect("keeps");
    for under_way in ["erasing", "erasing_noted"] {
        lab.keep_setting(under_way, b"/file").expect("keeps");
        lab.note_pruned(1, 0).expect("leaves it");
        assert_eq!(lab.remotes_to_prune().expect("reads"), [1, 2]);
        lab.keep_setting(under_way, &[]).expect("keeps");
    }
    lab.note_pruned(1, 0).expect("notes");
    assert_eq!(lab.remotes_to_prune().expect("reads"), [2]);
}

/// Goal: a remote does not count as rid of what was erased since it was looked at. Method: something is erased in between. Failed before: the
/// note went, and a copy that a push had left there without a name stayed as long as anything that is retired.
#[test]
fn a_remote_is_not_rid_of_what_was_erased_since() {
    let lab = Lab::new();
    write_files(&lab, 1);
    take(&lab);
    lab.unlink(&Caller::root(), ROOT, name(0).as_bytes())
        .expect("unlinks");
    lab.sync().expect("syncs");
    let before = lab.erased_bytes().expect("reads");
    let erased = lab.erase_content(b"/file0", false).expect("erases");
    assert!(erased.bytes > 0, "{erased:?}");
    lab.keep_setting("prune_now", &1_u64.to_le_bytes())
        .expect("keeps");
    lab.note_pruned(1, before).expect("leaves it");
    assert_eq!(lab.remotes_to_prune().expect("reads"), [1]);
    let now = lab.erased_bytes().expect("reads");
    assert!(before < now, "{before} {now}");
    lab.note_pruned(1, now).expect("notes");
    assert!(lab.remotes_to_prune().expect("reads").is_empty());
}

/// Goal: all erasures that wait take as many passes over the trees as one. Method: statements of the database, with trees of more nodes than
/// memory keeps, and files that are still there. Failed before: each erasure took passes of its own.
#[test]
fn several_erasures_go_through_the_trees_together() {
    const NOTES: u64 = 20;
    let lab = Lab::new();
    fill(&lab);
    write_files(&lab, NOTES);
    take(&lab);
    let statements = |notes: std::ops::Range<u64>| {
        tell(&lab, notes.map(|number| note(&lab, number, true)));
        let before = lab.counters().metadata.statements;
        let erased = lab.erase_as_noted().expect("finds nothing to erase");
        assert_eq!(erased.bytes, 0);
        lab.counters().metadata.statements - before
    };
    let one = statements(0..1);
    let many = statements(1..NOTES);
    assert!(one > DIRECTORIES, "{one}");
    assert!(many < 2 * one, "{many} {one}");
}
