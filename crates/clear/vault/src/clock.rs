//! The machine's clock.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use strongroom_filesystem::{Clock, Timestamp};

/// Seconds since 1970; 0 on a machine whose clock is before that.
pub(crate) fn now_s() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |elapsed| elapsed.as_secs())
}

/// A point in time by both clocks: the one stands still while the machine is suspended, the other is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) steady: Instant,
    pub(crate) system: SystemTime,
}

impl Moment {
    pub(crate) fn now() -> Self {
        Self {
            steady: Instant::now(),
            system: SystemTime::now(),
        }
    }

    /// Whether at most `time` has passed since by either clock; not if the system's went back.
    pub(crate) fn is_within(self, time: Duration) -> bool {
        self.is_within_at(Self::now(), time)
    }

    /// Whether more than `time` has passed since by either clock; what the system's says is nothing if it went back.
    pub(crate) fn has_passed(self, time: Duration) -> bool {
        let now = Self::now();
        let by_system = now.system.duration_since(self.system).unwrap_or_default();
        now.steady
            .saturating_duration_since(self.steady)
            .max(by_system)
            > time
    }

    fn is_within_at(self, now: Self, time: Duration) -> bool {
        let by_system = now.system.duration_since(self.system);
        now.steady.saturating_duration_since(self.steady) <= time
            && by_system.is_ok_and(|passed| passed <= time)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a time that is over by one clock is over: a machine that was suspended, and one whose clock was set. Method: moments whose
    /// clocks differ.
    #[test]
    fn a_time_is_over_if_either_clock_says_so_or_the_system_clock_went_back() {
        let minute = Duration::from_secs(60);
        let begun = Moment::now();
        let after = |steady: u64, system: u64| Moment {
            steady: begun.steady + Duration::from_secs(steady),
            system: begun.system + Duration::from_secs(system),
        };
        for (steady, system, is_within) in [
            (0, 0, true),
            (59, 59, true),
            (60, 60, true),
            (61, 61, false),
            // Suspended, or set forward.
            (1, 3600, false),
            // Set back a little.
            (61, 1, false),
        ] {
            let now = after(steady, system);
            assert_eq!(begun.is_within_at(now, minute), is_within, "{now:?}");
        }
        // Set back by more than has passed.
        let now = Moment {
            system: begun.system - Duration::from_secs(1),
            ..after(1, 0)
        };
        assert!(!begun.is_within_at(now, minute));
    }
}
