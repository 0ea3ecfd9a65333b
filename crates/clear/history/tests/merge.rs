//! Merges of two trees with one base: each row of the table in spec/11-sync.md, and random changes on both sides.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;

use strongroom_format::BlockId;
use strongroom_history::{
    Body, Conflicts, Content, Delta, Entry, Extent, Living, Name, NewContent, NodeId, Plan, Xattrs,
    merge,
};
use strongroom_metadata::{InodeId, NodeKind, Timestamp};

const ROOT: NodeId = (InodeId(1), 7);
const LABEL: &str = "conflict, cellar, 2026-11-23 14.03";

/// When both sides were as they are.
const TIME: Timestamp = Timestamp(1_000);

/// Contents with numbers from here on are texts, which are merged if both sides have such a one.
const TEXTS: u64 = 30_000_000;

/// A tree that is only its names and nodes.
#[derive(Clone, PartialEq)]
struct Tree {
    nodes: BTreeMap<NodeId, Entry>,
    names: BTreeMap<Name, NodeId>,
}

impl std::fmt::Debug for Tree {
    /// A line for each name: the directory, the name, the node, and what a file holds.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for ((parent, name), id) in &self.names {
            let name = String::from_utf8_lossy(name);
            let wrote = self.nodes.get(id).map(number);
            write!(out, "\n  {}/{name} = {} {wrote:?}", parent.0.0, id.0.0)?;
        }
        Ok(())
    }
}

fn node(id: NodeId, kind: NodeKind) -> Entry {
    let time = Timestamp(0);
    Entry {
        name: Vec::new(),
        inode: id.0,
        birth_id: id.1,
        kind,
        mode: 0o644,
        uid: 1,
        gid: 1,
        nlink: if kind == NodeKind::Directory { 2 } else { 0 },
        size: 0,
        atime: time,
        mtime: time,
        ctime: time,
        btime: time,
        content_version: 0,
        xattrs: Xattrs::default(),
        body: match kind {
            NodeKind::Directory => Body::Directory(None),
            _ => content(0),
        },
    }
}

/// Content that is told by its number; 0 is none.
fn content(number: u64) -> Body {
    let mut block = BlockId([0; 32]);
    block.0[..8].copy_from_slice(&number.to_le_bytes());
    let extent = Extent {
        start: 0,
        len: 8,
        block,
        block_offset: 0,
    };
    let extents = if number == 0 {
        Vec::new()
    } else {
        vec![extent]
    };
    Body::File {
        allocated: 0,
        content: Content::Inline(extents),
    }
}

impl Tree {
    fn new() -> Self {
        Self {
            nodes: [(ROOT, node(ROOT, NodeKind::Directory))].into(),
            names: BTreeMap::new(),
        }
    }

    fn make(&mut self, (parent, name): (NodeId, &str), number: u64, kind: NodeKind) -> NodeId {
        let id = (InodeId(number), number * 1000);
        self.nodes.insert(id, node(id, kind));
        self.names.insert((parent, name.into()), id);
        self.count();
        id
    }

    fn file(&mut self, at: (NodeId, &str), number: u64, wrote: u64) -> NodeId {
        let id = self.make(at, number, NodeKind::File);
        self.write(id, wrote);
        id
    }

    fn directory(&mut self, at: (NodeId, &str), number: u64) -> NodeId {
        self.make(at, number, NodeKind::Directory)
    }

    fn write(&mut self, id: NodeId, number: u64) {
        let entry = self.nodes.get_mut(&id).unwrap();
        entry.body = content(number);
        entry.size = 8;
        entry.content_version += 1;
        entry.mtime.0 += 1;
        entry.ctime.0 += 1;
    }

    fn rename(&mut self, from: (NodeId, &str), to: (NodeId, &str)) {
        let id = self.names.remove(&(from.0, from.1.into())).unwrap();
        self.names.insert((to.0, to.1.into()), id);
        self.nodes.get_mut(&id).unwrap().ctime.0 += 1;
        self.count();
    }

    /// As a program does that writes a new file and gives it the name of the old one.
    fn replace(&mut self, at: (NodeId, &str), number: u64, wrote: u64) {
        self.remove(at);
        self.file(at, number, wrote);
    }

