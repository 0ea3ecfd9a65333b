//! Caches stretches of segment files around recently read small blocks. A program that reads one small file often reads
//! its neighbours next, and fetching a stretch costs hardly more than fetching one block.
//!
//! Takes   the places of small reads, the stretches that were fetched, and notes of changes
//! Gives   the stretches that hold a wanted span, or the advice to fetch them
//! Never   gives bytes from before a change of that part of the file, or keeps more than `RUNS_MAX` runs of
//!         `STRETCHES_AHEAD` stretches
//!
//! A single read fetches only its own bytes. A whole stretch is fetched only if another small read was in it before, or if
//! the stretch before it is cached. Reads at random places of a large file hardly ever meet one of these two conditions.
//!
//! Threads that miss the same stretch at once wait for one fetch of it. If reads continue from one stretch to the next,
//! a run of several stretches is fetched at once. The thread that enters the second half of a run fetches the next run,
//! while the other threads use the cached bytes.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use strongroom_format::SegmentId;

use crate::buffer::Buffer;
use crate::limits::{RECENT_READS_MAX, RUNS_MAX, STRETCH_BYTES, STRETCHES_AHEAD};

/// Stretches of a file side by side. Each has `STRETCH_BYTES`, from a multiple of them on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) segment: SegmentId,
    first: u64,
    count: u64,
}

/// What to do about a small read.
pub(crate) enum Advice<'a> {
    /// The bytes are here. If there is something to fetch too, reads are about to want it.
    Here(Found, Option<Fetch<'a>>),
    /// Fetch the run they are in.
    Fetch(Fetch<'a>),
    /// Fetch the bytes alone.
    Alone,
}

/// A run in memory. The buffer begins where the run does, and ends sooner if the file does.
#[derive(Clone)]
pub(crate) struct Found {
    pub(crate) run: Run,
    pub(crate) buffer: Arc<Buffer>,
}

/// The duty to fetch a run; threads that want it too wait until this is kept or dropped.
pub(crate) struct Fetch<'a> {
    nearby: &'a Nearby,
    pub(crate) run: Run,
    is_ended: bool,
}

#[derive(Default)]
pub(crate) struct Nearby {
    state: Mutex<State>,
    fetched: Condvar,
}

#[derive(Default)]
struct State {
    /// The one used last is the last.
    kept: VecDeque<Found>,
    /// What some thread fetches now.
    fetching: Vec<Fetching>,
    /// What could not be fetched last: a bad sector is not asked for again with each of its neighbours.
    failed: Option<Run>,
    /// Where small reads went that found nothing here, newest last.
    recent: VecDeque<Run>,
}

struct Fetching {
    run: Run,
    /// Its file changed there since the fetch began: what it gives is not kept.
    is_stale: bool,
}

impl Run {
    /// Where it begins in the file.
    pub(crate) fn start(self) -> u64 {
        self.first * STRETCH_BYTES
    }

    /// Where it ends, if the file does not end before.
    pub(crate) fn end(self) -> u64 {
        (self.first + self.count) * STRETCH_BYTES
    }

    fn holds(self, segment: SegmentId, start: u64, end: u64) -> bool {
        self.segment == segment && self.start() <= start && end <= self.end()
    }

    fn overlaps(self, other: Self) -> bool {
        self.segment == other.segment && self.start() < other.end() && other.start() < self.end()
    }

    /// The run of full length that begins with the stretch `first`.
    fn ahead(self, first: u64) -> Self {
        Self {
            first,
            count: STRETCHES_AHEAD,
            ..self
        }
    }
}

