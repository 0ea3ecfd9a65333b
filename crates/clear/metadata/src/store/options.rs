//! The options with which a store is opened.

use std::sync::Arc;

use crate::disk::DiskObserver;
use crate::limits::{
    CACHE_BYTES_DEFAULT, LOG_BYTES_DEFAULT, READER_CACHE_BYTES_DEFAULT, RESERVE_BYTES_DEFAULT,
};

/// How a store is opened.
#[derive(Clone)]
pub struct Options {
    /// What the writer's page cache may hold, in bytes.
    pub cache_bytes: usize,
    /// What the page cache of each reader may hold, in bytes.
    pub reader_cache_bytes: usize,
    /// Bytes kept back on the disk for a commit that meets a full one; 0 for none.
    pub reserve_bytes: u64,
    /// `checkpoint` has something to do once the log is longer than this, in bytes.
    pub log_bytes: u64,
    /// Who is asked before every use of a file.
    pub observer: Option<Arc<dyn DiskObserver>>,
    /// What a database is that has no page tree.
    pub missing_tree: MissingTree,
}

/// What becomes of a database without `metadata.db-tree`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingTree {
    /// It is damaged.
    #[default]
    Refused,
    /// It was written before there were page trees: what it holds now is taken for sound, and gets one.
    Made,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cache_bytes: CACHE_BYTES_DEFAULT,
            reader_cache_bytes: READER_CACHE_BYTES_DEFAULT,
            reserve_bytes: RESERVE_BYTES_DEFAULT,
            log_bytes: LOG_BYTES_DEFAULT,
            observer: None,
            missing_tree: MissingTree::default(),
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Options")
            .field("cache_bytes", &self.cache_bytes)
            .field("reader_cache_bytes", &self.reader_cache_bytes)
            .field("reserve_bytes", &self.reserve_bytes)
            .field("log_bytes", &self.log_bytes)
            .field("missing_tree", &self.missing_tree)
            .finish_non_exhaustive()
    }
}
