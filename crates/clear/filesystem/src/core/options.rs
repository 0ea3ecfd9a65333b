//! The parts from which a file system is assembled, and the options with which it runs.
//!
//! Takes   stores, keys and the external services (clock, disk, remotes) as values
//! Gives   the same values as named fields, with defaults for the options
//! Never   uses any of them

use std::sync::Arc;

use strongroom_crypto::{BlockSealer, Random, RevisionSigner};
use strongroom_metadata::{Remote, Store, Timestamp};
use strongroom_segments::SegmentStore;

use crate::limits;

/// Tells the time. A value, so that tests and the simulator bring their own.
pub trait Clock: Send + Sync {
    /// Now.
    fn now(&self) -> Timestamp;
}

/// Tells how full the disk below is. A value, for the same reason.
pub trait Disk: Send + Sync {
    /// Total and free bytes of the disk that holds the vault; `None` if it does not say.
    fn space(&self) -> Option<(u64, u64)>;
}

/// A segment at a remote.
#[derive(Clone, Debug)]
pub struct AtRemote {
    /// What is kept of the remote.
    pub remote: Remote,
    /// The hash under which the segment was published there.
    pub hash: [u8; 32],
}

/// Why a segment did not come from any remote. The texts are for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotFetched {
    /// A remote could not be asked; later it may be.
    Now(String),
    /// Each of them answered, and none has what was published.
    Ever(String),
}

/// Reaches remotes for segments that are not here. A value, as all that lies outside of the vault.
pub trait SegmentSource: Send + Sync {
    /// All bytes of a segment, from the first of `places` that gives those that were published there, and of which `is_it` holds. It may
    /// take as long as remotes are waited for.
    ///
    /// # Errors
    /// Why none of them does.
    fn fetch(
        &self,
        places: &[AtRemote],
        is_it: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Vec<u8>, NotFetched>;
}

/// Who runs drains, commits, purges and compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Background {
    /// A thread of the file system, by the timers of `Options`.
    Thread,
    /// Nobody: the owner calls `Filesystem::tick`. For exact replay.
    Manual,
}

/// How a file system runs. The defaults suit a laptop.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bound of content in memory that is not yet stored, in bytes.
    pub dirty_bytes_max: u64,
    /// Bound of idle nodes in memory.
    pub nodes_max: usize,
    /// Bound of extents in memory, over all nodes, in bytes.
    pub extent_bytes_max: usize,
    /// Time between commits, at most, while there are changes.
    pub commit_interval: std::time::Duration,
    /// Time without a further change after which what has changed is committed.
    pub quiet_interval: std::time::Duration,
    /// Who works in the background.
    pub background: Background,
    /// Refuse every mutation.
    pub read_only: bool,
    /// Threads that seal and open; `None` for as many as were measured to pay, or one per core.
    pub threads: Option<usize>,
    /// From when on it works in the background, and how much in one step.
    pub thresholds: limits::Thresholds,
    /// Who hears of that work.
    pub watcher: Option<Arc<dyn Watcher>>,
}

/// Work that nobody asked for by an operation of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Work {
    /// The log moves into the database.
    Checkpoint,
    /// A full segment gets its table of contents.
    Rollover,
    /// Carried blocks move into a segment.
    Settling,
    /// Live blocks leave a segment.
    Compaction,
    /// An empty segment goes.
    Removal,
    /// The rows of a file without names go.
    Purge,
    /// A fragmented cell is rewritten.
    Defragmentation,
    /// Blocks of an earlier epoch are re-sealed.
    Resealing,
    /// A small sync goes to the intent log.
    Logging,
}

impl Work {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 9] = [
        Self::Checkpoint,
        Self::Rollover,
        Self::Settling,
        Self::Compaction,
        Self::Removal,
        Self::Purge,
        Self::Defragmentation,
        Self::Resealing,
        Self::Logging,
    ];
}

/// Is told when background work begins and ends, on the thread that does it: for tests that must meet it, as the
/// simulator. It may hold locks meanwhile: return soon, and call nothing of the file system.
pub trait Watcher: Send + Sync + std::fmt::Debug {
    /// It begins.
    fn begins(&self, work: Work);
    /// It ended, one way or another.
    fn ends(&self, work: Work);
}

/// Tells the end of a work when it is dropped.
pub(crate) struct Doing<'a> {
    watcher: Option<&'a dyn Watcher>,
    work: Work,
}

impl Drop for Doing<'_> {
    fn drop(&mut self) {
        if let Some(watcher) = self.watcher {
            watcher.ends(self.work);
        }
    }
}

impl Options {
    /// Tells the watcher of `work`, and of its end when the result is dropped.
    pub(crate) fn doing(&self, work: Work) -> Doing<'_> {
        let watcher = self.watcher.as_deref();
        if let Some(watcher) = watcher {
            watcher.begins(work);
        }
        Doing { watcher, work }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            dirty_bytes_max: limits::DIRTY_BYTES_MAX,
            nodes_max: limits::NODES_MAX,
            extent_bytes_max: limits::EXTENT_BYTES_MAX,
            commit_interval: limits::COMMIT_INTERVAL,
            quiet_interval: limits::QUIET_INTERVAL,
            background: Background::Thread,
            read_only: false,
            threads: None,
            thresholds: limits::Thresholds::default(),
            watcher: None,
        }
    }
}

/// What a file system is made of. Joined by the vault's `open.rs` only.
pub struct Parts {
    /// Rows.
    pub store: Store,
    /// Sealed bytes.
    pub segments: SegmentStore,
    /// The gate.
    pub sealer: BlockSealer,
    /// What signs revisions, and proves them.
    pub signer: RevisionSigner,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The disk's fill.
    pub disk: Arc<dyn Disk>,
    /// Salts and birth ids.
    pub random: Arc<dyn Random>,
    /// This run's prefix of segment names: the first 8 bytes of every name that `segments` draws, so that a
    /// later open knows which unfinished files an interrupted run left.
    pub session: [u8; 8],
    /// The folder for the intent log; without one every sync is a commit.
    pub intents: Option<std::path::PathBuf>,
    /// Who fetches segments that only remotes have; none where there are no remotes.
    pub source: Option<Arc<dyn SegmentSource>>,
    /// How it runs.
    pub options: Options,
}
