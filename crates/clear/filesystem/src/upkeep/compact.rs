//! Empties sparse segments: moves their live blocks, so that the segments can be removed.
//!
//! Takes   rows of segments
//! Gives   free space, with the least copying
//! Never   opens a block that it does not have to move
//!
//! Invariants
//!  (1) A moved block has one row at every moment. Its old bytes stay until their segment is removed.
//!  (2) While no segment may be removed, nothing is moved out of one but by hand: it would take room, and give none back.

use strongroom_format::SegmentId;
use strongroom_metadata::{BlockNumber, Segment, SegmentNumber, SegmentState, has_no_file};

use crate::blocks::away::bring_back;
use crate::blocks::moving::move_next;
use crate::commit::commits::commit_all;
use crate::core::room::Reclaiming;
use crate::core::{Core, Work};
use crate::limits::{REMOVALS_PER_STEP, Thresholds};
use crate::upkeep::space::{Going, let_some_go};
use crate::{Filesystem, Result};

/// How hard compaction looks for work.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Eagerness {
    /// Only segments of which less than half lives, and many short ones.
    Idle,
    /// Segments of which less than two thirds live. There is at least one where waste is more than half of what lives.
    Bound,
    /// Those that give back a ninth or more: somebody waits for room.
    Room,
    /// Everything with waste up to the segment `newest`, and many short ones.
    ByHand { newest: SegmentNumber },
}

impl Eagerness {
    /// A segment of which less than this share lives is compacted.
    const fn live_share(self) -> (u64, u64) {
        match self {
            Self::Idle => (1, 2),
            Self::Bound => (2, 3),
            Self::Room => (8, 9),
            Self::ByHand { .. } => (1, 1),
        }
    }

    /// Whether a segment is looked at.
    fn considers(self, number: SegmentNumber) -> bool {
        match self {
            Self::ByHand { newest } => number <= newest,
            Self::Idle | Self::Bound | Self::Room => true,
        }
    }

    /// Whether short segments are joined where there are many.
    const fn joins(self) -> bool {
        matches!(self, Self::Idle | Self::ByHand { .. })
    }
}

/// Moves the live blocks of the worst segment; gives whether there was one.
pub(crate) fn compact_one(
    core: &Core,
    reclaiming: &mut Reclaiming,
    eagerness: Eagerness,
) -> Result<bool> {
    // (2)
    if core.blocks.keeps_segments() && !matches!(eagerness, Eagerness::ByHand { .. }) {
        return Ok(false);
    }
    let mut segments = core.store.lock().segments()?;
    segments.retain(|segment| {
        !has_no_file(&segment.id)
            && !reclaiming.passed_over.contains(&segment.number)
            && eagerness.considers(segment.number)
    });
    let Some(worst) = choose(&segments, eagerness, &core.options.thresholds) else {
        return Ok(false);
    };
    let (number, id) = (worst.number, worst.id);
    let _doing = core.options.doing(Work::Compaction);
    let mut after = BlockNumber(0);
    while let Some((last, moved)) = move_next(core, number, id, after)? {
        after = last;
        if !moved {
            // Damaged blocks are not moved, so the segment stays and nothing of it is lost.
            reclaiming.passed_over.insert(number);
        }
    }
    Ok(true)
}

/// The segment that gives back most for the least copying.
fn choose<'a>(
    segments: &'a [Segment],
    eagerness: Eagerness,
    thresholds: &Thresholds,
) -> Option<&'a Segment> {
    let finished = || {
        segments
            .iter()
            .filter(|s| s.state == SegmentState::Finished && s.live_bytes > 0)
    };
    let (part, whole) = eagerness.live_share();
    let sparse = finished()
        .filter(|s| s.live_bytes * whole < s.total_bytes * part)
        .min_by_key(|s| s.live_bytes * 1000 / s.total_bytes.max(1));
    sparse.or_else(|| {
        let small = || finished().filter(|s| s.total_bytes < thresholds.small_segment_bytes);
        (eagerness.joins() && small().count() > thresholds.small_segments_max)
            .then(|| small().min_by_key(|s| s.total_bytes))
            .flatten()
    })
}

/// Moves everything that lives in a segment and opens elsewhere, step by step. One that is away comes back first.
pub(crate) fn move_out(core: &Core, segment: &Segment) -> Result<()> {
    bring_back(core, segment.id)?;
    let mut after = BlockNumber(0);
    loop {
        let _reclaiming = core.room.reclaiming.lock();
        let _doing = core.options.doing(Work::Compaction);
        match move_next(core, segment.number, segment.id, after)? {
            Some((last, _)) => after = last,
            None => return Ok(()),
        }
    }
}

impl Filesystem {
    /// Moves what lives in a finished segment elsewhere, as it is sealed; gives whether nothing lives in it any more. What does not
    /// open stays.
    ///
    /// # Errors
    /// `ReadOnly`, `Failed`, `NoSpace`; what was moved until then stays moved.
    pub fn vacate(&self, id: SegmentId) -> Result<bool> {
        let core = &self.core;
        self.check_writable()?;
        let row = core.store.lock().segment_by_id(&id)?;
        let Some(segment) = row else {
            return Ok(true);
        };
        move_out(core, &segment)?;
        let left = core.store.lock().segment_by_id(&id)?;
        Ok(left.is_none_or(|left| left.live_bytes == 0))
    }
}

/// Lets empty segments go, and compacts one that is worth it.
pub(crate) fn reclaim(core: &Core) -> Result<()> {
    while remove_some(core)? {}
    compact_one(core, &mut core.room.reclaiming.lock(), Eagerness::Idle).map(drop)
}

/// Removes a few empty segments; gives whether there were some. Between two of these steps a writer that has to help gets its turn.
pub(crate) fn remove_some(core: &Core) -> Result<bool> {
    let mut reclaiming = core.room.reclaiming.lock();
    let going = let_some_go(core, &mut reclaiming, REMOVALS_PER_STEP)?;
    Ok(going == Going::Gone)
}

/// Lets empty segments go and compacts others, the emptiest first, until there is `enough`; gives whether there is. Take no locks.
pub(crate) fn reclaim_until(
    core: &Core,
    eagerness: Eagerness,
    enough: &dyn Fn() -> bool,
) -> Result<bool> {
    loop {
        // For each step: a writer that has to help waits for one step of the background, not for all that it has to do.
        let mut reclaiming = core.room.reclaiming.lock();
        // Somebody else may have done it meanwhile.
        if enough() {
            return Ok(true);
        }
        match let_some_go(core, &mut reclaiming, REMOVALS_PER_STEP)? {
            Going::Gone => continue,
            Going::AfterCommit => {
                commit_all(core)?;
                continue;
            }
            Going::None => {}
        }
        if !compact_one(core, &mut reclaiming, eagerness)? {
            return Ok(false);
        }
    }
}
