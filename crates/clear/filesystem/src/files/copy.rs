//! Copies a range between files by sharing blocks: stored content is not read, sealed or written again.
//!
//! Takes   two files and a range
//! Gives   the count of bytes that the target now shares with the source
//! Never   copies content of a snapshot; copies other content only if some program keeps writing to one of the two files

use std::ops::Range;
use std::sync::Arc;

use strongroom_history::Extent as TreeExtent;
use strongroom_metadata::{Extent, InodeId, REGION_BYTES, Reads, Transaction};

use crate::blocks::erased::refuse_erased;
use crate::blocks::place::Reason;
use crate::content::extents;
use crate::content::node::{Node, NodeState};
use crate::content::overlay::CELL_BYTES;
use crate::core::Core;
use crate::drain::drains::{drain_all, drain_nodes};
use crate::drain::edit::RegionEdit;
use crate::history::living_extent;
use crate::rules::attributes::end_in_file;
use crate::{Error, Filesystem, Result};

/// What one hold of the writer copies at most, but for a hole: 1 GiB is some 16,000 extents, a few ten milliseconds.
const STEP_BYTES: u64 = 1 << 30;

/// A copy of at most this many bytes, 64 extents, is done before a hand-over to another thread would be.
const INLINE_BYTES_MAX: u64 = 4 << 20;

/// How often a step drains again because somebody wrote meanwhile, before it copies bytes instead.
const ATTEMPTS: usize = 4;

/// Bytes that the fallback moves at once.
const BYTES_AT_ONCE: usize = 1 << 20;

impl Filesystem {
    /// Whether `copy_range` between these would wait for a drain, or hold its caller for long: then it does not
    /// belong on an event loop.
    #[must_use]
    pub fn copy_would_wait(&self, source: InodeId, target: InodeId, len: u64) -> bool {
        [source, target].into_iter().any(|inode| {
            self.core.content.nodes.find(inode).is_none_or(|node| {
                let state = node.lock();
                state.has_pending_content() || state.inode.size.min(len) > INLINE_BYTES_MAX
            })
        })
    }

    /// Makes `len` bytes at `target_offset` equal to those at `source_offset`; gives how many: fewer at the source's end, or if
    /// something fails behind those. The next call, which begins there, gives the error.
    ///
    /// # Errors
    /// `InvalidArgument` if both ranges overlap in one file or a node is no regular file; `Erased` for content of a
    /// snapshot that is no more.
    pub fn copy_range(
        &self,
        source: InodeId,
        source_offset: u64,
        target: InodeId,
        target_offset: u64,
        len: u64,
    ) -> Result<u64> {
        if crate::is_in_snapshot(source) {
            return self.copy_from_snapshot(source, source_offset, target, target_offset, len);
        }
        let from = self.core.node(source)?;
        let to = self.core.node(target)?;
        let overlap = source_offset.abs_diff(target_offset) < len;
        if source == target && overlap && len > 0 {
            return Err(Error::InvalidArgument("the ranges overlap".into()));
        }
        // As it is before the copy, which makes it longer if both are one file; at least 1, so that a step checks both nodes.
        let size = from.lock().inode.size;
        let len = len.min(size.saturating_sub(source_offset).max(1));
        in_steps(len, |done| {
            let at = source_offset.checked_add(done).ok_or(Error::FileTooLarge)?;
            let until = target_offset.checked_add(done).ok_or(Error::FileTooLarge)?;
            self.copy_step(&from, at, &to, until, len - done)
        })
    }

    /// `copy_range` from a file of a snapshot.
    fn copy_from_snapshot(
        &self,
        source: InodeId,
        source_offset: u64,
        target: InodeId,
        target_offset: u64,
        len: u64,
    ) -> Result<u64> {
        let snapshots = self.snapshots(source).ok_or(Error::Stale)?;
        let to = self.core.node(target)?;
        in_steps(len, |done| {
            let at = source_offset.checked_add(done).ok_or(Error::FileTooLarge)?;
            let until = target_offset.checked_add(done).ok_or(Error::FileTooLarge)?;
            let step = step_len(len - done, || snapshots.hole(source, at, len - done))?;
            let (step, extents) = snapshots.shareable(source, at, step)?;
            if step == 0 {
                return Ok(0);
            }
            // Somebody who writes to the target all the time must not keep this here for ever.
            let shared = (0..16 * ATTEMPTS).find_map(|_| {
                drain_nodes(&self.core, &[Arc::clone(&to)], Reason::Namespace)
                    .and_then(|()| {
                        let _gate = self.core.mutate()?;
                        share_from_snapshot(&self.core, source, &extents, at, &to, until, step)
                    })
                    .transpose()
            });
            shared.ok_or(Error::WouldBlock)?
        })
    }

