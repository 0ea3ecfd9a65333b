//! The blocks of a tree that are not nodes of a trie: its root, and long values.
//!
//! Takes   the root entry, or a value; or the bytes of any block of a tree
//! Gives   the reverse: bytes for a root or value, a root or value for bytes; the ids that a block refers to
//! Never   opens the blocks that a block refers to
//! Spec    spec/6-history.md, section 6.3

use strongroom_format::cbor::{Decoder, Encoder};
use strongroom_format::{BlockId, Kind};
use strongroom_metadata::NodeKind;

use crate::content::{Content, Extent, ExtentTrie};
use crate::entry::{Body, Entry, EntryTrie};
use crate::error::{Error, Result};
use crate::limits::{VALUE_BLOCK_BYTES_MAX, XATTRS_MAX};
use crate::trie::Node;

const ROOT: u64 = 2;
const VALUE: u64 = 3;

/// The block of a tree's root.
pub(crate) fn encode_root(root: &Entry) -> Vec<u8> {
    let mut encoder = Encoder::new();
    encoder.array(2).unsigned(ROOT);
    root.encode(&mut encoder);
    encoder.finish()
}

/// The root that such a block holds.
pub(crate) fn decode_root(bytes: &[u8]) -> Result<Entry> {
    let mut decoder = Decoder::new("root of a tree", bytes);
    decoder.array_exact(2)?;
    if decoder.unsigned()? != ROOT {
        return Err(Error::Damaged("the root of a tree has the wrong kind"));
    }
    let root = Entry::decode(&mut decoder)?;
    decoder.finish()?;
    if root.kind != NodeKind::Directory || !root.name.is_empty() {
        return Err(Error::Damaged("the root of a tree is not a directory"));
    }
    Ok(root)
}

/// The block of a value, or of a part of one.
pub(crate) fn encode_value(value: &[u8]) -> Vec<u8> {
    let mut encoder = Encoder::new();
    encoder.array(2).unsigned(VALUE).bytes(value);
    encoder.finish()
}

/// The value that such a block holds.
pub(crate) fn decode_value(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut decoder = Decoder::new("value in a tree", bytes);
    decoder.array_exact(2)?;
    if decoder.unsigned()? != VALUE {
        return Err(Error::Damaged("a value has the wrong kind of node"));
    }
    let value = decoder.bytes(VALUE_BLOCK_BYTES_MAX)?.to_vec();
    decoder.finish()?;
    Ok(value)
}

/// Names and values, sorted by name, as one value.
pub(crate) fn encode_xattrs(xattrs: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let mut encoder = Encoder::new();
    encoder.array(xattrs.len() * 2);
    for (name, value) in xattrs {
        encoder.bytes(name).bytes(value);
    }
    encoder.finish()
}

/// What `encode_xattrs` wrote.
pub(crate) fn decode_xattrs(bytes: &[u8]) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut decoder = Decoder::new("extended attributes", bytes);
    let count = decoder.array(XATTRS_MAX * 2)?;
    if count % 2 != 0 {
        return Err(Error::Damaged("extended attributes are truncated"));
    }
    let mut xattrs: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    for _ in 0..count / 2 {
        let name = decoder.bytes(bytes.len())?.to_vec();
        let value = decoder.bytes(bytes.len())?.to_vec();
        if xattrs.last().is_some_and(|(last, _)| *last >= name) {
            return Err(Error::Damaged("extended attributes are not sorted"));
        }
        xattrs.push((name, value));
    }
    decoder.finish()?;
    Ok(xattrs)
}

/// The entries that a block of a tree holds itself: those of a leaf of a directory.
///
/// # Errors
/// `Error::Damaged` for bytes that no such block has.
pub(crate) fn entries_of_block(bytes: &[u8]) -> Result<Vec<Entry>> {
    let mut decoder = Decoder::new("node of a tree", bytes);
    decoder.array_exact(2)?;
    if matches!(decoder.unsigned()?, ROOT | VALUE) {
        return Ok(Vec::new());
    }
    match Node::<EntryTrie>::decode(bytes)? {
        Node::Leaf(entries) => Ok(entries),
        Node::Branch(_) => Ok(Vec::new()),
    }
}

/// The blocks of content that a block of a tree names itself, each with how many bytes it has at least.
///
/// # Errors
/// `Error::Damaged` for bytes that no such block has.
pub fn contents_of_block(kind: Kind, bytes: &[u8]) -> Result<Vec<(BlockId, u32)>> {
    let mut extents = Vec::new();
    match kind.plain() {
        Kind::ExtentList => {
            if let Node::Leaf(listed) = Node::<ExtentTrie>::decode(bytes)? {
                extents = listed;
            }
        }
        Kind::TreeNode => {
            for entry in entries_of_block(bytes)? {
                if let Body::File {
                    content: Content::Inline(inline),
                    ..
                } = entry.body
                {
                    extents.extend(inline);
                }
            }
        }
        _ => {}
    }
    let needs = |extent: &Extent| (extent.block, extent.block_offset.saturating_add(extent.len));
    Ok(extents.iter().map(needs).collect())
}

/// The blocks that a block of this kind and content names, each once.
///
/// # Errors
/// `Error::Damaged` for bytes that no such block has.
pub fn names_of_block(kind: Kind, bytes: &[u8]) -> Result<Vec<BlockId>> {
    match kind.plain() {
        Kind::ExtentList => Ok(Node::<ExtentTrie>::decode(bytes)?.names()),
        Kind::TreeNode => {
            let mut decoder = Decoder::new("node of a tree", bytes);
            decoder.array_exact(2)?;
            match decoder.unsigned()? {
                ROOT => {
                    let mut names = Vec::new();
                    decode_root(bytes)?.names(&mut names);
                    names.sort_unstable();
                    names.dedup();
                    Ok(names)
                }
                VALUE => decode_value(bytes).map(|_| Vec::new()),
                _ => Ok(Node::<EntryTrie>::decode(bytes)?.names()),
            }
        }
        _ => Ok(Vec::new()),
    }
}
