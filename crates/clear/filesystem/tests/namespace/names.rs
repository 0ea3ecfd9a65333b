//! Look-up and creation.

use strongroom_filesystem::{Caller, Error, InodeId, NewNode, NodeKind, RenameMode};

use crate::support::{Lab, ROOT, assert_refused, superuser, user};

const KINDS: [NodeKind; 7] = [
    NodeKind::File,
    NodeKind::Directory,
    NodeKind::Symlink,
    NodeKind::Fifo,
    NodeKind::Socket,
    NodeKind::CharDevice,
    NodeKind::BlockDevice,
];

#[test]
fn a_new_node_has_its_makers_ids_its_mode_and_one_time() {
    let lab = Lab::new();
    for kind in KINDS {
        let caller = Caller {
            uid: 0,
            gid: 7,
            ..superuser()
        };
        let made = lab
            .make_as(&caller, ROOT, &format!("{kind:?}"), kind, 0o4751)
            .expect("made");
        let mode = if kind == NodeKind::Symlink {
            0o777
        } else {
            0o4751
        };
        let nlink = if kind == NodeKind::Directory { 2 } else { 1 };
        assert_eq!(
            (made.kind, made.mode, made.uid, made.gid, made.nlink),
            (kind, mode, 0, 7, nlink)
        );
        assert_eq!(
            (made.atime, made.mtime, made.ctime),
            (made.btime, made.btime, made.btime)
        );
        assert_eq!(lab.stat(made.inode), made);
    }
}

#[test]
fn every_kind_survives_reopening_with_all_its_attributes() {
    let mut lab = Lab::new();
    let mut made = Vec::new();
    for kind in KINDS {
        let target = if kind == NodeKind::Symlink {
            b"over/there".to_vec()
        } else {
            Vec::new()
        };
        let new = NewNode {
            kind,
            mode: 0o640,
            rdev: 0x1234_5678_9abc,
            target,
        };
        made.push(
            lab.create(&superuser(), ROOT, format!("{kind:?}").as_bytes(), &new)
                .expect("made"),
        );
    }
    lab.reopen();
    for old in made {
        let found = lab
            .lookup(&superuser(), ROOT, format!("{:?}", old.kind).as_bytes())
            .expect("found");
        assert_eq!(found, old);
        let is_device = matches!(old.kind, NodeKind::CharDevice | NodeKind::BlockDevice);
        assert_eq!(found.rdev, if is_device { 0x1234_5678_9abc } else { 0 });
        match old.kind {
            NodeKind::Symlink => {
                assert_eq!(
                    lab.read_link(found.inode).expect("a symlink"),
                    b"over/there"
                );
                assert_eq!(found.size, 10);
            }
            _ => assert_refused!(lab.read_link(found.inode), Error::InvalidArgument(_)),
        }
    }
}

#[test]
fn creation_touches_the_parents_mtime_and_ctime_only() {
    let lab = Lab::new();
    for kind in KINDS {
        let before = lab.stat(ROOT);
        let made = lab.make(ROOT, &format!("{kind:?}"), kind, 0o600);
        let after = lab.stat(ROOT);
        assert_eq!(
            (after.mtime, after.ctime),
            (made.btime, made.btime),
            "{kind:?}"
        );
        assert_eq!(
            (after.atime, after.btime, after.mode),
            (before.atime, before.btime, before.mode)
        );
        assert_eq!(
            after.nlink - before.nlink,
            u32::from(kind == NodeKind::Directory)
        );
    }
}

#[test]
fn a_taken_name_is_refused_before_permission_is_asked() {
    let lab = Lab::new();
    let directory = lab.make(ROOT, "d", NodeKind::Directory, 0o555).inode;
    lab.file(directory, "taken");
    let before = lab.stat(directory);
    for kind in KINDS {
        assert_refused!(
            lab.make_as(&user(5), directory, "taken", kind, 0o600),
            Error::Exists
        );
        assert_refused!(
            lab.make_as(&user(5), directory, "free", kind, 0o600),
            Error::PermissionDenied
        );
    }
    assert_eq!(lab.stat(directory), before);
    assert_eq!(lab.names(directory), ["taken"]);
}

#[test]
fn a_look_up_asks_kind_then_search_permission_then_length_then_name() {
    let lab = Lab::new();
    let long = [b'n'; 256];
    let file = lab.file(ROOT, "f");
    let closed = lab.make(ROOT, "closed", NodeKind::Directory, 0o666).inode;
    assert_refused!(lab.lookup(&user(5), file, b"x"), Error::NotADirectory);
    assert_refused!(lab.lookup(&user(5), closed, &long), Error::PermissionDenied);
    assert_refused!(lab.lookup(&superuser(), closed, &long), Error::NameTooLong);
    assert_refused!(lab.lookup(&superuser(), closed, b"x/y"), Error::InvalidName);
    assert_refused!(lab.lookup(&superuser(), closed, b"x"), Error::NotFound);
    assert_refused!(
        lab.lookup(&superuser(), InodeId(999_999), b"x"),
        Error::Stale
    );
    let longest = lab.file(ROOT, &"n".repeat(255));
    assert_eq!(lab.find(ROOT, &"n".repeat(255)), Some(longest));
}

