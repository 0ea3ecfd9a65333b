//! Re-seals in the background everything that is sealed under keys of earlier epochs, so that those keys can be removed.
//!
//! Takes   a file system in which a new epoch has begun
//! Gives   the same blocks under the newest keys with the same ids, in new segments; the old segments are removed
//! Never   looks like an edit, or blocks a caller longer than one step takes
//! Spec    spec/1-keys.md, section 1.10
//!
//! Invariants
//!  (1) A block's row keeps the old epoch and place until the re-sealed bytes have a place. The commit that changes the
//!      row syncs these bytes first.                                                          [1.10.2]
//!  (2) `Done` is returned only when a durable commit has neither a block nor a segment of an earlier epoch.  [1.10.3]
//!
//! The rows record the progress: the next process that opens the vault continues from them.

use std::collections::HashSet;

use strongroom_crypto::BlockSealer;
use strongroom_format::{Epoch, SegmentId};
use strongroom_metadata::{BlockNumber, Segment, SegmentState, has_no_file};

use crate::blocks::away::bring_back;
use crate::blocks::moving::move_next;
use crate::blocks::sessions::{SESSIONS, is_of_session};
use crate::commit::commits::commit_all;
use crate::core::room::{Reclaiming, Resealing};
use crate::core::{Background, Core, Work};
use crate::upkeep::space::{end_segment, let_empty_go, note_finished, settle};
use crate::{Error, Filesystem, Result};

/// Waiting blocks looked at in one hold of the writer.
const WAITING_PAGE: usize = 1_024;

/// What came of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resealed {
    /// There is more to do.
    More,
    /// Nothing is sealed under an epoch before this one any more, durably. (2)
    Done(Epoch),
    /// What is left does not open, or is in files that the database does not know.
    Stuck,
}

/// What is still sealed under earlier epochs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Older {
    /// Sealed bytes.
    pub bytes: u64,
    /// Those among them in segments that were gone through: they hold what does not open.
    pub unreadable_bytes: u64,
}

impl Filesystem {
    /// Re-seals some of what is of an earlier epoch: one batch at most. Call it until it gives something else than `More`.
    ///
    /// # Errors
    /// `ReadOnly`, `Failed`, `NoSpace`; `OnlyAtRemote` of what is away; what was re-sealed until then stays so.
    pub fn reseal(&self) -> Result<Resealed> {
        let core = &self.core;
        self.check_writable()?;
        let newest = core.blocks.sealers.newest().epoch();
        crate::commit::intents::end_older(core, newest)?;
        if end_older(core, newest)? {
            return Ok(Resealed::More);
        }
        let mut reclaiming = core.room.reclaiming.lock();
        let older = older_segments(core, newest)?;
        let has_work = |segment: &&Segment| {
            let known = &reclaiming.resealing.unreadable;
            segment.live_bytes > 0 && !known.contains(&segment.number)
        };
        // What is here goes first: what is away may wait for a remote.
        let is_here = |segment: &&Segment| segment.state != SegmentState::Away;
        let here = older.iter().filter(is_here).find(has_work);
        if let Some(segment) = here.or_else(|| older.iter().find(has_work)).cloned() {
            if segment.state == SegmentState::Away {
                drop(reclaiming);
                match bring_back(core, segment.id) {
                    // A verification names what that costs; the rotation goes on, as without what is damaged.
                    Err(Error::LostAtRemote(_)) => self.give_up_away(segment.id)?,
                    brought => drop(brought?),
                }
                return Ok(Resealed::More);
            }
            step(core, &mut reclaiming, &segment)?;
            return Ok(Resealed::More);
        }
        if older.iter().any(|segment| segment.live_bytes == 0) {
            let_empty_go(core, &mut reclaiming)?;
            drop(reclaiming);
            commit_all(core)?;
            return Ok(Resealed::More);
        }
        drop(reclaiming);
        // Last: nothing of an earlier epoch begins to wait any more.
        if waits_for(core, newest)? {
            settle(core)?;
        }
        if !older.is_empty() || waits_for(core, newest)? || has_unknown(core, newest)? {
            return Ok(Resealed::Stuck);
        }
        commit_all(core)?; // (2)
        core.blocks.segments.sync_removals()?;
        Ok(Resealed::Done(newest))
    }