impl Nearby {
    /// Hears of a small read from `start` to `end`. Waits while another thread fetches what it needs.
    pub(crate) fn look(&self, segment: SegmentId, start: u64, end: u64) -> Advice<'_> {
        let stretch = Run {
            segment,
            first: start / STRETCH_BYTES,
            count: 1,
        };
        let holds = |run: Run| run.holds(segment, start, end);
        let mut state = self.state.lock();
        while state.fetching.iter().any(|fetching| holds(fetching.run)) {
            self.fetched.wait(&mut state);
        }
        if let Some(found) = state.use_kept(holds) {
            // What was fetched when its file was shorter ends sooner.
            if found.run.start() + found.buffer.len() as u64 >= end {
                let ahead = state.wanted_behind(&found, stretch);
                return Advice::Here(found, ahead.map(|run| self.begin(&mut state, run)));
            }
            return Advice::Alone;
        }
        let run = if state.is_kept_before(stretch) {
            stretch.ahead(stretch.first)
        } else {
            stretch
        };
        let is_worth_it = run != stretch || state.recent.contains(&stretch);
        if is_worth_it && holds(run) && state.failed != Some(run) {
            return Advice::Fetch(self.begin(&mut state, run));
        }
        state.recent.push_back(stretch);
        if state.recent.len() > RECENT_READS_MAX {
            state.recent.pop_front();
        }
        Advice::Alone
    }

    fn begin(&self, state: &mut State, run: Run) -> Fetch<'_> {
        state.fetching.push(Fetching {
            run,
            is_stale: false,
        });
        Fetch {
            nearby: self,
            run,
            is_ended: false,
        }
    }

    /// Call when `segment` was written to, from `start` on, or removed (from 0 on), before anybody hears of it.
    pub(crate) fn changed(&self, segment: SegmentId, start: u64) {
        let touches = |run: Run| run.segment == segment && run.end() > start;
        let mut state = self.state.lock();
        state.kept.retain(|found| !touches(found.run));
        state.failed.take_if(|run| touches(*run));
        for fetching in &mut state.fetching {
            fetching.is_stale |= touches(fetching.run);
        }
    }
}

impl Fetch<'_> {
    /// Keeps what was fetched, unless its file has changed there since.
    pub(crate) fn keep(mut self, buffer: &Arc<Buffer>) -> Found {
        self.is_ended = true;
        let found = Found {
            run: self.run,
            buffer: Arc::clone(buffer),
        };
        let mut state = self.nearby.state.lock();
        if !state.end_fetch(self.run) {
            state.kept.push_back(found.clone());
            if state.kept.len() > RUNS_MAX {
                state.kept.pop_front();
            }
        }
        found
    }
}

impl Drop for Fetch<'_> {
    fn drop(&mut self) {
        if !self.is_ended {
            let mut state = self.nearby.state.lock();
            state.end_fetch(self.run);
            state.failed = Some(self.run);
        }
        self.nearby.fetched.notify_all();
    }
}

impl State {
    /// The kept run that `holds` what is wanted, which becomes the one used last.
    fn use_kept(&mut self, holds: impl Fn(Run) -> bool) -> Option<Found> {
        let index = self.kept.iter().position(|found| holds(found.run))?;
        let found = self.kept.remove(index)?;
        self.kept.push_back(found.clone());
        Some(found)
    }

    fn is_kept_before(&self, stretch: Run) -> bool {
        self.kept
            .iter()
            .any(|found| found.run.segment == stretch.segment && found.run.end() == stretch.start())
    }

    /// The run behind `found`, if reads go on (`found` is a run of full length, and `stretch` in its second half) and nobody
    /// has it or fetches it.
    fn wanted_behind(&self, found: &Found, stretch: Run) -> Option<Run> {
        let run = found.run.ahead(found.run.first + found.run.count);
        let goes_on = found.run.count == STRETCHES_AHEAD
            && stretch.first >= found.run.first + STRETCHES_AHEAD / 2
            && found.buffer.len() as u64 == found.run.end() - found.run.start();
        let mut known = self.fetching.iter().map(|fetching| fetching.run);
        let mut kept = self.kept.iter().map(|found| found.run);
        let is_known = self.failed == Some(run)
            || known.any(|other| other.overlaps(run))
            || kept.any(|other| other.overlaps(run));
        (goes_on && !is_known).then_some(run)
    }

