//! Changes the rows of blocks, of sealed bytes that wait for a segment, and of segments.
//!
//! Takes   where sealed bytes are, and how many extents refer to them
//! Gives   consistent rows: a block is removed together with its waiting bytes and its share of its segment
//! Never   reads or writes sealed bytes other than the waiting ones
//! Spec    spec/4-metadata.md, 4.5
//!
//! Invariants
//!  (1) `live_bytes` of a segment is the sum of `sealed_len` over the blocks in it.               [4.5.6]
//!  (2) A block has bytes in `waiting` exactly while its place is `Waiting`.                      [4.5.7]
//!  (3) An unreferenced block is removed, or listed in the table `released`.                      [4.5.8]
//!  (4) Blocks in a segment that never has a file (of lost or erased blocks) take no space and are not counted.     [4.5.11]

use rusqlite::OptionalExtension;
use strongroom_format::limits::{BLOCK_BYTES_MAX, sealed_len};
use strongroom_format::{BlockId, Epoch, Kind, SegmentId};

use crate::error::{Error, Result};
use crate::limits::SEGMENT_IDS_MAX;
use crate::rows::{BlockNumber, Place, Segment, SegmentNumber, SegmentState, has_no_file};
use crate::store::transaction::{Growth, Transaction, Writer, check_len, check_numbers};
use crate::tables::columns::key;
use crate::tables::marked::mark;
use crate::tables::sql::Statement;

/// About what the row of a block takes in its page, in bytes.
const ROW_BYTES: usize = 64;

