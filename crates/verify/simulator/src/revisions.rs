//! Revisions on the simulated disk: the worker takes and removes them, and they are judged after a cut.
//!
//! Takes   a file system with a history, and the expected history of the run
//! Gives   nothing, or the broken sentence
//! Never   accepts a revision that shows anything but the state from which it was taken
//! Spec    spec/6-history.md, section 6.6
//!
//! The sentences:
//!  (1) A revision whose taking has returned, and whose removal has not begun, exists.
//!  (2) An existing revision was taken, or its taking had begun; and its removal had not returned.
//!  (3) Its tree is exactly the state at its barrier, except for erased content.
//!  (4) Only content that an act should erase is erased.
//!  (5) Of the content that one act should erase, all or nothing is erased; once the act has returned, all.

use strongroom::NewRevision;
use strongroom::records::Records;
use strongroom_conformance::kept_view::KeptView;
use strongroom_conformance::model::Contents;
use strongroom_conformance::operation::Operation;
use strongroom_conformance::tree::Tree;
use strongroom_conformance::tree::read_tree;
use strongroom_filesystem::{Error, Filesystem, NodeKind};

use crate::history::{History, choose};
use crate::judge::{self, Moment, paths_of};
use crate::plan::Act;

/// Takes a revision that says which act took it.
///
/// # Errors
/// In words.
pub fn take(records: &Records, system: &Filesystem, act: usize) -> Result<(), String> {
    let new = NewRevision {
        message: act.to_string(),
        ..NewRevision::default()
    };
    records
        .take(system, &new)
        .map(drop)
        .map_err(|error| error.to_string())
}

/// Removes one of the kept revisions, if there is one.
///
/// # Errors
/// In words.
pub fn remove(records: &Records, system: &Filesystem, which: u8) -> Result<(), String> {
    let all = system.revisions().map_err(|error| error.to_string())?;
    let Some(one) = all.get(usize::from(which) % all.len().max(1)) else {
        return Ok(());
    };
    match records.remove(system, one.id) {
        // Another thread was faster.
        Err(strongroom::Error::Revision(_)) => Ok(()),
        result => result.map_err(|error| error.to_string()),
    }
}

