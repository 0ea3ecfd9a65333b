//! Extended attributes.

use strongroom_filesystem::{Error, InodeId, NodeKind, XattrMode};

use crate::support::{Lab, ROOT, assert_refused, superuser, user};

fn put(lab: &Lab, inode: InodeId, name: &str, value: &[u8]) -> Result<(), Error> {
    lab.set_xattr(&superuser(), inode, name.as_bytes(), value, XattrMode::Set)
}

#[test]
fn values_come_back_as_they_were_set_also_after_reopening() {
    let mut lab = Lab::new();
    let file = lab.file(ROOT, "f");
    let largest = vec![7; 65_536];
    put(&lab, file, "user.empty", b"").expect("set");
    put(&lab, file, "user.a", b"first").expect("set");
    put(&lab, file, "user.a", b"\0second\xff").expect("replaced");
    put(&lab, file, "trusted.large", &largest).expect("set");
    put(&lab, file, "security.selinux", b"label").expect("set");
    lab.reopen();
    let get = |name: &str| {
        lab.xattr(&superuser(), file, name.as_bytes())
            .expect("set before")
    };
    assert_eq!(
        (get("user.empty"), get("user.a")),
        (Vec::new(), b"\0second\xff".to_vec())
    );
    assert_eq!(
        (get("trusted.large"), get("security.selinux")),
        (largest, b"label".to_vec())
    );
    let mut names = lab.xattrs(&superuser(), file).expect("listed");
    names.sort();
    assert_eq!(
        names,
        [
            &b"security.selinux"[..],
            b"trusted.large",
            b"user.a",
            b"user.empty"
        ]
    );
}

#[test]
fn each_change_moves_the_ctime_and_nothing_else() {
    let lab = Lab::new();
    let file = lab.file(ROOT, "f");
    let mut before = lab.stat(file);
    let changes: [&dyn Fn() -> Result<(), Error>; 2] =
        [&|| put(&lab, file, "user.a", b"v"), &|| {
            lab.remove_xattr(&superuser(), file, b"user.a")
        }];
    for change in changes {
        change().expect("changed");
        let after = lab.stat(file);
        assert!(after.ctime > before.ctime);
        before.ctime = after.ctime;
        assert_eq!(after, before);
    }
}

#[test]
fn the_modes_of_setting_refuse_what_they_say() {
    let lab = Lab::new();
    let file = lab.file(ROOT, "f");
    let set = |value: &[u8], mode| lab.set_xattr(&superuser(), file, b"user.a", value, mode);
    assert_refused!(set(b"1", XattrMode::ReplaceOnly), Error::NoAttribute);
    set(b"1", XattrMode::CreateOnly).expect("new");
    assert_refused!(set(b"2", XattrMode::CreateOnly), Error::Exists);
    assert_eq!(lab.xattr(&superuser(), file, b"user.a").expect("set"), b"1");
    set(b"3", XattrMode::ReplaceOnly).expect("there");
    assert_eq!(lab.xattr(&superuser(), file, b"user.a").expect("set"), b"3");
    lab.remove_xattr(&superuser(), file, b"user.a")
        .expect("there");
    assert_refused!(
        lab.remove_xattr(&superuser(), file, b"user.a"),
        Error::NoAttribute
    );
    assert_refused!(lab.xattr(&superuser(), file, b"user.a"), Error::NoAttribute);
}

#[test]
fn sizes_are_bounded_for_one_value_and_for_all_of_a_node() {
    let lab = Lab::new();
    let file = lab.file(ROOT, "f");
    assert_refused!(
        put(&lab, file, "user.a", &vec![0; 65_537]),
        Error::ValueTooLarge
    );
    assert_refused!(
        put(&lab, file, &format!("user.{}", "n".repeat(251)), b""),
        Error::ValueTooLarge
    );
    let name = |n: usize| format!("user.{n:03}");
    let full = (0..1000)
        .take_while(|n| put(&lab, file, &name(*n), &vec![0; 65_536]).is_ok())
        .count();
    assert_eq!(
        full, 15,
        "16 values of 64 KiB and their names are more than 1 MiB"
    );
    assert_refused!(
        put(&lab, file, "user.015", &vec![0; 65_536]),
        Error::NoSpace
    );
    put(&lab, file, "user.000", &vec![1; 65_536]).expect("what it replaces makes room");
    lab.remove_xattr(&superuser(), file, b"user.000")
        .expect("there");
    put(&lab, file, "user.015", &vec![0; 65_536]).expect("room again");
}

