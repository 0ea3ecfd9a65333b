//! A byte range of a file becomes bytes: from memory where it is newer, else from blocks.
//!
//! Takes   an inode and a range
//! Gives   the bytes as of one moment; holes as zeros
//! Never   shows bytes of a block that did not open
//!
//! Invariants
//!  (1) What is resolved is resolved in one hold of the node: active → draining → extents.
//!  (2) Disk and decryption run without locks; a block that was moved or freed meanwhile is resolved anew.
//!  (3) Where a block was found before is tried first, without the database. That it is not there any more says nothing
//!      about it: only what the database says now is judged.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use strongroom_crypto::{BlockSealer, OpenError};
use strongroom_format::Location;
use strongroom_metadata::{
    Block, BlockNumber, ERASED_SEGMENT, Extent, InodeId, NodeKind, Place, REGION_BYTES, Transaction,
};
use strongroom_segments::{Part as SealedPart, SealedBytes};

use crate::content::extents;
use crate::content::node::{Node, NodeState};
use crate::content::overlay::{Overlay, Part};
use crate::content::region_cache::FoundBlock;
use crate::core::Core;
use crate::{Error, Filesystem, Result};

/// How often a read resolves anew before it reports damage: each time means that a block was moved.
const ATTEMPTS: usize = 4;

/// Sealed bytes from which opening is spread over the pool.
const POOL_BYTES: usize = 128 * 1024;

impl Filesystem {
    /// Fills `buffer` from `offset`; gives the count of bytes before the end of the file.
    ///
    /// # Errors
    /// `Damaged` or `Erased` with the first offset that cannot be read; what precedes it can be read by itself.
    pub fn read(&self, inode: InodeId, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        if let Some(snapshots) = self.snapshots(inode) {
            return snapshots.read(inode, offset, buffer);
        }
        let node = self.core.node(inode)?;
        for sources in [Sources::Remembered]
            .into_iter()
            .chain([Sources::Database; ATTEMPTS])
        {
            if let Some(count) = read_once(&self.core, &node, offset, buffer, sources)? {
                return Ok(count);
            }
            node.lock().regions.forget_blocks();
        }
        Err(Error::Damaged { inode, offset })
    }
}

/// What came of filling a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fetched {
    /// It is filled.
    Whole,
    /// A block was moved since it was looked up, or sealed anew and the old keys are gone: look again. (2)
    Moved,
}

/// Where a read may look blocks up. (3)
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sources {
    /// Where they were found before, else in the database.
    Remembered,
    Database,
}

/// A piece of the buffer to be filled from a block.
pub(crate) struct Fetch {
    /// Where in the buffer.
    out: Range<usize>,
    /// Which bytes of the clear block.
    clear: Range<usize>,
    block: Block,
    /// The sealed bytes, if the block waits for a segment.
    waiting: Option<Vec<u8>>,
    location: Option<Location>,
    /// Found without the database. (3)
    remembered: bool,
}

/// What of a fetch is needed to judge what came of it.
struct Piece {
    out: Range<usize>,
    block: BlockNumber,
    /// Every sealed byte of the block is opened for it.
    is_whole: bool,
    remembered: bool,
}

/// Gives the count of bytes; `None` if a block was moved meanwhile.
fn read_once(
    core: &Core,
    node: &Node,
    offset: u64,
    buffer: &mut [u8],
    sources: Sources,
) -> Result<Option<usize>> {
    let mut below = Vec::new();
    let mut fetches = None;
    let mut state = node.lock();
    let mut len = readable(&state, offset, buffer.len())?;
    fill_from_memory(&state, offset, &mut buffer[..len], &mut below);
    if below.is_empty() {
        return Ok(Some(len));
    }
    if sources == Sources::Remembered {
        fetches = remembered(&mut state, &below, offset);
    }
    drop(state);
    let fetches = match fetches {
        Some(fetches) => fetches,
        None => {
            // The writer is taken before the node, and what memory holds may have changed meanwhile.
            let mut writer = core.store.lock();
            below.clear();
            let mut state = node.lock();
            len = readable(&state, offset, buffer.len())?;
            fill_from_memory(&state, offset, &mut buffer[..len], &mut below);
            let mut fetches = Vec::new();
            for range in &below {
                resolve(
                    core,
                    &mut writer,
                    node.id,
                    &mut state,
                    range.clone(),
                    offset,
                    &mut fetches,
                )?;
            }
            fetches
        }
    };
    zero_holes(&mut buffer[..len], &below, offset, &fetches);
    match fetch_all(core, node.id, offset, &mut buffer[..len], fetches)? {
        Fetched::Whole => Ok(Some(len)),
        Fetched::Moved => Ok(None),
    }
}

