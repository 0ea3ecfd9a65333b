//! A list of operations that takes effect as a whole or not at all, for every observer and across every power cut.
//!
//! Takes   a function that carries out the list, and the content that it writes
//! Gives   the file system with all of the changes, or with none
//! Never   lets a commit or a read by anyone else happen between two operations of the list
//! Spec    spec/5-crash-contract.md, 5.9
//!
//! How. The barrier gate is held exclusively, so no other mutation runs. The lock of the open database transaction is held
//! too, so no look-up, listing or commit runs. Rows are written after a savepoint, and nodes are changed in drafts. At the
//! end, either the savepoint is kept, and the drafts replace the nodes' states with all nodes locked; or the savepoint is
//! rolled back, and the drafts are dropped. Content is sealed and appended before the lock of the transaction is taken. So
//! the commit that stores the names also stores the extents.
//!
//! Invariants
//!  (1) Nothing in memory changes before the savepoint is kept.
//!  (2) Every node that changes is locked before the first one changes.
//!  (3) Pending content of a file is stored before the list changes the file's extents or puts the file in another's
//!      place. No content is added meanwhile, because the gate is held.

pub(crate) mod arrived;
pub(crate) mod draft;
pub(crate) mod join;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use strongroom_metadata::{InodeId, Transaction};

use crate::blocks::place::{Placed, Placement, Reason};
use crate::blocks::stream;
use crate::commit::commits::{commit_all, commit_covering};
use crate::content::node::Node;
use crate::content::overlay::CELL_BYTES;
use crate::content::reservation::Reserved;
use crate::core::Core;
use crate::core::sealers::Sealing;
use crate::drain::drains::drain_nodes;
use crate::drain::drop_regions::bound_holes;
use crate::limits::TRANSACTION_ROUNDS_MAX;
use crate::transaction::draft::{Draft, Drafts};
use crate::upkeep::room::make_room;
use crate::{Caller, Durability, Error, Filesystem, Result};

/// Bytes that a transaction writes to one place. Which file, says the list: see `Draft::write`.
#[derive(Clone, PartialEq, Eq)]
pub struct Content {
    /// Where in the file.
    pub offset: u64,
    /// What.
    pub data: Arc<[u8]>,
}

// Content is not for logs.
impl std::fmt::Debug for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes at {}", self.data.len(), self.offset)
    }
}

impl Filesystem {
    /// Carries out the list that `run` is, on behalf of `caller`: all of it or, if `run` gives an error, nothing.
    ///
    /// `run` may be called several times and must do the same each time; only its last call counts. It sees what
    /// it has done so far, others see all of it or nothing. While it runs, nobody else changes or looks anything
    /// up, so it is to be short, and it must not use this `Filesystem`, which would wait for itself.
    /// `contents`: what it may write, all of it in memory until the end.
    ///
    /// # Errors
    /// Those of `run`; `ReadOnly`, `Failed`; `NoSpace` and `QuotaExceeded` for `contents`. With
    /// `Durability::OnReturn` also those of `sync_inode`; then it has happened, but may be lost.
    pub fn transaction<T, E: From<Error>>(
        &self,
        caller: &Caller,
        contents: &[Content],
        durability: Durability,
        run: impl FnMut(&mut Draft<'_>) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let core = &self.core;
        if core.store.dirty_pages() > core.options.thresholds.dirty_pages_max / 2 {
            // An uncommitted page is never written: together both must not outgrow the page cache.
            commit_all(core)?;
        }
        let bytes: usize = contents.iter().map(|content| content.data.len()).sum();
        make_room(core, bytes as u64);
        let (given, covered) = carry_out(core, caller, contents, durability, run)?;
        if durability == Durability::OnReturn {
            commit_covering(core, covered)?;
        }
        Ok(given)
    }
}

/// Gives what `run` gave, and the count of changes that covers it.
fn carry_out<T, E: From<Error>>(
    core: &Core,
    caller: &Caller,
    contents: &[Content],
    durability: Durability,
    mut run: impl FnMut(&mut Draft<'_>) -> std::result::Result<T, E>,
) -> std::result::Result<(T, u64), E> {
    let _gate = core.mutate_alone()?;
    let bytes: usize = contents.iter().map(|content| content.data.len()).sum();
    core.admit(bytes as u64)?;
    bound_holes(core)?;
    // With the promise that no epoch begins before the rows of what was placed are written.
    let mut placed: Option<(Placement<'_>, Sealing<'_>)> = None;
    for _ in 0..TRANSACTION_ROUNDS_MAX {
        let mut writer = core.store.lock();
        core.durability.check()?;
        // Before the savepoint: what was appended lies in its segment, whatever becomes of the list.
        let blocks = match &mut placed {
            Some((placement, _)) => Some(core.durability.fail_on_error(noted(
                core,
                &mut writer,
                placement,
                contents,
            ))?),
            None => (bytes == 0).then(|| contents.iter().map(|_| Vec::new()).collect()),
        };
        let is_placed = blocks.is_some();
        let suspects = core.blocks.suspected_blocks();
        let savepoint = writer.savepoint().map_err(Error::from)?;
        let mut draft = Draft {
            caller,
            contents,
            writer,
            drafts: Drafts::new(core),
            blocks,
        };
        // A panic is a bug in `run`, but no reason to leave the half of a list in the rows. What it may leave
        // inconsistent is the draft, which is dropped then.
        let result = catch_unwind(AssertUnwindSafe(|| run(&mut draft)));
        let Draft {
            mut writer, drafts, ..
        } = draft;
        match result {
            Ok(Ok(given)) if is_placed && drafts.pending.is_empty() => {
                let kept = writer.keep(savepoint).map_err(Error::from);
                core.durability.fail_on_error(kept)?;
                return Ok((given, finish(core, writer, drafts)));
            }
            result => {
                let rolled_back = writer.roll_back(savepoint).map_err(Error::from);
                let reloaded = rolled_back.and_then(|()| core.content.holes.reload(&writer));
                core.durability.fail_on_error(reloaded)?;
                for block in suspects {
                    core.blocks.suspect_block(block);
                }
                // The rows are as they were; a panic that unwinds with the writer held would fail the store.
                drop(writer);
                drop(result.unwrap_or_else(|panic| resume_unwind(panic))?);
            }
        }
        // (3); the placement goes first, for its lock comes behind the nodes' `flush`.
        drop(placed.take());
        let pending: Vec<Arc<Node>> = drafts.pending.into_values().collect();
        drain_nodes(core, &pending, Reason::Namespace)?;
        let sealing = core.blocks.sealers.sealing();
        placed = Some((place(core, &sealing, contents, durability)?, sealing));
    }
    Err(Error::WouldBlock.into())
}

/// What follows when the savepoint is kept; gives the count of changes that covers the list.
fn finish(core: &Core, writer: Transaction<'_>, drafts: Drafts<'_>) -> u64 {
    // Counted first: whoever finds the count as it was before finds the nodes so too. No commit comes between, for it needs the writer.
    core.changed();
    let unused = install(core, &drafts);
    let covered = core.durability.changes();
    drop(writer);
    for inode in unused {
        core.purge_soon(inode);
    }
    for (inode, cell) in drafts.fragmented {
        core.work.defragment(inode, cell);
    }
    covered
}

/// One block's worth of a content, kept alive for the sealing threads.
struct Slice {
    data: Arc<[u8]>,
    range: std::ops::Range<usize>,
}

impl AsRef<[u8]> for Slice {
    fn as_ref(&self) -> &[u8] {
        &self.data[self.range.clone()]
    }
}

/// `content` cut where cells meet, so that each part becomes one block.
fn slices(content: &Content) -> impl Iterator<Item = Slice> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let left = content.data.len() - at;
        let in_cell = (content.offset.wrapping_add(at as u64)) % CELL_BYTES;
        let room = usize::try_from(CELL_BYTES - in_cell).unwrap_or(usize::MAX);
        let range = at..at + room.min(left);
        at = range.end;
        let data = Arc::clone(&content.data);
        (left > 0).then_some(Slice { data, range })
    })
}

