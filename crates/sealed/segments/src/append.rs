//! Appends batches of sealed blocks, and returns the blocks' places.
//!
//! Takes   blocks of one epoch, sealed in a batch or copied into it, and the sealed tail for exactly these blocks
//! Gives   one place per block; durable only after `sync`
//! Never   writes over acknowledged bytes, or acknowledges a part of a batch
//! Spec    spec/3-segment.md
//!
//! Invariants
//!  (1) Batches are in the file in the order of their sequences: one lock is held while a batch is written. Copying and
//!      checksums are done without it.
//!  (2) If a batch began another file, its result names the file that was open before (`Appended::full`).

use std::collections::HashMap;
use std::sync::Arc;

use strongroom_format::limits::SECTOR_BYTES;
use strongroom_format::segment::{
    FIRST_BATCH_OFFSET, SEGMENT_HEADER_BYTES, SegmentHeader, SegmentVersion,
};
use strongroom_format::{Epoch, Location, SealedBlock, SegmentId};

use crate::batch::{Batch, Closed, Tail};
use crate::counters::add;
use crate::disk::SegmentFile;
use crate::sync::Name;
use crate::unfinished::{Unfinished, write_error};
use crate::{Access, Error, Result, SegmentStore};

/// Where a batch went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The file it went to.
    pub segment: SegmentId,
    /// One place per block, in the order given.
    pub locations: Vec<Location>,
    /// Whether this batch began the file.
    pub started: bool,
    /// The file that was open before this batch began another: no batch goes there any more. It is to be
    /// finished by `finish`, now or at any later time, even after a restart.
    pub full: Option<SegmentId>,
    /// End of the batch in bytes: the file's committed length once the caller commits it.
    pub end: u64,
    /// What `sync` takes to make it durable.
    pub sequence: u64,
}

/// The files that may still grow.
#[derive(Default)]
pub(crate) struct Writer {
    /// The one that the next batch goes to, if it fits there. Always one of `unfinished`.
    pub(crate) open: Option<SegmentId>,
    pub(crate) unfinished: HashMap<SegmentId, Unfinished>,
}

impl SegmentStore {
    /// Memory for a batch of `blocks_len` sealed bytes, to be filled before `append`.
    ///
    /// `tail_len`: of its tail, about and without what fills the last sector; a longer one costs a copy of the batch.
    ///
    /// # Errors
    /// If a batch cannot hold that much, see `append`.
    pub fn batch(&self, blocks_len: usize, tail_len: usize) -> Result<Batch> {
        Batch::new(&self.pool, blocks_len, tail_len)
    }

    /// A batch of copies of `blocks`, each `sealed_len(clear_len)` bytes long.
    ///
    /// # Errors
    /// As `batch`; if a block has not the length of its content.
    pub fn batch_of(&self, blocks: &[&SealedBlock], tail_len: usize) -> Result<Batch> {
        Batch::of(&self.pool, blocks, tail_len)
    }

    /// Writes one batch. It is readable on return, and durable after `sync`.
    ///
    /// `batch`: of at least one block, with `tail` at most `BATCH_BYTES_MAX` bytes, the tail alone at most `INDEX_BYTES_MAX`.
    /// Goes to the open file, or to a new one if there is none, it has another epoch or suite, or no room.
    ///
    /// # Errors
    /// Then nothing of the batch counts, older batches are intact, and the store goes on; except after
    /// `Error::Failed`, which stays.
    pub fn append(&self, epoch: Epoch, batch: Batch, tail: Tail<'_>) -> Result<Appended> {
        self.check_writable()?;
        let mut batch = batch.close(tail)?;
        let mut writer = self.writer.lock();
        self.syncing.check()?;
        let going_on = writer.with_room(self, epoch, &batch);
        let name = if going_on.is_some() {
            Name::Known
        } else {
            Name::New
        };
        let (mut unfinished, file) = match going_on {
            Some(unfinished) => {
                let file = self.files.get(&self.disk, unfinished.header.id)?;
                (unfinished, file)
            }
            None => self.begin(epoch, &batch)?,
        };
        let id = unfinished.header.id;
        let offset = unfinished.end;
        if let Err(error) = unfinished.write(&file, &mut batch) {
            match name {
                // What was set aside stays so, and must not be asked for again.
                Name::Known => drop(writer.unfinished.insert(id, unfinished)),
                Name::New => self.discard(id),
            }
            return Err(error);
        }
        self.nearby.changed(id, offset);
        let end = unfinished.end;
        writer.unfinished.insert(id, unfinished);
        let full = if name == Name::New {
            writer.open.replace(id)
        } else {
            None
        };
        if name == Name::New {
            self.files.keep(id, &file);
            add(&self.counting.segments_begun, 1);
        }
        add(&self.counting.batches, 1);
        add(&self.counting.bytes_appended, end - offset);
        let sequence = self.syncing.record(id, &file, name);
        drop(writer);
        let locations = batch.locations(id, offset);
        Ok(Appended {
            segment: id,
            locations,
            started: name == Name::New,
            full,
            end,
            sequence,
        })
    }

