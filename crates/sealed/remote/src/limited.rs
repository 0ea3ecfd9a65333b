//! A remote with limited upload and download rates.
//!
//! Takes   a remote, and the bytes per second that may be uploaded and downloaded
//! Gives   the same remote; a caller waits if it is too fast
//! Never   splits an upload: an object is one request, which is sent as fast as the line allows
//!
//! Invariants
//!  (1) The bytes uploaded in any t seconds are at most t times the rate, plus one object.
//!  (2) The bytes downloaded in any t seconds are at most t times the rate, plus one piece for each caller. A piece is
//!      half a second of the rate, and at least 256 KiB.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::buffers::Buffer;
use crate::error::{Error, Result};
use crate::limits::{PIECE, PIECE_BYTES_MIN};
use crate::login::Signer;
use crate::object_name::ObjectName;
use crate::remote::{Created, Listed, Remote, Waited};

/// Bytes a second; no limit where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Of what is created at a remote.
    pub up: Option<u64>,
    /// Of what is read from it.
    pub down: Option<u64>,
}

/// Tells the time, and lets it pass.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The time since some moment in the past that stays the same.
    fn now(&self) -> Duration;

    /// Returns when that much time has passed.
    fn wait(&self, time: Duration);
}

/// The time of this machine.
#[derive(Debug)]
pub struct SystemClock(Instant);

impl Default for SystemClock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn wait(&self, time: Duration) {
        thread::sleep(time);
    }
}

/// What all remotes together may carry; shared by those who use them.
#[derive(Debug)]
pub struct Pace {
    clock: Arc<dyn Clock>,
    up: Option<Bucket>,
    down: Option<Bucket>,
}

/// A bucket of tokens that holds none while nothing is sent: time that was not used is not made up for.
#[derive(Debug)]
struct Bucket {
    rate: u64,
    /// The moment up to which what was carried takes at the rate.
    full_until: Mutex<Duration>,
}

impl Bucket {
    fn new(rate: u64) -> Self {
        Self {
            rate: rate.max(1),
            full_until: Mutex::default(),
        }
    }

    /// Charges for `bytes` from `now` on; gives how long to wait before they may go.
    fn charge(&self, now: Duration, bytes: u64) -> Duration {
        // A length of time is whole whenever somebody panics.
        let full = self.full_until.lock();
        let mut full = full.unwrap_or_else(PoisonError::into_inner);
        let start = now.max(*full);
        let takes = u128::from(bytes) * 1_000_000_000 / u128::from(self.rate);
        *full = start + Duration::from_nanos(u64::try_from(takes).unwrap_or(u64::MAX));
        start - now
    }

    /// How many bytes are read at once.
    fn piece(&self) -> u64 {
        let piece = u128::from(self.rate) * PIECE.as_millis() / 1000;
        u64::try_from(piece)
            .unwrap_or(u64::MAX)
            .max(PIECE_BYTES_MIN)
    }
}

impl Pace {
    /// At `rates`, by the time of this machine.
    #[must_use]
    pub fn new(rates: Rates) -> Arc<Self> {
        Self::by(rates, Arc::<SystemClock>::default())
    }

    /// At `rates`, by another clock.
    #[must_use]
    pub fn by(rates: Rates, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self {
            clock,
            up: rates.up.map(Bucket::new),
            down: rates.down.map(Bucket::new),
        })
    }

    fn wait(&self, bucket: &Bucket, bytes: u64) {
        let time = bucket.charge(self.clock.now(), bytes);
        if !time.is_zero() {
            self.clock.wait(time);
        }
    }
}

/// A remote at a pace.
#[derive(Debug)]
pub struct Limited {
    remote: Arc<dyn Remote>,
    pace: Arc<Pace>,
}

impl Limited {
    /// `remote`, at `pace`.
    #[must_use]
    pub fn new(remote: Arc<dyn Remote>, pace: Arc<Pace>) -> Self {
        Self { remote, pace }
    }

    /// Reads `range` in pieces.                                                                                 (2)
    fn read_pieces(
        &self,
        bucket: &Bucket,
        name: &ObjectName,
        range: Range<u64>,
    ) -> Result<Option<Vec<u8>>> {
        let mut bytes: Vec<u8> = Vec::new();
        loop {
            // Nobody knows before how much comes: it is charged after, and the next piece waits.
            self.pace.wait(bucket, 0);
            // From the last byte on that is known: behind its end an object has no range that could be asked for.
            let known = bytes.pop();
            let start = range.start + bytes.len() as u64;
            let end = range.end.min(start.saturating_add(bucket.piece()));
            let piece = match (self.remote.read_range(name, start..end)?, known) {
                (Some(piece), _) => piece,
                (None, None) => return Ok(None),
                (None, Some(_)) => {
                    return Err(Error::Other(format!("{name} vanished while it was read")));
                }
            };
            bucket.charge(self.pace.clock.now(), piece.len() as u64);
            let is_last = start + (piece.len() as u64) < end || end == range.end;
            bytes.extend(piece);
            if is_last {
                return Ok(Some(bytes));
            }
        }
    }
}

impl Remote for Limited {
    fn create(&self, name: &ObjectName, bytes: Vec<u8>) -> Result<Created> {
        if let Some(bucket) = &self.pace.up {
            self.pace.wait(bucket, bytes.len() as u64); // (1)
        }
        self.remote.create(name, bytes)
    }

    fn create_from(&self, name: &ObjectName, buffer: Buffer) -> Result<Created> {
        if let Some(bucket) = &self.pace.up {
            self.pace.wait(bucket, buffer.as_ref().len() as u64); // (1)
        }
        self.remote.create_from(name, buffer)
    }

