//! Marks what changes, for the next tree of the history, and stores revisions.
//!
//! Takes   each change, in the transaction that makes it
//! Gives   the work list of the next tree, generation by generation (`tables/history.rs`)
//! Never   knows the layout of a tree
//! Spec    spec/4-metadata.md, 4.10
//!
//! Invariants
//!  (1) Every difference from the newest tree is marked with a generation (the time between two barriers) that is later
//!      than the generation of that tree. New nodes need no mark: their numbers, from `scan_from`
//!      on, show that they are new.                                                                  [4.10.2]
//!  (2) A mark is committed together with its change.                                                [4.10.1]

use std::collections::btree_map;

use crate::error::{Error, Result};
use crate::limits::{INODE_NUMBERS_MAX, INODE_PREFIX_SHIFT, INODE_PREFIXES_MAX, VALUE_BYTES_MAX};
use crate::rows::{InodeId, Revision};
use crate::store::transaction::{
    Transaction, Writer, check_inode_number, check_len, check_numbers,
};
use crate::tables::columns::{bound, key, whole};
use crate::tables::history::{Base, ChangedItem, History, SETTING};
use crate::tables::marked::mark;
use crate::tables::sql::Statement;

impl Writer {
    /// Whether nobody needs marks of `inode`: there is no base, or it was made behind the last barrier. (1)
    const fn is_new(&self, inode: InodeId) -> bool {
        let first = self.history.mark_below;
        first == 0 || inode.is_from(first)
    }

    /// Marks a change of `inode`, unless it is new. (1)
    pub(crate) fn mark(&mut self, inode: InodeId, item: ChangedItem) {
        if self.is_new(inode) || item == ChangedItem::Region(0) {
            return;
        }
        let (item, was) = item.encode();
        if let btree_map::Entry::Vacant(place) = self.marks.entry((inode, item)) {
            place.insert(was);
            self.pages_changed += 1;
        }
    }

    /// Marks that `name` no longer names `was`. A node that is new cannot have had the name in the base: had another
    /// had it, the loss of that is marked.
    pub(crate) fn name_removed(&mut self, parent: InodeId, name: &[u8], was: InodeId) {
        if !self.is_new(was) {
            self.mark(parent, ChangedItem::Name(name.to_vec(), was));
        }
    }

    /// The node that `name` names, if the answer is needed for a mark; else 0.
    pub(crate) fn bound_before(&self, parent: InodeId, name: &[u8]) -> Result<InodeId> {
        if self.is_new(parent) {
            return Ok(InodeId(0));
        }
        let entry = self.reads.entry(parent, name)?;
        Ok(entry.map_or(InodeId(0), |entry| entry.inode))
    }

    /// Writes the marks down. (2)
    pub(crate) fn flush_marks(&mut self) -> Result<()> {
        let generation = key(self.history.generation);
        for ((inode, item), was) in std::mem::take(&mut self.marks) {
            self.run(
                Statement::ChangedPut,
                (generation, key(inode.0), item, key(was)),
            )?;
        }
        Ok(())
    }

    fn put_history(&mut self, history: History) -> Result<()> {
        self.run(Statement::SettingPut, (SETTING, mark(&history.encode())))?;
        self.history = history;
        Ok(())
    }
}

