//! Gives back what nothing names any more: nodes of removed trees, and with them what only they named.
//!
//! Takes   released blocks
//! Gives   their space, node by node
//! Never   touches more than a bounded part in one transaction, or goes below a node that something still names
//! Spec    spec/6-history.md, section 6.7
//!
//! Invariants
//!  (1) A node goes in the transaction that takes its references from what it names.    [6.7.2]
//!  (2) Nothing goes while blocks are held.                                             [6.6.2]

use std::collections::HashMap;

use strongroom_format::BlockId;
use strongroom_metadata::{BlockNumber, Reader};

use crate::engine::Engine;
use crate::error::Error;
use crate::limits::{GIVE_BACK_NODES, PAGE_ROWS, RELEASED_PAGE};
use crate::node::names_of_block;

/// How far giving back has come. In memory: the work itself is in the rows.
#[derive(Debug, Default)]
pub struct GiveBack {
    after: u64,
    /// Whether this pass gave something back: what that named may be released behind us.
    gave: bool,
}

/// A released block, and what it names if it is a node that can go.
struct Released {
    number: BlockNumber,
    names: Vec<BlockId>,
}

impl GiveBack {
    /// Does one step; gives whether more is left.
    ///
    /// A node that does not open stays, with all below it: the check names it.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn step<E: Engine>(&mut self, engine: &E) -> Result<bool, E::Error> {
        let (page, held) = engine.change(|writer| {
            let page = writer.released(BlockNumber(self.after), RELEASED_PAGE)?;
            let mut blocks = Vec::with_capacity(page.len());
            for number in page {
                blocks.push((number, writer.block(number)?));
            }
            Ok((blocks, writer.is_held()))
        })?;
        if held {
            return Ok(false);
        }
        let Some((last, _)) = page.last() else {
            // Those that were passed over are tried again, the next time somebody asks.
            self.after = 0;
            let again = std::mem::take(&mut self.gave);
            return Ok(self.forget_marks(engine)? || again);
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
                    let opened = engine.open(block.kind, &block.id);
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
                give_back(writer, released)?;
            }
            Ok(())
        })?;
        engine.commit_if_large()?;
        Ok(true)
    }

    /// Marks that the newest tree covers mean nothing any more.
    fn forget_marks<E: Engine>(&self, engine: &E) -> Result<bool, E::Error> {
        let more = engine.change(|writer| Ok(writer.forget_changed(PAGE_ROWS)?))?;
        engine.commit_if_large()?;
        Ok(more)
    }
}

/// (1)
fn give_back(
    writer: &mut strongroom_metadata::Transaction<'_>,
    released: &Released,
) -> Result<(), strongroom_metadata::Error> {
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
    writer.settle_released(number)
}

/// How often nodes of trees, revisions and the newest tree name each block, for a check of the counts; and how many
/// nodes do not open.
///
/// # Errors
/// Those of the engine.
pub fn references<E: Engine>(
    engine: &E,
    reader: &Reader<'_>,
) -> Result<(HashMap<BlockNumber, u32>, u64), E::Error> {
    let mut nodes = Vec::new();
    reader.for_each_block(|block, _| {
        if !block.kind.is_data() {
            nodes.push((block.kind, block.id));
        }
    })?;
    let mut counts: HashMap<BlockNumber, u32> = HashMap::new();
    let mut count = |number: Option<BlockNumber>| -> Result<(), Error> {
        let number = number.ok_or(Error::MissingBlock)?;
        *counts.entry(number).or_insert(0) += 1;
        Ok(())
    };
    let mut damaged = 0;
    for (kind, id) in nodes {
        let names = engine
            .open(kind, &id)
            .ok()
            .and_then(|bytes| names_of_block(kind, &bytes).ok());
        let Some(names) = names else {
            damaged += 1;
            continue;
        };
        for name in names {
            match reader.block_by_id(&name)? {
                Some(number) => count(Some(number))?,
                None => damaged += 1,
            }
        }
    }
    for revision in reader.revisions()? {
        count(Some(revision.root))?;
    }
    if let Some(base) = reader.history()?.base {
        count(Some(base.root))?;
    }
    Ok((counts, damaged))
}