    fn remove(&mut self, at: (NodeId, &str)) {
        self.names.remove(&(at.0, at.1.into())).unwrap();
        self.count();
    }

    /// Counts names; what has none is gone.
    fn count(&mut self) {
        loop {
            let named: BTreeSet<NodeId> = self.names.values().copied().collect();
            self.nodes.retain(|id, _| *id == ROOT || named.contains(id));
            let before = self.names.len();
            let nodes = &self.nodes;
            self.names.retain(|name, _| nodes.contains_key(&name.0));
            if self.names.len() == before {
                break;
            }
        }
        for (id, entry) in &mut self.nodes {
            if entry.kind != NodeKind::Directory {
                let names = self.names.values().filter(|one| *one == id).count();
                entry.nlink = u32::try_from(names).unwrap();
            }
        }
    }

    fn at(&self, path: &str) -> Option<&Entry> {
        let mut id = ROOT;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            id = *self.names.get(&(id, name.into()))?;
        }
        self.nodes.get(&id)
    }

    fn wrote(&self, path: &str) -> Option<u64> {
        number(self.at(path)?)
    }

    /// Directories have one name and a way up, names lie in directories that are there, files have names.
    fn check(&self) {
        for (name, id) in &self.names {
            let parent = self.nodes.get(&name.0);
            assert!(
                parent.is_some_and(|parent| parent.kind == NodeKind::Directory),
                "{name:?} lies nowhere in {self:?}"
            );
            assert!(
                self.nodes.contains_key(id),
                "{name:?} means nothing in {self:?}"
            );
        }
        for (id, entry) in &self.nodes {
            let names: Vec<&Name> = self
                .names
                .iter()
                .filter(|(_, one)| *one == id)
                .map(|one| one.0)
                .collect();
            if *id == ROOT {
                assert!(names.is_empty());
                continue;
            }
            assert!(!names.is_empty(), "{id:?} has no name in {self:?}");
            if entry.kind == NodeKind::Directory {
                assert_eq!(names.len(), 1, "{id:?} in {self:?}");
                let mut at = *id;
                for _ in 0..=self.nodes.len() {
                    match self.place(at) {
                        Some(name) => at = name.0,
                        None => break,
                    }
                }
                assert_eq!(at, ROOT, "{id:?} goes round in {self:?}");
            }
        }
    }

    fn place(&self, id: NodeId) -> Option<Name> {
        let found = self.names.iter().find(|(_, one)| **one == id);
        found.map(|(name, _)| name.clone())
    }

    fn contents(&self) -> BTreeSet<u64> {
        self.nodes.values().filter_map(number).collect()
    }

    /// What has to change from `self` to `other`, as the history finds it.
    fn delta(&self, other: &Self) -> Delta {
        let mut delta = Delta::default();
        let names: BTreeSet<&Name> = self.names.keys().chain(other.names.keys()).collect();
        let mut touched = BTreeSet::new();
        for name in names {
            let sides = (
                self.names.get(name).copied(),
                other.names.get(name).copied(),
            );
            if sides.0 != sides.1 {
                touched.extend(sides.0);
                touched.extend(sides.1);
                delta.names.insert(name.clone(), sides);
            }
        }
        let ids: BTreeSet<&NodeId> = self.nodes.keys().chain(other.nodes.keys()).collect();
        for id in ids {
            let sides = (self.nodes.get(id).cloned(), other.nodes.get(id).cloned());
            if sides.0 != sides.1 || touched.contains(id) {
                delta.nodes.insert(*id, sides);
            }
        }
        delta
    }

    fn apply(&self, plan: &Plan) -> Self {
        let mut result = self.clone();
        for (number, copy) in (900_000_u64..).zip(&plan.copies) {
            let id = (InodeId(number), number);
            let mut entry = copy.of.clone();
            (entry.inode, entry.birth_id) = id;
            result.nodes.insert(id, entry);
            assert!(!result.names.contains_key(&copy.at));
            result.names.insert(copy.at.clone(), id);
        }
        for mine in &plan.untouched {
            assert_eq!(self.nodes.get(&mine.node()), Some(mine));
        }
        for (name, (before, after)) in &plan.names {
            let lost = before.filter(|id| Some(*id) != *after);
            let is_looked_at = |id: NodeId| {
                plan.nodes.contains_key(&id) || plan.untouched.iter().any(|one| one.node() == id)
            };
            assert!(lost.is_none_or(is_looked_at), "{name:?}");
        }
        for (name, (before, _)) in &plan.names {
            assert_eq!(self.names.get(name), before.as_ref(), "{name:?}");
            result.names.remove(name);
        }
        for (name, (_, after)) in &plan.names {
            if let Some(after) = after {
                result.names.insert(name.clone(), *after);
            }
        }
        for (id, becomes) in &plan.nodes {
            assert_eq!(self.nodes.get(id), becomes.mine.as_ref());
            let mut entry = becomes.entry.clone();
            entry.body = match (&becomes.content, &becomes.mine) {
                (Some(NewContent::Of(from)), _) => from.body.clone(),
                (Some(NewContent::Merged(bytes)), _) => {
                    assert_eq!(entry.size, bytes.len() as u64);
                    content(u64::from_le_bytes(bytes[..].try_into().unwrap()))
                }
                (None, Some(mine)) => mine.body.clone(),
                (None, None) => panic!("a new node has content from somewhere"),
            };
            result.nodes.insert(*id, entry);
        }
        let named: BTreeSet<NodeId> = result.names.values().copied().collect();
        result
            .nodes
            .retain(|id, _| *id == ROOT || named.contains(id));
        for (id, entry) in &mut result.nodes {
            if entry.kind != NodeKind::Directory {
                let names = result.names.values().filter(|one| *one == id).count();
                entry.nlink = u32::try_from(names).unwrap();
            }
        }
        result
    }
}

