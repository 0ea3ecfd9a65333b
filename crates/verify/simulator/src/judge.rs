//! Compares what a power cut left with the crash contract.
//!
//! Takes   the history of a run, the progress at the cut, and the tree found after reopening
//! Gives   nothing, or the broken sentence of the contract
//! Never   guesses: any combination of prefixes that explains the tree is accepted, and nothing else
//! Spec    spec/5-crash-contract.md
//!
//! The three sentences of the contract:
//!  (1) The namespace is a prefix of the namespace operations.
//!  (2) Each file's content and size is a prefix of that file's operations. If a file replaced another by rename, or
//!      got its first name, that name never appears without the file's content.
//!  (3) Everything covered by a sync that returned is included.
//! The prefix rule of (2) holds for the attributes of each node, too.

use std::collections::BTreeMap;

use strongroom_conformance::model::{Contents, Node};
use strongroom_conformance::tree::{Leaf, Tree};
use strongroom_filesystem::{InodeId, NodeKind};

use crate::history::{Floors, History};

/// How far a run was at a cut: acts begun and acts returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Acts begun; the last may still have been running.
    pub started: usize,
    /// Acts returned.
    pub returned: usize,
}

/// The part of `tree` below `top`, as a tree of its own.
#[must_use]
pub fn below(tree: &Tree, top: &[u8]) -> Tree {
    let strip = |path: &[u8]| {
        path.strip_prefix(top)
            .filter(|rest| rest.is_empty() || rest[0] == b'/')
            .map(<[u8]>::to_vec)
    };
    let inside = tree
        .iter()
        .filter_map(|(path, leaf)| Some((strip(path)?, leaf)));
    inside
        .map(|(path, leaf)| {
            let first_path = strip(&leaf.first_path).unwrap_or_else(|| leaf.first_path.clone());
            (
                path,
                Leaf {
                    first_path,
                    ..leaf.clone()
                },
            )
        })
        .collect()
}

/// Judges `found`.
///
/// # Errors
/// The sentence that was broken, in words.
pub fn judge(history: &History, moment: Moment, found: &Tree) -> Result<(), String> {
    let started = moment.started.min(history.len());
    let floors = history.floors(moment.returned);
    let mut nearest = None;
    for count in (0..=started).rev() {
        let Some(paths) = same_names(history, count, found) else {
            continue;
        };
        if count < floors.names {
            nearest.get_or_insert(format!(
                "(3): the namespace is that after {count} acts, but {} were synced",
                floors.names
            ));
            continue;
        }
        match judge_nodes(history, count, started, &floors, &paths, found) {
            Ok(()) => return Ok(()),
            // The latest namespace is the likeliest, so its complaint is the one to tell.
            Err(complaint) => drop(nearest.get_or_insert(complaint)),
        }
    }
    Err(nearest.unwrap_or_else(|| no_prefix(history, started, floors.names, found)))
}

/// Every path of the namespace after `count` acts with its node, if `found` has exactly those.
fn same_names(history: &History, count: usize, found: &Tree) -> Option<BTreeMap<Vec<u8>, InodeId>> {
    let paths = paths_of(history, count);
    if paths.len() != found.len() {
        return None;
    }
    let mut first: BTreeMap<InodeId, &[u8]> = BTreeMap::new();
    for (path, inode) in &paths {
        first.entry(*inode).or_insert(path);
    }
    let state = history.state(count);
    let same = paths.iter().all(|(path, inode)| {
        let (Some(leaf), Some(node)) = (found.get(path), state.nodes.get(inode)) else {
            return false;
        };
        let target = if let Contents::Target(target) = &node.contents {
            leaf.bytes == *target
        } else {
            true
        };
        leaf.kind == node.kind
            && leaf.nlink == node.nlink
            && target
            && first
                .get(inode)
                .is_some_and(|path| *path == leaf.first_path)
    });
    same.then_some(paths)
}

