//! Lists the blocks in a segment that stays at a remote, without downloading its content.
//!
//! Takes   a published segment, and byte ranges of its object
//! Gives   the place of each block, and the blocks of trees, which are needed here; or `None`: download the segment whole
//! Never   accepts a block that does not open under its name, or trusts its place: content is verified when fetched  [11.9.5]
//! Spec    spec/11-sync.md, 11.5
//!
//! Invariants
//!  (1) If anything in a range is unexpected, this gives `None`: the hash of the whole segment decides.

use std::ops::Range;

use strongroom_crypto::batch::tail_room;
use strongroom_crypto::{BlockSealer, SystemRandom};
use strongroom_folder::Folder as HeldFolder;
use strongroom_format::index::{IndexEntry, decode_contents};
use strongroom_format::limits::sealed_len;
use strongroom_format::publication::PublishedSegment;
use strongroom_format::segment::{FIRST_BATCH_OFFSET, Footer};
use strongroom_format::{Epoch, Kind, SealedBlock, SegmentId};
use strongroom_remote::Remote;
use strongroom_segments::{BatchTail, SegmentStore, StoreOptions};
use strongroom_sync::segment_name;

use crate::folder::SEGMENTS;
use crate::limits::{OUTLINE_GAP_BYTES, OUTLINE_RANGES_MAX, OUTLINE_TAIL_BYTES};
use crate::{Error, Result};

/// Blocks of one batch: of the longest it is 6.6 MB, less than a batch may have.
const BATCH_BLOCKS: usize = 100;

/// The blocks of a segment whose content stays at a remote.
#[derive(Debug)]
pub(crate) struct Outline {
    pub(crate) id: SegmentId,
    pub(crate) epoch: Epoch,
    /// End of its last batch.
    pub(crate) end: u64,
    /// For each batch where its first block lies, and its blocks.
    pub(crate) batches: Vec<(u32, Vec<IndexEntry>)>,
}

/// Where what a database is rebuilt from came from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source<'a> {
    /// It lies in the folder: content that no snapshot names may be all that is left of something.
    Folder,
    /// A remote, which knows that content, and still has the content of these segments.
    Remote(&'a [Outline]),
}

/// What came of a segment.
#[derive(Debug)]
pub(crate) struct Partly {
    pub(crate) outline: Outline,
    /// The blocks that are no content of files, as they are sealed now.
    pub(crate) nodes: Vec<SealedBlock>,
    /// How many bytes came.
    pub(crate) bytes: u64,
}

/// A block and its place.
struct Placed {
    kind: Kind,
    entry: IndexEntry,
    place: Range<u64>,
}

/// Bytes of an object that came, and where they begin.
type Piece = (u64, Vec<u8>);

/// What lies in a segment that need not come whole; `None` for one that has to, or whose ranges are not as they should be. (1)
///
/// At most `OUTLINE_RANGES_MAX` and two requests.
///
/// # Errors
/// Of the remote: it cannot be asked.
pub(crate) fn outline(
    remote: &dyn Remote,
    sealer: &BlockSealer,
    segment: &PublishedSegment,
) -> Result<Option<Partly>> {
    let Some(tail_start) = segment.len.checked_sub(OUTLINE_TAIL_BYTES) else {
        // All of it is one request, too.
        return Ok(None);
    };
    let read = |range: Range<u64>| -> Result<Option<Vec<u8>>> {
        let len = range.end - range.start;
        let found = remote.read_range(&segment_name(&segment.hash), range)?;
        Ok(found.filter(|found| found.len() as u64 == len))
    };
    let Some(tail) = read(tail_start..segment.len)? else {
        return Ok(None);
    };
    let footer = Footer::decode(&tail, segment.len).ok();
    let is_its =
        |footer: &Footer| footer.header.id == segment.id && footer.header.epoch == segment.epoch;
    let Some(footer) = footer.filter(is_its) else {
        return Ok(None);
    };
    let end = u64::from(footer.contents_offset);
    let mut pieces: Vec<Piece> = vec![(tail_start, tail)];
    if end < tail_start {
        let Some(mut contents) = read(end..tail_start)? else {
            return Ok(None);
        };
        contents.extend_from_slice(&pieces[0].1);
        pieces = vec![(end, contents)];
    }
    let contents = find(&pieces, end..end + u64::from(footer.contents_len));
    let table = contents.and_then(|sealed| {
        let clear = sealer.open_record(segment.epoch, Kind::SegmentTable, sealed);
        decode_contents(&clear.ok()?).ok()
    });
    let Some(batches) = table else {
        return Ok(None);
    };
    let Some(nodes) = nodes_worth_it(&batches, end) else {
        return Ok(None);
    };
    for range in joined(&nodes, pieces[0].0) {
        match read(range.clone())? {
            Some(bytes) => pieces.push((range.start, bytes)),
            None => return Ok(None),
        }
    }
    let sealed = nodes.iter().map(|node| {
        let bytes = find(&pieces, node.place.clone())?;
        under_newest_epoch(sealer, segment.epoch, node, bytes)
    });
    let Some(nodes) = sealed.collect::<Option<Vec<SealedBlock>>>() else {
        return Ok(None);
    };
    let bytes = pieces.iter().map(|(_, bytes)| bytes.len() as u64).sum();
    let (id, epoch) = (segment.id, segment.epoch);
    let outline = Outline {
        id,
        epoch,
        end,
        batches,
    };
    Ok(Some(Partly {
        outline,
        nodes,
        bytes,
    }))
}

