//! Counts the bytes that only snapshots hold, and that removing these snapshots would free.
//!
//! Takes   the snapshots of a vault, or some of them
//! Gives   the number of sealed bytes
//! Never   changes anything, or looks at blocks other than the ones to be freed and their children
//! Spec    spec/6-history.md, section 6.7
//!
//! It does the same steps as the file system's `trees/give_back.rs`, but lowers reference counts in memory only.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use strongroom_format::limits::sealed_len;
use strongroom_metadata::{BlockNumber, Place, Reads, SegmentNumber, SegmentState, has_no_file};

use crate::blocks::Blocks;
use crate::error::Error;
use crate::limits::RELEASED_PAGE;
use crate::node::names_of_block;
use crate::revision::RevisionId;

/// What the stored content of a vault is for, in sealed bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// What files name now, whether or not snapshots name it too.
    pub live_bytes: u64,
    /// What only snapshots hold, their directories included.
    pub kept_bytes: u64,
    /// What nothing names any more; compaction gives it back.
    pub waste_bytes: u64,
}

/// References that were taken, in memory only.
struct Taking<'a, B: Blocks> {
    blocks: &'a B,
    reads: &'a Reads,
    /// Snapshots by their roots.
    roots: Vec<(RevisionId, BlockNumber)>,
    /// The root of the newest tree.
    base: Option<BlockNumber>,
    /// Segments of what is lost or erased: it takes no space, and nothing comes back with it.
    without_file: HashSet<SegmentNumber>,
    taken: HashMap<BlockNumber, u32>,
    /// Blocks that have no reference left.
    gone: Vec<BlockNumber>,
}

impl<'a, B: Blocks> Taking<'a, B> {
    fn new(blocks: &'a B, reads: &'a Reads) -> Result<Self, B::Error> {
        let segments = reads.segments()?;
        let without_file = segments.iter().filter(|one| has_no_file(&one.id));
        let revisions = reads.revisions()?;
        let roots = revisions.iter().map(|one| (RevisionId(one.id), one.root));
        Ok(Self {
            blocks,
            reads,
            roots: roots.collect(),
            base: reads.history()?.base.map(|base| base.root),
            without_file: without_file.map(|one| one.number).collect(),
            taken: HashMap::new(),
            gone: Vec::new(),
        })
    }

    /// Takes one reference of a block.
    fn take(&mut self, number: BlockNumber) -> Result<(), B::Error> {
        let Some(block) = self.reads.block(number)? else {
            return Ok(());
        };
        let taken = self.taken.entry(number).or_insert(0);
        *taken += 1;
        if *taken == block.references {
            self.gone.push(number);
        }
        Ok(())
    }

    /// Frees in memory what has no reference left, with what only that names; gives how many sealed bytes it was.
    fn let_go(&mut self) -> Result<u64, B::Error> {
        let mut bytes = 0;
        while let Some(number) = self.gone.pop() {
            let block = self.reads.block(number)?.ok_or(Error::MissingBlock)?;
            if !matches!(block.place, Place::Segment(at, _) if self.without_file.contains(&at)) {
                bytes += sealed_len(block.clear_len as usize) as u64;
            }
            if block.kind.is_data() {
                continue;
            }
            // A damaged node hides what it names, from giving back too.
            let opened = self.blocks.need(block.kind, &block.id);
            let Ok(Ok(names)) = opened.map(|bytes| names_of_block(block.kind, &bytes)) else {
                continue;
            };
            for name in names {
                if let Some(number) = self.reads.block_by_id(&name)? {
                    self.take(number)?;
                }
            }
        }
        Ok(bytes)
    }

    /// Takes the references of snapshots, and of the base if none of the others keeps it.
    fn take_roots(&mut self, goes: impl Fn(&RevisionId) -> bool) -> Result<(), B::Error> {
        let (going, left): (Vec<_>, Vec<_>) =
            (self.roots.iter().copied()).partition(|(id, _)| goes(id));
        for (_, root) in &going {
            self.take(*root)?;
        }
        match self.base {
            Some(base) if left.iter().all(|(_, root)| *root != base) => self.take(base),
            _ => Ok(()),
        }
    }
}

/// What would come back, in sealed bytes, if the snapshots `ids` were removed together.
///
/// Costs what they alone hold. Nothing that `reads` shows may go meanwhile; the same of the others here.
///
/// # Errors
/// Those of the blocks.
pub fn held_alone<B: Blocks>(
    blocks: &B,
    reads: &Reads,
    ids: &[RevisionId],
) -> Result<u64, B::Error> {
    let mut taking = Taking::new(blocks, reads)?;
    taking.take_roots(|id| ids.contains(id))?;
    taking.let_go()
}

/// The same for each of `ids` by itself, in their order; 0 for one that is not kept.
///
/// # Errors
/// Those of the blocks.
pub fn each_held_alone<B: Blocks>(
    blocks: &B,
    reads: &Reads,
    ids: &[RevisionId],
) -> Result<Vec<u64>, B::Error> {
    let mut taking = Taking::new(blocks, reads)?;
    let mut each = Vec::with_capacity(ids.len());
    for id in ids {
        taking.taken.clear();
        if taking.roots.iter().any(|(one, _)| one == id) {
            taking.take_roots(|one| one == id)?;
        }
        each.push(taking.let_go()?);
    }
    Ok(each)
}

/// What the stored content is for. Costs what all snapshots together hold alone.
///
/// # Errors
/// Those of the blocks.
pub fn usage<B: Blocks>(blocks: &B, reads: &Reads) -> Result<Usage, B::Error> {
    let mut taking = Taking::new(blocks, reads)?;
    let mut segments = reads.segments()?;
    segments.retain(|segment| !has_no_file(&segment.id));
    let sum = |of: fn(&strongroom_metadata::Segment) -> u64| segments.iter().map(of).sum();
    let used: u64 = sum(|one| one.live_bytes);
    // What is away takes no room, whatever is in it.
    let dead: u64 = sum(|one| match one.state {
        SegmentState::Away => 0,
        _ => one.total_bytes.saturating_sub(one.live_bytes),
    });
    let waiting = reads.waiting_bytes()?;
    // What was removed and has not come back yet.
    let mut after = BlockNumber(0);
    loop {
        let page = reads.released(after, RELEASED_PAGE)?;
        let Some(last) = page.last() else { break };
        after = *last;
        for number in page {
            let block = reads.block(number)?;
            if block.is_some_and(|block| block.references == 0) {
                taking.gone.push(number);
            }
        }
    }
    let released = taking.let_go()?;
    taking.take_roots(|_| true)?;
    let kept_bytes = taking.let_go()?;
    Ok(Usage {
        live_bytes: (used + waiting).saturating_sub(kept_bytes + released),
        kept_bytes,
        waste_bytes: dead + released,
    })
}
