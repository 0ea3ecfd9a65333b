//! Lets an interrupted command clean up before the process ends by the signal.
//!
//! Takes   SIGINT, SIGTERM and SIGHUP, once `watch` was called
//! Gives   a failure at the next `check`. At the end the process ends by the same signal, as its parent process expects
//! Never   delays a second signal, which ends the process at once. Never reacts to a SIGINT or SIGHUP that was already
//!         ignored when this process started

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use strongroom::GoOn;
use strongroom_mount::ignores;

use crate::terminal::exit_code::ExitCode;
use crate::terminal::failure::{Failure, Result};

/// The signal that came, 0 for none.
static CAME: OnceLock<Arc<AtomicUsize>> = OnceLock::new();

/// From now on the first signal is only noted. Gives where its number will stand. `nohup` ignores SIGHUP for its command, and a shell without
/// job control SIGINT for one in the background: such a signal stays ignored.
pub(crate) fn watch() -> Result<Arc<AtomicUsize>> {
    let came = Arc::clone(CAME.get_or_init(Arc::default));
    let again = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        if signal != SIGTERM && ignores(signal) {
            continue;
        }
        // In this order: the second handler arms the first one, for the next signal.
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&again))?;
        signal_hook::flag::register(signal, Arc::clone(&again))?;
        signal_hook::flag::register_usize(signal, Arc::clone(&came), signal as usize)?;
    }
    Ok(came)
}

fn signal() -> Option<i32> {
    let signal = CAME.get()?.load(Ordering::Relaxed);
    i32::try_from(signal).ok().filter(|signal| *signal != 0)
}

/// Fails if the copy should stop.
pub(crate) fn check() -> Result<()> {
    match signal() {
        None => Ok(()),
        Some(_) => Err(Failure::new(
            ExitCode::Other,
            "interrupted; only completely copied files stay",
        )),
    }
}

/// Whether the copy should stop.
pub(crate) fn came() -> bool {
    signal().is_some()
}

/// What is said to work in the vault that asks whether to continue.
pub(crate) fn go_on() -> GoOn {
    match came() {
        true => GoOn::No,
        false => GoOn::Yes,
    }
}

/// Ends the process by the signal that came, if one did.
pub(crate) fn leave() {
    if let Some(signal) = signal() {
        // If it cannot be raised, the exit code of the failure says enough.
        let _ = signal_hook::low_level::emulate_default_handler(signal);
    }
}
