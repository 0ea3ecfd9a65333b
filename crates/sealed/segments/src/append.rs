//! Writes batches: sealed blocks in, their places out.
//!
//! Takes   blocks of one epoch and the sealed index of exactly these
//! Gives   one place per block; durable only after `sync`
//! Never   writes over acknowledged bytes, or acknowledges a part of a batch
//! Spec    spec/3-segment.md
//!
//! Invariants
//!  (1) `Unfinished::end` moves only after all bytes before it were written; a failed write leaves it,
//!      and the next batch goes over what the failed one left.                             [3.6]
//!  (2) Room for the table of contents and the footer is always left.                      [3.7]
//!  (3) Batches lie in the order of their sequences: one lock is held while one is written. Copying and
//!      checksums happen outside of it.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use strongroom_format::limits::{BLOCK_BYTES_MAX, SECTOR_BYTES, SEGMENT_BYTES_MAX, sealed_len};
use strongroom_format::segment::{
    BATCH_HEADER_BYTES, BatchHeader, FIRST_BATCH_OFFSET, FOOTER_BYTES, Footer,
    SEGMENT_HEADER_BYTES, SegmentHeader, batch_len, checksum, ending_len,
};
use strongroom_format::{Epoch, Location, SealedBlock, SegmentId, SuiteId};

use crate::buffer::{Buffer, Pool};
use crate::counters::add;
use crate::disk::{Allocated, SegmentFile};
use crate::limits::{BATCH_BYTES_MAX, INDEX_BYTES_MAX, contents_bytes_max};
use crate::sync::Name;
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

/// How far a file is written.
#[derive(Clone, Debug)]
pub(crate) struct Unfinished {
    pub(crate) header: SegmentHeader,
    /// End of the last acknowledged batch.
    pub(crate) end: u64,
    pub(crate) batches: u32,
    /// What the next record says as `previous`.
    pub(crate) chain: u32,
    /// Sum of the lengths of the sealed indexes.
    pub(crate) index_bytes: u64,
    /// Room on the disk is set aside up to here.
    pub(crate) allocated: u64,
}

