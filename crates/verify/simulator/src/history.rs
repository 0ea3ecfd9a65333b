//! The expected history of a run: the model's state after every act, and what each sync guarantees.
//!
//! Takes   the acts of a run
//! Gives   states, and for any moment the minimum that must survive
//! Never   accesses the real file system
//! Spec    spec/5-crash-contract.md, sentence 3

use std::collections::{BTreeMap, BTreeSet, HashMap};

use strongroom_conformance::Model;
use strongroom_conformance::engine::EPOCH_MAX;
use strongroom_conformance::model::{Contents, State};
use strongroom_conformance::operation::{Answer, Operation, Session};
use strongroom_filesystem::{InodeId, NodeKind, RenameMode};

use crate::judge::paths_of;
use crate::plan::Act;

/// Which node a name stands for.
pub type Names = BTreeMap<(InodeId, Vec<u8>), InodeId>;

/// What an act meant beyond its effect on the state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Meaning {
    /// It synced this node.
    synced: Option<InodeId>,
    /// It synced everything.
    barrier: bool,
    /// It gave this node the name of something, or its first name: its content must not be behind that.
    drained: Option<InodeId>,
}

/// A run as it should be.
#[derive(Clone, Debug)]
pub struct History {
    /// After 0, 1, 2, … acts.
    states: Vec<State>,
    names: Vec<Names>,
    meanings: Vec<Meaning>,
    /// After 0, 1, 2, … acts: which acts took the revisions that are kept then.
    kept: Vec<Vec<usize>>,
    /// After 0, 1, 2, … acts: the newest epoch, and the oldest whose keys anything needs.
    epochs: Vec<(u32, u32)>,
    /// What each act erased.
    erasures: Vec<Option<Erasure>>,
}

/// Content that leaves all revisions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Erasure {
    /// The path that was asked for.
    pub path: Vec<u8>,
    /// The files that were there, or below, in any revision.
    pub files: BTreeSet<InodeId>,
}

/// Which of `count` things a byte means: first of the revisions, then of the files of one.
#[must_use]
pub fn choose(
    which: u8,
    revisions: usize,
    files: impl FnOnce(usize) -> usize,
) -> Option<(usize, usize)> {
    let revision = usize::from(which).checked_rem(revisions)?;
    let file = (usize::from(which) / revisions).checked_rem(files(revision))?;
    Some((revision, file))
}

/// What a moment guarantees. Numbers count acts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Floors {
    /// The namespace is at least that of this state.
    pub names: usize,
    /// Every node's content and attributes are at least those of this state…
    pub all: usize,
    /// …and some nodes' of a later one.
    pub nodes: HashMap<InodeId, usize>,
}

impl Floors {
    /// The floor of one node.
    #[must_use]
    pub fn of(&self, inode: InodeId) -> usize {
        self.nodes.get(&inode).copied().unwrap_or(0).max(self.all)
    }
}

/// Which node every name of `state` stands for.
#[must_use]
pub fn names_of(state: &State) -> Names {
    let mut names = Names::new();
    for (parent, node) in &state.nodes {
        if let Contents::Entries(entries) = &node.contents {
            names.extend(
                entries
                    .iter()
                    .map(|(name, (inode, _))| ((*parent, name.clone()), *inode)),
            );
        }
    }
    names
}

impl History {
    /// Runs the model through `acts`.
    #[must_use]
    pub fn of(acts: &[Act]) -> Self {
        let mut session = Session::new(Model::new());
        let first = session.system.snapshot();
        let mut history = Self {
            names: vec![names_of(&first)],
            states: vec![first],
            meanings: Vec::new(),
            kept: vec![Vec::new()],
            epochs: vec![(0, 0)],
            erasures: Vec::new(),
        };
        for (at, act) in acts.iter().enumerate() {
            let mut kept = history.kept[at].clone();
            match act {
                Act::Take => kept.push(at),
                Act::Remove(which) if !kept.is_empty() => {
                    kept.remove(usize::from(*which) % kept.len());
                }
                _ => {}
            }
            history.kept.push(kept);
            history.erasures.push(match act {
                Act::Erase(which) => history.erasure(at, *which),
                _ => None,
            });
            let (newest, oldest) = history.epochs[at];
            history.epochs.push(match act {
                Act::BeginEpoch => ((newest + 1).min(EPOCH_MAX), oldest),
                Act::Rotate => {
                    let newest = (newest + 1).min(EPOCH_MAX);
                    (newest, newest)
                }
                _ => (newest, oldest),
            });
            let meaning = match act {
                Act::Tick
                | Act::BeginEpoch
                | Act::Compress(_)
                | Act::Rotate
                | Act::Remove(_)
                | Act::Erase(_) => Meaning::default(),
                // A revision stands at a barrier.
                Act::Take | Act::Compact => Meaning {
                    barrier: true,
                    ..Meaning::default()
                },
                Act::Operation(operation) => history.run(&mut session, operation),
            };
            let state = session.system.snapshot();
            history.names.push(names_of(&state));
            history.states.push(state);
            history.meanings.push(meaning);
        }
        history
    }

