//! Keeps as many event loops listening as there are simultaneous requests, and no more.
//!
//! Takes   the beginning and the end of each request, for each loop
//! Gives   loops that rest after a request until more of them are needed
//! Never   lets the last active loop rest, or any loop after the mount has ended
//!
//! The kernel gives each request to the loop that has listened longest. If a single program sends requests, several
//! loops would take turns. Each would be asleep at its turn, and its processor's caches would be cold. If many programs
//! send requests at once, too few loops leave them waiting. The number cannot be known beforehand, so loops try: a loop
//! rests if few of its last `WINDOW` requests came while another loop was busy. One of the resting loops checks after
//! `REST` whether it is needed, unless no requests come.
//!
//! Invariants
//!  (1) A loop rests only while another loop is active, that is, had a request and does not rest. When the thread of
//!      an active loop ends, all resting loops return to the kernel, which then ends them too.
//!  (2) While no requests come, no resting loop checks anything.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// After so many requests a loop thinks about a rest …
const WINDOW: u32 = 16;

/// … and takes it if it met another one at work at no more of them. Programs that ask at once keep all loops at work most of the
/// time; but the next request of a single one may also come before a loop is quite done with the last.
const MET_MAX: u32 = WINDOW / 4;

/// How long one rests before it looks whether it is wanted. Also the longest that a request waits where the only loop that listened
/// is held up.
const REST: Duration = Duration::from_millis(10);

/// Who listens.
pub(crate) struct Turns {
    state: Mutex<State>,
    wanted: Condvar,
    /// Loops that answer a request now.
    busy: AtomicUsize,
    /// Requests answered.
    answered: AtomicU64,
    /// The loop that looks has seen no request for a while, and waits for one. A copy of what `state` says.
    is_quiet: AtomicBool,
    rest: Duration,
}

#[derive(Default)]
struct State {
    /// Loops that have answered a request and do not rest.
    listening: usize,
    resting: usize,
    /// So many of those that rest are to come back.
    called: usize,
    /// One of those that rest looks; the others only wait to be called.
    looks: bool,
    is_quiet: bool,
    ended: bool,
}

/// One request on one loop. Dropping it may rest: what was answered must have left by then.
#[must_use = "a request lasts until its turn is dropped"]
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
    was_alone: bool,
}

thread_local! {
    /// What this loop belongs to, from its first request on.
    static LOOP: RefCell<Option<Listener>> = const { RefCell::new(None) };
    /// Its requests of this window, and at how many of them another loop was at work.
    static SEEN: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
}

/// Says that the thread of a loop ends, which it does when the kernel has ended the mount. (1)
struct Listener(Arc<Turns>);

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.state.lock().ended = true;
        self.0.wanted.notify_all();
    }
}

impl Turns {
    pub(crate) fn new() -> Arc<Self> {
        Self::with_rest(REST)
    }

