//! Revisions on the simulated disk: taken and removed by the worker, judged after a cut.
//!
//! Takes   a file system with a history, and the run as it should be
//! Gives   nothing, or the sentence that was broken
//! Never   accepts a revision that shows anything but the state it was taken of
//! Spec    spec/6-history.md, section 6.6
//!
//! The sentences:
//!  (1) A revision that was taken, and whose removal had not begun, is kept.
//!  (2) A kept revision was taken, or was being taken; and its removal had not returned.
//!  (3) Its tree is the state at its barrier, whole and exact.

use std::path::Path;
use std::sync::Arc;

use strongroom::NewRevision;
use strongroom::kept::Kept;
use strongroom_conformance::kept_view::KeptView;
use strongroom_conformance::tree::read_tree;
use strongroom_crypto::RevisionSigner;
use strongroom_filesystem::Filesystem;
use strongroom_format::VaultId;

use crate::history::History;
use crate::judge::{self, Moment};

/// A history for `system`, under fixed test keys.
#[must_use]
pub fn attach(system: &Filesystem, folder: &Path) -> Arc<Kept> {
    let signer = RevisionSigner::from_seed([5; 32], VaultId([6; 32]));
    Kept::attach(system, signer, folder)
}

/// Takes a revision that says which act took it.
///
/// # Errors
/// In words.
pub fn take(kept: &Kept, system: &Filesystem, act: usize) -> Result<(), String> {
    let new = NewRevision {
        message: act.to_string(),
        ..NewRevision::default()
    };
    kept.take(system, &new)
        .map(drop)
        .map_err(|error| error.to_string())
}

/// Removes one of the kept revisions, if there is one.
///
/// # Errors
/// In words.
pub fn remove(kept: &Kept, system: &Filesystem, which: u8) -> Result<(), String> {
    let all = kept.revisions(system).map_err(|error| error.to_string())?;
    let Some(one) = all.get(usize::from(which) % all.len().max(1)) else {
        return Ok(());
    };
    match kept.remove(system, one.id) {
        // Another thread was faster.
        Err(strongroom::Error::Revision(_)) => Ok(()),
        result => result.map_err(|error| error.to_string()),
    }
}

/// Judges the revisions that are kept after a cut; without a history only that all of them can be read.
///
/// # Errors
/// The sentence that was broken, in words.
pub fn judge(
    kept: &Kept,
    system: &Filesystem,
    run: Option<(&History, Moment)>,
) -> Result<(), String> {
    let all = kept
        .revisions(system)
        .map_err(|error| format!("the revisions: {error}"))?;
    let mut found = Vec::new();
    for revision in &all {
        let tree = KeptView::open(system, &revision.id.to_string())
            .and_then(|view| read_tree(&view))
            .map_err(|error| format!("a revision cannot be read: {error}"))?;
        let act: usize = revision
            .body
            .message
            .parse()
            .map_err(|_| "a revision says what no act said".to_owned())?;
        found.push(act);
        let Some((history, _)) = run else { continue };
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
