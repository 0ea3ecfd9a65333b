//! Runs calls without the interpreter's lock, and counts how many run.
//!
//! Takes   a function that uses a vault
//! Gives   its result; an exception if it panics
//! Never   lets the interpreter end during a call, unless the call takes longer than `END_WAIT` from then on. In that case CPython
//!         before 3.14 unwinds the thread of the call, and Rust code does not survive that
//!
//! Invariants
//!  (1) A call is counted until its thread has the interpreter's lock again.
//!  (2) A panic of the vault ends here. Its message is dropped and printed nowhere, because it could contain a secret.

use std::io::{Write as _, stderr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::error::raise_bug;

/// Calls that run.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// How long the end of a program waits for calls of daemon threads, all vaults being closed: whoever waits for a remote may take longer.
const END_WAIT: Duration = Duration::from_secs(5);

/// How often it looks.
const END_LOOK: Duration = Duration::from_millis(1);

/// Counts a call while it lives.                                                                              (1)
struct Counted;

impl Counted {
    fn new() -> Self {
        RUNNING.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A panic of any thread prints its place in the code and no more: this module has a hook of its own, because it has a standard library of
/// its own.                                                                                                   (2)
pub(crate) fn hide_messages_of_panics() {
    strongroom::panics::report_places(|sentence| {
        // A program may have closed it.
        let _ = writeln!(stderr(), "strongroom: {sentence}");
    });
}

/// What `call` gives, while other threads of Python run.
///
/// # Errors
/// `VaultError` if it panics.
pub(crate) fn detached<T: Send>(py: Python<'_>, call: impl FnOnce() -> T + Send) -> PyResult<T> {
    let _counted = Counted::new();
    let ended = py.detach(move || catch_unwind(AssertUnwindSafe(call)));
    ended.map_err(|panic| {
        // Dropping it could panic once more.                                                             (2)
        std::mem::forget(panic);
        raise_bug(py)
    })
}

/// Panics in a call, for the tests. It is no part of the module's interface, and so not in `_native.pyi`.
#[cfg(feature = "panic-test")]
#[pyfunction]
#[pyo3(name = "_panics")]
pub(crate) fn panics(py: Python<'_>, message: String) -> PyResult<()> {
    detached(py, move || std::panic::panic_any(message))
}

/// Waits until no call runs any more; for the end of the program, when all vaults are closed.
#[pyfunction]
pub(crate) fn wait_for_calls(py: Python<'_>) {
    let begin = Instant::now();
    py.detach(|| {
        while RUNNING.load(Ordering::SeqCst) > 0 && begin.elapsed() < END_WAIT {
            std::thread::sleep(END_LOOK);
        }
    });
}
