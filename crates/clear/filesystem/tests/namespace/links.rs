//! Hard links, removal of names, and nodes without a name.

use strongroom_filesystem::{Error, NodeKind};

use crate::support::{Lab, ROOT, assert_refused, superuser, user};

#[test]
fn a_link_is_a_further_name_of_one_node() {
    let mut lab = Lab::new();
    let directory = lab.directory(ROOT, "d");
    let file = lab.make(ROOT, "one", NodeKind::File, 0o600);
    lab.write(file.inode, 0, b"content").expect("written");
    let linked = lab
        .link(&superuser(), file.inode, directory, b"two")
        .expect("linked");
    assert_eq!(
        (linked.inode, linked.nlink, linked.size),
        (file.inode, 2, 7)
    );
    assert!(linked.ctime > file.ctime && linked.btime == file.btime);
    let parent = lab.stat(directory);
    assert_eq!(
        (parent.mtime, parent.ctime, parent.nlink),
        (linked.ctime, linked.ctime, 2)
    );

    lab.unlink(&superuser(), ROOT, b"one").expect("removed");
    let left = lab.stat(file.inode);
    assert_eq!(left.nlink, 1);
    assert!(left.ctime > linked.ctime);
    lab.reopen();
    assert_eq!(lab.find(directory, "two"), Some(file.inode));
    assert_eq!(lab.content(file.inode), b"content");
}

#[test]
fn every_kind_but_a_directory_can_be_linked() {
    let lab = Lab::new();
    for kind in [
        NodeKind::Symlink,
        NodeKind::Fifo,
        NodeKind::Socket,
        NodeKind::CharDevice,
    ] {
        let name = format!("{kind:?}");
        let made = lab.make(ROOT, &name, kind, 0o600);
        let linked = lab
            .link(
                &superuser(),
                made.inode,
                ROOT,
                format!("{name} 2").as_bytes(),
            )
            .expect("linked");
        assert_eq!((linked.kind, linked.nlink), (kind, 2));
    }
    let directory = lab.directory(ROOT, "d");
    assert_refused!(
        lab.link(&superuser(), directory, ROOT, b"d2"),
        Error::NotPermitted
    );
}

#[test]
fn a_refused_link_changes_nothing() {
    let lab = Lab::new();
    let file = lab.file(ROOT, "f");
    let other = lab.file(ROOT, "other");
    let closed = lab.make(ROOT, "closed", NodeKind::Directory, 0o555).inode;
    lab.file(closed, "taken");
    let before = (lab.stat(file), lab.stat(closed), lab.stat(ROOT));
    assert_refused!(lab.link(&user(5), file, closed, b"taken"), Error::Exists);
    assert_refused!(
        lab.link(&user(5), file, closed, b"new"),
        Error::PermissionDenied
    );
    assert_refused!(
        lab.link(&superuser(), file, other, b"new"),
        Error::NotADirectory
    );
    assert_refused!(
        lab.link(&superuser(), file, ROOT, &[b'n'; 256]),
        Error::NameTooLong
    );
    assert_refused!(lab.link(&superuser(), closed, ROOT, b"f"), Error::Exists);
    assert_eq!((lab.stat(file), lab.stat(closed), lab.stat(ROOT)), before);
}

#[test]
fn a_node_has_at_most_65000_names() {
    let lab = Lab::new();
    let file = lab.file(ROOT, "0");
    for n in 1..65_000 {
        lab.link(&superuser(), file, ROOT, n.to_string().as_bytes())
            .expect("within the limit");
    }
    assert_eq!(lab.stat(file).nlink, 65_000);
    assert_refused!(
        lab.link(&superuser(), file, ROOT, b"65000"),
        Error::TooManyLinks
    );
    lab.unlink(&superuser(), ROOT, b"7").expect("removed");
    lab.link(&superuser(), file, ROOT, b"65000")
        .expect("room for one again");
}

