//! What the history needs of the database: what changed since the newest tree, blocks that wait to be given back,
//! and the kept revisions.
//!
//! Takes   changes as they happen, in the transaction in which they happen
//! Gives   the work list of the next tree, generation by generation
//! Never   knows what a tree looks like
//! Spec    spec/4-metadata.md, 4.10
//!
//! A *generation* lies between two barriers. At a barrier the next one begins; the tree that is built for the barrier
//! covers all before it, and once it is the base, their marks mean nothing any more.
//!
//! Invariants
//!  (1) What differs between the base and now is marked in a generation after the base's, or is a node numbered
//!      `scan_from` of the base or above: those are new, and found by their numbers.                 [4.10.2]
//!  (2) A mark is committed with the change that it is about.                                        [4.10.1]

use std::collections::BTreeMap;

use strongroom_format::BlockId;

use crate::columns::{bound, key, revision_at, whole};
use crate::error::{Error, Result};
use crate::limits::{NAME_BYTES_MAX, VALUE_BYTES_MAX};
use crate::marked::mark;
use crate::reads::Reads;
use crate::rows::{BlockNumber, InodeId, Revision};
use crate::sql::Statement;
use crate::transaction::{Transaction, Writer, check_len, check_numbers};

/// The key of the setting that keeps `History`.
pub(crate) const SETTING: &str = "history";

/// Count of `u64` fields of `History`.
const FIELDS: usize = 6;

/// What is known of the newest tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History {
    /// The generation that changes belong to now.
    pub generation: u64,
    /// Nodes numbered from here on are new since the last barrier, and found without marks.
    pub mark_below: u64,
    /// The newest whole tree.
    pub base: Option<Base>,
    /// How many revisions this replica ever took.
    pub sequence: u64,
}

/// The newest tree that was built to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Base {
    /// The block that holds its root. Counts as one reference.
    pub root: BlockNumber,
    /// The last generation that it covers.
    pub generation: u64,
    /// Nodes numbered from here on are not in it.
    pub scan_from: u64,
}

impl History {
    /// That of a vault without history.
    pub(crate) const EMPTY: Self = Self {
        generation: 1,
        mark_below: 0,
        base: None,
        sequence: 0,
    };

    fn encode(&self) -> [u8; FIELDS * 8] {
        let base = self.base.unwrap_or(Base {
            root: BlockNumber(0),
            generation: 0,
            scan_from: 0,
        });
        let fields = [
            self.generation,
            self.mark_below,
            base.root.0,
            base.generation,
            base.scan_from,
            self.sequence,
        ];
        let mut bytes = [0; FIELDS * 8];
        for (slot, field) in bytes.chunks_exact_mut(8).zip(fields) {
            slot.copy_from_slice(&field.to_le_bytes());
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        let damaged = || Error::Damaged("the state of the history is not as written");
        let bytes: &[u8; FIELDS * 8] = bytes.try_into().map_err(|_| damaged())?;
        let mut fields = [0; FIELDS];
        for (field, slot) in fields.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *field = u64::from_le_bytes(*slot);
        }
        if fields.iter().any(|&field| field > i64::MAX.cast_unsigned()) {
            return Err(damaged());
        }
        let [
            generation,
            mark_below,
            root,
            base_generation,
            scan_from,
            sequence,
        ] = fields;
        let base = (root != 0).then_some(Base {
            root: BlockNumber(root),
            generation: base_generation,
            scan_from,
        });
        if generation == 0 || base.is_some_and(|base| base.generation >= generation) {
            return Err(damaged());
        }
        Ok(Self {
            generation,
            mark_below,
            base,
            sequence,
        })
    }
}

/// What changed about a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangedItem {
    /// Its row, its extended attributes, its content, or its names.
    Node,
    /// This name in it, a directory, no longer names the node that it did.
    Name(Vec<u8>, InodeId),
    /// The extents of this region, never the first.
    Region(u64),
}

const NAME: u8 = 1;
const REGION: u8 = 2;

impl ChangedItem {
    /// The columns `item` and `was`.
    fn encode(&self) -> (Vec<u8>, u64) {
        match self {
            Self::Node => (Vec::new(), 0),
            Self::Name(name, was) => ([&[NAME], &name[..]].concat(), was.0),
            Self::Region(region) => ([&[REGION], &region.to_be_bytes()[..]].concat(), 0),
        }
    }

