//! Limits how many uploads, or downloads, run at a time: fewer after one breaks off, and later more again.
//!
//! Takes   a transfer that is about to begin; later, how the line carried it
//! Gives   a lane for each attempt; how long to wait until the next one
//! Never   looks at a clock to decide how many transfers run, or holds a lane between two attempts
//!
//! Six transfers share a line. On a slow line each may be below the rate that a server requires. A line that drops often cuts all of them
//! before one is whole. Then none ever arrives, but one at a time would. A line may be slow in one direction only, so each direction has its
//! own lanes. A reader of a file waits for a range of an object, so a range takes a lane only after something broke off. It does take one
//! then, because on the slowest line even six short ranges are too slow.
//!
//! Invariants
//!  (1) As many transfers begin at a time as lanes are open: `TRANSFERS` at most, one at least. Ranges need no lane while all are open.
//!  (2) When a transfer breaks off, half of the lanes stay open that were open when it began. So transfers that break off together
//!      count once. When `WIDEN_AFTER` have come through since then, or since the last lane opened, one more opens.
//!  (3) Transfers that wait for a lane get one in the order in which they came.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use reqwest::StatusCode;
use tokio::sync::Semaphore;

use crate::limits::{RETRIES, RETRY, RETRY_FIRST, TRANSFERS};
use crate::upload::Sent;

/// More than wait at a time, so that each of them comes through before more than one lane is tried again.
const WIDEN_AFTER: usize = 8;

const _: () = assert!(WIDEN_AFTER > TRANSFERS);

/// How often a request is made again at most, whatever else comes through. On a line that carries one transfer in five, one of 1,000 needs
/// more; what breaks off each time, while others never do, would be asked for without end.
const RETRIES_IN_ALL: usize = 4 * RETRIES;

/// How much of an object a transfer carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    Object,
    Range,
}

impl Extent {
    pub(crate) const fn of<T>(range: Option<&T>) -> Self {
        match range {
            Some(_) => Self::Range,
            None => Self::Object,
        }
    }
}

/// How the line carried a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carried {
    /// It came through.
    Whole,
    /// It began to move, and then the line ended, rested, or was too slow.
    Part,
    /// It did not begin, or the answer is about something else than the line.
    Unknown,
}

impl Carried {
    /// An upload that a server answered with that status, or not at all.
    pub(crate) fn of(status: Option<StatusCode>, sent: &Sent) -> Self {
        match status {
            Some(status) if status.is_success() => Self::Whole,
            None | Some(StatusCode::REQUEST_TIMEOUT) if sent.has_begun() => Self::Part,
            _ => Self::Unknown,
        }
    }

    /// A download whose answer had begun, and of which that came.
    pub(crate) const fn of_came<T, E>(came: &Result<T, E>) -> Self {
        match came {
            Ok(_) => Self::Whole,
            Err(_) => Self::Part,
        }
    }
}

/// What the transfers of a remote in one direction did until now.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    /// When one ended that had begun to move.
    moved: Option<Instant>,
    /// How many came through.
    whole: u64,
}

/// The transfers of one remote in one direction.
#[derive(Debug)]
pub(crate) struct Lanes {
    free: Semaphore,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// How many may go at a time.
    open: usize,
    /// Lanes that are taken or free; more than are open until those that are too many come back.
    there: usize,
    in_a_row: usize,
    progress: Progress,
}

/// Lets one transfer go, once.
#[derive(Debug)]
pub(crate) struct Lane<'l> {
    lanes: &'l Lanes,
    /// How many were open when it was taken.
    beside: usize,
    /// Whether it is one of those that are there; else it goes beside them.
    is_one: bool,
}

impl Default for Lanes {
    fn default() -> Self {
        Self {
            free: Semaphore::new(TRANSFERS),
            state: Mutex::new(State {
                open: TRANSFERS,
                there: TRANSFERS,
                in_a_row: 0,
                progress: Progress::default(),
            }),
        }
    }
}