    fn with_rest(rest: Duration) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            wanted: Condvar::new(),
            busy: AtomicUsize::new(0),
            answered: AtomicU64::new(0),
            is_quiet: AtomicBool::new(false),
            rest,
        })
    }

    /// A request begins on this thread, which is a loop.
    pub(crate) fn begin(self: &Arc<Self>) -> Turn<'_> {
        LOOP.with_borrow_mut(|listener| {
            if listener.is_none() {
                self.state.lock().listening += 1;
                *listener = Some(Listener(Arc::clone(self)));
            }
        });
        if self.is_quiet.load(Ordering::Relaxed) {
            let mut state = self.state.lock();
            state.is_quiet = false;
            self.is_quiet.store(false, Ordering::Relaxed);
            drop(state);
            self.wanted.notify_all();
        }
        Turn {
            turns: self,
            was_alone: self.busy.fetch_add(1, Ordering::Relaxed) == 0,
        }
    }

    /// Loops that have answered a request and do not rest.
    pub(crate) fn listening(&self) -> usize {
        self.state.lock().listening
    }

    /// Calls one of those that rest back; gives whether there was one.
    pub(crate) fn call(&self) -> bool {
        let mut state = self.state.lock();
        let may = state.resting > state.called;
        if may {
            state.called += 1;
            drop(state);
            // Whoever wakes first comes.
            self.wanted.notify_all();
        }
        may
    }

    /// Rests, unless nobody else would listen. (1)
    fn rest(&self) {
        let mut state = self.state.lock();
        if state.listening < 2 || state.ended {
            return;
        }
        state.listening -= 1;
        state.resting += 1;
        let mut is_looking = false;
        while !state.ended && state.called == 0 {
            if !is_looking && state.looks {
                self.wanted.wait(&mut state);
                continue;
            }
            (is_looking, state.looks) = (true, true);
            if state.is_quiet {
                self.wanted.wait(&mut state); // (2)
                continue;
            }
            let before = self.answered.load(Ordering::Relaxed);
            if !self.wanted.wait_for(&mut state, self.rest).timed_out() {
                continue;
            }
            if self.answered.load(Ordering::Relaxed) != before
                || self.busy.load(Ordering::Relaxed) > 0
            {
                break;
            }
            state.is_quiet = true;
            self.is_quiet.store(true, Ordering::Relaxed);
        }
        state.called = state.called.saturating_sub(1);
        state.resting -= 1;
        state.listening += 1;
        if is_looking {
            state.looks = false;
            drop(state);
            // Somebody else looks from now on.
            self.wanted.notify_all();
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.turns.busy.fetch_sub(1, Ordering::Relaxed);
        self.turns.answered.fetch_add(1, Ordering::Relaxed);
        let (count, met) = SEEN.get();
        let (count, met) = (count + 1, met + u32::from(!self.was_alone));
        if count < WINDOW {
            SEEN.set((count, met));
            return;
        }
        SEEN.set((0, 0));
        // A panic ends the mount, and with it this thread.
        if met <= MET_MAX && !std::thread::panicking() {
            self.turns.rest();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_channel::{Receiver, Sender, select, unbounded};

    /// No test waits for it.
    const NEVER: Duration = Duration::from_secs(100_000);

    /// A loop, which answers as many requests as it is told and says when it is behind the last.
    fn start(turns: &Arc<Turns>) -> (Sender<u32>, Receiver<u32>) {
        let (requests, asked) = unbounded();
        let (answers, answered) = unbounded();
        let turns = Arc::clone(turns);
        std::thread::spawn(move || {
            for count in asked {
                (0..count).for_each(|_| drop(turns.begin()));
                let _ = answers.send(count);
            }
        });
        (requests, answered)
    }

    fn until(turns: &Turns, is_so: impl Fn(&State) -> bool) {
        while !is_so(&turns.state.lock()) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn the_only_loop_never_rests() {
        let turns = Turns::with_rest(NEVER);
        let (requests, answered) = start(&turns);
        requests.send(10 * WINDOW).unwrap();
        assert_eq!(answered.recv(), Ok(10 * WINDOW));
        assert_eq!(turns.listening(), 1);
        assert!(!turns.call());
    }

    #[test]
    fn of_loops_that_never_meet_one_goes_on_and_a_call_brings_one_back() {
        let turns = Turns::with_rest(NEVER);
        let loops: Vec<_> = (0..3).map(|_| start(&turns)).collect();
        for (requests, answered) in &loops {
            requests.send(1).unwrap();
            assert_eq!(answered.recv(), Ok(1));
        }
        // One after the other, so that they never meet.
        for (resting, (requests, _)) in loops[1..].iter().enumerate() {
            requests.send(WINDOW - 1).unwrap();
            until(&turns, |state| state.resting == resting + 1);
        }
        assert_eq!(turns.listening(), 1);
        assert!(turns.call());
        until(&turns, |state| (state.listening, state.resting) == (2, 1));
        assert!(turns.call());
        assert!(!turns.call(), "nobody is left");
        for (_, answered) in &loops[1..] {
            assert_eq!(answered.recv(), Ok(WINDOW - 1));
        }
    }

    #[test]
    fn loops_that_meet_do_not_rest() {
        let turns = Turns::with_rest(NEVER);
        let (requests, answered) = start(&turns);
        let held = turns.begin();
        requests.send(10 * WINDOW).unwrap();
        assert_eq!(answered.recv(), Ok(10 * WINDOW));
        assert_eq!(turns.listening(), 2);
        drop(held);
    }

    #[test]
    fn the_end_of_a_loop_sends_all_that_rest_back() {
        let turns = Turns::with_rest(NEVER);
        let (first, second) = (start(&turns), start(&turns));
        first.0.send(1).unwrap();
        assert_eq!(first.1.recv(), Ok(1));
        second.0.send(WINDOW).unwrap();
        until(&turns, |state| state.resting == 1);
        drop(first);
        assert_eq!(second.1.recv(), Ok(WINDOW));
        second.0.send(WINDOW).unwrap();
        assert_eq!(second.1.recv(), Ok(WINDOW), "nobody rests any more");
    }

    #[test]
    fn one_that_rests_looks_again_while_requests_come_and_not_otherwise() {
        let turns = Turns::with_rest(Duration::from_millis(1));
        let (first, second) = (start(&turns), start(&turns));
        first.0.send(1).unwrap();
        assert_eq!(first.1.recv(), Ok(1));
        second.0.send(WINDOW).unwrap();
        until(&turns, |state| state.is_quiet);
        assert!(second.1.is_empty(), "it rests");
        // The first one may rest as soon as the second listens again, and answer no more.
        let back = loop {
            first.0.send(1).unwrap();
            select! {
                recv(first.1) -> answered => assert_eq!(answered, Ok(1)),
                recv(second.1) -> back => break back,
            }
        };
        assert_eq!(back, Ok(WINDOW));
    }
}
