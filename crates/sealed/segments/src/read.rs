//! Reads sealed bytes, with as few system calls as their places allow.
//!
//! Takes   places, and the wanted range of the sealed block at each
//! Gives   exactly these bytes, in the order asked for, unverified: the crate `crypto` opens them
//! Never   copies them, trusts a place, or uses more memory for a run than `RUN_BYTES_MAX`
//!
//! Invariants
//!  (1) A place inside the limits of a segment costs at most one block of memory, whatever its values are.

use std::ops::{Deref, Range};
use std::sync::Arc;
use std::{fmt, io};

use strongroom_format::limits::{SEALED_BYTES_MAX, SECTOR_BYTES, SEGMENT_BYTES_MAX};
use strongroom_format::{Location, SegmentId};

use crate::buffer::Buffer;
use crate::counters::add;
use crate::dense::Way;
use crate::files::Pages;
use crate::limits::{GRAIN_BYTES, NEAR_READ_BYTES_MAX, RUN_BYTES_MAX, RUN_GAP_BYTES_MAX};
use crate::nearby::{Advice, Fetch, Found};
use crate::{Error, Result, SegmentStore};

const SECTOR: u64 = SECTOR_BYTES as u64;

/// A part of a sealed block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Where the whole sealed block lies.
    pub location: Location,
    /// Which of its sealed bytes.
    pub range: Range<u32>,
}

/// Sealed bytes in the buffer they were read to. Parts of one run share a buffer, which is used again
/// when the last of them is dropped.
#[derive(Clone)]
pub struct SealedBytes {
    buffer: Arc<Buffer>,
    range: Range<usize>,
}

impl Deref for SealedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer[self.range.clone()]
    }
}

impl AsRef<[u8]> for SealedBytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for SealedBytes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "SealedBytes({})", self.len())
    }
}

/// Bytes of one file, from `start` to `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    segment: SegmentId,
    start: u64,
    end: u64,
}

impl SegmentStore {
    /// Reads `range` of the sealed bytes of the block at `location`, by one call to the system.
    ///
    /// # Errors
    /// `Missing` when the file is gone: the block was moved or removed, look it up again.
    pub fn read(&self, location: Location, range: Range<u32>) -> Result<SealedBytes> {
        let span = Span::of(&Part { location, range })?;
        let buffer = self.read_span(span)?;
        Ok(SealedBytes::cut_from(&buffer, span, span))
    }

    /// As `read_many`. A single small part may come from memory, fetched with its neighbours before: bytes that the disk
    /// had then. Who finds them wrong asks `read_many`.
    #[must_use]
    pub fn read_near(&self, parts: &[Part]) -> Vec<Result<SealedBytes>> {
        match parts {
            [part] => vec![Span::of(part).and_then(|span| self.read_span_near(span))],
            _ => self.read_many(parts),
        }
    }

    /// Reads `parts`, neighbours by one call to the system. Gives one result per part, in their order; one
    /// that cannot be read fails alone. At most `RUN_BYTES_MAX` bytes per call.
    #[must_use]
    pub fn read_many(&self, parts: &[Part]) -> Vec<Result<SealedBytes>> {
        let spans: Vec<Result<Span>> = parts.iter().map(Span::of).collect();
        let mut order: Vec<(usize, Span)> = spans
            .iter()
            .enumerate()
            .filter_map(|(index, span)| Some((index, *span.as_ref().ok()?)))
            .collect();
        order.sort_unstable_by_key(|(_, span)| (span.segment, span.start, span.end));

        let mut results: Vec<Option<Result<SealedBytes>>> = Vec::new();
        results.resize_with(parts.len(), || None);
        let mut rest = order.as_slice();
        while let Some((_, first)) = rest.first() {
            let (run, count) = first.joined_with(&rest[1..]);
            let (members, behind) = rest.split_at(count);
            rest = behind;
            self.read_run(run, members, &mut results);
        }
        let alone =
            |(result, span): (Option<Result<SealedBytes>>, Result<Span>)| match (result, span) {
                (Some(result), _) => result,
                (None, Err(error)) => Err(error),
                (None, Ok(span)) => {
                    let buffer = self.read_span(span)?;
                    Ok(SealedBytes::cut_from(&buffer, span, span))
                }
            };
        results.into_iter().zip(spans).map(alone).collect()
    }

