//! What kept states alone hold: what would come back if they were removed.
//!
//! Takes   a vault's kept states, or some of them
//! Gives   sealed bytes
//! Never   changes anything, or looks at more than what would go and what that names
//! Spec    spec/6-history.md, section 6.7
//!
//! It goes the way that giving back goes (`give_back.rs`), with the references taken in memory.

use std::collections::{HashMap, HashSet};

use strongroom_format::limits::sealed_len;
use strongroom_metadata::{BlockNumber, Place, Reads, SegmentNumber, has_no_file};

use crate::engine::Engine;
use crate::error::Error;
use crate::limits::RELEASED_PAGE;
use crate::node::names_of_block;
use crate::revision::RevisionId;
use crate::take::Held;

/// What stored content is for, in sealed bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// What files name now.
    pub live_bytes: u64,
    /// What only kept states hold.
    pub kept_bytes: u64,
    /// What nothing names any more.
    pub waste_bytes: u64,
}

/// References that were taken, in memory only.
struct Taking<'a, E: Engine> {
    engine: &'a E,
    reads: &'a Reads,
    /// Segments of what is lost or erased: it takes no space, and nothing comes back with it.
    without_file: HashSet<SegmentNumber>,
    taken: HashMap<BlockNumber, u32>,
    /// Blocks that have no reference left.
    gone: Vec<BlockNumber>,
}

impl<E: Engine> Taking<'_, E> {
    /// Takes one reference of a block.
    fn take(&mut self, number: BlockNumber) -> Result<(), E::Error> {
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

    /// Lets go what has no reference left, with what only that names; gives how many sealed bytes it was.
    fn let_go(&mut self) -> Result<u64, E::Error> {
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
            let opened = self.engine.open(block.kind, &block.id);
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

    /// Takes the references of kept states, and of the base if none of the others keeps it.
    fn take_roots(&mut self, goes: impl Fn(&RevisionId) -> bool) -> Result<(), E::Error> {
        let mut roots_left = Vec::new();
        for revision in self.reads.revisions()? {
            if goes(&RevisionId(revision.id)) {
                self.take(revision.root)?;
            } else {
                roots_left.push(revision.root);
            }
        }
        match self.reads.history()?.base {
            Some(base) if !roots_left.contains(&base.root) => self.take(base.root),
            _ => Ok(()),
        }
    }
}

/// What would come back, in sealed bytes, if the kept states `ids` were removed together.
///
/// Costs what they alone hold.
///
/// # Errors
/// Those of the engine.
pub fn held_alone<E: Engine>(engine: &E, ids: &[RevisionId]) -> Result<u64, E::Error> {
    on_snapshot(engine, |mut taking| {
        taking.take_roots(|id| ids.contains(id))?;
        taking.let_go()
    })
}

/// The same for each of `ids` by itself, in their order; 0 for one that is not kept.
///
/// # Errors
/// Those of the engine.
pub fn each_held_alone<E: Engine>(engine: &E, ids: &[RevisionId]) -> Result<Vec<u64>, E::Error> {
    on_snapshot(engine, |mut taking| {
        let roots: Vec<_> = taking.reads.revisions()?;
        let roots: Vec<_> = roots.iter().map(|one| (one.id, one.root)).collect();
        let base = taking.reads.history()?.base;
        let mut each = Vec::with_capacity(ids.len());
        for id in ids {
            taking.taken.clear();
            for (_, root) in roots.iter().filter(|(one, _)| *one == id.0) {
                taking.take(*root)?;
            }
            let others_keep = |base: BlockNumber| {
                let mut others = roots.iter().filter(|(one, _)| *one != id.0);
                others.any(|(_, root)| *root == base)
            };
            if let Some(base) = base.filter(|base| !others_keep(base.root)) {
                taking.take(base.root)?;
            }
            each.push(taking.let_go()?);
        }
        Ok(each)
    })
}

/// What the stored content is for. Costs what all kept states together hold alone.
///
/// # Errors
/// Those of the engine.
pub fn stored<E: Engine>(engine: &E) -> Result<Stored, E::Error> {
    on_snapshot(engine, |mut taking| {
        let mut segments = taking.reads.segments()?;
        segments.retain(|segment| !has_no_file(&segment.id));
        let sum = |of: fn(&strongroom_metadata::Segment) -> u64| segments.iter().map(of).sum();
        let (used, total): (u64, u64) = (sum(|one| one.live_bytes), sum(|one| one.total_bytes));
        let waiting = taking.reads.waiting_bytes()?;
        // What was removed and has not come back yet.
        let mut after = BlockNumber(0);
        loop {
            let page = taking.reads.released(after, RELEASED_PAGE)?;
            let Some(last) = page.last() else { break };
            after = *last;
            for number in page {
                let block = taking.reads.block(number)?;
                if block.is_some_and(|block| block.references == 0) {
                    taking.gone.push(number);
                }
            }
        }
        let released = taking.let_go()?;
        taking.take_roots(|_| true)?;
        let kept_bytes = taking.let_go()?;
        Ok(Stored {
            live_bytes: (used + waiting).saturating_sub(kept_bytes + released),
            kept_bytes,
            waste_bytes: total.saturating_sub(used) + released,
        })
    })
}

fn on_snapshot<E: Engine, T>(
    engine: &E,
    work: impl FnOnce(Taking<'_, E>) -> Result<T, E::Error>,
) -> Result<T, E::Error> {
    // On a vault that is open for reading only there is nothing to be held up.
    let _held = Held::begin(engine).ok();
    let reader = engine.reader()?;
    let snapshot = reader.snapshot()?;
    let segments = snapshot.segments()?;
    let without_file = segments.iter().filter(|one| has_no_file(&one.id));
    work(Taking {
        engine,
        reads: &snapshot,
        without_file: without_file.map(|one| one.number).collect(),
        taken: HashMap::new(),
        gone: Vec::new(),
    })
}
