//! One name in a directory of a tree, with everything about the node that it names.
//!
//! Takes   an entry, or the bytes of one
//! Gives   the reverse: bytes for an entry, an entry for bytes
//! Never   takes more than a bounded part of a leaf: long values are in blocks of their own
//! Spec    spec/6-history.md, section 6.4
//!
//! Invariants
//!  (1) An entry has one encoding.                                                     [6.4.1]
//!  (2) An encoding is always much shorter than the limit of a leaf.                    [6.4.5]

use strongroom_format::cbor::{Decoder, Encoder, unzigzag, zigzag};
use strongroom_format::{BlockId, Kind};
use strongroom_metadata::limits::{NAME_BYTES_MAX, TARGET_BYTES_MAX};
use strongroom_metadata::{InodeId, NodeKind, Timestamp};

use crate::content::{self, Content};
use crate::error::{Error, Result};
use crate::limits::{ENTRY_BYTES_MIN, XATTR_BLOCKS_MAX};
use crate::trie::{Key, Ref, Trie};

/// BLAKE3 context that places a name in its directory. It hashes names that stand beside it, so it is no key.
const PLACE_CONTEXT: &str = "strongroom format 1 2026-11-22 place of a name";

/// A name and the node that it names. The root of a tree has the empty name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// 1 to 255 bytes, neither `/` nor NUL in it.
    pub name: Vec<u8>,
    /// The node's number.
    pub inode: InodeId,
    /// What tells two nodes of one number apart.
    pub birth_id: u64,
    /// What it is; agrees with `body`.
    pub kind: NodeKind,
    /// Permission, suid, sgid and sticky bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Count of names in the whole tree (directories: 2 plus subdirectories).
    pub nlink: u32,
    /// Content length in bytes; of a symlink, of its target.
    pub size: u64,
    /// Last access.
    pub atime: Timestamp,
    /// Last change of content.
    pub mtime: Timestamp,
    /// Last change of the node.
    pub ctime: Timestamp,
    /// Creation.
    pub btime: Timestamp,
    /// Counts user writes.
    pub content_version: u64,
    /// Extended attributes.
    pub xattrs: Xattrs,
    /// What it holds.
    pub body: Body,
}

/// Extended attributes: none, or the blocks that hold them, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Xattrs(pub Vec<BlockId>);

/// What a node holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A file: bytes that extents hold, and where.
    File {
        /// Bytes that extents hold.
        allocated: u64,
        /// The extents.
        content: Content,
    },
    /// A directory: its entries, if it has any.
    Directory(Option<Ref>),
    /// A symlink: its target.
    Symlink(Vec<u8>),
    /// A device: its number.
    Device(u64),
    /// A pipe or socket.
    Nothing,
}

const INLINE: u64 = 0;
const LISTED: u64 = 1;

/// The key of a name in its directory.
pub(crate) fn place(name: &[u8]) -> Key {
    Key(blake3::derive_key(PLACE_CONTEXT, name))
}

fn small(number: u64) -> Result<u32> {
    u32::try_from(number).map_err(|_| Error::Damaged("an attribute is out of range"))
}

impl Entry {
    /// The tree of a directory's entries; `None` if it is none, or empty.
    #[must_use]
    pub const fn directory(&self) -> Option<Ref> {
        match self.body {
            Body::Directory(entries) => entries,
            _ => None,
        }
    }

    /// Whether both name the same node with the same content.
    #[must_use]
    pub fn has_content_of(&self, other: &Self) -> bool {
        self.inode == other.inode
            && self.birth_id == other.birth_id
            && self.content_version == other.content_version
            && self.size == other.size
    }