impl Lanes {
    /// A lane, as soon as one is free.                                                                      (1) (3)
    pub(crate) async fn take(&self, extent: Extent) -> Lane<'_> {
        let is_one = extent == Extent::Object || self.state().open < TRANSFERS;
        // Nobody closes the semaphore.
        if is_one && let Ok(free) = self.free.acquire().await {
            free.forget();
        }
        Lane {
            lanes: self,
            beside: self.state().open,
            is_one,
        }
    }

    pub(crate) fn progress(&self) -> Progress {
        self.state().progress
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Whatever panics does not do so in the middle of a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lane<'_> {
    /// Gives it back, after the line has carried the transfer so.                                                (2)
    pub(crate) fn end(self, carried: Carried) {
        let mut state = self.lanes.state();
        if carried != Carried::Unknown {
            state.progress.moved = Some(Instant::now());
        }
        match carried {
            Carried::Whole => {
                state.progress.whole += 1;
                state.in_a_row += 1;
                if state.in_a_row >= WIDEN_AFTER && state.open < TRANSFERS {
                    state.open += 1;
                    state.in_a_row = 0;
                    if state.there < state.open {
                        state.there += 1;
                        self.lanes.free.add_permits(1);
                    }
                }
            }
            Carried::Part => {
                state.in_a_row = 0;
                state.open = state.open.min((self.beside / 2).max(1));
                let too_many = state.there.saturating_sub(state.open);
                state.there -= self.lanes.free.forget_permits(too_many);
            }
            Carried::Unknown => {}
        }
        // The lane itself takes it when it goes.
        drop(state);
    }
}

impl Drop for Lane<'_> {
    fn drop(&mut self) {
        if !self.is_one {
            return;
        }
        let mut state = self.lanes.state();
        match state.there > state.open {
            true => state.there -= 1,
            false => self.lanes.free.add_permits(1),
        }
    }
}

/// How often, and for how long, a request is made again that fails for a passing reason.
///
/// `RETRY` counts from its beginning, or from when a transfer in the same direction, this one or another, ended that had begun to move: one
/// may take longer than that. `RETRIES` count from when one came through: while others arrive, this one will, too. `RETRIES_IN_ALL` count from
/// its beginning. A request that carries no object counts with the downloads.
#[derive(Debug)]
pub(crate) struct Patience {
    since: Instant,
    whole: u64,
    left: usize,
    left_in_all: usize,
    pause: Duration,
}

impl Patience {
    /// Of a request that begins at `now`.
    pub(crate) fn new(now: Instant, progress: Progress) -> Self {
        Self {
            since: now,
            whole: progress.whole,
            left: RETRIES,
            left_in_all: RETRIES_IN_ALL,
            pause: RETRY_FIRST,
        }
    }

    /// How long to wait after it failed at `now`, at least `least`; `None` if that was often or long enough.
    pub(crate) fn pause(
        &mut self,
        now: Instant,
        progress: Progress,
        least: Duration,
    ) -> Option<Duration> {
        if progress.whole != self.whole {
            (self.whole, self.left, self.pause) = (progress.whole, RETRIES, RETRY_FIRST);
        }
        self.since = progress
            .moved
            .map_or(self.since, |moved| moved.max(self.since));
        self.left = self.left.checked_sub(1)?;
        self.left_in_all = self.left_in_all.checked_sub(1)?;
        let pause = self.pause.max(least);
        self.pause *= 2;
        let waited = now.saturating_duration_since(self.since);
        (waited.saturating_add(pause) <= RETRY).then_some(pause)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;
    use futures_util::FutureExt as _;

    /// All lanes that can be taken now.
    fn take_all(lanes: &Lanes) -> Vec<Lane<'_>> {
        std::iter::from_fn(|| lanes.take(Extent::Object).now_or_never()).collect()
    }

    /// Lets `count` uploads come through, one after the other.
    fn carry(lanes: &Lanes, count: usize) {
        for _ in 0..count {
            lanes
                .take(Extent::Object)
                .now_or_never()
                .unwrap()
                .end(Carried::Whole);
        }
    }

    #[test]
    fn uploads_that_break_off_halve_what_goes_at_a_time_and_those_that_arrive_add_one() {
        let lanes = Lanes::default();
        for expected in [6, 3, 1, 1] {
            let taken = take_all(&lanes);
            assert_eq!(taken.len(), expected);
            // Together they count once.
            for lane in taken {
                lane.end(Carried::Part);
            }
        }
        carry(&lanes, WIDEN_AFTER - 1);
        assert_eq!(take_all(&lanes).len(), 1);
        for expected in 2..=TRANSFERS {
            carry(&lanes, 1);
            assert_eq!(take_all(&lanes).len(), expected);
            carry(&lanes, WIDEN_AFTER - 1);
        }
        carry(&lanes, 5 * WIDEN_AFTER);
        assert_eq!(take_all(&lanes).len(), TRANSFERS);
    }

