//! Waits at a remote until others publish something there, so that nobody has to poll it.
//!
//! Takes   a remote, and the number of the last known publication
//! Gives   whether something was published after it
//! Never   trusts what the remote says: it only decides when to look
//!
//! Invariants
//!  (1) Each number is reported once, so a remote that lies about it causes one needless look.
//!  (2) Two requests that brought no news are at least a second apart.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use strongroom_remote::{Remote, Waited};

use crate::{Error, Result};

/// The least time between two requests that came to nothing.                                                       (2)
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// After a failure it waits so long, then twice as long each time, at most for a minute.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Waits until this is dropped.
#[derive(Debug)]
pub(crate) struct Follower {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// What is not news any more.
    known: u64,
    /// Something was published behind that, and nobody has taken notice yet.
    is_news: bool,
    works: Works,
    is_ending: bool,
}

/// Whether one can rely on hearing of what is published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Works {
    /// Nothing is known of it yet, or the last request failed.
    #[default]
    Perhaps,
    /// The last request was answered.
    Yes,
    /// One cannot wait at this remote.
    Never,
}

impl Follower {
    /// Waits at `remote` from now on, for what is behind publication `known`.
    ///
    /// # Errors
    /// `Io` if the system has no thread left.
    pub(crate) fn start(remote: Arc<dyn Remote>, known: u64) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        shared.state.lock().known = known;
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("vault-follow".to_owned());
        let thread = thread.spawn(move || of_thread.follow(&*remote));
        Ok(Self {
            shared,
            thread: Some(thread.map_err(Error::io("starting a thread"))?),
        })
    }

    /// Whether something was published since this was asked last, or `known` grew.
    pub(crate) fn take_news(&self) -> bool {
        let mut state = self.shared.state.lock();
        self.shared.changed.notify_all();
        std::mem::take(&mut state.is_news)
    }

    /// Everything up to publication `last` is known.
    pub(crate) fn set_known(&self, last: u64) {
        let mut state = self.shared.state.lock();
        if last >= state.known {
            // A publication of our own is no news.
            (state.known, state.is_news) = (last, false);
            self.shared.changed.notify_all();
        }
    }

    /// Whether one hears of what is published.
    pub(crate) fn works(&self) -> Works {
        self.shared.state.lock().works
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.shared.state.lock().is_ending = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported by the panic hook.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn follow(&self, remote: &dyn Remote) {
        let mut failures = 0_u32;
        loop {
            let known = {
                let mut state = self.state.lock();
                // What was heard is looked at first: then it is known what is behind it.
                while state.is_news && !state.is_ending {
                    self.changed.wait(&mut state);
                }
                if state.is_ending {
                    return;
                }
                state.known
            };
            let begun = Instant::now();
            let waited = remote.wait_behind(known, &|| !self.state.lock().is_ending);
            let mut state = self.state.lock();
            let pause = match waited {
                Ok(Waited::Published(number)) => {
                    (failures, state.works) = (0, Works::Yes);
                    if number > state.known {
                        (state.known, state.is_news) = (number, true); // (1)
                    }
                    continue;
                }
                Ok(Waited::Nothing) => {
                    (failures, state.works) = (0, Works::Yes);
                    PAUSE_MIN.saturating_sub(begun.elapsed()) // (2)
                }
                Ok(Waited::Unable) => {
                    state.works = Works::Never;
                    return;
                }
                Err(_) => {
                    state.works = Works::Perhaps;
                    failures = failures.saturating_add(1);
                    Duration::from_secs(1 << failures.min(6)).min(PAUSE_MAX)
                }
            };
            let until = Instant::now() + pause;
            while !state.is_ending && Instant::now() < until {
                self.changed.wait_until(&mut state, until);
            }
        }
    }
}
