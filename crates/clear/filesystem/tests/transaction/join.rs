//! A plan of a merge is refused, and leaves nothing, where directories were moved since it was made. What it brings gets numbers.

use strongroom_filesystem::{
    Brought, Caller, Durability, Error, InodeId, NodeKind, RenameMode, Timestamp,
};
use strongroom_history::{Becomes, Body, Entry, NodeId, Plan, Xattrs};

use crate::apply;
use crate::support::{Lab, ROOT, assert_refused};

fn id(lab: &Lab, inode: InodeId) -> NodeId {
    let row = lab.engine().reader().unwrap().inode(inode).unwrap();
    (inode, row.unwrap().birth_id)
}

fn rename(lab: &Lab, name: &str, (parent, new): (InodeId, &str)) {
    let (name, new) = (name.as_bytes(), new.as_bytes());
    lab.rename(
        &Caller::root(),
        ROOT,
        name,
        parent,
        new,
        RenameMode::NoReplace,
    )
    .unwrap();
}

/// A plan that gives `name` to `directory`, and takes `lost` of the root from it.
fn moving(
    lab: &Lab,
    directory: InodeId,
    lost: Option<&str>,
    (parent, name): (InodeId, &str),
) -> Plan {
    let moved = Some(id(lab, directory));
    let mut plan = Plan::default();
    if let Some(lost) = lost {
        let lost = (id(lab, ROOT), lost.as_bytes().to_vec());
        plan.names.insert(lost, (moved, None));
    }
    let name = (id(lab, parent), name.as_bytes().to_vec());
    plan.names.insert(name, (None, moved));
    plan
}

fn join(lab: &Lab, plan: &Plan) -> Result<(), Error> {
    let brought = Brought::default();
    apply(lab, &[], Durability::OnReturn, |draft| {
        draft.join(plan, &brought).map(drop)
    })
}

/// Goal: a directory never has two names. Method: a plan renames one that has another name than the plan knows, so that it takes none
/// away. Failed before: the directory had both names.
#[test]
fn a_directory_that_was_renamed_meanwhile_gets_no_second_name() {
    let lab = Lab::new();
    let directory = lab.directory(ROOT, "d");
    lab.sync().unwrap();
    let plan = moving(&lab, directory, None, (ROOT, "h"));
    rename(&lab, "d", (ROOT, "g"));
    assert_refused!(join(&lab, &plan), Error::WouldBlock);
    assert_eq!(lab.names(ROOT), ["g"]);
    join(&lab, &moving(&lab, directory, Some("g"), (ROOT, "h"))).unwrap();
    assert_eq!(lab.names(ROOT), ["h"]);
}

/// Goal: every directory stays below the root. Method: a plan moves A into B; meanwhile B was moved into A. Failed before: each lay in
/// the other, and nothing led to them.
#[test]
fn directories_that_were_moved_into_one_another_stay_where_they_are_here() {
    let lab = Lab::new();
    let [above, below] = ["A", "B"].map(|name| lab.directory(ROOT, name));
    lab.file(below, "file");
    lab.sync().unwrap();
    let plan = moving(&lab, above, Some("A"), (below, "A"));
    rename(&lab, "B", (above, "B"));
    assert_refused!(join(&lab, &plan), Error::WouldBlock);
    assert_eq!(lab.names(ROOT), ["A"]);
    assert_eq!(lab.names(above), ["B"]);
    assert_eq!(lab.names(below), ["file"]);
}

/// A plan that brings these new nodes, each under its name in the root.
fn bringing(lab: &Lab, nodes: &[(NodeId, &str, Body)]) -> Plan {
    let mut plan = Plan::default();
    for (id, name, body) in nodes {
        let is_directory = matches!(body, Body::Directory(_));
        let (kind, nlink) = match is_directory {
            true => (NodeKind::Directory, 2),
            false => (NodeKind::Symlink, 1),
        };
        let entry = Entry {
            name: name.as_bytes().to_vec(),
            inode: id.0,
            birth_id: id.1,
            kind,
            mode: 0o755,
            uid: 0,
            gid: 0,
            nlink,
            size: 4,
            atime: Timestamp(1),
            mtime: Timestamp(1),
            ctime: Timestamp(1),
            btime: Timestamp(1),
            content_version: 0,
            xattrs: Xattrs::default(),
            body: body.clone(),
        };
        let becomes = Becomes {
            mine: None,
            entry,
            content: None,
            xattrs: None,
        };
        plan.nodes.insert(*id, becomes);
        let name = (self::id(lab, ROOT), name.as_bytes().to_vec());
        plan.names.insert(name, (None, Some(*id)));
    }
    plan
}