impl Transaction<'_> {
    /// Stores a new block of file content.
    ///
    /// `waiting_bytes`: its sealed bytes if its place is `Waiting`, else `None`.
    ///
    /// # Errors
    /// As `insert_block_of`.
    pub fn insert_block(
        &mut self,
        id: &BlockId,
        clear_len: u32,
        epoch: Epoch,
        references: u32,
        place: Place,
        waiting_bytes: Option<&[u8]>,
    ) -> Result<BlockNumber> {
        self.insert_block_of(
            Kind::Data,
            id,
            clear_len,
            epoch,
            references,
            place,
            waiting_bytes,
        )
    }

    /// Stores a new block of `kind`; without references it is released from the beginning. (3)
    ///
    /// `waiting_bytes`: its sealed bytes if its place is `Waiting`, else `None`.
    ///
    /// # Errors
    /// `Error::BlockExists` if the id is stored, `Error::UnknownSegment`, `Error::Invalid` if place, bytes and
    /// length do not agree.
    #[expect(
        clippy::too_many_arguments,
        reason = "one for each column that a new block has"
    )]
    pub fn insert_block_of(
        &mut self,
        kind: Kind,
        id: &BlockId,
        clear_len: u32,
        epoch: Epoch,
        references: u32,
        place: Place,
        waiting_bytes: Option<&[u8]>,
    ) -> Result<BlockNumber> {
        check_waiting(&place, waiting_bytes, clear_len)?;
        self.change(waiting_bytes.map_or(0, <[u8]>::len), |writer| {
            let (segment, start) = columns(&place);
            if let Some(segment) = segment {
                writer.segment_is_there(SegmentNumber(segment))?;
            }
            let number = writer.numbers.next_block;
            let params = (
                key(number),
                &id.0[..],
                clear_len,
                epoch.0,
                references,
                segment,
                start,
                kind.number(),
            );
            if writer.run(Statement::BlockInsert, params)? != 1 {
                return Err(Error::BlockExists);
            }
            writer.numbers.next_block += 1;
            if references == 0 {
                writer.run(Statement::ReleasedPut, [key(number)])?;
            }
            if let Some(bytes) = waiting_bytes {
                writer.run(Statement::WaitingPut, (key(number), mark(bytes)))?;
            }
            writer.count_bytes(&place, clear_len, Direction::Gained);
            Ok(BlockNumber(number))
        })
    }

    /// Adds `delta` to the references of a block and gives the new count. At 0 a block of content is gone, unless
    /// blocks are held; one of a tree is released: what it names must be given back first.
    ///
    /// # Errors
    /// `Error::UnknownBlock`, `Error::References` if the count would leave its range.
    pub fn change_references(&mut self, number: BlockNumber, delta: i64) -> Result<u32> {
        check_numbers(&[number.0])?;
        self.change(0, |writer| {
            let changed: Option<(u32, u32, Option<u32>, u16)> = writer
                .reads
                .prepare(Statement::BlockCount)?
                .query_row((key(number.0), delta), |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
                })
                .optional()?;
            let Some((references, clear_len, segment, kind)) = changed else {
                let known = writer.reads.block(number)?.is_some();
                return Err(if known {
                    Error::References(number)
                } else {
                    Error::UnknownBlock(number)
                });
            };
            if references == 0 && (writer.holds > 0 || !is_data(kind)) {
                writer.run(Statement::ReleasedPut, [key(number.0)])?;
            } else if references == 0 {
                let place = segment.map_or(Place::Waiting, |segment| {
                    Place::Segment(SegmentNumber(segment), 0)
                });
                writer.remove_block(number, &place, clear_len)?;
            }
            Ok(references)
        })
    }

    /// Adds a reference to each block from `first` to `last`, which all have some: two statements, however many there are.
    ///
    /// # Errors
    /// As `change_references`, which then has changed those before the one that is named.
    pub fn share_blocks(&mut self, first: BlockNumber, last: BlockNumber) -> Result<()> {
        check_numbers(&[first.0, last.0])?;
        let count = (last.0 + 1).saturating_sub(first.0);
        let bounds = (key(first.0), key(last.0));
        let countable: i64 = self
            .writer
            .reads
            .prepare(Statement::BlocksCountable)?
            .query_row(bounds, |row| row.get(0))?;
        if countable.cast_unsigned() != count {
            for number in first.0..=last.0 {
                self.change_references(BlockNumber(number), 1)?;
            }
            return Ok(());
        }
        let row_bytes = usize::try_from(count).unwrap_or(usize::MAX / 2) * ROW_BYTES;
        self.change(row_bytes, |writer| {
            writer.run(Statement::BlocksShare, bounds).map(drop)
        })
    }

    /// The newest block there is, or was. Costs nothing.
    #[must_use]
    pub fn newest_block(&self) -> BlockNumber {
        BlockNumber(self.writer.numbers.next_block.saturating_sub(1))
    }

    /// From now until `let_go`, blocks of content that lose their last reference stay, released. Counts; in memory.
    pub fn hold(&mut self) {
        self.writer.holds += 1;
    }

    /// Ends one `hold`.
    pub fn let_go(&mut self) {
        self.writer.holds = self.writer.holds.saturating_sub(1);
    }

    /// Whether somebody holds the blocks.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.writer.holds > 0
    }

    /// Settles a released block: gone if nothing names it, else as every other. (3)
    pub fn settle_released(&mut self, number: BlockNumber) -> Result<()> {
        self.change(0, |writer| {
            writer.run(Statement::ReleasedRemove, [key(number.0)])?;
            match writer.reads.block(number)? {
                Some(block) if block.references == 0 => {
                    writer.remove_block(number, &block.place, block.clear_len)
                }
                _ => Ok(()),
            }
        })
    }

    /// Notes that the sealed bytes of a block now lie at `place`, a segment, sealed by the keys of `epoch`; bytes
    /// that waited are dropped.
    ///
    /// # Errors
    /// `Error::UnknownBlock`, `Error::UnknownSegment`, `Error::Invalid` if `place` is `Waiting`.
    pub fn move_block(&mut self, number: BlockNumber, epoch: Epoch, place: Place) -> Result<()> {
        let Place::Segment(segment, start) = place else {
            return Err(Error::Invalid("a block cannot go back to waiting"));
        };
        self.change(0, |writer| {
            writer.segment_is_there(segment)?;
            let block = writer
                .reads
                .block(number)?
                .ok_or(Error::UnknownBlock(number))?;
            writer.run(
                Statement::BlockMove,
                (key(number.0), segment.0, start, epoch.0),
            )?;
            if block.place == Place::Waiting {
                writer.run(Statement::WaitingRemove, [key(number.0)])?;
            }
            writer.count_bytes(&block.place, block.clear_len, Direction::Lost);
            writer.count_bytes(&place, block.clear_len, Direction::Gained);
            Ok(())
        })
    }

    /// Gives a block whose bytes are damaged, lost or erased other bytes: equal content was stored again. They lie at `place`,
    /// sealed by the keys of `epoch`; `waiting_bytes` are they if that is `Waiting`. References stay.
    ///
    /// `kind`, `clear_len`: of a lost block nobody knew how long it was, or whether it was compressed.
    ///
    /// # Errors
    /// `Error::UnknownBlock`, `Error::UnknownSegment`, `Error::Invalid` if place, bytes and length do not agree; as for
    /// every change.
    pub fn replace_block(
        &mut self,
        number: BlockNumber,
        kind: Kind,
        clear_len: u32,
        epoch: Epoch,
        place: Place,
        waiting_bytes: Option<&[u8]>,
    ) -> Result<()> {
        check_waiting(&place, waiting_bytes, clear_len)?;
        self.change(waiting_bytes.map_or(0, <[u8]>::len), |writer| {
            let (segment, start) = columns(&place);
            if let Some(segment) = segment {
                writer.segment_is_there(SegmentNumber(segment))?;
            }
            let block = writer
                .reads
                .block(number)?
                .ok_or(Error::UnknownBlock(number))?;
            writer.run(
                Statement::BlockReplace,
                (
                    key(number.0),
                    segment,
                    start,
                    epoch.0,
                    clear_len,
                    kind.number(),
                ),
            )?;
            if block.place == Place::Waiting {
                writer.run(Statement::WaitingRemove, [key(number.0)])?;
            }
            if let Some(bytes) = waiting_bytes {
                writer.run(Statement::WaitingPut, (key(number.0), mark(bytes)))?;
            }
            writer.count_bytes(&block.place, block.clear_len, Direction::Lost);
            writer.count_bytes(&place, clear_len, Direction::Gained);
            Ok(())
        })
    }

    // ---- segments

    /// All segments, by number, with what is not committed yet.
    pub fn segments(&self) -> Result<Vec<Segment>> {
        self.writer
            .reads
            .segments()?
            .into_iter()
            .map(|segment| self.writer.grown(segment))
            .collect()
    }

    /// The segment of this number, with what is not committed yet.
    pub fn segment(&self, number: SegmentNumber) -> Result<Option<Segment>> {
        self.writer
            .reads
            .segment(number)?
            .map(|segment| self.writer.grown(segment))
            .transpose()
    }

    /// The file name of the segment of this number. The database is asked once: a number never comes to mean another.
    pub fn segment_id(&mut self, number: SegmentNumber) -> Result<Option<SegmentId>> {
        if let Some(id) = self.writer.segment_ids.get(&number) {
            return Ok(Some(*id));
        }
        let id = self.writer.reads.segment(number)?.map(|segment| segment.id);
        if let Some(id) = id {
            let known = &mut self.writer.segment_ids;
            if known.len() >= SEGMENT_IDS_MAX {
                known.clear();
            }
            known.insert(number, id);
        }
        Ok(id)
    }

    /// The segment of this file name, with what is not committed yet.
    pub fn segment_by_id(&self, id: &SegmentId) -> Result<Option<Segment>> {
        self.writer
            .reads
            .segment_by_id(id)?
            .map(|segment| self.writer.grown(segment))
            .transpose()
    }

    /// Notes a new segment: open, with nothing in it.
    ///
    /// # Errors
    /// `Error::Invalid` if one of this name is known.
    pub fn insert_segment(&mut self, id: &SegmentId, epoch: Epoch) -> Result<SegmentNumber> {
        self.change(0, |writer| {
            if writer.reads.segment_by_id(id)?.is_some() {
                return Err(Error::Invalid("a segment of this name already exists"));
            }
            let number = u32::try_from(writer.numbers.next_segment)
                .map_err(|_| Error::Invalid("there are no more numbers for segments"))?;
            writer.run(
                Statement::SegmentInsert,
                (number, &id.0[..], epoch.0, SegmentState::Open as u8),
            )?;
            writer.numbers.next_segment += 1;
            if has_no_file(id) {
                writer.without_file.insert(SegmentNumber(number));
            }
            Ok(SegmentNumber(number))
        })
    }

    /// Notes what becomes of a segment. While it is away its bytes take no room here.
    ///
    /// # Errors
    /// `Error::UnknownSegment`.
    pub fn set_segment_state(&mut self, number: SegmentNumber, state: SegmentState) -> Result<()> {
        self.change(0, |writer| {
            let row = writer.reads.segment(number)?;
            let row = writer.grown(row.ok_or(Error::UnknownSegment(number))?)?;
            writer.run(Statement::SegmentState, (number.0, state as u8))?;
            let is_away = |state| state == SegmentState::Away;
            match (is_away(row.state), is_away(state)) {
                _ if has_no_file(&row.id) => {}
                (false, true) => {
                    writer.without_file.insert(number);
                    writer.segment_bytes.remove(&row);
                }
                (true, false) => {
                    writer.without_file.remove(&number);
                    writer.segment_bytes.add(&row);
                }
                _ => {}
            }
            Ok(())
        })
    }

    /// Notes where the last committed batch of a segment ends, in bytes from the start of the file.
    ///
    /// # Errors
    /// `Error::UnknownSegment`.
    pub fn set_committed_len(&mut self, number: SegmentNumber, len: u64) -> Result<()> {
        check_numbers(&[len])?;
        self.change(0, |writer| {
            match writer.run(Statement::SegmentCommitted, (number.0, key(len)))? {
                1 => Ok(()),
                _ => Err(Error::UnknownSegment(number)),
            }
        })
    }

    /// Notes that sealed blocks of `bytes` in all were appended to a segment.
    ///
    /// # Errors
    /// `Error::UnknownSegment`.
    pub fn add_total_bytes(&mut self, number: SegmentNumber, bytes: u64) -> Result<()> {
        let bytes =
            i64::try_from(bytes).map_err(|_| Error::Invalid("a count of bytes is too large"))?;
        self.change(0, |writer| {
            writer.segment_is_there(number)?;
            let growth = writer.growth.entry(number).or_default();
            growth.total_bytes = growth
                .total_bytes
                .checked_add(bytes)
                .ok_or(Error::Invalid("a count of bytes is too large"))?;
            if !writer.without_file.contains(&number) {
                let total = &mut writer.segment_bytes.total;
                *total = total.saturating_add_signed(bytes);
            }
            Ok(())
        })
    }

    /// Forgets a segment that holds no block.
    ///
    /// # Errors
    /// `Error::UnknownSegment`, `Error::SegmentInUse`.
    pub fn remove_segment(&mut self, number: SegmentNumber) -> Result<()> {
        self.change(0, |writer| {
            if !writer
                .reads
                .blocks_in_segment(number, BlockNumber(0), 1)?
                .is_empty()
            {
                return Err(Error::SegmentInUse(number));
            }
            let row = writer.reads.segment(number)?;
            let row = row.ok_or(Error::UnknownSegment(number))?;
            let gone = writer.grown(row)?.total_bytes;
            if writer.run(Statement::SegmentRemove, [number.0])? != 1 {
                return Err(Error::UnknownSegment(number));
            }
            if !writer.without_file.contains(&number) {
                let total = &mut writer.segment_bytes.total;
                *total = total.saturating_sub(gone);
            }
            writer.without_file.remove(&number);
            writer.growth.remove(&number);
            writer.segment_ids.remove(&number);
            Ok(())
        })
    }
}