/// How long the content of each of its blocks is.
pub(crate) fn slice_lens(content: &Content) -> Vec<u32> {
    let len = |slice: Slice| u32::try_from(slice.range.len()).expect("a slice lies in one cell");
    slices(content).map(len).collect()
}

/// Seals all contents and finds their blocks a place.
fn place<'a>(
    core: &'a Core,
    sealing: &Sealing<'_>,
    contents: &[Content],
    durability: Durability,
) -> Result<Placement<'a>> {
    let clear: Vec<Slice> = contents.iter().flat_map(slices).collect();
    let reason = match durability {
        Durability::OnReturn => Reason::Sync,
        Durability::WriteBehind => Reason::Namespace,
    };
    stream::place(core, sealing, clear, reason)
}

/// Writes the rows of the segments that were appended to; gives the blocks of each content.
fn noted(
    core: &Core,
    writer: &mut Transaction<'_>,
    placement: &mut Placement<'_>,
    contents: &[Content],
) -> Result<Vec<Vec<Placed>>> {
    placement.note_segments(core, writer)?;
    let mut blocks = placement.take_blocks();
    Ok(contents
        .iter()
        .map(|content| blocks.by_ref().take(slices(content).count()).collect())
        .collect())
}

/// Puts the drafts in place of the nodes' states; gives the nodes that nothing holds any more. Call with the
/// writer held, after the savepoint was kept.
fn install(core: &Core, drafts: &Drafts<'_>) -> Vec<InodeId> {
    let nodes: Vec<Arc<Node>> = drafts
        .nodes
        .values()
        .map(|drafted| match drafted.is_new {
            true => core
                .content
                .nodes
                .insert(drafted.inode.clone(), Reserved::default()),
            false => Arc::clone(&drafted.node),
        })
        .collect();
    // (2), in the order of their numbers.
    let mut states: Vec<_> = nodes.iter().map(|node| node.lock()).collect();
    for ((node, state), drafted) in nodes.iter().zip(&mut states).zip(drafts.nodes.values()) {
        state.inode = drafted.inode.clone();
        state.inode.reserved = state.reserved.bytes();
        // No record may build on it before it is durable, also where its row is written already.              [8.6]
        state.unlogged.note_other();
        for range in &drafted.ended {
            core.content.end_reservation(state, range);
        }
        if !drafted.is_stored {
            state.changed();
        }
        if state.attributes_dirty {
            core.content.list_dirty(node, state);
        }
        // The list may have set or dropped it: whoever asks next asks the rows.
        state.has_capability = None;
        if drafted.has_new_content {
            state.note_stored();
            state.regions.clear();
        }
        if drafted.inode.nlink > 0 {
            state.may_get_first_name = false;
        }
    }
    drop(states);
    // After the names went: see `Filesystem::forget`.
    let nameless = drafts
        .nodes
        .iter()
        .filter(|(_, drafted)| drafted.inode.nlink == 0);
    nameless
        .map(|(id, _)| *id)
        .filter(|id| core.content.nodes.references(*id) == 0)
        .collect()
}
