//! `fsync` and `sync`: waits until a file, or everything, is durable.
//!
//! Takes   a file, or everything
//! Gives   its durability, by a record of the intent log or by a commit
//! Never   reports a full disk without having freed removed content first

use strongroom_metadata::{InodeId, NodeKind, SegmentNumber};

use crate::blocks::place::Reason;
use crate::commit::commits::{barrier, commit_all, commit_covering};
use crate::commit::intents;
use crate::core::durability::DurableState;
use crate::drain::drains::{drain_all, drain_node};
use crate::trees::give_back::give_all_back;
use crate::upkeep::compact::{Eagerness, compact_one, reclaim};
use crate::upkeep::room::with_room;
use crate::upkeep::space::{end_left, finish_segment, settle};
use crate::upkeep::urgent::finish;
use crate::{Filesystem, Result};

impl Filesystem {
    /// `fsync`: the content, size, attributes and names of `inode` reached so far are durable on return.
    ///
    /// # Errors
    /// `NoSpace` leaves the content pending and the vault usable; `Failed` ends writing until it is opened again.
    pub fn sync_inode(&self, inode: InodeId) -> Result<()> {
        if self.core.options.read_only || crate::is_in_snapshot(inode) {
            return Ok(());
        }
        let core = &self.core;
        let Some(node) = core.content.nodes.find(inode) else {
            return commit_all(core);
        };
        if intents::sync(core, &node)? {
            return Ok(());
        }
        let is_file = node.lock().inode.kind == NodeKind::File;
        if is_file {
            with_room(core, || drain_node(core, &node, Reason::Sync))?;
        }
        let covered = core.durability.changes();
        commit_covering(core, covered)?;
        let mut state = node.lock();
        // A transaction since then may have changed it and left nothing dirty.
        let is_covered = core.durability.changes() == covered;
        if is_covered && !state.attributes_dirty && !state.has_pending_content() {
            let version = state.inode.content_version;
            state.unlogged.note_unchanged(covered, version);
        }
        Ok(())
    }

    /// The newest commit of this run that is durable for certain; `None` before the first. Never ahead of the disk: a commit
    /// counts once the sync after it has returned.
    #[must_use]
    pub fn durable_state(&self) -> Option<DurableState> {
        self.core.durability.progress().state
    }

    /// A number that is another one after every change that was acknowledged since, of this run; never 0.
    #[must_use]
    pub fn changes_mark(&self) -> u64 {
        self.core.durability.changes() + 1
    }

    /// Lets no record of a small sync count any more: what they tell is in a durable commit. Call before content comes in the place of
    /// content here under the version that others gave it.
    ///
    /// # Errors
    /// As `sync_inode`.
    pub fn settle_small_syncs(&self) -> Result<()> {
        intents::settle(&self.core)
    }

    /// Barrier: everything that was acknowledged before is durable on return.
    ///
    /// # Errors
    /// As `sync_inode`.
    pub fn sync(&self) -> Result<()> {
        let core = &self.core;
        if core.options.read_only {
            return Ok(());
        }
        // Most of the work is done while others go on; the rest is small.
        with_room(core, || drain_all(core))?;
        let covered = {
            let _alone = barrier(core)?;
            core.durability.changes()
        };
        commit_covering(core, covered)
    }

    /// Makes all that was acknowledged lie in segments that are finished, so that they can be copied as they are.
    ///
    /// # Errors
    /// As `sync`.
    pub fn end_segments(&self) -> Result<()> {
        let core = &self.core;
        self.sync()?;
        settle(core)?;
        if let Some(open) = core.blocks.segments.open_segment() {
            finish_segment(core, open)?;
        }
        // One that filled up is not finished yet.
        finish(core)?;
        end_left(core)?;
        self.sync()
    }

    /// Joins and empties segments until nothing is worth it, and gives the space back. What is stored or freed meanwhile may
    /// stay for the next time, so this ends beside a writer that never rests.
    ///
    /// # Errors
    /// Of the stores; what was moved until then stays moved.
    pub fn compact(&self) -> Result<()> {
        let core = &self.core;
        drop(give_all_back(core)?);
        self.sync()?;
        settle(core)?;
        if let Some(open) = core.blocks.segments.open_segment() {
            // Its waste can go only once nothing is appended to it any more.
            finish_segment(core, open)?;
        }
        let segments = core.store.lock().segments()?;
        let newest = segments.iter().map(|segment| segment.number).max();
        let newest = newest.unwrap_or(SegmentNumber(0));
        loop {
            // A segment that filled up is not finished yet, and only finished ones are compacted.
            finish(core)?;
            let moved = compact_one(
                core,
                &mut core.room.reclaiming.lock(),
                Eagerness::ByHand { newest },
            )?;
            self.sync()?;
            reclaim(core)?;
            self.sync()?;
            reclaim(core)?;
            if !moved {
                return Ok(());
            }
        }
    }
}
