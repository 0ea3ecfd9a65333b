//! Renames: the names that move, the names that are replaced, and the requests that are refused.

use strongroom_filesystem::{Error, InodeId, NodeKind, RenameMode};

use crate::support::{Lab, ROOT, assert_refused, superuser, user};

fn replace(lab: &Lab, from: InodeId, name: &str, to: InodeId, new_name: &str) -> Result<(), Error> {
    lab.rename(
        &superuser(),
        from,
        name.as_bytes(),
        to,
        new_name.as_bytes(),
        RenameMode::Replace,
    )
}

fn exchange(
    lab: &Lab,
    from: InodeId,
    name: &str,
    to: InodeId,
    new_name: &str,
) -> Result<(), Error> {
    lab.rename(
        &superuser(),
        from,
        name.as_bytes(),
        to,
        new_name.as_bytes(),
        RenameMode::Exchange,
    )
}

/// Failed before: there was no such rename.
#[test]
fn a_rename_leaves_a_whiteout_where_it_is_asked_to() {
    let mut lab = Lab::new();
    let (from, to) = (lab.directory(ROOT, "from"), lab.directory(ROOT, "to"));
    lab.file(from, "file");
    lab.file(from, "over");
    lab.directory(from, "directory");
    lab.file(to, "over");
    for (name, target, new_name) in [
        ("file", from, "renamed"),
        ("over", to, "over"),
        ("directory", to, "directory"),
    ] {
        let moved = lab.find(from, name).expect("there");
        let (name, new) = (name.as_bytes(), new_name.as_bytes());
        lab.rename(&superuser(), from, name, target, new, RenameMode::Whiteout)
            .expect("renamed");
        assert_eq!(lab.find(target, new_name), Some(moved));
    }
    let look = |lab: &Lab| {
        assert_eq!(lab.names(from), ["directory", "file", "over", "renamed"]);
        assert_eq!(lab.names(to), ["directory", "over"]);
        for name in ["file", "over", "directory"] {
            let left = lab.stat(lab.find(from, name).expect("there"));
            assert_eq!((left.kind, left.rdev), (NodeKind::CharDevice, 0));
            assert_eq!((left.mode, left.nlink), (0, 1));
        }
        assert_eq!((lab.stat(from).nlink, lab.stat(to).nlink), (2, 3));
        assert_eq!((lab.stat(from).size, lab.stat(to).size), (4 * 32, 2 * 32));
    };
    look(&lab);
    lab.reopen();
    look(&lab);
}

#[test]
fn a_file_gets_another_name_in_its_directory() {
    let lab = Lab::new();
    let file = lab.make(ROOT, "old", NodeKind::File, 0o600);
    let before = lab.stat(ROOT);
    replace(&lab, ROOT, "old", ROOT, "new").expect("renamed");
    let (node, parent) = (lab.stat(file.inode), lab.stat(ROOT));
    assert_eq!(lab.names(ROOT), ["new"]);
    assert_eq!((node.nlink, node.mtime), (1, file.mtime));
    assert!(
        node.ctime > file.ctime,
        "a rename counts as a change of the inode"
    );
    assert_eq!((parent.mtime, parent.ctime), (node.ctime, node.ctime));
    assert_eq!((parent.nlink, parent.size), (before.nlink, before.size));
}

#[test]
fn a_directory_takes_its_dot_dot_and_everything_below_along() {
    let mut lab = Lab::new();
    let (from, to) = (lab.directory(ROOT, "from"), lab.directory(ROOT, "to"));
    let moved = lab.directory(from, "d");
    let below = lab.directory(moved, "below");
    lab.file(moved, "f");
    replace(&lab, from, "d", to, "e").expect("moved");
    assert_eq!((lab.stat(from).nlink, lab.stat(from).size), (2, 0));
    assert_eq!((lab.stat(to).nlink, lab.stat(to).size), (3, 32));
    assert_eq!(
        (lab.stat(from).mtime, lab.stat(to).mtime),
        (lab.stat(moved).ctime, lab.stat(moved).ctime)
    );
    lab.reopen();
    assert_eq!(lab.parent(moved).expect("a directory"), to);
    assert_eq!(lab.parent(below).expect("a directory"), moved);
    assert_eq!(lab.names(moved), ["below", "f"]);
    assert_eq!(lab.find(to, "e"), Some(moved));
}

