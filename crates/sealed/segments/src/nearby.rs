//! Remembers stretches of files around small blocks that were read: who reads one small file often reads its neighbours
//! next, and to fetch a stretch costs hardly more than to fetch one of them.
//!
//! Takes   where small reads go, the stretches that were fetched, and what changed
//! Gives   the stretch that holds a span, or the advice to fetch it
//! Never   gives bytes from before a change of that part of the file, or keeps more than `STRETCHES_MAX`
//!
//! A lone read fetches nothing but itself: a stretch is worth fetching once another small read went there, or when the
//! stretch before it is here. Reads at random places of a large file hardly ever meet either.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use strongroom_format::SegmentId;

use crate::buffer::Buffer;
use crate::limits::{RECENT_READS_MAX, STRETCH_BYTES, STRETCHES_MAX};

/// `STRETCH_BYTES` of a file, from a multiple of them on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) segment: SegmentId,
    number: u64,
}

/// What to do about a small read.
pub(crate) enum Advice {
    /// The bytes are here; the buffer begins where the stretch does.
    Here(Stretch, Arc<Buffer>),
    /// Fetch the stretch, and hand it over with this count of changes.
    Fetch(Stretch, u64),
    /// Fetch the bytes alone.
    Alone,
}

#[derive(Default)]
pub(crate) struct Nearby {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The one used last is the last.
    kept: VecDeque<(Stretch, Arc<Buffer>)>,
    /// Where small reads went that found nothing here, newest last.
    recent: VecDeque<Stretch>,
    /// Counts changes of files, so that what was fetched before one is not kept after it.
    changes: u64,
}

impl Stretch {
    /// Where it begins in the file.
    pub(crate) fn start(self) -> u64 {
        self.number * STRETCH_BYTES
    }

    /// The one that holds the bytes from `start` to `end`, if one does.
    fn around(segment: SegmentId, start: u64, end: u64) -> Option<Self> {
        let number = start / STRETCH_BYTES;
        (end <= (number + 1) * STRETCH_BYTES).then_some(Self { segment, number })
    }

    fn before(self) -> Option<Self> {
        let number = self.number.checked_sub(1)?;
        Some(Self { number, ..self })
    }
}

impl Nearby {
    /// Hears of a small read from `start` to `end`.
    pub(crate) fn look(&self, segment: SegmentId, start: u64, end: u64) -> Advice {
        let Some(stretch) = Stretch::around(segment, start, end) else {
            return Advice::Alone;
        };
        let mut state = self.state.lock();
        if let Some(index) = state.position(stretch)
            && let Some(kept) = state.kept.remove(index)
        {
            let buffer = Arc::clone(&kept.1);
            state.kept.push_back(kept);
            // A stretch that was fetched when its file was shorter ends sooner.
            return match stretch.start() + buffer.len() as u64 >= end {
                true => Advice::Here(stretch, buffer),
                false => Advice::Alone,
            };
        }
        let follows = stretch
            .before()
            .is_some_and(|before| state.position(before).is_some());
        if follows || state.recent.contains(&stretch) {
            return Advice::Fetch(stretch, state.changes);
        }
        state.recent.push_back(stretch);
        if state.recent.len() > RECENT_READS_MAX {
            state.recent.pop_front();
        }
        Advice::Alone
    }

    /// Keeps what was fetched on advice, unless a file has changed since.
    pub(crate) fn keep(&self, stretch: Stretch, buffer: &Arc<Buffer>, changes: u64) {
        let mut state = self.state.lock();
        if state.changes != changes || state.position(stretch).is_some() {
            return;
        }
        state.kept.push_back((stretch, Arc::clone(buffer)));
        if state.kept.len() > STRETCHES_MAX {
            state.kept.pop_front();
        }
    }

    /// Call when `segment` was written to, from `start` on, or removed (from 0 on), before anybody is told.
    pub(crate) fn changed(&self, segment: SegmentId, start: u64) {
        let mut state = self.state.lock();
        state.changes += 1;
        state.kept.retain(|(stretch, _)| {
            stretch.segment != segment || stretch.start() + STRETCH_BYTES <= start
        });
    }
}

impl State {
    fn position(&self, stretch: Stretch) -> Option<usize> {
        self.kept.iter().position(|(kept, _)| *kept == stretch)
    }
}