/// Goal: two nodes that a plan brings are two here, whatever their numbers are there. Method: the number of a directory is in use here, and
/// that of a symlink is the next one here, as where the other device has a copy of this folder; then both have one number, as in a
/// tree that only a lie makes. Failed before: the first plan gave both one number, so that the directory was gone.
#[test]
fn new_nodes_get_different_numbers() {
    let lab = Lab::new();
    let InodeId(used) = lab.file(ROOT, "file");
    lab.sync().unwrap();
    let (used, next) = (InodeId(used), InodeId(used + 1));
    let one = InodeId(1 << 30);
    for (numbers, names) in [([used, next], ["a", "b"]), ([one, one], ["c", "d"])] {
        let bodies = [Body::Directory(None), Body::Symlink(b"file".to_vec())];
        let nodes = numbers.into_iter().zip([7, 8]).zip(names).zip(bodies);
        let nodes: Vec<_> = nodes.map(|((id, name), body)| (id, name, body)).collect();
        join(&lab, &bringing(&lab, &nodes)).unwrap();
        let [directory, symlink] = names.map(|name| lab.find(ROOT, name).unwrap());
        assert_ne!(directory, symlink);
        assert_eq!(lab.stat(directory).kind, NodeKind::Directory);
        assert_eq!(lab.read_link(symlink).unwrap(), b"file");
        lab.file(directory, "inside");
    }
    assert_eq!(lab.names(ROOT), ["a", "b", "c", "d", "file"]);
}

/// Goal: a node that a plan brings takes the place of none that was made since the last commit. Method: both have one number, as where the
/// other device has a copy of this folder, and the one that is here has no row yet. Failed before: both names led to one node, which
/// had what the plan brought, and what was written here was gone.
#[test]
fn a_new_node_spares_one_that_has_no_row_yet() {
    let lab = Lab::new();
    lab.sync().unwrap();
    let made = lab.file(ROOT, "made");
    lab.write(made, 0, b"mine").unwrap();
    let link = Body::Symlink(b"there".to_vec());
    join(&lab, &bringing(&lab, &[((made, 7), "brought", link)])).unwrap();
    let brought = lab.find(ROOT, "brought").unwrap();
    assert_ne!(brought, made);
    assert_eq!(lab.read_link(brought).unwrap(), b"there");
    assert_eq!(lab.find(ROOT, "made").unwrap(), made);
    assert_eq!(lab.stat(made).kind, NodeKind::File);
    let mut bytes = [0; 8];
    assert_eq!(lab.read(made, 0, &mut bytes).unwrap(), 4);
    assert_eq!(&bytes[..4], b"mine");
    assert_eq!(lab.names(ROOT), ["brought", "made"]);
}

/// Goal: a name that nothing here can have is refused, and nothing of the plan is carried out. Method: each such name beside a good one; what
/// another device publishes has not passed through a call that checks names here. `.history` is where the root shows snapshots.
#[test]
fn names_that_nothing_here_can_have_are_refused_with_all_beside_them() {
    let lab = Lab::new();
    lab.sync().unwrap();
    let [good, bad] = [1 << 30, (1 << 30) + 1].map(InodeId);
    let long = "n".repeat(256);
    for wrong in ["", ".", "..", "a/b", "nul\0", ".history", &long] {
        let nodes = [
            ((good, 7), "good", Body::Directory(None)),
            ((bad, 8), wrong, Body::Symlink(b"file".to_vec())),
        ];
        assert_refused!(join(&lab, &bringing(&lab, &nodes)), Error::InvalidName);
        assert_eq!(lab.names(ROOT), [""; 0], "{wrong:?}");
    }
    let nodes = [((good, 7), "good", Body::Directory(None))];
    join(&lab, &bringing(&lab, &nodes)).unwrap();
    assert_eq!(lab.names(ROOT), ["good"]);
}