    #[test]
    fn an_upload_that_breaks_off_begins_the_count_again() {
        let lanes = Lanes::default();
        lanes
            .take(Extent::Object)
            .now_or_never()
            .unwrap()
            .end(Carried::Part);
        carry(&lanes, WIDEN_AFTER - 1);
        lanes
            .take(Extent::Object)
            .now_or_never()
            .unwrap()
            .end(Carried::Part);
        assert_eq!(take_all(&lanes).len(), 1);
        carry(&lanes, WIDEN_AFTER - 1);
        assert_eq!(take_all(&lanes).len(), 1);
    }

    /// Goal: lanes that are closed while uploads are in them go when these end, and no earlier lane comes back. Method: two of six break off,
    /// then the others end in each way, or are given up.
    #[test]
    fn what_is_under_way_when_lanes_close_ends_in_them() {
        for ending in [Some(Carried::Whole), Some(Carried::Unknown), None] {
            let lanes = Lanes::default();
            let mut taken = take_all(&lanes);
            taken.pop().unwrap().end(Carried::Part);
            taken.pop().unwrap().end(Carried::Part);
            assert_eq!(
                take_all(&lanes).len(),
                0,
                "four are under way, and three may be"
            );
            for lane in taken {
                match ending {
                    Some(ending) => lane.end(ending),
                    None => drop(lane),
                }
            }
            assert_eq!(take_all(&lanes).len(), 3, "{ending:?}");
        }
    }

    #[test]
    fn a_range_goes_beside_objects_until_something_breaks_off() {
        let lanes = Lanes::default();
        let range = || lanes.take(Extent::Range).now_or_never();
        let objects = take_all(&lanes);
        let beside: Vec<Lane<'_>> = (0..TRANSFERS).map(|_| range().unwrap()).collect();
        drop(objects);
        drop(beside);
        let objects = take_all(&lanes);
        assert_eq!(objects.len(), TRANSFERS, "ranges give no lane back");
        // It counts as what goes in a lane.
        range().unwrap().end(Carried::Part);
        assert!(range().is_none(), "six are under way, and three may be");
        drop(objects);
        let ranges: Vec<Lane<'_>> = std::iter::from_fn(range).collect();
        assert_eq!(ranges.len(), 3);
    }

    /// Failed before: whatever broke off later than a minute after its beginning was not sent again.
    #[test]
    fn patience_counts_from_when_something_was_sent_last() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let moved = |seconds| Progress {
            moved: Some(at(seconds)),
            whole: 0,
        };
        let none = Progress::default();
        let new = || Patience::new(begun, none);
        assert_eq!(new().pause(at(61), none, Duration::ZERO), None);
        let mut patience = new();
        assert_eq!(
            patience.pause(at(7200), moved(7200), Duration::ZERO),
            Some(RETRY_FIRST)
        );
        let second = patience.pause(at(7259), moved(7200), Duration::ZERO);
        assert_eq!(second, Some(RETRY_FIRST * 2));
        assert_eq!(patience.pause(at(7261), moved(7200), Duration::ZERO), None);
        // A server that wants to be left alone for too long.
        let least = Duration::from_secs(59);
        assert_eq!(new().pause(at(1), none, least), Some(least));
        assert_eq!(new().pause(at(2), none, least), None);
        assert_eq!(new().pause(at(2), none, Duration::MAX), None);
    }

    #[test]
    fn patience_ends_after_so_many_failures_unless_others_come_through() {
        let begun = Instant::now();
        let progress = |whole| Progress {
            moved: Some(begun),
            whole,
        };
        let mut patience = Patience::new(begun, progress(7));
        let mut ask = |whole| patience.pause(begun, progress(whole), Duration::ZERO);
        for whole in [7, 8] {
            for number in 0..RETRIES {
                let expected = RETRY_FIRST * (1 << number);
                assert_eq!(ask(whole), Some(expected), "{number}");
            }
        }
        assert_eq!(ask(8), None);
        assert_eq!(ask(9), Some(RETRY_FIRST));
    }

    /// Failed before: it was made again as long as anything else came through, as reads of a mounted vault do all the time.
    #[test]
    fn patience_ends_with_what_breaks_off_each_time_while_others_come_through() {
        let begun = Instant::now();
        let progress = |whole| Progress {
            moved: Some(begun),
            whole,
        };
        let mut patience = Patience::new(begun, progress(0));
        let mut ask = |whole| patience.pause(begun, progress(whole), Duration::ZERO);
        for whole in 1..=RETRIES_IN_ALL as u64 {
            assert_eq!(ask(whole), Some(RETRY_FIRST), "{whole}");
        }
        assert_eq!(ask(u64::MAX), None);
    }
}
