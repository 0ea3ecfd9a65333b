//! Opens blocks of trees; recently opened ones come from memory.
//!
//! Takes   the file system, and a cache of opened blocks
//! Gives   blocks to the code that reads trees
//! Never   proves that the disk still has a block: code that needs the proof asks `Engine`

use std::sync::Arc;

use strongroom_format::{BlockId, Kind};
use strongroom_history::Blocks;

use crate::core::revisions::BlockCache;
use crate::trees::engine::Engine;
use crate::{Error, Result};

/// Longer blocks of trees are values, and opened each time.
const CACHED_BYTES_MAX: usize = 16 * 1024;

/// The blocks of all trees.
#[derive(Clone, Copy)]
pub(crate) struct Trees<'a> {
    engine: Engine<'a>,
    cache: &'a BlockCache,
}

impl<'a> Engine<'a> {
    /// The blocks of all trees, of which those opened lately are not opened again.
    pub(crate) fn trees(self) -> Trees<'a> {
        let cache = &self.core().history.blocks;
        Trees {
            engine: self,
            cache,
        }
    }
}

impl Blocks for Trees<'_> {
    type Error = Error;

    fn open(&self, kind: Kind, id: &BlockId) -> Result<Option<Vec<u8>>> {
        if let Some(known) = self.cache.0.lock().get(id) {
            return Ok(Some(known.as_ref().clone()));
        }
        let opened = self.engine.open_near(kind, id)?;
        if let Some(opened) = opened.as_ref().filter(|one| one.len() <= CACHED_BYTES_MAX) {
            self.cache.0.lock().put(*id, Arc::new(opened.clone()));
        }
        Ok(opened)
    }
}
