//! Waits for another process: in growing pauses, up to a time limit.

use std::time::{Duration, Instant};

use crate::limits::{OWNER_WAIT_MS, RETRY_PAUSE_MS};

/// How long an opener waits for an owner that holds the lock but does not answer.
pub(crate) const OWNER_WAIT: Duration = Duration::from_millis(OWNER_WAIT_MS);

/// Pauses that grow, up to a time limit.
pub(crate) struct Retry {
    deadline: Instant,
    pause: u64,
}

impl Retry {
    pub(crate) fn new(patience: Duration) -> Self {
        Self {
            deadline: Instant::now() + patience,
            pause: RETRY_PAUSE_MS.0,
        }
    }

    /// Whether the pauses are as long as they get: what answers within moments has done so.
    pub(crate) fn is_slow(&self) -> bool {
        self.pause >= RETRY_PAUSE_MS.1
    }

    /// Gives false when the time is up.
    pub(crate) fn wait(&mut self) -> bool {
        if Instant::now() >= self.deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(self.pause));
        self.pause = (self.pause * 2).min(RETRY_PAUSE_MS.1);
        true
    }
}