#[test]
fn a_replaced_file_lives_on_in_its_references_and_names() {
    let lab = Lab::new();
    let new = lab.file(ROOT, "new");
    let open = lab.file(ROOT, "open");
    lab.write(open, 0, b"old content").expect("written");
    replace(&lab, ROOT, "new", ROOT, "open").expect("replaced");
    assert_eq!(
        (lab.names(ROOT), lab.find(ROOT, "open")),
        (vec!["open".to_owned()], Some(new))
    );
    assert_eq!(
        (lab.stat(open).nlink, lab.stat(open).ctime),
        (0, lab.stat(new).ctime)
    );
    lab.tick().expect("background work");
    assert_eq!(lab.content(open), b"old content");
    lab.forget(open, 1);
    lab.tick().expect("background work");
    assert_refused!(lab.attributes(open), Error::Stale);
}

#[test]
fn a_replaced_file_that_nobody_uses_goes_at_once() {
    let lab = Lab::new();
    let new = lab.file(ROOT, "new");
    let old = lab.file(ROOT, "old");
    let linked = lab.file(ROOT, "linked");
    lab.link(&superuser(), linked, ROOT, b"linked 2")
        .expect("linked");
    lab.forget(old, 1);
    lab.forget(linked, 2);
    replace(&lab, ROOT, "new", ROOT, "old").expect("replaced");
    replace(&lab, ROOT, "old", ROOT, "linked").expect("replaced");
    lab.tick().expect("background work");
    assert_refused!(lab.attributes(old), Error::Stale);
    assert_eq!((lab.stat(linked).nlink, lab.stat(new).nlink), (1, 1));
    assert_eq!(lab.names(ROOT), ["linked", "linked 2"]);
}

#[test]
fn an_empty_directory_is_replaced_by_a_directory() {
    let lab = Lab::new();
    let (from, to) = (lab.directory(ROOT, "from"), lab.directory(ROOT, "to"));
    let moved = lab.directory(from, "d");
    let replaced = lab.directory(to, "d");
    replace(&lab, from, "d", to, "d").expect("replaced");
    assert_eq!((lab.stat(from).nlink, lab.stat(from).size), (2, 0));
    assert_eq!((lab.stat(to).nlink, lab.stat(to).size), (3, 32));
    assert_eq!(
        (
            lab.stat(replaced).nlink,
            lab.parent(moved).expect("a directory")
        ),
        (0, to)
    );
    let within = lab.directory(to, "within");
    replace(&lab, to, "d", to, "within").expect("replaced");
    assert_eq!((lab.stat(to).nlink, lab.stat(to).size), (3, 32));
    assert_eq!(
        (lab.stat(within).nlink, lab.find(to, "within")),
        (0, Some(moved))
    );
}

#[test]
fn what_cannot_replace_is_refused_and_changes_nothing() {
    let lab = Lab::new();
    let file = lab.file(ROOT, "file");
    let empty = lab.directory(ROOT, "empty");
    let full = lab.directory(ROOT, "full");
    lab.file(full, "f");
    let stats = || [ROOT, file, empty, full].map(|inode| lab.stat(inode));
    let before = stats();
    assert_refused!(replace(&lab, ROOT, "none", ROOT, "x"), Error::NotFound);
    assert_refused!(
        replace(&lab, ROOT, "file", ROOT, "empty"),
        Error::IsADirectory
    );
    assert_refused!(
        replace(&lab, ROOT, "empty", ROOT, "file"),
        Error::NotADirectory
    );
    assert_refused!(replace(&lab, ROOT, "empty", ROOT, "full"), Error::NotEmpty);
    assert_refused!(replace(&lab, ROOT, "file", file, "x"), Error::NotADirectory);
    assert_refused!(replace(&lab, file, "x", ROOT, "x"), Error::NotADirectory);
    assert_refused!(
        replace(&lab, ROOT, "file", ROOT, &"n".repeat(256)),
        Error::NameTooLong
    );
    let kept = lab.rename(
        &superuser(),
        ROOT,
        b"file",
        ROOT,
        b"empty",
        RenameMode::NoReplace,
    );
    assert_refused!(kept, Error::Exists);
    let kept = lab.rename(
        &superuser(),
        ROOT,
        b"file",
        ROOT,
        b"file",
        RenameMode::NoReplace,
    );
    assert_refused!(kept, Error::Exists);
    assert_refused!(exchange(&lab, ROOT, "file", ROOT, "none"), Error::NotFound);
    assert_eq!(stats(), before);
    lab.rename(
        &superuser(),
        ROOT,
        b"file",
        ROOT,
        b"free",
        RenameMode::NoReplace,
    )
    .expect("the name is free");
    assert_eq!(lab.names(ROOT), ["empty", "free", "full"]);
}