    /// Copies up to `len` bytes; 0 at the source's end.
    fn copy_step(
        &self,
        from: &Arc<Node>,
        at: u64,
        to: &Arc<Node>,
        until: u64,
        len: u64,
    ) -> Result<u64> {
        for _ in 0..ATTEMPTS {
            self.drain_for_copy(from, to)?;
            let _gate = self.core.mutate()?;
            if let Some(copied) = share(&self.core, from, at, to, until, len)? {
                return Ok(copied);
            }
        }
        self.copy_bytes(from, at, to, until, len.min(STEP_BYTES))
    }

    /// Files that are copied soon after they were written come in crowds: what little is pending is drained
    /// together, in shared batches, instead of file by file.
    fn drain_for_copy(&self, from: &Arc<Node>, to: &Arc<Node>) -> Result<()> {
        let core = &self.core;
        let pending = [from, to]
            .iter()
            .any(|node| node.lock().has_pending_content());
        if pending && core.content.pending_bytes() <= 4 * core.options.thresholds.drain_bytes {
            return drain_all(core);
        }
        drain_nodes(core, &[Arc::clone(from), Arc::clone(to)], Reason::Namespace)
    }

    /// Somebody writes to one of the files all the time: copies what is there, piece by piece.
    fn copy_bytes(
        &self,
        from: &Arc<Node>,
        at: u64,
        to: &Arc<Node>,
        until: u64,
        len: u64,
    ) -> Result<u64> {
        let mut buffer = vec![0; BYTES_AT_ONCE];
        in_steps(len, |done| {
            let want = usize::try_from(len - done)
                .unwrap_or(usize::MAX)
                .min(buffer.len());
            let count = self.read(from.id, at + done, &mut buffer[..want])?;
            if count > 0 {
                self.write(to.id, until + done, &buffer[..count])?;
            }
            Ok(count as u64)
        })
    }
}