impl Transaction<'_> {
    /// What is known of the newest tree, with what is not committed yet. Costs nothing.
    pub fn history(&self) -> Result<History> {
        Ok(self.writer.history)
    }

    /// Whether the open transaction has marks that are in no table yet.
    #[must_use]
    pub fn has_marks(&self) -> bool {
        !self.writer.marks.is_empty()
    }

    /// Begins the next generation: what was marked until now belongs to the one before. Gives the new state.
    pub fn begin_generation(&mut self) -> Result<History> {
        self.change(0, |writer| {
            writer.flush_marks()?;
            let history = History {
                generation: writer.history.generation + 1,
                mark_below: writer.numbers.next_inode,
                ..writer.history
            };
            writer.put_history(history)?;
            Ok(history)
        })
    }

    /// Gives no number of this device up to `last` to a new inode: they are somebody's already.
    ///
    /// # Errors
    /// `Error::Invalid` if `last` is no number of an inode.
    pub fn skip_inodes(&mut self, last: InodeId) -> Result<()> {
        check_inode_number(last.0)?;
        self.change(0, |writer| {
            let next = &mut writer.numbers.next_inode;
            if last.is_from(*next) {
                *next = last.0 + 1;
            }
            Ok(())
        })
    }

    /// The prefix of the device whose numbers new inodes get.
    #[must_use]
    pub fn inode_prefix(&self) -> u64 {
        InodeId(self.writer.numbers.next_inode.saturating_sub(1)).prefix()
    }

    /// Gives new inodes numbers of the device of `prefix` from now on. Gives the base that no longer serves, if there is one: nodes
    /// that were made since it are not marked. Its reference is the caller's matter.
    ///
    /// # Errors
    /// `Error::Invalid` for a prefix beyond all.
    pub fn begin_inodes(&mut self, prefix: u64) -> Result<Option<Base>> {
        if self.inode_prefix() == prefix {
            return Ok(None);
        }
        if prefix >= INODE_PREFIXES_MAX {
            return Err(Error::Invalid("no prefix of inodes is left"));
        }
        let last = (prefix << INODE_PREFIX_SHIFT) | (INODE_NUMBERS_MAX - 1);
        let greatest = self.greatest_inode(last)?;
        let next = match greatest.prefix() == prefix {
            true => greatest.0 + 1,
            false => (prefix << INODE_PREFIX_SHIFT) + 1,
        };
        let base = self.writer.history.base;
        let has_new = match base {
            Some(base) => !self.inodes_from(InodeId(base.scan_from), 1)?.is_empty(),
            None => false,
        };
        self.change(0, |writer| {
            writer.numbers.next_inode = next;
            let base = base.filter(|_| !has_new);
            writer.put_history(History {
                base: base.map(|base| Base {
                    scan_from: next,
                    ..base
                }),
                mark_below: base.map_or(0, |_| next),
                ..writer.history
            })
        })?;
        Ok(base.filter(|_| has_new))
    }

    /// Goes on behind `sequence` with the next revision that is taken here.
    pub fn skip_sequence(&mut self, sequence: u64) -> Result<()> {
        check_numbers(&[sequence])?;
        self.change(0, |writer| {
            writer.put_history(History {
                sequence: writer.history.sequence.max(sequence),
                ..writer.history
            })
        })
    }

    /// Makes `base` the newest tree. References are the caller's matter.
    ///
    /// # Errors
    /// `Error::Invalid` for a generation that is not over.
    pub fn set_base(&mut self, base: Option<Base>) -> Result<()> {
        self.change(0, |writer| {
            if base.is_some_and(|base| base.generation >= writer.history.generation) {
                return Err(Error::Invalid("a tree must cover only ended generations"));
            }
            // Without a base the next tree is built from nothing, and nobody asks for marks.
            let mark_below = base.map_or(0, |_| writer.history.mark_below);
            writer.put_history(History {
                base,
                mark_below,
                ..writer.history
            })
        })
    }

    /// Removes up to `limit` marks that the base covers; gives whether more may be left.
    pub fn forget_changed(&mut self, limit: usize) -> Result<bool> {
        let Some(base) = self.writer.history.base else {
            return Ok(false);
        };
        let old = self.writer.reads.all(
            Statement::ChangedOldest,
            (key(base.generation), bound(limit)),
            |row| Ok((whole(row, 0)?, whole(row, 1)?, row.get::<_, Vec<u8>>(2)?)),
        )?;
        let more = old.len() == limit;
        for (generation, inode, item) in old {
            self.change(0, |writer| {
                writer.run(
                    Statement::ChangedRemove,
                    (key(generation), key(inode), item),
                )?;
                Ok(())
            })?;
        }
        Ok(more)
    }

    /// Keeps a revision; gives its number. References are the caller's matter.
    ///
    /// # Errors
    /// `Error::Invalid` if one of this id is kept.
    pub fn insert_revision(&mut self, revision: &Revision) -> Result<u64> {
        check_numbers(&[revision.root.0])?;
        check_len(
            revision.body.len(),
            VALUE_BYTES_MAX,
            "the record of a snapshot is too long",
        )?;
        self.change(revision.body.len(), |writer| {
            let greatest = writer.reads.one(Statement::RevisionGreatest, [], |row| {
                Ok(row.get::<_, Option<i64>>(0)?)
            })?;
            let number = greatest.flatten().unwrap_or(0).max(0).cast_unsigned() + 1;
            let params = (
                key(number),
                &revision.id[..],
                key(revision.root.0),
                revision.taken.0,
                mark(&revision.body),
            );
            if writer.run(Statement::RevisionInsert, params)? != 1 {
                return Err(Error::Invalid("a snapshot of this id already exists"));
            }
            writer.put_history(History {
                sequence: writer.history.sequence + 1,
                ..writer.history
            })?;
            Ok(number)
        })
    }

    /// Forgets a revision; gives whether there was one. References are the caller's matter.
    pub fn remove_revision(&mut self, number: u64) -> Result<bool> {
        self.change(0, |writer| {
            Ok(writer.run(Statement::RevisionRemove, [key(number)])? == 1)
        })
    }
}