    /// Writes the table of contents and the footer of `id`: it never changes again. Gives back the room
    /// set aside behind them. Gives the sequence that `sync` takes; what says "finished" elsewhere must wait
    /// for that. Any unfinished file may be finished, the open one too.
    ///
    /// # Errors
    /// `NotUnfinished` if this store neither began nor recovered it; `PartOfSector` if `sealed_contents` and a footer do not fill
    /// whole sectors; `ContentsTooLong` if they are longer than `contents_room`. After any error it is still
    /// unfinished, and its batches are intact.
    pub fn finish(&self, id: SegmentId, sealed_contents: &[u8]) -> Result<u64> {
        self.check_writable()?;
        let mut writer = self.writer.lock();
        self.syncing.check()?;
        let unfinished = writer
            .unfinished
            .get_mut(&id)
            .ok_or(Error::NotUnfinished(id))?;
        let file = self.files.get(&self.disk, id)?;
        let ending = unfinished.ending(&self.pool, sealed_contents)?;
        let end = unfinished.end + ending.len() as u64;
        unfinished.set_room_aside(&file, end)?;
        file.write_at(&ending, unfinished.end)
            .map_err(write_error)?;
        file.cut(end).map_err(Error::Io)?;
        writer.unfinished.remove(&id);
        if writer.open == Some(id) {
            writer.open = None;
        }
        Ok(self.syncing.record(id, &file, Name::Known))
    }

    /// The file that the next batch goes to, if it has room and that epoch.
    #[must_use]
    pub fn open_segment(&self) -> Option<SegmentId> {
        self.writer.lock().open
    }

    /// The longest that a segment gets, in bytes, unless its first batch is longer.
    #[must_use]
    pub fn segment_bytes_max(&self) -> u64 {
        self.segment_bytes_max
    }

    /// Bytes that the disk counts as used and nothing is written to yet. Waits for a batch that is being written.
    #[must_use]
    pub fn room_aside(&self) -> u64 {
        let writer = self.writer.lock();
        writer.unfinished.values().map(Unfinished::room_aside).sum()
    }

    /// The longest table of contents that `finish` takes for `id`, in bytes; `None` if it is not unfinished.
    #[must_use]
    pub fn contents_room(&self, id: SegmentId) -> Option<u64> {
        self.writer
            .lock()
            .unfinished
            .get(&id)
            .map(Unfinished::contents_room)
    }

    /// A new file with its header, and room for `batch`.
    fn begin(&self, epoch: Epoch, batch: &Closed) -> Result<(Unfinished, Arc<SegmentFile>)> {
        let header = SegmentHeader {
            version: SegmentVersion::Sectors,
            suite: self.suite,
            epoch,
            id: (self.names)().map_err(Error::Random)?,
        };
        let file = self.disk.create(header.id).map_err(write_error)?;
        let mut unfinished = Unfinished::new(header);
        let mut sector = self.pool.take(SECTOR_BYTES);
        sector.fill(0);
        sector[..SEGMENT_HEADER_BYTES].copy_from_slice(&header.encode());
        let begun = unfinished
            .set_room_aside(&file, FIRST_BATCH_OFFSET + batch.len())
            .and_then(|()| file.write_at(&sector, 0).map_err(write_error));
        match begun {
            Ok(()) => Ok((unfinished, Arc::new(file))),
            Err(error) => {
                self.discard(header.id);
                Err(error)
            }
        }
    }

