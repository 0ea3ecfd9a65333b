//! The durable directories of the simulated disk, and the operations that are not durable yet.
//!
//! Takes   creations, removals and renames; syncs of directories
//! Gives   the directory tree that a power cut would leave
//! Never   handles content; what programs see is stored elsewhere
//! Spec    none: test only
//!
//! Invariants
//!  (1) After `sync(d)` the durable entries of `d` are the ones that programs see.
//!  (2) An operation is durable only together with every earlier one on the same name, on the same node, or on the
//!      entries of a removed directory. So any set of survivors is a tree without cycles and without lost children.
//!  (3) A rename is durable on both sides or on neither.

use std::collections::{BTreeMap, HashMap};

use super::cut::{Keep, NameSync, Policy};
use crate::random::Choices;

/// The number of a node on the disk.
pub(super) type Number = u64;

/// One place a name can stand.
pub(super) type Slot = (Number, Vec<u8>);

/// The entries of one directory.
pub(super) type Entries = BTreeMap<Vec<u8>, Number>;

/// A change of one or two names.
#[derive(Clone, Debug)]
pub(super) struct NameChange {
    /// What each slot holds afterwards.
    pub slots: Vec<(Slot, Option<Number>)>,
    /// The nodes that gain or lose a name by it.
    pub nodes: Vec<Number>,
    /// The directory that is removed, if it is a removal of one.
    pub removed_directory: Option<Number>,
    /// Whether a directory goes to another parent. Such changes keep their order among themselves: without the
    /// first of two moves the second could put a directory below itself.
    pub moves_directory: bool,
}

impl NameChange {
    fn depends_on(&self, earlier: &Self) -> bool {
        let same_slot = self
            .slots
            .iter()
            .any(|(slot, _)| earlier.slots.iter().any(|(other, _)| slot == other));
        let same_node = self.nodes.iter().any(|node| earlier.nodes.contains(node));
        let emptied = self
            .removed_directory
            .is_some_and(|directory| earlier.touches(directory));
        same_slot || same_node || emptied || (self.moves_directory && earlier.moves_directory)
    }

    fn touches(&self, directory: Number) -> bool {
        self.slots
            .iter()
            .any(|((parent, _), _)| *parent == directory)
    }

    fn apply(&self, directories: &mut HashMap<Number, Entries>) {
        for ((parent, name), node) in &self.slots {
            let entries = directories.entry(*parent).or_default();
            match node {
                Some(node) => drop(entries.insert(name.clone(), *node)),
                None => drop(entries.remove(name)),
            }
        }
    }
}

/// Durable directories, and what waits.
#[derive(Clone, Debug)]
pub(super) struct Names {
    mode: NameSync,
    durable: HashMap<Number, Entries>,
    waiting: Vec<NameChange>,
}

impl Names {
    /// All of `durable` survives any cut.
    pub(super) fn new(mode: NameSync, durable: HashMap<Number, Entries>) -> Self {
        Self {
            mode,
            durable,
            waiting: Vec::new(),
        }
    }

    /// Count of changes that a cut may lose.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Notes a change that programs see from now on.
    pub(super) fn change(&mut self, change: NameChange) {
        self.waiting.push(change);
    }

    /// Somebody synced a directory.
    pub(super) fn sync_directory(&mut self, directory: Number) {
        match self.mode {
            NameSync::Journal => self.sync_journal(),
            NameSync::Directory => {
                let mut needed = vec![false; self.waiting.len()];
                for at in (0..self.waiting.len()).rev() {
                    let later = at + 1..self.waiting.len();
                    needed[at] = self.waiting[at].touches(directory)
                        || later.into_iter().any(|other| {
                            needed[other] && self.waiting[other].depends_on(&self.waiting[at])
                        });
                }
                let mut needed = needed.into_iter();
                let durable = &mut self.durable;
                self.waiting.retain(|change| {
                    let now = needed.next().unwrap_or(false);
                    if now {
                        change.apply(durable);
                    }
                    !now
                });
            }
        }
    }

    /// Somebody synced a file.
    pub(super) fn sync_file(&mut self) {
        if self.mode == NameSync::Journal {
            self.sync_journal();
        }
    }

    fn sync_journal(&mut self) {
        for change in self.waiting.drain(..) {
            change.apply(&mut self.durable);
        }
    }

    /// The directories a power cut leaves.
    pub(super) fn after_cut(&self, policy: Policy, seed: u64) -> HashMap<Number, Entries> {
        let mut choices = Choices::named(seed, &[u64::MAX]);
        let first_lost = match (policy.names, self.mode) {
            (Keep::All, _) => self.waiting.len(),
            (Keep::Nothing, _) => 0,
            (Keep::Some, NameSync::Journal) => choices.index(self.waiting.len() + 1),
            (Keep::Some, NameSync::Directory) => return self.after_random_cut(&mut choices),
        };
        let mut directories = self.durable.clone();
        for change in &self.waiting[..first_lost] {
            change.apply(&mut directories);
        }
        directories
    }

    fn after_random_cut(&self, choices: &mut Choices) -> HashMap<Number, Entries> {
        let mut directories = self.durable.clone();
        let mut lost: Vec<&NameChange> = Vec::new();
        for change in &self.waiting {
            let possible = !lost.iter().any(|earlier| change.depends_on(earlier));
            if possible && choices.chance(1, 2) {
                change.apply(&mut directories);
            } else {
                lost.push(change);
            }
        }
        directories
    }
}
