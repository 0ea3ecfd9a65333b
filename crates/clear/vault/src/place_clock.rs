//! How old something at a remote is, by the clock of this machine and by that of the place.
//!
//! Takes   a remote, and the times that it says of its objects
//! Gives   whether a time is over by both clocks
//! Never   calls something old because one clock is wrong, or asks the place before this machine's clock says that a time is over
//! Spec    spec/12-inbox.md, [12.6.3] and [12.6.7]

use std::cell::OnceCell;
use std::time::Duration;

use strongroom_crypto::{Random, SystemRandom};
use strongroom_format::hex;
use strongroom_remote::{Error as RemoteError, ObjectName, Remote};

use crate::Result;
use crate::clock::now_s;

/// Both clocks, as they were when somebody began to look.
pub(crate) struct PlaceClock<'r> {
    remote: &'r dyn Remote,
    /// Whether this device removes nothing there.
    keeps: bool,
    here_s: u64,
    /// Once it was needed.
    there_s: OnceCell<u64>,
}

impl<'r> PlaceClock<'r> {
    /// Those of this machine and of that place. `keeps`: this device removes nothing there.
    pub(crate) fn of(remote: &'r dyn Remote, keeps: bool) -> Self {
        Self {
            remote,
            keeps,
            here_s: now_s(),
            there_s: OnceCell::new(),
        }
    }

    /// Whether more than `time` is over by both clocks since `since_s`, which the place says.
    ///
    /// # Errors
    /// `Remote` if the place cannot be asked.
    pub(crate) fn is_over(&self, since_s: u64, time: Duration) -> Result<bool> {
        let until_s = since_s.saturating_add(time.as_secs());
        if until_s >= self.here_s {
            return Ok(false);
        }
        let there_s = match self.there_s.get() {
            Some(there_s) => *there_s,
            None => {
                let there_s = self.ask()?;
                *self.there_s.get_or_init(|| there_s)
            }
        };
        Ok(until_s < there_s)
    }

    /// The time of the place, as something shows it that comes now; or else that of the newest thing that came: it is not earlier.
    fn ask(&self) -> Result<u64> {
        if !self.keeps {
            let mut random = [0_u8; 16];
            SystemRandom.fill(&mut random)?;
            // This device may be one that creates nothing there, or the place has no room. Where it has some again a moment later, a
            // deposit that is on its way is completed: this machine's clock alone says nothing of it.
            if let Ok(came_s) = self.probe(&hex::encode(&random)) {
                return Ok(came_s);
            }
        }
        let mut newest_s = 0;
        for kind in ["publications", "deposits", "pieces"] {
            let listed = self.remote.list(kind)?;
            newest_s = listed
                .iter()
                .map(|one| one.created_s)
                .fold(newest_s, u64::max);
        }
        Ok(newest_s)
    }

    /// When an object came that comes now under that name, which no other has.
    fn probe(&self, name: &str) -> std::result::Result<u64, RemoteError> {
        let object = ObjectName::new(format!("probes/{name}"))?;
        self.remote.create(&object, vec![0])?;
        let listed = self.remote.list("probes");
        self.remote.remove(&object)?;
        let came = listed?.into_iter().find(|one| one.name == name);
        Ok(came.map_or(0, |one| one.created_s))
    }

    #[cfg(test)]
    pub(crate) fn with(remote: &'r dyn Remote, here_s: u64, there_s: Option<u64>) -> Self {
        Self {
            here_s,
            there_s: there_s.map_or_else(OnceCell::new, OnceCell::from),
            ..Self::of(remote, false)
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use std::ops::Range;
    use std::sync::Arc;

    use strongroom_remote::{Created, Listed, Result as Answer, memory};

    use super::*;

    const WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);

    #[test]
    fn a_time_is_over_once_both_clocks_say_so_and_the_place_is_asked_only_then() {
        let remote = memory().unwrap();
        let (now, week) = (now_s(), WEEK.as_secs());
        let is_over = |here_s, there_s, since_s| {
            let clock = PlaceClock::with(&*remote, here_s, there_s);
            clock.is_over(since_s, WEEK).unwrap()
        };
        for (here_s, there_s, expected) in [
            (now, now, false),
            (now + week + 1, now, false),
            (now, now + week + 1, false),
            (now + week, now + week, false),
            (now + week + 1, now + week + 1, true),
        ] {
            assert_eq!(is_over(here_s, Some(there_s), now), expected);
        }
        assert!(!is_over(now + 2 * week, None, now));
        assert!(is_over(now + 2 * week, None, now - week - 60));
        assert!(!is_over(u64::MAX, None, u64::MAX - 1));
        // What was created to ask is gone.
        assert_eq!(remote.list("probes").unwrap(), []);
        // Whoever removes nothing there asks what was published.
        let clock = PlaceClock {
            keeps: true,
            ..PlaceClock::with(&*remote, now + 2 * week, None)
        };
        assert!(!clock.is_over(now - week - 60, WEEK).unwrap());
        let name = ObjectName::new("publications/0000000000000001").unwrap();
        remote.create(&name, vec![0]).unwrap();
        let clock = PlaceClock {
            keeps: true,
            ..PlaceClock::with(&*remote, now + 2 * week, None)
        };
        assert!(clock.is_over(now - week - 60, WEEK).unwrap());
    }

    /// A remote that has no room.
    #[derive(Debug)]
    struct Full(Arc<dyn Remote>);

    impl Remote for Full {
        fn create(&self, _: &ObjectName, _: Vec<u8>) -> Answer<Created> {
            Err(RemoteError::Full)
        }

        fn read(&self, name: &ObjectName, bytes_max: u64) -> Answer<Option<Vec<u8>>> {
            self.0.read(name, bytes_max)
        }

        fn read_range(&self, name: &ObjectName, range: Range<u64>) -> Answer<Option<Vec<u8>>> {
            self.0.read_range(name, range)
        }

        fn list(&self, kind: &str) -> Answer<Vec<Listed>> {
            self.0.list(kind)
        }

        fn remove(&self, name: &ObjectName) -> Answer<()> {
            self.0.remove(name)
        }
    }

    /// Goal: a wrong clock of this machine removes nothing at a place without room either: a deposit that is on its way may find room a moment
    /// later. Failed before: where the place had no room, the clock of this machine counted alone.
    #[test]
    fn a_place_without_room_shows_its_time_by_what_came_last() {
        let inner = memory().unwrap();
        let remote = Full(Arc::clone(&inner));
        let (now, week) = (now_s(), WEEK.as_secs());
        let is_over = |since_s| {
            let clock = PlaceClock::with(&remote, now + 2 * week, None);
            clock.is_over(since_s, WEEK).unwrap()
        };
        assert!(!is_over(now) && !is_over(now - week - 60));
        let name = ObjectName::new("pieces/a").unwrap();
        inner.create(&name, vec![0]).unwrap();
        assert!(!is_over(now));
        assert!(is_over(now - week - 60));
    }
}
