//! Blocks of trees, with those that were opened lately.
//!
//! Takes   the file system, and a cache of opened blocks
//! Gives   blocks to whoever reads trees
//! Never   answers for the disk: what is to be proven now is asked of `Engine`

use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;
use parking_lot::Mutex;
use strongroom_format::{BlockId, Kind};
use strongroom_history::Blocks;

use super::engine::Engine;
use crate::{Error, Result};

/// Blocks that are kept open.
const CACHED_BLOCKS: NonZeroUsize = NonZeroUsize::new(512).expect("512 is not 0");

/// Longer blocks of trees are values, and opened each time.
const CACHED_BYTES_MAX: usize = 16 * 1024;

/// Opened blocks of trees, by name.
pub(crate) struct BlockCache(Mutex<LruCache<BlockId, Arc<Vec<u8>>>>);

impl Default for BlockCache {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(CACHED_BLOCKS)))
    }
}

impl BlockCache {
    /// Forgets all of them.
    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }
}

/// The blocks of all trees.
#[derive(Clone, Copy)]
pub(crate) struct Trees<'a> {
    pub(super) engine: Engine<'a>,
    pub(super) cache: &'a BlockCache,
}

impl Blocks for Trees<'_> {
    type Error = Error;

    fn open(&self, kind: Kind, id: &BlockId) -> Result<Option<Vec<u8>>> {
        if let Some(known) = self.cache.0.lock().get(id) {
            return Ok(Some(known.as_ref().clone()));
        }
        let opened = self.engine.open(kind, id)?;
        if let Some(opened) = opened.as_ref().filter(|one| one.len() <= CACHED_BYTES_MAX) {
            self.cache.0.lock().put(*id, Arc::new(opened.clone()));
        }
        Ok(opened)
    }
}
