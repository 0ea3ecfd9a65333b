//! The state that all connections of a store share: how a connection is made, and whether changes are still allowed.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;
use strongroom_folder::Folder;

use crate::error::{Error, Result};
use crate::limits::KEY_BYTES;
use crate::pages::Pages;
use crate::store::connect::{Access, connect};
use crate::store::files::Files;
use crate::store::gauges::Gauges;
use crate::store::options::Options;
use crate::tables::reads::Reads;
use crate::tables::sql::StatementCounts;

/// What every connection of a store needs to know.
pub(crate) struct Shared {
    /// As the caller named it.
    pub(super) path: PathBuf,
    pub(crate) folder: Folder,
    pub(crate) access: Access,
    pub(crate) options: Options,
    pub(crate) counts: Arc<StatementCounts>,
    pub(crate) gauges: Gauges,
    /// Replaced when the database gets another key.
    pub(super) files: RwLock<Arc<Files>>,
    pub(super) failed: AtomicBool,
}

impl Shared {
    /// A keyed connection.
    pub(crate) fn connect(&self, cache_bytes: usize) -> Result<Reads> {
        let files = self.files();
        let connection = connect(&files.uri, &files.key, self.access, cache_bytes)?;
        Ok(Reads::new(connection, Arc::clone(&self.counts)))
    }

    pub(crate) fn files(&self) -> Arc<Files> {
        Arc::clone(&self.files.read())
    }

    /// Continues on what `folder` has now, under `key`. No connection is open.
    pub(crate) fn take_over(&self, key: &[u8; KEY_BYTES]) -> Result<()> {
        let pages = Pages::load(&self.folder, key, true)?;
        let (path, folder) = (&self.path, &self.folder);
        let files = Files::new(path, folder, key, &self.options, self.access, Some(pages))?;
        files.disk().go_on_counting(self.files().disk());
        *self.files.write() = Arc::new(files);
        Ok(())
    }

    /// # Errors
    /// Why nothing may be changed.
    pub(crate) fn writable(&self) -> Result<()> {
        if self.access != Access::ReadWrite {
            return Err(Error::ReadOnly);
        }
        if self.failed.load(Ordering::Acquire) || self.files().disk().sync_failed() {
            return Err(Error::Failed);
        }
        Ok(())
    }

    /// The database is made.
    pub(super) fn made(&self) {
        if let Some(pages) = &self.files().database.pages {
            pages.made();
        }
    }

    pub(crate) fn fail(&self) {
        self.failed.store(true, Ordering::Release);
    }
}
