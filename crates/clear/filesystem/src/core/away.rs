//! Coordinates fetches of segments that are away, so that each is fetched once and all who need it wait.
//!
//! Takes   ids of segments that are needed
//! Gives   for each segment one thread that fetches it; the others wait and get its result
//! Never   talks to a remote, or holds a lock during a fetch
//!
//! Invariants
//!  (1) Every waiting thread gets a result, even if the fetching thread panics.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex};
use strongroom_format::SegmentId;

use crate::core::options::{NotFetched, SegmentSource};

/// What came of a fetch: whether the segment is here, or why not.
pub(crate) type Came = Result<bool, NotFetched>;

/// What is known of segments that are away.
#[derive(Default)]
pub(crate) struct Away {
    /// Who reaches remotes; none where no segment can be away.
    pub(crate) source: Option<Arc<dyn SegmentSource>>,
    /// Segments that somebody fetches now.
    fetches: Mutex<HashMap<SegmentId, Arc<Fetch>>>,
    /// Segments that came back.
    came: AtomicU64,
}

/// A fetch that is under way.
#[derive(Default)]
pub(crate) struct Fetch {
    ended: Mutex<Option<Came>>,
    told: Condvar,
}

/// What somebody who needs a segment has to do.
pub(crate) enum Turn<'a> {
    /// Fetch it, and say what came of it.
    Fetch(Duty<'a>),
    /// Wait for who does.
    Wait(Arc<Fetch>),
}

/// The duty to fetch a segment; the others hear of its end when it is dropped. (1)
pub(crate) struct Duty<'a> {
    away: &'a Away,
    id: SegmentId,
    fetch: Arc<Fetch>,
}

impl Away {
    pub(crate) fn new(source: Option<Arc<dyn SegmentSource>>) -> Self {
        Self {
            source,
            ..Self::default()
        }
    }

    /// Whose turn it is to fetch `id`.
    pub(crate) fn turn(&self, id: SegmentId) -> Turn<'_> {
        let mut fetches = self.fetches.lock();
        if let Some(fetch) = fetches.get(&id) {
            return Turn::Wait(Arc::clone(fetch));
        }
        let fetch = Arc::<Fetch>::default();
        fetches.insert(id, Arc::clone(&fetch));
        let away = self;
        Turn::Fetch(Duty { away, id, fetch })
    }

    /// One more came back.
    pub(crate) fn note_came(&self) {
        self.came.fetch_add(1, Ordering::Relaxed);
    }

    /// How many segments came back.
    pub(crate) fn came(&self) -> u64 {
        self.came.load(Ordering::Relaxed)
    }
}

impl Fetch {
    /// What came of it, once it has ended.
    pub(crate) fn wait(&self) -> Came {
        let mut ended = self.ended.lock();
        loop {
            if let Some(came) = &*ended {
                return came.clone();
            }
            self.told.wait(&mut ended);
        }
    }
}

impl Duty<'_> {
    /// Says what came of it.
    pub(crate) fn end(self, came: Came) {
        *self.fetch.ended.lock() = Some(came);
    }
}

impl Drop for Duty<'_> {
    fn drop(&mut self) {
        self.away.fetches.lock().remove(&self.id);
        let cut = || Err(NotFetched::Now("the fetch was interrupted".to_owned()));
        self.fetch.ended.lock().get_or_insert_with(cut);
        self.fetch.told.notify_all();
    }
}