/// The blocks behind `ranges`, if memory knows them all.
fn remembered(state: &mut NodeState, ranges: &[Range<u64>], offset: u64) -> Option<Vec<Fetch>> {
    let mut fetches = Vec::new();
    for range in ranges {
        for region in range.start / REGION_BYTES..=(range.end - 1) / REGION_BYTES {
            let extents = state.regions.get(region)?;
            let first = extents.partition_point(|extent| extents::end(extent) <= range.start);
            for extent in &extents[first..] {
                let Some(part) = extents::part(extent, range) else {
                    break;
                };
                let found = state.regions.block(region, part.block)?;
                let mut fetch = Fetch::new(found.block, &part, offset)?;
                fetch.location = Some(found.location);
                fetch.remembered = true;
                fetches.push(fetch);
            }
        }
    }
    Some(fetches)
}

/// How many of `wanted` bytes at `offset` lie before the end.
fn readable(state: &NodeState, offset: u64, wanted: usize) -> Result<usize> {
    if state.purged {
        return Err(Error::Stale);
    }
    match state.inode.kind {
        NodeKind::File => {}
        NodeKind::Directory => return Err(Error::IsADirectory),
        _ => return Err(Error::InvalidArgument("not a regular file".into())),
    }
    let left = state.inode.size.saturating_sub(offset);
    Ok(usize::try_from(left).unwrap_or(usize::MAX).min(wanted))
}

/// Copies what memory holds, and names the ranges that the extents must answer: they are left as they were.
fn fill_from_memory(state: &NodeState, offset: u64, out: &mut [u8], below: &mut Vec<Range<u64>>) {
    let range = offset..offset + out.len() as u64;
    let empty = Overlay::default();
    let draining = state.draining.as_deref().unwrap_or(&empty);
    let place = |range: &Range<u64>| place(range, offset);
    state.active.visit(range, |range, part| match part {
        Part::Data(bytes) => out[place(&range)].copy_from_slice(bytes),
        Part::Hole => out[place(&range)].fill(0),
        Part::Below => draining.visit(range, |range, part| match part {
            Part::Data(bytes) => out[place(&range)].copy_from_slice(bytes),
            Part::Hole => out[place(&range)].fill(0),
            Part::Below => below.push(range),
        }),
    });
}

/// Where in a buffer that begins at `offset` the bytes of `range`, which lie in it, go.
fn place(range: &Range<u64>, offset: u64) -> Range<usize> {
    // Both lie inside the buffer, whose length is a usize.
    usize::try_from(range.start - offset).unwrap_or(0)
        ..usize::try_from(range.end - offset).unwrap_or(0)
}

/// Zeros what of `ranges` none of `fetches`, which are in order, will fill.
fn zero_holes(out: &mut [u8], ranges: &[Range<u64>], offset: u64, fetches: &[Fetch]) {
    let mut fetches = fetches.iter().map(|fetch| &fetch.out).peekable();
    for range in ranges {
        let range = place(range, offset);
        let mut from = range.start;
        while let Some(filled) = fetches.next_if(|filled| filled.start < range.end) {
            if from < filled.start {
                out[from..filled.start].fill(0);
            }
            from = from.max(filled.end);
        }
        if from < range.end {
            out[from..range.end].fill(0);
        }
    }
}