/// The content that two texts become: a number that says both, and not whose is whose.
fn merged(one: u64, other: u64) -> u64 {
    one.min(other) << 32 | one.max(other)
}

/// What a content has in it: itself, or the two that it was merged of.
fn parts(number: u64) -> BTreeSet<u64> {
    match number >> 32 {
        0 => [number].into(),
        one => [one, number & 0xffff_ffff].into(),
    }
}

fn number(entry: &Entry) -> Option<u64> {
    match &entry.body {
        Body::File {
            content: Content::Inline(extents),
            ..
        } => {
            let first = extents.first()?;
            Some(u64::from_le_bytes(first.block.0[..8].try_into().unwrap()))
        }
        _ => None,
    }
}

impl Living for Tree {
    type Error = Infallible;

    fn root(&self) -> NodeId {
        ROOT
    }

    fn node(&self, name: &Name) -> Result<Option<NodeId>, Infallible> {
        Ok(self.names.get(name).copied())
    }

    fn names(&self, node: NodeId) -> Result<Vec<Name>, Infallible> {
        let found = self.names.iter().filter(|(_, one)| **one == node);
        Ok(found.map(|(name, _)| name.clone()).collect())
    }

    fn merged(
        &self,
        base: &Entry,
        mine: &Entry,
        theirs: &Entry,
    ) -> Result<Option<Arc<[u8]>>, Infallible> {
        let texts = [base, mine, theirs].map(|one| number(one).filter(|one| *one >= TEXTS));
        let [Some(_), Some(mine), Some(theirs)] = texts else {
            return Ok(None);
        };
        let number = if mine == theirs {
            mine
        } else {
            merged(mine, theirs)
        };
        Ok(Some(number.to_le_bytes().into()))
    }
}

/// A living state that somebody changes: the first question on a name is answered as it was, each later one as it is then.
struct Changing<'t> {
    was: &'t Tree,
    is: &'t Tree,
    asked: RefCell<BTreeSet<Name>>,
}

impl Living for Changing<'_> {
    type Error = Infallible;

    fn root(&self) -> NodeId {
        ROOT
    }

    fn node(&self, name: &Name) -> Result<Option<NodeId>, Infallible> {
        match self.asked.borrow_mut().insert(name.clone()) {
            true => self.was.node(name),
            false => self.is.node(name),
        }
    }

    fn names(&self, node: NodeId) -> Result<Vec<Name>, Infallible> {
        self.was.names(node)
    }

    fn merged(
        &self,
        base: &Entry,
        mine: &Entry,
        theirs: &Entry,
    ) -> Result<Option<Arc<[u8]>>, Infallible> {
        self.was.merged(base, mine, theirs)
    }
}