    /// Reads `run` and cuts `members` from it. If that fails nothing is said about any of them: each is then
    /// read alone, so that a bad sector costs only those it belongs to.
    fn read_run(
        &self,
        run: Span,
        members: &[(usize, Span)],
        results: &mut [Option<Result<SealedBytes>>],
    ) {
        let Ok(buffer) = self.read_span(run) else {
            return;
        };
        for (index, span) in members {
            results[*index] = Some(Ok(SealedBytes::cut_from(&buffer, run, *span)));
        }
    }

    fn read_span_near(&self, span: Span) -> Result<SealedBytes> {
        let near = span.end - span.start <= NEAR_READ_BYTES_MAX;
        if !near {
            return self.read_span_alone(span);
        }
        let found = match self.nearby.look(span.segment, span.start, span.end) {
            Advice::Here(found, ahead) => {
                // The reads to come are spared the wait for it. If it fails, nobody has asked for it yet.
                if let Some(fetch) = ahead {
                    let _ = self.fetch(fetch, 0);
                }
                found
            }
            Advice::Fetch(fetch) => match self.fetch(fetch, span.end) {
                Ok(found) => found,
                // A bad sector costs only those it belongs to: without the run the span is read alone.
                Err(_) => return self.read_span_alone(span),
            },
            Advice::Alone => return self.read_span_among(span),
        };
        let run = Span {
            start: found.run.start(),
            ..span
        };
        Ok(SealedBytes::cut_from(&found.buffer, run, span))
    }

    fn read_span_alone(&self, span: Span) -> Result<SealedBytes> {
        let buffer = self.read_span(span)?;
        Ok(SealedBytes::cut_from(&buffer, span, span))
    }

    /// Reads a small span that nothing in memory holds: with its grains where small reads are dense.
    fn read_span_among(&self, span: Span) -> Result<SealedBytes> {
        let kept = match self.dense.look(span.segment, span.start, span.end) {
            Way::Alone => None,
            Way::Kept => self.read_cached(span).map(|buffer| (span, buffer)),
            Way::WithGrains => {
                let run = span.with_grains();
                // Only the disk itself tells that something is missing or cannot be read.
                self.read_kept(run, span.end)
                    .ok()
                    .map(|buffer| (run, buffer))
            }
        };
        let (run, buffer) = match kept {
            Some(kept) => kept,
            None => (span, self.read_span(span)?),
        };
        Ok(SealedBytes::cut_from(&buffer, run, span))
    }

    /// Reads a run of stretches, as far as its file goes, which must be to `end` at least.
    fn fetch(&self, fetch: Fetch<'_>, end: u64) -> Result<Found> {
        let whole = Span {
            segment: fetch.run.segment,
            start: fetch.run.start(),
            end: fetch.run.end(),
        };
        let buffer = self.read_up_to(whole, end)?;
        Ok(fetch.keep(&buffer))
    }

    /// Reads the sectors that `span` touches. Gives them from the first of these sectors on.
    fn read_span(&self, span: Span) -> Result<Arc<Buffer>> {
        self.read_up_to(span, span.end)
    }

    /// As `read_span`; the file may end before `span` does, but not before `needed`.
    fn read_up_to(&self, span: Span, needed: u64) -> Result<Arc<Buffer>> {
        let file = self.files.get(&self.disk, span.segment)?;
        self.read_by(span, needed, |buffer, start| file.read_at(buffer, start))
    }

    /// As `read_up_to`, through the page cache, which keeps it.
    fn read_kept(&self, span: Span, needed: u64) -> Result<Arc<Buffer>> {
        let file = self.files.get_for(&self.disk, span.segment, Pages::Kept)?;
        self.read_by(span, needed, |buffer, start| {
            file.read_keeping(buffer, start)
        })
    }

