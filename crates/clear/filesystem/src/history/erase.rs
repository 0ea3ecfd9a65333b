//! Erases content from all snapshots.
//!
//! Takes   a path
//! Gives   the path's content erased
//! Never   erases content that anything else refers to
//! Spec    spec/6-history.md, section 6.11

use strongroom_format::limits::sealed_len;
use strongroom_history::{self as history, ErasedContent, Erasure};
use strongroom_metadata::{ERASED_SEGMENT, Place};

use crate::upkeep::erase::{bring_back_segments_of, erase, finish_removals};
use crate::{Error, Filesystem, Result};

/// The setting that names what is being erased; empty for nothing.                                 [6.11.6]
const ERASING: &str = "erasing";

impl Filesystem {
    /// Takes the content of what was at `path` out of every snapshot; with `trial`, only says what that would be.
    ///
    /// # Errors
    /// `NotFound` if no snapshot has anything there; of the stores.
    pub fn erase_content(&self, path: &[u8], trial: bool) -> Result<ErasedContent> {
        // None is taken meanwhile that names it again.
        let _turn = self.hold_revisions();
        if !trial {
            self.finish_erasing()?;
        }
        let _giving_back = finish_removals(&self.core)?;
        let found = self.find_content(path)?;
        if trial {
            return self.left_to_erase(&found);
        }
        // What is away has to be here to be emptied: without its remote nothing begins.
        bring_back_segments_of(&self.core, &found)?;
        // [6.11.6]
        self.keep_setting(ERASING, path)?;
        let erased = erase(&self.core, found)?;
        self.keep_setting(ERASING, &[])?;
        Ok(erased)
    }

    fn find_content(&self, path: &[u8]) -> Result<Erasure> {
        let engine = self.engine();
        let reader = engine.reader()?;
        let state = reader.snapshot()?;
        history::to_erase(&engine.trees(), &state, path)
    }

    /// What erasing would take now: not what was erased before.
    fn left_to_erase(&self, found: &Erasure) -> Result<ErasedContent> {
        let reader = self.engine().reader()?;
        let grave = reader.segment_by_id(&ERASED_SEGMENT)?.map(|row| row.number);
        let mut content = found.content;
        for (number, _) in &found.blocks {
            if let Some(block) = reader.block(*number)?
                && let Place::Segment(segment, _) = block.place
                && Some(segment) == grave
            {
                content.bytes -= sealed_len(block.clear_len as usize) as u64;
            }
        }
        Ok(content)
    }

    /// Finishes an erasing that was interrupted: content is erased whole, or not at all.              [6.11.6]
    ///
    /// # Errors
    /// Of the stores; then it is tried again by the next opening, and before the next erasing.
    pub fn resume_erasing(&self) -> Result<()> {
        let _turn = self.hold_revisions();
        self.finish_erasing()
    }

    fn finish_erasing(&self) -> Result<()> {
        let path = self.setting(ERASING)?.unwrap_or_default();
        if path.is_empty() {
            return Ok(());
        }
        let giving_back = finish_removals(&self.core)?;
        match self.find_content(&path) {
            Ok(found) => drop(erase(&self.core, found)?),
            // The snapshots that had it were removed since.
            Err(Error::NotFound) => {}
            Err(error) => return Err(error),
        }
        drop(giving_back);
        // Nobody knows any more which segments held what was erased before the interruption: all waste goes.
        self.compact()?;
        self.keep_setting(ERASING, &[])
    }

    /// Of the blocks that erasing `path` takes: how many are erased, and how many there are. For tests of interruptions.
    ///
    /// # Errors
    /// As `erase_content`.
    #[doc(hidden)]
    pub fn erased_blocks(&self, path: &[u8]) -> Result<(usize, usize)> {
        let _turn = self.hold_revisions();
        let found = self.find_content(path)?;
        let reader = self.engine().reader()?;
        let grave = reader.segment_by_id(&ERASED_SEGMENT)?;
        let mut erased = 0;
        for (number, _) in &found.blocks {
            let place = reader.block(*number)?.map(|block| block.place);
            let is_erased = matches!(
                (&grave, place),
                (Some(grave), Some(Place::Segment(at, _))) if at == grave.number
            );
            erased += usize::from(is_erased);
        }
        Ok((erased, found.blocks.len()))
    }
}
