//! Keeps idle processors awake while requests follow one another closely.
//!
//! Takes   a notice of each request
//! Gives   fast wake-ups, which the kernel guarantees while the file `/dev/cpu_dma_latency` is open: it is open during
//!         bursts only
//! Never   keeps that file open on a quiet mount; never makes a mount fail: without permission, requests are only slower
//! Spec    docs/adr/0006
//!
//! A request costs two wake-ups: one of the event loop and one of the caller. On a virtual machine, a wake-up of a
//! halted processor costs more than all the work of the request.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};

/// The interface of the kernel: a 32-bit number of microseconds, in force while the file is open.
const DEVICE: &str = "/dev/cpu_dma_latency";

/// Names what puts idle processors to sleep; `none` if nothing listens to the promise.
const IDLE_DRIVER: &str = "/sys/devices/system/cpu/cpuidle/current_driver";

/// A burst begins with this many requests …
const BURST_REQUESTS: u64 = 16;

/// … within this time: from 800 requests a second on, the processors are busy anyway.
const BURST_TIME: Duration = Duration::from_millis(20);

/// How often a burst is looked at, and so how long the promise outlives it at most.
const LOOK_TIME: Duration = Duration::from_millis(20);

/// A burst goes on while each look finds this many new requests: 300 a second.
const LOOK_REQUESTS: u64 = 6;

/// The longest wake-up asked for, in microseconds, on real processors: their lightest sleep stays allowed.
const LATENCY_US: i32 = 10;

/// The same in a virtual machine, where every sleep goes through the host: none.
const LATENCY_VIRTUAL_US: i32 = 0;

/// The sign of each request. Dropping it ends the thread behind it.
pub(crate) struct Wakeful {
    requests: Arc<AtomicU64>,
    is_held: Arc<AtomicBool>,
    bursts: Option<Sender<()>>,
}

impl Wakeful {
    /// Nothing is kept awake.
    pub(crate) fn off() -> Self {
        Self {
            requests: Arc::default(),
            is_held: Arc::default(),
            bursts: None,
        }
    }

    /// Watches for bursts, if this process may ask for short wake-ups and the kernel would listen.
    pub(crate) fn start() -> Self {
        let Some(latency_us) = std::fs::read_to_string(IDLE_DRIVER)
            .ok()
            .and_then(|driver| latency_us(driver.trim()))
        else {
            return Self::off();
        };
        match Self::watch(PathBuf::from(DEVICE), latency_us) {
            Ok(wakeful) => wakeful,
            Err(error) => {
                log::debug!("idle processors cannot be kept awake: {error}");
                Self::off()
            }
        }
    }

    fn watch(device: PathBuf, latency_us: i32) -> io::Result<Self> {
        // Opening asks for nothing yet that would outlive this line, and tells whether it is allowed.
        drop(open(&device)?);
        let (bursts, begun) = crossbeam_channel::bounded(1);
        let requests = Arc::new(AtomicU64::new(0));
        let is_held = Arc::new(AtomicBool::new(false));
        let wakeful = Self {
            requests: Arc::clone(&requests),
            is_held: Arc::clone(&is_held),
            bursts: Some(bursts),
        };
        let hold = move || promise(&device, latency_us);
        std::thread::Builder::new()
            .name("strongroom-awake".to_owned())
            .spawn(move || run(&begun, &requests, &is_held, hold))?;
        Ok(wakeful)
    }

    /// A request came. Costs one addition, and a message every sixteenth time outside of bursts.
    pub(crate) fn note(&self) {
        let Some(bursts) = &self.bursts else { return };
        let before = self.requests.fetch_add(1, Ordering::Relaxed);
        if before % BURST_REQUESTS == BURST_REQUESTS - 1 && !self.is_held.load(Ordering::Relaxed) {
            // A message that waits already says the same.
            let _ = bursts.try_send(());
        }
    }
}

/// The longest wake-up to ask for under an idle driver of this name; `None` if it would change nothing.
fn latency_us(driver: &str) -> Option<i32> {
    match driver {
        "" | "none" => None,
        "haltpoll" => Some(LATENCY_VIRTUAL_US),
        _ => Some(LATENCY_US),
    }
}

fn open(device: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).open(device)
}

