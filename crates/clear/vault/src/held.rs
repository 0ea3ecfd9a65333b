//! What kept states hold, and content that leaves all of them.
//!
//! Takes   names of kept states, or a path
//! Gives   counts of bytes; content erased
//! Never   erases what anything else names
//! Spec    spec/6-history.md, sections 6.7 and 6.11

use strongroom_filesystem::Filesystem;
use strongroom_history::{self as history, RevisionId};

use crate::Result;
use crate::kept::Kept;
use crate::request_history::ErasedContent;

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
    pub(crate) fn erase(
        &self,
        filesystem: &Filesystem,
        path: &[u8],
        trial: bool,
    ) -> Result<ErasedContent> {
        // None is taken meanwhile that names it anew.
        let _turn = self.turn();
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
            let erased = engine.erase(&found.blocks)?;
            told.bytes = erased.bytes;
            told.shared_bytes += erased.in_use_bytes;
            told.segments_left = erased.segments_left;
        }
        Ok(told)
    }

    /// What the stored content is for.
    pub(crate) fn stored(&self, filesystem: &Filesystem) -> Result<history::Stored> {
        history::stored(&self.below(filesystem.engine()))
    }
}