    fn decode(item: &[u8], was: u64) -> Result<Self> {
        let damaged = Error::Damaged("a mark of a change is none that is known");
        match item.split_first() {
            None => Ok(Self::Node),
            Some((&NAME, name)) if !name.is_empty() && name.len() <= NAME_BYTES_MAX => {
                Ok(Self::Name(name.to_vec(), InodeId(was)))
            }
            Some((&REGION, region)) => {
                let region = region.try_into().map_err(|_| damaged)?;
                Ok(Self::Region(u64::from_be_bytes(region)))
            }
            _ => Err(damaged),
        }
    }
}

/// Marks of the open transaction: node and item, and what a name named.
pub(crate) type Marks = BTreeMap<(InodeId, Vec<u8>), u64>;

impl Writer {
    /// Marks a change of `inode`, unless it is new. (1)
    pub(crate) fn mark(&mut self, inode: InodeId, item: ChangedItem) {
        if inode.0 >= self.history.mark_below || item == ChangedItem::Region(0) {
            return;
        }
        let (item, was) = item.encode();
        if let std::collections::btree_map::Entry::Vacant(place) = self.marks.entry((inode, item)) {
            place.insert(was);
            self.pages_changed += 1;
        }
    }

    /// Marks that `name` no longer names `was`. A node that is new cannot have had the name in the base: had another
    /// had it, the loss of that is marked.
    pub(crate) fn name_removed(&mut self, parent: InodeId, name: &[u8], was: InodeId) {
        if was.0 < self.history.mark_below {
            self.mark(parent, ChangedItem::Name(name.to_vec(), was));
        }
    }