/// Every path after `count` acts with its node, the root being the empty one.
pub(crate) fn paths_of(history: &History, count: usize) -> BTreeMap<Vec<u8>, InodeId> {
    let mut children: BTreeMap<InodeId, Vec<(&[u8], InodeId)>> = BTreeMap::new();
    for ((parent, name), inode) in history.names(count) {
        children.entry(*parent).or_default().push((name, *inode));
    }
    let mut paths = BTreeMap::new();
    let mut open = vec![(Vec::new(), InodeId::ROOT)];
    while let Some((path, inode)) = open.pop() {
        for (name, child) in children.get(&inode).into_iter().flatten() {
            open.push(([&path[..], b"/", name].concat(), *child));
        }
        paths.insert(path, inode);
    }
    paths
}

fn judge_nodes(
    history: &History,
    count: usize,
    started: usize,
    floors: &Floors,
    paths: &BTreeMap<Vec<u8>, InodeId>,
    found: &Tree,
) -> Result<(), String> {
    for (path, inode) in paths {
        let Some(leaf) = found.get(path) else {
            continue;
        };
        let shown = String::from_utf8_lossy(path);
        let synced = floors.of(*inode);
        if leaf.kind == NodeKind::File {
            let drained = history.drained(*inode, count);
            let matching = last_match(history, *inode, started, |node| has_bytes(node, leaf));
            match matching {
                None => {
                    return Err(format!(
                        "(2): {shown:?} never had the {} bytes that it has now (namespace {count})",
                        leaf.bytes.len()
                    ));
                }
                Some(at) if at < synced => {
                    return Err(format!(
                        "(3): the content of {shown:?} is that after {at} acts, but {synced} were synced"
                    ));
                }
                Some(at) if at < drained => {
                    return Err(format!(
                        "(2): {shown:?} took its name in act {drained} with content of act {at}"
                    ));
                }
                Some(_) => {}
            }
        }
        match last_match(history, *inode, started, |node| has_attributes(node, leaf)) {
            None => {
                return Err(format!(
                    "{shown:?} never had the attributes that it has now: {:o} {:?}",
                    leaf.mode, leaf.owner
                ));
            }
            Some(at) if at < synced => {
                return Err(format!(
                    "(3): the attributes of {shown:?} are those after {at} acts, but {synced} were synced"
                ));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// The last of the states up to `started` in which `inode` fits.
fn last_match(
    history: &History,
    inode: InodeId,
    started: usize,
    fits: impl Fn(&Node) -> bool,
) -> Option<usize> {
    (0..=started)
        .rev()
        .find(|at| history.state(*at).nodes.get(&inode).is_some_and(&fits))
}

fn has_bytes(node: &Node, leaf: &Leaf) -> bool {
    matches!(&node.contents, Contents::Bytes(bytes) if **bytes == leaf.bytes)
}

fn has_attributes(node: &Node, leaf: &Leaf) -> bool {
    (node.mode, node.uid, node.gid) == (leaf.mode, leaf.owner.0, leaf.owner.1)
        && node.xattrs == leaf.xattrs
}

fn no_prefix(history: &History, started: usize, floor: usize, found: &Tree) -> String {
    let show = |paths: Vec<&Vec<u8>>| {
        paths
            .iter()
            .map(|path| String::from_utf8_lossy(path).into_owned())
            .collect::<Vec<_>>()
            .join(" ")
    };
    let (mut fewest, mut at) = (usize::MAX, started);
    for count in floor..=started {
        let paths = paths_of(history, count);
        let differing = paths
            .keys()
            .filter(|path| !found.contains_key(*path))
            .count()
            + found
                .keys()
                .filter(|path| !paths.contains_key(*path))
                .count();
        if differing < fewest {
            (fewest, at) = (differing, count);
        }
    }
    let paths = paths_of(history, at);
    let missing = show(
        paths
            .keys()
            .filter(|path| !found.contains_key(*path))
            .collect(),
    );
    let surplus = show(
        found
            .keys()
            .filter(|path| !paths.contains_key(*path))
            .collect(),
    );
    format!(
        "(1): the namespace is no prefix; nearest is that after {at} acts: missing [{missing}], surplus [{surplus}]"
    )
}

#[cfg(test)]
mod tests {
    use strongroom_conformance::Model;
    use strongroom_conformance::operation::Operation;
    use strongroom_conformance::tree::read_tree;
    use strongroom_filesystem::RenameMode;

    use super::*;
    use crate::plan::{Act, acts};

    fn tree(history: &History, count: usize) -> Tree {
        read_tree(&Model::from_snapshot(history.state(count).clone())).unwrap()
    }

    fn create(name: u8) -> Act {
        Act::Operation(Operation::Create {
            parent: 0,
            name,
            kind: NodeKind::File,
            mode: 0o644,
        })
    }

    fn write(file: u8, fill: u8) -> Act {
        Act::Operation(Operation::Write {
            file,
            offset: 0,
            len: 10,
            fill,
        })
    }

    const SYNC: Act = Act::Operation(Operation::Sync);

    fn all(history: &History) -> Moment {
        Moment {
            started: history.len(),
            returned: history.len(),
        }
    }

    fn broken(history: &History, found: &Tree, sentence: &str) {
        let complaint = judge(history, all(history), found).expect_err("a violation");
        assert!(complaint.starts_with(sentence), "{complaint}");
    }

    #[test]
    fn every_state_a_run_went_through_is_accepted_until_a_sync_covers_it() {
        for seed in 0..10 {
            let unsynced: Vec<Act> = acts(seed, 120)
                .into_iter()
                .filter(|act| {
                    !matches!(
                        act,
                        Act::Compact
                            | Act::Take
                            | Act::Operation(
                                Operation::Sync
                                    | Operation::SyncNode { .. }
                                    | Operation::SyncFile { .. }
                            )
                    )
                })
                .collect();
            let history = History::of(&unsynced);
            for count in 0..=history.len() {
                judge(&history, all(&history), &tree(&history, count))
                    .unwrap_or_else(|complaint| panic!("seed {seed}, {count}: {complaint}"));
            }
        }
    }

    #[test]
    fn a_state_from_the_future_is_refused() {
        let history = History::of(&[create(0), create(1)]);
        let early = Moment {
            started: 1,
            returned: 1,
        };
        assert!(judge(&history, early, &tree(&history, 2)).is_err());
    }

    #[test]
    fn a_later_name_without_an_earlier_one_breaks_the_first_sentence() {
        let history = History::of(&[create(0), create(1), create(2)]);
        let mut found = tree(&history, 3);
        found.remove(&b"/name1"[..]);
        broken(&history, &found, "(1)");
    }

    #[test]
    fn content_that_no_moment_had_breaks_the_second_sentence() {
        let history = History::of(&[create(0), write(0, 1), write(0, 2)]);
        let mut found = tree(&history, 3);
        found.get_mut(&b"/name0"[..]).unwrap().bytes[3] ^= 1;
        broken(&history, &found, "(2)");
    }

    #[test]
    fn older_content_under_a_newer_name_is_allowed_but_not_after_taking_a_place() {
        let rename = |to| {
            Act::Operation(Operation::Rename {
                from: (0, 0),
                to: (0, to),
                mode: RenameMode::Replace,
            })
        };
        let aside = History::of(&[create(0), write(0, 1), rename(3)]);
        let mut found = tree(&aside, 3);
        found.get_mut(&b"/name3"[..]).unwrap().bytes.clear();
        judge(&aside, all(&aside), &found).unwrap();
        let over = History::of(&[create(0), create(3), write(0, 1), rename(3)]);
        let mut found = tree(&over, 4);
        found.get_mut(&b"/name3"[..]).unwrap().bytes.clear();
        broken(&over, &found, "(2)");
    }

    #[test]
    fn losing_what_was_synced_breaks_the_third_sentence() {
        let history = History::of(&[create(0), write(0, 1), SYNC, write(0, 2)]);
        judge(&history, all(&history), &tree(&history, 3)).unwrap();
        broken(&history, &tree(&history, 1), "(3)");
        broken(&history, &tree(&history, 0), "(3)");
        let before = Moment {
            started: 3,
            returned: 2,
        };
        judge(&history, before, &tree(&history, 0)).unwrap();
    }

    #[test]
    fn one_file_may_be_ahead_of_another() {
        let history = History::of(&[create(0), create(1), write(0, 1), write(2, 2)]);
        let mut found = tree(&history, 4);
        found.get_mut(&b"/name0"[..]).unwrap().bytes.clear();
        judge(&history, all(&history), &found).unwrap();
    }
}