/// Copies `len` bytes by `step`, which takes how many are done and gives how many more are, 0 at the end. What is done is not undone by
/// an error behind it: the next call, which begins there, meets it.
fn in_steps(len: u64, mut step: impl FnMut(u64) -> Result<u64>) -> Result<u64> {
    let mut done = 0;
    while done < len {
        match step(done) {
            Ok(0) => break,
            Ok(copied) => done += copied,
            Err(_) if done > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// How many of `len` bytes one step copies: `STEP_BYTES`, or all of a longer `hole`, which holds nothing to share.
fn step_len(len: u64, hole: impl FnOnce() -> Result<u64>) -> Result<u64> {
    match len > STEP_BYTES {
        true => Ok(len.min(hole()?.max(STEP_BYTES))),
        false => Ok(len),
    }
}

/// Shares the blocks of a file of a snapshot; `None` if the target has pending content again.
fn share_from_snapshot(
    core: &Core,
    source: InodeId,
    extents: &[TreeExtent],
    at: u64,
    to: &Arc<Node>,
    until: u64,
    len: u64,
) -> Result<Option<u64>> {
    let mut writer = core.store.lock();
    let mut parts = Vec::with_capacity(extents.len());
    for extent in extents {
        let extent = living_extent(&writer, source, extent)?;
        parts.extend(extents::part(&extent, &(at..at + len)));
    }
    refuse_erased(&writer, source, &parts)?;
    splice(core, &mut writer, to, &parts, at, until, len)
}

/// Shares the blocks of one step; `None` if one of the files has pending content again.
fn share(
    core: &Core,
    from: &Arc<Node>,
    at: u64,
    to: &Arc<Node>,
    until: u64,
    len: u64,
) -> Result<Option<u64>> {
    let mut writer = core.store.lock();
    let (parts, len) = {
        let mut source = from.lock();
        if !is_shareable(&source)? {
            return Ok(None);
        }
        let len = len.min(source.inode.size.saturating_sub(at));
        let len = step_len(len, || hole(core, &writer, from.id, at, len))?;
        let range = at..at + len.min(STEP_BYTES);
        let parts = source_parts(core, &mut writer, from.id, &mut source, range)?;
        (parts, len)
    };
    // What is written to the source from here on comes after the copy: extents change under the writer only.
    splice(core, &mut writer, to, &parts, at, until, len)
}

/// Whether no content is pending.
fn is_shareable(state: &NodeState) -> Result<bool> {
    state.check_file()?;
    Ok(!state.has_pending_content())
}

/// How many of `len` bytes at `at` lie before the next region that holds something.
fn hole(core: &Core, reads: &Reads, inode: InodeId, at: u64, len: u64) -> Result<u64> {
    let holes = &core.content.holes;
    let next = holes.next_region(reads, inode, at / REGION_BYTES)?;
    Ok(next.map_or(len, |region| (region * REGION_BYTES).saturating_sub(at)))
}

fn source_parts(
    core: &Core,
    writer: &mut Transaction<'_>,
    inode: InodeId,
    state: &mut NodeState,
    range: Range<u64>,
) -> Result<Vec<Extent>> {
    let mut parts = Vec::new();
    if range.is_empty() {
        return Ok(parts);
    }
    for region in range.start / REGION_BYTES..=(range.end - 1) / REGION_BYTES {
        let extents = core.content.region(writer, inode, state, region)?;
        parts.extend(
            extents
                .iter()
                .filter_map(|extent| extents::part(extent, &range)),
        );
    }
    Ok(parts)
}

/// Makes `parts` the content of `len` bytes at `until`; gives how many these are, `None` while content is pending there.
fn splice(
    core: &Core,
    writer: &mut Transaction<'_>,
    to: &Arc<Node>,
    parts: &[Extent],
    at: u64,
    until: u64,
    len: u64,
) -> Result<Option<u64>> {
    let mut state = to.lock();
    let range = until..end_in_file(until, len)?;
    if !is_shareable(&state)? {
        return Ok(None);
    }
    if len == 0 {
        return Ok(Some(0));
    }
    let mut drops = core.options.thresholds.purge_extents_per_step;
    let mut edit = RegionEdit::new(core, to, &mut state, &mut drops);
    // Sharing makes no new block, so a fragmented copy is as good as its source.
    let edited = put_shared(&mut edit, writer, parts, at, range.clone());
    let edited = edited.and_then(|()| edit.finish(writer));
    core.durability.fail_on_error(edited)?;
    core.content.end_reservation(&mut state, &range);
    state.inode.size = state.inode.size.max(range.end);
    state.content_changed(core.now());
    // The extents are those of this version: a hash of the version before is not of them.                  [8.6]
    state.note_stored();
    core.content.list_dirty(to, &mut state);
    core.changed();
    Ok(Some(len))
}

/// Makes `parts`, which begin at or behind `at` in their own file, the content of `range`.
pub(crate) fn put_shared(
    edit: &mut RegionEdit<'_>,
    writer: &mut Transaction<'_>,
    parts: &[Extent],
    at: u64,
    range: Range<u64>,
) -> Result<()> {
    let pieces: Vec<Extent> = parts
        .iter()
        .flat_map(|part| cut_at_cells(part, range.start + (part.start - at)))
        .collect();
    // Before the old content goes: it may be the last that names the same blocks. What was written in one run has numbers in one run.
    for run in pieces.chunk_by(|one, next| next.block.0 == one.block.0 + 1) {
        writer.share_blocks(run[0].block, run[run.len() - 1].block)?;
    }
    edit.punch(writer, range)?;
    for piece in pieces {
        edit.put(writer, piece)?;
    }
    Ok(())
}

/// `part` at its new `start`, cut where the target's cells meet: an extent lies inside one cell.
fn cut_at_cells(part: &Extent, start: u64) -> impl Iterator<Item = Extent> {
    let room = CELL_BYTES - start % CELL_BYTES;
    let first = u32::try_from(room).unwrap_or(u32::MAX).min(part.len);
    let head = Extent {
        start,
        len: first,
        block: part.block,
        block_offset: part.block_offset,
    };
    let tail = Extent {
        start: start + u64::from(first),
        len: part.len - first,
        block: part.block,
        block_offset: part.block_offset + first,
    };
    [head, tail].into_iter().filter(|piece| piece.len > 0)
}
