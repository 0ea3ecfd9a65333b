//! Recovers a segment file that was still open when the vault was closed or crashed, so that appends can continue.
//!
//! Takes   the file, and the end of its last committed batch according to the database
//! Gives   a file that can take the next batch, or why it cannot
//! Never   truncates a whole batch, or appends after bytes that it could not verify
//! Spec    spec/3-segment.md
//!
//! There are two reasons for a whole batch after the committed ones. A crash came before its commit; or the database is an older
//! copy that was restored, and only this batch has the newer content. Here the two cannot be distinguished, so the batch stays.

use strongroom_format::limits::SEGMENT_BYTES_MAX;
use strongroom_format::segment::{
    BatchPayload, FIRST_BATCH_OFFSET, Scan, ScanTail, SegmentVersion, scan,
};
use strongroom_format::{Epoch, SegmentId};

use crate::intent_log::is_decay;
use crate::scan::read_whole;
use crate::unfinished::Unfinished;
use crate::{Error, Result, SegmentStore};

/// What `recover_open` found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Cut behind the last whole batch. The next batch goes on there if it fits; else, and at any time,
    /// it can be finished.
    Resumed {
        /// Bytes behind it that are no batch.
        cut_bytes: u64,
    },
    /// It was finished, and its end is durable: only the database does not know yet.
    Finished,
    /// No batch of it was committed: to be removed.
    Empty,
    /// The committed part is not whole. It is left as it is and not appended to; what can be read of it can.
    Damaged {
        /// Bytes that are whole, counted from the start of the file.
        valid_len: u64,
    },
}

