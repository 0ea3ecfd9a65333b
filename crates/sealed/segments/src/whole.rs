//! Reads a whole segment file into memory, as far as the disk can read it, so that every block can be checked.
//!
//! Takes   the name of a segment
//! Gives   its bytes, read sequentially; unreadable sectors become zeros, which fail every check
//! Never   fails because of a bad sector, takes a shortage for one, or uses more memory than the largest segment and one sector
//! Spec    spec/3-segment.md

use std::fmt;
use std::io;
use std::ops::Deref;

use strongroom_format::SegmentId;
use strongroom_format::limits::{SECTOR_BYTES, SEGMENT_BYTES_MAX};
use strongroom_format::survey::{Survey, survey};

use crate::buffer::Buffer;
use crate::counters::add;
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
    /// `Missing` if there is no such file; what the system said of opening it; a shortage while it is read.
    pub fn whole(&self, id: SegmentId) -> Result<WholeSegment> {
        let file = self.files.get(&self.disk, id)?;
        let longest = SEGMENT_BYTES_MAX + SECTOR_BYTES as u64;
        let len = file.len().map_err(Error::Io)?.min(longest);
        let len =
            usize::try_from(len).expect("holds: cut to little more than SEGMENT_BYTES_MAX above");
        let mut buffer = self.pool.take(len.next_multiple_of(SECTOR_BYTES));
        let (read, unreadable_bytes) =
            read_readable(&mut buffer, |part, at| file.read_at(part, at))?;
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

/// Fills `buffer` with a file from its beginning on, sector by sector where the disk does not give it: zeros take the place of what it
/// does not give. Gives the bytes that were filled, and how many of them the disk did not give.
///
/// `read`: reads at an offset; gives fewer bytes than asked for only at the end of the file.
///
/// # Errors
/// Those that say nothing of the file (`Error::is_shortage`).
pub fn read_readable(
    buffer: &mut [u8],
    read: impl Fn(&mut [u8], u64) -> io::Result<usize>,
) -> Result<(usize, u64)> {
    if let Some(count) = unless_unreadable(read(buffer, 0))? {
        return Ok((count, 0));
    }
    let mut unreadable = 0;
    let mut at = 0;
    for piece in buffer.chunks_mut(PIECE_BYTES) {
        let start = at;
        at += piece.len() as u64;
        if let Some(count) = unless_unreadable(read(piece, start))? {
            // It became shorter meanwhile.
            piece[count..].fill(0);
            continue;
        }
        for (index, sector) in piece.chunks_mut(SECTOR_BYTES).enumerate() {
            let offset = start + (index * SECTOR_BYTES) as u64;
            let count = unless_unreadable(read(sector, offset))?;
            if count.is_none() {
                unreadable += sector.len() as u64;
            }
            sector[count.unwrap_or(0)..].fill(0);
        }
    }
    Ok((buffer.len(), unreadable))
}

/// `None` if the disk does not give these bytes.
fn unless_unreadable(read: io::Result<usize>) -> Result<Option<usize>> {
    match read.map_err(Error::of_io) {
        Err(error) if error.is_shortage() => Err(error),
        read => Ok(read.ok()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::io::Errno;
    use strongroom_format::Epoch;

    use super::*;
    use crate::disk::faults::Call;
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

    /// Failed before: sectors that could be read at the next try were zeros, and what is in them counted as lost.
    #[test]
    fn a_shortage_while_a_segment_is_read_is_no_damage_of_it() {
        let folder = Folder::new();
        let (id, _) = four(&folder);
        let sound = fs::read(folder.path_of(id)).expect("read");
        let store = folder.open();
        for shortage in [
            Errno::NOMEM,
            Errno::NFILE,
            Errno::AGAIN,
            Errno::STALE,
            Errno::TIMEDOUT,
        ] {
            store.disk.faults.plan(Call::Read, 0, shortage);
            let error = store.whole(id).expect_err("nothing was read");
            assert!(error.is_shortage(), "{error:?}");
            // Where a sector is bad, too.
            let mut buffer = vec![0_u8; 2 * PIECE_BYTES];
            let read = |part: &mut [u8], at: u64| -> io::Result<usize> {
                match (part.len() == SECTOR_BYTES, at) {
                    (true, 0) => Ok(SECTOR_BYTES),
                    (true, _) => Err(shortage.into()),
                    (false, _) => Err(Errno::IO.into()),
                }
            };
            let read = read_readable(&mut buffer, read);
            assert!(read.is_err_and(|error| error.is_shortage()));
        }
        store.disk.faults.plan(Call::Read, 0, Errno::IO);
        let whole = store.whole(id).expect("read in pieces");
        assert_eq!(whole.unreadable_bytes(), 0);
        assert!(whole[..] == sound[..]);
    }

    #[test]
    fn a_sector_that_the_disk_has_lost_is_zeros_and_the_rest_is_there() {
        const LEN: usize = 2 * PIECE_BYTES + 100;
        let lost = PIECE_BYTES + SECTOR_BYTES;
        let read = |part: &mut [u8], at: u64| -> io::Result<usize> {
            let at = usize::try_from(at).expect("a small file");
            if (at..at + part.len()).contains(&lost) {
                return Err(Errno::IO.into());
            }
            part.fill(7);
            Ok(part.len())
        };
        let mut buffer = vec![9_u8; LEN];
        let filled = read_readable(&mut buffer, read).expect("read");
        assert_eq!(filled, (LEN, SECTOR_BYTES as u64));
        for (at, byte) in buffer.into_iter().enumerate() {
            let is_lost = (lost..lost + SECTOR_BYTES).contains(&at);
            assert_eq!(byte, if is_lost { 0 } else { 7 }, "byte {at}");
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
