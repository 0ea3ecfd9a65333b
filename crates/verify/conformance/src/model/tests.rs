//! Examples in which the model does what the manual pages say.

use strongroom_filesystem::{
    AllocateMode, Caller, Checks, Error, InodeId, NewNode, NodeKind, RenameMode, SetAttributes,
};

use super::*;
use crate::under_test::same_error;

const ROOT: InodeId = InodeId::ROOT;

fn node(kind: NodeKind, mode: u32) -> NewNode {
    NewNode {
        kind,
        mode,
        rdev: 0,
        target: Vec::new(),
    }
}

fn file(model: &Model, parent: InodeId, name: &str) -> InodeId {
    model
        .create(
            &Caller::root(),
            parent,
            name.as_bytes(),
            &node(NodeKind::File, 0o644),
        )
        .unwrap()
        .inode
}

fn directory(model: &Model, parent: InodeId, name: &str) -> InodeId {
    model
        .create(
            &Caller::root(),
            parent,
            name.as_bytes(),
            &node(NodeKind::Directory, 0o755),
        )
        .unwrap()
        .inode
}

fn rename(
    model: &Model,
    from: (InodeId, &str),
    to: (InodeId, &str),
    mode: RenameMode,
) -> Result<()> {
    model.rename(
        &Caller::root(),
        from.0,
        from.1.as_bytes(),
        to.0,
        to.1.as_bytes(),
        mode,
    )
}

fn bytes(model: &Model, inode: InodeId) -> Vec<u8> {
    let mut buffer = vec![0; usize::try_from(model.attributes(inode).unwrap().size).unwrap()];
    model.read(inode, 0, &mut buffer).unwrap();
    buffer
}

fn is<T: std::fmt::Debug>(result: Result<T>, error: Error) {
    let found = result.expect_err("an error");
    assert!(same_error(&found, &error), "{found:?} instead of {error:?}");
}

#[test]
fn a_write_behind_the_end_leaves_zeros_between() {
    let model = Model::new();
    let inode = file(&model, ROOT, "f");
    model.write(inode, 3, b"x").unwrap();
    assert_eq!(bytes(&model, inode), b"\0\0\0x");
    model
        .set_attributes(
            &Caller::root(),
            inode,
            &SetAttributes {
                size: Some(5),
                ..SetAttributes::default()
            },
        )
        .unwrap();
    model
        .allocate(inode, AllocateMode::ZeroRange, 3, 4)
        .unwrap();
    assert_eq!(bytes(&model, inode), [0; 7]);
    model
        .allocate(inode, AllocateMode::ReserveKeepSize, 0, 100)
        .unwrap();
    assert_eq!(model.append(inode, b"end").unwrap(), 7);
}

#[test]
fn a_copy_stops_at_the_end_of_the_source_and_refuses_to_overlap() {
    let model = Model::new();
    let (one, other) = (file(&model, ROOT, "a"), file(&model, ROOT, "b"));
    model.write(one, 0, b"abcdef").unwrap();
    assert_eq!(model.copy_range(one, 4, other, 1, 100).unwrap(), 2);
    assert_eq!(bytes(&model, other), b"\0ef");
    assert_eq!(model.copy_range(one, 9, other, 1, 100).unwrap(), 0);
    is(
        model.copy_range(one, 0, one, 3, 4),
        Error::InvalidArgument("".into()),
    );
}

#[test]
fn an_unlinked_file_lives_until_its_last_reference_goes() {
    let model = Model::new();
    let inode = file(&model, ROOT, "f");
    model.unlink(&Caller::root(), ROOT, b"f").unwrap();
    model.write(inode, 0, b"still here").unwrap();
    model.forget(inode, 1);
    is(model.attributes(inode), Error::NotFound);
}

#[test]
fn an_unnamed_file_may_be_given_a_name() {
    let model = Model::new();
    let inode = model
        .create_unnamed(&Caller::root(), ROOT, 0o600)
        .unwrap()
        .inode;
    assert_eq!(
        model
            .link(&Caller::root(), inode, ROOT, b"named")
            .unwrap()
            .nlink,
        1
    );
    model.unlink(&Caller::root(), ROOT, b"named").unwrap();
    is(
        model.link(&Caller::root(), inode, ROOT, b"again"),
        Error::NotFound,
    );
}

