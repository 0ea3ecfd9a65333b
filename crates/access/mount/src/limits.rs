//! The bounds of the mount, except those that one file alone uses: they are at the head of that file.

use std::time::Duration;

/// The longest write or read request, in bytes: the kernel's default `max_pages_limit`.
pub(crate) const REQUEST_BYTES_MAX: u32 = 1024 * 1024;

/// The longest direct write that is taken for a whole append, in bytes. The kernel sends a long one in parts, all at once; but for the
/// last they are longer than this, also where a request has no more than 32 pages, as in old kernels. Those of many small buffers, each of
/// which takes a page, may be shorter: the guide says what becomes of them.
pub(crate) const DIRECT_APPEND_BYTES_MAX: usize = 64 * 1024;

/// The longest read an event loop answers itself, in bytes; longer ones go to the pool.
///
/// 128 KiB is the kernel's first read-ahead step; a hand-over costs about as much as opening it.
pub(crate) const READ_INLINE_BYTES_MAX: u32 = 128 * 1024;

/// Background requests (read-ahead, write-back, direct writes) the kernel may have in flight: as many as the protocol can say. A
/// direct write is in flight until its pages are dropped, and that may wait for a read-ahead that must be in flight, too.
pub(crate) const BACKGROUND_REQUESTS_MAX: u16 = u16::MAX;

/// How many of them the kernel grants a mount of a user, if it does not say that.
pub(crate) const BACKGROUND_REQUESTS_OF_USERS: usize = 64;

/// From here on the kernel holds read-ahead back.
pub(crate) const CONGESTION_REQUESTS: u16 = 48;

/// Read-ahead of the mount, in KiB: four requests of the largest size.
pub(crate) const READ_AHEAD_KIB: u32 = 4096;

/// How long the kernel may keep names and attributes: for good. What changes in another way than through this kernel is announced
/// to it (`invalidate.rs`).
pub(crate) const TTL: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// How long it may keep what a name in `.history` means: a selector means another revision with every new one.
pub(crate) const HISTORY_TTL: Duration = Duration::from_secs(1);

/// How long the kernel may keep a name in `parent`.
pub(crate) fn ttl_in(parent: strongroom::filesystem::InodeId) -> &'static Duration {
    if parent == strongroom::filesystem::HISTORY_INODE {
        &HISTORY_TTL
    } else {
        &TTL
    }
}

/// How long the kernel needs at most to take in an answer that was sent. It does not say when it has.
pub(crate) const TAKEN_IN: Duration = Duration::from_secs(1);

/// When the kernel hears again of a change that an older answer may undo: so long after the first time, and after each repetition.
pub(crate) const REPEAT_AFTER: [Duration; 4] = [
    Duration::from_millis(1),
    Duration::from_millis(10),
    Duration::from_millis(100),
    TAKEN_IN,
];

/// How many changes may wait to be repeated. Beyond that, the one that is due next is given up.
pub(crate) const REPEATED_MAX: usize = 64 * 1024;

/// Threads that answer requests that may wait. More than cores: they sleep, and callers of fsync who
/// sleep together share one commit.
pub(crate) const WAITING_THREADS: usize = 8;

/// Threads that answer long reads.
pub(crate) const READING_THREADS: usize = 8;

/// Bytes of write data that may wait in a queue; beyond it the event loop itself waits, which is the
/// back-pressure: it holds at most one further request.
pub(crate) const QUEUED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Event loops by default, and at most. How many of them listen is found out as requests come, see `turns.rs`.
pub(crate) const LOOPS_DEFAULT: usize = 4;
/// See `LOOPS_DEFAULT`.
pub(crate) const LOOPS_MAX: usize = 16;

/// Entries asked of the file system first for one listing request: 32 KiB hold about 195.
pub(crate) const LISTING_FIRST: usize = 192;

/// Entries asked for after that, until the reply is full.
pub(crate) const LISTING_MORE: usize = 32;

/// The longest extended attribute value and name list Linux knows, in bytes.
pub(crate) const XATTR_BYTES_MAX: usize = 64 * 1024;

/// The longest message of a child on its status pipe that is shown, in bytes.
pub(crate) const STATUS_BYTES_MAX: u64 = 64 * 1024;

/// The longest runtime record that is read, in bytes.
pub(crate) const RECORD_BYTES_MAX: usize = 16 * 1024;

/// Dead mounts stacked on one folder that are cleaned up before giving up.
pub(crate) const DEAD_MOUNTS_MAX: usize = 8;

/// What `stat` recommends as a buffer size, in bytes: the grid that content is cut on.
pub(crate) const IO_BLOCK_BYTES: u32 = 64 * 1024;

/// The unit of `statfs`, in bytes.
pub(crate) const STATFS_BLOCK_BYTES: u32 = 4096;

/// The longest name, in bytes.
pub(crate) const NAME_BYTES_MAX: u32 = 255;

/// How many of those that keep a mount in use are named.
pub(crate) const HOLDERS_MAX: usize = 8;

/// How often a mount that is ending says how much is left, and who waits for one looks.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How long they are looked for.
pub(crate) const LOOK_AT_HOLDERS: Duration = Duration::from_secs(2);

/// The longest name of a source that mount tables are given, in bytes: well below the page that mount(2) takes.
pub(crate) const SOURCE_BYTES_MAX: usize = 1024;
