//! Tells content that was erased from content that is lost.
//!
//! Takes   a rebuild that has written all its rows, and the erasures that the tree of its newest snapshot notes
//! Gives   rows of lost content, marked as erased where an erasure explains the loss
//! Never   changes the row of content that exists, or that a file of the current state names
//! Spec    spec/6-history.md, section 6.11; spec/7-recovery.md, [7.4.10]

use strongroom_filesystem::segment_without_file;
use strongroom_format::Epoch;
use strongroom_format::limits::sealed_len;
use strongroom_history::limits::ERASURES_AT_ONCE;
use strongroom_history::{ERASURES, Erasures, Revision, to_erase_noted};
use strongroom_metadata::{BlockNumber, ERASED_SEGMENT, InodeId, Place, SegmentNumber};

use crate::recovery::rebuild::Work;
use crate::{Error, Result};

impl Work<'_, '_> {
    /// Lets the rows of lost content say that it was erased, where the erasures in the tree cover it, by the rule of every device. The
    /// next opening erases the part of that content that is still somewhere. All rows are committed before. `kept`: the snapshots.
    pub(crate) fn erased(&mut self, kept: &[Revision]) -> Result<()> {
        if self.result.missing == 0 {
            return Ok(());
        }
        let value = self.writer.xattr(InodeId::ROOT, ERASURES)?;
        // What cannot be read counts as empty.
        let erasures = value.and_then(|value| Erasures::decode(&value).ok());
        let erasures = erasures.unwrap_or_default();
        for notes in erasures.all().chunks(ERASURES_AT_ONCE) {
            let found = to_erase_noted(self.given.blocks, &self.writer, notes, kept.iter());
            let found = match found {
                // A node of some tree is lost, too, which may name the content for another file: nobody knows whether it was erased.
                Err(Error::Damaged { .. }) => return Ok(()),
                found => found?,
            };
            for (note, found) in notes.iter().zip(found) {
                let when = u32::try_from(note.time_s).unwrap_or(0);
                // Erasures that no snapshot here is about are errors.
                for (number, _) in found.into_iter().flat_map(|one| one.blocks) {
                    self.bury(number, when)?;
                }
            }
            if self.result.missing == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Lets the row of a block say that it was erased, `when` in seconds since 1970, if it says that the block is lost.   [6.11.3]
    fn bury(&mut self, number: BlockNumber, when: u32) -> Result<()> {
        let Some(block) = self.writer.block(number)? else {
            return Ok(());
        };
        let is_lost = |at: SegmentNumber| Some(at) == self.lost_segment;
        if !matches!(block.place, Place::Segment(at, _) if is_lost(at)) {
            return Ok(());
        }
        // Its epoch means nothing: nothing is sealed there.
        let grave = segment_without_file(&mut self.writer, &ERASED_SEGMENT, Epoch(0))?;
        let place = Place::Segment(grave, when);
        self.writer.move_block(number, block.epoch, place)?;
        let bytes = sealed_len(block.clear_len as usize) as u64;
        self.writer.add_total_bytes(grave, bytes)?;
        self.result.missing = self.result.missing.saturating_sub(1);
        self.commit_if_large()
    }
}
