//! Attributes of users, and nodes that are no files, which several devices make and change.

use strongroom::filesystem::{NodeKind, SetAttributes, XattrMode};
use strongroom::{Links, Vault};

use crate::Devices;

fn set(vault: &Vault, name: &str, value: &str) {
    vault
        .set_xattr("/file", Links::Stay, name, value, XattrMode::Set)
        .unwrap();
}

/// Goal: each attribute of users has its own outcome, on every device. Method: both sides change one attribute, each changes, adds and
/// removes others, and neither writes content.
#[test]
fn attributes_of_users_are_joined_one_by_one() {
    let devices = Devices::new(2, |vault| {
        vault.write("/file", b"content").unwrap();
        for name in ["both", "first", "second", "removed", "kept"] {
            set(vault, &format!("user.{name}"), "before");
        }
    });
    let [one, two] = &devices.vaults[..] else {
        panic!()
    };
    devices.settle();
    for (vault, own) in [(one, "first"), (two, "second")] {
        set(vault, "user.both", own);
        set(vault, &format!("user.{own}"), "after");
        set(vault, &format!("user.new {own}"), "new");
    }
    one.remove_xattr("/file", Links::Stay, "user.removed")
        .unwrap();
    devices.sync(0);
    assert_eq!(devices.sync(1).pulled.conflicts, 0);
    devices.settle();
    devices.assert_same();
    let expected = [
        ("user.both", "first"),
        ("user.first", "after"),
        ("user.kept", "before"),
        ("user.new first", "new"),
        ("user.new second", "new"),
        ("user.second", "after"),
    ];
    let mut names = one.xattrs("/file", Links::Stay).unwrap();
    names.sort();
    assert_eq!(names, expected.map(|(name, _)| name.as_bytes().to_vec()));
    for (name, value) in expected {
        let found = one.xattr("/file", Links::Stay, name).unwrap();
        assert_eq!(found, value.as_bytes(), "{name}");
    }
}

/// Goal: symlinks, pipes, sockets and devices follow the rows of files. Method: each name is given by both devices, to equal nodes, to
/// different ones of a kind, and to two kinds; of the nodes that both have, one device removes those that the other changes.
#[test]
fn symlinks_pipes_sockets_and_devices_are_joined_like_files() {
    let devices = Devices::new(2, |vault| {
        vault
            .make_node("/changed", NodeKind::Socket, 0o600, 0)
            .unwrap();
        vault.make_symlink("before", "/target").unwrap();
    });
    let [one, two] = &devices.vaults[..] else {
        panic!()
    };
    devices.settle();
    for (vault, target, device) in [(one, "one", 0x103), (two, "two", 0x105)] {
        vault.make_symlink("equal", "/equal link").unwrap();
        vault
            .make_node("/equal pipe", NodeKind::Fifo, 0o600, 0)
            .unwrap();
        vault.make_symlink(target, "/link").unwrap();
        vault
            .make_node("/device", NodeKind::CharDevice, 0o600, device)
            .unwrap();
    }
    one.make_node("/kind", NodeKind::Fifo, 0o600, 0).unwrap();
    two.make_directory("/kind", 0o700).unwrap();
    two.write("/kind/inside", b"inside").unwrap();
    one.remove_file("/changed").unwrap();
    let mode = SetAttributes {
        mode: Some(0o640),
        ..SetAttributes::default()
    };
    two.set_attributes("/changed", Links::Stay, &mode).unwrap();
    // A symlink with another target is another one under the same name.
    one.remove_file("/target").unwrap();
    two.remove_file("/target").unwrap();
    two.make_symlink("after", "/target").unwrap();
    devices.sync(0);
    let report = devices.sync(1);
    assert_eq!(report.pulled.conflicts, 3, "{report:?}");
    devices.settle();
    let all = devices.assert_same();
    let beside = |name: &str| {
        let start = format!("{name} (conflict, ");
        let mut found = all.keys().filter(|path| path.starts_with(&start));
        let copy = found.next().unwrap().clone();
        // What is in a directory begins like it.
        assert!(found.all(|path| path.starts_with(&format!("{copy}/"))));
        copy
    };
    assert_eq!(one.read_link("/link").unwrap(), b"one");
    assert_eq!(one.read_link(beside("/link")).unwrap(), b"two");
    let number = |path: &str| one.attributes(path, Links::Stay).unwrap().rdev;
    assert_eq!(number("/device"), 0x103);
    assert_eq!(number(&beside("/device")), 0x105);
    let kind = |path: &str| one.attributes(path, Links::Stay).unwrap().kind;
    assert_eq!(kind("/kind"), NodeKind::Fifo);
    assert_eq!(kind(&beside("/kind")), NodeKind::Directory);
    let inside = format!("{}/inside", beside("/kind"));
    assert_eq!(one.read(&*inside).unwrap(), b"inside");
    let changed = one.attributes("/changed", Links::Stay).unwrap();
    assert_eq!((changed.kind, changed.mode), (NodeKind::Socket, 0o640));
    assert_eq!(one.read_link("/target").unwrap(), b"after");
    for equal in ["/equal link", "/equal pipe"] {
        let names = all.keys().filter(|path| path.starts_with(equal)).count();
        assert_eq!(names, 1, "{equal}");
    }
}
