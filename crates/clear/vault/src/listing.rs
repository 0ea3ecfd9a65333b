//! Which blocks a segment lists, and where they lie.
//!
//! Takes   a segment, here or at a remote, or its sealed table of contents
//! Gives   its blocks, batch by batch
//! Never   gives some of the blocks as all of them
//! Spec    spec/3-segment.md, [3.12]

use strongroom_crypto::{BlockSealer, OpenError};
use strongroom_format::index::{IndexEntry, decode_contents};
use strongroom_format::segment::{Footer, SegmentHeader};
use strongroom_format::survey::{Survey, survey};
use strongroom_format::{Epoch, Kind};
use strongroom_remote::{ObjectName, Remote};
use strongroom_sync::limits::SEGMENT_OBJECT_BYTES_MAX;

/// Bytes at the end of a segment that are read first: the table of contents of most segments is in them.
const TAIL_BYTES: u64 = 32 * 1024;

/// For each batch where its first block lies, and its blocks.
pub(crate) type Listing = Vec<(u32, Vec<IndexEntry>)>;

/// What the table of contents of a segment lists; `None` if that is nothing. Then the indexes of the batches list the blocks: the table
/// would have been too long, as of very many very short blocks, or the segment was ended under the keys of a later epoch.        [3.12]
pub(crate) fn table(sealer: &BlockSealer, epoch: Epoch, contents: &[u8]) -> Option<Listing> {
    open_table(sealer, epoch, contents).ok().flatten()
}

/// The same.
///
/// # Errors
/// As `BlockSealer::open_record`.
fn open_table(
    sealer: &BlockSealer,
    epoch: Epoch,
    contents: &[u8],
) -> Result<Option<Listing>, OpenError> {
    let clear = sealer.open_record(epoch, Kind::SegmentTable, contents)?;
    Ok(decode_contents(&clear)
        .ok()
        .filter(|table| !table.is_empty()))
}

/// The blocks of a whole segment; `None` if neither its table of contents opens nor each index of its batches.
pub(crate) fn listed(sealer: &BlockSealer, epoch: Epoch, found: &Survey<'_>) -> Option<Listing> {
    if let Some(table) = table(sealer, epoch, found.contents?) {
        return Some(table);
    }
    let indexes = found.batches.iter().map(|batch| {
        let entries = sealer.open_index(epoch, &batch.payload).ok()?;
        Some((batch.blocks_offset(), entries))
    });
    indexes.collect()
}

/// The epoch and the blocks of a segment of `len` bytes at a remote: one request, two for a long table of contents, and one for all of a
/// segment whose table lists nothing. `None` if it is no finished segment, or does not open.
pub(crate) fn listed_at(
    remote: &dyn Remote,
    sealer: &BlockSealer,
    name: &ObjectName,
    len: u64,
) -> strongroom_remote::Result<Option<(Epoch, Listing)>> {
    let Some((header, contents)) = read_table(remote, name, len)? else {
        return Ok(None);
    };
    let found = match open_table(sealer, header.epoch, &contents) {
        // Its indexes do not open either.
        Err(OpenError::UnknownEpoch { .. }) => None,
        Ok(Some(table)) => Some(table),
        _ => remote
            .read(name, SEGMENT_OBJECT_BYTES_MAX)?
            .and_then(|bytes| listed(sealer, header.epoch, &survey(&bytes, header.id))),
    };
    Ok(found.map(|found| (header.epoch, found)))
}

/// The header of a finished segment and its sealed table of contents: one request, two for a long table.
fn read_table(
    remote: &dyn Remote,
    name: &ObjectName,
    len: u64,
) -> strongroom_remote::Result<Option<(SegmentHeader, Vec<u8>)>> {
    let start = len.saturating_sub(TAIL_BYTES);
    let Some(tail) = remote.read_range(name, start..len)? else {
        return Ok(None);
    };
    let Ok(footer) = Footer::decode(&tail, len) else {
        return Ok(None);
    };
    let offset = u64::from(footer.contents_offset);
    let end = offset + u64::from(footer.contents_len);
    let sealed = match offset.checked_sub(start) {
        // It fits: the footer says so, and no object here is longer than a segment.
        Some(from) => tail
            .get(from as usize..(end - start) as usize)
            .map(<[u8]>::to_vec),
        None => remote.read_range(name, offset..end)?,
    };
    Ok(sealed.map(|sealed| (footer.header, sealed)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use strongroom_crypto::batch::tail_room;
    use strongroom_crypto::record::padded_len;
    use strongroom_crypto::{EpochKey, IdKey, SystemRandom};
    use strongroom_format::SuiteId;
    use strongroom_format::index::encode_contents;
    use strongroom_format::segment::FOOTER_BYTES;
    use strongroom_segments::{BatchTail, SegmentStore, StoreOptions};

    use super::*;
    use crate::folder::{Folder, SEGMENTS};

    /// Goal: the blocks of a segment are found whether its table of contents lists them, was too long, or was sealed later. Method: three
    /// segments with equal batches, two with an empty table, one of these sealed under the keys of a later epoch. Failed before: no block of
    /// either was found, and no device could pull it.
    #[test]
    fn a_segment_whose_table_is_empty_is_listed_by_its_batches() {
        let place = tempfile::tempdir().unwrap();
        let suite = SuiteId::Aes256GcmBlake3;
        let of_epochs = |count| {
            let key = |number| (Epoch(number), EpochKey::from_bytes([1 + number as u8; 32]));
            let keys = (0..count).map(key).collect();
            BlockSealer::new(suite, [0; 16], IdKey::from_bytes([2; 32]), keys)
        };
        let (sealer, later) = (of_epochs(1), of_epochs(2));
        let folder = Folder::new(place.path()).hold().unwrap();
        folder.make_folder(SEGMENTS).unwrap();
        let store = SegmentStore::open_in(&folder, SEGMENTS, StoreOptions::new(suite)).unwrap();
        for (keeps_table, ends) in [(true, &sealer), (false, &sealer), (false, &later)] {
            let (mut written, mut id) = (Listing::new(), None);
            for number in 0..3_u8 {
                let block = sealer.seal_exactly(Kind::Data, &[number; 5]);
                let entries = vec![IndexEntry {
                    id: block.id,
                    kind: block.kind.number(),
                    clear_len: block.clear_len,
                }];
                let batch = store.batch_of(&[&block], tail_room(1)).unwrap();
                let sealed = sealer.seal_tail(&SystemRandom, &entries, batch.blocks_len());
                let sealed = sealed.unwrap();
                let tail = BatchTail {
                    bytes: &sealed.bytes,
                    index_len: sealed.index_len,
                };
                let appended = store.append(Epoch(0), batch, tail).unwrap();
                written.push((appended.locations[0].offset, entries));
                id = Some(appended.segment);
            }
            let mut clear = match keeps_table {
                true => encode_contents(&written),
                false => Vec::new(),
            };
            clear.resize(padded_len(clear.len(), FOOTER_BYTES), 0);
            let contents = ends.seal_record(&SystemRandom, Kind::SegmentTable, &clear);
            store.finish(id.unwrap(), &contents.unwrap()).unwrap();
            let whole = store.whole(id.unwrap()).unwrap();
            let found = listed(&later, Epoch(0), &whole.survey());
            assert_eq!(found, Some(written), "{keeps_table} {}", ends.epoch().0);
        }
    }
}
