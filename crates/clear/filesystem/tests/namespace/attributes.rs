//! `stat`, `chmod`, `chown`, `truncate`, `utimens` and `access`.

use strongroom_filesystem::{
    Attributes, Caller, Checks, Error, InodeId, NodeKind, SetAttributes, SetTime, Timestamp,
    XattrMode,
};

use crate::support::{Lab, ROOT, assert_refused, superuser, user};

const NONE: SetAttributes = SetAttributes {
    mode: None,
    uid: None,
    gid: None,
    size: None,
    atime: None,
    mtime: None,
};

fn set(
    lab: &Lab,
    caller: &Caller,
    inode: InodeId,
    set: SetAttributes,
) -> Result<Attributes, Error> {
    lab.set_attributes(caller, inode, &set)
}

/// A file of user 5 and group 5.
fn own_file(lab: &Lab, name: &str, mode: u32) -> InodeId {
    let file = lab.file(ROOT, name);
    lab.give(file, 5, mode);
    file
}

#[test]
fn each_attribute_is_set_alone_and_ctime_follows() {
    let mut lab = Lab::new();
    let file = lab.file(ROOT, "f");
    let mut expected = lab.stat(file);
    let at = |time| Some(SetTime::At(Timestamp(time)));
    type Effect = fn(&mut Attributes);
    let steps: [(SetAttributes, Effect); 5] = [
        (
            SetAttributes {
                mode: Some(0o1234),
                ..NONE
            },
            |now| now.mode = 0o1234,
        ),
        (
            SetAttributes {
                uid: Some(77),
                ..NONE
            },
            |now| now.uid = 77,
        ),
        (
            SetAttributes {
                gid: Some(88),
                ..NONE
            },
            |now| now.gid = 88,
        ),
        (
            SetAttributes {
                atime: at(-5),
                ..NONE
            },
            |now| now.atime = Timestamp(-5),
        ),
        (
            SetAttributes {
                mtime: at(i64::MAX),
                ..NONE
            },
            |now| now.mtime = Timestamp(i64::MAX),
        ),
    ];
    for (change, apply) in steps {
        let after = set(&lab, &superuser(), file, change.clone()).expect("set");
        assert!(after.ctime > expected.ctime, "{change:?}");
        expected.ctime = after.ctime;
        apply(&mut expected);
        assert_eq!(
            (&after, &lab.stat(file)),
            (&expected, &expected),
            "{change:?}"
        );
    }
    lab.reopen();
    assert_eq!(lab.stat(file), expected);
}

#[test]
fn setting_nothing_changes_nothing_and_is_open_to_all() {
    let lab = Lab::new();
    let file = lab.make(ROOT, "f", NodeKind::File, 0);
    assert_eq!(
        set(&lab, &user(5), file.inode, NONE).expect("nothing to refuse"),
        file
    );
    assert_eq!(lab.stat(file.inode), file);
}

#[test]
fn now_is_the_clocks_time_and_the_ctime() {
    let lab = Lab::new();
    let file = lab.file(ROOT, "f");
    let now = Some(SetTime::Now);
    let after = set(
        &lab,
        &superuser(),
        file,
        SetAttributes {
            atime: now,
            mtime: now,
            ..NONE
        },
    )
    .expect("set");
    assert_eq!((after.atime, after.mtime), (after.ctime, after.ctime));
}

#[test]
fn a_refused_change_changes_nothing_at_all() {
    let lab = Lab::new();
    let file = own_file(&lab, "f", 0o6755);
    lab.write(file, 0, b"content").expect("written");
    let before = lab.stat(file);
    let mixed = SetAttributes {
        size: Some(0),
        mode: Some(0o700),
        uid: Some(6),
        ..NONE
    };
    assert_refused!(set(&lab, &user(5), file, mixed), Error::NotPermitted);
    assert_refused!(
        set(
            &lab,
            &user(6),
            file,
            SetAttributes {
                size: Some(0),
                ..NONE
            }
        ),
        Error::PermissionDenied
    );
    assert_refused!(
        set(
            &lab,
            &user(6),
            file,
            SetAttributes {
                mode: Some(0),
                ..NONE
            }
        ),
        Error::NotPermitted
    );
    let nobody = SetAttributes {
        uid: Some(u32::MAX),
        ..NONE
    };
    assert_refused!(
        set(&lab, &superuser(), file, nobody),
        Error::InvalidArgument(_)
    );
    assert_eq!(
        (lab.stat(file), lab.content(file)),
        (before, b"content".to_vec())
    );
}

