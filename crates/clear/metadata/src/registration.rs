//! Turns an id in a file's URI into the store whose file it is.
//!
//! Takes   the `Disk` of a store that opens
//! Gives   what the URI of its database must say; to the VFS, the `Disk` behind an id
//! Never   gives the `Disk` of a store that was dropped
//! Spec    spec/4-metadata.md, 4.8.2

use std::collections::HashMap;
use std::ffi::CStr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::disk::Disk;
use crate::vfs;

/// The URI parameter that says whose file it is.
pub(crate) const PARAMETER: &CStr = c"strongroom";

/// `PARAMETER`, for writing a URI.
const PARAMETER_TEXT: &str = "strongroom";

static DISKS: Mutex<Option<HashMap<i64, Weak<Disk>>>> = Mutex::new(None);
static NEXT_ID: AtomicI64 = AtomicI64::new(1);

/// The store that registered under `id`, if it is still there.
pub(crate) fn disk(id: i64) -> Option<Arc<Disk>> {
    DISKS.lock().as_ref()?.get(&id)?.upgrade()
}

/// A store's files, known to the VFS until this is dropped.
pub(crate) struct Registration {
    id: i64,
}

impl Registration {
    /// Makes `disk` known; `None` if SQLite does not take the VFS.
    pub(crate) fn new(disk: &Arc<Disk>) -> Option<Self> {
        if !vfs::is_registered() {
            return None;
        }
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        DISKS
            .lock()
            .get_or_insert_default()
            .insert(id, Arc::downgrade(disk));
        Some(Self { id })
    }

    /// What the URI of a database must say so that its files are this store's.
    pub(crate) fn parameter(&self) -> String {
        format!("{PARAMETER_TEXT}={}", self.id)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(disks) = DISKS.lock().as_mut() {
            disks.remove(&self.id);
        }
    }
}
