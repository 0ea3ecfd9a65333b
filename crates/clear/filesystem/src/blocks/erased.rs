//! Erased and lost blocks: they have rows, and no bytes.
//!
//! Takes   rows of blocks
//! Gives   the error for a caller that reads an erased block; the rows of lost blocks
//! Never   erases
//! Spec    spec/6-history.md, section 6.11

use strongroom_format::limits::{BLOCK_BYTES_MAX, sealed_len};
use strongroom_format::{BlockId, Epoch, SegmentId};
use strongroom_metadata::{
    BlockNumber, ERASED_SEGMENT, Extent, InodeId, LOST_SEGMENT, Place, SegmentNumber, SegmentState,
    Timestamp, Transaction,
};

use crate::core::Core;
use crate::{Error, Result};

/// The place that stands for a time; 0 for one that cannot be told so. [6.11.3]
pub(crate) fn seconds(time: Timestamp) -> u32 {
    u32::try_from(time.0.div_euclid(NANOSECONDS)).unwrap_or(0)
}

/// Nanoseconds of a second.
const NANOSECONDS: i64 = 1_000_000_000;

/// The error for a caller that reads an erased block, which was stored at `at`.
pub(crate) fn erased(inode: InodeId, offset: u64, at: u32) -> Error {
    let when = (at > 0).then(|| Timestamp(i64::from(at) * NANOSECONDS));
    Error::Erased {
        inode,
        offset,
        when,
    }
}

/// Fails if a block that `extents` of `inode` name was erased.
pub(crate) fn refuse_erased(
    writer: &Transaction<'_>,
    inode: InodeId,
    extents: &[Extent],
) -> Result<()> {
    let Some(grave) = writer.segment_by_id(&ERASED_SEGMENT)? else {
        return Ok(());
    };
    for extent in extents {
        match writer.block(extent.block)?.map(|block| block.place) {
            Some(Place::Segment(segment, at)) if segment == grave.number => {
                return Err(erased(inode, extent.start, at));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The row of a segment that has no file, made when it is first needed.
///
/// # Errors
/// Of the store.
pub fn segment_without_file(
    writer: &mut Transaction<'_>,
    id: &SegmentId,
    epoch: Epoch,
) -> Result<SegmentNumber> {
    if let Some(row) = writer.segment_by_id(id)? {
        if row.state != SegmentState::Finished {
            writer.set_segment_state(row.number, SegmentState::Finished)?;
        }
        return Ok(row.number);
    }
    let number = writer.insert_segment(id, epoch)?;
    writer.set_committed_len(number, sealed_len(BLOCK_BYTES_MAX) as u64)?;
    writer.set_segment_state(number, SegmentState::Finished)?;
    Ok(number)
}

/// Gives a block of content that is nowhere a row in the lost segment; `len`: how many bytes it has, as far as anybody knows.
pub(crate) fn insert_lost(
    core: &Core,
    writer: &mut Transaction<'_>,
    id: &BlockId,
    len: u32,
) -> Result<BlockNumber> {
    let epoch = core.blocks.sealers.newest().epoch();
    let lost = segment_without_file(writer, &LOST_SEGMENT, epoch)?;
    core.blocks.suspect_segment(lost);
    writer.add_total_bytes(lost, sealed_len(len as usize) as u64)?;
    Ok(writer.insert_block(id, len, epoch, 0, Place::Segment(lost, 0), None)?)
}