#[test]
fn unlink_asks_name_permission_sticky_bit_and_kind_in_this_order() {
    let lab = Lab::new();
    let closed = lab.make(ROOT, "closed", NodeKind::Directory, 0o555).inode;
    lab.directory(closed, "d");
    assert_refused!(lab.unlink(&user(5), closed, b"none"), Error::NotFound);
    assert_refused!(lab.unlink(&user(5), closed, b"d"), Error::PermissionDenied);
    let sticky = lab.make(ROOT, "sticky", NodeKind::Directory, 0o1777).inode;
    lab.directory(sticky, "d");
    let theirs = lab.file(sticky, "theirs");
    assert_refused!(lab.unlink(&user(5), sticky, b"d"), Error::NotPermitted);
    assert_refused!(lab.unlink(&user(5), sticky, b"theirs"), Error::NotPermitted);
    assert_refused!(lab.unlink(&superuser(), sticky, b"d"), Error::IsADirectory);
    assert_refused!(lab.unlink(&user(5), theirs, b"x"), Error::NotADirectory);
    lab.give(theirs, 5, 0o600);
    lab.unlink(&user(5), sticky, b"theirs")
        .expect("its owner may");
    assert_eq!(lab.names(sticky), ["d"]);
}

#[test]
fn unlink_touches_the_parent_and_the_nodes_ctime() {
    let lab = Lab::new();
    let file = lab.make(ROOT, "f", NodeKind::File, 0o600);
    lab.unlink(&superuser(), ROOT, b"f").expect("removed");
    let (node, parent) = (lab.stat(file.inode), lab.stat(ROOT));
    assert_eq!(
        (node.nlink, node.mtime, node.atime),
        (0, file.mtime, file.atime)
    );
    assert!(node.ctime > file.ctime);
    assert_eq!((parent.mtime, parent.ctime), (node.ctime, node.ctime));
    lab.forget(file.inode, 1);
}

#[test]
fn an_unlinked_file_lives_until_its_last_reference_goes() {
    let lab = Lab::new();
    let file = lab.file(ROOT, "f");
    lab.write(file, 0, b"before").expect("written");
    lab.retain(file);
    lab.unlink(&superuser(), ROOT, b"f").expect("removed");
    lab.tick().expect("background work");
    lab.write(file, 6, b" and after").expect("written");
    assert_eq!(lab.content(file), b"before and after");
    lab.forget(file, 1);
    lab.tick().expect("background work");
    assert_eq!(lab.stat(file).nlink, 0);
    lab.forget(file, 1);
    lab.tick().expect("background work");
    assert_refused!(lab.attributes(file), Error::Stale);
    assert_refused!(lab.read(file, 0, &mut [0; 8]), Error::Stale);
    assert_eq!(lab.counters().dirty_bytes, 0);
}

#[test]
fn a_file_without_references_goes_with_its_last_name() {
    let lab = Lab::new();
    let file = lab.file(ROOT, "f");
    lab.link(&superuser(), file, ROOT, b"g").expect("linked");
    lab.forget(file, 2);
    lab.unlink(&superuser(), ROOT, b"f").expect("removed");
    lab.tick().expect("background work");
    assert_eq!(lab.stat(file).nlink, 1);
    lab.unlink(&superuser(), ROOT, b"g").expect("removed");
    lab.tick().expect("background work");
    assert_refused!(lab.attributes(file), Error::Stale);
    assert_refused!(lab.link(&superuser(), file, ROOT, b"h"), Error::Stale);
}

#[test]
fn references_survive_the_eviction_of_a_node() {
    let lab = Lab::new();
    let file = lab.file(ROOT, "f");
    lab.unlink(&superuser(), ROOT, b"f").expect("removed");
    lab.sync().expect("durable");
    // More nodes than the table keeps for nobody.
    let directory = lab.directory(ROOT, "d");
    for n in 0..70_000 {
        let made = lab.make(directory, &n.to_string(), NodeKind::Fifo, 0o600);
        lab.forget(made.inode, 1);
        if n % 8192 == 0 {
            lab.sync().expect("durable");
        }
    }
    assert!(
        lab.counters().nodes < 70_000,
        "nothing was evicted, so nothing is shown"
    );
    assert_eq!(lab.stat(file).nlink, 0);
    lab.forget(file, 1);
    lab.tick().expect("background work");
    assert_refused!(lab.attributes(file), Error::Stale);
}