fn join(base: &Tree, mine: &Tree, theirs: &Tree) -> (Tree, Plan) {
    let conflicts = Conflicts {
        label: LABEL,
        time: TIME,
    };
    let Ok(plan) = merge(&base.delta(mine), &base.delta(theirs), mine, conflicts);
    let result = mine.apply(&plan);
    result.check();
    (result, plan)
}

/// A base, what two sides do to it, and what is looked at in the result.
fn sides(begin: impl FnOnce(&mut Tree)) -> (Tree, Tree, Tree) {
    let mut base = Tree::new();
    begin(&mut base);
    (base.clone(), base.clone(), base)
}

#[test]
fn what_one_side_changed_is_changed() {
    let (base, mut mine, mut theirs) = sides(|tree| {
        tree.file((ROOT, "a"), 2, 20);
        tree.file((ROOT, "b"), 3, 30);
        tree.file((ROOT, "c"), 4, 40);
    });
    mine.write((InodeId(2), 2000), 21);
    theirs.write((InodeId(3), 3000), 31);
    theirs.remove((ROOT, "c"));
    theirs.file((ROOT, "d"), 5, 50);
    let (result, plan) = join(&base, &mine, &theirs);
    assert_eq!(result.wrote("a"), Some(21));
    assert_eq!(result.wrote("b"), Some(31));
    assert_eq!(result.wrote("c"), None);
    assert_eq!(result.wrote("d"), Some(50));
    assert!(plan.conflicts.is_empty());
}

#[test]
fn content_that_both_wrote_is_kept_twice_and_equal_content_once() {
    let (base, mut mine, mut theirs) = sides(|tree| {
        tree.file((ROOT, "letter.txt"), 2, 20);
        tree.file((ROOT, "same"), 3, 30);
    });
    mine.write((InodeId(2), 2000), 21);
    theirs.write((InodeId(2), 2000), 22);
    mine.write((InodeId(3), 3000), 31);
    theirs.write((InodeId(3), 3000), 31);
    let (result, plan) = join(&base, &mine, &theirs);
    assert_eq!(result.wrote("letter.txt"), Some(22));
    assert_eq!(result.wrote(&format!("letter ({LABEL}).txt")), Some(21));
    assert_eq!(plan.conflicts.len(), 1);
    assert_eq!(result.names.len(), 3);
    // A version that two contents have would hide a change from whoever compares versions.
    let version = result.at("letter.txt").unwrap().content_version;
    assert_ne!(version, mine.at("letter.txt").unwrap().content_version);
}

/// Goal: the same bytes and the same version whoever merges, with times by which nobody takes it for what either side had.
#[test]
fn texts_that_both_wrote_are_merged_to_one_content_on_every_device() {
    let (base, mut mine, mut theirs) = sides(|tree| {
        tree.file((ROOT, "letter.txt"), 2, TEXTS);
        tree.file((ROOT, "picture"), 3, 30);
    });
    let id = (InodeId(2), 2000);
    mine.write(id, TEXTS + 1);
    theirs.write(id, TEXTS + 2);
    theirs.write(id, TEXTS + 3);
    let last = Timestamp(2_000);
    theirs.nodes.get_mut(&id).unwrap().ctime = last;
    mine.write((InodeId(3), 3000), 31);
    theirs.write((InodeId(3), 3000), 32);
    let (result, plan) = join(&base, &mine, &theirs);
    let (other_way, _) = join(&base, &theirs, &mine);
    let letter = result.at("letter.txt").unwrap();
    assert_eq!(number(letter), Some(merged(TEXTS + 1, TEXTS + 3)));
    assert_eq!(plan.merged, [(ROOT, b"letter.txt".to_vec())]);
    assert_eq!(Some(letter), other_way.at("letter.txt"));
    let before = [&mine, &theirs].map(|side| side.at("letter.txt").unwrap());
    assert!(
        before
            .iter()
            .all(|one| one.content_version < letter.content_version)
    );
    assert_eq!((letter.mtime, letter.ctime), (TIME, Timestamp(last.0 + 1)));
    // What is no text is kept twice.
    assert_eq!(result.wrote(&format!("picture ({LABEL})")), Some(31));
    assert_eq!(plan.conflicts.len(), 1);
    // Who wrote nothing gets the other content, and nothing is merged.
    let (followed, plan) = join(&base, &base, &theirs);
    assert_eq!(followed.wrote("letter.txt"), Some(TEXTS + 3));
    assert!(plan.merged.is_empty());
    // Without a base nobody knows which lines are new.
    let nothing = Tree::new();
    let (result, plan) = join(&nothing, &mine, &theirs);
    assert_eq!(result.wrote("letter.txt"), Some(TEXTS + 3));
    assert_eq!(
        result.wrote(&format!("letter ({LABEL}).txt")),
        Some(TEXTS + 1)
    );
    assert!(plan.merged.is_empty());
}

