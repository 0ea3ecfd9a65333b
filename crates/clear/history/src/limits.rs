//! The bounds of the history, except those that one file alone uses: they are at the head of that file.

use strongroom_format::limits::BLOCK_BYTES_MAX;

/// What the items of one leaf may take together, in bytes; more are spread over the children of a branch.
///
/// A lower number makes more nodes, a higher one more bytes that are sealed again for one changed item. It is part of the
/// format: one set of items has one tree. [6.3.2]
pub const LEAF_BYTES_MAX: u64 = 16_000;

/// The fewest bytes that an entry of a directory can take: so many bytes of a leaf hold no more entries.
pub const ENTRY_BYTES_MIN: u64 = 30;

/// The fewest bytes that an extent in a list of its own can take.
pub const EXTENT_BYTES_MIN: u64 = 38;

/// The most items that a leaf is decoded with.
pub const LEAF_ITEMS_MAX: usize = 1_024;

/// What of a file's extents is kept beside its name, in bytes; longer lists are nodes of their own.
pub const INLINE_BYTES_MAX: usize = 256;

/// The longest value that one block holds.
pub const VALUE_BLOCK_BYTES_MAX: usize = BLOCK_BYTES_MAX - 16;

/// The most blocks that the extended attributes of one node take: 1 MiB and its heads.
pub const XATTR_BLOCKS_MAX: usize = 32;

/// The most extended attributes of one node: each has a name of at least one byte behind its space.
pub const XATTRS_MAX: usize = 1 << 18;

/// The longest message of a revision, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 16 * 1024;

/// The longest tag, in bytes.
pub const TAG_BYTES_MAX: usize = 128;

/// The most tags of one revision.
pub const TAGS_MAX: usize = 32;

/// The longest body of a revision, in bytes.
pub const REVISION_BYTES_MAX: usize = 32 * 1024;

/// How deep directories are followed: more than the engine lets a path be, so that damage ends the descent.
pub const DEPTH_MAX: usize = 8_192;

/// Sealed nodes that wait to be stored together, in bytes.
pub const BATCH_BYTES: usize = 1024 * 1024;

/// ... and how many.
pub const BATCH_NODES: usize = 512;

/// Rows read at a time.
pub const PAGE_ROWS: usize = 1_000;

/// Erasures that are looked for in one pass: each has a bit of a number.
pub const ERASURES_AT_ONCE: usize = 64;

/// Released blocks looked at in one step.
pub const RELEASED_PAGE: usize = 256;

/// The most names and nodes by which two trees that are joined may differ: some 2 GiB of memory.
pub const DELTA_ITEMS_MAX: usize = 4_000_000;

/// The longest file that is merged line by line, in bytes, and how many lines and extents it may have.
pub const TEXT_BYTES_MAX: u64 = 4 << 20;

/// See `TEXT_BYTES_MAX`: a comparison takes steps in proportion to some power 3/2 of them.
pub const TEXT_LINES_MAX: usize = 100_000;

/// See `TEXT_BYTES_MAX`: each extent may open a block of its own.
pub const TEXT_EXTENTS_MAX: usize = 1_024;

/// What one merge of two states reads of files to merge them, in bytes.
pub const TEXTS_BYTES_MAX: u64 = 64 << 20;

/// ... and how many lines it compares.
pub const TEXTS_LINES_MAX: usize = 1_000_000;
