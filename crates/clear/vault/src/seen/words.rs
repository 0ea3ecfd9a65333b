//! Explains to a person, who has to decide, what is wrong with a vault folder.
//!
//! Takes   the record of a vault, and the present state of its folder
//! Gives   sentences: what is wrong, since when, and what to do
//! Never   prints a path with characters that control a terminal

use std::path::Path;

use super::SeenRecords;
use super::place::{Place, State};
use crate::older_folder::{How, OlderFolder, show};

/// Says once that a folder is a copy.
pub(super) fn tell_copy(of: &Path) {
    log::warn!(
        "this folder is a copy of the vault in {}, which still exists; from now on the two are recorded separately",
        show(of)
    );
}

/// Why there is no folder of records.
pub(super) fn no_folder(seen: &SeenRecords) -> String {
    match seen {
        SeenRecords::Nowhere => "records are turned off".to_owned(),
        _ => "this user has no home folder; set HOME or XDG_STATE_HOME to a folder of yours"
            .to_owned(),
    }
}

/// How a folder is behind what was seen at `seen`.
pub(super) fn older(how: How, seen: &Place, found: State) -> OlderFolder {
    // `judge` names a place with a state.
    let before = seen.state.unwrap_or(found);
    OlderFolder {
        seen_s: seen.seen_s,
        seen_commits: before.commits,
        found_commits: found.commits,
        seen_generation: before.generation,
        found_generation: found.generation,
        how,
    }
}
