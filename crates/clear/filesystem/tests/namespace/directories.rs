//! Removal of directories, and the state of a removed one that is still in use.

use strongroom_filesystem::{Error, NodeKind, RenameMode};

use crate::support::{Lab, ROOT, assert_refused, superuser, user};

#[test]
fn a_directory_counts_its_subdirectories_and_its_entries() {
    let lab = Lab::new();
    let directory = lab.directory(ROOT, "d");
    assert_eq!(
        (lab.stat(directory).nlink, lab.stat(directory).size),
        (2, 0)
    );
    for n in 0..3 {
        lab.directory(directory, &format!("d{n}"));
        lab.file(directory, &format!("f{n}"));
    }
    assert_eq!(
        (lab.stat(directory).nlink, lab.stat(directory).size),
        (5, 6 * 32)
    );
    lab.remove_directory(&superuser(), directory, b"d1")
        .expect("removed");
    lab.unlink(&superuser(), directory, b"f1").expect("removed");
    assert_eq!(
        (lab.stat(directory).nlink, lab.stat(directory).size),
        (4, 4 * 32)
    );
}

#[test]
fn removal_asks_name_permission_sticky_bit_kind_and_emptiness_in_this_order() {
    let lab = Lab::new();
    let closed = lab.make(ROOT, "closed", NodeKind::Directory, 0o555).inode;
    lab.file(closed, "f");
    assert_refused!(
        lab.remove_directory(&user(5), closed, b"none"),
        Error::NotFound
    );
    assert_refused!(
        lab.remove_directory(&user(5), closed, b"f"),
        Error::PermissionDenied
    );
    let sticky = lab.make(ROOT, "sticky", NodeKind::Directory, 0o1777).inode;
    lab.file(sticky, "f");
    let full = lab.directory(sticky, "full");
    lab.file(full, "f");
    assert_refused!(
        lab.remove_directory(&user(5), sticky, b"f"),
        Error::NotPermitted
    );
    assert_refused!(
        lab.remove_directory(&user(5), sticky, b"full"),
        Error::NotPermitted
    );
    assert_refused!(
        lab.remove_directory(&superuser(), sticky, b"f"),
        Error::NotADirectory
    );
    assert_refused!(
        lab.remove_directory(&superuser(), sticky, b"full"),
        Error::NotEmpty
    );
    lab.unlink(&superuser(), full, b"f").expect("removed");
    lab.remove_directory(&superuser(), sticky, b"full")
        .expect("empty now");
}

#[test]
fn a_removed_directory_is_empty_and_takes_no_names() {
    let lab = Lab::new();
    let directory = lab.directory(ROOT, "d");
    let file = lab.file(ROOT, "f");
    lab.directory(ROOT, "other");
    lab.remove_directory(&superuser(), ROOT, b"d")
        .expect("removed");
    let gone = lab.stat(directory);
    assert_eq!((gone.nlink, gone.ctime), (0, lab.stat(ROOT).mtime));
    assert_refused!(
        lab.make_as(&superuser(), directory, "x", NodeKind::File, 0o600),
        Error::NotFound
    );
    assert_refused!(
        lab.create_unnamed(&superuser(), directory, 0o600),
        Error::NotFound
    );
    assert_refused!(
        lab.link(&superuser(), file, directory, b"x"),
        Error::NotFound
    );
    assert_refused!(
        lab.rename(
            &superuser(),
            ROOT,
            b"f",
            directory,
            b"x",
            RenameMode::Replace
        ),
        Error::NotFound
    );
    assert_refused!(
        lab.rename(
            &superuser(),
            ROOT,
            b"other",
            directory,
            b"x",
            RenameMode::Replace
        ),
        Error::NotFound
    );
    assert_refused!(lab.lookup(&superuser(), directory, b"x"), Error::NotFound);
    assert_eq!(lab.names(directory), [""; 0]);
    assert_eq!(
        lab.lookup(&superuser(), directory, b"..")
            .expect("found")
            .inode,
        ROOT
    );
    lab.forget(directory, 1);
    lab.tick().expect("background work");
    assert_refused!(lab.attributes(directory), Error::Stale);
}

#[test]
fn nothing_moves_into_a_directory_removed_with_all_above_it() {
    let lab = Lab::new();
    let outer = lab.directory(ROOT, "outer");
    let inner = lab.directory(outer, "inner");
    lab.directory(ROOT, "d");
    lab.remove_directory(&superuser(), outer, b"inner")
        .expect("removed");
    lab.remove_directory(&superuser(), ROOT, b"outer")
        .expect("removed");
    lab.forget(outer, 1);
    lab.tick().expect("background work");
    assert_refused!(lab.attributes(outer), Error::Stale);
    assert_refused!(
        lab.rename(&superuser(), ROOT, b"d", inner, b"d", RenameMode::Replace),
        Error::NotFound
    );
}

#[test]
fn a_tree_is_built_and_removed_and_leaves_nothing() {
    let mut lab = Lab::new();
    let before = lab.stat(ROOT);
    let mut path = vec![ROOT];
    for depth in 0..40 {
        let below = lab.directory(path[depth], "d");
        lab.file(below, "f");
        path.push(below);
    }
    lab.reopen();
    for depth in (0..40).rev() {
        lab.unlink(&superuser(), path[depth + 1], b"f")
            .expect("removed");
        lab.remove_directory(&superuser(), path[depth], b"d")
            .expect("removed");
    }
    lab.tick().expect("background work");
    let after = lab.stat(ROOT);
    assert_eq!((after.nlink, after.size), (before.nlink, before.size));
    assert_eq!(lab.space().expect("told").inodes, 1);
}
