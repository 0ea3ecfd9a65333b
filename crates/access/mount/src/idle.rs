//! Unmounts a mount that was not used for a while.
//!
//! Takes   the idle time, and a function that reports whether requests came
//! Gives   an unmounted path; the mount then ends as after any other unmount
//! Never   unmounts while a file is open or a process works in the mount

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError};

use crate::detach::{Detach, OwnMount, is_root};
use crate::error::MountError;
use crate::shared::Shared;

/// Two quiet looks in a row make one idle time: the mount goes after one to one and a half of it.
const LOOKS: u32 = 2;

/// Watches until `ended` says that the mount is over.
pub(crate) fn watch(
    mount: OwnMount,
    idle: Duration,
    shared: Arc<Shared>,
    ended: Receiver<()>,
) -> std::io::Result<()> {
    let look = move || {
        // As root the kernel itself says whether anything looked into the mount since the last time;
        // requests say less, as what is cached needs none.
        let how = if is_root() {
            Detach::IfUntouched
        } else {
            Detach::IfUnused
        };
        mount.detach(how)
    };
    let requests = move || shared.counters.snapshot().total();
    std::thread::Builder::new()
        .name("strongroom-idle".to_owned())
        .spawn(move || run(idle / LOOKS, requests, look, &ended))
        .map(|_| ())
}

fn run(
    interval: Duration,
    requests: impl Fn() -> u64,
    detach: impl Fn() -> Result<(), MountError>,
    ended: &Receiver<()>,
) {
    let mut seen = requests();
    let mut quiet = 0;
    loop {
        match ended.recv_timeout(interval) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
        }
        let now = requests();
        quiet = if now == seen { quiet + 1 } else { 0 };
        seen = now;
        // The look before the last one only marks the mount.
        if quiet + 1 >= LOOKS && detach().is_ok() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::in_use::InUse;
    use std::cell::{Cell, RefCell};
    use std::path::Path;

    /// Runs with requests counted by a list, one number per look.
    fn looks(counts: &[u64], succeeds_at: usize) -> usize {
        let next = Cell::new(0);
        let tries = RefCell::new(0);
        let (sender, ended) = crossbeam_channel::bounded(1);
        let requests = || {
            let index = next.get();
            next.set(index + 1);
            if index + 1 == counts.len() {
                // Not more than one message is ever sent: the loop ends with it.
                let _ = sender.try_send(());
            }
            counts[index.min(counts.len() - 1)]
        };
        let detach = || {
            *tries.borrow_mut() += 1;
            if *tries.borrow() >= succeeds_at {
                Ok(())
            } else {
                Err(MountError::Busy(InUse::somehow(Path::new("/mnt"))))
            }
        };
        run(Duration::ZERO, requests, detach, &ended);
        tries.into_inner()
    }

    #[test]
    fn a_mount_in_use_is_never_touched() {
        assert_eq!(looks(&[0, 1, 2, 3, 4, 5], 1), 0);
    }

    #[test]
    fn a_quiet_mount_goes_at_the_first_try_that_succeeds() {
        assert_eq!(looks(&[5, 5, 5, 5, 5, 5], 2), 2);
    }

    #[test]
    fn the_end_of_the_mount_ends_the_watch() {
        assert_eq!(looks(&[5, 5, 5, 5], 100), 3);
    }
}
