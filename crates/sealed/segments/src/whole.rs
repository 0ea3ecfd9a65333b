//! Reads a whole segment file into memory, as far as the disk can read it, so that every block can be checked.
//!
//! Takes   the name of a segment
//! Gives   its bytes, read sequentially; unreadable sectors become zeros, which fail every check
//! Never   fails because of a bad sector, or uses more memory than the largest segment and one sector
//! Spec    spec/3-segment.md

use std::fmt;
use std::ops::Deref;

use strongroom_format::SegmentId;
use strongroom_format::limits::{SECTOR_BYTES, SEGMENT_BYTES_MAX};
use strongroom_format::survey::{Survey, survey};

use crate::buffer::Buffer;
use crate::counters::add;
use crate::disk::SegmentFile;
use crate::{Error, Result, SegmentStore};

/// What is read again at a time where a run fails, in bytes.
const PIECE_BYTES: usize = 64 * 1024;

/// All bytes of a segment file. The memory is used again once this is dropped.
pub struct WholeSegment {
    id: SegmentId,
    buffer: Buffer,
    unreadable_bytes: u64,
}

impl Deref for WholeSegment {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer
    }
}

impl fmt::Debug for WholeSegment {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "WholeSegment({})", self.len())
    }
}

impl WholeSegment {
    /// What is in it, damaged or not.
    #[must_use]
    pub fn survey(&self) -> Survey<'_> {
        survey(self, self.id)
    }

    /// Bytes that the disk did not give; zeros take their place.
    #[must_use]
    pub const fn unreadable_bytes(&self) -> u64 {
        self.unreadable_bytes
    }
}

impl SegmentStore {
    /// All bytes of `id`; of a file that is longer than a segment may be, one sector more than that.
    ///
    /// # Errors
    /// `Missing` if there is no such file; what the system said of opening it.
    pub fn whole(&self, id: SegmentId) -> Result<WholeSegment> {
        let file = self.files.get(&self.disk, id)?;
        let longest = SEGMENT_BYTES_MAX + SECTOR_BYTES as u64;
        let len = file.len().map_err(Error::Io)?.min(longest);
        let len =
            usize::try_from(len).expect("holds: cut to little more than SEGMENT_BYTES_MAX above");
        let mut buffer = self.pool.take(len.next_multiple_of(SECTOR_BYTES));
        let mut unreadable_bytes = 0;
        let read = match file.read_at(&mut buffer, 0) {
            Ok(count) => count,
            Err(_) => {
                unreadable_bytes = read_in_pieces(&file, &mut buffer);
                len
            }
        };
        buffer.shorten(read.min(len));
        add(&self.counting.reads, 1);
        add(&self.counting.bytes_read, read as u64);
        Ok(WholeSegment {
            id,
            buffer,
            unreadable_bytes,
        })
    }
}

/// Reads what the disk gives, sector by sector where it must be; gives how many bytes it does not.
fn read_in_pieces(file: &SegmentFile, buffer: &mut [u8]) -> u64 {
    let mut unreadable = 0;
    let mut at = 0;
    for piece in buffer.chunks_mut(PIECE_BYTES) {
        let start = at;
        at += piece.len() as u64;
        if file.read_at(piece, start).is_ok() {
            continue;
        }
        for (index, sector) in piece.chunks_mut(SECTOR_BYTES).enumerate() {
            if file
                .read_at(sector, start + (index * SECTOR_BYTES) as u64)
                .is_err()
            {
                sector.fill(0);
                unreadable += sector.len() as u64;
            }
        }
    }
    unreadable
}

#[cfg(test)]
mod tests {
    use std::fs;

    use strongroom_format::Epoch;

    use super::*;
    use crate::testing::{Folder, block};

    /// A finished segment of four batches, and where they begin.
    fn four(folder: &Folder) -> (SegmentId, Vec<u64>) {
        let store = folder.open();
        let mut starts = vec![SECTOR_BYTES as u64];
        let mut id = None;
        for len in [50, 9000, 60, 70] {
            let appended = store
                .put(Epoch(0), &[&block(len)], b"index")
                .expect("appended");
            starts.push(appended.end);
            id = Some(appended.segment);
        }
        let id = id.expect("four were appended");
        store.end(id, b"contents").expect("finished");
        (id, starts)
    }

    #[test]
    fn a_sound_segment_has_no_fault_and_all_its_batches() {
        let folder = Folder::new();
        let (id, starts) = four(&folder);
        let whole = folder.open().whole(id).expect("read");
        let found = whole.survey();
        assert_eq!(found.faults, []);
        assert!(
            found
                .contents
                .is_some_and(|found| found.ends_with(b"contents"))
        );
        let offsets: Vec<u64> = found.batches.iter().map(|one| one.offset.into()).collect();
        assert_eq!(offsets, starts[..4]);
        assert!(found.batches.iter().all(|batch| batch.is_whole));
    }

    /// Goal: whatever one byte is altered, that it was is noted where it is, and every batch that does not hold it is
    /// found whole.
    #[test]
    fn an_altered_byte_is_named_and_costs_at_most_its_own_batch() {
        let folder = Folder::new();
        let (id, starts) = four(&folder);
        let path = folder.path_of(id);
        let sound = fs::read(&path).expect("read");
        for at in (0..sound.len()).step_by(61) {
            let mut altered = sound.clone();
            altered[at] ^= 0x20;
            fs::write(&path, &altered).expect("written");
            let whole = folder.open().whole(id).expect("read");
            let found = whole.survey();
            let named = found
                .faults
                .iter()
                .any(|fault| fault.start <= at as u64 && (at as u64) < fault.end);
            assert!(named, "byte {at}: {:?}", found.faults);
            let hit = starts
                .windows(2)
                .position(|pair| (pair[0]..pair[1]).contains(&(at as u64)));
            let whole_ones: Vec<u32> = found
                .batches
                .iter()
                .filter(|batch| batch.is_whole)
                .map(|batch| batch.header.number)
                .collect();
            let expected: Vec<u32> = (0..4_u32).filter(|n| Some(*n as usize) != hit).collect();
            assert_eq!(whole_ones, expected, "byte {at}");
        }
    }

    #[test]
    fn a_file_cut_anywhere_keeps_the_batches_before_the_cut() {
        let folder = Folder::new();
        let (id, starts) = four(&folder);
        let path = folder.path_of(id);
        let sound = fs::read(&path).expect("read");
        for len in (0..sound.len()).step_by(509) {
            fs::write(&path, &sound[..len]).expect("written");
            let whole = folder.open().whole(id).expect("read");
            let found = whole.survey();
            let kept = starts[1..].iter().filter(|end| **end <= len as u64).count();
            assert_eq!(found.batches.len(), kept, "cut at {len}");
            assert_eq!(found.contents, None);
        }
    }
}