    fn run(&self, session: &mut Session<Model>, operation: &Operation) -> Meaning {
        let before = &self.states[self.states.len() - 1];
        let named = &self.names[self.names.len() - 1];
        let directory = |pick| session.pick(pick, Some(NodeKind::Directory));
        let mut meaning = Meaning::default();
        match operation {
            Operation::Sync => meaning.barrier = true,
            Operation::SyncNode { node } => meaning.synced = Some(session.pick(*node, None)),
            Operation::SyncFile { file } => {
                meaning.synced = Some(session.pick(*file, Some(NodeKind::File)));
            }
            Operation::Rename {
                from,
                to,
                mode: RenameMode::Replace,
            } => {
                let source = (
                    directory(from.0),
                    strongroom_conformance::operation::name_bytes(from.1),
                );
                let target = (
                    directory(to.0),
                    strongroom_conformance::operation::name_bytes(to.1),
                );
                let (moved, replaced) = (named.get(&source), named.get(&target));
                // A node renamed onto itself stays where it is and takes nobody's place.
                meaning.drained = moved
                    .filter(|moved| replaced.is_some_and(|other| other != *moved))
                    .copied();
            }
            Operation::Link { node, .. } => {
                let inode = session.pick(*node, Some(NodeKind::File));
                meaning.drained = before
                    .nodes
                    .get(&inode)
                    .is_some_and(|node| node.nlink == 0)
                    .then_some(inode);
            }
            _ => {}
        }
        match session.apply(operation) {
            Answer::Refused(_) => Meaning::default(),
            _ => meaning,
        }
    }

    /// What `Act::Erase(which)` takes away as act `at`.
    fn erasure(&self, at: usize, which: u8) -> Option<Erasure> {
        let kept = &self.kept[at];
        let files: Vec<BTreeMap<Vec<u8>, InodeId>> =
            kept.iter().map(|act| self.files(act + 1)).collect();
        let (revision, file) = choose(which, kept.len(), |revision| files[revision].len())?;
        let path = files[revision].keys().nth(file)?.clone();
        let below = [&path[..], b"/"].concat();
        let is_there = |one: &[u8]| one == path || one.starts_with(&below);
        let there = files.iter().flatten().filter(|(one, _)| is_there(one));
        let files = there.map(|(_, inode)| *inode).collect();
        Some(Erasure { path, files })
    }

    /// The files after `count` acts, by their paths.
    fn files(&self, count: usize) -> BTreeMap<Vec<u8>, InodeId> {
        let is_file = |inode: &InodeId| {
            let node = self.state(count).nodes.get(inode);
            node.is_some_and(|node| node.kind == NodeKind::File)
        };
        let mut files = paths_of(self, count);
        files.retain(|_, inode| is_file(inode));
        files
    }

    /// What the act numbered `at` from 0 erased; `None` if it was another act, or there was nothing.
    #[must_use]
    pub fn erased_by(&self, at: usize) -> Option<&Erasure> {
        self.erasures.get(at)?.as_ref()
    }

    /// Count of acts.
    #[must_use]
    pub fn len(&self) -> usize {
        self.meanings.len()
    }