    /// Removes a file that no batch of was acknowledged. If that fails too, an unknown file stays behind:
    /// it costs room until the owner of the vault removes what its database does not know.
    fn discard(&self, id: SegmentId) {
        let _ = self.disk.unlink(id);
    }

    pub(crate) fn check_writable(&self) -> Result<()> {
        match self.access {
            Access::ReadWrite => Ok(()),
            Access::ReadOnly => Err(Error::ReadOnly),
        }
    }
}

impl Writer {
    /// The open file, if `batch` may go there.
    fn with_room(&self, store: &SegmentStore, epoch: Epoch, batch: &Closed) -> Option<Unfinished> {
        let open = self.unfinished.get(&self.open?)?;
        let fits = open.header.epoch == epoch
            && open.header.suite == store.suite
            && open.has_room(batch, store.segment_bytes_max);
        fits.then(|| open.clone())
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use strongroom_format::limits::SEGMENT_BYTES_MAX;
    use strongroom_format::segment::BATCH_HEADER_BYTES;

    use super::*;
    use crate::disk::faults::Call;
    use crate::limits::INDEX_BYTES_MAX;
    use crate::testing::{Folder, block, ends, refs};
    use crate::{StoreOptions, Tail, Transfer};
    use strongroom_format::SuiteId;

    #[test]
    fn every_way_to_move_bytes_gives_back_what_was_appended() {
        for transfer in [Transfer::Direct, Transfer::DontCache, Transfer::Buffered] {
            let folder = Folder::new();
            let Ok(store) = folder.open_by(transfer) else {
                assert_ne!(
                    transfer,
                    Transfer::Buffered,
                    "every file system takes buffered transfers"
                );
                continue;
            };
            let blocks: Vec<_> = [0, 1, 100, 16_384, 65_536].into_iter().map(block).collect();
            let appended = store
                .put(Epoch(3), &refs(&blocks), b"index")
                .expect("appended");
            assert!(appended.started && appended.full.is_none());
            for (block, location) in blocks.iter().zip(&appended.locations) {
                let read = store.read(*location, 0..location.len).expect("read");
                assert_eq!(*read, *block.bytes, "{transfer:?}");
            }
        }
    }

    #[test]
    fn batches_follow_one_another_in_one_file_until_the_epoch_changes() {
        let folder = Folder::new();
        let store = folder.open();
        let one = [block(10)];
        let first = store.put(Epoch(0), &refs(&one), b"a").expect("appended");
        let second = store.put(Epoch(0), &refs(&one), b"b").expect("appended");
        let third = store.put(Epoch(1), &refs(&one), b"c").expect("appended");
        assert_eq!((first.end, second.end, third.end), (8192, 12288, 8192));
        assert_eq!(second.segment, first.segment);
        assert!(!second.started && third.started);
        assert_eq!(third.full, Some(first.segment));
        assert_eq!(store.open_segment(), Some(third.segment));
        let scanned = store.scan(first.segment).expect("scanned");
        let labels: [&[u8]; 2] = [b"a", b"b"];
        assert_eq!(ends(&scanned, &labels), labels);
        assert_eq!(scanned.batches[1].blocks_offset, second.locations[0].offset);
    }

    #[test]
    fn a_full_file_is_followed_by_another_and_no_finished_file_passes_the_limit() {
        let folder = Folder::new();
        let store = folder.open();
        let blocks: Vec<_> = (0..64).map(|_| block(65_536)).collect();
        let index = vec![7; 200_000];
        let mut full = Vec::new();
        for _ in 0..10 {
            full.extend(
                store
                    .put(Epoch(0), &refs(&blocks), &index)
                    .expect("appended")
                    .full,
            );
        }
        assert_eq!(
            full.len(),
            3,
            "three batches of 4 MiB and their contents fill a file"
        );
        for id in full {
            let contents = vec![9; store.contents_room(id).expect("unfinished") as usize];
            store.end(id, &contents).expect("finished");
            assert!(store.len(id).expect("there") <= SEGMENT_BYTES_MAX);
            assert_eq!(
                store.scan(id).expect("scanned").tail,
                Tail::Finished {
                    sealed_contents: contents
                }
            );
        }
    }

    #[test]
    fn a_file_is_followed_by_another_at_the_length_that_was_asked_for() {
        let folder = Folder::new();
        let options = StoreOptions {
            segment_bytes_max: 64 * 1024,
            ..StoreOptions::new(SuiteId::Aes256GcmBlake3)
        };
        let store = SegmentStore::open(&folder.path(), options).expect("opened");
        let blocks = [block(20_000)];
        let appended: Vec<_> = (0..6)
            .map(|_| store.put(Epoch(0), &refs(&blocks), b"").expect("appended"))
            .collect();
        let started = appended.iter().filter(|batch| batch.started).count();
        assert_eq!(started, 3, "two batches of 20,000 bytes fit 64 KiB");
        assert!(appended.iter().all(|batch| batch.end <= 64 * 1024));
        let whole = store
            .put(Epoch(0), &[&block(65_536)], b"")
            .expect("the first batch of a file may be longer");
        assert!(whole.started);
    }

    #[test]
    fn a_finished_file_holds_no_room_it_does_not_use_and_takes_no_more_batches() {
        let folder = Folder::new();
        let store = folder.open();
        let one = [block(10)];
        let first = store
            .put(Epoch(0), &refs(&one), b"index")
            .expect("appended");
        let file = store.files.get(&store.disk, first.segment).expect("there");
        assert!(
            file.allocated_bytes().expect("told") > 1 << 20,
            "room is set aside while it is open"
        );
        store.end(first.segment, b"contents").expect("finished");
        assert_eq!(store.len(first.segment).expect("there"), 12288);
        assert_eq!(file.allocated_bytes().expect("told"), 12288);
        assert!(
            matches!(store.end(first.segment, b""), Err(Error::NotUnfinished(id)) if id == first.segment)
        );
        assert!(
            store
                .put(Epoch(0), &refs(&one), b"index")
                .expect("appended")
                .started
        );
    }

    #[test]
    fn closing_gives_back_the_room_set_aside() {
        let folder = Folder::new();
        let store = folder.open();
        let appended = store
            .put(Epoch(0), &refs(&[block(10)]), b"index")
            .expect("appended");
        drop(store);
        let store = folder.open();
        let file = store
            .files
            .get(&store.disk, appended.segment)
            .expect("there");
        assert_eq!(file.allocated_bytes().expect("told"), appended.end);
    }

    #[test]
    fn a_batch_that_breaks_a_limit_is_refused_and_nothing_is_written() {
        let folder = Folder::new();
        let store = folder.open();
        let mut wrong = block(10);
        wrong.bytes.pop();
        let mut endless = block(10);
        endless.clear_len = u32::MAX;
        let many: Vec<_> = (0..130).map(|_| block(65_536)).collect();
        let index = vec![0; INDEX_BYTES_MAX + 1];
        assert!(matches!(
            store.put(Epoch(0), &[], b""),
            Err(Error::EmptyBatch)
        ));
        assert!(matches!(
            store.put(Epoch(0), &[&wrong], b""),
            Err(Error::BlockLength {
                len: 25,
                expected: 26
            })
        ));
        assert!(matches!(
            store.put(Epoch(0), &[&endless], b""),
            Err(Error::BlockLength { .. })
        ));
        assert!(matches!(
            store.put(Epoch(0), &refs(&many), b""),
            Err(Error::BatchTooLong { .. })
        ));
        assert!(matches!(
            store.put(Epoch(0), &[&block(1)], &index),
            Err(Error::BatchTooLong { .. })
        ));
        assert!(store.list().expect("listed").is_empty());
    }

    #[test]
    fn contents_longer_than_their_room_are_refused_and_the_file_goes_on() {
        let folder = Folder::new();
        let store = folder.open();
        let one = [block(10)];
        let id = store
            .put(Epoch(0), &refs(&one), b"index")
            .expect("appended")
            .segment;
        let room = store.contents_room(id).expect("unfinished") as usize;
        assert!(matches!(
            store.end(id, &vec![0; room + 1]),
            Err(Error::ContentsTooLong { .. })
        ));
        assert!(
            !store
                .put(Epoch(0), &refs(&one), b"index")
                .expect("appended")
                .started
        );
    }

    /// Goal: a write that fails half-way leaves bytes behind; they must never count, and never be in the way.
    #[test]
    fn a_failed_batch_counts_for_nothing_and_the_next_goes_over_it() {
        for (error, expected_full) in [(Errno::IO, false), (Errno::NOSPC, true)] {
            let folder = Folder::new();
            let store = folder.open();
            let (small, large) = ([block(10)], [block(60_000)]);
            let first = store
                .put(Epoch(0), &refs(&small), b"first")
                .expect("appended");
            store.disk.faults.plan(Call::Write, 0, error);
            let failed = store
                .put(Epoch(0), &refs(&large), b"failed")
                .expect_err("the disk said no");
            assert_eq!(matches!(failed, Error::NoSpace), expected_full);
            assert_eq!(store.scan(first.segment).expect("scanned").end, first.end);
            let next = store
                .put(Epoch(0), &refs(&small), b"next")
                .expect("appended");
            assert_eq!(
                next.locations[0].offset as u64,
                first.end + BATCH_HEADER_BYTES as u64
            );
            let scanned = store.scan(first.segment).expect("scanned");
            assert_eq!(scanned.batches.len(), 2);
            assert!(
                matches!(scanned.tail, Tail::Torn(_)),
                "what is left of the failed one is told from a batch"
            );
            store.end(first.segment, b"contents").expect("finished");
            assert!(matches!(
                store.scan(first.segment).expect("scanned").tail,
                Tail::Finished { .. }
            ));
        }
    }

    #[test]
    fn a_file_whose_first_batch_fails_is_not_left_behind() {
        for writes_before in [0, 1] {
            let folder = Folder::new();
            let store = folder.open();
            store
                .disk
                .faults
                .plan(Call::Write, writes_before, Errno::NOSPC);
            assert!(matches!(
                store.put(Epoch(0), &[&block(60_000)], b""),
                Err(Error::NoSpace)
            ));
            assert!(store.list().expect("listed").is_empty());
            assert_eq!(store.open_segment(), None);
            assert!(
                store
                    .put(Epoch(0), &[&block(60_000)], b"")
                    .expect("appended")
                    .started
            );
        }
    }

    /// Goal: a batch that failed after the old file was full must not make the old file forgotten.
    #[test]
    fn a_failed_change_of_files_is_told_by_the_batch_that_succeeds() {
        let folder = Folder::new();
        let store = folder.open();
        let old = store
            .put(Epoch(0), &[&block(10)], b"")
            .expect("appended")
            .segment;
        store.disk.faults.plan(Call::Write, 1, Errno::IO);
        assert!(matches!(
            store.put(Epoch(1), &[&block(10)], b""),
            Err(Error::Io(_))
        ));
        assert_eq!(store.open_segment(), Some(old));
        let new = store.put(Epoch(1), &[&block(10)], b"").expect("appended");
        assert_eq!((new.started, new.full), (true, Some(old)));
    }

    #[test]
    fn a_failed_ending_leaves_the_file_unfinished_and_whole() {
        let folder = Folder::new();
        let store = folder.open();
        let appended = store
            .put(Epoch(0), &[&block(10)], b"index")
            .expect("appended");
        store.disk.faults.plan(Call::Write, 0, Errno::IO);
        assert!(matches!(
            store.end(appended.segment, &[1; 4096]),
            Err(Error::Io(_))
        ));
        assert_eq!(
            store.scan(appended.segment).expect("scanned").end,
            appended.end
        );
        store.end(appended.segment, &[1; 4096]).expect("finished");
        assert!(matches!(
            store.scan(appended.segment).expect("scanned").tail,
            Tail::Finished { .. }
        ));
    }
}
