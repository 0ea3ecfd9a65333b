//! The bounds of the file system, except those that one file alone uses: they are at the head of that file.

use std::time::Duration;

/// The longest name, in bytes.
pub const NAME_BYTES_MAX: usize = 255;

/// The longest symlink target, in bytes: Linux's `PATH_MAX` without its NUL.
pub const TARGET_BYTES_MAX: usize = 4095;

/// The longest xattr name, in bytes, as Linux has it.
pub const XATTR_NAME_BYTES_MAX: usize = 255;

/// The longest xattr value, in bytes, as Linux has it.
pub const XATTR_VALUE_BYTES_MAX: usize = 65536;

/// All xattrs of one inode together, in bytes of names and values.
pub const XATTR_TOTAL_BYTES_MAX: usize = 1024 * 1024;

/// The most names an inode can have, as ext4 has it.
pub const LINKS_MAX: u32 = 65000;

/// The largest file, in bytes: 8 EiB less one cell, so that no sum of offset and length overflows an `i64`.
pub const FILE_BYTES_MAX: u64 = (1 << 63) - (1 << 16);

/// The noise in unused room of the intent log repeats itself after as many bytes: making new noise for all of it would be a large
/// part of the first small fsync.
pub(crate) const INTENT_NOISE_BYTES: usize = 64 * 1024;

/// Segments that were read last, which stay here whatever the limit for this device is: whoever reads them may be in the middle. 8: at
/// most 128 MiB, for some readers at a time.
pub const JUST_READ_SEGMENTS: usize = 8;

/// Segments of which it is known when they were read last; as many before them may be, too. 32,768 full ones hold half a TiB, and take
/// less than 2 MiB of memory here.
pub(crate) const LAST_READS_MAX: usize = 32_768;

/// Removed revisions of which is remembered what they went on from; the oldest make room. 65,536: one a minute for six weeks. They take
/// 7 MiB of the database at most.
pub const REMOVED_REVISIONS_MAX: u64 = 65_536;

/// ... and how many of them are written together, 7 KiB at most.
pub(crate) const REMOVED_REVISIONS_PAGE: u64 = 64;

/// From when on the engine works, and how much in one step. Values and not constants, so that the simulator meets within seconds
/// what otherwise takes gigabytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// A node's content is drained as soon as this many bytes of it are dirty. 4 MiB: a segment batch of
    /// this size keeps the disk and all cores busy, and a larger one only holds memory.
    pub drain_bytes: u64,
    /// Sealed bytes that one batch may hold; larger drains are cut into several.
    pub batch_bytes: usize,
    /// A drain of at most this many bytes that an `fsync` waits for is carried in the commit: one disk flush.
    pub carried_bytes_max: usize,
    /// Carried blocks move to a segment when they exceed this.
    pub waiting_bytes_max: u64,
    /// A cell (64 KiB) with more fragments than this is rewritten whole in the background. 32: twice what a
    /// database of 4 KiB pages makes, so that such a file is never rewritten.
    pub cell_fragments_max: usize,
    /// Regions that one purge step removes, so that no operation touches an unbounded number of rows.
    pub purge_regions_per_step: usize,
    /// Extents that one purge step removes, but for a single region that has more: those of 64 regions written in one run.
    pub purge_extents_per_step: usize,
    /// A commit follows when the transaction has changed this many pages; below the page cache, so nothing spills.
    pub dirty_pages_max: u64,
    /// Blocks that compaction and settling move in one batch.
    pub move_blocks: usize,
    /// A segment file below this counts as a fragment of one, as short sessions leave them; 1 MiB.
    pub small_segment_bytes: u64,
    /// So many small segments are allowed before they are joined.
    pub small_segments_max: usize,
    /// Waste beyond half of what lives, in bytes. [5.12] allows 64 MiB. The rest is for what those who look from outside see besides, in
    /// each case up to a segment: what is set aside for the open one, one that was moved and waits for the commit after which it may go,
    /// and what was removed a moment ago and counts as living until the background has purged it. With 48 MiB here `tools/churn.py` found
    /// 9 % too much in two minutes, with 32 MiB and other work on the machine 12 % in four.
    pub waste_bytes_max: u64,
    /// See `strongroom_format::limits::INTENT_LOG_BYTES`.
    pub intent_log_bytes: usize,
}

