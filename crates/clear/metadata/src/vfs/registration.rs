//! Turns an id in the URI of a file into the store that the file belongs to.
//!
//! Takes   the `Database` of a store that is being opened
//! Gives   the parameter for the URI of its database; for the VFS, the `Database` for an id
//! Never   gives the `Database` of a store that was dropped
//! Spec    spec/4-metadata.md, 4.8.2

use std::collections::HashMap;
use std::ffi::CStr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::vfs::database::Database;

/// The URI parameter that says whose file it is.
pub(crate) const PARAMETER: &CStr = c"strongroom";

/// `PARAMETER`, for writing a URI.
const PARAMETER_TEXT: &str = "strongroom";

static DATABASES: Mutex<Option<HashMap<i64, Weak<Database>>>> = Mutex::new(None);
static NEXT_ID: AtomicI64 = AtomicI64::new(1);

/// The store that registered under `id`, if it is still there.
pub(crate) fn database(id: i64) -> Option<Arc<Database>> {
    DATABASES.lock().as_ref()?.get(&id)?.upgrade()
}

/// A store's files, known to the VFS until this is dropped.
pub(crate) struct Registration {
    id: i64,
}

impl Registration {
    /// Makes `database` known.
    pub(crate) fn new(database: &Arc<Database>) -> Self {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        DATABASES
            .lock()
            .get_or_insert_default()
            .insert(id, Arc::downgrade(database));
        Self { id }
    }

    /// What the URI of a database must say so that its files are this store's.
    pub(crate) fn parameter(&self) -> String {
        format!("{PARAMETER_TEXT}={}", self.id)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(databases) = DATABASES.lock().as_mut() {
            databases.remove(&self.id);
        }
    }
}
