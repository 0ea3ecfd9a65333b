//! The disk keeps what it must keep, loses only what it may lose, and repeats both from the same seed.

use std::collections::BTreeSet;

use super::content::FileState;
use super::names::{Entries, Slot};
use super::state::{Body, OnTarget, ROOT};
use super::*;

impl Disk {
    fn make_file(&self, parent: u64, name: &str) -> u64 {
        self.change(Call::Create, |state, _| {
            state.create(
                parent,
                name.as_bytes(),
                Body::File(FileState::default()),
                0o644,
            )
        })
        .unwrap()
    }

    fn make_directory(&self, parent: u64, name: &str) -> u64 {
        self.change(Call::Create, |state, _| {
            state.create(
                parent,
                name.as_bytes(),
                Body::Directory(Entries::new()),
                0o755,
            )
        })
        .unwrap()
    }

    fn put(&self, file: u64, offset: u64, data: &[u8]) -> Result<(), Errno> {
        self.change(Call::Write, |state, _| state.write(file, offset, data))
    }

    fn rename(&self, from: (u64, &str), to: (u64, &str)) -> Result<(), Errno> {
        let slot = |(parent, name): (u64, &str)| -> Slot { (parent, name.as_bytes().to_vec()) };
        self.change(Call::Name, |state, _| {
            state.rename(&slot(from), &slot(to), OnTarget::Replace)
        })
    }

    fn remove(&self, parent: u64, name: &str, directory: bool) -> Result<(), Errno> {
        self.change(Call::Name, |state, _| {
            state.remove(parent, name.as_bytes(), directory)
        })
    }

    /// The whole tree as text: one line a node, directories with a slash, files with their content.
    fn tree(&self) -> Vec<String> {
        fn walk(state: &State, number: u64, path: &str, out: &mut Vec<String>) {
            match &state.node(number).unwrap().body {
                Body::File(file) => out.push(format!(
                    "{path}={:?}",
                    String::from_utf8_lossy(&file.live().read(0, 64))
                )),
                Body::Symlink(target) => {
                    out.push(format!("{path}->{}", String::from_utf8_lossy(target)))
                }
                Body::Directory(entries) => {
                    out.push(format!("{path}/"));
                    for (name, child) in entries {
                        walk(
                            state,
                            *child,
                            &format!("{path}/{}", String::from_utf8_lossy(name)),
                            out,
                        );
                    }
                }
            }
        }
        let mut out = Vec::new();
        walk(&self.inner.lock().state, ROOT, "", &mut out);
        out
    }

    /// Every tree that some cut now leaves.
    fn outcomes(&self) -> BTreeSet<Vec<String>> {
        let now = self.freeze();
        Policy::ALL
            .iter()
            .flat_map(|policy| (0..100).map(|seed| now.after_cut(*policy, seed).tree()))
            .collect()
    }
}

#[test]
fn a_synced_file_in_a_synced_directory_survives_every_cut() {
    let disk = Disk::new(NameSync::Directory);
    let file = disk.make_file(ROOT, "kept");
    disk.put(file, 0, b"content").unwrap();
    disk.sync(file).unwrap();
    disk.sync(ROOT).unwrap();
    assert_eq!(disk.outcomes(), BTreeSet::from([disk.tree()]));
}

#[test]
fn syncing_a_file_alone_does_not_keep_its_name() {
    let disk = Disk::new(NameSync::Directory);
    let file = disk.make_file(ROOT, "kept");
    disk.put(file, 0, b"content").unwrap();
    disk.sync(file).unwrap();
    assert!(disk.outcomes().contains(&vec!["/".to_owned()]));
}

#[test]
fn under_a_journal_syncing_a_file_keeps_its_name() {
    let disk = Disk::new(NameSync::Journal);
    let file = disk.make_file(ROOT, "kept");
    disk.sync(file).unwrap();
    assert_eq!(disk.outcomes(), BTreeSet::from([disk.tree()]));
}

#[test]
fn a_rename_without_a_directory_sync_may_be_lost_but_never_halved() {
    let disk = Disk::new(NameSync::Directory);
    let (left, right) = (
        disk.make_directory(ROOT, "left"),
        disk.make_directory(ROOT, "right"),
    );
    disk.make_file(left, "file");
    disk.sync(left).unwrap();
    disk.sync(ROOT).unwrap();
    disk.rename((left, "file"), (right, "file")).unwrap();
    let with = |at: &str| {
        disk.outcomes()
            .iter()
            .any(|tree| tree.iter().any(|line| line.starts_with(at)))
    };
    assert!(with("/left/file") && with("/right/file"));
    for tree in disk.outcomes() {
        assert_eq!(
            tree.iter().filter(|line| line.contains("/file=")).count(),
            1,
            "{tree:?}"
        );
    }
    disk.sync(right).unwrap();
    assert_eq!(disk.outcomes(), BTreeSet::from([disk.tree()]));
}

