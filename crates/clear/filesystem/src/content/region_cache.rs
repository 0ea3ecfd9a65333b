//! Caches extents and the places of their blocks: a few regions (4 MiB) per node, and a bounded sum of bytes over all nodes.
//!
//! Takes   the extents of regions, as the transaction has them, and the rows of blocks that were read
//! Gives   the same again without a query of the database, until they are evicted
//! Never   takes a lock over all nodes: the sum is a counter, and eviction visits nodes one by one
//!
//! Invariants
//!  (1) `gauge` is the sum of the costs of all regions in all caches.
//!  (2) A block is remembered only together with an extent that names it, so its number still means this content. Its
//!      place may be out of date: code that does not find the block there calls `forget_blocks` and asks the database.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use strongroom_format::Location;
use strongroom_metadata::{Block, BlockNumber, Extent};

use crate::limits::{NODE_REGIONS_MAX, REGION_CACHED_BYTES_MAX};

/// Bytes that a region costs besides its extents: its place in the map and its list's head.
const REGION_COST: usize = 160;

/// Bytes that a remembered block costs, with the free places of its map.
const BLOCK_COST: usize = 2 * size_of::<(BlockNumber, FoundBlock)>();

/// A block of a segment, as the database had it.
#[derive(Clone, Debug)]
pub(crate) struct FoundBlock {
    pub(crate) block: Block,
    pub(crate) location: Location,
}

struct Region {
    extents: Arc<Vec<Extent>>,
    blocks: HashMap<BlockNumber, FoundBlock>,
}

/// Bytes of extents in the caches of all nodes.
#[derive(Default)]
pub(crate) struct Gauge(AtomicUsize);

impl Gauge {
    pub(crate) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// The regions of one node that were read lately.
pub(crate) struct RegionCache {
    regions: HashMap<u64, Region>,
    bytes: usize,
    /// Second chance: set by each use, cleared when eviction comes to it.
    used: bool,
    gauge: Arc<Gauge>,
}

impl RegionCache {
    pub(crate) fn new(gauge: Arc<Gauge>) -> Self {
        Self {
            regions: HashMap::new(),
            bytes: 0,
            used: false,
            gauge,
        }
    }

    /// The extents of `region`, if they are here.
    pub(crate) fn get(&mut self, region: u64) -> Option<Arc<Vec<Extent>>> {
        let found = self.regions.get(&region);
        self.used |= found.is_some();
        found.map(|region| Arc::clone(&region.extents))
    }

    /// Where `number`, a block of `region`, was found last.
    pub(crate) fn block(&self, region: u64, number: BlockNumber) -> Option<FoundBlock> {
        self.regions.get(&region)?.blocks.get(&number).cloned()
    }

    /// Remembers where a block of `region` was found, if the region is here. (2)
    pub(crate) fn remember(&mut self, region: u64, found: FoundBlock) {
        let Some(region) = self.regions.get_mut(&region) else {
            return;
        };
        if region.blocks.insert(found.block.number, found).is_none() {
            self.count(BLOCK_COST.cast_signed());
        }
    }

    /// Forgets where blocks were found: one of them is there no more. (2)
    pub(crate) fn forget_blocks(&mut self) {
        let mut freed = 0;
        for region in self.regions.values_mut() {
            freed += BLOCK_COST * region.blocks.len();
            region.blocks = HashMap::new();
        }
        self.count(-freed.cast_signed());
    }

    /// Keeps the extents of `region`, unless they are too many to be worth it.
    pub(crate) fn insert(&mut self, region: u64, extents: &Arc<Vec<Extent>>) {
        if let Some(before) = self.regions.remove(&region) {
            self.count(-cost(&before).cast_signed());
        }
        let new = Region {
            extents: Arc::clone(extents),
            blocks: HashMap::new(),
        };
        let cost = cost(&new);
        if cost > REGION_CACHED_BYTES_MAX {
            return;
        }
        if self.regions.len() >= NODE_REGIONS_MAX {
            self.clear();
        }
        self.count(cost.cast_signed());
        self.regions.insert(region, new);
    }

    /// Forgets the regions that `keep` does not name.
    pub(crate) fn retain(&mut self, keep: impl Fn(u64) -> bool) {
        let mut freed = 0;
        self.regions.retain(|number, region| {
            let keep = keep(*number);
            freed += if keep { 0 } else { cost(region) };
            keep
        });
        self.count(-freed.cast_signed());
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        // A new map: one that was cleared keeps its room.
        self.regions = HashMap::new();
        self.count(-self.bytes.cast_signed());
    }

    /// Forgets all that was not used since the last time.
    pub(crate) fn evict(&mut self) {
        if !std::mem::take(&mut self.used) && self.bytes > 0 {
            self.clear();
        }
    }

    /// (1)
    fn count(&mut self, change: isize) {
        self.bytes = self.bytes.wrapping_add_signed(change);
        // Wraps as the sum of all changes does, so that it is right again whenever everybody is done.
        let _ = self
            .gauge
            .0
            .fetch_add(change.cast_unsigned(), Ordering::Relaxed);
    }
}

impl Drop for RegionCache {
    fn drop(&mut self) {
        self.clear();
    }
}

fn cost(region: &Region) -> usize {
    REGION_COST + region.extents.capacity() * size_of::<Extent>() + region.blocks.len() * BLOCK_COST
}
