//! Frees unreferenced nodes of removed trees, and everything that only they referenced.
//!
//! Takes   released blocks
//! Gives   their space, freed node by node
//! Never   touches more than a bounded part in one transaction, or goes below a node that is still referenced
//! Spec    spec/6-history.md, section 6.7
//!
//! Invariants
//!  (1) The transaction that removes a node's row also takes one reference from each block that the node
//!      refers to.                                                                                              [6.7.2]
//!  (2) Nothing is removed while a `HeldBlocks` exists.                                                         [6.6.2]

use std::collections::HashMap;

use parking_lot::MutexGuard;
use strongroom_format::BlockId;
use strongroom_history::limits::{PAGE_ROWS, RELEASED_PAGE};
use strongroom_history::{Blocks, names_of_block};
use strongroom_metadata::{BlockNumber, Reader, Transaction};

use crate::core::Core;
use crate::core::revisions::GiveBack;
use crate::trees::engine::Engine;
use crate::{Error, Result};

/// Nodes given back in one transaction.
const GIVE_BACK_NODES: usize = 16;

/// Steps of giving back between two looks at other work.
const STEPS_AT_ONCE: usize = 32;

/// A released block, and what it names if it is a node that can go.
struct Released {
    number: BlockNumber,
    names: Vec<BlockId>,
}

impl GiveBack {
    /// Does one step; gives whether more is left.
    ///
    /// A node that does not open stays, with all below it: the check names it.
    fn step(&mut self, core: &Core) -> Result<bool> {
        let engine = Engine::of(core);
        let (page, held) = engine.change(|writer| {
            let page = writer.released(BlockNumber(self.after), RELEASED_PAGE)?;
            let mut blocks = Vec::with_capacity(page.len());
            for number in page {
                blocks.push((number, writer.block(number)?));
            }
            Ok::<_, Error>((blocks, writer.is_held()))
        })?;
        if held {
            return Ok(false);
        }
        let Some((last, _)) = page.last() else {
            // Those that were passed over are tried again, the next time somebody asks.
            self.after = 0;
            let again = std::mem::take(&mut self.gave);
            return Ok(forget_marks(engine)? || again);
        };
        let mut end = *last;
        let mut step = Vec::new();
        let mut nodes = 0;
        for (number, block) in page {
            let names = match block {
                Some(block) if block.references == 0 && !block.kind.is_data() => {
                    if nodes == GIVE_BACK_NODES {
                        end = BlockNumber(number.0 - 1);
                        break;
                    }
                    nodes += 1;
                    let opened = engine.trees().need(block.kind, &block.id);
                    match opened.map(|bytes| names_of_block(block.kind, &bytes)) {
                        Ok(Ok(names)) => names,
                        _ => continue,
                    }
                }
                _ => Vec::new(),
            };
            step.push(Released { number, names });
        }
        self.after = end.0;
        self.gave |= !step.is_empty();
        engine.change(|writer| {
            if writer.is_held() {
                return Ok(());
            }
            for released in &step {
                give_one_back(writer, released)?;
            }
            Ok::<_, Error>(())
        })?;
        engine.commit_if_large()?;
        Ok(true)
    }
}

/// Marks that the newest tree covers mean nothing any more.
fn forget_marks(engine: Engine<'_>) -> Result<bool> {
    let more = engine.change(|writer| Ok::<_, Error>(writer.forget_changed(PAGE_ROWS)?))?;
    engine.commit_if_large()?;
    Ok(more)
}

/// (1)
fn give_one_back(writer: &mut Transaction<'_>, released: &Released) -> Result<()> {
    let number = released.number;
    let block = writer.block(number)?;
    let goes = block.is_some_and(|block| block.references == 0);
    if goes {
        for name in &released.names {
            // Lost already: nothing to give back.
            let Some(child) = writer.block_by_id(name)? else {
                continue;
            };
            match writer.change_references(child, -1) {
                Err(error) if error.is_callers() => {}
                result => drop(result?),
            }
        }
    }
    Ok(writer.settle_released(number)?)
}

/// Gives back for a while what nothing names any more, unless somebody is at it; gives whether more is left.
pub(crate) fn give_back(core: &Core) -> Result<bool> {
    for _ in 0..STEPS_AT_ONCE {
        let Some(mut giving_back) = core.history.giving_back.try_lock() else {
            return Ok(false);
        };
        if !giving_back.step(core)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Gives back all that nothing names any more, but for what is held. As long as the result is kept, nothing else is given back.
pub(crate) fn give_all_back(core: &Core) -> Result<MutexGuard<'_, GiveBack>> {
    let mut giving_back = core.history.giving_back.lock();
    while giving_back.step(core)? {}
    Ok(giving_back)
}

/// How often nodes of trees, revisions and the newest tree name each block, for a check of the counts; and how many
/// nodes do not open.
pub(crate) fn references(
    core: &Core,
    reader: &Reader<'_>,
) -> Result<(HashMap<BlockNumber, u32>, u64)> {
    let engine = Engine::of(core);
    let mut nodes = Vec::new();
    reader.for_each_block(|block, _| {
        if !block.kind.is_data() {
            nodes.push((block.kind, block.id));
        }
    })?;
    let mut counts: HashMap<BlockNumber, u32> = HashMap::new();
    let mut count = |number: BlockNumber| *counts.entry(number).or_insert(0) += 1;
    let mut damaged = 0;
    for (kind, id) in nodes {
        // Past what was opened before: the check asks about the disk.
        let opened = engine.open(kind, &id).ok().flatten();
        let Some(names) = opened.and_then(|bytes| names_of_block(kind, &bytes).ok()) else {
            damaged += 1;
            continue;
        };
        for name in names {
            match reader.block_by_id(&name)? {
                Some(number) => count(number),
                None => damaged += 1,
            }
        }
    }
    let revisions = reader.revisions()?;
    revisions.iter().for_each(|revision| count(revision.root));
    if let Some(base) = reader.history()?.base {
        count(base.root);
    }
    Ok((counts, damaged))
}