/// Whether a place gained or lost a block.
#[derive(Clone, Copy)]
enum Direction {
    Gained,
    Lost,
}

impl Writer {
    /// Removes the row of a block, its bytes if they wait, and its share of its segment. (1) (2)
    fn remove_block(&mut self, number: BlockNumber, place: &Place, clear_len: u32) -> Result<()> {
        self.run(Statement::BlockRemove, [key(number.0)])?;
        if *place == Place::Waiting {
            self.run(Statement::WaitingRemove, [key(number.0)])?;
        }
        self.count_bytes(place, clear_len, Direction::Lost);
        Ok(())
    }

    /// Counts a block of `clear_len` bytes in or out at `place`. (1)
    fn count_bytes(&mut self, place: &Place, clear_len: u32, direction: Direction) {
        let bytes = sealed_len(clear_len as usize) as u64;
        match (place, direction) {
            (Place::Waiting, Direction::Gained) => self.numbers.waiting_bytes += bytes,
            (Place::Waiting, Direction::Lost) => {
                self.numbers.waiting_bytes = self.numbers.waiting_bytes.saturating_sub(bytes);
            }
            (Place::Segment(segment, _), direction) => {
                let bytes = match direction {
                    Direction::Gained => bytes.cast_signed(),
                    Direction::Lost => -bytes.cast_signed(),
                };
                self.growth.entry(*segment).or_default().live_bytes += bytes;
                if !self.without_file.contains(segment) {
                    let live = &mut self.segment_bytes.live;
                    *live = live.saturating_add_signed(bytes);
                }
            }
        }
    }

