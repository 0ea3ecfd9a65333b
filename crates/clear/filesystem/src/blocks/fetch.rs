//! Reads blocks, and opens the wanted part of each.
//!
//! Takes   extents of one node
//! Gives   their bytes, in a buffer; or that a block moved, or that a segment file is missing
//! Never   gives bytes of a block that did not open
//!
//! Invariants
//!  (1) Disk reads and decryption run without locks. If a block was moved or freed meanwhile, the caller looks it up again.
//!  (2) A block that is missing from a remembered place is not reported as damaged: only its place in the database counts.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use strongroom_crypto::{BlockSealer, OpenError};
use strongroom_format::{BlockId, Location, SegmentId};
use strongroom_metadata::{
    Block, BlockNumber, ERASED_SEGMENT, Extent, InodeId, Place, Transaction,
};
use strongroom_segments::{Part as SealedPart, SealedBytes};

use crate::blocks::erased::erased;
use crate::core::Core;
use crate::{Error, Result};

/// Sealed bytes from which opening is spread over the pool.
const POOL_BYTES: usize = 128 * 1024;

/// What came of filling a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fetched {
    /// It is filled.
    Whole,
    /// A block was moved since it was looked up, or re-sealed and the old keys are gone: look again. (1)
    Moved,
    /// The file of this segment is not here: it may be away, or what was in it moved.
    Missing(SegmentId),
}

/// A piece of the buffer to be filled from a block.
pub(crate) struct Fetch {
    /// Where in the buffer.
    pub(crate) out: Range<usize>,
    /// Which bytes of the clear block.
    clear: Range<usize>,
    pub(crate) block: Block,
    /// The sealed bytes, if the block waits for a segment.
    waiting: Option<Vec<u8>>,
    pub(crate) location: Option<Location>,
    /// Found without the database. (2)
    pub(crate) remembered: bool,
}

/// What of a fetch is needed to judge what came of it.
struct Piece {
    out: Range<usize>,
    block: BlockNumber,
    id: BlockId,
    /// Every sealed byte of the block is opened for it.
    is_whole: bool,
    remembered: bool,
}

impl Fetch {
    /// The piece that `part` names of `block`; `None` if the block is shorter than the extent says.
    pub(crate) fn new(block: Block, part: &Extent, offset: u64) -> Option<Self> {
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
            id: self.block.id,
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
            // One that is missing lets the next one take its place.
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
                return Err(erased(inode, part.start, at));
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
    let segments = fetches
        .iter()
        .filter_map(|fetch| Some(fetch.location?.segment));
    core.keep_limit.note_reads(segments);
    // One for all: what is read must be what is then opened.
    let sealer = core.blocks.sealers.newest();
    let parts: Vec<SealedPart> = fetches
        .iter()
        .filter_map(|fetch| sealed_part(&sealer, fetch))
        .collect();
    let mut sealed = core.blocks.segments.read_near(&parts).into_iter();
    let mut total = 0;
    let mut jobs = Vec::with_capacity(fetches.len());
    for fetch in fetches {
        let bytes = match fetch.waiting {
            Some(_) => None,
            None => match sealed.next().expect("one answer per part") {
                Ok(bytes) => Some(bytes),
                Err(strongroom_segments::Error::Missing(id)) => return Ok(Fetched::Missing(id)),
                // That says nothing about the block.
                Err(error) if error.is_shortage() => return Err(error.into()),
                Err(_) if fetch.remembered => return Ok(Fetched::Moved),
                Err(_) => {
                    core.blocks.suspect_block(fetch.block.number);
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
    let opening = Opening::begin(&core.blocks.opening);
    // With a read for each core nobody is free to help. Who helps costs a copy: only what is opened here goes where it is wanted.
    let alone =
        total < POOL_BYTES || jobs.len() < 2 || opening.others >= core.blocks.pool.threads();
    let own = match alone {
        true => jobs.len(),
        false => jobs.len().div_ceil(core.blocks.pool.threads() + 1),
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
            core.blocks.pool.run_all_beside(others, open_own)
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
            core.blocks.opened.note(piece.id, piece.block);
        }
        return Ok(Fetched::Whole);
    };
    if piece.remembered {
        return Ok(Fetched::Moved);
    }
    // Also where only its keys are gone: if they stay gone, no new content may be named after it.
    core.blocks.suspect_block(piece.block);
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

/// What came from memory may be out of date, or spoiled there: only the disk shows damage.
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
    match core.blocks.segments.read(part.location, part.range) {
        Ok(bytes) => open_into(sealer, fetch, Some(&bytes), out),
        Err(_) => Err(why),
    }
}