    fn read(&self, name: &ObjectName, bytes_max: u64) -> Result<Option<Vec<u8>>> {
        let Some(bucket) = &self.pace.down else {
            return self.remote.read(name, bytes_max);
        };
        if bytes_max < bucket.piece() {
            self.pace.wait(bucket, 0);
            let read = self.remote.read(name, bytes_max)?;
            let len = read.as_ref().map_or(0, Vec::len);
            bucket.charge(self.pace.clock.now(), len as u64);
            return Ok(read);
        }
        let read = self.read_pieces(bucket, name, 0..bytes_max.saturating_add(1))?;
        match read {
            Some(bytes) if bytes.len() as u64 > bytes_max => Err(Error::TooLong {
                name: name.to_string(),
                max: bytes_max,
            }),
            read => Ok(read),
        }
    }

    fn read_range(&self, name: &ObjectName, range: Range<u64>) -> Result<Option<Vec<u8>>> {
        match &self.pace.down {
            Some(bucket) => self.read_pieces(bucket, name, range),
            None => self.remote.read_range(name, range),
        }
    }

    fn has(&self, name: &ObjectName) -> Result<bool> {
        self.remote.has(name)
    }

    fn list(&self, kind: &str) -> Result<Vec<Listed>> {
        self.remote.list(kind)
    }

    fn list_behind(&self, kind: &str, after: &str) -> Result<Vec<Listed>> {
        self.remote.list_behind(kind, after)
    }

    fn remove(&self, name: &ObjectName) -> Result<()> {
        self.remote.remove(name)
    }

    fn remove_unfinished(&self, kind: &str, before_s: u64) -> Result<()> {
        self.remote.remove_unfinished(kind, before_s)
    }

    fn wait_behind(&self, last: u64, go_on: &dyn Fn() -> bool) -> Result<Waited> {
        self.remote.wait_behind(last, go_on)
    }

    fn sign_with(&self, signer: Arc<dyn Signer>) {
        self.remote.sign_with(signer);
    }

    fn transfers(&self) -> usize {
        self.remote.transfers()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;
    use crate::remote::memory;

    /// A clock on which only waiting takes time.
    #[derive(Debug, Default)]
    struct Counted(Mutex<Duration>);

    impl Clock for Counted {
        fn now(&self) -> Duration {
            *self.0.lock().unwrap()
        }

        fn wait(&self, time: Duration) {
            *self.0.lock().unwrap() += time;
        }
    }

    fn limited(up: Option<u64>, down: Option<u64>) -> (Limited, Arc<Counted>) {
        let clock = Arc::new(Counted::default());
        let pace = Pace::by(Rates { up, down }, Arc::clone(&clock) as _);
        (Limited::new(memory().unwrap(), pace), clock)
    }

    fn name(number: u64) -> ObjectName {
        ObjectName::new(format!("segments/{number}")).unwrap()
    }

    #[test]
    fn what_goes_up_takes_its_time_but_for_the_last_object() {
        let (remote, clock) = limited(Some(1000), None);
        for number in 0..10 {
            remote.create(&name(number), vec![7; 1500]).unwrap();
            assert_eq!(clock.now(), Duration::from_millis(1500 * number));
        }
        // Time in which nothing went is not made up for.
        clock.wait(Duration::from_secs(1000));
        let before = clock.now();
        remote.create(&name(10), vec![7; 1500]).unwrap();
        remote.create(&name(11), vec![7; 1500]).unwrap();
        assert_eq!(clock.now() - before, Duration::from_millis(1500));
        assert_eq!(remote.read(&name(3), 1500).unwrap().unwrap(), [7; 1500]);
        assert_eq!(
            clock.now() - before,
            Duration::from_millis(1500),
            "down is free"
        );
    }

    #[test]
    fn callers_at_one_time_wait_one_behind_the_other() {
        let bucket = Bucket::new(100);
        let now = Duration::from_secs(5);
        let waits: Vec<u64> = (0..4).map(|_| bucket.charge(now, 200).as_secs()).collect();
        assert_eq!(waits, [0, 2, 4, 6]);
    }

    /// Lengths around the end of a piece: no request begins behind the end of the object, which a store would refuse.
    #[test]
    fn what_comes_down_comes_in_pieces_and_whole() {
        let piece = usize::try_from(PIECE_BYTES_MIN).unwrap();
        for len in [
            1,
            piece - 1,
            piece,
            piece + 1,
            2 * piece - 1,
            2 * piece,
            5 * piece,
        ] {
            let (remote, clock) = limited(None, Some(PIECE_BYTES_MIN));
            let bytes: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
            remote.create(&name(1), bytes.clone()).unwrap();
            let max = bytes.len() as u64;
            for bytes_max in [max, max + 1, 16 << 20] {
                let read = remote.read(&name(1), bytes_max).unwrap().unwrap();
                assert!(read == bytes, "{len}");
            }
            let read = remote.read_range(&name(1), 0..max).unwrap().unwrap();
            assert!(read == bytes, "{len}");
            let refused = remote.read(&name(1), max - 1);
            assert!(matches!(refused, Err(Error::TooLong { .. })), "{refused:?}");
            // Four times or more, all but the last piece of it.
            let least = u64::try_from(len).unwrap() * 4 / PIECE_BYTES_MIN;
            assert!(
                clock.now() >= Duration::from_secs(least.saturating_sub(1)),
                "{len}"
            );
            assert_eq!(remote.read(&name(2), 9).unwrap(), None);
        }
    }
}
