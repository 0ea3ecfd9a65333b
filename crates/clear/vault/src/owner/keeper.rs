//! While a vault is open, updates the record of its last seen state.
//!
//! Takes   an open vault
//! Gives   a record at most `INTERVAL` older than the durable state; after the vault is closed, the record is up to date
//! Never   makes anybody wait for it, or syncs files of the vault
//! Spec    spec/9-seen.md, section 9.2

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::execute::session::OpenVault;
use crate::{Error, Result};

/// How far the record is behind at most. A command that is done sooner writes it once, when it closes the vault.
const INTERVAL: Duration = Duration::from_secs(5);

/// The thread that records.
pub(crate) struct Keeper {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Keeper {
    pub(crate) fn start(vault: &Arc<OpenVault>) -> Result<Self> {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let (of_thread, stopped) = (Arc::clone(vault), Arc::clone(&stop));
        let thread = std::thread::Builder::new().name("vault-seen".to_owned());
        let thread = thread.spawn(move || {
            loop {
                let mut stop = stopped.0.lock();
                if !*stop {
                    stopped.1.wait_for(&mut stop, INTERVAL);
                }
                if *stop {
                    return;
                }
                drop(stop);
                of_thread.note_seen();
            }
        });
        Ok(Self {
            stop,
            thread: Mutex::new(Some(thread.map_err(Error::io("starting a thread"))?)),
        })
    }

    /// Ends it, and waits for that. Once is enough; more do nothing.
    pub(crate) fn stop(&self) {
        *self.stop.0.lock() = true;
        self.stop.1.notify_all();
        if let Some(thread) = self.thread.lock().take() {
            // A panic there has been reported by the panic hook.
            let _ = thread.join();
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.stop();
    }
}
