//! Merges the changes that two devices made to one tree: compares each with their common base, and plans what to change here.
//!
//! Takes   two differences from one base: *mine*, the state here, and *theirs*, which was published
//! Gives   a plan: the names and nodes to take over from theirs, and copies of content that would be lost
//! Never   looks at a disk or a clock: equal differences give equal plans, on every device that can read the same contents
//! Spec    spec/11-sync.md, 11.6
//!
//! Invariants
//!  (1) Content that one side wrote and the other did not have is in the result, under its name or a conflict name.   [11.6.2]
//!  (2) If mine changed nothing, the result is theirs.                                                              [11.6.3]
//!  (3) The result is a tree: each directory has one name, and a path up to the root.
//!  (4) For each name, the plan expects the result of the first look-up of that name, because the decision was based on
//!      that result. The state may change while the plan is made.                                               [11.6.5]

mod nodes;

use std::collections::{BTreeMap, BTreeSet};

use strongroom_metadata::NodeKind;

use crate::conflict_name::labelled;
use crate::delta::{Delta, Name, NodeId};
use crate::entry::Entry;
use crate::plan::{Becomes, Conflicts, Living, Plan};

/// What a directory is called that was moved into what was moved into it, where its name before is no more.
const MOVED: &[u8] = b"moved";

/// What is known of one node that a side changed.
#[derive(Default)]
struct Known<'a> {
    base: Option<&'a Entry>,
    mine: Option<&'a Entry>,
    theirs: Option<&'a Entry>,
    /// Names that it lost and gained, of either side.
    mine_lost: BTreeSet<&'a Name>,
    mine_gained: BTreeSet<&'a Name>,
    theirs_lost: BTreeSet<&'a Name>,
    theirs_gained: BTreeSet<&'a Name>,
}

fn is_directory(entry: &Entry) -> bool {
    entry.kind == NodeKind::Directory
}

/// Whether content, target or number differ. Where blocks lie is no part of an entry, so that nothing but a write looks like one.
fn content_differs(one: &Entry, other: &Entry) -> bool {
    one.size != other.size && !is_directory(one) || one.body != other.body
}

fn is_changed(base: &Entry, now: &Entry) -> bool {
    content_differs(base, now)
        || (base.mode, base.uid, base.gid) != (now.mode, now.uid, now.gid)
        || base.xattrs != now.xattrs
}

impl<'a> Known<'a> {
    fn is_directory(&self) -> bool {
        let any = self.mine.or(self.theirs).or(self.base);
        any.is_some_and(is_directory)
    }

    /// One that has, and had, at most one name: a move of it is one, and not a name more.
    fn has_one_name(&self) -> bool {
        let sides = [self.base, self.mine, self.theirs];
        self.is_directory() || sides.iter().flatten().all(|entry| entry.nlink <= 1)
    }

    /// Whether it is in the result whatever lies below it.
    fn lives(&self) -> bool {
        match (self.base, self.mine, self.theirs) {
            (Some(base), Some(left), None) | (Some(base), None, Some(left)) => {
                let moved = !self.mine_gained.is_empty() || !self.theirs_gained.is_empty();
                !is_directory(left) && (moved || is_changed(base, left))
            }
            (_, mine, theirs) => mine.is_some() || theirs.is_some(),
        }
    }

