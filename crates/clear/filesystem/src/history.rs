//! Revisions of the whole tree: takes, proves, selects, compares and removes them.
//!
//! Takes   the keys that sign and prove revisions; messages, tags, selectors and paths
//! Gives   revisions, their differences and their contents
//! Never   writes the file of a revision's record: the caller's `write_record` does
//! Spec    spec/6-history.md
//!
//! The crate `history` below this one defines trees. The code that changes the store is here (`take`, `erase`) and in
//! `trees/give_back.rs`; `view` shows the trees to callers.
//!
//! Invariants
//!  (1) One revision is taken or removed at a time.

mod erase;
mod removed;
pub(crate) mod take;
mod view;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::MutexGuard;
use strongroom_crypto::RevisionSigner;
use strongroom_history::{
    self as history, Candidate, PathDifference, Revision, RevisionId, Tree, Usage,
};
use strongroom_metadata::{InodeId, NodeKind, Snapshot};

pub use removed::RemovedRevision;
pub use take::{Taken, admit};
pub(crate) use view::living_extent;

use crate::core::Core;
use crate::trees::cached::Trees;
use crate::{Error, Filesystem, Result};

/// Changes that are looked at in one go.
const PAGE: usize = 1024;

/// The snapshots, oldest first; each proven, once.
fn proven(core: &Core) -> Result<Vec<Arc<Revision>>> {
    let rows = core.store.reader()?.revisions()?;
    let mut proven = core.history.proven.lock();
    proven.retain(|id, _| rows.iter().any(|row| row.id == *id));
    let mut all = Vec::with_capacity(rows.len());
    for row in rows {
        if let Some(known) = proven.get(&row.id) {
            all.push(Arc::clone(known));
            continue;
        }
        let revision = Arc::new(core.history.prove(&row.id, &row.body)?);
        proven.insert(row.id, Arc::clone(&revision));
        all.push(revision);
    }
    // A pull may bring an older one later. Of those that go on from one another each has a greater sequence than the one before.
    all.sort_by_key(|one| one.body.sequence);
    Ok(all)
}

/// The one revision that `selector` means; `UnknownRevision` if it means none or several, or nothing at all.
fn select_one(core: &Core, selector: &str) -> Result<Arc<Revision>> {
    let all = proven(core)?;
    let candidates: Vec<Candidate<'_>> = all.iter().map(|one| one.candidate()).collect();
    let place = history::select_one(selector, &candidates, core.now())
        .map_err(|error| Error::UnknownRevision(error.to_string()))?;
    Ok(Arc::clone(&all[place]))
}

/// What a listing of `.history` shows: the beginning of each id, and the tags.
fn names(core: &Core) -> Result<Vec<Vec<u8>>> {
    let all = proven(core)?;
    let ids = all.iter().map(|one| one.id.to_string()[..16].to_owned());
    let mut tags: HashMap<String, u32> = HashMap::new();
    for tag in all.iter().flat_map(|one| &one.body.tags) {
        *tags.entry(format!("t:{tag}")).or_insert(0) += 1;
    }
    // What names several revisions names none; `*` in a tag would. A space at the end is no part of a selector.
    let is_name = |tag: &str| !tag.contains('*') && tag.len() <= 255 && tag.trim_end() == tag;
    let mut tags: Vec<String> = tags
        .into_iter()
        .filter(|(tag, count)| *count == 1 && is_name(tag))
        .map(|(tag, _)| tag)
        .collect();
    tags.sort_unstable();
    Ok(ids.chain(tags).map(String::into_bytes).collect())
}

impl Filesystem {
    /// Signs with `signer` from now on: the keys of the vault changed.
    pub fn sign_with(&self, signer: RevisionSigner) {
        *self.core.history.signer.lock() = signer;
    }

