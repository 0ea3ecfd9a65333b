//! Shows how far a copy is, if it takes longer than a second and somebody is looking.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::location::show;

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
