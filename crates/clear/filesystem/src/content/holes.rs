//! Holes of many regions (4 MiB each): their rows count as deleted at once, and are deleted step by step.
//!
//! Takes   whole regions that a truncation or a hole punch empties
//! Gives   whether a region is in such a hole; a hole keeps its own row until the last row of its regions is deleted
//! Never   deletes the rows of more than one step while it holds the lock of the open transaction
//! Spec    spec/4-metadata.md, 4.5.9
//!
//! Every method is called with the lock of the open transaction held, so that memory and rows agree.
//!
//! Invariants
//!  (1) Memory holds exactly the rows of the table `hole`; holes of one inode do not overlap.
//!  (2) Nobody reads a row of a region in a hole as content, and a region that gets content leaves its hole.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use strongroom_metadata::{InodeId, Reads, Transaction};

use crate::Result;

/// All holes that still have rows.
#[derive(Default)]
pub(crate) struct Holes {
    /// Per inode: first region, and the region behind the last.
    by_inode: Mutex<HashMap<InodeId, BTreeMap<u64, u64>>>,
    count: AtomicUsize,
}

impl Holes {
    /// Those that an earlier run left.
    pub(crate) fn load(reads: &Reads) -> Result<Self> {
        let holes = Self::default();
        for (inode, regions) in reads.holes()? {
            holes.note(inode, &regions);
        }
        Ok(holes)
    }

    /// (1): reads the rows again, after a roll-back.
    pub(crate) fn reload(&self, reads: &Reads) -> Result<()> {
        let loaded = Self::load(reads)?;
        let count = loaded.count();
        *self.by_inode.lock() = loaded.by_inode.into_inner();
        self.count.store(count, Ordering::Release);
        Ok(())
    }

    /// How many there are, over all inodes. Needs no writer.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// The inodes that have some.
    pub(crate) fn inodes(&self) -> Vec<InodeId> {
        self.by_inode.lock().keys().copied().collect()
    }

    /// The lowest hole of `inode`.
    pub(crate) fn first(&self, inode: InodeId) -> Option<Range<u64>> {
        let all = self.by_inode.lock();
        let (first, past) = all.get(&inode)?.first_key_value()?;
        Some(*first..*past)
    }

    /// The hole that `region` lies in.
    pub(crate) fn around(&self, inode: InodeId, region: u64) -> Option<Range<u64>> {
        if self.count() == 0 {
            return None;
        }
        let all = self.by_inode.lock();
        let (first, past) = all.get(&inode)?.range(..=region).next_back()?;
        (region < *past).then_some(*first..*past)
    }

    /// The next region at or behind `region` that has a row and lies in no hole.
    pub(crate) fn next_region(
        &self,
        reads: &Reads,
        inode: InodeId,
        mut region: u64,
    ) -> Result<Option<u64>> {
        loop {
            let Some(&found) = reads.regions_from(inode, region, 1)?.first() else {
                return Ok(None);
            };
            match self.around(inode, found) {
                Some(hole) => region = hole.end,
                None => return Ok(Some(found)),
            }
        }
    }

    /// Makes `regions` a hole, joined with those that it touches.
    pub(crate) fn add(
        &self,
        writer: &mut Transaction<'_>,
        inode: InodeId,
        regions: Range<u64>,
    ) -> Result<()> {
        let mut joined = regions;
        let touched: Vec<Range<u64>> = {
            let all = self.by_inode.lock();
            let holes = all.get(&inode).into_iter().flatten();
            holes
                .map(|(first, past)| *first..*past)
                .filter(|hole| hole.start <= joined.end && joined.start <= hole.end)
                .collect()
        };
        for hole in touched {
            joined = joined.start.min(hole.start)..joined.end.max(hole.end);
            self.forget(writer, inode, hole.start)?;
        }
        writer.put_hole(inode, &joined)?;
        self.note(inode, &joined);
        Ok(())
    }

    /// (2): takes `region` out of its hole; gives whether it was in one.
    pub(crate) fn take_out(
        &self,
        writer: &mut Transaction<'_>,
        inode: InodeId,
        region: u64,
    ) -> Result<bool> {
        let Some(hole) = self.around(inode, region) else {
            return Ok(false);
        };
        self.forget(writer, inode, hole.start)?;
        for part in [hole.start..region, region + 1..hole.end] {
            if !part.is_empty() {
                writer.put_hole(inode, &part)?;
                self.note(inode, &part);
            }
        }
        Ok(true)
    }

    /// The lowest hole of `inode` begins at `region` now: rows below have gone.
    pub(crate) fn shrink(
        &self,
        writer: &mut Transaction<'_>,
        inode: InodeId,
        region: u64,
    ) -> Result<()> {
        let Some(hole) = self.first(inode) else {
            return Ok(());
        };
        self.forget(writer, inode, hole.start)?;
        if region < hole.end {
            writer.put_hole(inode, &(region..hole.end))?;
            self.note(inode, &(region..hole.end));
        }
        Ok(())
    }

    /// All rows of `inode` have gone.
    pub(crate) fn forget_all(&self, writer: &mut Transaction<'_>, inode: InodeId) -> Result<()> {
        while let Some(hole) = self.first(inode) {
            self.forget(writer, inode, hole.start)?;
        }
        Ok(())
    }

    fn forget(&self, writer: &mut Transaction<'_>, inode: InodeId, first: u64) -> Result<()> {
        writer.remove_hole(inode, first)?;
        let mut all = self.by_inode.lock();
        if let Some(holes) = all.get_mut(&inode) {
            if holes.remove(&first).is_some() {
                self.count.fetch_sub(1, Ordering::AcqRel);
            }
            if holes.is_empty() {
                all.remove(&inode);
            }
        }
        Ok(())
    }

    fn note(&self, inode: InodeId, regions: &Range<u64>) {
        let mut all = self.by_inode.lock();
        let holes = all.entry(inode).or_default();
        if holes.insert(regions.start, regions.end).is_none() {
            self.count.fetch_add(1, Ordering::AcqRel);
        }
    }
}
