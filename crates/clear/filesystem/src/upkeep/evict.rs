//! Removes files of segments that a remote has. Their rows stay, so that a file is fetched when something in it is read.
//!
//! Takes   segments, each with a remote that has just shown the caller that it has the segment
//! Gives   free space on the disk
//! Never   removes a file if that remote is no longer noted to have it, if it holds nodes of trees, or if a backup or a push needs it
//! Spec    spec/11-sync.md, 11.9
//!
//! Invariants
//!  (1) A file is removed only after a durable commit marks its segment as away. So after an interruption at any point
//!      the file is here or will be fetched.
//!  (2) A segment that is away holds only content of files, so trees and names never need a remote.
//!  (3) A note that another remote has the segment proves nothing: that remote may have lost it. [11.9.1]

use strongroom_format::SegmentId;
use strongroom_metadata::{
    BlockNumber, Published, Reads, Segment, SegmentState, Transaction, has_no_file,
};

use crate::blocks::away;
use crate::blocks::moving::move_next_of;
use crate::commit::commits::commit_all;
use crate::core::{Core, Work};
use crate::limits::VERIFY_PAGE_BLOCKS;
use crate::{Filesystem, Result};

/// Segments that are away, and what lies in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AwaySize {
    /// Segments.
    pub segments: u64,
    /// Sealed bytes in them that something still names.
    pub bytes: u64,
}

/// A segment, and the remote that has just shown that it has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShownSegment {
    /// Its id.
    pub id: SegmentId,
    /// The number of that remote.
    pub remote: u64,
    /// The hash under which it is there.
    pub hash: [u8; 32],
}

impl Filesystem {
    /// What is away.
    ///
    /// # Errors
    /// Of the store.
    pub fn away(&self) -> Result<AwaySize> {
        Ok(self.away_and_here()?.0)
    }

    /// Lets the files of the segments `shown` go; gives those that went. What is needed at this moment stays, and so does what the remote that
    /// has shown it is not noted to have any more under that hash.
    ///
    /// # Errors
    /// `ReadOnly`, `Failed`, `NoSpace`; what went until then stays away.
    pub fn evict(&self, shown: &[ShownSegment]) -> Result<Vec<SegmentId>> {
        let core = &self.core;
        self.check_writable()?;
        let mut chosen = Vec::new();
        for one in shown {
            let row = core.store.lock().segment_by_id(&one.id)?;
            if let Some(row) = row.filter(may_go) {
                move_nodes_out(core, &row)?;
                chosen.push((row, *one));
            }
        }
        let chosen = mark_away(core, chosen)?;
        commit_all(core)?;
        unlink(core, &chosen)
    }

    /// Brings the file of a segment back that is away; gives whether it was. Only the remote `from` is asked, if one is given.
    ///
    /// # Errors
    /// `OnlyAtRemote`, `LostAtRemote`, `NoSpace`; of the stores.
    pub fn bring_back(&self, id: SegmentId, from: Option<u64>) -> Result<bool> {
        away::bring_back_from(&self.core, id, from)
    }

    /// Says of a segment that is away that it is here, as nobody has it any more: a verification then names what that costs.
    ///
    /// # Errors
    /// Of the store.
    pub fn give_up_away(&self, id: SegmentId) -> Result<()> {
        let core = &self.core;
        let _gate = core.mutate()?;
        let mut writer = core.store.lock();
        let row = writer.segment_by_id(&id)?;
        if let Some(row) = row.filter(|row| row.state == SegmentState::Away) {
            writer.set_segment_state(row.number, SegmentState::Finished)?;
            core.changed();
        }
        Ok(())
    }