/// Names the blocks behind `range`. What no extent holds is a hole.
fn resolve(
    core: &Core,
    writer: &mut Transaction<'_>,
    inode: InodeId,
    state: &mut NodeState,
    range: Range<u64>,
    offset: u64,
    fetches: &mut Vec<Fetch>,
) -> Result<()> {
    for region in range.start / REGION_BYTES..=(range.end - 1) / REGION_BYTES {
        let extents = core.region(writer, inode, state, region)?;
        let first = extents.partition_point(|extent| extents::end(extent) <= range.start);
        let parts = extents[first..].iter();
        let parts: Vec<Extent> = parts
            .map_while(|extent| extents::part(extent, &range))
            .collect();
        for fetch in fetches_of(writer, inode, &parts, offset)? {
            if let Some(location) = fetch.location {
                let block = fetch.block.clone();
                let found = FoundBlock { block, location };
                state.regions.remember(region, found);
            }
            fetches.push(fetch);
        }
        core.nodes.bound_extents(state);
    }
    Ok(())
}

impl Fetch {
    /// The piece that `part` names of `block`; `None` if the block is shorter than the extent says.
    fn new(block: Block, part: &Extent, offset: u64) -> Option<Self> {
        let from = part.block_offset as usize;
        let clear = from..from + part.len as usize;
        // How long the content of a compressed block is tells the block itself.
        if !block.kind.is_compressed() && clear.end > block.clear_len as usize {
            return None;
        }
        let out = usize::try_from(part.start - offset).unwrap_or(0);
        Some(Self {
            out: out..out + clear.len(),
            clear,
            block,
            waiting: None,
            location: None,
            remembered: false,
        })
    }

    /// Which sealed bytes of the block are needed.
    fn span(&self, sealer: &BlockSealer) -> Range<usize> {
        let Block { epoch, kind, .. } = self.block;
        let clear_len = self.block.clear_len as usize;
        sealer.sealed_span(epoch, kind, clear_len, self.clear.clone())
    }

    /// Whether every sealed byte of the block is opened.
    fn is_whole(&self) -> bool {
        self.block.kind.is_compressed() || self.clear.len() == self.block.clear_len as usize
    }

    fn piece(&self) -> Piece {
        Piece {
            out: self.out.clone(),
            block: self.block.number,
            is_whole: self.is_whole(),
            remembered: self.remembered,
        }
    }
}

/// What is to be fetched for each of `parts`: blocks whose numbers follow one another, as those of a file that was written
/// at once do, cost one statement.
pub(crate) fn fetches_of(
    writer: &mut Transaction<'_>,
    inode: InodeId,
    parts: &[Extent],
    offset: u64,
) -> Result<Vec<Fetch>> {
    let mut fetches = Vec::with_capacity(parts.len());
    for run in parts.chunk_by(|one, next| one.block.0.checked_add(1) == Some(next.block.0)) {
        let (first, last) = (run[0].block, run[run.len() - 1].block);
        let mut blocks = match run {
            [_] => writer.block(first)?.into_iter().collect(),
            _ => writer.blocks(first.0..=last.0)?,
        }
        .into_iter();
        for part in run {
            // One that is missing lets the next one stand in its place.
            let block = blocks.next().filter(|block| block.number == part.block);
            fetches.push(fetch_of(writer, inode, block, part, offset)?);
        }
    }
    Ok(fetches)
}

fn fetch_of(
    writer: &mut Transaction<'_>,
    inode: InodeId,
    block: Option<Block>,
    part: &Extent,
    offset: u64,
) -> Result<Fetch> {
    let damaged = Error::Damaged {
        inode,
        offset: part.start,
    };
    let Some(mut fetch) = block.and_then(|block| Fetch::new(block, part, offset)) else {
        return Err(damaged);
    };
    match fetch.block.place {
        Place::Waiting => match writer.waiting(part.block)? {
            Some(bytes) => fetch.waiting = Some(bytes),
            None => return Err(damaged),
        },
        Place::Segment(number, at) => {
            let Some(segment) = writer.segment_id(number)? else {
                return Err(damaged);
            };
            if segment == ERASED_SEGMENT {
                return Err(crate::damage::erase::erased(inode, part.start, at));
            }
            let clear_len = fetch.block.clear_len as usize;
            let len = strongroom_format::limits::sealed_len(clear_len);
            let len = u32::try_from(len).map_err(|_| damaged)?;
            fetch.location = Some(Location {
                segment,
                offset: at,
                len,
            });
        }
    }
    Ok(fetch)
}