    /// How much is still sealed under epochs before the newest.
    ///
    /// # Errors
    /// Of the store.
    pub fn older(&self) -> Result<Older> {
        let core = &self.core;
        let newest = core.blocks.sealers.newest().epoch();
        let reclaiming = core.room.reclaiming.lock();
        let mut found = Older::default();
        for segment in older_segments(core, newest)? {
            found.bytes += segment.live_bytes;
            if reclaiming.resealing.unreadable.contains(&segment.number) {
                found.unreadable_bytes += segment.live_bytes;
            }
        }
        Ok(found)
    }

    /// Tries what did not open again, with the next steps.
    pub fn reseal_anew(&self) {
        self.core.room.reclaiming.lock().resealing = Resealing::default();
    }

    /// Opens with `sealer` from now on, which lacks the keys of some earlier epochs: nothing is sealed under those any
    /// more. Waits for those who seal at this moment.
    ///
    /// `sealer`: its newest epoch is the one in use.
    pub fn forget_epochs(&self, sealer: BlockSealer) {
        self.core.blocks.sealers.replace(sealer);
    }

    /// Whether this file system works in the background by itself.
    #[must_use]
    pub fn has_background(&self) -> bool {
        let options = &self.core.options;
        options.background == Background::Thread && !options.read_only
    }
}

/// Whether a block that waits for a segment is of an epoch before `newest`.
fn waits_for(core: &Core, newest: Epoch) -> Result<bool> {
    let mut after = BlockNumber(0);
    loop {
        let writer = core.store.lock();
        let page = writer.waiting_numbers(after, WAITING_PAGE)?;
        let Some(last) = page.last() else {
            return Ok(false);
        };
        after = *last;
        for number in page {
            let block = writer.block(number)?;
            if block.is_some_and(|block| block.epoch < newest) {
                return Ok(true);
            }
        }
    }
}

/// Whether there is a segment file of an earlier epoch that the database does not know: an older copy of it may have been
/// put back, and then recovery needs those keys.
fn has_unknown(core: &Core, newest: Epoch) -> Result<bool> {
    // Files first: one that gets its row meanwhile is then known.
    let files = core.blocks.segments.list()?;
    let (rows, sessions) = {
        let writer = core.store.lock();
        (writer.segments()?, writer.setting(SESSIONS)?)
    };
    let known: HashSet<SegmentId> = rows.into_iter().map(|row| row.id).collect();
    let sessions = sessions.unwrap_or_default();
    let mut unknown = files
        .into_iter()
        .filter(|id| !known.contains(id) && !is_of_session(&sessions, id));
    // One that cannot be read any more has gone, or tells nobody anything.
    Ok(unknown.any(|id| {
        let scanned = core.blocks.segments.scan(id);
        scanned.is_ok_and(|scanned| scanned.header.epoch < newest)
    }))
}

fn older_segments(core: &Core, newest: Epoch) -> Result<Vec<Segment>> {
    let mut segments = core.store.lock().segments()?;
    // What is lost or erased has no sealed bytes, and so needs no keys.
    segments.retain(|segment| segment.epoch < newest && !has_no_file(&segment.id));
    Ok(segments)
}

/// Ends the segments of earlier epochs that could not be ended when the newest began; gives whether there were some.
fn end_older(core: &Core, newest: Epoch) -> Result<bool> {
    let mut older = older_segments(core, newest)?;
    older.retain(|segment| segment.state == SegmentState::Open);
    for segment in &older {
        let _doing = core.options.doing(Work::Rollover);
        let ended = end_segment(core, &core.blocks.sealers.sealing(), segment.id)?;
        if let Some(sequence) = ended {
            note_finished(core, segment.id, sequence)?;
            continue;
        }
        // It has its end, or is lost: either way nothing comes to it any more.
        let _gate = core.mutate()?;
        let mut writer = core.store.lock();
        writer.set_segment_state(segment.number, SegmentState::Finished)?;
        core.changed();
    }
    Ok(!older.is_empty())
}

/// Re-seals the next blocks of `segment`. (1)
fn step(core: &Core, reclaiming: &mut Reclaiming, segment: &Segment) -> Result<()> {
    let _doing = core.options.doing(Work::Resealing);
    let resealing = &mut reclaiming.resealing;
    let number = segment.number;
    let after = match resealing.at {
        Some((at, last)) if at == number => last,
        _ => BlockNumber(0),
    };
    match move_next(core, number, segment.id, after)? {
        Some((last, _)) => resealing.at = Some((number, last)),
        None => drop(resealing.unreadable.insert(number)),
    }
    Ok(())
}
