//! A continuous sync that any thread of a program may end, even the thread of that sync.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, ThreadId};

use parking_lot::Mutex;
use strongroom::ContinuousSync;

/// What the thread of a sync shares with whoever ends it.
#[derive(Default)]
pub(crate) struct Hearing {
    is_ended: AtomicBool,
    thread: OnceLock<ThreadId>,
}

impl Hearing {
    /// Whether the program is to hear of an event in this thread, which is that of the sync.
    pub(crate) fn goes_on(&self) -> bool {
        self.thread.get_or_init(|| thread::current().id());
        !self.is_ended.load(Ordering::Acquire)
    }
}

/// A continuous sync until it is ended.
#[derive(Default)]
pub(crate) struct Syncing {
    running: Mutex<Option<ContinuousSync>>,
    pub(crate) hearing: Arc<Hearing>,
}

impl Syncing {
    /// Whether this thread is that of the sync.
    pub(crate) fn is_own_thread(&self) -> bool {
        self.hearing.thread.get() == Some(&thread::current().id())
    }

    /// Keeps what was started, unless its first event has ended it.
    pub(crate) fn begin(&self, sync: ContinuousSync) {
        let ended = {
            let mut running = self.running.lock();
            match self.hearing.is_ended.load(Ordering::Acquire) {
                true => Some(sync),
                false => running.replace(sync),
            }
        };
        // Outside of the lock: it waits for a thread that may want it.
        drop(ended);
    }

    /// Ends it at once. A second time does nothing.
    pub(crate) fn end(&self) {
        self.hearing.is_ended.store(true, Ordering::Release);
        let ended = self.running.lock().take();
        drop(ended);
    }

    /// Ends it when what waits has gone to the remotes that work.
    pub(crate) fn finish(&self) {
        let ending = self.running.lock().take();
        if let Some(sync) = ending {
            sync.finish();
        }
        self.hearing.is_ended.store(true, Ordering::Release);
    }
}
