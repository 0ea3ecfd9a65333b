//! Tracks which changes are durable: the gate that mutations pass, their count, and the commits.
//!
//! Takes   notes that something changed, or failed
//! Gives   which changes the next commit has to cover, and which the last one covered
//! Never   commits: `commit/commits.rs` does
//!
//! Invariants
//!  (1) `changes` rises after a mutation took effect and before it is acknowledged. So a commit that read `changes` with
//!      the lock of the open transaction held covers every mutation counted until then.
//!  (2) After a failure nothing is acknowledged any more.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::core::intents::Intents;
use crate::{Error, Result};

/// What is durable, and who makes the rest so.
pub(crate) struct Durability {
    /// A barrier takes it exclusively for a moment.
    gate: RwLock<()>,
    /// Counts mutations. (1)
    changes: AtomicU64,
    /// A sync or commit failed. (2)
    failed: AtomicBool,
    progress: Mutex<Progress>,
    /// A commit ended.
    done: Condvar,
    pub(crate) intents: Intents,
}

/// Who commits, and how far it is.
#[derive(Default)]
pub(crate) struct Progress {
    running: bool,
    /// All mutations counted up to here are durable.
    durable: u64,
    /// The newest commit of this run that is durable for certain.
    pub(crate) state: Option<DurableState>,
}

/// A state of the database that no power cut takes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DurableState {
    /// The count of commits that the database has ever seen.
    pub commits: u64,
    /// The one value that stands for all of its pages; `None` of a database that keeps none.
    pub root: Option<[u8; 32]>,
}

impl Durability {
    /// `intents`: the folder for the intent log, if there is to be one.
    pub(crate) fn new(intents: Option<PathBuf>) -> Self {
        Self {
            gate: RwLock::default(),
            changes: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            progress: Mutex::default(),
            done: Condvar::new(),
            intents: Intents::new(intents),
        }
    }

    /// Among other mutations, and while no barrier passes.
    pub(crate) fn enter(&self) -> RwLockReadGuard<'_, ()> {
        self.gate.read()
    }

    /// Waits for the mutations that run, and holds up all others.
    pub(crate) fn enter_alone(&self) -> RwLockWriteGuard<'_, ()> {
        self.gate.write()
    }

    /// How many mutations there were.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Counts a mutation that has taken effect. (1)
    pub(crate) fn count_change(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// (2)
    pub(crate) fn fail(&self) {
        self.failed.store(true, Ordering::Release);
    }

    /// Refuses to go on after a failure.
    pub(crate) fn check(&self) -> Result<()> {
        match self.has_failed() {
            true => Err(Error::Failed),
            false => Ok(()),
        }
    }

    /// Call with the writer held, on the result of changes to several rows: after an error they may be half
    /// written, so nothing of this transaction may be committed any more.
    pub(crate) fn fail_on_error<T, E>(
        &self,
        result: std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        if result.is_err() {
            self.fail();
        }
        result
    }

    /// How far the commits are.
    pub(crate) fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock()
    }

    /// How many mutations are durable.
    pub(crate) fn durable(&self) -> u64 {
        self.progress.lock().durable
    }

    /// Waits until nobody commits and then begins to; `None` if all mutations up to `target` are durable then.
    pub(crate) fn begin(&self, target: u64) -> Result<Option<Committing<'_>>> {
        let mut progress = self.progress.lock();
        loop {
            self.check()?;
            if progress.durable >= target {
                return Ok(None);
            }
            if !progress.running {
                progress.running = true;
                return Ok(Some(Committing {
                    durability: self,
                    made: None,
                }));
            }
            self.done.wait(&mut progress);
        }
    }
}

/// A commit under way: the only one. Dropped before it ended well, by an error or a panic, it has failed. (2)
pub(crate) struct Committing<'a> {
    durability: &'a Durability,
    made: Option<(u64, DurableState)>,
}

impl Committing<'_> {
    /// It ended well: how many mutations it covers, and the state that is durable now.
    pub(crate) fn end(mut self, covered: u64, state: DurableState) {
        self.made = Some((covered, state));
    }
}

impl Drop for Committing<'_> {
    fn drop(&mut self) {
        let mut progress = self.durability.progress.lock();
        progress.running = false;
        match self.made.take() {
            Some((covered, state)) => {
                progress.durable = progress.durable.max(covered);
                progress.state = Some(state);
            }
            // What is on the disk is unknown now.
            None => self.durability.fail(),
        }
        drop(progress);
        self.durability.done.notify_all();
    }
}