/// Goal: it makes no difference by which way a program writes a text. Method: each side writes it in place, or by a new file.
#[test]
fn texts_that_took_the_place_of_another_are_merged_too() {
    for (mine_replaces, theirs_replaces) in [(true, true), (true, false), (false, true)] {
        let (base, mut mine, mut theirs) = sides(|tree| {
            tree.file((ROOT, "letter"), 2, TEXTS);
        });
        let write = |tree: &mut Tree, replaces: bool, number: u64, wrote: u64| match replaces {
            true => tree.replace((ROOT, "letter"), number, wrote),
            false => tree.write((InodeId(2), 2000), wrote),
        };
        write(&mut mine, mine_replaces, 10, TEXTS + 1);
        write(&mut theirs, theirs_replaces, 20, TEXTS + 2);
        let case = format!("{mine_replaces} {theirs_replaces}");
        let (result, plan) = join(&base, &mine, &theirs);
        assert_eq!(
            result.wrote("letter"),
            Some(merged(TEXTS + 1, TEXTS + 2)),
            "{case}"
        );
        assert_eq!((plan.merged.len(), plan.conflicts.len()), (1, 0), "{case}");
        assert_eq!((result.names.len(), result.nodes.len()), (1, 2), "{case}");
        // Two devices that did the same each for itself agree about the file.
        let (other_way, _) = join(&base, &theirs, &mine);
        assert_eq!(other_way.wrote("letter"), result.wrote("letter"), "{case}");
        for known in [&mine, &theirs, &base] {
            let (met, plan) = join(known, &other_way, &result);
            assert!(plan.conflicts.is_empty(), "{case}");
            assert_eq!(met.wrote("letter"), result.wrote("letter"), "{case}");
        }
        // What was not made out of one file is none.
        theirs.file((ROOT, "list"), 30, TEXTS + 3);
        mine.file((ROOT, "list"), 40, TEXTS + 4);
        let (result, plan) = join(&base, &mine, &theirs);
        assert_eq!(result.wrote("list"), Some(TEXTS + 3), "{case}");
        assert_eq!(plan.conflicts.len(), 1, "{case}");
    }
}

/// Goal: one version never has two contents, or a revision takes the content of before for that of now. Method: mine has a merge
/// behind it that nobody knows, which gave the content of the base the version that theirs gives to a new one.
#[test]
fn a_version_that_both_sides_gave_out_is_given_to_neither_content() {
    let (base, mut mine, mut theirs) = sides(|tree| {
        tree.file((ROOT, "letter.txt"), 2, 20);
    });
    let id = (InodeId(2), 2000);
    mine.nodes.get_mut(&id).unwrap().content_version += 1;
    theirs.write(id, 22);
    let (result, plan) = join(&base, &mine, &theirs);
    assert_eq!(result.wrote("letter.txt"), Some(22));
    assert!(plan.conflicts.is_empty());
    let version = |tree: &Tree| tree.at("letter.txt").unwrap().content_version;
    assert_eq!(version(&mine), version(&theirs));
    assert_eq!(version(&result), version(&mine) + 1);
    let (other_way, _) = join(&base, &theirs, &mine);
    assert_eq!(version(&other_way), version(&result));
    assert_eq!(other_way.wrote("letter.txt"), Some(22));
}