    /// The names that it has here, of those that some side changed.
    fn mine_names(&self) -> BTreeSet<&'a Name> {
        let kept = self.theirs_lost.difference(&self.mine_lost).copied();
        kept.chain(self.mine_gained.iter().copied()).collect()
    }

    /// The names that it has there, of those that some side changed.
    fn theirs_names(&self) -> BTreeSet<&'a Name> {
        let kept = self.mine_lost.difference(&self.theirs_lost).copied();
        kept.chain(self.theirs_gained.iter().copied()).collect()
    }

    /// The names that go from it here, and those that it gets. `lives`: it stays, or comes back.
    fn moves(&self, lives: bool) -> (BTreeSet<&'a Name>, BTreeSet<&'a Name>) {
        let none = BTreeSet::new;
        match (self.mine, self.theirs) {
            (None, Some(_)) if lives => (none(), self.theirs_names()),
            (Some(_), None) if !lives && self.base.is_some() => (self.mine_names(), none()),
            (Some(_), Some(_)) if self.has_one_name() => {
                if self.theirs_gained.is_empty() {
                    return (none(), none());
                }
                let gone = self.mine_names();
                let gone = gone.difference(&self.theirs_gained).copied().collect();
                (gone, self.theirs_gained.clone())
            }
            (Some(mine), Some(_)) => {
                let gone: BTreeSet<_> = self
                    .theirs_lost
                    .difference(&self.mine_lost)
                    .copied()
                    .collect();
                let come: BTreeSet<_> = self
                    .theirs_gained
                    .difference(&self.mine_gained)
                    .copied()
                    .collect();
                // Each side took another of its names: it keeps those that it has here.
                match mine.nlink as usize + come.len() <= gone.len() {
                    true => (none(), none()),
                    false => (gone, come),
                }
            }
            _ => (none(), none()),
        }
    }
}

/// The plan that joins `theirs` into the state here.
///
/// # Errors
/// Those of `living`.
pub fn merge<L: Living>(
    mine: &Delta,
    theirs: &Delta,
    living: &L,
    conflicts: Conflicts<'_>,
) -> Result<Plan, L::Error> {
    let mut merge = Merge {
        known: known(mine, theirs),
        deltas: [mine, theirs],
        living,
        conflicts,
        revived: BTreeSet::new(),
        before: BTreeMap::new(),
        now: BTreeMap::new(),
        places: BTreeMap::new(),
        late: Vec::new(),
        replaced: BTreeMap::new(),
        plan: Plan::default(),
    };
    merge.revive()?;
    merge.place_all()?;
    merge.undo_circles()?;
    merge.nodes()?;
    let Merge {
        before,
        now,
        mut plan,
        known,
        ..
    } = merge;
    let mut losers = BTreeSet::new();
    for (name, after) in now {
        // (4); no name gets a meaning before somebody asked for it.
        let before = before[&name];
        if before != after {
            losers.extend(before);
            plan.names.insert(name, (before, after));
        }
    }
    for id in losers.iter().filter(|id| !plan.nodes.contains_key(*id)) {
        let mine = known.get(id).and_then(|known| known.mine);
        plan.untouched.extend(mine.cloned());
    }
    Ok(plan)
}

fn known<'a>(mine: &'a Delta, theirs: &'a Delta) -> BTreeMap<NodeId, Known<'a>> {
    let mut all: BTreeMap<NodeId, Known<'a>> = BTreeMap::new();
    for (id, (base, now)) in &mine.nodes {
        let known = all.entry(*id).or_default();
        (known.base, known.mine, known.theirs) = (base.as_ref(), now.as_ref(), base.as_ref());
    }
    for (id, (base, now)) in &theirs.nodes {
        let is_mine_as_before = !mine.nodes.contains_key(id);
        let known = all.entry(*id).or_default();
        known.base = base.as_ref();
        known.theirs = now.as_ref();
        if is_mine_as_before {
            known.mine = base.as_ref();
        }
    }
    for (name, (before, after)) in &mine.names {
        if let Some(known) = before.and_then(|id| all.get_mut(&id)) {
            known.mine_lost.insert(name);
        }
        if let Some(known) = after.and_then(|id| all.get_mut(&id)) {
            known.mine_gained.insert(name);
        }
    }
    for (name, (before, after)) in &theirs.names {
        if let Some(known) = before.and_then(|id| all.get_mut(&id)) {
            known.theirs_lost.insert(name);
        }
        if let Some(known) = after.and_then(|id| all.get_mut(&id)) {
            known.theirs_gained.insert(name);
        }
    }
    all
}

