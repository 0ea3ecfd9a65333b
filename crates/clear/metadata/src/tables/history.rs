//! Queries for the history: what changed since the newest tree, blocks to release, and the snapshots.
//!
//! Takes   queries only; `store/history.rs` marks what changes
//! Gives   the work list of the next tree, generation by generation
//! Never   knows the layout of a tree
//! Spec    spec/4-metadata.md, 4.10
//!
//! A *generation* is the time between two barriers: each barrier begins the next one. The tree that is built for a barrier
//! covers all generations before it. Once that tree is the base, the marks of those generations have no meaning any more.

use std::collections::BTreeMap;

use strongroom_format::BlockId;

use crate::error::{Error, Result};
use crate::limits::{INODE_NUMBERS_MAX, NAME_BYTES_MAX};
use crate::rows::{BlockNumber, InodeId, Revision};
use crate::tables::columns::{bound, key, revision_at, whole};
use crate::tables::reads::Reads;
use crate::tables::sql::Statement;

/// The key of the setting that keeps `History`.
pub(crate) const SETTING: &str = "history";

/// Count of `u64` fields of `History`.
const FIELDS: usize = 6;

/// What is known of the newest tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History {
    /// The generation that changes belong to now.
    pub generation: u64,
    /// Nodes of this device numbered from here on are new since the last barrier, and found without marks.
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
    /// Nodes of this device numbered from here on are not in it.
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

    pub(crate) fn encode(&self) -> [u8; FIELDS * 8] {
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
        let damaged = || Error::Damaged("the stored state of the history is invalid");
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
    pub(crate) fn encode(&self) -> (Vec<u8>, u64) {
        match self {
            Self::Node => (Vec::new(), 0),
            Self::Name(name, was) => ([&[NAME], &name[..]].concat(), was.0),
            Self::Region(region) => ([&[REGION], &region.to_be_bytes()[..]].concat(), 0),
        }
    }

    fn decode(item: &[u8], was: u64) -> Result<Self> {
        let damaged = Error::Damaged("a change has an unknown mark");
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

impl Reads {
    /// What is known of the newest tree.
    pub fn history(&self) -> Result<History> {
        self.setting(SETTING)?
            .map_or(Ok(History::EMPTY), |bytes| History::decode(&bytes))
    }

    /// Up to `limit` marks of `generation` behind `after`, in order of their nodes.
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

    /// Up to `limit` inodes of the device of `from`, numbered `from` or above, in order.
    pub fn inodes_from(&self, from: InodeId, limit: usize) -> Result<Vec<InodeId>> {
        let last = from.0 | (INODE_NUMBERS_MAX - 1);
        let params = [key(from.0), key(last), bound(limit)];
        self.all(Statement::InodeFrom, params, |row| {
            Ok(InodeId(whole(row, 0)?))
        })
    }

    /// The greatest number of an inode up to `last`; 0 if there is none.
    pub fn greatest_inode(&self, last: u64) -> Result<InodeId> {
        let greatest = self.one(Statement::InodeGreatest, [key(last)], |row| {
            Ok(row.get::<_, Option<i64>>(0)?)
        })?;
        Ok(InodeId(
            greatest.flatten().unwrap_or(0).max(0).cast_unsigned(),
        ))
    }

    /// Up to `limit` names of `inode` behind `after`, each with its directory, in order.
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
    pub fn released(&self, after: BlockNumber, limit: usize) -> Result<Vec<BlockNumber>> {
        self.all(
            Statement::ReleasedList,
            [key(after.0), bound(limit)],
            |row| Ok(BlockNumber(whole(row, 0)?)),
        )
    }

    /// The id of a block.
    pub fn block_id(&self, number: BlockNumber) -> Result<Option<BlockId>> {
        Ok(self.block(number)?.map(|block| block.id))
    }

    /// All kept revisions, oldest first.
    pub fn revisions(&self) -> Result<Vec<Revision>> {
        self.all(Statement::RevisionList, [], revision_at)
    }

    /// The kept revision of this id.
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