    /// The node that `name` names, if the answer is needed for a mark; else 0.
    pub(crate) fn bound_before(&self, parent: InodeId, name: &[u8]) -> Result<InodeId> {
        if parent.0 >= self.history.mark_below {
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
    ///
    /// # Errors
    /// None; as `Reads::history`, which this stands in for.
    pub fn history(&self) -> Result<History> {
        Ok(self.writer.history)
    }

    /// Begins the next generation: what was marked until now belongs to the one before. Gives the new state.
    ///
    /// # Errors
    /// As for every change.
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

    /// Gives no number up to `last` to a new inode: they are somebody's already.
    ///
    /// # Errors
    /// `Error::Invalid` if none is left; as for every change.
    pub fn skip_inodes(&mut self, last: InodeId) -> Result<()> {
        let next = last.0.saturating_add(1);
        check_numbers(&[next])?;
        self.change(0, |writer| {
            writer.numbers.next_inode = writer.numbers.next_inode.max(next);
            Ok(())
        })
    }

    /// Goes on behind `sequence` with the next revision that is taken here.
    ///
    /// # Errors
    /// As for every change.
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
    /// `Error::Invalid` for a generation that is not over; as for every change.
    pub fn set_base(&mut self, base: Option<Base>) -> Result<()> {
        self.change(0, |writer| {
            if base.is_some_and(|base| base.generation >= writer.history.generation) {
                return Err(Error::Invalid("a tree covers generations that are over"));
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
    ///
    /// # Errors
    /// As for every change.
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
    /// `Error::Invalid` if one of this id is kept; as for every change.
    pub fn insert_revision(&mut self, revision: &Revision) -> Result<u64> {
        check_numbers(&[revision.root.0])?;
        check_len(
            revision.body.len(),
            VALUE_BYTES_MAX,
            "the body of a revision is too long",
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
                return Err(Error::Invalid("a revision of this id is kept"));
            }
            writer.put_history(History {
                sequence: writer.history.sequence + 1,
                ..writer.history
            })?;
            Ok(number)
        })
    }

    /// Forgets a revision; gives whether there was one. References are the caller's matter.
    ///
    /// # Errors
    /// As for every change.
    pub fn remove_revision(&mut self, number: u64) -> Result<bool> {
        self.change(0, |writer| {
            Ok(writer.run(Statement::RevisionRemove, [key(number)])? == 1)
        })
    }
}

impl Reads {
    /// What is known of the newest tree.
    ///
    /// # Errors
    /// As for every question.
    pub fn history(&self) -> Result<History> {
        self.setting(SETTING)?
            .map_or(Ok(History::EMPTY), |bytes| History::decode(&bytes))
    }

    /// Up to `limit` marks of `generation` behind `after`, in order of their nodes.
    ///
    /// # Errors
    /// As for every question.
    pub fn changed(
        &self,
        generation: u64,
        after: Option<&(InodeId, ChangedItem)>,
        limit: usize,
    ) -> Result<Vec<(InodeId, ChangedItem)>> {
        let (inode, item) =
            after.map_or((0, Vec::new()), |(inode, item)| (inode.0, item.encode().0));
        self.all(
            Statement::ChangedList,
            (key(generation), key(inode), item, bound(limit)),
            |row| {
                let item = ChangedItem::decode(&row.get::<_, Vec<u8>>(1)?, whole(row, 2)?)?;
                Ok((InodeId(whole(row, 0)?), item))
            },
        )
    }

    /// Up to `limit` inodes numbered `from` or above, in order.
    ///
    /// # Errors
    /// As for every question.
    pub fn inodes_from(&self, from: InodeId, limit: usize) -> Result<Vec<InodeId>> {
        self.all(Statement::InodeFrom, [key(from.0), bound(limit)], |row| {
            Ok(InodeId(whole(row, 0)?))
        })
    }

    /// Up to `limit` names of `inode` behind `after`, each with its directory, in order.
    ///
    /// # Errors
    /// As for every question.
    pub fn names_of(
        &self,
        inode: InodeId,
        after: Option<&(InodeId, Vec<u8>)>,
        limit: usize,
    ) -> Result<Vec<(InodeId, Vec<u8>)>> {
        let (parent, name) = after.map_or((0, &[][..]), |(parent, name)| (parent.0, name));
        self.all(
            Statement::EntryNames,
            (key(inode.0), key(parent), name, bound(limit)),
            |row| Ok((InodeId(whole(row, 0)?), row.get(1)?)),
        )
    }

    /// Up to `limit` released blocks with numbers above `after`, in order.
    ///
    /// # Errors
    /// As for every question.
    pub fn released(&self, after: BlockNumber, limit: usize) -> Result<Vec<BlockNumber>> {
        self.all(
            Statement::ReleasedList,
            [key(after.0), bound(limit)],
            |row| Ok(BlockNumber(whole(row, 0)?)),
        )
    }

    /// The id of a block.
    ///
    /// # Errors
    /// As for every question.
    pub fn block_id(&self, number: BlockNumber) -> Result<Option<BlockId>> {
        Ok(self.block(number)?.map(|block| block.id))
    }

    /// All kept revisions, oldest first.
    ///
    /// # Errors
    /// As for every question.
    pub fn revisions(&self) -> Result<Vec<Revision>> {
        self.all(Statement::RevisionList, [], revision_at)
    }

    /// The kept revision of this id.
    ///
    /// # Errors
    /// As for every question.
    pub fn revision(&self, id: &[u8; 32]) -> Result<Option<Revision>> {
        self.one(Statement::RevisionGet, [&id[..]], revision_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_comes_back_and_anything_else_is_damage() {
        let state = History {
            generation: 9,
            mark_below: 100,
            base: Some(Base {
                root: BlockNumber(7),
                generation: 8,
                scan_from: 90,
            }),
            sequence: 3,
        };
        for state in [History::EMPTY, state] {
            assert_eq!(History::decode(&state.encode()).unwrap(), state);
        }
        assert!(History::decode(&[0; FIELDS * 8]).is_err(), "generation 0");
        assert!(History::decode(&state.encode()[1..]).is_err());
        let ahead = History {
            generation: 8,
            ..state
        };
        assert!(History::decode(&ahead.encode()).is_err());
    }

    #[test]
    fn a_mark_comes_back_and_anything_else_is_damage() {
        for item in [
            ChangedItem::Node,
            ChangedItem::Name(b"name".to_vec(), InodeId(5)),
            ChangedItem::Region(u64::MAX >> 22),
        ] {
            let (bytes, was) = item.encode();
            assert_eq!(ChangedItem::decode(&bytes, was).unwrap(), item);
        }
        for bytes in [&[0][..], &[1], &[2], &[2, 0], &[3, 1], &[1; 257]] {
            assert!(ChangedItem::decode(bytes, 0).is_err(), "{bytes:?}");
        }
    }
}