    /// No revision is taken or removed while this is held. (1)
    pub fn hold_revisions(&self) -> MutexGuard<'_, ()> {
        self.core.history.turn.lock()
    }

    /// The revision in stored bytes, if it proves itself: of this vault, and signed by one of its devices.
    ///
    /// # Errors
    /// `History`.
    pub fn prove_revision(&self, bytes: &[u8]) -> Result<Revision> {
        Ok(Revision::decode(bytes, &self.core.history.signer.lock())?)
    }

    /// The snapshots, oldest first; each proven.
    ///
    /// # Errors
    /// Of the store; `History` for one that does not prove itself.
    pub fn revisions(&self) -> Result<Vec<Arc<Revision>>> {
        proven(&self.core)
    }

    /// Every snapshot, oldest first, or why its row cannot be trusted.
    ///
    /// # Errors
    /// Of the store.
    pub fn each_revision(&self) -> Result<Vec<([u8; 32], Result<Revision>)>> {
        let rows = self.engine().reader()?.revisions()?.into_iter();
        let history = &self.core.history;
        let proven = rows.map(|row| (row.id, history.prove(&row.id, &row.body)));
        Ok(proven.collect())
    }

    /// A page of what differs between two snapshots at and below `path`, behind the path `behind`; `after`: `None` for the
    /// living state.
    ///
    /// # Errors
    /// `UnknownRevision`; `ReadOnly` for the living state of a vault that is open for reading only; of the stores.
    pub fn differences(
        &self,
        (before, after): (&[u8; 32], Option<&[u8; 32]>),
        path: &[u8],
        behind: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<PathDifference>> {
        let all = proven(&self.core)?;
        let trees = self.engine().trees();
        let tree = Tree::new(&trees);
        let root = |id: &[u8; 32]| {
            let revision = all.iter().find(|one| one.id.0 == *id);
            let revision = revision.ok_or(history::Error::UnknownRevision)?;
            tree.root(&revision.body.root)
        };
        let before = root(before)?;
        match after {
            Some(after) => {
                history::differences(&tree, (&before, &root(after)?), path, behind, limit)
            }
            None => self.with_now(|now| {
                let after = tree.root(now)?;
                history::differences(&tree, (&before, &after), path, behind, limit)
            }),
        }
    }

    /// How many nodes but directories are new, changed or elsewhere since the revision `head`; without one, how many there are. `None` if
    /// that is not known, because `head` is not kept. Everything acknowledged before is durable on return; nothing is stored for the
    /// comparison, and nobody who takes a snapshot is waited for. Costs time and memory in proportion to the changes.
    ///
    /// # Errors
    /// As `sync`; of the stores.
    pub fn files_changed_since(&self, head: Option<&[u8; 32]>) -> Result<Option<u64>> {
        self.sync()?;
        let engine = self.engine();
        // Snapshots are taken and removed meanwhile: all rows are of one moment, and the trees that they name stay. What went before is committed,
        // so that these rows do not name it.
        let _held = engine.hold();
        engine.commit()?;
        // First: who waits for a second reader with the first may wait for ever.
        let all = proven(&self.core)?;
        let connection = engine.reader()?;
        let reader = connection.snapshot()?;
        let Some(head) = head else {
            let mut count = 0;
            reader.for_each_inode(|node| {
                count += u64::from(node.kind != NodeKind::Directory && node.nlink > 0);
            })?;
            return Ok(Some(count));
        };
        let noted = reader.history()?;
        let Some(base) = noted.base else {
            return Ok(None);
        };
        let newest = reader.block_id(base.root)?;
        let head = all.iter().find(|one| one.id.0 == *head);
        let (Some(newest), Some(head)) = (newest, head) else {
            return Ok(None);
        };
        // Between those trees, and since the newer one.
        let mut changed: HashSet<u64> = HashSet::new();
        let trees = engine.trees();
        let tree = Tree::new(&trees);
        let (before, after) = (tree.root(&head.body.root)?, tree.root(&newest)?);
        let mut behind: Option<Vec<u8>> = None;
        loop {
            let sides = (&before, &after);
            let page = history::differences(&tree, sides, b"/", behind.as_deref(), PAGE)?;
            changed.extend(
                page.iter()
                    .filter_map(|one| Some(one.after.as_ref()?.node.0)),
            );
            match page.last() {
                Some(last) if page.len() == PAGE => behind = Some(last.path.clone()),
                _ => break,
            }
        }
        let mut from = InodeId(base.scan_from);
        loop {
            let page = reader.inodes_from(from, PAGE)?;
            changed.extend(page.iter().map(|inode| inode.0));
            match page.last() {
                Some(last) if page.len() == PAGE => from = InodeId(last.0 + 1),
                _ => break,
            }
        }
        for generation in base.generation + 1..=noted.generation {
            let mut behind = None;
            loop {
                let page = reader.changed(generation, behind.as_ref(), PAGE)?;
                changed.extend(page.iter().map(|(inode, _)| inode.0));
                match page.last() {
                    Some(last) if page.len() == PAGE => behind = Some(last.clone()),
                    _ => break,
                }
            }
        }
        let mut count = 0;
        for inode in changed {
            let node = reader.inode(InodeId(inode))?;
            let is_file =
                node.is_some_and(|node| node.kind != NodeKind::Directory && node.nlink > 0);
            count += u64::from(is_file);
        }
        Ok(Some(count))
    }

    /// Whether the snapshot `id` has all that is at `places` in the living state: each is its path in the snapshot, and that now.
    ///
    /// # Errors
    /// `ReadOnly` for a vault that is open for reading only; of the stores.
    pub fn has_all(&self, id: &[u8; 32], places: &[(Vec<u8>, Vec<u8>)]) -> Result<bool> {
        let all = proven(&self.core)?;
        let Some(revision) = all.iter().find(|one| one.id.0 == *id) else {
            return Ok(false);
        };
        let trees = self.engine().trees();
        let tree = Tree::new(&trees);
        let before = tree.root(&revision.body.root)?;
        self.with_now(|now| {
            let after = tree.root(now)?;
            for (kept, now) in places {
                if !history::has_same(&tree, (&before, &kept[..]), (&after, &now[..]))? {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }

    /// What would come back, in sealed bytes, if the revisions `ids` went together.
    ///
    /// # Errors
    /// `UnknownRevision`; of the stores.
    pub fn held_alone(&self, ids: &[RevisionId]) -> Result<u64> {
        let all = self.revisions()?;
        if ids.iter().any(|id| all.iter().all(|one| one.id != *id)) {
            return Err(history::Error::UnknownRevision.into());
        }
        self.on_state(|trees, state| history::held_alone(trees, state, ids))
    }

    /// The same for each of `ids` by itself; 0 for one that is not kept.
    ///
    /// # Errors
    /// Of the stores.
    pub fn each_held_alone(&self, ids: &[RevisionId]) -> Result<Vec<u64>> {
        self.on_state(|trees, state| history::each_held_alone(trees, state, ids))
    }

    /// What the stored content is for.
    ///
    /// # Errors
    /// Of the stores.
    pub fn usage(&self) -> Result<Usage> {
        self.on_state(|trees, state| history::usage(trees, state))
    }

    /// Looks at one state of the rows, of which nothing goes meanwhile.
    fn on_state<T>(
        &self,
        look: impl FnOnce(&Trees<'_>, &Snapshot<'_, '_>) -> Result<T>,
    ) -> Result<T> {
        let engine = self.engine();
        let _held = engine.hold();
        let reader = engine.reader()?;
        look(&engine.trees(), &reader.snapshot()?)
    }
}