    /// What the page cache has, or now gets; `None` if it does not.
    fn read_cached(&self, span: Span) -> Option<Arc<Buffer>> {
        let segment = span.segment;
        let file = self.files.get_for(&self.disk, segment, Pages::Kept).ok()?;
        let (start, end) = span.sectors();
        let mut buffer = self.pool.take((end - start) as usize);
        match file.read_cached(&mut buffer, start) {
            Ok(true) => {
                add(&self.counting.reads_cached, 1);
                Some(Arc::new(buffer))
            }
            told => {
                // A file system that cannot tell has it all the same.
                if told.is_ok() {
                    self.dense.forget(segment);
                }
                self.read_kept(span, span.end).ok()
            }
        }
    }

    fn read_by(
        &self,
        span: Span,
        needed: u64,
        read: impl FnOnce(&mut [u8], u64) -> io::Result<usize>,
    ) -> Result<Arc<Buffer>> {
        let (start, end) = span.sectors();
        // One run and two sectors at most.
        let mut buffer = self.pool.take((end - start) as usize);
        let count = read(&mut buffer, start).map_err(Error::Io)? as u64;
        add(&self.counting.reads, 1);
        add(&self.counting.bytes_read, count);
        if start + count < needed {
            return Err(Error::Truncated(span.segment));
        }
        // What was not read is left from an earlier use of the buffer.
        buffer.shorten(count as usize);
        Ok(Arc::new(buffer))
    }
}

impl SealedBytes {
    /// The bytes of `span` in `buffer`, which holds the sectors of `run`.
    fn cut_from(buffer: &Arc<Buffer>, run: Span, span: Span) -> Self {
        // Both differences are within one run, which is in memory.
        let start = (span.start - run.first_sector()) as usize;
        let end = (span.end - run.first_sector()) as usize;
        Self {
            buffer: Arc::clone(buffer),
            range: start..end,
        }
    }
}

impl Span {
    fn of(part: &Part) -> Result<Self> {
        let Location {
            segment,
            offset,
            len,
        } = part.location;
        let start = u64::from(offset) + u64::from(part.range.start);
        let end = u64::from(offset) + u64::from(part.range.end);
        let span = Self {
            segment,
            start,
            end,
        };
        let possible = len as usize <= SEALED_BYTES_MAX
            && u64::from(offset) + u64::from(len) <= SEGMENT_BYTES_MAX
            && part.range.start <= part.range.end
            && part.range.end <= len;
        if possible {
            Ok(span)
        } else {
            Err(Error::InvalidLocation { offset, len })
        }
    }

    /// All of the grains that it touches.
    fn with_grains(self) -> Self {
        Self {
            start: self.start / GRAIN_BYTES * GRAIN_BYTES,
            end: self.end.next_multiple_of(GRAIN_BYTES),
            ..self
        }
    }

    /// The sectors that it touches: where they begin and end.
    fn sectors(self) -> (u64, u64) {
        (self.first_sector(), self.end.next_multiple_of(SECTOR))
    }

    fn first_sector(self) -> u64 {
        self.start / SECTOR * SECTOR
    }

    /// This span and as many of `others`, sorted, as one read may cover; and how many spans that are.
    fn joined_with(self, others: &[(usize, Self)]) -> (Self, usize) {
        let mut run = self;
        let mut count = 1;
        for (_, next) in others {
            let end = run.end.max(next.end);
            let near = next.segment == run.segment && next.start <= run.end + RUN_GAP_BYTES_MAX;
            if !near || end - run.start > RUN_BYTES_MAX {
                break;
            }
            run.end = end;
            count += 1;
        }
        (run, count)
    }
}

#[cfg(test)]
mod tests {
    use strongroom_format::Epoch;

    use super::*;
    use crate::testing::{Folder, block, refs};