#[test]
fn the_published_place_counts_and_content_follows() {
    let (base, mut mine, mut theirs) = sides(|tree| {
        tree.file((ROOT, "a"), 2, 20);
        let inside = tree.directory((ROOT, "inside"), 3);
        tree.file((inside, "x"), 4, 40);
        tree.directory((ROOT, "to"), 5);
    });
    mine.rename((ROOT, "a"), (ROOT, "mine"));
    mine.write((InodeId(2), 2000), 21);
    theirs.rename((ROOT, "a"), (ROOT, "theirs"));
    mine.rename((ROOT, "inside"), (ROOT, "here"));
    theirs.rename((ROOT, "inside"), ((InodeId(5), 5000), "there"));
    let (result, plan) = join(&base, &mine, &theirs);
    assert_eq!(result.wrote("theirs"), Some(21));
    assert_eq!(result.wrote("mine"), None);
    assert_eq!(result.wrote("to/there/x"), Some(40));
    assert!(plan.conflicts.is_empty());
}

#[test]
fn of_two_moves_that_form_a_circle_the_later_one_is_undone() {
    let (base, mut mine, mut theirs) = sides(|tree| {
        let one = tree.directory((ROOT, "one"), 2);
        let two = tree.directory((ROOT, "two"), 3);
        tree.file((one, "x"), 4, 40);
        tree.file((two, "y"), 5, 50);
    });
    mine.rename((ROOT, "one"), ((InodeId(3), 3000), "one"));
    theirs.rename((ROOT, "two"), ((InodeId(2), 2000), "two"));
    let (result, _) = join(&base, &mine, &theirs);
    assert_eq!(result.wrote("one/x"), Some(40));
    assert_eq!(result.wrote("one/two/y"), Some(50));
}

#[test]
fn one_name_made_twice_joins_directories_and_keeps_other_files_apart() {
    let (base, mut mine, mut theirs) = sides(|_| {});
    let here = mine.directory((ROOT, "photos"), 2);
    mine.file((here, "a.jpg"), 3, 30);
    mine.file((here, "same.jpg"), 4, 40);
    mine.file((here, "other.jpg"), 5, 50);
    let deep = mine.directory((here, "deep"), 6);
    mine.file((deep, "x"), 7, 70);
    let there = theirs.directory((ROOT, "photos"), 12);
    theirs.file((there, "b.jpg"), 13, 130);
    theirs.file((there, "same.jpg"), 14, 40);
    theirs.file((there, "other.jpg"), 15, 150);
    let deep = theirs.directory((there, "deep"), 16);
    theirs.file((deep, "y"), 17, 170);
    let (result, plan) = join(&base, &mine, &theirs);
    for (path, wrote) in [
        ("photos/a.jpg", 30),
        ("photos/b.jpg", 130),
        ("photos/same.jpg", 40),
        ("photos/other.jpg", 150),
        ("photos/deep/x", 70),
        ("photos/deep/y", 170),
    ] {
        assert_eq!(result.wrote(path), Some(wrote), "{path}");
    }
    assert_eq!(
        result.wrote(&format!("photos/other ({LABEL}).jpg")),
        Some(50)
    );
    assert_eq!(plan.conflicts.len(), 1);
    assert_eq!(result.nodes.len(), 3 + 7);
}

#[test]
fn what_one_removed_and_the_other_changed_stays_with_its_directories() {
    let (base, mut mine, mut theirs) = sides(|tree| {
        let a = tree.directory((ROOT, "a"), 2);
        let b = tree.directory((a, "b"), 3);
        tree.file((b, "x"), 4, 40);
        tree.file((b, "y"), 5, 50);
        let c = tree.directory((ROOT, "c"), 6);
        tree.file((c, "z"), 7, 70);
        tree.file((c, "w"), 8, 80);
    });
    mine.remove((ROOT, "a"));
    theirs.write((InodeId(4), 4000), 41);
    theirs.remove((ROOT, "c"));
    mine.write((InodeId(7), 7000), 71);
    mine.file(((InodeId(6), 6000), "new"), 9, 90);
    let (result, _) = join(&base, &mine, &theirs);
    assert_eq!(result.wrote("a/b/x"), Some(41));
    assert_eq!(result.wrote("a/b/y"), None);
    assert_eq!(result.wrote("c/z"), Some(71));
    assert_eq!(result.wrote("c/new"), Some(90));
    assert_eq!(result.wrote("c/w"), None);
}

