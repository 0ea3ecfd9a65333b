//! Isolates damage: no new content shares a block that does not open, in this run or a later one.
//!
//! Takes   blocks that do not open
//! Gives   a list of them that outlives this run; rows of wholly lost blocks refer to `LOST_SEGMENT`
//! Never   drops a block that is still referenced
//! Spec    spec/7-recovery.md, section 7.7

use strongroom_format::limits::{BLOCK_BYTES_MAX, sealed_len};
use strongroom_format::span::chunk_count;
use strongroom_format::{BlockId, SegmentId};
use strongroom_metadata::{Block, BlockNumber, Place, SegmentNumber, Transaction};

use crate::blocks::erased::{insert_lost, segment_without_file};
use crate::core::Core;
use crate::limits::ISOLATED_BLOCKS_MAX;
use crate::trees::engine::Engine;
use crate::upkeep::compact::reclaim;
use crate::{DamagedBlock, Error, Filesystem, LOST_SEGMENT, LostChunks, Result};

/// The setting that lists blocks which did not open.
const DAMAGED_BLOCKS: &str = "damaged_blocks";

impl Filesystem {
    /// Lists `blocks` and `waiting` as damaged in place of those that were, durably; and gives those of `blocks` of which nothing opens a
    /// place that says so. `waiting` stay where they are: their segment may come back.
    ///
    /// # Errors
    /// Of the stores.
    pub fn isolate(&self, blocks: &[DamagedBlock], waiting: &[DamagedBlock]) -> Result<()> {
        let core: &Core = &self.core;
        let engine = Engine::of(core);
        engine.change(|writer| {
            for damaged in blocks {
                if let Some(block) = writer.block(damaged.number)? {
                    let lost = isolate(core, writer, &block, damaged.chunks)?;
                    lost.into_iter()
                        .for_each(|lost| core.blocks.suspect_segment(lost));
                }
            }
            let listed = blocks.iter().chain(waiting).take(ISOLATED_BLOCKS_MAX);
            let bytes: Vec<u8> = listed.flat_map(|one| one.number.0.to_le_bytes()).collect();
            Ok::<(), Error>(writer.put_setting(DAMAGED_BLOCKS, &bytes)?)
        })?;
        engine.commit()
    }

    /// Gives each of `ids` that has no row one in the lost segment, without references, as of content: nobody knows what it was. Gives the
    /// numbers of the new rows.                                                                                [7.4.2]
    ///
    /// # Errors
    /// Of the store.
    pub fn insert_lost(&self, ids: &[BlockId]) -> Result<Vec<BlockNumber>> {
        let core: &Core = &self.core;
        Engine::of(core).change(|writer| {
            let mut new = Vec::new();
            for id in ids {
                if writer.block_by_id(id)?.is_none() {
                    new.push(insert_lost(core, writer, id, BLOCK_BYTES_MAX as u32)?);
                }
            }
            Ok::<_, Error>(new)
        })
    }

    /// From now on, in this run, nothing new is named after `blocks`: what is stored under their names goes to new places.
    pub fn suspect(&self, blocks: &[BlockNumber]) {
        blocks
            .iter()
            .for_each(|number| self.core.blocks.suspect_block(*number));
    }

    /// Gives a finished segment the file that it had when it was written, durably: who calls has proven that `bytes` are those.
    ///
    /// # Errors
    /// Of the disk; then the file that was there is there.
    pub fn replace_segment(&self, id: SegmentId, bytes: &[u8]) -> Result<()> {
        Ok(self.core.blocks.segments.replace(id, bytes)?)
    }

    /// Removes segment files in which nothing is left that somebody names.
    ///
    /// # Errors
    /// Of the stores.
    pub fn drop_empty_segments(&self) -> Result<()> {
        // Leaving is one commit, going the next.
        for _ in 0..2 {
            reclaim(&self.core)?;
            self.sync()?;
        }
        Ok(())
    }
}

/// Gives a block of which nothing opens its place in the lost segment, and that segment's number.
fn isolate(
    core: &Core,
    writer: &mut Transaction<'_>,
    block: &Block,
    chunks: LostChunks,
) -> Result<Option<SegmentNumber>> {
    let Place::Segment(segment, _) = block.place else {
        return Ok(None);
    };
    let Some(row) = writer.segment(segment)? else {
        return Ok(None);
    };
    let all = LostChunks::first(chunk_count(block.clear_len as usize));
    if row.id == LOST_SEGMENT || chunks.0 & all.0 != all.0 {
        return Ok(None);
    }
    let epoch = core.blocks.sealers.newest().epoch();
    let lost = segment_without_file(writer, &LOST_SEGMENT, epoch)?;
    let len = sealed_len(block.clear_len as usize) as u64;
    writer.add_total_bytes(lost, len)?;
    writer.move_block(block.number, block.epoch, Place::Segment(lost, 0))?;
    Ok(Some(lost))
}

/// Takes up what earlier runs found.
pub(crate) fn resume(core: &Core) -> Result<()> {
    let bytes = core.store.lock().setting(DAMAGED_BLOCKS)?;
    for number in bytes.unwrap_or_default().as_chunks::<8>().0 {
        core.blocks
            .suspect_block(BlockNumber(u64::from_le_bytes(*number)));
    }
    Ok(())
}