struct Merge<'a, L: Living> {
    known: BTreeMap<NodeId, Known<'a>>,
    deltas: [&'a Delta; 2],
    living: &'a L,
    conflicts: Conflicts<'a>,
    /// Directories that one side removed, and that something needs which the other put there.
    revived: BTreeSet<NodeId>,
    /// What names meant when they were looked at first.
    before: BTreeMap<Name, Option<NodeId>>,
    /// What names mean in the result, where that was decided.
    now: BTreeMap<Name, Option<NodeId>>,
    /// Where nodes got a name in the result.
    places: BTreeMap<NodeId, Name>,
    /// What was in directories of mine that joined one of theirs.
    late: Vec<(NodeId, Name)>,
    /// Nodes of theirs that have the content of one of mine too.
    replaced: BTreeMap<NodeId, Becomes>,
    plan: Plan,
}

impl<'a, L: Living> Merge<'a, L> {
    /// What a name means, as far as that is decided.
    fn node(&mut self, name: &Name) -> Result<Option<NodeId>, L::Error> {
        if let Some(node) = self.now.get(name).or_else(|| self.before.get(name)) {
            return Ok(*node);
        }
        let node = self.living.node(name)?;
        self.before.insert(name.clone(), node);
        Ok(node)
    }

    fn set(&mut self, name: Name, node: Option<NodeId>) {
        if let Some(node) = node {
            self.places.insert(node, name.clone());
        }
        self.now.insert(name, node);
    }

    fn lives(&self, id: NodeId) -> bool {
        let known = self.known.get(&id);
        known.is_none_or(|known| known.lives()) || self.revived.contains(&id)
    }

    /// Finds the directories that have to stay although one side removed them.
    fn revive(&mut self) -> Result<(), L::Error> {
        let mut living: Vec<NodeId> = self.known.keys().copied().collect();
        living.retain(|id| self.lives(*id));
        while let Some(id) = living.pop() {
            let Some(known) = self.known.get(&id) else {
                continue;
            };
            let (gone, come) = known.moves(true);
            let stay = known.mine.map(|_| known.mine_names()).unwrap_or_default();
            let stay = stay.difference(&gone).copied().chain(come.iter().copied());
            let parents: Vec<NodeId> = stay.map(|name| name.0).collect();
            for parent in parents {
                if !self.lives(parent) && self.revived.insert(parent) {
                    living.push(parent);
                }
            }
        }
        Ok(())
    }

    /// Lets every name mean what it is to mean.
    fn place_all(&mut self) -> Result<(), L::Error> {
        let mut come: BTreeMap<Name, NodeId> = BTreeMap::new();
        let ids: Vec<NodeId> = self.known.keys().copied().collect();
        for id in ids {
            let lives = self.lives(id);
            let (gone, gets) = self.known[&id].moves(lives);
            let gone: Vec<Name> = gone.into_iter().cloned().collect();
            come.extend(gets.into_iter().map(|name| (name.clone(), id)));
            for name in gone {
                if self.node(&name)? == Some(id) {
                    self.set(name, None);
                }
            }
        }
        for (name, id) in come {
            self.give(name, id)?;
        }
        while let Some((id, name)) = self.late.pop() {
            match self.node(&name)? {
                None => self.set(name, Some(id)),
                Some(there) if there == id => {}
                Some(there) => self.collide(name, id, there)?,
            }
        }
        Ok(())
    }

    /// Gives `name` to a node of theirs.
    fn give(&mut self, name: Name, id: NodeId) -> Result<(), L::Error> {
        match self.node(&name)? {
            Some(there) if there == id => Ok(()),
            None => {
                self.set(name, Some(id));
                Ok(())
            }
            Some(there) => self.collide(name, there, id),
        }
    }

    /// `theirs` gets `name`, which `mine` has or is to have.
    fn collide(&mut self, name: Name, mine: NodeId, theirs: NodeId) -> Result<(), L::Error> {
        let entries = [(mine, true), (theirs, false)].map(|(id, is_mine)| {
            let known = self.known.get(&id)?;
            match is_mine {
                true => known.mine.or(known.theirs),
                false => known.theirs.or(known.mine),
            }
        });
        let is_new = self
            .known
            .get(&mine)
            .is_some_and(|known| known.base.is_none() && known.theirs.is_none());
        if let [Some(one), Some(other)] = entries
            && is_new
            && one.kind == other.kind
        {
            if is_directory(one) {
                return self.join(name, mine, theirs);
            }
            let same = (one.mode, one.uid, one.gid) == (other.mode, other.uid, other.gid);
            if same && !content_differs(one, other) && one.xattrs == other.xattrs {
                self.set(name, Some(theirs));
                return Ok(());
            }
        }
        if self.merge_replaced(&name, mine, theirs)? {
            self.set(name, Some(theirs));
            return Ok(());
        }
        let beside = self.conflict_name(&name)?;
        self.set(name, Some(theirs));
        self.set(beside.clone(), Some(mine));
        self.plan.conflicts.push(beside);
        Ok(())
    }