/// Erases what was at the path of a file of one of the kept revisions, if there is one.
///
/// # Errors
/// In words.
pub fn erase(system: &Filesystem, which: u8) -> Result<(), String> {
    let all = system.revisions().map_err(|error| error.to_string())?;
    let mut trees = Vec::new();
    for revision in &all {
        // Another thread may have removed it meanwhile.
        let view = KeptView::open(system, &revision.id.to_string());
        let tree = view.and_then(|view| read_tree(&view));
        let mut tree = tree.unwrap_or_default();
        tree.retain(|_, leaf| leaf.kind == NodeKind::File);
        trees.push(tree);
    }
    let Some((revision, file)) = choose(which, trees.len(), |revision| trees[revision].len())
    else {
        return Ok(());
    };
    let Some(path) = trees[revision].keys().nth(file) else {
        return Ok(());
    };
    match system.erase_content(path, false) {
        Ok(_) | Err(Error::NotFound) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// Judges the revisions that are kept after a cut; without a history only that all of them can be read.
///
/// # Errors
/// The sentence that was broken, in words.
pub fn judge(system: &Filesystem, run: Option<(&History, Moment)>) -> Result<(), String> {
    let all = system
        .revisions()
        .map_err(|error| format!("the revisions: {error}"))?;
    let mut found = Vec::new();
    for revision in &all {
        let unreadable = |error| format!("a revision cannot be read: {error}");
        let view = KeptView::open(system, &revision.id.to_string()).map_err(unreadable)?;
        let mut tree = read_tree(&view).map_err(unreadable)?;
        let act: usize = revision
            .body
            .message
            .parse()
            .map_err(|_| "a revision says what no act said".to_owned())?;
        found.push(act);
        let Some((history, moment)) = run else {
            continue;
        };
        fill_in_erased(history, moment, act, &view, &mut tree)?;
        // Its act is a barrier: only the state after it will do.
        let moment = Moment {
            started: act + 1,
            returned: act + 1,
        };
        judge::judge(history, moment, &tree)
            .map_err(|complaint| format!("(3): the revision of act {act}: {complaint}"))?;
    }
    let Some((history, moment)) = run else {
        return Ok(());
    };
    let (before, after) = (history.kept(moment.returned), history.kept(moment.started));
    if let Some(lost) = before
        .iter()
        .find(|act| after.contains(act) && !found.contains(act))
    {
        return Err(format!("(1): the revision of act {lost} is lost"));
    }
    if let Some(stray) = found
        .iter()
        .find(|act| !before.contains(act) && !after.contains(act))
    {
        return Err(format!(
            "(2): the revision of act {stray} should not be there"
        ));
    }
    Ok(())
}

/// Puts what was erased back into the tree of the revision that `act` took, so that the rest can be compared. (4)
fn fill_in_erased(
    history: &History,
    moment: Moment,
    act: usize,
    view: &KeptView,
    tree: &mut Tree,
) -> Result<(), String> {
    let inodes = paths_of(history, act + 1);
    let state = history.state(act + 1);
    for (path, leaf) in tree.iter_mut() {
        let erased = leaf.kind == NodeKind::File
            && view
                .was_erased(path)
                .map_err(|error| format!("a revision cannot be read: {error}"))?;
        let Some(inode) = inodes.get(path).filter(|_| erased) else {
            continue;
        };
        let asked = (act + 1..moment.started)
            .filter_map(|at| history.erased_by(at))
            .any(|erasure| erasure.files.contains(inode));
        if !asked {
            let shown = String::from_utf8_lossy(path);
            return Err(format!(
                "(4): {shown:?} of the revision of act {act} was erased by no act"
            ));
        }
        if let Some(Contents::Bytes(bytes)) = state.nodes.get(inode).map(|node| &node.contents) {
            leaf.bytes = bytes.to_vec();
        }
    }
    Ok(())
}

/// Judges what is left of the content that was being erased, or was erased just before. (5)
///
/// # Errors
/// The sentence that was broken, in words.
pub fn judge_erasing(
    system: &Filesystem,
    acts: &[Act],
    history: &History,
    moment: Moment,
) -> Result<(), String> {
    let running = (moment.started > moment.returned).then(|| moment.started - 1);
    let last = moment.returned.checked_sub(1);
    // Content of removed files that were still open is nobody's only after the cut.
    let has_nameless = |count: usize| {
        let nodes = history.state(count).nodes.values();
        nodes
            .into_iter()
            .any(|node| node.kind == NodeKind::File && node.nlink == 0)
    };
    let (at, must_be_done) = match (running, last) {
        (Some(at), _) if history.erased_by(at).is_some() => (at, false),
        // What runs must leave it to nobody else.
        (Some(at), Some(last)) if changes_no_content(&acts[at]) => (last, true),
        (None, Some(last)) => (last, true),
        _ => return Ok(()),
    };
    let Some(erasure) = history.erased_by(at) else {
        return Ok(());
    };
    if has_nameless(at) || has_nameless(moment.started.min(history.len())) {
        return Ok(());
    }
    let is_again = (0..at)
        .filter_map(|at| history.erased_by(at))
        .any(|earlier| !earlier.files.is_disjoint(&erasure.files));
    if is_again && !must_be_done {
        return Ok(());
    }
    let (erased, all) = match system.erased_blocks(&erasure.path) {
        // The revisions that had it are gone.
        Err(Error::NotFound) => return Ok(()),
        counted => counted.map_err(|error| format!("counting what is erased: {error}"))?,
    };
    if erased == all || (erased == 0 && !must_be_done) {
        return Ok(());
    }
    let shown = String::from_utf8_lossy(&erasure.path);
    Err(format!(
        "(5): {erased} of {all} blocks of {shown:?} are erased by act {at}"
    ))
}

/// Whether an act leaves the blocks of all files alone: what no file of now names any more is not what was erased.
fn changes_no_content(act: &Act) -> bool {
    match act {
        Act::BeginEpoch | Act::Compress(_) | Act::Take => true,
        // They join fragments.
        Act::Tick | Act::Compact | Act::Rotate => false,
        Act::Remove(_) | Act::Erase(_) => false,
        Act::Operation(operation) => matches!(
            operation,
            Operation::Sync
                | Operation::SyncNode { .. }
                | Operation::SyncFile { .. }
                | Operation::Read { .. }
                | Operation::Mode { .. }
                | Operation::Owner { .. }
                | Operation::SetXattr { .. }
        ),
    }
}