#[test]
fn attributes_are_joined_one_by_one() {
    let (base, mut mine, mut theirs) = sides(|tree| {
        tree.file((ROOT, "a"), 2, 20);
    });
    let id = (InodeId(2), 2000);
    mine.nodes.get_mut(&id).unwrap().mode = 0o600;
    mine.nodes.get_mut(&id).unwrap().uid = 5;
    theirs.nodes.get_mut(&id).unwrap().gid = 6;
    theirs.nodes.get_mut(&id).unwrap().uid = 7;
    theirs.write(id, 21);
    let (result, plan) = join(&base, &mine, &theirs);
    let entry = result.at("a").unwrap();
    assert_eq!((entry.mode, entry.uid, entry.gid), (0o600, 7, 6));
    assert_eq!(result.wrote("a"), Some(21));
    assert!(plan.conflicts.is_empty());
}

#[test]
fn names_of_hard_links_are_joined_one_by_one() {
    let (base, mut mine, mut theirs) = sides(|tree| {
        let id = tree.file((ROOT, "a"), 2, 20);
        tree.names.insert((ROOT, "b".into()), id);
        tree.count();
    });
    let id = (InodeId(2), 2000);
    mine.remove((ROOT, "a"));
    theirs.names.insert((ROOT, "c".into()), id);
    theirs.count();
    let (result, _) = join(&base, &mine, &theirs);
    assert_eq!(result.wrote("a"), None);
    assert_eq!(result.at("b").unwrap().nlink, 2);
    assert_eq!(result.wrote("c"), Some(20));
    // Each took another of both: the file stays.
    theirs = base.clone();
    theirs.remove((ROOT, "b"));
    let (result, _) = join(&base, &mine, &theirs);
    assert_eq!(result.wrote("b"), Some(20));
}

#[test]
fn a_conflict_name_is_never_too_long_and_never_taken() {
    let long = format!("{}.jpeg", "é".repeat(125));
    let (base, mut mine, mut theirs) = sides(|tree| {
        tree.file((ROOT, &long), 2, 20);
        tree.file((ROOT, "x"), 3, 30);
        tree.file((ROOT, &format!("x ({LABEL})")), 4, 40);
    });
    for (number, id) in [(1, 2), (2, 3)] {
        mine.write((InodeId(id), id * 1000), number);
        theirs.write((InodeId(id), id * 1000), number + 10);
    }
    let (result, plan) = join(&base, &mine, &theirs);
    assert!(result.names.keys().all(|name| name.1.len() <= 255));
    for (_, name) in &plan.conflicts {
        String::from_utf8(name.clone()).unwrap();
    }
    assert_eq!(result.wrote(&format!("x ({LABEL} 2)")), Some(2));
    assert!(result.contents().is_superset(&[1, 2, 11, 12, 40].into()));
}

/// A generator that gives the same numbers for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        (!from.is_empty()).then(|| from[self.below(from.len())].clone())
    }
}

/// One random operation. `fresh`: the next number that nothing has, of this side.
fn change(tree: &mut Tree, random: &mut Random, fresh: &mut u64) {
    const NAMES: [&str; 4] = ["a", "b", "c", "d"];
    let directories: Vec<NodeId> = kinds(tree, true);
    let files: Vec<NodeId> = kinds(tree, false);
    let names: Vec<Name> = tree.names.keys().cloned().collect();
    let parent = random.pick(&directories).unwrap();
    let name = NAMES[random.below(NAMES.len())];
    let to: Name = (parent, name.into());
    *fresh += 1;
    match random.below(11) {
        0 | 1 if !tree.names.contains_key(&to) => {
            let text = if fresh.is_multiple_of(2) { TEXTS } else { 0 };
            tree.file((parent, name), *fresh, text + *fresh);
        }
        2 if !tree.names.contains_key(&to) => {
            tree.directory((parent, name), *fresh);
        }
        3 | 4 => {
            if let Some(id) = random.pick(&files) {
                // Two sides may write the same.
                let number = if random.below(4) == 0 {
                    5_000_000
                } else {
                    *fresh
                };
                // A text stays one.
                let is_text = number_of(tree, id).is_some_and(|number| number >= TEXTS);
                tree.write(id, if is_text { TEXTS + number } else { number });
            }
        }
        5 | 6 => {
            let Some(from) = random.pick(&names) else {
                return;
            };
            let id = tree.names[&from];
            let mut above = parent;
            while above != id {
                match tree.place(above) {
                    Some(name) => above = name.0,
                    None => break,
                }
            }
            if above != id && !tree.names.contains_key(&to) {
                tree.names.remove(&from);
                tree.names.insert(to, id);
                tree.nodes.get_mut(&id).unwrap().ctime.0 += 1;
                tree.count();
            }
        }
        7 => {
            // With all below it.
            if let Some(name) = random.pick(&names) {
                tree.names.remove(&name);
                tree.count();
            }
        }
        9 | 10 => {
            if let Some((parent, name)) = random.pick(&names)
                && let Some(number) = number_of(tree, tree.names[&(parent, name.clone())])
            {
                let text = if number >= TEXTS { TEXTS } else { 0 };
                let name = String::from_utf8(name).unwrap();
                tree.replace((parent, &name), *fresh, text + *fresh);
            }
        }
        8 if !tree.names.contains_key(&to) => {
            if let Some(id) = random.pick(&files) {
                tree.names.insert(to, id);
                tree.count();
            }
        }
        _ => {}
    }
}