/// The blocks of trees in batches that end at `end`; `None` if there is less content than that, if they lie too far apart, or if the
/// batches cannot be those of a segment.
fn nodes_worth_it(batches: &[(u32, Vec<IndexEntry>)], end: u64) -> Option<Vec<Placed>> {
    let mut nodes = Vec::new();
    let (mut content_bytes, mut node_bytes) = (0, 0);
    let mut before = FIRST_BATCH_OFFSET;
    for (first, entries) in batches {
        let mut start = u64::from(*first);
        if start < before {
            return None;
        }
        for entry in entries {
            let place = start..start + sealed_len(entry.clear_len as usize) as u64;
            start = place.end;
            let kind = Kind::from_number(entry.kind)?;
            if kind.is_data() {
                content_bytes += place.end - place.start;
                continue;
            }
            node_bytes += place.end - place.start;
            let entry = *entry;
            nodes.push(Placed { kind, entry, place });
        }
        before = start;
    }
    let is_worth_it = before <= end && content_bytes > node_bytes;
    let is_near = is_worth_it && joined(&nodes, u64::MAX).len() <= OUTLINE_RANGES_MAX;
    is_near.then_some(nodes)
}

/// The ranges in which `nodes` lie, which are sorted, but for what lies behind `known_from`.
fn joined(nodes: &[Placed], known_from: u64) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    let unknown = nodes.iter().map(|node| &node.place);
    for place in unknown.take_while(|place| place.start < known_from) {
        match ranges.last_mut() {
            Some(last) if place.start <= last.end + OUTLINE_GAP_BYTES => last.end = place.end,
            _ => ranges.push(place.clone()),
        }
    }
    ranges
}

/// The bytes of `range`, if they are in one of the pieces.
fn find(pieces: &[Piece], range: Range<u64>) -> Option<&[u8]> {
    pieces.iter().find_map(|(start, bytes)| {
        let from = usize::try_from(range.start.checked_sub(*start)?).ok()?;
        let to = usize::try_from(range.end.checked_sub(*start)?).ok()?;
        bytes.get(from..to)
    })
}

/// The block as it is to be stored here, if it opens.
fn under_newest_epoch(
    sealer: &BlockSealer,
    epoch: Epoch,
    node: &Placed,
    sealed: &[u8],
) -> Option<SealedBlock> {
    let IndexEntry { id, clear_len, .. } = node.entry;
    let opened = sealer.open_exactly(epoch, node.kind, &id, clear_len as usize, sealed);
    let clear = opened.ok()?;
    Some(match epoch == sealer.epoch() {
        true => SealedBlock {
            id,
            kind: node.kind,
            clear_len,
            bytes: sealed.to_vec(),
        },
        false => sealer.seal_exactly(node.kind, &clear),
    })
}

/// Segments of this vault for blocks that came without the rest of theirs.
pub(crate) struct NodeSegments<'a> {
    folder: &'a HeldFolder,
    sealer: &'a BlockSealer,
    /// Made for the first block.
    store: Option<SegmentStore>,
    appended: u64,
}

impl<'a> NodeSegments<'a> {
    /// In the vault folder `folder`.
    pub(crate) const fn new(folder: &'a HeldFolder, sealer: &'a BlockSealer) -> Self {
        Self {
            folder,
            sealer,
            store: None,
            appended: 0,
        }
    }