    #[test]
    fn neighbours_are_read_by_one_call_and_given_in_the_order_asked_for() {
        let folder = Folder::new();
        let store = folder.open();
        let blocks: Vec<_> = [20_000, 65_536, 5, 30_000].into_iter().map(block).collect();
        let places = store
            .put(Epoch(0), &refs(&blocks), &[1; 3000])
            .expect("appended")
            .locations;
        let further = store
            .put(Epoch(0), &refs(&blocks), &[1; 3000])
            .expect("appended")
            .locations;
        let mut parts: Vec<Part> = places
            .iter()
            .chain(&further)
            .map(|&location| Part {
                location,
                range: 3..location.len,
            })
            .collect();
        parts.reverse();
        let before = store.counters().reads;
        let read = store.read_many(&parts);
        assert_eq!(
            store.counters().reads - before,
            1,
            "both batches in one call"
        );
        for ((part, result), index) in parts.iter().zip(read).zip((0..4).rev().cycle()) {
            let bytes = result.expect("read");
            assert_eq!(*bytes, blocks[index].bytes[3..], "{part:?}");
        }
    }

    #[test]
    fn a_run_ends_at_a_wide_gap_and_at_its_longest() {
        let folder = Folder::new();
        let store = folder.open();
        let blocks: Vec<_> = (0..100).map(|_| block(65_536)).collect();
        let places = store
            .put(Epoch(0), &refs(&blocks), b"")
            .expect("appended")
            .locations;
        let part = |&location: &Location| Part {
            location,
            range: 0..location.len,
        };
        let reads_for = |parts: &[Part]| {
            let before = store.counters().reads;
            assert!(store.read_many(parts).iter().all(Result::is_ok));
            store.counters().reads - before
        };
        assert_eq!(reads_for(&[part(&places[0]), part(&places[2])]), 2);
        let all: Vec<Part> = places.iter().map(part).collect();
        assert_eq!(
            reads_for(&all),
            2,
            "100 blocks of 64 KiB in runs of at most 4 MiB"
        );
    }

    #[test]
    fn a_part_that_cannot_be_read_fails_alone() {
        let folder = Folder::new();
        let store = folder.open();
        let (good, bad) = (block(100), block(200));
        let first = store
            .put(Epoch(0), &[&good], b"")
            .expect("appended")
            .locations[0];
        let gone = store
            .put(Epoch(1), &[&bad], b"")
            .expect("appended")
            .locations[0];
        store.remove(gone.segment).expect("removed");
        let beyond = Location {
            offset: first.offset + 12_000,
            ..first
        };
        let nowhere = Location {
            offset: u32::MAX,
            ..first
        };
        let parts = [gone, first, beyond, nowhere].map(|location| Part {
            location,
            range: 0..location.len,
        });
        let read = store.read_many(&parts);
        assert!(matches!(read[0], Err(Error::Missing(id)) if id == gone.segment));
        assert_eq!(**read[1].as_ref().expect("read"), *good.bytes);
        assert!(matches!(read[2], Err(Error::Truncated(id)) if id == first.segment));
        assert!(matches!(read[3], Err(Error::InvalidLocation { .. })));
    }

    #[test]
    fn places_that_no_block_can_have_are_refused_before_memory_is_taken() {
        let folder = Folder::new();
        let store = folder.open();
        let good = store
            .put(Epoch(0), &[&block(100)], b"")
            .expect("appended")
            .locations[0];
        let too_long = Location {
            len: SEALED_BYTES_MAX as u32 + 1,
            ..good
        };
        let beyond = Location {
            offset: SEGMENT_BYTES_MAX as u32,
            ..good
        };
        for (location, range) in [
            (too_long, 0..1),
            (beyond, 0..1),
            (good, 0..good.len + 1),
            (good, u32::MAX..u32::MAX),
        ] {
            assert!(
                matches!(
                    store.read(location, range),
                    Err(Error::InvalidLocation { .. })
                ),
                "{location:?}"
            );
        }
        assert!(
            store
                .read(good, 5..5)
                .expect("nothing is always there")
                .is_empty()
        );
        assert_eq!(
            store.counters().bytes_read,
            4096,
            "only the sector of the last one"
        );
    }