fn number_of(tree: &Tree, id: NodeId) -> Option<u64> {
    tree.nodes.get(&id).and_then(number)
}

fn kinds(tree: &Tree, directories: bool) -> Vec<NodeId> {
    let all = tree.nodes.iter();
    all.filter(|(_, entry)| (entry.kind == NodeKind::Directory) == directories)
        .map(|(id, _)| *id)
        .collect()
}

#[test]
fn whatever_two_sides_do_the_result_is_a_tree_with_all_that_either_wrote() {
    for seed in 1..=20_000_u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let mut base = Tree::new();
        let mut fresh = 100;
        for _ in 0..random.below(14) {
            change(&mut base, &mut random, &mut fresh);
        }
        let (mut mine, mut theirs) = (base.clone(), base.clone());
        let mut here = 10_000;
        for _ in 0..random.below(8) {
            change(&mut mine, &mut random, &mut here);
        }
        let mut there = 20_000;
        for _ in 0..random.below(8) {
            change(&mut theirs, &mut random, &mut there);
        }
        let case = std::panic::catch_unwind(|| {
            let (result, _) = join(&base, &mine, &theirs);
            // (1)
            let has: BTreeSet<u64> = result.contents().into_iter().flat_map(parts).collect();
            let before = base.contents();
            let wrote = mine
                .contents()
                .union(&theirs.contents())
                .copied()
                .collect::<BTreeSet<_>>();
            for content in wrote.difference(&before) {
                assert!(has.contains(content), "{content} is lost in {result:?}");
            }
            // (2)
            let (followed, plan) = join(&base, &base, &theirs);
            assert_eq!(followed, theirs);
            assert!(plan.conflicts.is_empty());
            let (kept, plan) = join(&base, &mine, &base);
            assert_eq!(kept, mine);
            assert_eq!(plan, Plan::default());
            // The other side gets just that.
            assert_eq!(join(&theirs, &theirs, &result).0, result);
        });
        assert!(
            case.is_ok(),
            "seed {seed}: {base:?}\nmine {mine:?}\ntheirs {theirs:?}"
        );
    }
}

/// Goal: a plan expects of every name what it was decided by, so that a file that came to the name meanwhile is noticed. Method: a new
/// file takes the name of one that theirs wrote, and of one that theirs removed, after each was looked at. Failed before: the plan
/// expected the new files, and took their names away.
#[test]
fn a_plan_expects_what_names_meant_when_it_was_decided() {
    let (base, mine, mut theirs) = sides(|tree| {
        tree.file((ROOT, "removed"), 2, 20);
    });
    theirs.remove((ROOT, "removed"));
    let new = theirs.file((ROOT, "new"), 3, 30);
    let mut is = mine.clone();
    is.file((ROOT, "new"), 4, 40);
    is.replace((ROOT, "removed"), 5, 50);
    let living = Changing {
        was: &mine,
        is: &is,
        asked: RefCell::default(),
    };
    let conflicts = Conflicts {
        label: LABEL,
        time: TIME,
    };
    let Ok(plan) = merge(&base.delta(&mine), &base.delta(&theirs), &living, conflicts);
    let removed = (InodeId(2), 2000);
    let expected = [
        ((ROOT, b"new".to_vec()), (None, Some(new))),
        ((ROOT, b"removed".to_vec()), (Some(removed), None)),
    ];
    assert_eq!(plan.names, BTreeMap::from(expected));
}
