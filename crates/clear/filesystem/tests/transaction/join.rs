//! A plan of a merge is refused, and leaves nothing, where directories were moved since it was made.

use strongroom_filesystem::{Brought, Caller, Durability, Error, InodeId, RenameMode};
use strongroom_history::{NodeId, Plan};

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
