//! Reads a tree: its names, its nodes and the extents of its files, as they were in its revision.
//!
//! Takes   the root of a tree
//! Gives   entries, listings, values and extents
//! Never   changes anything
//! Spec    spec/6-history.md, sections 6.3 to 6.5

use strongroom_format::{BlockId, Kind};

use crate::blocks::Blocks;
use crate::content::{Content, Extent, ExtentTrie, first_level, place};
use crate::entry::{self, Body, Entry, EntryTrie};
use crate::error::Error;
use crate::limits::VALUE_BLOCK_BYTES_MAX;
use crate::node::{decode_root, decode_value, decode_xattrs};
use crate::trie::{self, Ref};

/// One tree.
pub struct Tree<'b, B: Blocks> {
    blocks: &'b B,
}

/// Names and values of extended attributes.
pub type XattrList = Vec<(Vec<u8>, Vec<u8>)>;

/// The entries of a directory of a tree; `None` for an empty one.
pub type Directory = Option<Ref>;

/// An entry and its place in the listing of its directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The entry.
    pub entry: Entry,
    /// To go on behind it, give this.
    pub position: u64,
}

impl<B: Blocks> std::fmt::Debug for Tree<'_, B> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Tree").finish_non_exhaustive()
    }
}

impl<'b, B: Blocks> Tree<'b, B> {
    /// Reads through `blocks`.
    pub const fn new(blocks: &'b B) -> Self {
        Self { blocks }
    }

    /// The root directory of the tree whose root is in `block`.
    ///
    /// # Errors
    /// `Error::Damaged`; those of the blocks.
    pub fn root(&self, block: &BlockId) -> Result<Entry, B::Error> {
        Ok(decode_root(&self.blocks.need(Kind::TreeNode, block)?)?)
    }

    /// The entry of `name` in `directory`.
    ///
    /// # Errors
    /// `Error::Damaged`; those of the blocks.
    pub fn lookup(&self, directory: Directory, name: &[u8]) -> Result<Option<Entry>, B::Error> {
        match directory {
            None => Ok(None),
            Some(at) => trie::get::<EntryTrie, _>(self.blocks, at, 0, &entry::place(name)),
        }
    }

    /// Up to `limit` entries of `directory` behind `position`, in a fixed order that means nothing.
    ///
    /// # Errors
    /// `Error::Damaged`; those of the blocks.
    pub fn list(
        &self,
        directory: Directory,
        position: u64,
        limit: usize,
    ) -> Result<Vec<Listed>, B::Error> {
        let Some(at) = directory else {
            return Ok(Vec::new());
        };
        let page = trie::page::<EntryTrie, _>(self.blocks, at, position, limit)?;
        let listed = page.into_iter().zip(position + 1..);
        Ok(listed
            .map(|(entry, position)| Listed { entry, position })
            .collect())
    }

    /// The extended attributes of a node, sorted by name.
    ///
    /// # Errors
    /// `Error::Damaged`; those of the blocks.
    pub fn xattrs(&self, node: &Entry) -> Result<XattrList, B::Error> {
        if node.xattrs.0.is_empty() {
            return Ok(Vec::new());
        }
        let mut value = Vec::new();
        for (index, block) in node.xattrs.0.iter().enumerate() {
            let part = decode_value(&self.blocks.need(Kind::TreeNode, block)?)?;
            if part.len() != VALUE_BLOCK_BYTES_MAX && index + 1 < node.xattrs.0.len() {
                return Err(Error::Damaged("a part of a value is too short").into());
            }
            value.extend(part);
        }
        Ok(decode_xattrs(&value)?)
    }

    /// The extents of a file that lie in `from..to`, in order, whole even where they begin before or end behind; at
    /// most `limit` of them.
    ///
    /// # Errors
    /// `Error::Damaged`; those of the blocks.
    pub fn extents(
        &self,
        node: &Entry,
        from: u64,
        to: u64,
        limit: usize,
    ) -> Result<Vec<Extent>, B::Error> {
        let Body::File { content, .. } = &node.body else {
            return Ok(Vec::new());
        };
        if from >= to {
            return Ok(Vec::new());
        }
        match content {
            Content::Inline(extents) => Ok(extents
                .iter()
                .filter(|extent| extent.end() > from && extent.start < to)
                .take(limit)
                .copied()
                .collect()),
            Content::Listed(list) => {
                // No extent begins before the cell that it lies in.
                let cell = strongroom_format::limits::BLOCK_BYTES_MAX as u64;
                let (first, last) = (place(from - from % cell), place(to - 1));
                let mut found: Vec<Extent> = Vec::new();
                let level = first_level(node.size);
                trie::range::<ExtentTrie, _>(
                    self.blocks,
                    *list,
                    level,
                    &first,
                    &last,
                    &mut |extent| {
                        if extent.end() > from {
                            found.push(*extent);
                        }
                        found.len() < limit
                    },
                )?;
                Ok(found)
            }
        }
    }

    /// The content of a file; `None` if a block of it is lost, or it has more than `extents_max` extents. It takes as much memory as the
    /// entry says that the file has: look at that first.
    ///
    /// # Errors
    /// `Error::Damaged`; those of the blocks.
    pub fn content(&self, node: &Entry, extents_max: usize) -> Result<Option<Vec<u8>>, B::Error> {
        let extents = self.extents(node, 0, node.size, extents_max + 1)?;
        let len = usize::try_from(node.size).ok();
        let Some(len) = len.filter(|_| extents.len() <= extents_max) else {
            return Ok(None);
        };
        let mut content = vec![0; len];
        let mut block: Option<(BlockId, Vec<u8>)> = None;
        for extent in &extents {
            let opened = match block.take() {
                Some((id, opened)) if id == extent.block => opened,
                _ => match self.blocks.open(Kind::Data, &extent.block)? {
                    Some(opened) => opened,
                    None => return Ok(None),
                },
            };
            let end = extent.end().min(node.size);
            let len = (end - extent.start) as usize;
            let from = opened
                .get(extent.block_offset as usize..)
                .and_then(|rest| rest.get(..len));
            let Some(from) = from else { return Ok(None) };
            content[extent.start as usize..][..len].copy_from_slice(from);
            block = Some((extent.block, opened));
        }
        Ok(Some(content))
    }

    /// Gives to `take` each entry by which the directories `one` and `other` differ, before and after, behind the name
    /// `after`, until it gives false. What is the same on both sides is not opened. Gives whether the end was reached.
    ///
    /// # Errors
    /// `Error::Damaged`; those of the blocks and of `take`.
    pub fn compare(
        &self,
        one: Directory,
        other: Directory,
        after: Option<&[u8]>,
        take: &mut impl FnMut(Option<Entry>, Option<Entry>) -> Result<bool, B::Error>,
    ) -> Result<bool, B::Error> {
        let after = after.map(entry::place);
        trie::compare::<EntryTrie, _>(self.blocks, one, other, 0, after.as_ref(), take)
    }
}
