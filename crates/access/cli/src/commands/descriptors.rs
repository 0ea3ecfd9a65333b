//! Raises the number of files that this process may have open.
//!
//! Takes   the limits that it was started with
//! Gives   the highest permitted number, at most `WANTED`; whether it is enough to serve a mount
//! Never   raises the number above `WANTED`

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::terminal::exit_code::ExitCode;
use crate::terminal::failure::{Failure, Result};

/// As many as a process usually has.
const WANTED: u64 = 1024;

/// With fewer a mount does not begin: half of them are taken before the first file is read.
const MOUNT_MIN: u64 = 64;

/// With fewer it says so.
const MOUNT_GOOD: u64 = 256;

/// Raises the soft limit to what is wanted, as far as the hard one lets it.
pub(crate) fn raise() {
    let now = getrlimit(Resource::Nofile);
    let most = now.maximum.unwrap_or(WANTED).min(WANTED);
    if now.current.is_some_and(|current| current < most) {
        // Refused where limits are fixed from outside: then what is there has to do.
        let _ = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: Some(most),
                maximum: now.maximum,
            },
        );
    }
}

/// Refuses a mount that could not open its own files; says so where there are only just enough.
pub(crate) fn check_for_mount() -> Result<()> {
    let Some(limit) = getrlimit(Resource::Nofile).current else {
        return Ok(());
    };
    let advice = "raise the limit (`ulimit -n 1024`, `LimitNOFILE=` in a unit of systemd)";
    if limit < MOUNT_MIN {
        let message = format!(
            "this process may open only {limit} files, and a mount needs {MOUNT_MIN}; {advice}"
        );
        return Err(Failure::new(ExitCode::Mount, message));
    }
    if limit < MOUNT_GOOD {
        log::warn!("this process may open only {limit} files, which slows reading down; {advice}");
    }
    Ok(())
}