/// Fills `out` with the content of `list`, whose extents follow one another without a gap.
pub(crate) fn read_extents(
    core: &Core,
    inode: InodeId,
    list: &[Extent],
    out: &mut [u8],
) -> Result<Fetched> {
    let Some(first) = list.first() else {
        return Ok(Fetched::Whole);
    };
    let mut writer = core.store.lock();
    let fetches = fetches_of(&mut writer, inode, list, first.start)?;
    drop(writer);
    fetch_all(core, inode, first.start, out, fetches)
}

/// Reads and opens all `fetches` into `buffer`, in parallel if that pays.
pub(crate) fn fetch_all(
    core: &Core,
    inode: InodeId,
    offset: u64,
    buffer: &mut [u8],
    fetches: Vec<Fetch>,
) -> Result<Fetched> {
    // One for all: what is read must be what is then opened.
    let sealer = core.sealers.newest();
    let parts: Vec<SealedPart> = fetches
        .iter()
        .filter_map(|fetch| sealed_part(&sealer, fetch))
        .collect();
    let mut sealed = core.segments.read_near(&parts).into_iter();
    let mut total = 0;
    let mut jobs = Vec::with_capacity(fetches.len());
    for fetch in fetches {
        let bytes = match fetch.waiting {
            Some(_) => None,
            None => match sealed.next().expect("one answer per part") {
                Ok(bytes) => Some(bytes),
                Err(strongroom_segments::Error::Missing(_)) => return Ok(Fetched::Moved),
                // That says nothing about the block.
                Err(error) if error.is_shortage() => return Err(error.into()),
                Err(_) if fetch.remembered => return Ok(Fetched::Moved),
                Err(_) => {
                    core.space.suspect_block(fetch.block.number);
                    return Err(Error::Damaged {
                        inode,
                        offset: offset + fetch.out.start as u64,
                    });
                }
            },
        };
        total += fetch.out.len();
        jobs.push((fetch, bytes));
    }
    let opening = Opening::begin(&core.opening);
    // With a read for each core nobody is free to help. Who helps costs a copy: only what is opened here goes where it is wanted.
    let alone = total < POOL_BYTES || jobs.len() < 2 || opening.others >= core.pool.threads();
    let own = match alone {
        true => jobs.len(),
        false => jobs.len().div_ceil(core.pool.threads() + 1),
    };
    let others = jobs.split_off(own);
    // A job of the pool owns what it works on, so each opens into a buffer of its own.
    let open = |(fetch, bytes): (Fetch, Option<SealedBytes>)| {
        let sealer = sealer.clone();
        move || {
            let mut clear = vec![0; fetch.out.len()];
            let opened = open_into(&sealer, &fetch, bytes.as_ref(), &mut clear);
            (fetch.piece(), opened, clear)
        }
    };
    let mut open_own = || -> Result<Fetched> {
        for (fetch, bytes) in &jobs {
            let out = &mut buffer[fetch.out.clone()];
            let opened = open_into(&sealer, fetch, bytes.as_ref(), out)
                .or_else(|why| open_anew(core, &sealer, fetch, out, why));
            if judge(core, inode, offset, &fetch.piece(), opened)? == Fetched::Moved {
                return Ok(Fetched::Moved);
            }
        }
        Ok(Fetched::Whole)
    };
    let (opened, of_own) = match others.is_empty() {
        true => (Vec::new(), open_own()),
        false => {
            let others = others.into_iter().map(open).collect();
            core.pool.run_all_beside(others, open_own)
        }
    };
    if of_own? == Fetched::Moved {
        return Ok(Fetched::Moved);
    }
    for (piece, opened, clear) in opened {
        if judge(core, inode, offset, &piece, opened)? == Fetched::Moved {
            return Ok(Fetched::Moved);
        }
        buffer[piece.out].copy_from_slice(&clear);
    }
    Ok(Fetched::Whole)
}

