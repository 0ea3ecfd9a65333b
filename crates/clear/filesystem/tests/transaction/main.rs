//! A list of operations takes effect as a whole or not at all, in memory and on the disk.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod join;
#[path = "../support/mod.rs"]
mod support;

use std::sync::atomic::{AtomicBool, Ordering};

use strongroom_filesystem::{
    Attributes, Caller, Content, Draft, Durability, Error, Filesystem, InodeId, Listing, NewNode,
    NodeKind, RenameMode, Result, SetAttributes, XattrMode,
};

use support::{Lab, ROOT, assert_refused, user};

fn content(offset: u64, data: &[u8]) -> Content {
    Content {
        offset,
        data: data.into(),
    }
}

fn new(kind: NodeKind) -> NewNode {
    NewNode {
        kind,
        mode: 0o640,
        rdev: 0,
        target: match kind {
            NodeKind::Symlink => b"where".to_vec(),
            _ => Vec::new(),
        },
    }
}

fn mode(mode: u32) -> SetAttributes {
    SetAttributes {
        mode: Some(mode),
        ..SetAttributes::default()
    }
}

fn size(size: u64) -> SetAttributes {
    SetAttributes {
        size: Some(size),
        ..SetAttributes::default()
    }
}

/// Runs a list as the superuser.
fn apply<T>(
    lab: &Filesystem,
    contents: &[Content],
    durability: Durability,
    run: impl FnMut(&mut Draft<'_>) -> Result<T>,
) -> Result<T> {
    lab.transaction(&Caller::root(), contents, durability, run)
}

/// The tree that the lists below work on, with content that is in memory only.
struct Tree {
    directory: InodeId,
    /// Pending content, an xattr, a capability.
    file: InodeId,
    /// Two names.
    twice: InodeId,
    /// Stored content.
    open: InodeId,
}

fn tree(lab: &Lab) -> Tree {
    let directory = lab.directory(ROOT, "directory");
    lab.directory(directory, "empty");
    let file = lab.file(directory, "file");
    let twice = lab.file(directory, "twice");
    let open = lab.file(directory, "open");
    let target = lab.file(directory, "target");
    lab.write(open, 0, &[7; 100_000]).unwrap();
    let root = Caller::root();
    lab.link(&root, twice, ROOT, b"other").unwrap();
    for (name, value) in [
        (&b"user.a"[..], &b"one"[..]),
        (b"security.capability", b"c"),
    ] {
        lab.set_xattr(&root, file, name, value, XattrMode::Set)
            .unwrap();
    }
    // Nobody holds what making and linking handed out.
    for inode in [directory, file, twice, open, target] {
        lab.forget(inode, u64::MAX);
    }
    lab.sync().unwrap();
    lab.write(file, 0, b"pending content").unwrap();
    lab.write(twice, 0, b"pending too").unwrap();
    Tree {
        directory,
        file,
        twice,
        open,
    }
}

/// One step of the longest list: each touches something else that a roll-back must restore.
type Step = fn(&mut Draft<'_>, &Tree) -> Result<()>;

const STEPS: &[Step] = &[
    |draft, tree| {
        draft
            .create(tree.directory, b"new", &new(NodeKind::File))
            .map(drop)
    },
    |draft, tree| {
        let made = draft.lookup(tree.directory, b"new")?;
        draft.write(made.inode, 0)
    },
    |draft, _| {
        draft
            .create(ROOT, b"made", &new(NodeKind::Directory))
            .map(drop)
    },
    |draft, _| {
        let made = draft.lookup(ROOT, b"made")?;
        draft
            .create(made.inode, b"link", &new(NodeKind::Symlink))
            .map(drop)
    },
    |draft, tree| draft.write(tree.file, 1),
    |draft, tree| draft.set_attributes(tree.twice, &size(4)).map(drop),
    |draft, tree| draft.set_attributes(tree.open, &mode(0o400)).map(drop),
    |draft, tree| draft.link(tree.open, ROOT, b"third").map(drop),
    |draft, tree| draft.unlink(tree.directory, b"open"),
    |draft, _| draft.unlink(ROOT, b"third"),
    |draft, tree| draft.remove_directory(tree.directory, b"empty"),
    |draft, tree| {
        let (from, to) = (
            (tree.directory, &b"twice"[..]),
            (tree.directory, &b"target"[..]),
        );
        draft.rename(from, to, RenameMode::Replace)
    },
    |draft, tree| {
        let (from, to) = ((tree.directory, &b"file"[..]), (ROOT, &b"made"[..]));
        draft.rename(from, to, RenameMode::Exchange)
    },
    |draft, tree| {
        let (from, to) = ((tree.directory, &b"file"[..]), (ROOT, &b"moved"[..]));
        draft.rename(from, to, RenameMode::Whiteout)
    },
    |draft, tree| draft.set_xattr(tree.file, b"user.a", b"two", XattrMode::ReplaceOnly),
    |draft, tree| draft.remove_xattr(tree.file, b"user.a"),
    |draft, tree| draft.set_xattr(tree.open, b"user.b", b"new", XattrMode::CreateOnly),
];

fn contents() -> Vec<Content> {
    vec![content(0, &[1; 150_000]), content(8, b"CONTENT and more")]
}

/// Everything that can be seen of a file system, and what it counts.
fn seen(lab: &Lab, tree: &Tree) -> String {
    let root = Caller::root();
    let mut text = String::new();
    let mut ahead = vec![ROOT];
    while let Some(directory) = ahead.pop() {
        let page = lab
            .list(&root, directory, 0, usize::MAX, Listing::WithAttributes)
            .unwrap();
        for entry in page {
            if entry.kind == NodeKind::Directory {
                ahead.push(entry.inode);
            }
            text += &format!("{directory:?} {entry:?}\n");
        }
    }
    for inode in [ROOT, tree.directory, tree.file, tree.twice, tree.open] {
        text += &format!("{:?}\n", lab.stat(inode));
        for name in lab.xattrs(&root, inode).unwrap() {
            text += &format!("{name:?} {:?}\n", lab.xattr(&root, inode, &name));
        }
    }
    for file in [tree.file, tree.twice, tree.open] {
        text += &format!("{:?}\n", lab.content(file));
    }
    text + &format!("{}", lab.space().unwrap().inodes)
}

#[test]
fn a_list_happens_whole_and_is_durable_on_return_if_asked() {
    let mut lab = Lab::new();
    let tree = tree(&lab);
    let run = |draft: &mut Draft<'_>| STEPS.iter().try_for_each(|step| step(draft, &tree));
    apply(&lab, &contents(), Durability::OnReturn, run).unwrap();
    for round in 0..2 {
        assert_eq!(
            lab.names(ROOT),
            ["directory", "made", "moved", "other"],
            "{round}"
        );
        assert_eq!(
            lab.names(tree.directory),
            ["file", "new", "target"],
            "{round}"
        );
        assert_eq!(lab.find(ROOT, "made"), Some(tree.file), "{round}");
        assert_eq!(
            lab.find(tree.directory, "target"),
            Some(tree.twice),
            "{round}"
        );
        assert_eq!(
            lab.content(tree.file),
            b"pending CONTENT and more",
            "{round}"
        );
        assert_eq!(lab.content(tree.twice), b"pend", "{round}");
        let made = lab.find(tree.directory, "new").unwrap();
        let mut whole = vec![0; 200_000];
        assert_eq!(lab.read(made, 0, &mut whole).unwrap(), 150_000, "{round}");
        assert!(whole[..150_000].iter().all(|byte| *byte == 1), "{round}");
        let moved = lab.find(ROOT, "moved").unwrap();
        assert_eq!(lab.names(moved), ["link"], "{round}");
        let left = lab.find(tree.directory, "file").unwrap();
        let left = lab.attributes(left).unwrap();
        assert_eq!((left.kind, left.rdev), (NodeKind::CharDevice, 0), "{round}");
        lab.crash();
    }
}

/// Goal: a failure at any step leaves nothing. Method: every step's turn to be the last before a failure.
#[test]
fn a_failure_at_any_step_leaves_everything_as_it_was() {
    let lab = Lab::new();
    let tree = tree(&lab);
    // Held open by somebody, over the removal that is taken back.
    lab.lookup(&Caller::root(), tree.directory, b"open")
        .unwrap();
    // What a failed list stored first is the same content, elsewhere.
    lab.sync().unwrap();
    let before = seen(&lab, &tree);
    for count in 0..=STEPS.len() {
        let failed = apply(&lab, &contents(), Durability::OnReturn, |draft| {
            STEPS[..count]
                .iter()
                .try_for_each(|step| step(draft, &tree))?;
            draft.unlink(ROOT, b"missing")
        });
        assert!(matches!(failed, Err(Error::NotFound)), "{failed:?}");
        assert_eq!(seen(&lab, &tree), before, "after {count} steps");
        assert_eq!(lab.counters().dirty_bytes, 0);
        lab.tick().unwrap();
        assert_eq!(
            seen(&lab, &tree),
            before,
            "after {count} steps and a commit"
        );
        assert_eq!(lab.check().unwrap().problems, Vec::<String>::new());
    }
    lab.forget(tree.open, 1);
    lab.tick().unwrap();
    assert_eq!(lab.content(tree.open)[0], 7);
}

#[test]
fn a_failed_list_leaves_content_in_memory_and_what_is_known_of_it() {
    let lab = Lab::new();
    let tree = tree(&lab);
    let before = seen(&lab, &tree);
    let dirty = lab.counters().dirty_bytes;
    let failed = apply(&lab, &contents(), Durability::WriteBehind, |draft| {
        STEPS.iter().try_for_each(|step| step(draft, &tree))?;
        Err::<(), _>(Error::NotEmpty)
    });
    assert!(matches!(failed, Err(Error::NotEmpty)));
    assert_eq!(seen(&lab, &tree), before);
    assert_eq!(lab.counters().dirty_bytes, dirty);
}

/// Goal: a cut finds all of a list that a commit covered, and nothing of one that none did.
#[test]
fn a_cut_before_the_commit_leaves_nothing_of_a_list_and_one_after_it_all() {
    let mut lab = Lab::new();
    let tree = tree(&lab);
    let run = |draft: &mut Draft<'_>| {
        let made = draft.create(ROOT, b"a", &new(NodeKind::File))?;
        draft.write(made.inode, 0)?;
        draft.write(tree.open, 1)
    };
    let contents = [content(0, b"of a"), content(0, b"of open")];
    apply(&lab, &contents, Durability::WriteBehind, run).unwrap();
    lab.crash();
    assert_eq!(lab.find(ROOT, "a"), None);
    assert_eq!(lab.content(tree.open)[..7], [7; 7]);
    apply(&lab, &contents, Durability::WriteBehind, run).unwrap();
    // Of something else: one commit carries both.
    lab.sync_inode(ROOT).unwrap();
    lab.crash();
    assert_eq!(lab.content(lab.find(ROOT, "a").unwrap()), b"of a");
    assert_eq!(lab.content(tree.open)[..8], *b"of open\x07");
}

#[test]
fn what_was_written_before_the_list_lies_below_what_the_list_writes() {
    let mut lab = Lab::new();
    let file = lab.file(ROOT, "file");
    lab.write(file, 0, &[1; 70_000]).unwrap();
    apply(
        &lab,
        &[content(65_530, &[2; 10])],
        Durability::WriteBehind,
        |draft| draft.write(file, 0),
    )
    .unwrap();
    lab.write(file, 65_535, &[3; 2]).unwrap();
    for _ in 0..2 {
        let mut found = vec![0; 80_000];
        assert_eq!(lab.read(file, 0, &mut found).unwrap(), 70_000);
        assert_eq!(
            found[65_528..65_542],
            [1, 1, 2, 2, 2, 2, 2, 3, 3, 2, 2, 2, 1, 1]
        );
        lab.reopen();
    }
}

#[test]
fn a_file_that_is_cut_and_written_in_one_list_has_zeros_between() {
    let mut lab = Lab::new();
    let file = lab.file(ROOT, "file");
    lab.write(file, 0, &[1; 200_000]).unwrap();
    apply(
        &lab,
        &[content(131_080, b"end")],
        Durability::WriteBehind,
        |draft| {
            draft.set_attributes(file, &size(5))?;
            draft.write(file, 0)
        },
    )
    .unwrap();
    for _ in 0..2 {
        let mut found = vec![9; 200_000];
        assert_eq!(lab.read(file, 0, &mut found).unwrap(), 131_083);
        assert_eq!(found[..6], [1, 1, 1, 1, 1, 0]);
        assert!(found[5..131_080].iter().all(|byte| *byte == 0));
        assert_eq!(found[131_080..131_083], *b"end");
        lab.reopen();
    }
}

#[test]
fn a_node_that_is_made_and_removed_in_one_list_leaves_nothing() {
    let lab = Lab::new();
    let before = lab.space().unwrap().inodes;
    apply(
        &lab,
        &[content(0, &[5; 100_000])],
        Durability::WriteBehind,
        |draft| {
            let made = draft.create(ROOT, b"brief", &new(NodeKind::File))?;
            draft.write(made.inode, 0)?;
            draft.unlink(ROOT, b"brief")
        },
    )
    .unwrap();
    lab.tick().unwrap();
    assert_eq!(lab.names(ROOT), [""; 0]);
    assert_eq!(lab.space().unwrap().inodes, before);
}

#[test]
fn a_file_that_a_list_removes_lives_on_while_it_is_held_and_goes_after() {
    let lab = Lab::new();
    let tree = tree(&lab);
    lab.lookup(&Caller::root(), tree.directory, b"open")
        .unwrap();
    let before = lab.space().unwrap().inodes;
    apply(&lab, &[], Durability::WriteBehind, |draft| {
        draft.unlink(tree.directory, b"open")?;
        draft.rename(
            (ROOT, b"other"),
            (tree.directory, b"target"),
            RenameMode::Replace,
        )
    })
    .unwrap();
    lab.tick().unwrap();
    // The target, which nobody held, is gone; the other is not.
    assert_eq!(lab.space().unwrap().inodes, before - 1);
    assert_eq!(
        (lab.stat(tree.open).nlink, lab.content(tree.open)[0]),
        (0, 7)
    );
    lab.forget(tree.open, 1);
    lab.tick().unwrap();
    assert_eq!(lab.space().unwrap().inodes, before - 2);
    assert!(matches!(lab.attributes(tree.open), Err(Error::Stale)));
}

#[test]
fn permissions_are_those_of_the_caller_and_a_write_drops_privileges() {
    let lab = Lab::new();
    let file = lab.file(ROOT, "program");
    let root = Caller::root();
    lab.set_xattr(&root, file, b"security.capability", b"c", XattrMode::Set)
        .unwrap();
    lab.chmod(file, 0o6777);
    let write = |who: &Caller| {
        let contents = [content(0, b"x")];
        lab.transaction(who, &contents, Durability::WriteBehind, |draft| {
            draft.write(file, 0)?;
            draft.set_attributes(file, &mode(0o777)).map(drop)
        })
    };
    assert!(matches!(write(&user(5)), Err(Error::NotPermitted)));
    assert_eq!(lab.stat(file).mode, 0o6777);
    assert!(lab.xattr(&root, file, b"security.capability").is_ok());
    lab.transaction(
        &user(5),
        &[content(0, b"x")],
        Durability::WriteBehind,
        |draft| draft.write(file, 0),
    )
    .unwrap();
    assert_eq!(lab.stat(file).mode, 0o777);
    assert!(matches!(
        lab.xattr(&root, file, b"security.capability"),
        Err(Error::NoAttribute)
    ));
}

#[test]
fn content_beyond_the_quota_or_the_disk_is_refused_before_anything_happens() {
    let mut lab = Lab::new();
    lab.set_quota(Some(3 << 20)).unwrap();
    let put = |lab: &Lab, name: &str, byte: u8| {
        // Every block differs, so that none shares another's place.
        let word = |at: u32| (at ^ u32::from(byte) << 24).to_le_bytes();
        let data: Vec<u8> = (0..100_000).flat_map(word).collect();
        apply(
            lab,
            &[content(0, &data)],
            Durability::WriteBehind,
            |draft| {
                let made = draft.create(ROOT, name.as_bytes(), &new(NodeKind::File))?;
                draft.write(made.inode, 0)
            },
        )
    };
    // Counted at once: no commit or reclaim runs meanwhile.
    let results: Vec<_> = (0..10)
        .map(|at| put(&lab, &format!("file{at}"), at))
        .collect();
    let taken = results.iter().take_while(|result| result.is_ok()).count();
    assert!((3..8).contains(&taken), "{taken}");
    for refused in &results[taken..] {
        assert!(matches!(refused, Err(Error::QuotaExceeded)), "{refused:?}");
    }
    assert_eq!(lab.names(ROOT).len(), taken);
    lab.set_quota(None).unwrap();
    lab.reopen();
    lab.fill_disk(true);
    assert!(matches!(put(&lab, "four", 1), Err(Error::NoSpace)));
    lab.fill_disk(false);
    assert_eq!(lab.names(ROOT).len(), taken);
}

#[test]
fn a_vault_open_for_reading_takes_no_list() {
    let mut lab = Lab::new();
    lab.reopen_read_only();
    let refused = apply(&lab, &[], Durability::OnReturn, |draft| {
        draft.create(ROOT, b"a", &new(NodeKind::File)).map(drop)
    });
    assert_refused!(refused, Error::ReadOnly);
}

#[test]
fn a_list_that_panics_leaves_nothing_and_the_vault_in_use() {
    let mut lab = Lab::new();
    lab.file(ROOT, "before");
    lab.sync().unwrap();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        apply(&lab, &[], Durability::OnReturn, |draft| -> Result<()> {
            draft.create(ROOT, b"half", &new(NodeKind::File))?;
            panic!("a bug");
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(lab.names(ROOT), ["before"]);
    lab.file(ROOT, "after");
    lab.sync().unwrap();
    lab.crash();
    assert_eq!(lab.names(ROOT), ["after", "before"]);
}

/// Goal: nobody sees a state between. Method: a list that moves names and sizes back and forth, and readers who
/// look at all of it in one call, or at one part after the other.
#[test]
fn readers_at_the_same_time_see_all_of_a_list_or_nothing() {
    const ROUNDS: u64 = 300;
    let lab = Lab::new();
    let (first, second) = (lab.file(ROOT, "a1"), lab.file(ROOT, "b1"));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let lab: &Filesystem = &lab;
        let done = &done;
        let mut looks = Vec::new();
        looks.push(scope.spawn(move || {
            let mut looks = 0;
            while !done.load(Ordering::Acquire) {
                let page = lab
                    .list(&Caller::root(), ROOT, 0, 9, Listing::WithAttributes)
                    .unwrap();
                let mut names: Vec<(Vec<u8>, Attributes)> = page
                    .into_iter()
                    .map(|entry| (entry.name, entry.attributes.unwrap()))
                    .collect();
                names.sort_by(|one, other| one.0.cmp(&other.0));
                assert_eq!(names[0].0[1], names[1].0[1], "{names:?}");
                assert_eq!(names[0].1.size, names[1].1.size, "{names:?}");
                looks += 1;
            }
            looks
        }));
        looks.push(scope.spawn(move || {
            let mut looks = 0;
            while !done.load(Ordering::Acquire) {
                // The list grows both: who sees one grown sees the other grown as well.
                let one = lab.attributes(first).unwrap().size;
                let other = lab.attributes(second).unwrap().size;
                assert!(other >= one, "{other} after {one}");
                looks += 1;
            }
            looks
        }));
        for round in 1..=ROUNDS {
            let (old, new) = if round % 2 == 1 {
                (b'1', b'2')
            } else {
                (b'2', b'1')
            };
            let contents = [content(round, b"x"), content(round, b"y")];
            apply(lab, &contents, Durability::WriteBehind, |draft| {
                draft.rename(
                    (ROOT, &[b'a', old]),
                    (ROOT, &[b'a', new]),
                    RenameMode::NoReplace,
                )?;
                draft.write(first, 0)?;
                draft.write(second, 1)?;
                draft.rename(
                    (ROOT, &[b'b', old]),
                    (ROOT, &[b'b', new]),
                    RenameMode::NoReplace,
                )
            })
            .unwrap();
        }
        done.store(true, Ordering::Release);
        for thread in looks {
            thread.join().unwrap();
        }
    });
    assert_eq!(
        (lab.stat(first).size, lab.stat(second).size),
        (ROUNDS + 1, ROUNDS + 1)
    );
}

/// Goal: of lists that exclude one another exactly one wins each time. Method: a counter kept as a name.
#[test]
fn lists_that_race_for_one_name_win_one_after_the_other() {
    const WINS: u64 = 50;
    let lab = Lab::new();
    lab.file(ROOT, "0");
    let won: u64 = std::thread::scope(|scope| {
        let lab: &Filesystem = &lab;
        let race = move || {
            let mut won = 0;
            for at in 0..WINS {
                let (old, new) = (at.to_string(), (at + 1).to_string());
                let result = apply(
                    lab,
                    &[content(at, b"x")],
                    Durability::WriteBehind,
                    |draft| {
                        let (old, new) = ((ROOT, old.as_bytes()), (ROOT, new.as_bytes()));
                        draft.rename(old, new, RenameMode::NoReplace)?;
                        let moved = draft.lookup(ROOT, new.1)?;
                        draft.write(moved.inode, 0)
                    },
                );
                match result {
                    Ok(()) => won += 1,
                    Err(Error::NotFound) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            won
        };
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(race)).collect();
        // Others work and commit meanwhile.
        for name in 0..20 {
            let other = lab.create(
                &Caller::root(),
                ROOT,
                format!("o{name}").as_bytes(),
                &new(NodeKind::File),
            );
            lab.write(other.unwrap().inode, 0, &[1; 5_000]).unwrap();
            lab.sync().unwrap();
        }
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    assert_eq!(won, WINS);
    let last = lab.find(ROOT, &WINS.to_string()).unwrap();
    assert_eq!(lab.content(last), vec![b'x'; WINS as usize]);
}
