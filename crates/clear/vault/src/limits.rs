//! The bounds of the public API and of the owner's socket, except those that one file alone uses: they are at the head of that file.

/// The longest message on the owner's socket, in bytes, without its length prefix.
///
/// Twice the largest read or write, so that a full one and its frame always fit.
pub const FRAME_BYTES_MAX: usize = 2 * 1024 * 1024;

/// The most bytes one request reads or writes; longer calls are cut into several requests.
pub const TRANSFER_BYTES_MAX: usize = 1024 * 1024;

/// The longest path, in bytes. Longer than POSIX's `PATH_MAX`, which binds only system calls.
pub const PATH_BYTES_MAX: usize = 32 * 1024;

/// How many symlinks one path may lead through; Linux has the same bound.
pub const SYMLINKS_MAX: usize = 40;

/// How many entries one listing request gives: 255-byte names and attributes stay well inside a frame.
pub const LIST_ENTRIES_MAX: u32 = 1024;

/// How many entries a walk over a tree holds in memory.
pub const WALK_ENTRIES_MAX: usize = 65_536;

/// How many nodes one request of `remove_dir_all` removes, and how many it looks at together.
pub(crate) const REMOVE_NODES_MAX: usize = 1024;
pub(crate) const REMOVE_PAGE: usize = 128;

/// How many connections the owner serves at once.
pub const CONNECTIONS_MAX: usize = 256;

/// How many connections one client keeps, so that its threads do not wait for one another.
pub const CLIENT_CONNECTIONS_MAX: usize = 8;

/// How many files one session holds open.
pub const HANDLES_MAX: usize = 65_536;

/// The longest list of extended attribute names or of counters in one answer, in bytes.
pub const NAMES_BYTES_MAX: usize = 1024 * 1024;

/// The largest transaction: operations.
pub const TRANSACTION_OPERATIONS_MAX: usize = 1024;

/// The largest transaction: bytes of paths, names and values, and of contents that travel with them, so that it fits a frame.
pub const TRANSACTION_BYTES_MAX: usize = 1024 * 1024;

/// The largest transaction: bytes of contents, those that are written to files without names first among them. Some 16,000
/// extents, as many as one step of a copy shares.
pub const TRANSACTION_CONTENT_BYTES_MAX: usize = 1024 * 1024 * 1024;

/// The largest `vault.json` or `replica.json` that is read into memory, in bytes.
pub const HEADER_BYTES_MAX: u64 = strongroom_format::limits::HEADER_BYTES_MAX as u64;

/// How often a change of keys begins again because somebody else changed them meanwhile. Each time somebody succeeds.
pub const KEY_CHANGE_ATTEMPTS_MAX: usize = 32;

/// The least that must be free where a vault is made, in bytes: what it keeps back for its database, what it leaves to
/// others, and room for the first files.
pub const CREATE_FREE_BYTES_MIN: u64 = strongroom_metadata::limits::RESERVE_BYTES_DEFAULT
    + strongroom_filesystem::limits::DISK_RESERVE_BYTES
    + 8 * 1024 * 1024;

/// How long an opener waits for the socket of an owner that holds the lock but does not answer, in ms.
pub const OWNER_WAIT_MS: u64 = 10_000;

/// How long `Vault::open` waits for an owner that may be just leaving, in ms, unless told otherwise.
pub const PATIENCE_MS: u64 = 500;

/// First and longest pause between two attempts of such an opener, in ms.
pub const RETRY_PAUSE_MS: (u64, u64) = (2, 100);

/// How long a client waits for the owner's greeting, in ms: the owner may be computing a costly passphrase hash.
pub const GREETING_WAIT_MS: u64 = 120_000;

/// A session without a request for this long does not hold up an owner that closes, in ms.
pub const SESSION_IDLE_MS: u64 = 5_000;

/// How long an owner that closes waits for busy sessions at most, in ms.
pub const CLOSE_WAIT_MS: u64 = 600_000;

/// The longest that the first look at the crypto providers takes, in ms.
pub const FIRST_MEASUREMENT_MS: u64 = 300;

/// About how long `strongroom tune` measures, in ms.
pub const TUNE_MS: u64 = 24_000;

/// How long is waited for another process that measures, in ms: three times as long as it may take.
pub const TURN_WAIT_MS: u64 = 1_000;

/// The longest path of a Unix socket that every system takes, in bytes.
pub const SOCKET_PATH_BYTES_MAX: usize = 100;

