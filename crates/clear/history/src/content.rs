//! The extents of a file in a tree: lists of block ids, stored in the entry of the file or in nodes of their own.
//!
//! Takes   extents, or the bytes of a node
//! Gives   the reverse: bytes for extents, extents for bytes
//! Never   reads a block
//! Spec    spec/6-history.md, section 6.5
//!
//! Invariants
//!  (1) Extents are sorted and do not overlap, and each lies inside one cell of 64 KiB and inside its block.  [6.5.1]

use std::ops::Range;

use strongroom_format::cbor::{Decoder, Encoder};
use strongroom_format::limits::BLOCK_BYTES_MAX;
use strongroom_format::{BlockId, Kind};

use crate::error::{Error, Result};
use crate::limits::{EXTENT_BYTES_MIN, INLINE_BYTES_MAX};
use crate::trie::{Key, Ref, Trie};

/// A byte range of a file and the part of a block that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First byte in the file.
    pub start: u64,
    /// Count of bytes.
    pub len: u32,
    /// The block's name.
    pub block: BlockId,
    /// First byte inside the clear block.
    pub block_offset: u32,
}

/// Where a file's content is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Few extents, kept beside the name.
    Inline(Vec<Extent>),
    /// A list of its own.
    Listed(Ref),
}

impl Extent {
    /// The first byte behind it.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.start.saturating_add(self.len as u64)
    }

    /// The bytes of the file that it cannot give if `lost` ranges of its clear block are lost.
    #[must_use]
    pub fn without(&self, lost: &[Range<u32>]) -> Vec<Range<u64>> {
        let (first, last) = (
            self.block_offset,
            self.block_offset.saturating_add(self.len),
        );
        let inside = |lost: &Range<u32>| {
            let (start, end) = (lost.start.max(first), lost.end.min(last));
            let at = |offset: u32| self.start.saturating_add(u64::from(offset - first));
            (start < end).then(|| at(start)..at(end))
        };
        lost.iter().filter_map(inside).collect()
    }

    /// (1)
    fn check(&self) -> Result<()> {
        const CELL: u64 = BLOCK_BYTES_MAX as u64;
        let len = u64::from(self.len);
        let inside = len > 0
            && self.start % CELL + len <= CELL
            && u64::from(self.block_offset) + len <= CELL
            && self.start.checked_add(len).is_some();
        if inside {
            Ok(())
        } else {
            Err(Error::Damaged("an extent is not inside its cell or block"))
        }
    }
}

/// The encoding of `extents` beside a name, if it is short enough.
pub(crate) fn encode_inline(extents: &[Extent]) -> Option<Vec<u8>> {
    // A name alone takes 34 bytes: whoever has many extents need not be tried.
    if extents.len() > INLINE_BYTES_MAX / 34 {
        return None;
    }
    let mut encoder = Encoder::new();
    put_inline(&mut encoder, extents);
    Some(encoder.finish()).filter(|bytes| bytes.len() <= INLINE_BYTES_MAX)
}

/// Writes `extents` as one array, each as gap, missing length, name, offset.
pub(crate) fn put_inline(encoder: &mut Encoder, extents: &[Extent]) {
    encoder.array(extents.len() * 4);
    let mut end = 0;
    for extent in extents {
        encoder
            .unsigned(extent.start - end)
            .unsigned(BLOCK_BYTES_MAX as u64 - u64::from(extent.len))
            .bytes(&extent.block.0)
            .unsigned(u64::from(extent.block_offset));
        end = extent.end();
    }
}

/// Reads what `put_inline` wrote. (1)
pub(crate) fn take_inline(decoder: &mut Decoder<'_>) -> Result<Vec<Extent>> {
    let count = decoder.array(INLINE_BYTES_MAX)?;
    if count % 4 != 0 {
        return Err(Error::Damaged("a list of extents is truncated"));
    }
    let mut extents = Vec::with_capacity(count / 4);
    let mut end = 0_u64;
    for _ in 0..count / 4 {
        let (gap, missing) = (decoder.unsigned()?, decoder.unsigned()?);
        let block = BlockId(*decoder.bytes_exact()?);
        let block_offset = decoder.unsigned()?;
        let extent = Extent {
            start: end
                .checked_add(gap)
                .ok_or(Error::Damaged("an extent is beyond 2^64 bytes"))?,
            len: (BLOCK_BYTES_MAX as u64)
                .checked_sub(missing)
                .and_then(|len| u32::try_from(len).ok())
                .ok_or(Error::Damaged("an extent is too short"))?,
            block,
            block_offset: u32::try_from(block_offset)
                .map_err(|_| Error::Damaged("an extent is outside its block"))?,
        };
        extent.check()?;
        end = extent.end();
        extents.push(extent);
    }
    Ok(extents)
}

/// The list of the extents of a large file: a trie over the places in the file.
pub(crate) struct ExtentTrie;

impl Trie for ExtentTrie {
    type Item = Extent;
    const KIND: Kind = Kind::ExtentList;
    const ITEM_BYTES_MIN: u64 = EXTENT_BYTES_MIN;

    fn key(item: &Extent) -> Key {
        place(item.start)
    }

    fn encode(item: &Extent, encoder: &mut Encoder) {
        encoder
            .array(4)
            .unsigned(item.start)
            .unsigned(u64::from(item.len))
            .bytes(&item.block.0)
            .unsigned(u64::from(item.block_offset));
    }

    fn decode(decoder: &mut Decoder<'_>) -> Result<Extent> {
        decoder.array_exact(4)?;
        let (start, len) = (decoder.unsigned()?, decoder.unsigned()?);
        let block = BlockId(*decoder.bytes_exact()?);
        let block_offset = decoder.unsigned()?;
        let small = |number: u64| {
            u32::try_from(number).map_err(|_| Error::Damaged("an extent is outside its block"))
        };
        let extent = Extent {
            start,
            len: small(len)?,
            block,
            block_offset: small(block_offset)?,
        };
        extent.check()?;
        Ok(extent)
    }

    fn names(item: &Extent, names: &mut Vec<BlockId>) {
        names.push(item.block);
    }
}

/// The key of the extent that begins at `start`.
pub(crate) fn place(start: u64) -> Key {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&start.to_be_bytes());
    Key(key)
}

/// The level at which the list of a file of `size` bytes begins: levels above would have one child each.
pub(crate) const fn first_level(size: u64) -> usize {
    (size.leading_zeros() / 4) as usize
}
