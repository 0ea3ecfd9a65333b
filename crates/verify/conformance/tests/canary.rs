//! Names, contents, link targets and attributes that are written into a vault are not found in clear in its folder.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as the tests do")]

use strongroom_conformance::canary::leaks;
use strongroom_conformance::engine;
use strongroom_filesystem::{Caller, InodeId, NewNode, NodeKind, XattrMode};

/// SECURITY.md, claim 1.
#[test]
fn no_plaintext_is_in_the_folder_of_a_vault() {
    let folder = tempfile::tempdir().unwrap();
    let root = &Caller::root();
    let system = engine::create(folder.path(), engine::quiet()).unwrap();
    let node = |kind, target: &[u8]| NewNode {
        kind,
        mode: 0o644,
        rdev: 0,
        target: target.to_vec(),
    };
    let file = system
        .create(
            root,
            InodeId::ROOT,
            b"canary-name",
            &node(NodeKind::File, b""),
        )
        .unwrap()
        .inode;
    system
        .create(
            root,
            InodeId::ROOT,
            b"canary-link",
            &node(NodeKind::Symlink, b"canary-target"),
        )
        .unwrap();
    system
        .write(file, 0, &b"canary-content ".repeat(20_000))
        .unwrap();
    system
        .set_xattr(
            root,
            file,
            b"user.canary-xattr",
            b"canary-value",
            XattrMode::Set,
        )
        .unwrap();
    let small = system
        .create(
            root,
            InodeId::ROOT,
            b"canary-small",
            &node(NodeKind::File, b""),
        )
        .unwrap()
        .inode;
    system.write(small, 0, b"canary-few-bytes").unwrap();
    system.sync().unwrap();
    // While it is open the log holds what the database does not yet.
    assert_eq!(leaks(folder.path(), &[b"canary"]).unwrap(), []);
    system.close().unwrap();
    drop(system);
    assert_eq!(leaks(folder.path(), &[b"canary"]).unwrap(), []);
    assert!(std::fs::read_dir(folder.path()).unwrap().count() > 1);
}
