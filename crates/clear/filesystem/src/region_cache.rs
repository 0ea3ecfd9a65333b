//! Extents in memory: per node a few regions, over all nodes a bounded sum of bytes.
//!
//! Takes   the extents of regions, as the transaction has them
//! Gives   the same again without a look at the database, while they stay
//! Never   holds a lock over all nodes: the sum is a counter, eviction visits nodes one by one
//!
//! Invariants
//!  (1) The gauge is the sum of the costs of all regions in all caches.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use strongroom_metadata::Extent;

use crate::limits::{NODE_REGIONS_MAX, REGION_CACHED_BYTES_MAX};

/// Bytes that a region costs besides its extents: its place in the map and its list's head.
const REGION_COST: usize = 96;

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
    regions: HashMap<u64, Arc<Vec<Extent>>>,
    bytes: usize,
    /// Second chance: set by each use, cleared when eviction passes by.
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
        let found = self.regions.get(&region).map(Arc::clone);
        self.used |= found.is_some();
        found
    }

    /// Keeps the extents of `region`, unless they are too many to be worth it.
    pub(crate) fn insert(&mut self, region: u64, extents: &Arc<Vec<Extent>>) {
        self.retain(|other| other != region);
        if cost(extents) > REGION_CACHED_BYTES_MAX {
            return;
        }
        if self.regions.len() >= NODE_REGIONS_MAX {
            self.clear();
        }
        self.count(cost(extents).cast_signed());
        self.regions.insert(region, Arc::clone(extents));
    }

    /// Forgets the regions that `keep` does not name.
    pub(crate) fn retain(&mut self, keep: impl Fn(u64) -> bool) {
        let mut freed = 0;
        self.regions.retain(|region, extents| {
            let keep = keep(*region);
            freed += if keep { 0 } else { cost(extents) };
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

fn cost(extents: &Vec<Extent>) -> usize {
    REGION_COST + extents.capacity() * size_of::<Extent>()
}
