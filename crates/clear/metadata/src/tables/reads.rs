//! The queries on the database, for any connection; those about history and remotes are in `history.rs` and
//! `remotes.rs`.
//!
//! Takes   a connection and the keys of a row
//! Gives   typed rows, or `Error::Damaged` for a value that this crate never writes
//! Never   changes anything
//! Spec    spec/4-metadata.md, 4.4

use std::cell::Cell;
use std::ops::{Range, RangeInclusive};
use std::path::Path;
use std::sync::Arc;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Params, Row};
use strongroom_folder::Folder;
use strongroom_format::{BlockId, SegmentId};

use crate::disk::DATABASE_FILE;
use crate::ending::{self, Open, Prepared, Running};
use crate::error::{Error, Result};
use crate::limits::{PAGE_BYTES, PROBLEMS_MAX};
use crate::rows::{Block, BlockNumber, Entry, Extent, Inode, InodeId, Segment, SegmentNumber};
use crate::tables::columns::{
    block_at, bound, entry_at, extents_at, inode_at, key, segment_at, value_at, whole,
};
use crate::tables::numbers::{self, Numbers};
use crate::tables::sql::{Statement, StatementCounts};

/// The questions. A `Transaction` and a `Reader` both answer them: the first with what is not committed yet.
///
/// Each fails as the disk does, or with `Error::Damaged`; its own doc says what else.
pub struct Reads {
    pub(crate) connection: Open,
    pub(crate) counts: Arc<StatementCounts>,
    /// What was met, if anything: SQLCipher then refuses all that follows on this connection.
    met: Cell<Option<Met>>,
}

/// Why a connection is of no more use.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Met {
    /// A page or row is not as it was written.
    Damage,
    /// The disk did not give a page. SQLCipher then calls every further page damaged, whatever the disk gives.
    DiskFailure,
}

impl std::fmt::Debug for Reads {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Reads").finish_non_exhaustive()
    }
}

impl Reads {
    pub(crate) fn new(connection: Connection, counts: Arc<StatementCounts>) -> Self {
        Self {
            connection: Open::new(connection),
            counts,
            met: Cell::new(None),
        }
    }

    /// Whether the connection is of no more use.
    pub(crate) fn is_spent(&self) -> bool {
        self.met.get().is_some()
    }

    /// Remembers damage and a failed disk on the way. What the connection says after the disk failed is no damage.
    pub(crate) fn noting<T>(&self, result: Result<T>) -> Result<T> {
        match (&result, self.met.get()) {
            (Err(Error::Damaged(_) | Error::Refused(_)), Some(Met::DiskFailure)) => {
                return Err(Error::ReadFailed);
            }
            (Err(Error::Disk(_)), None) => self.met.set(Some(Met::DiskFailure)),
            (Err(Error::Damaged(_) | Error::Refused(_)), None) => self.met.set(Some(Met::Damage)),
            _ => {}
        }
        result
    }