#[test]
fn a_removed_directory_never_takes_a_child_with_it_whose_move_was_lost() {
    let disk = Disk::new(NameSync::Directory);
    let old = disk.make_directory(ROOT, "old");
    disk.make_file(old, "file");
    disk.sync(old).unwrap();
    disk.sync(ROOT).unwrap();
    let new = disk.make_directory(ROOT, "new");
    disk.sync(ROOT).unwrap();
    disk.rename((old, "file"), (new, "file")).unwrap();
    disk.remove(ROOT, "old", true).unwrap();
    for tree in disk.outcomes() {
        assert!(tree.iter().any(|line| line.contains("/file=")), "{tree:?}");
    }
}

#[test]
fn two_moves_of_directories_never_leave_a_cycle() {
    let disk = Disk::new(NameSync::Directory);
    let outer = disk.make_directory(ROOT, "outer");
    let inner = disk.make_directory(outer, "inner");
    disk.make_file(outer, "a");
    disk.make_file(inner, "b");
    for directory in [ROOT, outer, inner] {
        disk.sync(directory).unwrap();
    }
    disk.rename((outer, "inner"), (ROOT, "inner")).unwrap();
    disk.rename((ROOT, "outer"), (inner, "outer")).unwrap();
    for tree in disk.outcomes() {
        let files = tree
            .iter()
            .filter(|line| line.contains("/a=") || line.contains("/b="))
            .count();
        assert_eq!(files, 2, "{tree:?}");
    }
}

#[test]
fn one_seed_leaves_one_tree() {
    let run = || {
        let disk = Disk::new(NameSync::Directory);
        for at in 0..20 {
            let file = disk.make_file(ROOT, &format!("file{at}"));
            disk.put(file, at * 100, &vec![at as u8; 9000]).unwrap();
            if at % 3 == 0 {
                disk.sync(file).unwrap();
            }
        }
        disk.freeze()
    };
    let (first, second) = (run(), run());
    for seed in 0..20 {
        assert_eq!(
            first.after_cut(Policy::TORN, seed).tree(),
            second.after_cut(Policy::TORN, seed).tree()
        );
    }
    let distinct: BTreeSet<_> = (0..20)
        .map(|seed| first.after_cut(Policy::TORN, seed).tree())
        .collect();
    assert!(
        distinct.len() > 10,
        "only {} outcomes of 20 seeds",
        distinct.len()
    );
}

#[test]
fn after_a_cut_every_request_fails_and_nothing_changes() {
    let disk = Disk::new(NameSync::Directory);
    let file = disk.make_file(ROOT, "file");
    disk.cut_before(3);
    disk.put(file, 0, b"one").unwrap();
    let before = disk.tree();
    assert_eq!(disk.put(file, 0, b"two"), Err(Errno::IO));
    assert_eq!(disk.sync(file), Err(Errno::IO));
    assert!(!disk.is_powered());
    let frozen = disk.take_frozen();
    assert_eq!(frozen.len(), 1);
    assert_eq!(frozen[0].calls, 2);
    assert_eq!(frozen[0].after_cut(Policy::KEEP_ALL, 0).tree(), before);
}

#[test]
fn a_frozen_moment_knows_how_far_the_program_was() {
    let disk = Disk::new(NameSync::Directory);
    let progress = disk.progress();
    disk.freeze_before(2);
    progress.note(0, Mark::Start);
    let file = disk.make_file(ROOT, "file");
    progress.note(0, Mark::Return);
    progress.note(0, Mark::Start);
    disk.put(file, 0, b"x").unwrap();
    let frozen = disk.take_frozen();
    assert_eq!(
        frozen[0].threads[0],
        Reached {
            started: 2,
            returned: 1
        }
    );
}

#[test]
fn a_sync_that_fails_loses_the_pages_for_good() {
    let disk = Disk::new(NameSync::Journal);
    let file = disk.make_file(ROOT, "file");
    disk.sync(file).unwrap();
    disk.put(file, 0, b"lost").unwrap();
    disk.plan(Fault {
        call: Some(Call::Sync),
        nth: 1,
        failure: Failure::Io,
        lasting: false,
    });
    assert_eq!(disk.sync(file), Err(Errno::IO));
    assert_eq!(disk.sync(file), Ok(()));
    assert_eq!(disk.faults_struck(), 1);
    assert!(
        disk.outcomes()
            .iter()
            .any(|tree| !tree.concat().contains("lost"))
    );
}
