//! How often segments are read for the trees of snapshots: nodes are small, so one read fetches many neighbours.

use strongroom_filesystem::{Caller, Error, InodeId, Listing, Taken};
use strongroom_history::{NewRevision, RevisionId};

use crate::support::{Lab, ROOT};

/// One node each.
pub(crate) const DIRECTORIES: u64 = 1_500;
const FILES: u64 = 12;

pub(crate) fn fill(lab: &Lab) {
    for directory in 0..DIRECTORIES {
        let directory = lab.directory(ROOT, &format!("directory-{directory:05}"));
        for file in 0..FILES {
            let file = lab.file(directory, &format!("a-file-of-a-source-tree-{file}"));
            lab.forget(file, 1);
        }
        lab.forget(directory, 1);
    }
    lab.sync().expect("durable");
}

fn empty(lab: &Lab) {
    let root = &Caller::root();
    for directory in 0..DIRECTORIES {
        let name = format!("directory-{directory:05}");
        let inode = lab.find(ROOT, &name).expect("is there");
        for file in 0..FILES {
            let file = format!("a-file-of-a-source-tree-{file}");
            lab.unlink(root, inode, file.as_bytes()).expect("goes");
        }
        lab.remove_directory(root, ROOT, name.as_bytes())
            .expect("goes");
    }
    lab.sync().expect("durable");
}

pub(crate) fn take(lab: &Lab) -> RevisionId {
    let taken = lab.take_revision(&NewRevision::default(), |_| Ok::<_, Error>(()));
    match taken.expect("a revision is taken") {
        Taken::New(revision) => revision.id,
        Taken::Unchanged => unreachable!("it was to be taken in any case"),
    }
}

/// Reads of segments that `work` takes.
fn reads(lab: &Lab, work: impl FnOnce()) -> u64 {
    let before = lab.counters().segments.reads;
    work();
    lab.counters().segments.reads - before
}

fn entries(lab: &Lab, directory: InodeId) -> Vec<(Vec<u8>, InodeId)> {
    let mut all = Vec::new();
    let mut after = 0;
    loop {
        let page = lab.list(
            &Caller::root(),
            directory,
            after,
            1_000,
            Listing::WithReferences,
        );
        let page = page.expect("lists");
        let Some(last) = page.last() else { return all };
        after = last.cookie;
        all.extend(page.into_iter().map(|entry| (entry.name, entry.inode)));
    }
}

/// Failed before: each node was a read of its own.
#[test]
fn nodes_of_a_snapshot_are_fetched_many_at_once() {
    let mut lab = Lab::new();
    fill(&lab);
    let first = take(&lab);
    lab.reopen();
    let looked = reads(&lab, || {
        let top = lab
            .lookup(&Caller::root(), ROOT, b".history")
            .expect("is there")
            .inode;
        let name = first.to_string()[..16].to_owned();
        let tree = lab
            .lookup(&Caller::root(), top, name.as_bytes())
            .expect("is there")
            .inode;
        let directories = entries(&lab, tree);
        assert_eq!(directories.len() as u64, DIRECTORIES);
        for (_, directory) in directories {
            assert_eq!(entries(&lab, directory).len() as u64, FILES);
        }
    });
    empty(&lab);
    take(&lab);
    lab.reopen();
    let given_back = reads(&lab, || {
        lab.remove_revision(first, || Ok::<_, Error>(()))
            .expect("goes");
        lab.compact().expect("compacts");
    });
    for (reads, what) in [(looked, "look at"), (given_back, "give back")] {
        assert!(
            reads <= DIRECTORIES / 10,
            "{reads} reads to {what} {DIRECTORIES} nodes"
        );
    }
}