#[test]
fn two_names_of_one_node_both_stay() {
    let lab = Lab::new();
    let file = lab.file(ROOT, "one");
    lab.link(&superuser(), file, ROOT, b"two").expect("linked");
    let before = (lab.stat(file), lab.stat(ROOT));
    replace(&lab, ROOT, "one", ROOT, "two").expect("nothing to do");
    replace(&lab, ROOT, "one", ROOT, "one").expect("nothing to do");
    exchange(&lab, ROOT, "one", ROOT, "two").expect("nothing to do");
    assert_eq!((lab.stat(file), lab.stat(ROOT)), before);
    assert_eq!(lab.names(ROOT), ["one", "two"]);
}

#[test]
fn no_directory_comes_to_lie_below_itself() {
    let lab = Lab::new();
    let a = lab.directory(ROOT, "a");
    let b = lab.directory(a, "b");
    let c = lab.directory(b, "c");
    lab.file(c, "f");
    assert_refused!(replace(&lab, ROOT, "a", a, "x"), Error::InvalidArgument(_));
    assert_refused!(replace(&lab, ROOT, "a", c, "x"), Error::InvalidArgument(_));
    assert_refused!(exchange(&lab, ROOT, "a", b, "c"), Error::InvalidArgument(_));
    assert_refused!(exchange(&lab, b, "c", ROOT, "a"), Error::InvalidArgument(_));
    assert_refused!(exchange(&lab, c, "f", ROOT, "a"), Error::InvalidArgument(_));
    assert_refused!(replace(&lab, b, "c", ROOT, "a"), Error::NotEmpty);
    assert_refused!(replace(&lab, c, "f", ROOT, "a"), Error::NotEmpty);
    assert_eq!(
        (lab.find(ROOT, "a"), lab.find(a, "b"), lab.find(b, "c")),
        (Some(a), Some(b), Some(c))
    );
}

/// Goal: the check for cycles and the move are one step. Method: two threads move two directories into each
/// other, many times; if both ever succeeded, the two would hang on nothing but themselves.
#[test]
fn opposite_moves_never_make_a_cycle() {
    let lab = Lab::new();
    for round in 0..200 {
        let (a, b) = (lab.directory(ROOT, "a"), lab.directory(ROOT, "b"));
        let results = std::thread::scope(|scope| {
            let into_b = scope.spawn(|| replace(&lab, ROOT, "a", b, "a"));
            let into_a = scope.spawn(|| replace(&lab, ROOT, "b", a, "b"));
            [
                into_b.join().expect("no panic"),
                into_a.join().expect("no panic"),
            ]
        });
        assert_eq!(
            results.iter().filter(|result| result.is_ok()).count(),
            1,
            "round {round}: {results:?}"
        );
        let (outer, inner_parent, inner) = if results[0].is_ok() {
            ("b", b, "a")
        } else {
            ("a", a, "b")
        };
        lab.remove_directory(&superuser(), inner_parent, inner.as_bytes())
            .expect("removed");
        lab.remove_directory(&superuser(), ROOT, outer.as_bytes())
            .expect("removed");
        lab.forget(a, 1);
        lab.forget(b, 1);
    }
}

