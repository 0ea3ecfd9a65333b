//! `umount`: ends a mount, and reports what it waits for.
//!
//! Takes   the mount point
//! Gives   nothing; returns once the process of the mount has ended, or earlier if that process makes no more progress
//! Never   is silent for longer than a second

use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use strongroom_mount::{Unmount, Waiting, unmount};

use crate::arguments::Umount;
use crate::terminal::failure::{Result, tell};
use crate::terminal::printable::line;

/// Nothing is said before this.
const QUIET: Duration = Duration::from_secs(1);

/// Where no terminal shows how far it is, this often a line says so.
const SAY_AGAIN: Duration = Duration::from_secs(10);

/// How long a mount that others keep is waited for: they may keep it for days.
const PATIENCE_ELSEWHERE: Duration = Duration::from_secs(10);

/// How long the rest may take without anything changing. A disk may need minutes to write what its cache holds.
const PATIENCE: Duration = Duration::from_secs(600);

/// Unmounts.
pub(crate) fn umount(arguments: &Umount) -> Result<()> {
    let how = match arguments.lazy {
        true => Unmount::Lazily,
        false => Unmount::IfUnused,
    };
    let mut wait = Wait::begin(Instant::now(), std::io::stderr().is_terminal());
    let unmounted = unmount(&arguments.directory, how, &mut |waiting| {
        let said = wait.hear(waiting, Instant::now());
        if let Some(words) = said.words {
            wait.say(&words);
        }
        said.go_on
    });
    wait.bar.finish_and_clear();
    Ok(unmounted?)
}

/// A wait, and what was said of it.
struct Wait {
    began: Instant,
    /// What is waited for, and since when without a change.
    now: Option<(Waiting, Instant)>,
    said: Option<(std::mem::Discriminant<Waiting>, Instant)>,
    shows: bool,
    bar: ProgressBar,
}

/// What follows from what is waited for.
struct Said {
    words: Option<String>,
    go_on: ControlFlow<()>,
}

impl Wait {
    fn begin(began: Instant, shows: bool) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
            bar.set_style(style);
        }
        Self {
            began,
            now: None,
            said: None,
            shows,
            bar,
        }
    }

    /// Decides whether something is said at `time`, and whether the wait goes on.
    fn hear(&mut self, waiting: &Waiting, time: Instant) -> Said {
        let since = match &self.now {
            Some((before, since)) if before == waiting => *since,
            _ => {
                self.now = Some((waiting.clone(), time));
                time
            }
        };
        let patience = match waiting {
            Waiting::SeenElsewhere(_) => PATIENCE_ELSEWHERE,
            _ => PATIENCE,
        };
        let go_on = match time.duration_since(since) >= patience {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        let kind = std::mem::discriminant(waiting);
        let is_due = match self.said {
            Some((said, at)) => self.shows || said != kind || time.duration_since(at) >= SAY_AGAIN,
            None => time.duration_since(self.began) >= QUIET,
        };
        if is_due {
            self.said = Some((kind, time));
        }
        Said {
            words: is_due.then(|| format!("waiting: {waiting}")),
            go_on,
        }
    }

    fn say(&self, words: &str) {
        if self.shows {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.bar.set_message(line(words).into_owned());
            self.bar.tick();
        } else {
            tell(&format!("strongroom: {words}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(wait: &Wait, seconds: u64) -> Instant {
        wait.began + Duration::from_secs(seconds)
    }

    #[test]
    fn a_wait_is_told_of_after_a_second_and_then_when_it_changes_and_every_ten() {
        let mut wait = Wait::begin(Instant::now(), false);
        let mut heard = Vec::new();
        for (seconds, waiting) in [
            (0, Waiting::Kernel),
            (1, Waiting::Storing(3 << 20)),
            (2, Waiting::Storing(2 << 20)),
            (11, Waiting::Storing(1 << 20)),
            (12, Waiting::Closing),
        ] {
            let said = wait.hear(&waiting, at(&wait, seconds));
            assert_eq!(said.go_on, ControlFlow::Continue(()));
            heard.push(said.words);
        }
        let words = |text: &str| Some(format!("waiting: {text}"));
        assert_eq!(
            heard,
            [
                None,
                words("3 MiB are not stored yet"),
                None,
                words("1 MiB are not stored yet"),
                words("everything is stored, the vault is being closed"),
            ]
        );
    }

    #[test]
    fn who_keeps_a_mount_elsewhere_is_not_waited_for_long_and_nothing_that_stands_still_for_good() {
        for (waiting, seconds) in [
            (Waiting::SeenElsewhere(Vec::new()), 10),
            (Waiting::Storing(7), 600),
        ] {
            let mut wait = Wait::begin(Instant::now(), false);
            for (time, go_on) in [
                (0, ControlFlow::Continue(())),
                (seconds - 1, ControlFlow::Continue(())),
                (seconds, ControlFlow::Break(())),
            ] {
                assert_eq!(wait.hear(&waiting, at(&wait, time)).go_on, go_on);
            }
        }
    }
}
