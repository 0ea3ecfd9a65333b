//! Lets an interrupted run end its servers and remove its folder before the process ends.
//!
//! Takes   the number of the signal, noted by the process's own signal handler
//! Gives   a failure at the next step of a workload, and at every later one
//! Never   handles a signal itself

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::place::clear;

/// The signal that came, 0 for none.
static CAME: OnceLock<Arc<AtomicUsize>> = OnceLock::new();

/// From now on a run ends when `came` is not 0. The first call of a process counts.
pub fn heed(came: Arc<AtomicUsize>) {
    let _ = CAME.set(came);
}

/// Whether the run should end.
pub(crate) fn came() -> bool {
    CAME.get()
        .is_some_and(|came| came.load(Ordering::Relaxed) != 0)
}

/// Fails if the run should end.
pub(crate) fn check() -> io::Result<()> {
    if came() {
        return Err(io::Error::other("interrupted"));
    }
    Ok(())
}

/// Removes the folder of a run whose servers have ended. Of a run that was interrupted nothing is left, and the error says so.
pub(crate) fn leave(folder: &Path) -> io::Result<()> {
    let shown = folder.display();
    let removed = clear(folder);
    if !came() {
        return removed;
    }
    Err(io::Error::other(match removed {
        Ok(()) => format!("interrupted; {shown} is removed, and nothing is mounted in it"),
        Err(error) => format!(
            "interrupted; {shown} could not be removed ({error}): unmount what is in it, and remove it"
        ),
    }))
}