impl SegmentStore {
    /// Takes up `id`, whose last committed batch ends at `committed_len` bytes. Reads the file once.
    ///
    /// Call it for every segment that the database says is open, in the order they were begun: batches go
    /// on in the last one that was resumed. One of an earlier version takes no batch more: `finish` it.
    ///
    /// `index_len`: how long the sealed index of a batch is, by the lengths that it seals; `None` for one that does not open. Then
    /// room for contents is kept as if there was nothing else in the batch.
    ///
    /// # Errors
    /// `Missing` if there is no such file.
    pub fn recover_open(
        &self,
        id: SegmentId,
        committed_len: u64,
        index_len: &dyn Fn(Epoch, &BatchPayload<'_>) -> Option<u32>,
    ) -> Result<Recovery> {
        self.check_writable()?;
        if committed_len <= FIRST_BATCH_OFFSET {
            return Ok(Recovery::Empty);
        }
        let mut writer = self.writer.lock();
        let file = self.files.get(&self.disk, id)?;
        let whole = match read_whole(self, &file) {
            // A sector that the disk has lost keeps no vault from being opened. What can be read is.
            Err(Error::Io(error)) if is_decay(&error) => {
                return Ok(Recovery::Damaged { valid_len: 0 });
            }
            read => read?,
        };
        let found = match scan(&whole) {
            Ok(found) if found.header.id == id => found,
            _ => return Ok(Recovery::Damaged { valid_len: 0 }),
        };
        let committed = until(&found, committed_len, &|_, _| None);
        if committed.end != committed_len {
            return Ok(Recovery::Damaged {
                valid_len: committed.end,
            });
        }
        if matches!(found.tail, ScanTail::Finished(_)) {
            // Whoever wrote its end may have been killed before the sync, and the database is about to say that it has one.
            file.sync_data().map_err(Error::Io)?;
            return Ok(Recovery::Finished);
        }
        let unfinished = until(&found, found.end, index_len);
        let cut_bytes = file.len().map_err(Error::Io)?.saturating_sub(found.end);
        file.cut(found.end).map_err(Error::Io)?;
        writer.unfinished.insert(id, unfinished);
        if found.header.version == SegmentVersion::Sectors {
            writer.open = Some(id);
        }
        Ok(Recovery::Resumed { cut_bytes })
    }

    /// Gives back the room that the open file has set aside. Nothing depends on it.
    pub(crate) fn give_back_room(&self) {
        let writer = self.writer.lock();
        let Some(open) = writer.open.and_then(|id| writer.unfinished.get(&id)) else {
            return;
        };
        if self.syncing.check().is_ok()
            && let Ok(file) = self.files.get(&self.disk, open.header.id)
        {
            let _ = file.cut(open.end);
        }
    }
}

/// How far the file was written when the last of its batches that ends at or before `committed_len` was.
fn until(
    found: &Scan<'_>,
    committed_len: u64,
    index_len: &dyn Fn(Epoch, &BatchPayload<'_>) -> Option<u32>,
) -> Unfinished {
    let mut unfinished = Unfinished::new(found.header);
    for batch in &found.batches {
        let end = u64::from(batch.offset) + batch.header.batch_len();
        if end > committed_len.min(SEGMENT_BYTES_MAX) {
            break;
        }
        unfinished.end = end;
        unfinished.batches += 1;
        unfinished.chain = batch.header.chain();
        let index_len = index_len(found.header.epoch, &batch.payload).map(u64::from);
        let batch_len = batch.header.batch_len();
        unfinished.index_bytes += index_len.unwrap_or(batch_len).min(batch_len);
    }
    unfinished
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::io::Errno;
    use strongroom_format::Epoch;
    use strongroom_format::limits::{SECTOR_BYTES, sealed_len};
    use strongroom_format::segment::{BATCH_HEADER_BYTES, BatchHeader, BatchSize, checksum};

    use super::*;
    use crate::batch::{narrow, wide};
    use crate::disk::faults::Call;
    use crate::testing::{Folder, block, ends};
    use crate::{Tail, Transfer};

    /// Goal: whatever a power cut leaves of the last batch, exactly the earlier ones are found again.
    /// Method: the file cut at every byte of the last batch that means something, and at some of its padding;
    /// cut and filled with zeros up to its old length, as where room was set aside; and whole but for that
    /// one byte. (Every byte, without a disk: the tests of the format.)
    #[test]
    fn a_last_batch_torn_at_any_byte_is_cut_and_the_earlier_ones_are_kept() {
        let folder = Folder::new();
        let store = folder
            .open_by(Transfer::Buffered)
            .expect("every file system takes buffered transfers");
        let first = store
            .put(Epoch(0), &[&block(50)], b"first")
            .expect("appended");
        let second = store
            .put(Epoch(0), &[&block(60)], b"second")
            .expect("appended");
        let last = store
            .put(Epoch(0), &[&block(70)], b"last")
            .expect("appended");
        let id = first.segment;
        let path = folder.path_of(id);
        let whole = fs::read(&path).expect("read");
        assert_eq!(whole.len() as u64, last.end);
        let earlier = store.scan(id).expect("scanned").batches[..2].to_vec();
        let kept = second.end as usize;
        let meaning_end = kept + 64 + sealed_len(70) + b"last".len();
        for torn in (kept..meaning_end + 2).chain((meaning_end + 2..whole.len()).step_by(211)) {
            let cut = whole[..torn].to_vec();
            let mut zeros = cut.clone();
            zeros.resize(whole.len(), 0);
            let mut altered = whole.clone();
            altered[torn] ^= 0x40;
            for (bytes, open_end) in [(cut, torn == kept), (zeros, torn == kept), (altered, false)]
            {
                if bytes == whole {
                    // The last byte is padding: a zero cut off and filled in again is no change.
                    continue;
                }
                fs::write(&path, &bytes).expect("written");
                let scanned = store.scan(id).expect("scanned");
                assert_eq!(
                    (scanned.end, &scanned.batches),
                    (second.end, &earlier),
                    "torn at {torn}"
                );
                assert_eq!(
                    scanned.tail == Tail::Open,
                    open_end || bytes[kept..].iter().all(|&byte| byte == 0)
                );
                let cut_bytes = (bytes.len() - kept) as u64;
                assert_eq!(
                    store.take_up(id, second.end).expect("recovered"),
                    Recovery::Resumed { cut_bytes }
                );
                assert_eq!(fs::read(&path).expect("read"), whole[..kept]);
            }
        }
    }

    #[test]
    fn a_recovered_file_goes_on_behind_its_last_whole_batch() {
        let folder = Folder::new();
        let store = folder.open();
        let kept = store
            .put(Epoch(4), &[&block(50)], b"kept")
            .expect("appended");
        let uncommitted = store
            .put(Epoch(4), &[&block(70_000 / 2)], b"uncommitted")
            .expect("appended");
        drop(store);
        let path = folder.path_of(kept.segment);
        let torn = [fs::read(&path).expect("read"), vec![7; 5000]].concat();
        fs::write(&path, torn).expect("written");
        let store = folder.open();
        let cut_bytes = 5000;
        assert_eq!(
            store.take_up(kept.segment, kept.end).expect("recovered"),
            Recovery::Resumed { cut_bytes }
        );
        let next = store
            .put(Epoch(4), &[&block(80)], b"next")
            .expect("appended");
        assert_eq!((next.segment, next.started), (kept.segment, false));
        assert_eq!(u64::from(next.locations[0].offset), uncommitted.end + 64);
        store.end(kept.segment, b"contents").expect("finished");
        let scanned = store.scan(kept.segment).expect("scanned");
        let labels: [&[u8]; 3] = [b"kept", b"uncommitted", b"next"];
        assert_eq!(ends(&scanned, &labels), labels);
    }

    /// Goal: whatever batch somebody puts into an open file, it can be finished. Method: behind a batch another one, which takes no key to
    /// make and ends where the longest file does, or a sector before.
    /// Failed before: the first of these was taken up, and left no room for the end of the file, now and at every later opening.
    #[test]
    fn a_file_that_somebody_filled_up_can_be_finished() {
        for (sectors_left, is_cut) in [(0, true), (1, false)] {
            let folder = Folder::new();
            let store = folder.open();
            let first = store
                .put(Epoch(0), &[&block(50)], b"first")
                .expect("appended");
            drop(store);
            let path = folder.path_of(first.segment);
            let mut bytes = fs::read(&path).expect("read");
            assert_eq!(bytes.len() as u64, first.end);
            let forged_len = SEGMENT_BYTES_MAX - first.end - sectors_left * SECTOR_BYTES as u64;
            let payload = vec![7; wide(forged_len) - BATCH_HEADER_BYTES];
            let forged = BatchHeader {
                segment: first.segment,
                number: 1,
                size: BatchSize::Sectors(narrow(forged_len / SECTOR_BYTES as u64)),
                payload_checksum: checksum(&[&payload]),
                previous: scan(&bytes).expect("a segment").chain,
            };
            bytes.extend_from_slice(&forged.encode());
            bytes.extend_from_slice(&payload);
            fs::write(&path, bytes).expect("written");
            let store = folder.open();
            let cut_bytes = if is_cut { forged_len } else { 0 };
            assert_eq!(
                store.take_up(first.segment, first.end).expect("recovered"),
                Recovery::Resumed { cut_bytes }
            );
            let next = store
                .put(Epoch(0), &[&block(60)], b"next")
                .expect("appended");
            assert_eq!(next.segment == first.segment, is_cut);
            store.end(first.segment, b"").expect("finished");
            assert!(store.len(first.segment).expect("there") <= SEGMENT_BYTES_MAX);
            let tail = store.scan(first.segment).expect("scanned").tail;
            assert!(matches!(tail, Tail::Finished { .. }), "{tail:?}");
        }
    }

    #[test]
    fn a_resumed_file_has_room_set_aside_again_before_a_batch_is_written() {
        let folder = Folder::new();
        let store = folder.open();
        let kept = store.put(Epoch(0), &[&block(50)], b"").expect("appended");
        drop(store);
        let store = folder.open();
        store.take_up(kept.segment, kept.end).expect("recovered");
        let file = store.files.get(&store.disk, kept.segment).expect("there");
        assert_eq!(file.allocated_bytes().expect("told"), kept.end);
        store.put(Epoch(0), &[&block(50)], b"").expect("appended");
        assert!(file.allocated_bytes().expect("told") >= SEGMENT_BYTES_MAX);
    }

    #[test]
    fn an_ending_that_was_written_but_never_committed_is_found() {
        let folder = Folder::new();
        let store = folder.open();
        let appended = store
            .put(Epoch(0), &[&block(50)], b"index")
            .expect("appended");
        store.end(appended.segment, b"contents").expect("finished");
        drop(store);
        let store = folder.open();
        assert_eq!(
            store
                .take_up(appended.segment, appended.end)
                .expect("recovered"),
            Recovery::Finished
        );
    }

    /// Goal: nobody hears that a file is finished before its end is durable. Method: the sync fails.
    /// Failed before: the end was read from memory; after a power cut the database named a file finished that had no end.
    #[test]
    fn an_ending_that_is_found_is_durable_before_anybody_hears_of_it() {
        let folder = Folder::new();
        let store = folder.open();
        let appended = store.put(Epoch(0), &[&block(50)], b"").expect("appended");
        store.sync(appended.sequence).expect("synced");
        store.end(appended.segment, b"contents").expect("finished");
        drop(store);
        let store = folder.open();
        store.disk.faults.plan(Call::Sync, 0, Errno::IO);
        let found = store.take_up(appended.segment, appended.end);
        assert!(matches!(found, Err(Error::Io(_))), "{found:?}");
        let found = store.take_up(appended.segment, appended.end);
        assert_eq!(found.expect("recovered"), Recovery::Finished);
    }

    /// Goal: a database that is older than the files costs nothing of what lies in them.
    #[test]
    fn a_finished_file_is_left_as_it_is_whatever_was_committed_of_it() {
        let folder = Folder::new();
        let store = folder.open();
        let first = store
            .put(Epoch(0), &[&block(50)], b"first")
            .expect("appended");
        store
            .put(Epoch(0), &[&block(50)], b"second")
            .expect("appended");
        store.end(first.segment, b"contents").expect("finished");
        drop(store);
        let path = folder.path_of(first.segment);
        let before = fs::read(&path).expect("read");
        let store = folder.open();
        let found = store.take_up(first.segment, first.end);
        assert_eq!(found.expect("recovered"), Recovery::Finished);
        drop(store);
        assert_eq!(fs::read(&path).expect("read"), before);
    }

    /// Goal: a bad sector costs what lies in it, and not the vault; a shortage says nothing of the file. Method: the read fails.
    /// Failed before: with one bad sector in the segment that was open last, no vault opened for writing, not even to be repaired.
    #[test]
    fn a_sector_that_cannot_be_read_is_damage_of_its_file_alone() {
        let folder = Folder::new();
        let store = folder.open();
        let kept = store.put(Epoch(0), &[&block(50)], b"").expect("appended");
        drop(store);
        let store = folder.open();
        store.disk.faults.plan(Call::Read, 0, Errno::NOMEM);
        let found = store.take_up(kept.segment, kept.end);
        assert!(matches!(found, Err(Error::Io(_))), "{found:?}");
        store.disk.faults.plan(Call::Read, 0, Errno::IO);
        assert_eq!(
            store.take_up(kept.segment, kept.end).expect("recovered"),
            Recovery::Damaged { valid_len: 0 }
        );
        let place = kept.locations[0];
        store.read(place, 0..place.len).expect("read");
        let next = store.put(Epoch(0), &[&block(50)], b"").expect("appended");
        assert_ne!(next.segment, kept.segment);
    }

    #[test]
    fn a_damaged_committed_part_is_left_as_it_is() {
        let folder = Folder::new();
        let store = folder.open();
        let first = store
            .put(Epoch(0), &[&block(50)], b"first")
            .expect("appended");
        let second = store
            .put(Epoch(0), &[&block(50)], b"second")
            .expect("appended");
        let path = folder.path_of(first.segment);
        drop(store);
        let whole = fs::read(&path).expect("read");
        let mut altered = whole.clone();
        altered[first.end as usize + 70] ^= 1;
        let mut headless = whole.clone();
        headless[9] ^= 1;
        let cases = [
            (altered, second.end, first.end),
            (headless, second.end, 0),
            (whole[..first.end as usize].to_vec(), second.end, first.end),
            (whole[..100].to_vec(), second.end, 0),
            (whole.clone(), second.end - 1, first.end),
            (whole, second.end + 4096, second.end),
        ];
        for (bytes, committed_len, valid_len) in cases {
            fs::write(&path, &bytes).expect("written");
            let store = folder.open();
            let found = store
                .take_up(first.segment, committed_len)
                .expect("recovered");
            assert_eq!(found, Recovery::Damaged { valid_len });
            assert_eq!(store.open_segment(), None);
            drop(store);
            assert_eq!(fs::read(&path).expect("read"), bytes);
        }
    }

    #[test]
    fn a_file_nothing_was_committed_of_is_empty_and_a_missing_one_is_missing() {
        let folder = Folder::new();
        let store = folder.open();
        let id = store
            .put(Epoch(0), &[&block(50)], b"first")
            .expect("appended")
            .segment;
        assert_eq!(store.take_up(id, 0).expect("told"), Recovery::Empty);
        store.remove(id).expect("removed");
        assert!(matches!(store.take_up(id, 8192), Err(Error::Missing(gone)) if gone == id));
    }

    #[test]
    fn any_unfinished_file_can_be_finished_after_a_restart() {
        let folder = Folder::new();
        let store = folder.open();
        let old = store
            .put(Epoch(0), &[&block(50)], b"old")
            .expect("appended");
        let new = store
            .put(Epoch(1), &[&block(50)], b"new")
            .expect("appended");
        drop(store);
        let store = folder.open();
        for appended in [&old, &new] {
            let found = store
                .take_up(appended.segment, appended.end)
                .expect("recovered");
            assert_eq!(found, Recovery::Resumed { cut_bytes: 0 });
        }
        assert_eq!(store.open_segment(), Some(new.segment));
        store.end(old.segment, b"contents").expect("finished");
        assert!(
            !store
                .put(Epoch(1), &[&block(50)], b"more")
                .expect("appended")
                .started
        );
    }
}