    /// All that is in the directory `mine`, which is new, goes to `theirs`.
    fn join(&mut self, name: Name, mine: NodeId, theirs: NodeId) -> Result<(), L::Error> {
        self.set(name, Some(theirs));
        let mut inside: BTreeSet<Name> = BTreeSet::new();
        // It is new: everything in it came to it.
        for known in self.known.values() {
            let names = known.mine_gained.iter().filter(|name| name.0 == mine);
            inside.extend(names.map(|name| (*name).clone()));
        }
        let came = self.now.keys().filter(|name| name.0 == mine).cloned();
        inside.extend(came.collect::<Vec<_>>());
        for from in inside {
            if let Some(id) = self.node(&from)? {
                let to = (theirs, from.1.clone());
                self.set(from, None);
                self.late.push((id, to));
            }
        }
        Ok(())
    }

    /// Where a node lies in the result.
    fn place(&mut self, id: NodeId) -> Result<Option<Name>, L::Error> {
        if let Some(name) = self.places.get(&id)
            && self.now.get(name) == Some(&Some(id))
        {
            return Ok(Some(name.clone()));
        }
        for name in self.living.names(id)? {
            if self.node(&name)? == Some(id) {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }

    /// Puts directories back where they were that both sides moved below one another: of such moves that of this device is undone.  (3)
    fn undo_circles(&mut self) -> Result<(), L::Error> {
        let moved: Vec<NodeId> = self.places.keys().copied().collect();
        for start in moved {
            while let Some(circle) = self.circle(start)? {
                let is_mine = |id: &&NodeId| {
                    let known = self.known.get(*id);
                    known.is_some_and(|known| {
                        !known.mine_gained.is_empty()
                            && !known.mine_lost.is_empty()
                            && known.theirs_gained.is_empty()
                    })
                };
                let undone = circle.iter().find(is_mine).or(circle.first()).copied();
                let Some(undone) = undone else { break };
                if let Some(place) = self.place(undone)? {
                    self.set(place, None);
                }
                let before = self.known.get(&undone);
                let before = before.and_then(|known| known.mine_lost.first().copied().cloned());
                let before = before.filter(|name| !circle.contains(&name.0) && self.lives(name.0));
                let name = before.unwrap_or_else(|| (self.living.root(), MOVED.to_vec()));
                match self.node(&name)? {
                    None => self.set(name, Some(undone)),
                    Some(_) => {
                        let beside = self.conflict_name(&name)?;
                        self.set(beside.clone(), Some(undone));
                        self.plan.conflicts.push(beside);
                    }
                }
            }
        }
        Ok(())
    }

    /// The directories of a circle through `start`, if there is one.
    fn circle(&mut self, start: NodeId) -> Result<Option<Vec<NodeId>>, L::Error> {
        let mut way = vec![start];
        let mut at = start;
        while let Some(name) = self.place(at)? {
            at = name.0;
            if let Some(from) = way.iter().position(|id| *id == at) {
                return Ok(Some(way.split_off(from)));
            }
            way.push(at);
        }
        Ok(None)
    }

    /// A free name beside `name` that says who made it.
    fn conflict_name(&mut self, (parent, name): &Name) -> Result<Name, L::Error> {
        for number in 1_u32.. {
            let label = match number {
                1 => format!(" ({})", self.conflicts.label),
                number => format!(" ({} {number})", self.conflicts.label),
            };
            let free = (*parent, labelled(name, label.as_bytes()));
            if self.node(&free)?.is_none() && !self.now.contains_key(&free) {
                return Ok(free);
            }
        }
        unreachable!("a directory has fewer names than there are numbers")
    }
}