    /// Whether nothing was done.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.meanings.is_empty()
    }

    /// The state after `count` acts.
    #[must_use]
    pub fn state(&self, count: usize) -> &State {
        &self.states[count.min(self.len())]
    }

    /// The names after `count` acts.
    #[must_use]
    pub fn names(&self, count: usize) -> &Names {
        &self.names[count.min(self.len())]
    }

    /// Which acts took the revisions that are kept after `count` acts.
    #[must_use]
    pub fn kept(&self, count: usize) -> &[usize] {
        &self.kept[count.min(self.len())]
    }

    /// The oldest epoch whose keys anything needs after `count` acts.
    #[must_use]
    pub fn oldest_epoch(&self, count: usize) -> u32 {
        self.epochs[count.min(self.len())].1
    }

    /// What is guaranteed once the first `returned` acts have returned.
    #[must_use]
    pub fn floors(&self, returned: usize) -> Floors {
        let mut floors = Floors::default();
        for (at, meaning) in self.meanings.iter().enumerate().take(returned) {
            if meaning.barrier {
                floors.all = at + 1;
                floors.names = at + 1;
            }
            if let Some(inode) = meaning.synced {
                floors.nodes.insert(inode, at + 1);
                floors.names = floors.names.max(self.last_naming(inode, at));
            }
        }
        floors
    }

    /// The last of the first `count` acts that changed a name of `inode`, or a name in it; counted from 1.
    fn last_naming(&self, inode: InodeId, count: usize) -> usize {
        let concerned = |names: &Names| -> Vec<((InodeId, Vec<u8>), InodeId)> {
            names
                .iter()
                .filter(|((parent, _), node)| *parent == inode || **node == inode)
                .map(|(slot, node)| (slot.clone(), *node))
                .collect()
        };
        (1..=count)
            .rev()
            .find(|at| concerned(&self.names[*at]) != concerned(&self.names[at - 1]))
            .unwrap_or(0)
    }

    /// If the namespace is that after `count` acts: the state below which the content of `inode` may not be, because
    /// it took the place of something.
    #[must_use]
    pub fn drained(&self, inode: InodeId, count: usize) -> usize {
        (0..count.min(self.len()))
            .rev()
            .find(|at| self.meanings[*at].drained == Some(inode))
            .map_or(0, |at| at + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create(name: u8) -> Act {
        Act::Operation(Operation::Create {
            parent: 0,
            name,
            kind: NodeKind::File,
            mode: 0o644,
        })
    }

    fn write(fill: u8) -> Act {
        Act::Operation(Operation::Write {
            file: 0,
            offset: 0,
            len: 10,
            fill,
        })
    }

    #[test]
    fn syncing_a_file_covers_its_content_and_the_act_that_named_it() {
        let sync = Act::Operation(Operation::SyncNode { node: 2 });
        let history = History::of(&[create(0), write(1), sync, write(2)]);
        let floors = history.floors(4);
        assert_eq!((floors.names, floors.all, floors.of(InodeId(2))), (1, 0, 3));
        assert_eq!(history.floors(2), Floors::default());
    }

    #[test]
    fn a_barrier_covers_everything_before_it() {
        let history = History::of(&[create(0), Act::Operation(Operation::Sync), create(1)]);
        let floors = history.floors(3);
        assert_eq!((floors.names, floors.of(InodeId(9))), (2, 2));
    }

    #[test]
    fn a_rotation_needs_no_older_keys_from_then_on() {
        let acts = [
            Act::BeginEpoch,
            Act::BeginEpoch,
            Act::Rotate,
            Act::BeginEpoch,
        ];
        let history = History::of(&acts);
        let oldest: Vec<u32> = (0..=4).map(|count| history.oldest_epoch(count)).collect();
        assert_eq!(oldest, [0, 0, 0, 3, 3]);
    }

    #[test]
    fn an_erasure_takes_every_file_that_was_at_the_path_in_any_kept_revision() {
        let rename = |from, to| {
            Act::Operation(Operation::Rename {
                from: (0, from),
                to: (0, to),
                mode: RenameMode::Replace,
            })
        };
        let acts = [
            create(0),
            Act::Take,
            rename(0, 1),
            create(0),
            Act::Take,
            Act::Erase(0),
            Act::Remove(0),
            Act::Remove(0),
            Act::Erase(0),
        ];
        let history = History::of(&acts);
        let erased = history.erased_by(5).unwrap();
        assert_eq!(erased.path, b"/name0");
        let both = BTreeSet::from([InodeId(2), InodeId(3)]);
        assert_eq!(erased.files, both);
        assert_eq!(history.erased_by(1), None);
        assert_eq!(history.erased_by(8), None, "nothing is kept any more");
    }

    #[test]
    fn a_rename_over_something_takes_the_content_along() {
        let rename = |to| {
            Act::Operation(Operation::Rename {
                from: (0, 0),
                to: (0, to),
                mode: RenameMode::Replace,
            })
        };
        let over = History::of(&[create(0), create(1), write(1), rename(1)]);
        assert_eq!(
            (over.drained(InodeId(2), 4), over.drained(InodeId(2), 3)),
            (4, 0)
        );
        let beside = History::of(&[create(0), create(1), write(1), rename(2)]);
        assert_eq!(beside.drained(InodeId(2), 4), 0);
        let onto_itself = History::of(&[create(0), write(1), rename(0)]);
        assert_eq!(onto_itself.drained(InodeId(2), 3), 0);
    }
}