    /// # Errors
    /// `Error::UnknownSegment`. Looks once a segment and commit.
    fn segment_is_there(&mut self, number: SegmentNumber) -> Result<()> {
        if self.growth.contains_key(&number) {
            return Ok(());
        }
        self.reads
            .segment(number)?
            .ok_or(Error::UnknownSegment(number))?;
        self.growth.insert(number, Growth::default());
        Ok(())
    }

    /// `segment` with what it gained and lost since the last commit.
    fn grown(&self, mut segment: Segment) -> Result<Segment> {
        let damaged = || Error::Damaged("the stored live bytes of a segment are invalid");
        if let Some(growth) = self.growth.get(&segment.number) {
            segment.live_bytes = segment
                .live_bytes
                .checked_add_signed(growth.live_bytes)
                .ok_or_else(damaged)?;
            segment.total_bytes = segment
                .total_bytes
                .checked_add_signed(growth.total_bytes)
                .ok_or_else(damaged)?;
        }
        Ok(segment)
    }
}

/// Whether bytes are given exactly where they wait, and as many as they should be.
/// Whether blocks of that kind are content of files: they name no others, and go at once.
fn is_data(kind: u16) -> bool {
    Kind::from_number(kind).is_some_and(Kind::is_data)
}

fn check_waiting(place: &Place, waiting_bytes: Option<&[u8]>, clear_len: u32) -> Result<()> {
    check_len(clear_len as usize, BLOCK_BYTES_MAX, "a block is too long")?;
    match (place, waiting_bytes) {
        (Place::Waiting, Some(bytes)) if bytes.len() == sealed_len(clear_len as usize) => Ok(()),
        (Place::Segment(..), None) => Ok(()),
        _ => Err(Error::Invalid(
            "place, bytes and length of a block do not agree",
        )),
    }
}

/// The columns `segment` and `start` of a block.
const fn columns(place: &Place) -> (Option<u32>, Option<u32>) {
    match place {
        Place::Segment(segment, start) => (Some(segment.0), Some(*start)),
        Place::Waiting => (None, None),
    }
}