#[test]
fn unknown_spaces_are_not_supported() {
    let lab = Lab::new();
    let file = lab.file(ROOT, "f");
    for name in [
        "system.posix_acl_access",
        "system.posix_acl_default",
        "other.a",
        "plain",
    ] {
        assert_refused!(put(&lab, file, name, b"v"), Error::NotSupported);
        assert_refused!(
            lab.xattr(&superuser(), file, name.as_bytes()),
            Error::NotSupported
        );
        assert_refused!(
            lab.remove_xattr(&superuser(), file, name.as_bytes()),
            Error::NotSupported
        );
    }
    assert_eq!(lab.xattrs(&superuser(), file).expect("listed").len(), 0);
}

#[test]
fn user_names_follow_the_mode_bits() {
    let lab = Lab::new();
    let file = lab.file(ROOT, "f");
    lab.give(file, 5, 0o604);
    let set = |caller| lab.set_xattr(&user(caller), file, b"user.a", b"v", XattrMode::Set);
    set(5).expect("the owner writes");
    assert_refused!(set(6), Error::PermissionDenied);
    assert_refused!(
        lab.remove_xattr(&user(6), file, b"user.a"),
        Error::PermissionDenied
    );
    lab.xattr(&user(6), file, b"user.a").expect("others read");
    lab.chmod(file, 0o600);
    assert_refused!(
        lab.xattr(&user(6), file, b"user.a"),
        Error::PermissionDenied
    );
    assert_eq!(
        lab.xattrs(&user(6), file).expect("names are no secret"),
        [b"user.a"]
    );
}

#[test]
fn only_files_and_directories_carry_user_names() {
    let lab = Lab::new();
    for kind in [
        NodeKind::Symlink,
        NodeKind::Fifo,
        NodeKind::Socket,
        NodeKind::CharDevice,
    ] {
        let node = lab.make(ROOT, &format!("{kind:?}"), kind, 0o666).inode;
        assert_refused!(put(&lab, node, "user.a", b"v"), Error::NotPermitted);
        assert_refused!(lab.xattr(&superuser(), node, b"user.a"), Error::NoAttribute);
        put(&lab, node, "trusted.a", b"v").expect("the superuser's");
    }
    put(&lab, lab.directory(ROOT, "d"), "user.a", b"v").expect("set");
}

#[test]
fn in_a_sticky_directory_only_its_owner_leaves_user_names_on_it() {
    let lab = Lab::new();
    let sticky = lab.make(ROOT, "sticky", NodeKind::Directory, 0o1777).inode;
    let set = |caller| lab.set_xattr(&user(caller), sticky, b"user.a", b"v", XattrMode::Set);
    assert_refused!(set(6), Error::NotPermitted);
    lab.give(sticky, 6, 0o1777);
    set(6).expect("its owner");
}

#[test]
fn trusted_names_are_the_superusers_and_hidden_from_others() {
    let lab = Lab::new();
    let file = lab.file(ROOT, "f");
    lab.give(file, 5, 0o777);
    put(&lab, file, "trusted.a", b"v").expect("set");
    put(&lab, file, "security.a", b"v").expect("set");
    for name in [&b"trusted.a"[..], b"security.a"] {
        let set = lab.set_xattr(&user(5), file, name, b"w", XattrMode::Set);
        assert_refused!(set, Error::NotPermitted);
        assert_refused!(lab.remove_xattr(&user(5), file, name), Error::NotPermitted);
    }
    assert_refused!(lab.xattr(&user(5), file, b"trusted.a"), Error::NoAttribute);
    assert_eq!(
        lab.xattr(&user(5), file, b"security.a")
            .expect("readable by all"),
        b"v"
    );
    assert_eq!(lab.xattrs(&user(5), file).expect("listed"), [b"security.a"]);
}

#[test]
fn attributes_go_with_their_node() {
    let lab = Lab::new();
    let file = lab.file(ROOT, "f");
    put(&lab, file, "user.a", b"v").expect("set");
    lab.unlink(&superuser(), ROOT, b"f").expect("removed");
    assert_eq!(
        lab.xattr(&superuser(), file, b"user.a")
            .expect("still referenced"),
        b"v"
    );
    lab.forget(file, 1);
    lab.tick().expect("background work");
    assert_refused!(lab.xattr(&superuser(), file, b"user.a"), Error::Stale);
    assert_refused!(put(&lab, file, "user.a", b"v"), Error::Stale);
    assert_refused!(lab.xattrs(&superuser(), file), Error::Stale);
}