#[test]
fn an_exchange_swaps_nodes_of_any_kinds() {
    let mut lab = Lab::new();
    let (left, right) = (lab.directory(ROOT, "left"), lab.directory(ROOT, "right"));
    let directory = lab.directory(left, "x");
    let file = lab.file(right, "y");
    exchange(&lab, left, "x", right, "y").expect("swapped");
    assert_eq!(
        (lab.find(left, "x"), lab.find(right, "y")),
        (Some(file), Some(directory))
    );
    assert_eq!((lab.stat(left).nlink, lab.stat(right).nlink), (2, 3));
    assert_eq!((lab.stat(left).size, lab.stat(right).size), (32, 32));
    assert_eq!(lab.parent(directory).expect("a directory"), right);
    assert_eq!(lab.stat(file).ctime, lab.stat(directory).ctime);
    exchange(&lab, left, "x", right, "y").expect("swapped back");
    assert_eq!((lab.stat(left).nlink, lab.stat(right).nlink), (3, 2));
    let other = lab.directory(right, "z");
    exchange(&lab, left, "x", right, "z").expect("swapped");
    assert_eq!((lab.stat(left).nlink, lab.stat(right).nlink), (3, 3));
    assert_eq!(lab.parent(other).expect("a directory"), left);
    exchange(&lab, ROOT, "left", ROOT, "right").expect("swapped in one directory");
    lab.reopen();
    assert_eq!(
        (lab.find(ROOT, "left"), lab.find(ROOT, "right")),
        (Some(right), Some(left))
    );
    assert_eq!(lab.stat(ROOT).nlink, 4);
}

#[test]
fn what_takes_the_place_of_a_file_is_stored_first() {
    let lab = Lab::new();
    let new = lab.file(ROOT, "new");
    lab.file(ROOT, "old");
    lab.write(new, 0, b"new content").expect("written");
    replace(&lab, ROOT, "new", ROOT, "free").expect("renamed");
    assert!(lab.counters().dirty_bytes > 0, "a free name needs no drain");
    replace(&lab, ROOT, "free", ROOT, "old").expect("replaced");
    assert_eq!(lab.counters().dirty_bytes, 0);
    let other = lab.file(ROOT, "other");
    lab.write(new, 0, b"again").expect("written");
    lab.write(other, 0, b"too").expect("written");
    exchange(&lab, ROOT, "old", ROOT, "other").expect("swapped");
    assert_eq!(lab.counters().dirty_bytes, 0);
    assert_eq!(
        (lab.content(new), lab.content(other)),
        (b"againontent".to_vec(), b"too".to_vec())
    );
}

#[test]
fn a_crash_after_a_replacement_shows_one_content_or_the_other() {
    let mut lab = Lab::new();
    let old = lab.file(ROOT, "f");
    lab.write(old, 0, b"old").expect("written");
    lab.sync().expect("durable");
    let new = lab.file(ROOT, "f.new");
    lab.write(new, 0, b"new").expect("written");
    replace(&lab, ROOT, "f.new", ROOT, "f").expect("replaced");
    lab.sync_inode(ROOT).expect("the directory is durable");
    lab.crash();
    assert_eq!(
        (lab.names(ROOT), lab.find(ROOT, "f")),
        (vec!["f".to_owned()], Some(new))
    );
    assert_eq!(lab.content(new), b"new");
    let late = lab.file(ROOT, "f.late");
    lab.write(late, 0, b"late").expect("written");
    replace(&lab, ROOT, "f.late", ROOT, "f").expect("replaced");
    lab.crash();
    assert_eq!(
        (lab.find(ROOT, "f"), lab.content(new)),
        (Some(new), b"new".to_vec())
    );
}

