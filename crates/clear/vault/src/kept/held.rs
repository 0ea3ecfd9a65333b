//! What kept states hold, and content that leaves all of them.
//!
//! Takes   names of kept states, or a path
//! Gives   counts of bytes; content erased
//! Never   erases what anything else names
//! Spec    spec/6-history.md, sections 6.7 and 6.11

use strongroom_filesystem::{self as filesystem, ERASED_SEGMENT, Filesystem};
use strongroom_history::{self as history, RevisionId};
use strongroom_metadata::Place;

use crate::kept::Kept;
use crate::request::history::ErasedContent;
use crate::{Error, Result};

/// The setting that names what is being erased; empty for nothing.                                 [6.11.6]
const ERASING: &str = "erasing";

impl Kept {
    /// What would come back if `ids` went, in sealed bytes.
    pub(crate) fn held_alone(&self, filesystem: &Filesystem, ids: &[RevisionId]) -> Result<u64> {
        let engine = filesystem.engine();
        let all = self.proven(engine)?;
        if ids.iter().any(|id| all.iter().all(|one| one.id != *id)) {
            return Err(history::Error::UnknownRevision.into());
        }
        history::held_alone(&self.below(engine), ids)
    }

    /// The same for each of `ids` by itself.
    pub(crate) fn each_held_alone(
        &self,
        filesystem: &Filesystem,
        ids: &[RevisionId],
    ) -> Result<Vec<u64>> {
        history::each_held_alone(&self.below(filesystem.engine()), ids)
    }

    /// Takes the content of what was at `path` out of every kept state; with `trial`, only says what that would be.
    ///
    /// # Errors
    /// `File(NotFound)` if no kept state has anything there; those of the stores.
    #[doc(hidden)]
    pub fn erase(
        &self,
        filesystem: &Filesystem,
        path: &[u8],
        trial: bool,
    ) -> Result<ErasedContent> {
        // None is taken meanwhile that names it anew.
        let _turn = self.turn();
        if !trial {
            self.finish_erasing(filesystem)?;
        }
        let engine = filesystem.engine();
        engine.finish_removals()?;
        let found = history::to_erase(&self.below(engine), path)?;
        let mut told = ErasedContent {
            states: found.states,
            files: found.files,
            bytes: found.bytes,
            shared_bytes: found.shared_bytes,
            segments_left: 0,
        };
        if !trial {
            // [6.11.6]
            filesystem.keep_setting(ERASING, path)?;
            let erased = engine.erase(&found.blocks)?;
            filesystem.keep_setting(ERASING, &[])?;
            told.bytes = erased.bytes;
            told.shared_bytes += erased.in_use_bytes;
            told.segments_left = erased.segments_left;
        }
        Ok(told)
    }

    /// Finishes an erasing that was interrupted: content is erased whole, or not at all.              [6.11.6]
    ///
    /// # Errors
    /// Of the stores; then it is tried again by the next opening, and before the next erasing.
    #[doc(hidden)]
    pub fn resume_erasing(&self, filesystem: &Filesystem) -> Result<()> {
        let _turn = self.turn();
        self.finish_erasing(filesystem)
    }

    fn finish_erasing(&self, filesystem: &Filesystem) -> Result<()> {
        let path = filesystem.setting(ERASING)?.unwrap_or_default();
        if path.is_empty() {
            return Ok(());
        }
        let engine = filesystem.engine();
        engine.finish_removals()?;
        match history::to_erase(&self.below(engine), &path) {
            Ok(found) => drop(engine.erase(&found.blocks)?),
            // The states that had it were removed since.
            Err(Error::File(filesystem::Error::NotFound)) => {}
            Err(error) => return Err(error),
        }
        // Nobody knows any more which segments held what was erased before the interruption: all waste goes.
        filesystem.compact()?;
        Ok(filesystem.keep_setting(ERASING, &[])?)
    }

    /// Of the blocks that erasing `path` takes: how many are erased, and how many there are.
    ///
    /// # Errors
    /// As `erase`.
    #[doc(hidden)]
    pub fn erased_blocks(&self, filesystem: &Filesystem, path: &[u8]) -> Result<(usize, usize)> {
        let _turn = self.turn();
        let engine = filesystem.engine();
        let found = history::to_erase(&self.below(engine), path)?;
        let reader = engine.reader()?;
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

    /// What the stored content is for.
    pub(crate) fn stored(&self, filesystem: &Filesystem) -> Result<history::Stored> {
        history::stored(&self.below(filesystem.engine()))
    }
}
