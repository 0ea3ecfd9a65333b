//! Shows progress on a terminal if a command takes longer than a second.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::terminal::failure::tell;
use crate::terminal::printable::{line, show};

/// Nothing is shown before this.
const QUIET: Duration = Duration::from_secs(1);

/// How much there is to do, counted beside the work.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    files: AtomicU64,
    bytes: AtomicU64,
    /// Everything was counted.
    whole: AtomicBool,
    /// Nobody wants to know any more.
    stop: AtomicBool,
}

impl Totals {
    /// One more file. False if counting may end.
    pub(crate) fn add(&self, bytes: u64) -> bool {
        self.files.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.goes_on()
    }

    /// Whether somebody still wants to know.
    pub(crate) fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    /// Files and bytes, if everything was counted.
    fn known(&self) -> Option<(u64, u64)> {
        let whole = self.whole.load(Ordering::Acquire);
        whole.then(|| self.so_far())
    }

    /// Files and bytes that were counted until now.
    pub(crate) fn so_far(&self) -> (u64, u64) {
        let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
        (read(&self.files), read(&self.bytes))
    }
}

/// The progress of one command.
pub(crate) struct Progress {
    bar: ProgressBar,
    started: Instant,
    shown: bool,
    enabled: bool,
    files: u64,
    totals: Arc<Totals>,
    /// What counts.
    counting: Option<JoinHandle<()>>,
    /// Files in all, once they were counted.
    of_files: Option<u64>,
}

impl Progress {
    /// Shows nothing if `quiet`, or if standard error is no terminal.
    pub(crate) fn new(quiet: bool) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        let enabled = !quiet && std::io::stderr().is_terminal();
        Self {
            bar,
            started: Instant::now(),
            shown: false,
            enabled,
            files: 0,
            totals: Arc::default(),
            counting: None,
            of_files: None,
        }
    }

    /// Has `count` count, on a thread of its own, what there is to do; nothing if nothing is shown. It says whether it came
    /// to the end.
    pub(crate) fn count(&mut self, count: impl FnOnce(&Totals) -> bool + Send + 'static) {
        if !self.enabled {
            return;
        }
        let totals = Arc::clone(&self.totals);
        let thread = std::thread::Builder::new().name("count".to_owned());
        let counting = thread.spawn(move || {
            let whole = count(&totals);
            totals.whole.store(whole, Ordering::Release);
        });
        // Without it there is no time left to show, and that is all.
        self.counting = counting.ok();
    }

    /// `bytes` more have been copied, or need not be.
    pub(crate) fn advance(&mut self, bytes: u64) {
        self.bar.inc(bytes);
        if !self.enabled || self.started.elapsed() < QUIET {
            return;
        }
        let known = self.totals.known();
        if self.shown && known.is_some() == self.of_files.is_some() {
            return;
        }
        let template = match known {
            None => "{bytes} at {binary_bytes_per_sec}, {prefix} files  {wide_msg}",
            Some((files, bytes)) => {
                self.bar.set_length(bytes);
                self.of_files = Some(files);
                "{bytes} of {total_bytes} at {binary_bytes_per_sec}, {eta} left, {prefix} files  {wide_msg}"
            }
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.bar.set_style(style);
        }
        if !self.shown {
            self.shown = true;
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }

    /// The next file is `name`.
    pub(crate) fn file(&mut self, name: &[u8]) {
        self.files += 1;
        if self.enabled {
            let of = self.of_files.map(|all| format!(" of {all}"));
            let of = of.unwrap_or_default();
            self.bar.set_prefix(format!("{}{of}", self.files));
            self.bar.set_message(show(name));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.totals.stop.store(true, Ordering::Relaxed);
        if let Some(counting) = self.counting.take() {
            // What it counted is of no use any more, whatever became of it.
            let _ = counting.join();
        }
        self.bar.finish_and_clear();
    }
}

/// How far something is of which the end is known: with rate and time left.
pub(crate) struct Meter {
    bar: ProgressBar,
    started: Instant,
    /// What was done when it was first shown: by an earlier run.
    before: Option<u64>,
    enabled: bool,
    shown: bool,
}

impl Meter {
    /// Shows nothing if `quiet`, or if standard error is no terminal. `done`: the word for it.
    pub(crate) fn new(quiet: bool, done: &'static str) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        bar.set_prefix(done);
        Self {
            bar,
            started: Instant::now(),
            before: None,
            enabled: !quiet && std::io::stderr().is_terminal(),
            shown: false,
        }
    }

    /// So many of so many bytes are done.
    pub(crate) fn show(&mut self, bytes: u64, total: u64) {
        let before = *self.before.get_or_insert(bytes);
        self.bar.set_length(total.saturating_sub(before));
        self.bar.set_position(bytes.saturating_sub(before));
        if self.enabled && !self.shown && self.started.elapsed() >= QUIET {
            self.shown = true;
            let style = ProgressStyle::with_template(
                "{prefix} {bytes} of {total_bytes} at {binary_bytes_per_sec}, {eta} left  {wide_bar}",
            );
            if let Ok(style) = style {
                self.bar.set_style(style);
            }
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

impl Meter {
    /// So much was counted, and nobody knows of how much.
    pub(crate) fn count(&mut self, message: String) {
        self.say(message);
        if self.enabled && !self.shown && self.started.elapsed() >= QUIET {
            self.shown = true;
            if let Ok(style) = ProgressStyle::with_template("{prefix}") {
                self.bar.set_style(style);
            }
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }

    /// What is done besides.
    pub(crate) fn say(&self, message: String) {
        self.bar.set_prefix(line(&message).into_owned());
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// How often it is looked how far a change of keys is.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// After so long without any sign that a change of keys goes on it is said what that may wait for.
const WAIT_UNTIL_SAID: Duration = Duration::from_secs(2);

/// Runs `change`, which changes the keys of `vault`, and shows meanwhile how much of the database has its new key.
pub(crate) fn while_keys_change<T>(vault: &Path, change: impl FnOnce() -> T) -> T {
    let (done, is_done) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut meter = Meter::new(false, "database re-sealed:");
            let (begun, mut seen) = (Instant::now(), false);
            while is_done.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                if let Some((bytes, total)) = strongroom::rekey_progress(vault) {
                    meter.show(bytes, total);
                    seen = true;
                } else if !seen && begun.elapsed() >= WAIT_UNTIL_SAID {
                    tell("waiting for readers of the database to finish, such as a snapshot, a check or a backup");
                    seen = true;
                }
            }
        });
        let changed = change();
        drop(done);
        changed
    })
}
