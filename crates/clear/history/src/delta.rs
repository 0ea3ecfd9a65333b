//! Compares two trees node by node: which names were added or removed, even if directories moved.
//!
//! Takes   the roots of two trees
//! Gives   each name and each node that differs between the trees, as it is on both sides
//! Never   opens a directory that is the same on both sides
//!
//! Memory: about 500 bytes for each name and node that differs.

use std::collections::BTreeMap;

use strongroom_metadata::InodeId;

use crate::blocks::Blocks;
use crate::entry::{Body, Entry};
use crate::error::Error;
use crate::limits::DELTA_ITEMS_MAX;
use crate::read::{Directory, Tree};

/// A node: its number, and its birth id, which tells it from another of that number.
pub type NodeId = (InodeId, u64);

/// A name: the directory that it is in, and its bytes.
pub type Name = (NodeId, Vec<u8>);

/// What two trees do not have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delta {
    /// Names that mean another node, or none on one side: what each meant before, and means after.
    pub names: BTreeMap<Name, (Option<NodeId>, Option<NodeId>)>,
    /// Nodes that differ, were moved, or are on one side only, before and after, without their names; directories without entries.
    pub nodes: BTreeMap<NodeId, (Option<Entry>, Option<Entry>)>,
}

/// Directories whose other side was not met yet, with what they hold.
type Unmatched = BTreeMap<NodeId, Directory>;

impl Entry {
    /// The node that it names.
    #[must_use]
    pub const fn node(&self) -> NodeId {
        (self.inode, self.birth_id)
    }
}

/// The difference between two trees; without `before`, all of `after`.
///
/// # Errors
/// `Error::TooManyChanges`; those of the blocks.
pub fn delta<B: Blocks>(
    tree: &Tree<'_, B>,
    before: Option<&Entry>,
    after: &Entry,
) -> Result<Delta, B::Error> {
    let mut found = Delta::default();
    let (mut went, mut came) = (Unmatched::new(), Unmatched::new());
    if before != Some(after) {
        found.node(before.cloned(), Some(after.clone()));
    }
    let before = before.and_then(Entry::directory);
    let mut pairs = vec![(after.node(), before, after.directory())];
    // Directories that went from one place and came to another: both sides of them are compared, and nothing in them is opened
    // that is the same.
    let mut moved: Vec<NodeId> = Vec::new();
    loop {
        let (directory, before, after) = match pairs.pop() {
            Some(pair) => pair,
            None => {
                let next = moved
                    .pop()
                    .filter(|id| went.contains_key(id) || came.contains_key(id));
                let next = next.or_else(|| came.keys().next().or(went.keys().next()).copied());
                let Some(id) = next else { break };
                (id, went.remove(&id).flatten(), came.remove(&id).flatten())
            }
        };
        tree.compare(before, after, None, &mut |one, other| {
            let name = one.as_ref().or(other.as_ref());
            let name = name.map(|entry| entry.name.clone()).unwrap_or_default();
            let ids = (
                one.as_ref().map(Entry::node),
                other.as_ref().map(Entry::node),
            );
            if ids.0 != ids.1 {
                found.name((directory, name), ids);
            }
            match (&one, &other) {
                (Some(one), Some(other)) if ids.0 == ids.1 => {
                    if one.directory() != other.directory() {
                        pairs.push((one.node(), one.directory(), other.directory()));
                    }
                }
                (one, other) => {
                    let is_one = |side: &Option<Entry>| match side {
                        Some(side) if matches!(side.body, Body::Directory(_)) => {
                            Some((side.node(), side.directory()))
                        }
                        _ => None,
                    };
                    if let Some((id, inside)) = is_one(one) {
                        went.insert(id, inside);
                        moved.extend(came.contains_key(&id).then_some(id));
                    }
                    if let Some((id, inside)) = is_one(other) {
                        came.insert(id, inside);
                        moved.extend(went.contains_key(&id).then_some(id));
                    }
                }
            }
            found.node(one, other);
            Ok(found.names.len() + found.nodes.len() <= DELTA_ITEMS_MAX)
        })?;
        if found.names.len() + found.nodes.len() > DELTA_ITEMS_MAX {
            return Err(Error::TooManyChanges.into());
        }
    }
    found.names.retain(|_, (before, after)| before != after);
    Ok(found)
}

impl Delta {
    /// Notes what a name means; what is known of its other side stays.
    fn name(&mut self, name: Name, (before, after): (Option<NodeId>, Option<NodeId>)) {
        let known = self.names.entry(name).or_default();
        known.0 = before.or(known.0);
        known.1 = after.or(known.1);
    }

    /// Notes what nodes are; what is known of their other sides stays.
    fn node(&mut self, before: Option<Entry>, after: Option<Entry>) {
        if let Some(before) = before.map(nameless) {
            let id = before.node();
            self.nodes.entry(id).or_default().0 = Some(before);
        }
        if let Some(after) = after.map(nameless) {
            let id = after.node();
            self.nodes.entry(id).or_default().1 = Some(after);
        }
    }
}

/// What is the same under each name of a node.
fn nameless(entry: Entry) -> Entry {
    let body = match entry.body {
        Body::Directory(_) => Body::Directory(None),
        body => body,
    };
    Entry {
        name: Vec::new(),
        body,
        ..entry
    }
}
