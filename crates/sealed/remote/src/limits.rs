//! The bounds of this crate, except those that one file alone uses: they are at the head of that file.

use std::time::Duration;

/// The longest name of an object, in bytes.
pub const NAME_BYTES_MAX: usize = 200;

/// The longest URL of a remote, in bytes.
pub const ADDRESS_BYTES_MAX: usize = 2048;

/// The most names that one listing gives.
pub const LISTED_MAX: usize = 4_000_000;

/// Objects on their way at a time, if the line carries them: fewer go otherwise (`lanes.rs`). Each takes the memory of a segment;
/// docs/guide/performance.md states it.
pub const TRANSFERS: usize = 6;

/// How long making a connection may take.
pub(crate) const CONNECT: Duration = Duration::from_secs(10);

/// How long a server may be silent in the middle of an answer. There is no limit on the whole: a line may be slow.
pub(crate) const SILENCE: Duration = Duration::from_secs(30);

/// So many bytes of an upload may be on their way in the system, where nobody sees them move …
pub(crate) const UNSEEN_BYTES: u64 = 4 << 20;

/// … and so many a second leave on the slowest line that counts.
pub(crate) const RATE_MIN: u64 = 16 * 1024;

/// How long a request that failed for a passing reason is repeated; from when on: `lanes.rs`.
pub(crate) const RETRY: Duration = Duration::from_secs(60);

/// How much is read at once where there is a limit, as the time that it takes: less is smoother, and more requests.
pub(crate) const PIECE: Duration = Duration::from_millis(500);

/// The least that is read at once then, in bytes.
pub(crate) const PIECE_BYTES_MIN: u64 = 256 * 1024;

/// How often it is repeated in that time at most.
pub(crate) const RETRIES: usize = 8;

/// How long passes before a request to a server is repeated; then twice as long each time, or longer if the server says so.
pub(crate) const RETRY_FIRST: Duration = Duration::from_millis(100);

/// The longest document that a server answers with, in bytes: a page of names as long as any, and what is around each.
pub(crate) const ANSWER_BYTES_MAX: u64 = 2 << 20;

/// What is given to a server at once of an object, in bytes.
pub(crate) const SENT_PIECE_BYTES: usize = 64 * 1024;

/// Who waits at a server is asked so often whether it still wants to.
pub(crate) const LOOK_WHILE_WAITING: Duration = Duration::from_millis(100);

/// How often a client asks a server that does not follow the vault whether it does now.
pub(crate) const LOOK_FOR_LOGIN: Duration = Duration::from_secs(60);

/// How often a request is sent with a new login, if the server says that the one before has ended.
pub(crate) const LOGINS: usize = 2;