#[test]
fn a_rename_needs_write_permission_on_both_directories() {
    let lab = Lab::new();
    let open = lab.directory(ROOT, "open");
    let closed = lab.make(ROOT, "closed", NodeKind::Directory, 0o555).inode;
    let unsearchable = lab
        .make(ROOT, "unsearchable", NodeKind::Directory, 0o666)
        .inode;
    for directory in [open, closed, unsearchable] {
        lab.file(directory, "f");
    }
    let rename = |from, name: &[u8], to, new_name: &[u8]| {
        lab.rename(&user(5), from, name, to, new_name, RenameMode::Replace)
    };
    assert_refused!(rename(closed, b"f", open, b"g"), Error::PermissionDenied);
    assert_refused!(rename(open, b"f", closed, b"g"), Error::PermissionDenied);
    assert_refused!(rename(open, b"f", closed, b"f"), Error::PermissionDenied);
    assert_refused!(
        rename(unsearchable, b"none", open, b"g"),
        Error::PermissionDenied
    );
    assert_refused!(
        rename(open, b"none", unsearchable, b"g"),
        Error::PermissionDenied
    );
    assert_refused!(rename(closed, b"none", open, b"g"), Error::NotFound);
    rename(open, b"f", open, b"g").expect("permitted");
}

#[test]
fn a_sticky_directory_guards_both_sides_of_a_rename() {
    let lab = Lab::new();
    let sticky = lab.make(ROOT, "sticky", NodeKind::Directory, 0o1777).inode;
    let open = lab.directory(ROOT, "open");
    let (mine, _theirs, free) = (
        lab.file(sticky, "mine"),
        lab.file(sticky, "theirs"),
        lab.file(open, "free"),
    );
    lab.give(mine, 5, 0o600);
    lab.give(free, 5, 0o600);
    let rename = |from, name: &[u8], to, new_name: &[u8], mode| {
        lab.rename(&user(5), from, name, to, new_name, mode)
    };
    assert_refused!(
        rename(sticky, b"theirs", open, b"x", RenameMode::Replace),
        Error::NotPermitted
    );
    assert_refused!(
        rename(open, b"free", sticky, b"theirs", RenameMode::Replace),
        Error::NotPermitted
    );
    assert_refused!(
        rename(sticky, b"mine", sticky, b"theirs", RenameMode::Exchange),
        Error::NotPermitted
    );
    rename(open, b"free", sticky, b"mine", RenameMode::Replace).expect("both are mine");
    rename(sticky, b"mine", open, b"x", RenameMode::Replace).expect("mine");
    assert_eq!(
        (lab.names(sticky), lab.names(open)),
        (vec!["theirs".to_owned()], vec!["x".to_owned()])
    );
}

#[test]
fn a_directory_that_changes_its_parent_must_be_writable() {
    let lab = Lab::new();
    let (from, to) = (lab.directory(ROOT, "from"), lab.directory(ROOT, "to"));
    lab.make(from, "d", NodeKind::Directory, 0o555);
    lab.make(to, "e", NodeKind::Directory, 0o555);
    let mine = lab.directory(to, "mine");
    let rename = |from, name: &[u8], to, new_name: &[u8], mode| {
        lab.rename(&user(5), from, name, to, new_name, mode)
    };
    assert_refused!(
        rename(from, b"d", to, b"d", RenameMode::Replace),
        Error::PermissionDenied
    );
    assert_refused!(
        rename(from, b"d", to, b"mine", RenameMode::Replace),
        Error::PermissionDenied
    );
    rename(from, b"d", from, b"renamed", RenameMode::Replace).expect("its parent stays");
    assert_refused!(
        rename(to, b"mine", from, b"renamed", RenameMode::Exchange),
        Error::PermissionDenied
    );
    rename(to, b"mine", to, b"e", RenameMode::Exchange).expect("the parents stay");
    assert_eq!(lab.find(to, "e"), Some(mine));
}

#[test]
fn moving_a_directory_costs_the_same_whatever_lies_below() {
    let lab = Lab::new();
    let other = lab.directory(ROOT, "other");
    let cost = |name: &str, entries: usize| {
        let directory = lab.directory(ROOT, name);
        for n in 0..entries {
            lab.file(directory, &n.to_string());
        }
        lab.sync().expect("durable");
        let before = lab.counters().metadata.statements;
        replace(&lab, ROOT, name, other, name).expect("moved");
        lab.counters().metadata.statements - before
    };
    assert_eq!(cost("small", 1), cost("large", 2_000));
}
