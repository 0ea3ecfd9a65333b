//! The bounds of the metadata store, except those that one file alone uses: they are at the head of that file.

use std::time::Duration;

use strongroom_format::limits::BLOCK_BYTES_MAX;

/// Bytes of file content whose extents share one row.
///
/// 64 whole blocks: a row of a file written in one run is about 260 bytes, so that fifteen fit a page,
/// while a small overwrite rewrites no more than that.
pub const REGION_BYTES: u64 = 4 * 1024 * 1024;

/// The most extents one region can have: every byte its own.
pub const REGION_EXTENTS_MAX: usize = REGION_BYTES as usize;

/// The longest row of extents that is decoded, in bytes; a longer one is damage.
///
/// An extent takes at least four bytes, so this also bounds what decoding allocates.
pub const REGION_ROW_BYTES_MAX: usize = 32 * 1024 * 1024;

/// The longest row or value that SQLite reads or stores at all, in bytes.
pub const ROW_BYTES_MAX: i32 = REGION_ROW_BYTES_MAX as i32 + 1024 * 1024;

/// Each device numbers its inodes below this; the bits above are the prefix of the device. Ten thousand new inodes a second get
/// here in three years.
pub const INODE_NUMBERS_MAX: u64 = 1 << INODE_PREFIX_SHIFT;

/// Where the prefix of the device that made an inode begins in its number.
pub const INODE_PREFIX_SHIFT: u32 = 40;

/// Prefixes are below this: the top bit of a number is that of nodes of snapshots.
pub const INODE_PREFIXES_MAX: u64 = 1 << (63 - INODE_PREFIX_SHIFT);

/// The longest name, in bytes, as POSIX has it.
pub const NAME_BYTES_MAX: usize = 255;

/// The longest value of an extended attribute or a setting, in bytes: what Linux allows an attribute.
pub const VALUE_BYTES_MAX: usize = 64 * 1024;

/// The longest symlink target, in bytes.
pub const TARGET_BYTES_MAX: usize = 4096;

/// Bytes of a raw key: cipher key 32, page authentication key 32, salt 16.
pub const KEY_BYTES: usize = 80;

/// Bytes of a database page.
pub const PAGE_BYTES: usize = 4096;

/// The most pages that a database may have: 1 TiB. Its page tree takes 19 bytes of memory a page.
pub const DATABASE_PAGES_MAX: u32 = 1 << 28;

/// The most frames that a log may have: 4 GiB, far above what a reader that keeps it from beginning again lets it become.
pub const LOG_FRAMES_MAX: usize = 1 << 20;

/// What the writer's page cache may hold, in bytes, unless `Options` says otherwise.
pub const CACHE_BYTES_DEFAULT: usize = 192 * 1024 * 1024;

/// What the page cache of each reader may hold, in bytes, unless `Options` says otherwise.
pub const READER_CACHE_BYTES_DEFAULT: usize = 8 * 1024 * 1024;

/// How long a program that ends waits for statements that run. Any but a check of a large database takes moments; a disk that does not answer is
/// no reason to keep a program for ever.
pub const ENDING_WAIT: Duration = Duration::from_secs(10);

/// How many connections read at once; a further caller waits for one.
pub const READERS_MAX: usize = 4;

/// Bytes kept back on the disk so that a commit fits even when the disk is full.
///
/// `DIRTY_PAGES_MAX` pages with their log frame headers must fit, and the log's index file beside them.
pub const RESERVE_BYTES_DEFAULT: u64 = 32 * 1024 * 1024;

/// Commit before a transaction has changed more pages than this: they fit the cache and the reserve.
pub const DIRTY_PAGES_MAX: u64 = 6 * 1024;

/// The log is checkpointed once it is longer than this, in bytes, unless `Options` says otherwise.
pub const LOG_BYTES_DEFAULT: u64 = 16 * 1024 * 1024;

/// How many times its limit the log may have grown before a checkpoint also shortens the file.
pub const LOG_EXCESS_FACTOR: u64 = 4;

/// Prepared statements kept per connection: above the number of statements there are.
pub const STATEMENTS_CACHED: usize = 128;

/// How many problems an integrity check lists before it stops.
pub const PROBLEMS_MAX: usize = 100;

/// How long a connection waits for another one inside SQLite, in milliseconds, before it gives up.
///
/// Reached only while another process recovers or closes the database.
pub const BUSY_TIMEOUT_MS: u64 = 10_000;

/// How long a checkpoint waits for readers to leave the log, in milliseconds; the writer waits with it.
pub const CHECKPOINT_WAIT_MS: u64 = 50;

const _: () = assert!(
    BLOCK_BYTES_MAX as u64 <= REGION_BYTES,
    "a block's cell lies inside one region"
);
const _: () = assert!(
    DIRTY_PAGES_MAX * (PAGE_BYTES as u64 + 24) < RESERVE_BYTES_DEFAULT,
    "the largest commit fits the reserve"
);
const _: () = assert!(
    DIRTY_PAGES_MAX as usize * PAGE_BYTES < CACHE_BYTES_DEFAULT,
    "the largest commit fits the cache, so that nothing spills"
);

/// Ranges of one file that may be reserved apart from one another: 16 KiB of a row.
pub const RESERVED_RANGES_MAX: usize = 1024;

/// File names of segments kept in memory, of 20 bytes each: those of 16 GiB of content.
pub const SEGMENT_IDS_MAX: usize = 1024;
