//! Carries out the noted background work.
//!
//! Takes   notes of work
//! Gives   that work done
//! Never   stops at an error: it returns the first error, and failed work is noted again or found again at the next opening

use strongroom_metadata::InodeId;

use crate::Result;
use crate::blocks::place::Reason;
use crate::core::{Core, Notes};
use crate::drain::drains::{drain_all, drain_node};
use crate::upkeep::defragment::defragment;
use crate::upkeep::purge::purge_all;
use crate::upkeep::space::{finish_segment, settle};

/// Does what was noted and is not done yet, and waits for what is being done. Take no locks.
pub(crate) fn finish(core: &Core) -> Result<()> {
    let _doing = core.work.doing();
    let notes = core.work.take();
    if notes.commit {
        core.work.commit_soon();
    }
    urgent(core, notes)
}

/// Drains and purges that were asked for.
pub(crate) fn urgent(core: &Core, notes: Notes) -> Result<()> {
    let mut result = Ok(());
    for inode in notes.drain {
        if let Some(node) = core.content.nodes.find(inode) {
            result = result.and(drain_node(core, &node, Reason::Background));
        }
    }
    if notes.drain_all {
        result = result.and(drain_all(core));
    }
    let purges: Vec<InodeId> = notes.purge.into_iter().collect();
    result = result.and(purge_all(core, &purges));
    core.work.purged(notes.purge_bytes);
    if notes.settle {
        result = result.and(settle(core));
    }
    for (inode, cell) in notes.defragment {
        result = result.and(defragment(core, inode, cell));
    }
    for segment in notes.finish {
        result = result.and(finish_segment(core, segment));
    }
    result
}