/// A read that opens blocks, for as long as it does.
struct Opening<'a> {
    count: &'a AtomicUsize,
    /// How many others did when it began.
    others: usize,
}

impl<'a> Opening<'a> {
    fn begin(count: &'a AtomicUsize) -> Self {
        let others = count.fetch_add(1, Ordering::Relaxed);
        Self { count, others }
    }
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What it means that a block did or did not open.
fn judge(
    core: &Core,
    inode: InodeId,
    offset: u64,
    piece: &Piece,
    opened: std::result::Result<(), NotOpened>,
) -> Result<Fetched> {
    let Err(why) = opened else {
        if piece.is_whole {
            core.space.note_opened(piece.block);
        }
        return Ok(Fetched::Whole);
    };
    if piece.remembered {
        return Ok(Fetched::Moved);
    }
    // Also where only its keys are gone: if they stay gone, no new content may be named after it.
    core.space.suspect_block(piece.block);
    match why {
        NotOpened::KeysGone => Ok(Fetched::Moved),
        NotOpened::Damaged => Err(Error::Damaged {
            inode,
            offset: offset + piece.out.start as u64,
        }),
    }
}

/// Why a block was not opened.
enum NotOpened {
    Damaged,
    /// There are no keys of its epoch.
    KeysGone,
}

/// The sealed bytes that what is wanted needs.
fn sealed_part(sealer: &BlockSealer, fetch: &Fetch) -> Option<SealedPart> {
    let location = fetch.location?;
    let span = fetch.span(sealer);
    let range = u32::try_from(span.start).ok()?..u32::try_from(span.end).ok()?;
    Some(SealedPart { location, range })
}

fn open_into(
    sealer: &BlockSealer,
    fetch: &Fetch,
    bytes: Option<&SealedBytes>,
    out: &mut [u8],
) -> std::result::Result<(), NotOpened> {
    let clear_len = fetch.block.clear_len as usize;
    let sealed: &[u8] = match (&fetch.waiting, bytes) {
        (Some(whole), _) => whole.get(fetch.span(sealer)).ok_or(NotOpened::Damaged)?,
        (None, Some(bytes)) => bytes.as_ref(),
        (None, None) => return Err(NotOpened::Damaged),
    };
    let block = &fetch.block;
    sealer
        .open_range(
            block.epoch,
            block.kind,
            &block.id,
            clear_len,
            fetch.clear.clone(),
            sealed,
            out,
        )
        .map_err(|error| match error {
            OpenError::UnknownEpoch { .. } => NotOpened::KeysGone,
            _ => NotOpened::Damaged,
        })
}

/// What came from memory may be out of date, or spoiled there: only the disk tells of damage.
fn open_anew(
    core: &Core,
    sealer: &BlockSealer,
    fetch: &Fetch,
    out: &mut [u8],
    why: NotOpened,
) -> std::result::Result<(), NotOpened> {
    let Some(part) = sealed_part(sealer, fetch) else {
        return Err(why);
    };
    match core.segments.read(part.location, part.range) {
        Ok(bytes) => open_into(sealer, fetch, Some(&bytes), out),
        Err(_) => Err(why),
    }
}

impl Core {
    /// The extents of one region, from memory or from the transaction.
    pub(crate) fn region(
        &self,
        writer: &mut Transaction<'_>,
        inode: InodeId,
        state: &mut NodeState,
        region: u64,
    ) -> Result<std::sync::Arc<Vec<Extent>>> {
        if let Some(extents) = state.regions.get(region) {
            return Ok(extents);
        }
        let in_hole = self.holes.around(inode, region).is_some();
        let extents = if in_hole {
            Vec::new()
        } else {
            writer.region(inode, region)?
        };
        let extents = std::sync::Arc::new(extents);
        state.regions.insert(region, &extents);
        self.nodes.bound_extents(state);
        Ok(extents)
    }
}
