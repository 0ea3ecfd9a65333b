//! Remembers blocks that recently opened as a whole: equal new content shares them without a read, and is not sealed.
//!
//! Takes   notes of blocks that opened, and of blocks that did not
//! Gives   whether a block, by its number or its id, is among the last that opened
//! Never   holds more than `2 * OPENED_BLOCKS_MAX`
//! Spec    spec/7-recovery.md, [7.7.10]

use std::collections::HashMap;

use parking_lot::Mutex;
use strongroom_format::BlockId;
use strongroom_metadata::BlockNumber;

use crate::limits::OPENED_BLOCKS_MAX;

#[derive(Default)]
pub(crate) struct OpenedBlocks(Mutex<Generations>);

/// At most `OPENED_BLOCKS_MAX` each: the older one goes as a whole.
#[derive(Default)]
struct Generations {
    recent: HashMap<BlockId, BlockNumber>,
    older: HashMap<BlockId, BlockNumber>,
}

impl OpenedBlocks {
    /// All of this block was read and opened just now.
    pub(crate) fn note(&self, id: BlockId, number: BlockNumber) {
        let mut opened = self.0.lock();
        if opened.recent.len() >= OPENED_BLOCKS_MAX {
            opened.older = std::mem::take(&mut opened.recent);
        }
        opened.recent.insert(id, number);
    }

    /// Whether a block of this name opened a short while ago. It may have been removed since: ask `known`.
    pub(crate) fn has(&self, id: &BlockId) -> bool {
        self.0.lock().get(id).is_some()
    }

    /// Whether all of this block was read and opened a short while ago, and nothing was found wrong with it since.
    pub(crate) fn is_known(&self, id: &BlockId, number: BlockNumber) -> bool {
        self.0.lock().get(id) == Some(number)
    }

    /// This block did not open.
    pub(crate) fn forget(&self, number: BlockNumber) {
        let mut opened = self.0.lock();
        opened.recent.retain(|_, other| *other != number);
        opened.older.retain(|_, other| *other != number);
    }

    /// Nobody knows any more which of them are sound, and here.
    pub(crate) fn forget_all(&self) {
        *self.0.lock() = Generations::default();
    }
}

impl Generations {
    fn get(&self, id: &BlockId) -> Option<BlockNumber> {
        self.recent.get(id).or_else(|| self.older.get(id)).copied()
    }
}