    /// Gives whether the file changed there meanwhile.
    fn end_fetch(&mut self, run: Run) -> bool {
        let index = self.fetching.iter().position(|other| other.run == run);
        index.is_some_and(|index| self.fetching.swap_remove(index).is_stale)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;
    use crate::buffer::Pool;

    const SEGMENT: SegmentId = SegmentId([7; 16]);
    const FILE_BYTES: u64 = 5_000;

    fn look(nearby: &Nearby, file: u64) -> Advice<'_> {
        nearby.look(SEGMENT, file * FILE_BYTES, (file + 1) * FILE_BYTES)
    }

    fn keep(fetch: Fetch<'_>) -> Found {
        let bytes = (fetch.run.end() - fetch.run.start()) as usize;
        fetch.keep(&Arc::new(Arc::<Pool>::default().take(bytes)))
    }

    /// Reads small files side by side, and gives the first stretch and the count of stretches of each fetch.
    fn read_on(nearby: &Nearby, files: std::ops::Range<u64>) -> Vec<(u64, u64)> {
        let mut runs = Vec::new();
        for file in files {
            if let Advice::Fetch(fetch) | Advice::Here(_, Some(fetch)) = look(nearby, file) {
                runs.push((fetch.run.first, fetch.run.count));
                keep(fetch);
            }
        }
        runs
    }

    #[test]
    fn reads_that_go_on_fetch_runs_before_they_are_wanted() {
        let nearby = Nearby::default();
        assert_eq!(
            read_on(&nearby, 0..400),
            [(0, 1), (1, 4), (5, 4), (9, 4), (13, 4), (17, 4)],
            "2 MB: a stretch, then runs, each from the second half of the one before"
        );
    }

    #[test]
    fn what_is_fetched_by_one_thread_is_waited_for_by_the_others() {
        for _ in 0..100 {
            let nearby = Nearby::default();
            assert!(matches!(look(&nearby, 0), Advice::Alone));
            let barrier = Barrier::new(4);
            let fetches = std::thread::scope(|scope| {
                let reader = |file| {
                    let (nearby, barrier) = (&nearby, &barrier);
                    scope.spawn(move || {
                        barrier.wait();
                        match look(nearby, file) {
                            Advice::Fetch(fetch) => {
                                keep(fetch);
                                1
                            }
                            Advice::Here(..) => 0,
                            Advice::Alone => panic!("a read that follows another one is not alone"),
                        }
                    })
                };
                let readers: Vec<_> = (1..5).map(reader).collect();
                let fetched = readers
                    .into_iter()
                    .map(|reader| reader.join().expect("read"));
                fetched.sum::<u32>()
            });
            assert_eq!(fetches, 1);
        }
    }

    #[test]
    fn what_could_not_be_fetched_is_not_tried_again_until_its_file_changes() {
        let nearby = Nearby::default();
        assert!(matches!(look(&nearby, 0), Advice::Alone));
        assert!(matches!(look(&nearby, 1), Advice::Fetch(_)));
        for file in 2..20 {
            assert!(matches!(look(&nearby, file), Advice::Alone), "{file}");
        }
        nearby.changed(SegmentId([8; 16]), 0);
        assert!(matches!(look(&nearby, 20), Advice::Alone));
        nearby.changed(SEGMENT, 1000);
        assert!(matches!(look(&nearby, 21), Advice::Fetch(_)));
    }

    #[test]
    fn what_was_fetched_while_its_file_changed_is_not_kept() {
        for (segment, start, is_kept) in [
            (SEGMENT, 0, false),
            (SEGMENT, STRETCH_BYTES - 1, false),
            (SEGMENT, STRETCH_BYTES, true),
            (SegmentId([8; 16]), 0, true),
        ] {
            let nearby = Nearby::default();
            assert!(matches!(look(&nearby, 0), Advice::Alone));
            let Advice::Fetch(fetch) = look(&nearby, 1) else {
                panic!("the second read goes near the first");
            };
            nearby.changed(segment, start);
            keep(fetch);
            let here = matches!(look(&nearby, 2), Advice::Here(..));
            assert_eq!(here, is_kept, "{segment:?} from {start} on");
        }
    }
}