fn promise(device: &Path, latency_us: i32) -> io::Result<File> {
    let mut file = open(device)?;
    file.write_all(&latency_us.to_ne_bytes())?;
    Ok(file)
}

/// Holds the promise that `hold` makes from the beginning of each burst to its end.
fn run<P>(
    begun: &Receiver<()>,
    requests: &AtomicU64,
    is_held: &AtomicBool,
    hold: impl Fn() -> io::Result<P>,
) {
    let mut last = None;
    while begun.recv().is_ok() {
        let now = Instant::now();
        if !is_burst(last.replace(now), now) {
            continue;
        }
        let promise = match hold() {
            Ok(promise) => promise,
            Err(error) => {
                log::debug!("idle processors cannot be kept awake: {error}");
                return;
            }
        };
        is_held.store(true, Ordering::Relaxed);
        // A message sent meanwhile would end the first look at once.
        let _ = begun.try_recv();
        let mut seen = requests.load(Ordering::Relaxed);
        while matches!(
            begun.recv_timeout(LOOK_TIME),
            Ok(()) | Err(RecvTimeoutError::Timeout)
        ) {
            let now = requests.load(Ordering::Relaxed);
            if now.wrapping_sub(seen) < LOOK_REQUESTS {
                break;
            }
            seen = now;
        }
        drop(promise);
        is_held.store(false, Ordering::Relaxed);
        last = None;
    }
}

/// Sixteen requests have come between two messages: whether that was fast.
fn is_burst(last: Option<Instant>, now: Instant) -> bool {
    last.is_some_and(|last| now.duration_since(last) <= BURST_TIME)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_channel::bounded;

    #[test]
    fn a_virtual_machine_never_sleeps_and_a_real_one_lightly() {
        assert_eq!(latency_us("haltpoll"), Some(0));
        assert_eq!(latency_us("intel_idle"), Some(LATENCY_US));
        assert_eq!(latency_us("none"), None);
    }

    #[test]
    fn the_promise_is_a_number_of_the_machine() {
        let folder = tempfile::tempdir().expect("a folder");
        let device = folder.path().join("latency");
        std::fs::write(&device, b"").expect("a file");
        drop(promise(&device, 10).expect("written"));
        assert_eq!(std::fs::read(&device).expect("read"), 10_i32.to_ne_bytes());
    }

    #[test]
    fn who_may_not_ask_is_served_all_the_same() {
        let wakeful = Wakeful::watch(PathBuf::from("/no/such/device"), 0);
        assert!(wakeful.is_err());
        let off = Wakeful::off();
        for _ in 0..100 {
            off.note();
        }
        assert!(off.bursts.is_none());
    }

    #[test]
    fn requests_far_apart_are_no_burst() {
        let begin = Instant::now();
        assert!(!is_burst(None, begin));
        assert!(is_burst(Some(begin), begin + BURST_TIME));
        assert!(!is_burst(
            Some(begin),
            begin + BURST_TIME + Duration::from_millis(1)
        ));
    }

    /// The promise is a value whose drop is told, so that a test waits for events and not for time.
    struct Told(Sender<&'static str>);

    impl Drop for Told {
        fn drop(&mut self) {
            let _ = self.0.send("released");
        }
    }

    #[test]
    fn a_burst_is_held_once_and_released_when_requests_end() {
        let (events, seen) = bounded(16);
        let (bursts, begun) = bounded(16);
        let requests = AtomicU64::new(0);
        let is_held = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                run(&begun, &requests, &is_held, || {
                    let _ = events.send("held");
                    Ok(Told(events.clone()))
                });
            });
            bursts.send(()).expect("sent");
            bursts.send(()).expect("sent");
            assert_eq!(seen.recv(), Ok("held"));
            assert_eq!(seen.recv(), Ok("released"));
            drop(bursts);
        });
        assert!(seen.try_recv().is_err());
        assert!(!is_held.load(Ordering::Relaxed));
    }

    #[test]
    fn every_sixteenth_request_says_so() {
        let (bursts, begun) = bounded(1);
        let wakeful = Wakeful {
            requests: Arc::default(),
            is_held: Arc::default(),
            bursts: Some(bursts),
        };
        for _ in 0..BURST_REQUESTS - 1 {
            wakeful.note();
        }
        assert!(begun.try_recv().is_err());
        wakeful.note();
        assert!(begun.try_recv().is_ok());
    }
}