    pub(crate) fn encode(&self, encoder: &mut Encoder) {
        let mtime = self.mtime.0;
        let since = |time: Timestamp| zigzag(time.0.wrapping_sub(mtime));
        encoder
            .array(16)
            .bytes(&self.name)
            .unsigned(self.inode.0)
            .unsigned(self.birth_id)
            .unsigned(self.kind as u64)
            .unsigned(u64::from(self.mode))
            .unsigned(u64::from(self.uid))
            .unsigned(u64::from(self.gid))
            .unsigned(u64::from(self.nlink))
            .unsigned(self.size)
            .unsigned(zigzag(mtime))
            .unsigned(since(self.ctime))
            .unsigned(since(self.btime))
            .unsigned(since(self.atime))
            .unsigned(self.content_version)
            .array(self.xattrs.0.len());
        for block in &self.xattrs.0 {
            encoder.bytes(&block.0);
        }
        match &self.body {
            Body::File { allocated, content } => {
                encoder.array(3).unsigned(*allocated);
                match content {
                    Content::Inline(extents) => {
                        encoder.unsigned(INLINE);
                        content::put_inline(encoder, extents);
                    }
                    Content::Listed(list) => {
                        encoder.unsigned(LISTED).array(3);
                        list.encode(encoder);
                    }
                }
            }
            Body::Directory(None) | Body::Nothing => {
                encoder.array(0);
            }
            Body::Directory(Some(entries)) => {
                encoder.array(3);
                entries.encode(encoder);
            }
            Body::Symlink(target) => {
                encoder.bytes(target);
            }
            Body::Device(number) => {
                encoder.unsigned(*number);
            }
        }
    }

    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Result<Self> {
        decoder.array_exact(16)?;
        let name = decoder.bytes(NAME_BYTES_MAX)?.to_vec();
        let inode = InodeId(decoder.unsigned()?);
        let birth_id = decoder.unsigned()?;
        let kind = NodeKind::from_number(decoder.unsigned()?)
            .ok_or(Error::Damaged("a node has an unknown kind"))?;
        let mode = small(decoder.unsigned()?)?;
        let (uid, gid) = (small(decoder.unsigned()?)?, small(decoder.unsigned()?)?);
        let nlink = small(decoder.unsigned()?)?;
        let size = decoder.unsigned()?;
        let mtime = unzigzag(decoder.unsigned()?);
        let mut since = || -> Result<Timestamp> {
            Ok(Timestamp(mtime.wrapping_add(unzigzag(decoder.unsigned()?))))
        };
        let (ctime, btime, atime) = (since()?, since()?, since()?);
        let content_version = decoder.unsigned()?;
        let mut xattrs = Vec::new();
        for _ in 0..decoder.array(XATTR_BLOCKS_MAX)? {
            xattrs.push(BlockId(*decoder.bytes_exact()?));
        }
        let body = decode_body(kind, decoder)?;
        if inode.0 == 0 || mode > 0o7777 || size > i64::MAX.cast_unsigned() {
            return Err(Error::Damaged("an attribute is out of range"));
        }
        if name.contains(&b'/') || name.contains(&0) {
            return Err(Error::Damaged("a name is not allowed"));
        }
        Ok(Self {
            name,
            inode,
            birth_id,
            kind,
            mode,
            uid,
            gid,
            nlink,
            size,
            atime,
            mtime: Timestamp(mtime),
            ctime,
            btime,
            content_version,
            xattrs: Xattrs(xattrs),
            body,
        })
    }

    /// Adds the blocks that it names.
    pub(crate) fn names(&self, names: &mut Vec<BlockId>) {
        names.extend(&self.xattrs.0);
        match &self.body {
            Body::File {
                content: Content::Inline(extents),
                ..
            } => names.extend(extents.iter().map(|extent| extent.block)),
            Body::File {
                content: Content::Listed(at),
                ..
            }
            | Body::Directory(Some(at)) => names.push(at.block),
            Body::Directory(None) | Body::Symlink(_) | Body::Device(_) | Body::Nothing => {}
        }
    }
}

fn decode_body(kind: NodeKind, decoder: &mut Decoder<'_>) -> Result<Body> {
    Ok(match kind {
        NodeKind::File => {
            decoder.array_exact(3)?;
            let allocated = decoder.unsigned()?;
            let content = match decoder.unsigned()? {
                INLINE => Content::Inline(content::take_inline(decoder)?),
                LISTED => {
                    decoder.array_exact(3)?;
                    Content::Listed(Ref::decode(decoder)?)
                }
                _ => return Err(Error::Damaged("content has an unknown form")),
            };
            Body::File { allocated, content }
        }
        NodeKind::Directory => match decoder.array(3)? {
            0 => Body::Directory(None),
            3 => Body::Directory(Some(Ref::decode(decoder)?)),
            _ => return Err(Error::Damaged("a directory is truncated")),
        },
        NodeKind::Symlink => Body::Symlink(decoder.bytes(TARGET_BYTES_MAX)?.to_vec()),
        NodeKind::CharDevice | NodeKind::BlockDevice => Body::Device(decoder.unsigned()?),
        NodeKind::Fifo | NodeKind::Socket => {
            decoder.array_exact(0)?;
            Body::Nothing
        }
    })
}

/// The entries of a directory: a trie over the hashes of the names.
pub(crate) struct EntryTrie;

impl Trie for EntryTrie {
    type Item = Entry;
    const KIND: Kind = Kind::TreeNode;
    const ITEM_BYTES_MIN: u64 = ENTRY_BYTES_MIN;

    fn key(item: &Entry) -> Key {
        place(&item.name)
    }

    fn encode(item: &Entry, encoder: &mut Encoder) {
        item.encode(encoder);
    }

    fn decode(decoder: &mut Decoder<'_>) -> Result<Entry> {
        let entry = Entry::decode(decoder)?;
        if entry.name.is_empty() || matches!(&entry.name[..], b"." | b"..") {
            return Err(Error::Damaged("a directory has an invalid name"));
        }
        Ok(entry)
    }

    fn names(item: &Entry, names: &mut Vec<BlockId>) {
        item.names(names);
    }
}

const _: () = assert!(
    TARGET_BYTES_MAX as u64 * 2 < crate::limits::LEAF_BYTES_MAX,
    "(2) holds: the longest target leaves room for the rest"
);
