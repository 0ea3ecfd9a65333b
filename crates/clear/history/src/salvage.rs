//! Reads as much of a damaged tree as is readable, and counts the rest.
//!
//! Takes   the root of a tree, and blocks, some of which may be lost
//! Gives   the entries, extents and values that are left, and which part of the tree the lost blocks held
//! Never   fails because a block is lost or is not a node
//! Spec    spec/6-history.md, sections 6.3 to 6.5; spec/7-recovery.md

use std::ops::Range;

use strongroom_format::limits::BLOCK_BYTES_MAX;
use strongroom_format::{BlockId, Kind};

use crate::blocks::Blocks;
use crate::content::{Content, Extent, ExtentTrie, first_level};
use crate::entry::{Body, Entry, EntryTrie};
use crate::limits::VALUE_BLOCK_BYTES_MAX;
use crate::node::{decode_root, decode_value, decode_xattrs};
use crate::read::{Directory, XattrList};
use crate::trie::{Key, LEVELS, Node, Ref, Trie};

/// One tree that may be damaged.
pub struct Salvage<'b, B: Blocks> {
    blocks: &'b B,
}

impl<B: Blocks> std::fmt::Debug for Salvage<'_, B> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Salvage").finish_non_exhaustive()
    }
}

/// The keys that may lie below a node: those that begin with the first `level` digits of `prefix`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) level: usize,
    pub(crate) prefix: Key,
}

impl Place {
    /// Of a trie that begins at `level`.
    pub(crate) const fn first(level: usize) -> Self {
        Self {
            level,
            prefix: Key([0; 32]),
        }
    }

    /// Of the child at `digit`.
    pub(crate) fn child(self, digit: usize) -> Self {
        let mut prefix = self.prefix;
        let digit = u8::try_from(digit & 15).unwrap_or(0);
        prefix.0[self.level / 2] |= if self.level.is_multiple_of(2) {
            digit << 4
        } else {
            digit
        };
        Self {
            level: self.level + 1,
            prefix,
        }
    }

    /// Whether `key` may lie here.
    pub(crate) fn holds(&self, key: &Key) -> bool {
        (0..self.level).all(|level| key.digit(level) == self.prefix.digit(level))
    }

    /// The bytes of a file that extents here may hold.
    fn bytes(&self) -> Range<u64> {
        let first = u64::from_be_bytes(first_eight(&self.prefix));
        let digits_left = 16_usize.saturating_sub(self.level);
        let span = match digits_left {
            16.. => u64::MAX,
            left => (1_u64 << (4 * left)) - 1,
        };
        // An extent that begins at the last of these places ends in the same cell.
        let last = first.saturating_add(span);
        let cell = BLOCK_BYTES_MAX as u64;
        first..(last - last % cell).saturating_add(cell)
    }
}

fn first_eight(key: &Key) -> [u8; 8] {
    let mut first = [0; 8];
    first.copy_from_slice(&key.0[..8]);
    first
}

/// What is met in a trie.
pub(crate) enum Met<T: Trie> {
    Item(T::Item),
    /// A node that is lost: so many items, and where they would be.
    Lost(u64, Place),
}

impl<'b, B: Blocks> Salvage<'b, B> {
    /// Reads through `blocks`.
    pub const fn new(blocks: &'b B) -> Self {
        Self { blocks }
    }

    /// The root directory of the tree whose root is in `block`; `None` if it is lost.
    ///
    /// # Errors
    /// Those of the blocks.
    pub fn root(&self, block: &BlockId) -> Result<Option<Entry>, B::Error> {
        let bytes = self.blocks.open(Kind::TreeNode, block)?;
        Ok(bytes.and_then(|bytes| decode_root(&bytes).ok()))
    }

    /// Gives every entry of `directory` that is left to `take`; gives how many are lost.
    ///
    /// # Errors
    /// Those of the blocks and of `take`.
    pub fn entries(
        &self,
        directory: Directory,
        take: &mut impl FnMut(Entry) -> Result<(), B::Error>,
    ) -> Result<u64, B::Error> {
        let mut lost = 0_u64;
        if let Some(at) = directory {
            self.walk::<EntryTrie>(&at, Place::first(0), &mut |met| match met {
                Met::Item(entry) => take(entry),
                Met::Lost(count, _) => {
                    lost = lost.saturating_add(count);
                    Ok(())
                }
            })?;
        }
        Ok(lost)
    }

    /// Gives every extent of `file` that is left to `take`, in order; gives the ranges in which extents are lost.
    ///
    /// # Errors
    /// Those of the blocks and of `take`.
    pub fn extents(
        &self,
        file: &Entry,
        take: &mut impl FnMut(Extent) -> Result<(), B::Error>,
    ) -> Result<Vec<Range<u64>>, B::Error> {
        let mut lost: Vec<Range<u64>> = Vec::new();
        match &file.body {
            Body::File {
                content: Content::Inline(extents),
                ..
            } => extents.iter().try_for_each(|extent| take(*extent))?,
            Body::File {
                content: Content::Listed(at),
                ..
            } => {
                let place = Place::first(first_level(file.size));
                self.walk::<ExtentTrie>(at, place, &mut |met| match met {
                    Met::Item(extent) => take(extent),
                    Met::Lost(_, place) => {
                        let bytes = place.bytes();
                        let bytes = bytes.start.min(file.size)..bytes.end.min(file.size);
                        lost.push(bytes);
                        Ok(())
                    }
                })?;
            }
            _ => {}
        }
        Ok(lost)
    }

    /// The extended attributes of a node, sorted by name; `None` if they are lost.
    ///
    /// # Errors
    /// Those of the blocks.
    pub fn xattrs(&self, node: &Entry) -> Result<Option<XattrList>, B::Error> {
        if node.xattrs.0.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let mut value = Vec::new();
        for (index, block) in node.xattrs.0.iter().enumerate() {
            let bytes = self.blocks.open(Kind::TreeNode, block)?;
            let Some(part) = bytes.and_then(|bytes| decode_value(&bytes).ok()) else {
                return Ok(None);
            };
            if part.len() != VALUE_BLOCK_BYTES_MAX && index + 1 < node.xattrs.0.len() {
                return Ok(None);
            }
            value.extend(part);
        }
        Ok(decode_xattrs(&value).ok())
    }

    /// As deep as a key has digits.
    fn walk<T: Trie>(
        &self,
        at: &Ref,
        place: Place,
        take: &mut impl FnMut(Met<T>) -> Result<(), B::Error>,
    ) -> Result<(), B::Error> {
        let bytes = self.blocks.open(T::KIND, &at.block)?;
        match bytes.and_then(|bytes| Node::<T>::decode(&bytes).ok()) {
            Some(Node::Leaf(items)) => {
                for item in items {
                    // What lies where it would not be found is none of this tree's.
                    if place.holds(&T::key(&item)) {
                        take(Met::Item(item))?;
                    }
                }
                Ok(())
            }
            Some(Node::Branch(children)) if place.level < LEVELS => {
                for (digit, child) in children.iter().enumerate() {
                    if let Some(child) = child {
                        self.walk::<T>(child, place.child(digit), take)?;
                    }
                }
                Ok(())
            }
            Some(Node::Branch(_)) | None => take(Met::Lost(at.count, place)),
        }
    }
}