    /// The prepared `statement`, counted.
    pub(crate) fn prepare(&self, statement: Statement) -> Result<Prepared<'_>> {
        self.counts.add(statement);
        Prepared::new(&self.connection, statement.text())
    }

    /// Runs `statement` and gives its first row, if it has one.
    pub(crate) fn one<T>(
        &self,
        statement: Statement,
        params: impl Params,
        map: impl Fn(&Row<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        self.noting(self.prepare(statement).and_then(|mut prepared| {
            let mut rows = prepared.query(params)?;
            rows.next()?.map(map).transpose()
        }))
    }

    /// Runs `statement` and gives all its rows.
    pub(crate) fn all<T>(
        &self,
        statement: Statement,
        params: impl Params,
        mut map: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        self.noting(self.prepare(statement).and_then(|mut prepared| {
            let mut rows = prepared.query(params)?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                found.push(map(row)?);
            }
            Ok(found)
        }))
    }

    /// Runs `statement` and gives each row to `map`.
    pub(crate) fn each(
        &self,
        statement: Statement,
        mut map: impl FnMut(&Row<'_>) -> Result<()>,
    ) -> Result<()> {
        self.noting(self.prepare(statement).and_then(|mut prepared| {
            let mut rows = prepared.query([])?;
            while let Some(row) = rows.next()? {
                ending::check()?;
                map(row)?;
            }
            Ok(())
        }))
    }

    // ---- everything, for checks: in one pass, in no promised order; after an error `take` has seen a part

    /// Gives every inode to `take`.
    pub fn for_each_inode(&self, mut take: impl FnMut(Inode)) -> Result<()> {
        self.each(Statement::InodeAll, |row| {
            take(inode_at(row, 0)?);
            Ok(())
        })
    }

    /// Gives every entry to `take`, with the directory it is in.
    pub fn for_each_entry(&self, mut take: impl FnMut(InodeId, Entry)) -> Result<()> {
        self.each(Statement::EntryAll, |row| {
            take(InodeId(whole(row, 4)?), entry_at(row)?);
            Ok(())
        })
    }

    /// Gives the extents of every region to `take`, with inode and region.
    pub fn for_each_region(&self, mut take: impl FnMut(InodeId, u64, Vec<Extent>)) -> Result<()> {
        self.each(Statement::RegionAll, |row| {
            let (inode, region) = (InodeId(whole(row, 1)?), whole(row, 2)?);
            take(inode, region, extents_at(row, region)?);
            Ok(())
        })
    }

    /// Gives every block to `take`, with the length of its bytes in `waiting`, if it has some.
    pub fn for_each_block(&self, mut take: impl FnMut(Block, Option<u64>)) -> Result<()> {
        self.each(Statement::BlockAll, |row| {
            let waits = row.get_ref(8)? != ValueRef::Null;
            take(
                block_at(row)?,
                if waits { Some(whole(row, 8)?) } else { None },
            );
            Ok(())
        })
    }

    // ---- inodes

    /// The inode of this number.
    pub fn inode(&self, id: InodeId) -> Result<Option<Inode>> {
        self.one(Statement::InodeGet, [key(id.0)], |row| inode_at(row, 0))
    }

    /// Up to `limit` inodes without a name, numbers above `after`, in order.
    pub fn orphans(&self, after: InodeId, limit: usize) -> Result<Vec<InodeId>> {
        self.all(
            Statement::InodeOrphans,
            [key(after.0), bound(limit)],
            |row| Ok(InodeId(whole(row, 0)?)),
        )
    }

    // ---- entries

    /// The entry of this name.
    pub fn entry(&self, parent: InodeId, name: &[u8]) -> Result<Option<Entry>> {
        self.one(Statement::EntryGet, (key(parent.0), name), entry_at)
    }

    /// Up to `limit` entries of `parent` with cookies above `after_cookie`, in their order.
    pub fn entries(&self, parent: InodeId, after_cookie: u64, limit: usize) -> Result<Vec<Entry>> {
        self.all(
            Statement::EntryList,
            [key(parent.0), key(after_cookie), bound(limit)],
            entry_at,
        )
    }

    /// As `entries`, each with its inode; `None` where the inode is missing, which is damage.
    pub fn entries_with_inodes(
        &self,
        parent: InodeId,
        after_cookie: u64,
        limit: usize,
    ) -> Result<Vec<(Entry, Option<Inode>)>> {
        self.all(
            Statement::EntryListInodes,
            [key(parent.0), key(after_cookie), bound(limit)],
            |row| {
                let there = row.get_ref(4)? != ValueRef::Null;
                let inode = if there { Some(inode_at(row, 4)?) } else { None };
                Ok((entry_at(row)?, inode))
            },
        )
    }

    /// Whether `parent` has no entry.
    pub fn is_empty(&self, parent: InodeId) -> Result<bool> {
        Ok(self
            .one(Statement::EntryAny, [key(parent.0)], |_| Ok(()))?
            .is_none())
    }

    // ---- extended attributes

    /// The value of an extended attribute.
    pub fn xattr(&self, inode: InodeId, name: &[u8]) -> Result<Option<Vec<u8>>> {
        self.one(Statement::XattrGet, (key(inode.0), name), |row| {
            Ok(value_at(row, 0)?.to_vec())
        })
    }

    /// The names of all extended attributes of an inode, sorted.
    pub fn xattrs(&self, inode: InodeId) -> Result<Vec<Vec<u8>>> {
        self.all(Statement::XattrList, [key(inode.0)], |row| Ok(row.get(0)?))
    }

    /// Bytes of all names and values of an inode's extended attributes.
    pub fn xattr_bytes(&self, inode: InodeId) -> Result<u64> {
        Ok(self
            .one(Statement::XattrBytes, [key(inode.0)], |row| whole(row, 0))?
            .unwrap_or(0))
    }

    // ---- extents

    /// The extents that start in `region` (their start divided by `REGION_BYTES`), sorted.
    pub fn region(&self, inode: InodeId, region: u64) -> Result<Vec<Extent>> {
        let found = self.one(Statement::RegionGet, [key(inode.0), key(region)], |row| {
            extents_at(row, region)
        })?;
        Ok(found.unwrap_or_default())
    }

    /// Up to `limit` regions of `inode` that hold extents, from region `from` on, in order.
    pub fn regions_from(&self, inode: InodeId, from: u64, limit: usize) -> Result<Vec<u64>> {
        self.all(
            Statement::RegionList,
            [key(inode.0), key(from), bound(limit)],
            |row| whole(row, 0),
        )
    }

    // ---- blocks

    /// The block of this number.
    pub fn block(&self, number: BlockNumber) -> Result<Option<Block>> {
        self.one(Statement::BlockGet, [key(number.0)], block_at)
    }

    /// The blocks of these numbers, as many as there are, in order: those of one file often follow one another.
    pub fn blocks(&self, numbers: RangeInclusive<u64>) -> Result<Vec<Block>> {
        let (first, last) = numbers.into_inner();
        self.all(Statement::BlockRun, [key(first), key(last)], block_at)
    }

    /// The number of the block of this id.
    pub fn block_by_id(&self, id: &BlockId) -> Result<Option<BlockNumber>> {
        self.one(Statement::BlockById, [&id.0[..]], |row| {
            Ok(BlockNumber(whole(row, 0)?))
        })
    }

    /// Up to `limit` blocks that lie in `segment`, numbers above `after`, in order.
    pub fn blocks_in_segment(
        &self,
        segment: SegmentNumber,
        after: BlockNumber,
        limit: usize,
    ) -> Result<Vec<Block>> {
        self.all(
            Statement::BlocksInSegment,
            [i64::from(segment.0), key(after.0), bound(limit)],
            block_at,
        )
    }

    /// The sealed bytes of a block that waits for a segment.
    pub fn waiting(&self, number: BlockNumber) -> Result<Option<Vec<u8>>> {
        self.one(Statement::WaitingGet, [key(number.0)], |row| {
            Ok(value_at(row, 0)?.to_vec())
        })
    }

    /// Up to `limit` waiting blocks with numbers above `after`, with their sealed bytes, oldest first.
    pub fn waiting_blocks(
        &self,
        after: BlockNumber,
        limit: usize,
    ) -> Result<Vec<(BlockNumber, Vec<u8>)>> {
        self.all(
            Statement::WaitingList,
            [key(after.0), bound(limit)],
            |row| Ok((BlockNumber(whole(row, 0)?), value_at(row, 1)?.to_vec())),
        )
    }

    /// Up to `limit` waiting blocks with numbers above `after`, oldest first.
    pub fn waiting_numbers(&self, after: BlockNumber, limit: usize) -> Result<Vec<BlockNumber>> {
        self.all(
            Statement::WaitingNumbers,
            [key(after.0), bound(limit)],
            |row| Ok(BlockNumber(whole(row, 0)?)),
        )
    }

    // ---- segments

    /// All segments, by number.
    pub fn segments(&self) -> Result<Vec<Segment>> {
        self.all(Statement::SegmentList, [], segment_at)
    }

    /// The segment of this number.
    pub fn segment(&self, number: SegmentNumber) -> Result<Option<Segment>> {
        self.one(Statement::SegmentGet, [number.0], segment_at)
    }

    /// The segment of this file name.
    pub fn segment_by_id(&self, id: &SegmentId) -> Result<Option<Segment>> {
        self.one(Statement::SegmentById, [&id.0[..]], segment_at)
    }

    // ---- the rest

    /// All holes whose rows are not purged yet, by inode and region.
    ///
    /// # Errors
    /// Damage if two overlap.
    pub fn holes(&self) -> Result<Vec<(InodeId, Range<u64>)>> {
        let mut last = (InodeId(0), 0);
        self.all(Statement::HoleList, [], |row| {
            let (inode, first) = (InodeId(whole(row, 0)?), whole(row, 1)?);
            let past = whole(row, 2)?;
            let overlaps = last.0 == inode && first < last.1;
            if first >= past || overlaps {
                return Err(Error::Damaged("a stored hole is invalid"));
            }
            last = (inode, past);
            Ok((inode, first..past))
        })
    }

    /// The value of a setting.
    pub fn setting(&self, key: &str) -> Result<Option<Vec<u8>>> {
        self.one(Statement::SettingGet, [key], |row| {
            Ok(value_at(row, 0)?.to_vec())
        })
    }

    /// How many inodes there are. Costs one row.
    pub fn inode_count(&self) -> Result<u64> {
        Ok(self.numbers()?.inodes)
    }

    /// Sealed bytes of all waiting blocks. Costs one row.
    pub fn waiting_bytes(&self) -> Result<u64> {
        Ok(self.numbers()?.waiting_bytes)
    }

    /// How many commits the store has seen. Costs one row.
    pub fn commits(&self) -> Result<u64> {
        Ok(self.numbers()?.commits)
    }

    /// The numbers of the last commit.
    pub(crate) fn numbers(&self) -> Result<Numbers> {
        self.setting(numbers::SETTING)?
            .map_or(Ok(Numbers::EMPTY), |bytes| Numbers::decode(&bytes))
    }

    /// What is wrong with the database as a file: every page's seal, every tree, every kept count.
    ///
    /// Empty if sound; at most `PROBLEMS_MAX` lines, without a name or content of the vault. Reads every page.
    ///
    /// # Errors
    /// The disk's; damage that can be described is in the list instead.
    pub fn integrity_check(&self) -> Result<Vec<String>> {
        let mut problems = Vec::new();
        let mut pragmas = &["PRAGMA cipher_integrity_check", "PRAGMA quick_check(100)"][..];
        if let Some(problem) = self.surplus()? {
            // The first reads the whole file, and remembers each page that is none: a file without end has no end of them.
            problems.push(problem);
            pragmas = &pragmas[1..];
        }
        for pragma in pragmas {
            if let Err(error) = self.noting(self.collect_problems(pragma, &mut problems)) {
                match error {
                    Error::Damaged(what) => problems.push(what.to_owned()),
                    other => return Err(other),
                }
            }
        }
        if problems.is_empty() {
            self.check_counts(&mut problems)?;
        }
        let mut problems = together(problems);
        problems.truncate(PROBLEMS_MAX);
        Ok(problems)
    }

    /// What there is of a file behind the last page of the database, if anything.
    pub(crate) fn surplus(&self) -> Result<Option<String>> {
        let folder = self
            .connection
            .path()
            .and_then(|path| Path::new(path).parent());
        let Some(folder) = folder else {
            return Ok(None);
        };
        let len = Folder::open(folder)?
            .check_file(DATABASE_FILE)?
            .unwrap_or(0);
        let end = self.page_count()?.saturating_mul(PAGE_BYTES as u64);
        Ok((len > end).then(|| {
            format!(
                "the file is {len} bytes long, but its pages end at {end}: the bytes after them do not belong to this database"
            )
        }))
    }

    fn collect_problems(&self, pragma: &str, problems: &mut Vec<String>) -> Result<()> {
        let _running = Running::begin()?;
        let mut prepared = self.connection.prepare(pragma)?;
        let mut rows = prepared.query([])?;
        while let Some(row) = rows.next()?
            && problems.len() < PROBLEMS_MAX
        {
            let line: String = row.get(0)?;
            if line != "ok" {
                problems.push(line);
            }
        }
        Ok(())
    }

    fn check_counts(&self, problems: &mut Vec<String>) -> Result<()> {
        let numbers = self.numbers()?;
        let number = |row: &Row<'_>| whole(row, 0);
        if self.one(Statement::InodeCount, [], number)? != Some(numbers.inodes) {
            problems.push("the stored count of inodes is wrong".to_owned());
        }
        if self.one(Statement::WaitingBytes, [], number)? != Some(numbers.waiting_bytes) {
            problems.push("the stored count of waiting bytes is wrong".to_owned());
        }
        Ok(())
    }

    /// Pages of the database, with those the open transaction added.
    pub(crate) fn page_count(&self) -> Result<u64> {
        self.count(Statement::PageCount)
    }

    /// Pages of the database that hold nothing, with those the open transaction freed.
    pub(crate) fn free_page_count(&self) -> Result<u64> {
        self.count(Statement::FreePageCount)
    }

    fn count(&self, statement: Statement) -> Result<u64> {
        let count = self.one(statement, [], |row| Ok(row.get::<_, i64>(0)?))?;
        Ok(count.unwrap_or(0).max(0).cast_unsigned())
    }
}

/// Pages that have the same wrong with them, on one line: SQLite names each that is in no tree.
fn together(problems: Vec<String>) -> Vec<String> {
    const LOST: &str = ": never used";
    let is_lost = |line: &String| line.starts_with("Page ") && line.ends_with(LOST);
    let count = problems.iter().filter(|line| is_lost(line)).count();
    if count < 2 {
        return problems;
    }
    let (first, mut others): (Vec<_>, Vec<_>) = problems.into_iter().partition(is_lost);
    let first = first[0].trim_end_matches(LOST).to_lowercase();
    others.push(format!(
        "{first} and {} other pages belong to no table: either rows are lost, or these pages hold no rows",
        count - 1
    ));
    others
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failed before: a line for each page.
    #[test]
    fn pages_in_no_tree_are_one_line() {
        let lines = |pages: Range<u32>| -> Vec<String> {
            let lost = pages.map(|page| format!("Page {page}: never used"));
            lost.chain(["row 3 missing from index x".to_owned()])
                .collect()
        };
        let told = together(lines(27..127));
        assert_eq!(told.len(), 2);
        assert!(told[1].starts_with("page 27 and 99 other pages belong to no table"));
        assert_eq!(together(lines(27..28)), lines(27..28));
    }
}
