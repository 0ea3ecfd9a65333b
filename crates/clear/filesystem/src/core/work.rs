//! Queues background work for the thread that does it.
//!
//! Takes   notes from the operations
//! Gives   them to that thread
//! Never   does any of that work

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use parking_lot::{Condvar, Mutex, MutexGuard};
use strongroom_format::SegmentId;
use strongroom_metadata::InodeId;

/// What is to be done.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) drain: BTreeSet<InodeId>,
    pub(crate) drain_all: bool,
    pub(crate) purge: BTreeSet<InodeId>,
    /// What those without a name had stored.
    pub(crate) purge_bytes: u64,
    pub(crate) defragment: BTreeSet<(InodeId, u64)>,
    pub(crate) finish: HashSet<SegmentId>,
    pub(crate) settle: bool,
    pub(crate) commit: bool,
    /// There is a first change since everything was durable.
    changed: bool,
    stop: bool,
}

impl Notes {
    fn is_empty(&self) -> bool {
        self.drain.is_empty()
            && !self.drain_all
            && self.purge.is_empty()
            && !self.settle
            && !self.commit
            && !self.changed
    }
}

/// Notes of work to do.
#[derive(Debug, Default)]
pub(crate) struct WorkQueue {
    notes: Mutex<Notes>,
    wake: Condvar,
    /// What nodes without a name had stored whose purge was noted and has not ended.
    purge_bytes: AtomicU64,
    /// Held by the thread that does what was noted, so that others can wait for it.
    doing: Mutex<()>,
    /// Everything is durable, and the next change is to wake the thread that waits.
    is_clean: AtomicBool,
}

impl WorkQueue {
    fn note(&self, change: impl FnOnce(&mut Notes)) {
        let mut notes = self.notes.lock();
        change(&mut notes);
        if !notes.is_empty() || notes.stop {
            self.wake.notify_one();
        }
    }

    /// This node has enough dirty content for a drain.
    pub(crate) fn drain_soon(&self, inode: InodeId) {
        self.note(|notes| {
            notes.drain.insert(inode);
        });
    }

    /// Writers wait for room.
    pub(crate) fn drain_everything(&self) {
        self.note(|notes| notes.drain_all = true);
    }

    /// This node has neither names nor references, and so much stored; or it has holes, and 0.
    pub(crate) fn purge(&self, inode: InodeId, bytes: u64) {
        self.note(|notes| {
            if notes.purge.insert(inode) {
                notes.purge_bytes = notes.purge_bytes.saturating_add(bytes);
                self.purge_bytes.fetch_add(bytes, Ordering::AcqRel);
            }
        });
    }

    /// What was removed and counts as living until it is purged.
    pub(crate) fn purge_bytes(&self) -> u64 {
        self.purge_bytes.load(Ordering::Acquire)
    }

    /// The purges of notes with so many `purge_bytes` have ended.
    pub(crate) fn purged(&self, bytes: u64) {
        self.purge_bytes.fetch_sub(bytes, Ordering::AcqRel);
    }

    /// This cell of a file has too many fragments.
    pub(crate) fn defragment(&self, inode: InodeId, cell: u64) {
        self.note(|notes| {
            notes.defragment.insert((inode, cell));
        });
    }

    /// The transaction has grown to its bound.
    pub(crate) fn commit_soon(&self) {
        self.note(|notes| notes.commit = true);
    }

    /// The database carries many blocks.
    pub(crate) fn settle(&self) {
        self.note(|notes| notes.settle = true);
    }

    /// This segment takes no more batches.
    pub(crate) fn finish_segment(&self, segment: SegmentId) {
        self.note(|notes| {
            notes.finish.insert(segment);
        });
    }

    /// Whether the next change wakes the thread that waits. To be sure that none is missed, look for changes after this call.
    pub(crate) fn wake_by_change(&self, wakes: bool) {
        self.is_clean.store(wakes, Ordering::SeqCst);
    }

    /// Something has changed.
    pub(crate) fn changed(&self) {
        if self.is_clean.load(Ordering::SeqCst) && self.is_clean.swap(false, Ordering::SeqCst) {
            self.note(|notes| notes.changed = true);
        }
    }

    /// Whether something is noted that nobody has begun.
    pub(crate) fn is_noted(&self) -> bool {
        !self.notes.lock().is_empty()
    }

    /// Waits until there is something to do, or it is `due`; gives whether to go on.
    pub(crate) fn wait(&self, due: Instant) -> bool {
        let mut notes = self.notes.lock();
        if notes.is_empty() && !notes.stop {
            self.wake.wait_until(&mut notes, due);
        }
        !notes.stop
    }

    /// Waits for the thread that does what was noted, and keeps others from it.
    pub(crate) fn doing(&self) -> MutexGuard<'_, ()> {
        self.doing.lock()
    }

    /// All notes. Call with `doing` held.
    pub(crate) fn take(&self) -> Notes {
        let mut notes = self.notes.lock();
        let stop = notes.stop;
        std::mem::replace(
            &mut *notes,
            Notes {
                stop,
                ..Notes::default()
            },
        )
    }
}

/// The background thread of one open file system. Ends and is waited for when the last handle goes: nothing
/// of the store is in use afterwards.
#[derive(Debug)]
pub(crate) struct Worker {
    work: Arc<WorkQueue>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Worker {
    /// `thread`: does what is in `work` until that says stop; none if somebody else does.
    pub(crate) fn new(work: Arc<WorkQueue>, thread: Option<JoinHandle<()>>) -> Self {
        Self {
            work,
            thread: Mutex::new(thread),
        }
    }

    /// Ends the thread and waits for it. Once is enough; more do nothing.
    pub(crate) fn stop(&self) {
        self.work.note(|notes| notes.stop = true);
        let thread = self.thread.lock().take();
        if let Some(thread) =
            thread.filter(|thread| thread.thread().id() != std::thread::current().id())
        {
            // A panic there has been reported by the panic hook; what was not durable is still pending.
            let _ = thread.join();
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop();
    }
}