#[test]
fn giving_back_more_references_than_were_taken_harms_nobody() {
    let lab = Lab::new();
    let file = lab.file(ROOT, "f");
    lab.forget(file, u64::MAX);
    lab.forget(file, 1);
    lab.forget(strongroom_filesystem::InodeId(999_999), 3);
    lab.tick().expect("background work");
    assert_eq!(lab.find(ROOT, "f"), Some(file));
}

#[test]
fn an_unnamed_file_gets_a_name_with_its_content_or_goes() {
    let mut lab = Lab::new();
    let named = lab.create_unnamed(&user(5), ROOT, 0o640).expect("made");
    let left = lab
        .create_unnamed(&user(5), ROOT, 0o640)
        .expect("made")
        .inode;
    assert_eq!(
        (named.kind, named.nlink, named.uid, named.mode),
        (NodeKind::File, 0, 5, 0o640)
    );
    assert_eq!(lab.names(ROOT), [""; 0]);
    lab.write(named.inode, 0, b"all of it").expect("written");
    let pending = lab.counters().dirty_bytes;
    lab.write(left, 0, b"nothing of it").expect("written");
    let of_left = lab.counters().dirty_bytes - pending;
    let linked = lab
        .link(&user(5), named.inode, ROOT, b"name")
        .expect("named");
    assert_eq!((linked.nlink, linked.size), (1, 9));
    assert_eq!(
        lab.counters().dirty_bytes,
        of_left,
        "the content of what got a name is stored"
    );
    lab.forget(left, 1);
    lab.tick().expect("background work");
    assert_refused!(lab.attributes(left), Error::Stale);
    lab.reopen();
    assert_eq!(lab.names(ROOT), ["name"]);
    assert_eq!(lab.content(named.inode), b"all of it");
}

#[test]
fn what_lost_its_last_name_gets_none_any_more() {
    let lab = Lab::new();
    let file = lab.file(ROOT, "f");
    lab.unlink(&superuser(), ROOT, b"f").expect("removed");
    assert_refused!(lab.link(&superuser(), file, ROOT, b"g"), Error::NotFound);
    let unnamed = lab
        .create_unnamed(&user(5), ROOT, 0o640)
        .expect("made")
        .inode;
    lab.link(&user(5), unnamed, ROOT, b"first").expect("named");
    lab.link(&user(5), unnamed, ROOT, b"second").expect("named");
    lab.unlink(&user(5), ROOT, b"first").expect("removed");
    lab.unlink(&user(5), ROOT, b"second").expect("removed");
    assert_refused!(lab.link(&user(5), unnamed, ROOT, b"third"), Error::NotFound);
    assert_eq!(lab.names(ROOT), [""; 0]);
}

#[test]
fn an_unnamed_file_needs_a_directory_that_could_hold_it() {
    let lab = Lab::new();
    let file = lab.file(ROOT, "f");
    let closed = lab.make(ROOT, "closed", NodeKind::Directory, 0o555).inode;
    assert_refused!(
        lab.create_unnamed(&user(5), file, 0o600),
        Error::NotADirectory
    );
    assert_refused!(
        lab.create_unnamed(&user(5), closed, 0o600),
        Error::PermissionDenied
    );
    assert_eq!(lab.stat(closed).mtime, lab.stat(closed).btime);
}

#[test]
fn an_unnamed_file_that_a_crash_leaves_is_purged_at_open() {
    let mut lab = Lab::new();
    let file = lab
        .create_unnamed(&superuser(), ROOT, 0o600)
        .expect("made")
        .inode;
    lab.write(file, 0, &[1; 100_000]).expect("written");
    lab.sync().expect("durable");
    lab.crash();
    assert_refused!(lab.attributes(file), Error::Stale);
    assert_eq!(lab.space().expect("told").inodes, 1);
}