#[test]
fn a_length_is_set_on_regular_files_only() {
    let lab = Lab::new();
    let length = |size| SetAttributes {
        size: Some(size),
        ..NONE
    };
    let directory = lab.directory(ROOT, "d");
    assert_refused!(
        set(&lab, &superuser(), directory, length(0)),
        Error::IsADirectory
    );
    for kind in [
        NodeKind::Symlink,
        NodeKind::Fifo,
        NodeKind::Socket,
        NodeKind::CharDevice,
    ] {
        let node = lab.make(ROOT, &format!("{kind:?}"), kind, 0o666).inode;
        assert_refused!(
            set(&lab, &superuser(), node, length(0)),
            Error::InvalidArgument(_)
        );
    }
    let file = lab.file(ROOT, "f");
    assert_refused!(
        set(&lab, &superuser(), file, length(u64::MAX)),
        Error::FileTooLarge
    );
    lab.write(file, 0, b"0123456789").expect("written");
    let before = lab.stat(file);
    let cut = set(&lab, &user(5), file, length(4)).expect("writable by all");
    assert_eq!((cut.size, lab.content(file)), (4, b"0123".to_vec()));
    assert!(cut.mtime > before.mtime && cut.ctime > before.ctime && cut.atime == before.atime);
    let grown = set(&lab, &user(5), file, length(6)).expect("writable by all");
    assert_eq!((grown.size, lab.content(file)), (6, b"0123\0\0".to_vec()));
    let same = set(&lab, &user(5), file, length(6)).expect("writable by all");
    assert!(
        same.mtime > grown.mtime,
        "a truncation to the same length counts too"
    );
}

#[test]
fn the_mode_of_a_symlink_cannot_be_set() {
    let lab = Lab::new();
    let link = lab.make(ROOT, "l", NodeKind::Symlink, 0).inode;
    assert_refused!(
        set(
            &lab,
            &superuser(),
            link,
            SetAttributes {
                mode: Some(0o600),
                ..NONE
            }
        ),
        Error::NotSupported
    );
    let given = set(
        &lab,
        &superuser(),
        link,
        SetAttributes {
            uid: Some(5),
            ..NONE
        },
    )
    .expect("lchown");
    assert_eq!((given.uid, given.mode), (5, 0o777));
}

#[test]
fn chmod_gives_sgid_to_members_of_the_group_only() {
    let lab = Lab::new();
    let file = lab.file(ROOT, "f");
    let owner = SetAttributes {
        uid: Some(5),
        gid: Some(50),
        ..NONE
    };
    set(&lab, &superuser(), file, owner).expect("given away");
    let mode = SetAttributes {
        mode: Some(0o2755),
        ..NONE
    };
    assert_eq!(
        set(&lab, &user(5), file, mode.clone())
            .expect("its owner")
            .mode,
        0o755
    );
    let member = Caller {
        groups: vec![50],
        ..user(5)
    };
    assert_eq!(
        set(&lab, &member, file, mode.clone())
            .expect("its owner")
            .mode,
        0o2755
    );
    let above = Caller {
        checks: Checks::Above,
        ..user(5)
    };
    assert_eq!(
        set(&lab, &above, file, mode).expect("checked above").mode,
        0o755
    );
}

#[test]
fn a_change_of_owner_drops_suid_sgid_and_capabilities() {
    let lab = Lab::new();
    let capability = |inode| lab.xattr(&superuser(), inode, b"security.capability");
    for (name, caller) in [("by its owner", user(5)), ("by the superuser", superuser())] {
        let file = own_file(&lab, name, 0o6755);
        lab.set_xattr(
            &superuser(),
            file,
            b"security.capability",
            b"c",
            XattrMode::Set,
        )
        .expect("set");
        let after = set(
            &lab,
            &caller,
            file,
            SetAttributes {
                gid: Some(5),
                ..NONE
            },
        )
        .expect("its own group");
        assert_eq!(after.mode, 0o755, "{name}");
        assert_refused!(capability(file), Error::NoAttribute);
    }
    let directory = lab.directory(ROOT, "d");
    lab.give(directory, 5, 0o6755);
    let after = set(
        &lab,
        &superuser(),
        directory,
        SetAttributes {
            uid: Some(6),
            ..NONE
        },
    )
    .expect("given away");
    assert_eq!(after.mode, 0o6755);
}

