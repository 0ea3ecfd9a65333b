//! Turns columns into typed rows, and numbers into SQL keys.
//!
//! Takes   a row from SQLite, or a number or limit of this crate
//! Gives   the typed row, or `Error::Damaged` for a value that this crate never writes; a key
//! Never   trusts a column's type, length or range
//! Spec    spec/4-metadata.md, 4.4

use rusqlite::Row;
use rusqlite::types::ValueRef;
use strongroom_format::limits::BLOCK_BYTES_MAX;
use strongroom_format::{BlockId, Epoch, Kind, SegmentId};

use crate::error::{Error, Result};
use crate::rows::{
    Block, BlockNumber, Entry, Extent, Inode, InodeId, NodeKind, Place, Revision, Segment,
    SegmentNumber, SegmentState, Timestamp,
};
use crate::tables::marked::unmark;
use crate::tables::regions;

/// A number as a key of SQLite. Numbers this crate gives out have their top bit clear; a larger one
/// finds nothing, as it should.
pub(crate) fn key(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A limit as SQLite wants it.
pub(crate) fn bound(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// A column that is never negative.
pub(crate) fn whole(row: &Row<'_>, column: usize) -> Result<u64> {
    u64::try_from(row.get::<_, i64>(column)?).map_err(|_| Error::Damaged("a count is negative"))
}

/// A column of 32 bits.
pub(crate) fn small(row: &Row<'_>, column: usize) -> Result<u32> {
    u32::try_from(row.get::<_, i64>(column)?)
        .map_err(|_| Error::Damaged("a number is out of range"))
}

/// A column of N bytes.
pub(crate) fn bytes<const N: usize>(row: &Row<'_>, column: usize) -> Result<[u8; N]> {
    let blob = row
        .get_ref(column)?
        .as_blob()
        .map_err(|_| Error::Damaged("a name is not a byte string"))?;
    blob.try_into()
        .map_err(|_| Error::Damaged("a name has a wrong length"))
}

/// A column that ends with a mark.
pub(crate) fn value_at<'r>(row: &'r Row<'_>, column: usize) -> Result<&'r [u8]> {
    let blob = row
        .get_ref(column)?
        .as_blob()
        .map_err(|_| Error::Damaged("a value is not a byte string"))?;
    unmark(blob)
}

/// A column that is null for no bytes, else ends with a mark.
pub(crate) fn target_at(row: &Row<'_>, column: usize) -> Result<Vec<u8>> {
    if row.get_ref(column)? == ValueRef::Null {
        Ok(Vec::new())
    } else {
        Ok(value_at(row, column)?.to_vec())
    }
}

pub(crate) fn kind_at(row: &Row<'_>, column: usize) -> Result<NodeKind> {
    let number = row.get::<_, i64>(column)?.cast_unsigned();
    NodeKind::from_number(number).ok_or(Error::Damaged("a node has an unknown kind"))
}

pub(crate) fn inode_at(row: &Row<'_>, first: usize) -> Result<Inode> {
    let time = |column| -> Result<Timestamp> { Ok(Timestamp(row.get(first + column)?)) };
    Ok(Inode {
        id: InodeId(whole(row, first)?),
        birth_id: row.get::<_, i64>(first + 1)?.cast_unsigned(),
        kind: kind_at(row, first + 2)?,
        mode: small(row, first + 3)?,
        uid: small(row, first + 4)?,
        gid: small(row, first + 5)?,
        rdev: row.get::<_, i64>(first + 6)?.cast_unsigned(),
        nlink: small(row, first + 7)?,
        size: whole(row, first + 8)?,
        allocated: whole(row, first + 9)?,
        atime: time(10)?,
        mtime: time(11)?,
        ctime: time(12)?,
        btime: time(13)?,
        content_version: whole(row, first + 14)?,
        parent: InodeId(whole(row, first + 15)?),
        reserved: whole(row, first + 16)?,
        target: target_at(row, first + 17)?,
    })
}

pub(crate) fn entry_at(row: &Row<'_>) -> Result<Entry> {
    Ok(Entry {
        name: row.get(0)?,
        inode: InodeId(whole(row, 1)?),
        kind: kind_at(row, 2)?,
        cookie: whole(row, 3)?,
    })
}

/// Column 0 as the extents of `region`.
pub(crate) fn extents_at(row: &Row<'_>, region: u64) -> Result<Vec<Extent>> {
    regions::decode(region, value_at(row, 0)?).map_err(|error| Error::Damaged(error.0))
}

pub(crate) fn block_kind_at(row: &Row<'_>, column: usize) -> Result<Kind> {
    u16::try_from(row.get::<_, i64>(column)?)
        .ok()
        .and_then(Kind::from_number)
        .ok_or(Error::Damaged("a block has an unknown kind"))
}

pub(crate) fn revision_at(row: &Row<'_>) -> Result<Revision> {
    Ok(Revision {
        number: whole(row, 0)?,
        id: bytes(row, 1)?,
        root: BlockNumber(whole(row, 2)?),
        taken: Timestamp(row.get(3)?),
        body: value_at(row, 4)?.to_vec(),
    })
}

pub(crate) fn block_at(row: &Row<'_>) -> Result<Block> {
    let place = match (row.get::<_, Option<i64>>(5)?, row.get::<_, Option<i64>>(6)?) {
        (None, None) => Place::Waiting,
        (Some(_), Some(_)) => Place::Segment(SegmentNumber(small(row, 5)?), small(row, 6)?),
        _ => return Err(Error::Damaged("a block has an incomplete place")),
    };
    let clear_len = small(row, 2)?;
    if clear_len as usize > BLOCK_BYTES_MAX {
        return Err(Error::Damaged("a block is too long"));
    }
    Ok(Block {
        number: BlockNumber(whole(row, 0)?),
        id: BlockId(bytes(row, 1)?),
        clear_len,
        epoch: Epoch(small(row, 3)?),
        references: small(row, 4)?,
        place,
        kind: block_kind_at(row, 7)?,
    })
}

pub(crate) fn segment_at(row: &Row<'_>) -> Result<Segment> {
    Ok(Segment {
        number: SegmentNumber(small(row, 0)?),
        id: SegmentId(bytes(row, 1)?),
        epoch: Epoch(small(row, 2)?),
        state: match row.get::<_, i64>(3)? {
            1 => SegmentState::Open,
            2 => SegmentState::Finished,
            3 => SegmentState::Leaving,
            4 => SegmentState::Away,
            _ => return Err(Error::Damaged("a segment has an unknown state")),
        },
        live_bytes: whole(row, 4)?,
        total_bytes: whole(row, 5)?,
        committed_len: whole(row, 6)?,
    })
}