    /// Forty blocks of 5,000 bytes, 200 KB: two stretches.
    fn small_files(store: &SegmentStore) -> (Vec<strongroom_format::SealedBlock>, Vec<Part>) {
        let blocks: Vec<_> = (0..40).map(|_| block(5_000)).collect();
        let places = store
            .put(Epoch(0), &refs(&blocks), b"")
            .expect("appended")
            .locations;
        let whole = |location: Location| Part {
            range: 0..location.len,
            location,
        };
        (blocks, places.into_iter().map(whole).collect())
    }

    fn read_near(store: &SegmentStore, part: &Part) -> Result<SealedBytes> {
        let [result] = <[_; 1]>::try_from(store.read_near(std::slice::from_ref(part)))
            .expect("one result for one part");
        result
    }

    #[test]
    fn small_neighbours_one_after_the_other_are_fetched_together() {
        let folder = Folder::new();
        let store = folder.open();
        let (blocks, parts) = small_files(&store);
        let before = store.counters().reads;
        for (block, part) in blocks.iter().zip(&parts) {
            assert_eq!(*read_near(&store, part).expect("read"), *block.bytes);
        }
        let reads = store.counters().reads - before;
        assert_eq!(
            reads, 4,
            "the first alone, its stretch, the block on its border, and the run behind it"
        );
    }

    #[test]
    fn a_lone_small_read_fetches_nothing_but_itself() {
        let folder = Folder::new();
        let store = folder.open();
        let (_, parts) = small_files(&store);
        let before = store.counters().bytes_read;
        read_near(&store, &parts[3]).expect("read");
        assert!(store.counters().bytes_read - before <= 3 * SECTOR);
        let large = store
            .put(Epoch(0), &[&block(65_536)], b"")
            .expect("appended")
            .locations[0];
        let large = Part {
            location: large,
            range: 0..large.len,
        };
        let before = store.counters().reads;
        for _ in 0..3 {
            read_near(&store, &large).expect("read");
        }
        assert_eq!(
            store.counters().reads - before,
            3,
            "no small read, no stretch"
        );
    }

    #[test]
    fn what_is_appended_after_a_stretch_was_fetched_is_read_from_the_disk() {
        let folder = Folder::new();
        let store = folder.open();
        for round in 0..4 {
            let new = block(3_000 + round);
            let location = store
                .put(Epoch(0), &[&new], b"")
                .expect("appended")
                .locations[0];
            let part = Part {
                location,
                range: 0..location.len,
            };
            // The second time the stretch is fetched, which ends behind this block now, and is to hold the next.
            for _ in 0..3 {
                assert_eq!(*read_near(&store, &part).expect("read"), *new.bytes);
            }
        }
    }

    #[test]
    fn a_stretch_of_a_removed_file_is_gone_with_it() {
        let folder = Folder::new();
        let store = folder.open();
        let (_, parts) = small_files(&store);
        for part in &parts[..4] {
            read_near(&store, part).expect("read");
        }
        store.remove(parts[0].location.segment).expect("removed");
        let gone = read_near(&store, &parts[1]);
        assert!(matches!(gone, Err(Error::Missing(_))));
    }

    #[test]
    fn a_place_beyond_the_end_is_told_also_nearby() {
        let folder = Folder::new();
        let store = folder.open();
        let (_, parts) = small_files(&store);
        for part in &parts[..4] {
            read_near(&store, part).expect("read");
        }
        let last = parts[39].location;
        let beyond = Location {
            offset: last.offset + 40_000,
            ..last
        };
        let part = Part {
            location: beyond,
            range: 0..beyond.len,
        };
        for _ in 0..3 {
            let read = read_near(&store, &part);
            assert!(matches!(read, Err(Error::Truncated(_))), "{read:?}");
        }
    }

    #[test]
    fn bytes_already_read_outlive_their_file() {
        let folder = Folder::new();
        let store = folder.open();
        let one = block(5000);
        let place = store
            .put(Epoch(0), &[&one], b"")
            .expect("appended")
            .locations[0];
        let held = store.read(place, 0..place.len).expect("read");
        store.remove(place.segment).expect("removed");
        assert_eq!(*held, *one.bytes);
        assert!(matches!(
            store.read(place, 0..place.len),
            Err(Error::Missing(_))
        ));
        assert!(store.list().expect("listed").is_empty());
    }
}
