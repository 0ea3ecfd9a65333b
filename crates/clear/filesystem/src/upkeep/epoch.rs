//! Begins a new epoch during other operations, and ends the segments of the epoch before.
//!
//! Takes   the sealer of a new epoch
//! Gives   the new epoch in use; the earlier epoch's open segments and log, ended
//! Never   ends a segment under other keys than its own, while its own are available
//!
//! Invariants
//!  (1) A segment that is unfinished when the new epoch begins is ended with the keys of its own epoch. If that is not
//!      possible then (a full disk), it is ended later without a list of its blocks.                       [3.8]

use strongroom_crypto::BlockSealer;
use strongroom_format::SegmentId;

use crate::commit::intents::end_older;
use crate::core::{Core, Work};
use crate::upkeep::space::{end_segment, note_finished};
use crate::{Filesystem, Result};

impl Filesystem {
    /// Seals with `sealer` from now on: nothing is sealed under an older epoch after the return.
    ///
    /// `sealer`: knows every epoch that this file system has blocks of, and its newest is not older than the one in
    /// use. Waits for those who seal at this moment, and for the end of the open segment.
    ///
    /// # Errors
    /// The new epoch has begun nevertheless; what could not be finished is finished later.
    pub fn begin_epoch(&self, sealer: BlockSealer) -> Result<()> {
        let core = &self.core;
        let mut ended = Vec::new();
        core.blocks.sealers.begin_epoch(sealer, |older| {
            if core.options.read_only {
                return;
            }
            let _doing = core.options.doing(Work::Rollover);
            for id in unfinished(core) {
                // One that cannot be ended now, as on a full disk, is ended later, without contents.
                if let Ok(Some(sequence)) = end_segment(core, older, id) {
                    ended.push((id, sequence));
                }
            }
        });
        let noted = ended
            .into_iter()
            .try_for_each(|(id, sequence)| note_finished(core, id, sequence));
        if core.options.read_only {
            return noted;
        }
        noted.and(end_older(core, core.blocks.sealers.newest().epoch()))
    }
}

/// Segments that are of the epoch in use and have no end yet.
fn unfinished(core: &Core) -> Vec<SegmentId> {
    let mut segments: Vec<_> = core.blocks.contents.lock().keys().copied().collect();
    let open = core.blocks.segments.open_segment();
    segments.extend(open.filter(|open| !segments.contains(open)));
    segments
}