/// Blocks that do not open whose files a verification names, all in all; more are counted.
pub const VERIFY_BLOCKS_MAX: usize = 65_536;

/// Lines that one answer about damage gives.
pub const VERIFY_LINES_MAX: usize = 1_024;

/// Bytes of paths in one answer about damage.
pub const VERIFY_PAGE_BYTES: usize = 1024 * 1024;

/// First, least and most bytes of segments that one step of a verification reads: about half a second of a disk's work.
pub const VERIFY_STEP_BYTES: (u64, u64, u64) = (64 << 20, 16 << 20, 512 << 20);

/// Segments that a stopped verification remembers to look at again; with more it begins again.
pub const VERIFY_SUSPECTS_MAX: usize = 4_096;

/// Snapshots that one request about what each of them holds names.
pub const REVISIONS_MAX: usize = 1_024;

/// Files that one request about hashes names.
pub const HASH_FILES_MAX: usize = 1_024;

/// Names of one file that an answer about hashes gives; how many it has is told beside them.
pub const HASH_NAMES_MAX: usize = 4_096;

/// Bytes of the paths of one file in an answer about hashes: two of them fit a frame.
pub const HASH_NAMES_BYTES_MAX: usize = 512 * 1024;

/// First, least and most bytes that one request hashes: about half a second of work.
pub const HASH_STEP_BYTES: (u64, u64, u64) = (64 << 20, 1 << 20, 2 << 30);

/// Files that could not be hashed which are listed; more are counted.
pub const HASH_FAILURES_MAX: usize = 1_000;

/// Pages that a rebuilding changes before it commits: below the page cache, so that nothing spills.
pub(crate) const REBUILD_PAGES_MAX: u64 = 4_000;

/// The most bytes of one file of which nothing is known that get extents which fail; a file with more is not brought
/// back. 64 GiB: a million extents.
pub(crate) const REBUILD_LOST_BYTES_MAX: u64 = 64 << 30;

/// Objects in one page of what a push finds missing, and in one publication: well below what both may have.
pub(crate) const PUSH_PAGE: usize = 2048;

/// Segments in one answer about those that may go, or are away.
pub(crate) const SEGMENTS_PAGE: usize = 4096;

/// How long a device that let content go and is not heard of any more keeps others from removing what it may need.
pub(crate) const NEEDS_END: std::time::Duration =
    std::time::Duration::from_secs(180 * 24 * 60 * 60);

/// How old what such a device said there may be before it says it again.
pub(crate) const NEEDS_RENEWED: std::time::Duration =
    std::time::Duration::from_secs(30 * 24 * 60 * 60);

/// A deposit of which a piece or the key is missing is set aside once it came so long ago; so long pieces without an envelope stay.     [12.6.3] [12.6.7]
pub(crate) const DEPOSIT_GRACE: std::time::Duration =
    std::time::Duration::from_secs(7 * 24 * 60 * 60);

/// A deposit that takes longer is not completed: some time before devices remove its first pieces.                     [12.2.2]
pub(crate) const DEPOSIT_TAKES_MAX: std::time::Duration =
    std::time::Duration::from_secs(6 * 24 * 60 * 60);

/// So long a deposit that was set aside stays at the remote.                                                [12.6.3]
pub(crate) const SET_ASIDE_STAYS: std::time::Duration =
    std::time::Duration::from_secs(30 * 24 * 60 * 60);

/// How often a process looks for pieces without an envelope.
pub(crate) const PIECES_LOOKED_FOR: std::time::Duration =
    std::time::Duration::from_secs(24 * 60 * 60);

/// How many places can be pinned: each is looked through whenever content is to go.
pub const PINS_MAX: usize = 1024;

/// Segments whose files go at once: a commit stands between each two lots.
pub(crate) const EVICT_AT_ONCE: usize = 64;

/// What is fetched first of a segment whose content stays at a remote, in bytes: its table of contents is at its end, and that of one
/// that holds large files is within this. One that is no longer comes whole.
pub(crate) const OUTLINE_TAIL_BYTES: u64 = 16 * 1024;

/// Ranges that are no farther apart than this, in bytes, are fetched as one: a request costs as much.
pub(crate) const OUTLINE_GAP_BYTES: u64 = 128 * 1024;

/// How many ranges of a segment are fetched; where more were needed it comes whole.
pub(crate) const OUTLINE_RANGES_MAX: usize = 16;
