//! Decides what each node becomes: attributes are merged one by one; contents are merged, or both are kept.
//!
//! Takes   the states of each node in a merge: in the base, in mine and in theirs
//! Gives   nodes of the plan, and copies
//! Never   changes a name, except to name a copy
//! Spec    spec/11-sync.md, [11.6.2], [11.6.10], [11.6.14]

use std::sync::Arc;

use strongroom_metadata::{NodeKind, Timestamp};

use crate::delta::{Name, NodeId};
use crate::entry::Entry;
use crate::merge::{Known, Merge, content_differs, is_directory};
use crate::plan::{Becomes, ConflictCopy, Living, NewContent};

impl<L: Living> Merge<'_, L> {
    pub(super) fn nodes(&mut self) -> Result<(), L::Error> {
        let ids: Vec<NodeId> = self.known.keys().copied().collect();
        for id in ids {
            if !self.lives(id) {
                continue;
            }
            let known = &self.known[&id];
            let (base, mine, theirs) = (known.base, known.mine, known.theirs);
            let becomes = match (mine, theirs) {
                (None, Some(theirs)) => self.replaced.remove(&id).unwrap_or_else(|| Becomes {
                    mine: None,
                    entry: theirs.clone(),
                    content: Some(NewContent::Of(Box::new(theirs.clone()))),
                    xattrs: Some((None, theirs.clone())),
                }),
                (Some(mine), Some(theirs)) if mine != theirs && base != Some(theirs) => {
                    self.both(base, mine, theirs)?
                }
                _ => continue,
            };
            self.plan.nodes.insert(id, becomes);
        }
        Ok(())
    }

    /// A node that theirs changed, and mine perhaps.
    fn both(
        &mut self,
        base: Option<&Entry>,
        mine: &Entry,
        theirs: &Entry,
    ) -> Result<Becomes, L::Error> {
        let is_mine_as_before = base == Some(mine);
        let theirs_wrote = base.is_none_or(|base| content_differs(base, theirs));
        let mine_wrote = base.is_none_or(|base| content_differs(base, mine));
        let differ = content_differs(mine, theirs);
        let takes = theirs_wrote && differ;
        let merged = match takes && mine_wrote && !is_directory(mine) {
            true => self.merge_or_keep_both(base, mine, theirs)?,
            false => None,
        };
        let xattrs = (mine.xattrs != theirs.xattrs
            && base.is_none_or(|base| base.xattrs != theirs.xattrs))
        .then(|| (base.cloned(), theirs.clone()));
        let of_theirs = || takes.then(|| NewContent::Of(Box::new(theirs.clone())));
        if is_mine_as_before {
            // (2)
            return Ok(Becomes {
                mine: Some(mine.clone()),
                entry: theirs.clone(),
                content: of_theirs(),
                xattrs,
            });
        }
        Ok(Becomes {
            mine: Some(mine.clone()),
            entry: self.joined(base, mine, theirs, merged.as_deref()),
            content: merged.map(NewContent::Merged).or_else(of_theirs),
            xattrs,
        })
    }

    /// The attributes of a node that both sides changed, and the length of its content, which is `merged` if that is there.
    fn joined(
        &self,
        base: Option<&Entry>,
        mine: &Entry,
        theirs: &Entry,
        merged: Option<&[u8]>,
    ) -> Entry {
        let theirs_wrote = base.is_none_or(|base| content_differs(base, theirs));
        let version = mine.content_version.max(theirs.content_version);
        let is_other = content_differs(mine, theirs) && !is_directory(mine);
        let written = if theirs_wrote { theirs } else { mine };
        let mut entry = Entry {
            mode: chosen(base, mine, theirs, |entry| entry.mode),
            uid: chosen(base, mine, theirs, |entry| entry.uid),
            gid: chosen(base, mine, theirs, |entry| entry.gid),
            atime: mine.atime.max(theirs.atime),
            mtime: chosen(base, mine, theirs, |entry| entry.mtime),
            ctime: mine.ctime.max(theirs.ctime),
            btime: chosen(base, mine, theirs, |entry| entry.btime),
            size: written.size,
            body: written.body.clone(),
            // One version has one content, on every device: where the sides differ, the version is one that neither gave out.
            content_version: version + u64::from(is_other),
            ..mine.clone()
        };
        if let Some(merged) = merged {
            entry.size = merged.len() as u64;
            // Whoever compares times with those of either side has to see that it is another content.
            entry.mtime = self.written_after(mine.mtime, theirs.mtime);
            entry.ctime = self.written_after(mine.ctime, theirs.ctime);
        }
        entry
    }

    /// The content of a file that both sides wrote, if it can be merged; else a copy is kept of mine.                     (1)
    fn merge_or_keep_both(
        &mut self,
        base: Option<&Entry>,
        mine: &Entry,
        theirs: &Entry,
    ) -> Result<Option<Arc<[u8]>>, L::Error> {
        let Some(place) = self.place(mine.node())? else {
            return Ok(None);
        };
        if let Some(base) = base
            && mine.kind == NodeKind::File
            && let Some(merged) = self.living.merged(base, mine, theirs)?
        {
            self.plan.merged.push(place);
            return Ok(Some(merged));
        }
        let at = self.conflict_name(&place)?;
        // Nobody else may get that name.
        self.now.insert(at.clone(), None);
        self.plan.copies.push(ConflictCopy {
            of: mine.clone(),
            at: at.clone(),
        });
        self.plan.conflicts.push(at);
        Ok(None)
    }

    /// A time of a content that is new to both sides.
    fn written_after(&self, mine: Timestamp, theirs: Timestamp) -> Timestamp {
        let Timestamp(last) = mine.max(theirs);
        self.conflicts.time.max(Timestamp(last.saturating_add(1)))
    }

    /// Merges a file of mine and one of theirs where at least one of them is new and took the name of a file that both sides had: so
    /// do programs that write a new file and give it the name of the old one. Gives whether it could.
    pub(super) fn merge_replaced(
        &mut self,
        name: &Name,
        mine: NodeId,
        theirs: NodeId,
    ) -> Result<bool, L::Error> {
        let before = self.deltas.iter().find_map(|delta| delta.names.get(name));
        let Some((Some(before), _)) = before else {
            return Ok(false);
        };
        let known = [*before, mine, theirs].map(|id| self.known.get(&id));
        let [Some(old), Some(here), Some(there)] = known else {
            return Ok(false);
        };
        let (Some(base), Some(one), Some(other)) = (old.base, here.mine, there.theirs) else {
            return Ok(false);
        };
        let is_other_side = here.theirs.is_some() || there.mine.is_some();
        let is_elsewhere = |id, known: &Known<'_>| id != *before && known.base.is_some();
        let is_file = |one: &&Entry| one.kind == NodeKind::File && one.nlink <= 1;
        if is_other_side
            || is_elsewhere(mine, here)
            || is_elsewhere(theirs, there)
            || ![base, one, other].iter().all(is_file)
            || (one.xattrs != base.xattrs && one.xattrs != other.xattrs)
        {
            return Ok(false);
        }
        let Some(merged) = self.living.merged(base, one, other)? else {
            return Ok(false);
        };
        let becomes = Becomes {
            mine: None,
            entry: Entry {
                inode: other.inode,
                birth_id: other.birth_id,
                ..self.joined(Some(base), one, other, Some(&merged))
            },
            content: Some(NewContent::Merged(merged)),
            xattrs: Some((None, other.clone())),
        };
        self.replaced.insert(theirs, becomes);
        self.plan.merged.push(name.clone());
        Ok(true)
    }
}

/// What theirs says where theirs changed it, else what mine says.
fn chosen<T: PartialEq>(
    base: Option<&Entry>,
    mine: &Entry,
    theirs: &Entry,
    field: impl Fn(&Entry) -> T,
) -> T {
    match base {
        Some(base) if field(base) == field(theirs) => field(mine),
        _ => field(theirs),
    }
}