impl Thresholds {
    /// What suits a laptop.
    pub const DEFAULT: Self = Self {
        drain_bytes: 4 * 1024 * 1024,
        batch_bytes: 2 * 1024 * 1024,
        carried_bytes_max: 64 * 1024,
        waiting_bytes_max: 4 * 1024 * 1024,
        cell_fragments_max: 32,
        purge_regions_per_step: 64,
        purge_extents_per_step: 4096,
        dirty_pages_max: 6_000,
        move_blocks: 64,
        small_segment_bytes: 1 << 20,
        small_segments_max: 16,
        waste_bytes_max: 16 * 1024 * 1024,
        intent_log_bytes: strongroom_format::limits::INTENT_LOG_BYTES,
    };
}

impl Default for Thresholds {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Nodes that share one purge step, as far as its bound of extents goes. Some 300 statements: others wait a millisecond.
pub(crate) const PURGE_NODES_PER_STEP: usize = 32;

/// Empty segments that are removed in one step while writers may wait: some 32 MiB in about 20 ms.
pub(crate) const REMOVALS_PER_STEP: usize = 2;

/// Holes that wait for their purge, over all files, before a drain purges some itself. Some 100 bytes of memory each.
pub const HOLES_MAX: usize = 65_536;

/// Rows of extents that `fallocate` looks at to find what is written already: 4 GiB of content. What is written behind
/// them is reserved once more.
pub const RESERVE_REGIONS_MAX: usize = 1024;

/// Default bound of dirty content, in bytes. docs/guide/performance.md states it, and the other bounds of memory.
pub const DIRTY_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Default bound of nodes in memory that nobody uses.
pub const NODES_MAX: usize = 65_536;

/// Default time between commits while there are changes ...
pub const COMMIT_INTERVAL: Duration = Duration::from_secs(3);

/// ... and default time without a further change after which what has changed is committed at once.
pub const QUIET_INTERVAL: Duration = Duration::from_secs(1);

/// Regions of extents kept per node: those of 16 GiB.
pub const NODE_REGIONS_MAX: usize = 4096;

/// Extents of one region are kept only up to this many bytes, 40,000 of them: such a file is read through the database.
pub const REGION_CACHED_BYTES_MAX: usize = 1024 * 1024;

/// Default bound of extents in memory over all nodes, in bytes: those of some 80 GiB of files written in one run, or of
/// some 6 GiB where each block was read.
pub const EXTENT_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Free bytes of the disk that content may not use: room for the log, the database and deletions.
pub const DISK_RESERVE_BYTES: u64 = 48 * 1024 * 1024;

/// What the log of the database, and what is set aside for segments, may grow by while as much is written as `statfs` tells.
pub const LOG_ROOM_BYTES: u64 = 24 * 1024 * 1024;

/// Shards of the node table.
pub(crate) const NODE_SHARDS: usize = 16;

/// Entries that one call of `list` gives at most, whatever the caller asks for: bounds its memory.
pub(crate) const LIST_ENTRIES_MAX: usize = 65_536;

/// Steps up the tree when a directory is moved; deeper than any path can name, so only a cycle meets it.
pub(crate) const DIRECTORY_DEPTH_MAX: usize = 1 << 20;

/// How often a rename looks again because the file it found was replaced while its content was drained.
pub(crate) const RENAME_ROUNDS_MAX: usize = 64;

/// How often a transaction is carried out before it is kept: once to find what must be stored first, once for real.
/// The third is for the reader's peace of mind: nothing can become pending in between.
pub(crate) const TRANSACTION_ROUNDS_MAX: usize = 3;

/// Blocks of a generation that are known to have opened: 512 MiB of large ones, far more than a copy reads ahead of what it
/// writes, in some 700 KiB of memory.
pub(crate) const OPENED_BLOCKS_MAX: usize = 8192;

/// Blocks that one job of the verification opens: 1 MiB of large ones, so that all cores end at about one time.
pub(crate) const VERIFY_JOB_BLOCKS: usize = 16;

/// Rows of blocks that the verification reads at a time.
pub(crate) const VERIFY_PAGE_BLOCKS: usize = 4096;

/// Damaged blocks that are remembered from one run to the next: as many as a setting holds.
pub(crate) const ISOLATED_BLOCKS_MAX: usize = strongroom_metadata::limits::VALUE_BYTES_MAX / 8;

/// Names of one node that a report gives; more are left out.
pub(crate) const REPORTED_NAMES_MAX: usize = 16;