#[test]
fn names_are_bytes_and_differ_by_any_of_them() {
    let lab = Lab::new();
    let new = NewNode {
        kind: NodeKind::File,
        mode: 0o600,
        rdev: 0,
        target: Vec::new(),
    };
    let names: [&[u8]; 5] = [b"a", b"A", b"a ", b"\xff\xfe", "\u{e4}".as_bytes()];
    let made: Vec<_> = names
        .iter()
        .map(|name| {
            lab.create(&superuser(), ROOT, name, &new)
                .expect("made")
                .inode
        })
        .collect();
    for (name, inode) in names.iter().zip(made) {
        assert_eq!(
            lab.lookup(&superuser(), ROOT, name).expect("found").inode,
            inode
        );
    }
}

#[test]
fn dot_and_dot_dot_are_looked_up_and_never_made_or_removed() {
    let lab = Lab::new();
    let directory = lab.directory(ROOT, "d");
    let below = lab.directory(directory, "below");
    let file = lab.file(ROOT, "f");
    let found = |inode, name: &[u8]| lab.lookup(&superuser(), inode, name).expect("found").inode;
    assert_eq!(
        (found(below, b"."), found(below, b"..")),
        (below, directory)
    );
    assert_eq!((found(ROOT, b"."), found(ROOT, b"..")), (ROOT, ROOT));
    assert_eq!(lab.parent(below).expect("a directory"), directory);
    assert_eq!(lab.parent(ROOT).expect("a directory"), ROOT);
    assert_refused!(lab.parent(file), Error::NotADirectory);

    let caller = superuser();
    let new = NewNode {
        kind: NodeKind::File,
        mode: 0o600,
        rdev: 0,
        target: Vec::new(),
    };
    for name in [&b"."[..], b"..", b"", b"a/b", b"a\0"] {
        assert_refused!(
            lab.create(&caller, directory, name, &new),
            Error::InvalidName
        );
        assert_refused!(lab.link(&caller, file, directory, name), Error::InvalidName);
        assert_refused!(lab.unlink(&caller, directory, name), Error::InvalidName);
        assert_refused!(
            lab.remove_directory(&caller, directory, name),
            Error::InvalidName
        );
        let away = lab.rename(&caller, directory, name, ROOT, b"x", RenameMode::Replace);
        assert_refused!(away, Error::InvalidName);
        let onto = lab.rename(&caller, ROOT, b"f", directory, name, RenameMode::Replace);
        assert_refused!(onto, Error::InvalidName);
    }
}

#[test]
fn a_symlinks_target_has_1_to_4095_bytes_without_nul() {
    let lab = Lab::new();
    let link = |name: &str, target: Vec<u8>| {
        let new = NewNode {
            kind: NodeKind::Symlink,
            mode: 0,
            rdev: 0,
            target,
        };
        lab.create(&user(5), ROOT, name.as_bytes(), &new)
    };
    assert_refused!(link("empty", Vec::new()), Error::NotFound);
    assert_refused!(link("long", vec![b't'; 4096]), Error::NameTooLong);
    assert_refused!(link("nul", b"a\0b".to_vec()), Error::InvalidArgument(_));
    let longest = link("longest", vec![b't'; 4095]).expect("made");
    assert_eq!((longest.size, longest.mode), (4095, 0o777));
    let file = NewNode {
        kind: NodeKind::File,
        mode: 0,
        rdev: 0,
        target: b"t".to_vec(),
    };
    assert_refused!(
        lab.create(&user(5), ROOT, b"f", &file),
        Error::InvalidArgument(_)
    );
}

#[test]
fn only_the_superuser_makes_devices_and_anybody_a_whiteout() {
    let lab = Lab::new();
    let make = |name: &str, kind, rdev| {
        let (mode, target) = (0o600, Vec::new());
        let new = NewNode {
            kind,
            mode,
            rdev,
            target,
        };
        lab.create(&user(5), ROOT, name.as_bytes(), &new)
    };
    for (kind, rdev) in [
        (NodeKind::CharDevice, 1),
        (NodeKind::BlockDevice, 1),
        (NodeKind::BlockDevice, 0),
    ] {
        assert_refused!(make("device", kind, rdev), Error::NotPermitted);
    }
    make("CharDevice", NodeKind::CharDevice, 0).expect("it is no device, as on Linux");
    for kind in [NodeKind::Fifo, NodeKind::Socket] {
        lab.make_as(&user(5), ROOT, &format!("{kind:?}"), kind, 0o600)
            .expect("anyone's");
    }
    assert_eq!(lab.names(ROOT), ["CharDevice", "Fifo", "Socket"]);
}