#[test]
fn truncation_and_writes_drop_privileges_and_capabilities() {
    let mut lab = Lab::new();
    let capability = |lab: &Lab, inode| lab.xattr(&superuser(), inode, b"security.capability");
    let file = own_file(&lab, "truncated", 0o6755);
    lab.set_xattr(
        &superuser(),
        file,
        b"security.capability",
        b"c",
        XattrMode::Set,
    )
    .expect("set");
    let length = SetAttributes {
        size: Some(0),
        ..NONE
    };
    let mode_of = |caller: &Caller| set(&lab, caller, file, length.clone()).expect("set").mode;
    assert_eq!((mode_of(&superuser()), mode_of(&user(5))), (0o6755, 0o755));
    assert_refused!(capability(&lab, file), Error::NoAttribute);

    let file = own_file(&lab, "written", 0o6755);
    lab.set_xattr(
        &superuser(),
        file,
        b"security.capability",
        b"c",
        XattrMode::Set,
    )
    .expect("set");
    // The memory of there being one is gone then, too.
    lab.reopen();
    let before = lab.stat(file);
    assert!(lab.drop_privileges(file).expect("dropped"));
    let after = lab.stat(file);
    assert_eq!(after.mode, 0o755);
    assert!(after.ctime > before.ctime);
    assert_refused!(capability(&lab, file), Error::NoAttribute);
    assert!(!lab.drop_privileges(file).expect("nothing left to drop"));
    assert_eq!(lab.stat(file), after);
    lab.set_xattr(
        &superuser(),
        file,
        b"security.capability",
        b"c",
        XattrMode::Set,
    )
    .expect("set");
    assert!(lab.drop_privileges(file).expect("dropped"));
    assert_refused!(capability(&lab, file), Error::NoAttribute);
}

#[test]
fn dropping_nothing_asks_the_store_once_and_then_never() {
    let mut lab = Lab::new();
    let file = lab.file(ROOT, "f");
    lab.reopen();
    lab.drop_privileges(file).expect("nothing to drop");
    let before = lab.counters().metadata.statements;
    for _ in 0..100 {
        lab.drop_privileges(file).expect("nothing to drop");
    }
    assert_eq!(lab.counters().metadata.statements, before);
}

#[test]
fn access_answers_by_the_mode_bits_whoever_checks() {
    let lab = Lab::new();
    let file = own_file(&lab, "f", 0o640);
    let above = Caller {
        checks: Checks::Above,
        ..user(6)
    };
    lab.access(&user(5), file, 6)
        .expect("the owner reads and writes");
    assert_refused!(lab.access(&user(5), file, 1), Error::PermissionDenied);
    assert_refused!(lab.access(&user(6), file, 4), Error::PermissionDenied);
    assert_refused!(lab.access(&above, file, 4), Error::PermissionDenied);
    lab.access(&user(6), file, 0).expect("it exists");
    lab.access(&superuser(), file, 6).expect("the superuser");
    assert_refused!(lab.access(&superuser(), file, 1), Error::PermissionDenied);
    assert_refused!(lab.access(&superuser(), file, 8), Error::InvalidArgument(_));
    assert_refused!(lab.access(&superuser(), InodeId(999_999), 0), Error::Stale);
}

#[test]
fn blocks_tell_what_is_held_before_and_after_it_is_stored() {
    let lab = Lab::new();
    let file = lab.file(ROOT, "f");
    assert_eq!(lab.stat(file).blocks, 0);
    lab.write(file, 0, &[1; 5000]).expect("written");
    assert_eq!(lab.stat(file).blocks, 10);
    lab.sync().expect("durable");
    assert_eq!(lab.stat(file).blocks, 10);
    set(
        &lab,
        &superuser(),
        file,
        SetAttributes {
            size: Some(1 << 40),
            ..NONE
        },
    )
    .expect("extended by a hole");
    assert_eq!(lab.stat(file).blocks, 10);
    set(
        &lab,
        &superuser(),
        file,
        SetAttributes {
            size: Some(0),
            ..NONE
        },
    )
    .expect("emptied");
    lab.sync().expect("durable");
    assert_eq!(lab.stat(file).blocks, 0);
}
