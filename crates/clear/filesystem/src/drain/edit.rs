//! Changes the extents of one node, region by region.
//!
//! Takes   extents to insert, and ranges to punch
//! Gives   consistent rows of regions, references of blocks, and `allocated`
//! Never   deletes more than a bounded number of rows while it holds the lock of the open transaction

use std::sync::Arc;

use strongroom_metadata::{Extent, REGION_BYTES, Transaction};

use crate::Result;
use crate::content::extents::{self, Edited};
use crate::content::node::{Node, NodeState};
use crate::core::Core;

/// Changes the extents of one node, region by region, and keeps references and `allocated` right.
pub(crate) struct RegionEdit<'a> {
    core: &'a Core,
    node: &'a Arc<Node>,
    state: &'a mut NodeState,
    /// How many more extents holes may drop in this hold of the writer; the purge drops the rest.
    drops: &'a mut usize,
    /// The region at hand, and its number.
    open: Option<(u64, Edited)>,
    fragmented: Vec<u64>,
}

impl<'a> RegionEdit<'a> {
    pub(crate) fn new(
        core: &'a Core,
        node: &'a Arc<Node>,
        state: &'a mut NodeState,
        drops: &'a mut usize,
    ) -> Self {
        Self {
            core,
            node,
            state,
            drops,
            open: None,
            fragmented: Vec::new(),
        }
    }

    /// Makes `extent` (whose block already counts this reference) the content of its range.
    pub(crate) fn put(&mut self, writer: &mut Transaction<'_>, extent: Extent) -> Result<()> {
        let edited = self.region(writer, extent.start / REGION_BYTES)?;
        edited.put(extent);
        let fragments = extents::fragments_in_cell(edited.extents(), extent.start);
        if fragments > self.core.options.thresholds.cell_fragments_max {
            self.fragmented
                .push(extent.start - extent.start % crate::content::overlay::CELL_BYTES);
        }
        Ok(())
    }

    /// Removes what `range` holds: a bounded part of the rows now, and what else lies in whole regions later.
    pub(crate) fn punch(
        &mut self,
        writer: &mut Transaction<'_>,
        range: std::ops::Range<u64>,
    ) -> Result<()> {
        self.close(writer)?;
        let last = (range.end - 1) / REGION_BYTES;
        let whole = range.start.div_ceil(REGION_BYTES)..range.end / REGION_BYTES;
        let mut from = range.start / REGION_BYTES;
        loop {
            let holes = &self.core.content.holes;
            let region = match holes.next_region(writer, self.node.id, from)? {
                Some(region) if region <= last => region,
                _ => return Ok(()),
            };
            if *self.drops == 0 && whole.contains(&region) {
                self.leave_to_purge(writer, region..whole.end)?;
                from = whole.end;
                continue;
            }
            let edited = self.region(writer, region)?;
            let count = edited.extents().len();
            edited.remove(&range);
            *self.drops = self.drops.saturating_sub(count);
            from = region + 1;
        }
    }

    /// Makes `regions` a hole whose rows go later. None of them may be open.
    fn leave_to_purge(
        &mut self,
        writer: &mut Transaction<'_>,
        regions: std::ops::Range<u64>,
    ) -> Result<()> {
        let core = self.core;
        self.state
            .regions
            .retain(|region| !regions.contains(&region));
        core.content.holes.add(writer, self.node.id, regions)?;
        core.work.purge(self.node.id, 0);
        Ok(())
    }

    fn region(&mut self, writer: &mut Transaction<'_>, region: u64) -> Result<&mut Edited> {
        if self.open.as_ref().is_none_or(|(open, _)| *open != region) {
            self.close(writer)?;
            // Content comes to a region of a hole: what the row still says, and memory does not, is dropped with it.
            let was_hole = self
                .core
                .content
                .holes
                .take_out(writer, self.node.id, region)?;
            // Nothing was ever stored of a file without bytes, neither now nor by its row: so there is nothing to look for.
            let is_new = self.state.stored_size == 0 && self.state.inode.allocated == 0;
            let mut edited = match self.state.regions.get(region) {
                Some(extents) if !was_hole => Edited::new(extents.to_vec()),
                None if is_new && !was_hole => Edited::new(Vec::new()),
                _ => Edited::new(writer.region(self.node.id, region)?),
            };
            if was_hole {
                edited.remove(&(0..u64::MAX));
            }
            self.open = Some((region, edited));
        }
        let (_, edited) = self.open.as_mut().expect("opened just above");
        Ok(edited)
    }

    fn close(&mut self, writer: &mut Transaction<'_>) -> Result<()> {
        let Some((region, edited)) = self.open.take() else {
            return Ok(());
        };
        let (extents, references, bytes) = edited.finish();
        for (block, change) in references {
            writer.change_references(block, change)?;
        }
        let inode = &mut self.state.inode;
        inode.allocated = inode.allocated.saturating_add_signed(bytes);
        writer.put_region(self.node.id, region, &extents)?;
        self.state.regions.insert(region, &Arc::new(extents));
        self.core.content.nodes.bound_extents(self.state);
        Ok(())
    }

    /// Writes the last region; gives the cells that have too many fragments.
    pub(crate) fn finish(mut self, writer: &mut Transaction<'_>) -> Result<Vec<u64>> {
        self.close(writer)?;
        self.fragmented.dedup();
        Ok(self.fragmented)
    }
}