#[test]
fn an_sgid_directory_gives_its_group_to_what_is_made_in_it() {
    let lab = Lab::new();
    let directory = lab.directory(ROOT, "d");
    lab.give(directory, 50, 0o2777);
    let file = lab
        .make_as(&user(5), directory, "file", NodeKind::File, 0o2755)
        .expect("made");
    let below = lab
        .make_as(&user(5), directory, "below", NodeKind::Directory, 0o755)
        .expect("made");
    assert_eq!((file.uid, file.gid, file.mode), (5, 50, 0o755));
    assert_eq!((below.uid, below.gid, below.mode), (5, 50, 0o2755));
    let unnamed = lab
        .create_unnamed(&user(5), directory, 0o600)
        .expect("made");
    assert_eq!((unnamed.uid, unnamed.gid), (5, 50));
}

#[test]
fn a_caller_checked_above_meets_no_permission_check() {
    let lab = Lab::new();
    let directory = lab.make(ROOT, "d", NodeKind::Directory, 0).inode;
    let above = Caller {
        checks: strongroom_filesystem::Checks::Above,
        ..user(5)
    };
    let made = lab
        .make_as(&above, directory, "device", NodeKind::CharDevice, 0o600)
        .expect("made");
    assert_eq!(made.uid, 5);
    lab.unlink(&above, directory, b"device").expect("removed");
}

#[test]
fn a_full_disk_refuses_new_nodes_and_lets_old_ones_go() {
    let lab = Lab::new();
    lab.file(ROOT, "old");
    lab.sync().expect("durable");
    lab.fill_disk(true);
    // The fill of the disk is asked for now and then only.
    let refused = (0..10_000).find(|n| {
        lab.make_as(&superuser(), ROOT, &n.to_string(), NodeKind::File, 0o600)
            .is_err()
    });
    assert!(refused.is_some(), "a full disk must be noticed");
    assert_refused!(
        lab.make_as(&superuser(), ROOT, "new", NodeKind::File, 0o600),
        Error::NoSpace
    );
    lab.unlink(&superuser(), ROOT, b"old")
        .expect("deleting always works");
    lab.sync().expect("durable");
}

#[test]
fn a_vault_open_for_reading_refuses_every_change() {
    let mut lab = Lab::new();
    let file = lab.file(ROOT, "f");
    lab.directory(ROOT, "d");
    lab.reopen_read_only();
    let caller = superuser();
    let found = lab
        .lookup(&caller, ROOT, b"f")
        .expect("reading works")
        .inode;
    assert_eq!(found, file);
    assert_refused!(
        lab.make_as(&caller, ROOT, "x", NodeKind::File, 0o600),
        Error::ReadOnly
    );
    assert_refused!(lab.create_unnamed(&caller, ROOT, 0o600), Error::ReadOnly);
    assert_refused!(lab.link(&caller, file, ROOT, b"x"), Error::ReadOnly);
    assert_refused!(lab.unlink(&caller, ROOT, b"f"), Error::ReadOnly);
    assert_refused!(lab.remove_directory(&caller, ROOT, b"d"), Error::ReadOnly);
    assert_refused!(
        lab.rename(&caller, ROOT, b"f", ROOT, b"x", RenameMode::Replace),
        Error::ReadOnly
    );
    assert_refused!(lab.drop_privileges(file), Error::ReadOnly);
    assert_refused!(lab.access(&caller, file, 2), Error::ReadOnly);
    lab.access(&caller, file, 4).expect("reading works");
    lab.forget(file, 1);
    assert_eq!(lab.names(ROOT), ["d", "f"]);
}

#[test]
fn a_crash_leaves_the_namespace_as_of_the_last_sync() {
    let mut lab = Lab::new();
    let kept = lab.file(ROOT, "kept");
    let gone = lab.file(ROOT, "gone");
    lab.unlink(&superuser(), ROOT, b"gone").expect("removed");
    lab.sync().expect("durable");
    lab.file(ROOT, "late");
    lab.unlink(&superuser(), ROOT, b"kept").expect("removed");
    lab.crash();
    assert_eq!(lab.names(ROOT), ["kept"]);
    assert_eq!(lab.find(ROOT, "kept"), Some(kept));
    // Its last reference ended with the process.
    assert_refused!(lab.attributes(gone), Error::Stale);
}