    /// Says of a segment that was given up that it is away again; gives whether it was. What has a file, or holds nodes of trees, stays as
    /// it is. (2)
    ///
    /// # Errors
    /// `ReadOnly`, `Failed`; of the store.
    pub fn set_away_again(&self, id: SegmentId) -> Result<bool> {
        let core = &self.core;
        let _gate = core.mutate()?;
        let mut writer = core.store.lock();
        if let Some(row) = writer.segment_by_id(&id)?.filter(may_go)
            && core.blocks.segments.len(id).is_err()
            && holds_only_content(&writer, &row)?
        {
            writer.set_segment_state(row.number, SegmentState::Away)?;
            core.changed();
            return Ok(true);
        }
        Ok(false)
    }

    /// How many bytes the file of a segment has; `None` if it is not here.
    #[must_use]
    pub fn segment_len(&self, id: SegmentId) -> Option<u64> {
        self.core.blocks.segments.len(id).ok()
    }
}

/// Whether a segment may go as far as its row says.
fn may_go(row: &Segment) -> bool {
    row.state == SegmentState::Finished && row.live_bytes > 0 && !has_no_file(&row.id)
}

/// Moves what is no content of files elsewhere, as it is sealed. (2)
fn move_nodes_out(core: &Core, row: &Segment) -> Result<()> {
    let mut after = BlockNumber(0);
    loop {
        let _reclaiming = core.room.reclaiming.lock();
        let _doing = core.options.doing(Work::Compaction);
        let moved = move_next_of(core, row.number, row.id, after, &|block| {
            !block.kind.is_data()
        })?;
        match moved {
            Some((last, _)) => after = last,
            None => return Ok(()),
        }
    }
}

/// Marks those that may go; gives them.
fn mark_away(core: &Core, chosen: Vec<(Segment, ShownSegment)>) -> Result<Vec<Segment>> {
    let _gate = core.mutate()?;
    let mut writer = core.store.lock();
    // Whoever wants files to stay takes the writer first.
    if core.blocks.keeps_segments() {
        return Ok(Vec::new());
    }
    let mut marked = Vec::new();
    for (row, shown) in chosen {
        let now = writer.segment_by_id(&row.id)?;
        let may = now.is_some_and(|now| may_go(&now) && now.number == row.number)
            && is_noted(&writer, &shown)?
            && holds_only_content(&writer, &row)?;
        if may {
            writer.set_segment_state(row.number, SegmentState::Away)?;
            marked.push(row);
        }
    }
    if !marked.is_empty() {
        // What is written from now on is to be here, not only where the remote has what equals it.
        core.blocks.opened.forget_all();
        core.changed();
    }
    Ok(marked)
}

/// Whether the remote that has shown it is still noted to have it. (3)
fn is_noted(writer: &Reads, shown: &ShownSegment) -> Result<bool> {
    let published = writer.published(shown.remote, Published::Segment(shown.id.0))?;
    Ok(published.is_some_and(|how| !how.is_let_go() && how.hash == shown.hash))
}

fn holds_only_content(writer: &Transaction<'_>, row: &Segment) -> Result<bool> {
    let mut after = BlockNumber(0);
    loop {
        let page = writer.blocks_in_segment(row.number, after, VERIFY_PAGE_BLOCKS)?;
        let Some(last) = page.last() else {
            return Ok(true);
        };
        after = last.number;
        if page.iter().any(|block| !block.kind.is_data()) {
            return Ok(false);
        }
    }
}

/// Removes the files of those that a durable commit says are away; gives them. (1)
fn unlink(core: &Core, marked: &[Segment]) -> Result<Vec<SegmentId>> {
    let mut gone = Vec::new();
    for row in marked {
        let _doing = core.options.doing(Work::Removal);
        let _gate = core.mutate()?;
        let _placing = core.blocks.placing.write();
        let mut writer = core.store.lock();
        let now = writer.segment_by_id(&row.id)?;
        if now.is_none_or(|now| now.state != SegmentState::Away) {
            continue;
        }
        if core.blocks.keeps_segments() {
            writer.set_segment_state(row.number, SegmentState::Finished)?;
            core.changed();
            continue;
        }
        core.blocks.segments.remove(row.id)?;
        gone.push(row.id);
    }
    Ok(gone)
}
