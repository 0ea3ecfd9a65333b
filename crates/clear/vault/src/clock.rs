//! The machine's clock.

use std::time::{SystemTime, UNIX_EPOCH};

use strongroom_filesystem::{Clock, Timestamp};

/// Seconds since 1970; 0 on a machine whose clock is before that.
pub(crate) fn now_s() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |elapsed| elapsed.as_secs())
}

/// The machine's clock.
pub(crate) struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let nanoseconds = match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_nanos()),
            Err(error) => i64::try_from(error.duration().as_nanos()).map(|before| -before),
        };
        // A clock beyond the year 2262 is wrong; the end of time is as good as any.
        Timestamp(nanoseconds.unwrap_or(i64::MAX))
    }
}