    /// Stores them; durable after `sync`. The segments get their ends when the vault is opened for writing.
    ///
    /// # Errors
    /// Of the disk; the random generator.
    pub(crate) fn put(&mut self, blocks: &[SealedBlock]) -> Result<()> {
        for blocks in blocks.chunks(BATCH_BLOCKS) {
            let store = match self.store.take() {
                Some(store) => store,
                None => {
                    let options = StoreOptions::new(self.sealer.suite());
                    SegmentStore::open_in(self.folder, SEGMENTS, options).map_err(storage)?
                }
            };
            let refs: Vec<&SealedBlock> = blocks.iter().collect();
            let batch = store.batch_of(&refs, tail_room(refs.len()));
            let batch = batch.map_err(storage)?;
            let entries = blocks.iter().map(|block| IndexEntry {
                id: block.id,
                kind: block.kind.number(),
                clear_len: block.clear_len,
            });
            let entries: Vec<IndexEntry> = entries.collect();
            let sealed = (self.sealer).seal_tail(&SystemRandom, &entries, batch.blocks_len())?;
            let tail = BatchTail {
                bytes: &sealed.bytes,
                index_len: sealed.index_len,
            };
            let appended = store.append(self.sealer.epoch(), batch, tail);
            self.appended = appended.map_err(storage)?.sequence;
            self.store = Some(store);
        }
        Ok(())
    }

    /// Makes what was stored durable.
    ///
    /// # Errors
    /// Of the disk.
    pub(crate) fn sync(self) -> Result<()> {
        match &self.store {
            Some(store) => store.sync(self.appended).map_err(storage),
            None => Ok(()),
        }
    }
}

fn storage(error: strongroom_segments::Error) -> Error {
    strongroom_filesystem::Error::from(error).into()
}

#[cfg(test)]
mod tests {
    use std::slice;

    use strongroom_format::BlockId;

    use super::*;

    fn entry(kind: Kind, clear_len: u32) -> IndexEntry {
        IndexEntry {
            id: BlockId([7; 32]),
            kind: kind.number(),
            clear_len,
        }
    }

    /// Content of 600,000 bytes with a node before it, and one behind it.
    fn batches() -> Vec<(u32, Vec<IndexEntry>)> {
        let mut first = vec![entry(Kind::TreeNode, 1_000)];
        first.extend(vec![entry(Kind::Data, 60_000); 10]);
        vec![(4_160, first), (700_000, vec![entry(Kind::ExtentList, 50)])]
    }

    #[test]
    fn only_batches_of_one_segment_with_more_content_than_nodes_are_worth_it() {
        let places = |batches: &[(u32, Vec<IndexEntry>)], end| {
            let nodes = nodes_worth_it(batches, end)?;
            Some(nodes.into_iter().map(|node| node.place.start).collect())
        };
        let found: Option<Vec<u64>> = places(&batches(), 704_512);
        assert_eq!(found, Some(vec![4_160, 700_000]));
        // Behind the end; one before the other; a kind that nobody knows.
        assert_eq!(places(&batches(), 700_010), None::<Vec<u64>>);
        let mut wrong = batches();
        wrong[1].0 = 500_000;
        assert_eq!(places(&wrong, 704_512), None::<Vec<u64>>);
        let mut wrong = batches();
        wrong[0].1[3].kind = 999;
        assert_eq!(places(&wrong, 704_512), None::<Vec<u64>>);
        assert_eq!(places(&[(100, Vec::new())], 704_512), None::<Vec<u64>>);
        // Nodes alone, and nothing.
        let nodes = vec![(4_160, vec![entry(Kind::TreeNode, 1_000)])];
        assert_eq!(places(&nodes, 8_192), None::<Vec<u64>>);
        assert_eq!(places(&[], 4_096), None::<Vec<u64>>);
        // Too far apart to be asked for one by one.
        let far = |count: u32| -> Vec<(u32, Vec<IndexEntry>)> {
            let batch = |at| (4_160 + at * 300_000, batches()[0].1[..5].to_vec());
            (0..count).map(batch).collect()
        };
        let most = OUTLINE_RANGES_MAX as u32;
        assert!(places(&far(most), 16 << 20).is_some_and(|found: Vec<u64>| found.len() == 16));
        assert_eq!(places(&far(most + 1), 16 << 20), None::<Vec<u64>>);
    }

    #[test]
    fn what_is_near_comes_at_once_and_what_is_known_not_again() {
        let places = [0..10, 10..20, 131_092..131_100, 300_000..300_001];
        let nodes = places.map(|place| Placed {
            kind: Kind::TreeNode,
            entry: entry(Kind::TreeNode, 1),
            place,
        });
        assert_eq!(joined(&nodes, u64::MAX), [0..131_100, 300_000..300_001]);
        assert_eq!(joined(&nodes, 300_000), slice::from_ref(&(0..131_100)));
        assert_eq!(joined(&nodes, 5), slice::from_ref(&(0..10)));
        assert!(joined(&[], 5).is_empty());
        let pieces = [(300_000, vec![1, 2, 3]), (5, vec![4; 10])];
        assert_eq!(find(&pieces, 300_001..300_003), Some(&[2, 3][..]));
        assert_eq!(find(&pieces, 5..15), Some(&[4; 10][..]));
        assert_eq!(find(&pieces, 4..6), None);
        assert_eq!(find(&pieces, 10..16), None);
    }
}
