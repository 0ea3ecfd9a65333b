//! Shares the log file of a store with a thread that does not hold the writing connection.
//!
//! Takes   the system's file: when SQLite opens the log, and when it closes it
//! Gives   that file while it is open
//! Never   lets the file be closed while a sync uses it
//! Spec    spec/4-metadata.md, 4.8
//!
//! `unsafe` is used here because a pointer of SQLite is sent to another thread.
#![allow(unsafe_code, reason = "SQLite's files are C pointers")]

use libsqlite3_sys as ffi;
use parking_lot::{Condvar, Mutex};

/// The log file of a store's writer, while it is open.
#[derive(Default)]
pub(super) struct LogFile {
    state: Mutex<LogState>,
    idle: Condvar,
}

#[derive(Default)]
struct LogState {
    file: Option<LogPointer>,
    syncs_running: usize,
}

/// The system's file of an open log.
#[derive(Clone, Copy, PartialEq, Eq)]
struct LogPointer(*mut ffi::sqlite3_file);
// SAFETY: the only thing done with it on another thread is `xSync`, which in the system's VFS reads the
// descriptor and stores into the file only the error number of a failure, by which nobody decides. The flag
// that its first call clears (sync the directory of a new file) was cleared in `open`, before it got here.
unsafe impl Send for LogPointer {}

impl LogFile {
    /// Puts `file` here if there is none; whether it did.
    pub(super) fn put(&self, file: *mut ffi::sqlite3_file) -> bool {
        let mut state = self.state.lock();
        let vacant = state.file.is_none();
        if vacant {
            state.file = Some(LogPointer(file));
        }
        vacant
    }

    /// Takes `file` away, once no sync uses it.
    pub(super) fn take(&self, file: *mut ffi::sqlite3_file) {
        let mut state = self.state.lock();
        if state.file != Some(LogPointer(file)) {
            return;
        }
        while state.syncs_running > 0 {
            self.idle.wait(&mut state);
        }
        state.file = None;
    }

    /// Runs `sync` on the file, which stays open meanwhile; `None` if none is open.
    pub(super) fn sync_with<T>(&self, sync: impl FnOnce(*mut ffi::sqlite3_file) -> T) -> Option<T> {
        let pointer = {
            let mut state = self.state.lock();
            let pointer = state.file?;
            state.syncs_running += 1;
            pointer
        };
        let result = sync(pointer.0);
        let mut state = self.state.lock();
        state.syncs_running -= 1;
        if state.syncs_running == 0 {
            self.idle.notify_all();
        }
        Some(result)
    }
}
