//! Shows how far something is, if it takes longer than a second and somebody is looking.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::printable::{line, show};

/// Nothing is shown before this.
const QUIET: Duration = Duration::from_secs(1);

/// The progress of one command.
pub(crate) struct Progress {
    bar: ProgressBar,
    started: Instant,
    shown: bool,
    enabled: bool,
    files: u64,
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
        }
    }

    /// `bytes` more have been copied.
    pub(crate) fn advance(&mut self, bytes: u64) {
        self.bar.inc(bytes);
        if self.enabled && !self.shown && self.started.elapsed() >= QUIET {
            self.shown = true;
            let style = ProgressStyle::with_template(
                "{bytes} at {binary_bytes_per_sec}, {prefix} files  {wide_msg}",
            );
            if let Ok(style) = style {
                self.bar.set_style(style);
            }
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }

    /// The next file is `name`.
    pub(crate) fn file(&mut self, name: &[u8]) {
        self.files += 1;
        self.bar.set_prefix(self.files.to_string());
        self.bar.set_message(show(name));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
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
