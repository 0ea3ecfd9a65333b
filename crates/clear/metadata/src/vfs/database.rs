//! The files of one database, as the VFS serves them to every connection of a store.

use crate::disk::Disk;
use crate::pages::Pages;
use crate::vfs::log_file::LogFile;
use crate::vfs::log_index::LogIndex;

/// The files of one database.
pub(crate) struct Database {
    pub(crate) disk: Disk,
    /// Whether nothing may be changed or locked, because the medium cannot be written.
    pub(crate) frozen: bool,
    /// What every page must be; `None` for a database of before there was a page tree.
    pub(crate) pages: Option<Pages>,
    /// The writer's log file, for syncing it from another thread.
    pub(super) log_file: LogFile,
    /// The index of the log, shared by all connections.
    pub(super) index: LogIndex,
}

impl Database {
    pub(crate) fn new(disk: Disk, frozen: bool, pages: Option<Pages>) -> Self {
        Self {
            disk,
            frozen,
            pages,
            log_file: LogFile::default(),
            index: LogIndex::default(),
        }
    }
}