#[test]
fn rename_refuses_what_rename_refuses() {
    let model = Model::new();
    let outer = directory(&model, ROOT, "outer");
    let inner = directory(&model, outer, "inner");
    file(&model, ROOT, "f");
    is(
        rename(&model, (ROOT, "outer"), (inner, "x"), RenameMode::Replace),
        Error::InvalidArgument("".into()),
    );
    is(
        rename(
            &model,
            (outer, "inner"),
            (ROOT, "outer"),
            RenameMode::Replace,
        ),
        Error::NotEmpty,
    );
    is(
        rename(&model, (ROOT, "f"), (ROOT, "outer"), RenameMode::Replace),
        Error::IsADirectory,
    );
    is(
        rename(&model, (ROOT, "outer"), (ROOT, "f"), RenameMode::Replace),
        Error::NotADirectory,
    );
    is(
        rename(&model, (ROOT, "f"), (ROOT, "outer"), RenameMode::NoReplace),
        Error::Exists,
    );
    is(
        rename(&model, (ROOT, "f"), (ROOT, "new"), RenameMode::Exchange),
        Error::NotFound,
    );
    is(
        rename(&model, (ROOT, "none"), (ROOT, "new"), RenameMode::Replace),
        Error::NotFound,
    );
}

#[test]
fn exchange_swaps_and_moves_the_links_of_directories() {
    let model = Model::new();
    let (left, right) = (
        directory(&model, ROOT, "left"),
        directory(&model, ROOT, "right"),
    );
    let moved = directory(&model, left, "d");
    let other = file(&model, right, "f");
    rename(&model, (left, "d"), (right, "f"), RenameMode::Exchange).unwrap();
    let nlink = |inode| model.attributes(inode).unwrap().nlink;
    assert_eq!((nlink(left), nlink(right)), (2, 3));
    assert_eq!(
        model.lookup(&Caller::root(), right, b"f").unwrap().inode,
        moved
    );
    assert_eq!(
        model.lookup(&Caller::root(), left, b"d").unwrap().inode,
        other
    );
    assert_eq!(model.parent(moved).unwrap(), right);
}

#[test]
fn two_names_of_one_file_renamed_onto_each_other_stay() {
    let model = Model::new();
    let inode = file(&model, ROOT, "a");
    model.link(&Caller::root(), inode, ROOT, b"b").unwrap();
    rename(&model, (ROOT, "a"), (ROOT, "b"), RenameMode::Replace).unwrap();
    assert_eq!(model.attributes(inode).unwrap().nlink, 2);
}

#[test]
fn strangers_may_only_do_what_the_mode_says() {
    let model = Model::new();
    let stranger = Caller {
        uid: 7,
        gid: 7,
        groups: vec![],
        checks: Checks::Here,
    };
    is(
        model.create(&stranger, ROOT, b"f", &node(NodeKind::File, 0o644)),
        Error::PermissionDenied,
    );
    let sticky = model
        .create(
            &Caller::root(),
            ROOT,
            b"tmp",
            &node(NodeKind::Directory, 0o1777),
        )
        .unwrap()
        .inode;
    file(&model, sticky, "root's");
    is(
        model.unlink(&stranger, sticky, b"root's"),
        Error::NotPermitted,
    );
    let own = model
        .create(&stranger, sticky, b"own", &node(NodeKind::File, 0o600))
        .unwrap();
    assert_eq!((own.uid, own.gid), (7, 7));
    is(
        model.set_attributes(
            &stranger,
            own.inode,
            &SetAttributes {
                uid: Some(8),
                ..SetAttributes::default()
            },
        ),
        Error::NotPermitted,
    );
    model.unlink(&stranger, sticky, b"own").unwrap();
}

#[test]
fn a_snapshot_does_not_move_with_the_model() {
    let model = Model::new();
    let inode = file(&model, ROOT, "f");
    model.write(inode, 0, b"one").unwrap();
    let before = model.snapshot();
    model.write(inode, 0, b"two").unwrap();
    model.unlink(&Caller::root(), ROOT, b"f").unwrap();
    assert_eq!(bytes(&Model::from_snapshot(before), inode), b"one");
}