impl SegmentStore {
    /// Writes one batch. It is readable on return, and durable after `sync`.
    ///
    /// `blocks`: at least one, each `sealed_len(clear_len)` bytes long; with `sealed_index` at most
    /// `BATCH_BYTES_MAX` bytes, the index alone at most `INDEX_BYTES_MAX`. Goes to the open file, or to a new
    /// one if there is none, it has another epoch or suite, or no room. Copies each block once.
    ///
    /// # Errors
    /// Then nothing of the batch counts, older batches are intact, and the store goes on; except after
    /// `Error::Failed`, which stays.
    pub fn append(
        &self,
        epoch: Epoch,
        blocks: &[&SealedBlock],
        sealed_index: &[u8],
    ) -> Result<Appended> {
        self.check_writable()?;
        let mut batch = Batch::prepare(&self.pool, blocks, sealed_index)?;

        let mut writer = self.writer.lock();
        self.syncing.check()?;
        let going_on = writer.with_room(self.suite, epoch, &batch);
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
        let locations = batch.locations(id, offset, blocks);
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
    /// `NotUnfinished` if this store neither began nor recovered it; `ContentsTooLong` if `sealed_contents`
    /// is longer than `contents_bytes_max` of its indexes' bytes may be. After any error it is still
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
    fn begin(&self, epoch: Epoch, batch: &Batch) -> Result<(Unfinished, Arc<SegmentFile>)> {
        let header = SegmentHeader {
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
    fn with_room(&self, suite: SuiteId, epoch: Epoch, batch: &Batch) -> Option<Unfinished> {
        let open = self.unfinished.get(&self.open?)?;
        let fits = open.header.epoch == epoch && open.header.suite == suite && open.has_room(batch);
        fits.then(|| open.clone())
    }
}

impl Unfinished {
    pub(crate) fn new(header: SegmentHeader) -> Self {
        Self {
            header,
            end: FIRST_BATCH_OFFSET,
            batches: 0,
            chain: header.chain(),
            index_bytes: 0,
            allocated: 0,
        }
    }

    fn has_room(&self, batch: &Batch) -> bool {
        let contents = contents_bytes_max(self.index_bytes + u64::from(batch.index_len));
        self.end + batch.len() + ending_len(contents) <= SEGMENT_BYTES_MAX
    }

    fn contents_room(&self) -> u64 {
        // `has_room` was asked before every batch, so that there is room for this much. [invariant 2]
        contents_bytes_max(self.index_bytes)
    }

    /// Writes `batch` behind the last acknowledged one, and acknowledges it.
    fn write(&mut self, file: &SegmentFile, batch: &mut Batch) -> Result<()> {
        let end = self.end + batch.len();
        self.set_room_aside(file, end)?;
        let header = batch.stamp(self);
        file.write_at(&batch.bytes, self.end).map_err(write_error)?;
        self.end = end;
        self.batches += 1;
        self.chain = header.chain();
        self.index_bytes += u64::from(batch.index_len);
        Ok(())
    }

    /// Sets room aside up to the longest a file may be, or up to `end` if the disk has no more.
    fn set_room_aside(&mut self, file: &SegmentFile, end: u64) -> Result<()> {
        if self.allocated >= end {
            return Ok(());
        }
        let mut reached = SEGMENT_BYTES_MAX;
        let mut tried = file.allocate(reached);
        if tried.as_ref().is_err_and(is_full) {
            // What a failed attempt took goes back first: others need it on a full disk.
            file.cut(file.len().map_err(Error::Io)?)
                .map_err(Error::Io)?;
            reached = end;
            tried = file.allocate(reached);
        }
        self.allocated = match tried.map_err(write_error)? {
            Allocated::Yes => reached,
            Allocated::Unknown => u64::MAX,
        };
        Ok(())
    }

    /// The bytes behind the last batch of a finished file.
    fn ending(&self, pool: &Arc<Pool>, sealed_contents: &[u8]) -> Result<Buffer> {
        let max = usize::try_from(self.contents_room()).unwrap_or(usize::MAX);
        let len = sealed_contents.len();
        if len > max {
            return Err(Error::ContentsTooLong { len, max });
        }
        let footer = Footer {
            header: self.header,
            contents_offset: narrow(self.end),
            contents_len: narrow(len as u64),
            contents_checksum: checksum(&[sealed_contents]),
            batches: self.batches,
            previous: self.chain,
        };
        let mut ending = pool.take(wide(ending_len(len as u64)));
        let footer_start = ending.len() - FOOTER_BYTES;
        ending[..len].copy_from_slice(sealed_contents);
        ending[len..footer_start].fill(0);
        ending[footer_start..].copy_from_slice(&footer.encode());
        Ok(ending)
    }
}

/// A batch as it will lie on the disk, except for its header, which depends on where that is.
struct Batch {
    bytes: Buffer,
    count: u32,
    blocks_len: u32,
    index_len: u32,
    payload_checksum: u32,
}

impl Batch {
    fn prepare(pool: &Arc<Pool>, blocks: &[&SealedBlock], sealed_index: &[u8]) -> Result<Self> {
        let blocks_len = check_lengths(blocks, sealed_index)?;
        let mut bytes = pool.take(wide(batch_len(
            blocks_len as u64,
            sealed_index.len() as u64,
        )));
        let mut at = BATCH_HEADER_BYTES;
        for part in blocks
            .iter()
            .map(|block| block.bytes.as_slice())
            .chain([sealed_index])
        {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        bytes[at..].fill(0);
        let payload_checksum = checksum(&[&bytes[BATCH_HEADER_BYTES..at]]);
        Ok(Self {
            bytes,
            count: narrow(blocks.len() as u64),
            blocks_len: narrow(blocks_len as u64),
            index_len: narrow(sealed_index.len() as u64),
            payload_checksum,
        })
    }

    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Puts the header for the next place in `file` in front.
    fn stamp(&mut self, file: &Unfinished) -> BatchHeader {
        let header = BatchHeader {
            segment: file.header.id,
            number: file.batches,
            count: self.count,
            blocks_len: self.blocks_len,
            index_len: self.index_len,
            payload_checksum: self.payload_checksum,
            previous: file.chain,
        };
        self.bytes[..BATCH_HEADER_BYTES].copy_from_slice(&header.encode());
        header
    }

    fn locations(&self, segment: SegmentId, offset: u64, blocks: &[&SealedBlock]) -> Vec<Location> {
        let mut next = narrow(offset + BATCH_HEADER_BYTES as u64);
        let place = |block: &&SealedBlock| {
            let location = Location {
                segment,
                offset: next,
                len: narrow(block.bytes.len() as u64),
            };
            next += location.len;
            location
        };
        blocks.iter().map(place).collect()
    }
}

/// The sum of the lengths of `blocks`, if the batch may be written.
fn check_lengths(blocks: &[&SealedBlock], sealed_index: &[u8]) -> Result<usize> {
    if blocks.is_empty() {
        return Err(Error::EmptyBatch);
    }
    if sealed_index.len() > INDEX_BYTES_MAX {
        return Err(Error::BatchTooLong {
            len: sealed_index.len(),
            max: INDEX_BYTES_MAX,
        });
    }
    let mut blocks_len = 0;
    for block in blocks {
        let (len, clear_len) = (block.bytes.len(), wide(u64::from(block.clear_len)));
        let expected = sealed_len(clear_len.min(BLOCK_BYTES_MAX));
        if len != expected || clear_len > BLOCK_BYTES_MAX {
            return Err(Error::BlockLength { len, expected });
        }
        blocks_len += len;
    }
    let len = blocks_len + sealed_index.len();
    if len > BATCH_BYTES_MAX {
        return Err(Error::BatchTooLong {
            len,
            max: BATCH_BYTES_MAX,
        });
    }
    Ok(blocks_len)
}

/// What an error of creating, setting room aside or writing means.
pub(crate) fn write_error(error: io::Error) -> Error {
    if is_full(&error) {
        Error::NoSpace
    } else {
        Error::Io(error)
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// A length or offset inside one segment.
fn narrow(len: u64) -> u32 {
    u32::try_from(len).expect("(2) holds: nothing in a segment reaches beyond SEGMENT_BYTES_MAX")
}

/// A length inside one segment, in memory.
fn wide(len: u64) -> usize {
    usize::try_from(len).expect("(2) holds: nothing in a segment reaches beyond SEGMENT_BYTES_MAX")
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;
    use crate::disk::faults::Call;
    use crate::testing::{Folder, block, refs};
    use crate::{Tail, Transfer};

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
                .append(Epoch(3), &refs(&blocks), b"index")
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
        let first = store.append(Epoch(0), &refs(&one), b"a").expect("appended");
        let second = store.append(Epoch(0), &refs(&one), b"b").expect("appended");
        let third = store.append(Epoch(1), &refs(&one), b"c").expect("appended");
        assert_eq!((first.end, second.end, third.end), (8192, 12288, 8192));
        assert_eq!(second.segment, first.segment);
        assert!(!second.started && third.started);
        assert_eq!(third.full, Some(first.segment));
        assert_eq!(store.open_segment(), Some(third.segment));
        let scanned = store.scan(first.segment).expect("scanned");
        assert_eq!(
            scanned
                .batches
                .iter()
                .map(|batch| batch.sealed_index.as_slice())
                .collect::<Vec<_>>(),
            [b"a", b"b"]
        );
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
                    .append(Epoch(0), &refs(&blocks), &index)
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
            store.finish(id, &contents).expect("finished");
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
    fn a_finished_file_holds_no_room_it_does_not_use_and_takes_no_more_batches() {
        let folder = Folder::new();
        let store = folder.open();
        let one = [block(10)];
        let first = store
            .append(Epoch(0), &refs(&one), b"index")
            .expect("appended");
        let file = store.files.get(&store.disk, first.segment).expect("there");
        assert!(
            file.allocated_bytes().expect("told") > 1 << 20,
            "room is set aside while it is open"
        );
        store.finish(first.segment, b"contents").expect("finished");
        assert_eq!(store.len(first.segment).expect("there"), 12288);
        assert_eq!(file.allocated_bytes().expect("told"), 12288);
        assert!(
            matches!(store.finish(first.segment, b""), Err(Error::NotUnfinished(id)) if id == first.segment)
        );
        assert!(
            store
                .append(Epoch(0), &refs(&one), b"index")
                .expect("appended")
                .started
        );
    }

    #[test]
    fn closing_gives_back_the_room_set_aside() {
        let folder = Folder::new();
        let store = folder.open();
        let appended = store
            .append(Epoch(0), &refs(&[block(10)]), b"index")
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
            store.append(Epoch(0), &[], b""),
            Err(Error::EmptyBatch)
        ));
        assert!(matches!(
            store.append(Epoch(0), &[&wrong], b""),
            Err(Error::BlockLength {
                len: 25,
                expected: 26
            })
        ));
        assert!(matches!(
            store.append(Epoch(0), &[&endless], b""),
            Err(Error::BlockLength { .. })
        ));
        assert!(matches!(
            store.append(Epoch(0), &refs(&many), b""),
            Err(Error::BatchTooLong { .. })
        ));
        assert!(matches!(
            store.append(Epoch(0), &[&block(1)], &index),
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
            .append(Epoch(0), &refs(&one), b"index")
            .expect("appended")
            .segment;
        let room = store.contents_room(id).expect("unfinished") as usize;
        assert!(matches!(
            store.finish(id, &vec![0; room + 1]),
            Err(Error::ContentsTooLong { .. })
        ));
        assert!(
            !store
                .append(Epoch(0), &refs(&one), b"index")
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
                .append(Epoch(0), &refs(&small), b"first")
                .expect("appended");
            store.disk.faults.plan(Call::Write, 0, error);
            let failed = store
                .append(Epoch(0), &refs(&large), b"failed")
                .expect_err("the disk said no");
            assert_eq!(matches!(failed, Error::NoSpace), expected_full);
            assert_eq!(store.scan(first.segment).expect("scanned").end, first.end);
            let next = store
                .append(Epoch(0), &refs(&small), b"next")
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
            store.finish(first.segment, b"contents").expect("finished");
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
                store.append(Epoch(0), &[&block(60_000)], b""),
                Err(Error::NoSpace)
            ));
            assert!(store.list().expect("listed").is_empty());
            assert_eq!(store.open_segment(), None);
            assert!(
                store
                    .append(Epoch(0), &[&block(60_000)], b"")
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
            .append(Epoch(0), &[&block(10)], b"")
            .expect("appended")
            .segment;
        store.disk.faults.plan(Call::Write, 1, Errno::IO);
        assert!(matches!(
            store.append(Epoch(1), &[&block(10)], b""),
            Err(Error::Io(_))
        ));
        assert_eq!(store.open_segment(), Some(old));
        let new = store
            .append(Epoch(1), &[&block(10)], b"")
            .expect("appended");
        assert_eq!((new.started, new.full), (true, Some(old)));
    }

    #[test]
    fn a_failed_ending_leaves_the_file_unfinished_and_whole() {
        let folder = Folder::new();
        let store = folder.open();
        let appended = store
            .append(Epoch(0), &[&block(10)], b"index")
            .expect("appended");
        store.disk.faults.plan(Call::Write, 0, Errno::IO);
        assert!(matches!(
            store.finish(appended.segment, &[1; 4096]),
            Err(Error::Io(_))
        ));
        assert_eq!(
            store.scan(appended.segment).expect("scanned").end,
            appended.end
        );
        store
            .finish(appended.segment, &[1; 4096])
            .expect("finished");
        assert!(matches!(
            store.scan(appended.segment).expect("scanned").tail,
            Tail::Finished { .. }
        ));
    }
}
