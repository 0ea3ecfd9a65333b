//! Changes, gathered into one SQLite transaction until it is committed.
//!
//! Takes   typed rows, while the guard holds the writing connection
//! Gives   the changed database: to the next holder of the guard at once, and to readers after `commit`
//! Never   syncs, or commits on its own
//! Spec    spec/4-metadata.md, 4.7
//!
//! Invariants
//!  (1) A change refused for the caller's mistake changes nothing. After any other failure the store refuses all changes.
//!  (2) A commit also stores the numbers that were assigned and the growth of segments.
//!  (3) If SQLite ends a transaction by itself (as when a page cannot be read, even by a query), no further change is
//!      made: it would be stored without the acknowledged changes before it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Deref;

use parking_lot::MutexGuard;
use rusqlite::{Params, params};
use strongroom_format::SegmentId;

use crate::ending::Prepared;
use crate::error::{Error, Result};
use crate::limits::{
    INODE_NUMBERS_MAX, NAME_BYTES_MAX, PAGE_BYTES, TARGET_BYTES_MAX, VALUE_BYTES_MAX,
};
use crate::rows::{
    Entry, Extent, Inode, InodeId, NodeKind, SegmentNumber, SegmentState, has_no_file,
};
use crate::store::Store;
use crate::store::gauges::{Gauges, SegmentBytes};
use crate::tables::columns::{key, whole};
use crate::tables::history::{self, ChangedItem, History, Marks};
use crate::tables::marked::mark;
use crate::tables::numbers::{self, Numbers};
use crate::tables::reads::Reads;
use crate::tables::regions;
use crate::tables::sql::Statement;

/// How far the estimate of changed pages grows before it is compared with the size of the database.
const RECOUNT_PAGES: u64 = 1024;

/// The writing connection and what it knows beyond its tables.
pub(crate) struct Writer {
    pub(crate) reads: Reads,
    pub(crate) numbers: Numbers,
    /// No inode has a higher number, so one above it is inserted without looking.
    pub(crate) greatest_inode: u64,
    /// What segments gained and lost since the last commit: one row change a segment instead of one a block.
    pub(crate) growth: BTreeMap<SegmentNumber, Growth>,
    /// Of all segments that have files, with what is not committed yet.
    pub(crate) segment_bytes: SegmentBytes,
    /// Of segments that were asked for, what never changes; at most `SEGMENT_IDS_MAX`.
    pub(crate) segment_ids: HashMap<SegmentNumber, SegmentId>,
    /// Segments whose bytes take no room here: those that never have files, and those that are away.
    pub(crate) without_file: HashSet<SegmentNumber>,
    /// Bytes of the pages in use less those of waiting blocks, as of the last commit.
    row_bytes: u64,
    /// How often blocks without references are held.
    pub(crate) holds: u32,
    /// What is known of the newest tree, and what changed since, as far as it is not in its table yet.
    pub(crate) history: History,
    pub(crate) marks: Marks,
    /// Whether a transaction is open.
    pub(crate) open: bool,
    /// Estimate of the pages changed since the last commit, too high rather than too low.
    pub(crate) pages_changed: u64,
    /// The estimate is bounded by the size of the database once it reaches this.
    recount_at: u64,
}

/// What a segment gained or lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Growth {
    pub(crate) live_bytes: i64,
    pub(crate) total_bytes: i64,
}

/// The writing connection, held. Answers every question of `Reads` with what is not committed yet.
///
/// Each change fails with `Error::Failed` after an earlier failure, `Error::ReadOnly`, `Error::Invalid` for a value
/// outside its range, and as the disk does, which fails the store; its own doc says what else.
pub struct Transaction<'s> {
    pub(crate) store: &'s Store,
    pub(crate) writer: MutexGuard<'s, Writer>,
    /// Changes since the guard was taken.
    changes: u64,
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        self.store.shared.gauges.note_hold(self.changes);
        // Rows that belong together may be half written: nobody may commit them.
        if self.writer.open && std::thread::panicking() {
            self.store.shared.fail();
        }
    }
}

impl Deref for Transaction<'_> {
    type Target = Reads;

    fn deref(&self) -> &Reads {
        &self.writer.reads
    }
}

impl std::fmt::Debug for Transaction<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Transaction")
            .field("dirty", &self.writer.open)
            .finish_non_exhaustive()
    }
}

impl Writer {
    /// For a database without rows; `load` reads what an older one has.
    pub(crate) fn new(reads: Reads) -> Self {
        Self {
            reads,
            numbers: Numbers::EMPTY,
            greatest_inode: 0,
            growth: BTreeMap::new(),
            segment_bytes: SegmentBytes::default(),
            segment_ids: HashMap::new(),
            without_file: HashSet::new(),
            row_bytes: 0,
            holds: 0,
            history: History::EMPTY,
            marks: Marks::new(),
            open: false,
            pages_changed: 0,
            recount_at: RECOUNT_PAGES,
        }
    }

    /// Reads what the last commit left.
    pub(crate) fn load(&mut self) -> Result<()> {
        self.numbers = self.reads.numbers()?;
        self.history = self.reads.history()?;
        self.greatest_inode = self.reads.greatest_inode(i64::MAX.cast_unsigned())?.0;
        for segment in self.reads.segments()? {
            match has_no_file(&segment.id) || segment.state == SegmentState::Away {
                true => drop(self.without_file.insert(segment.number)),
                false => self.segment_bytes.add(&segment),
            }
        }
        self.row_bytes = self.count_row_bytes()?;
        Ok(())
    }

    /// Bytes of the pages that hold something now, without those that wait. Reads no page but the first.
    fn count_row_bytes(&self) -> Result<u64> {
        let free = self.reads.free_page_count()?;
        let used = self.reads.page_count()?.saturating_sub(free);
        let bytes = used.saturating_mul(PAGE_BYTES as u64);
        Ok(bytes.saturating_sub(self.numbers.waiting_bytes))
    }

    /// What those who do not hold the writer see.
    pub(crate) fn publish(&self, gauges: &Gauges) {
        let waiting = self.numbers.waiting_bytes;
        let blocks = self.segment_bytes.live.saturating_add(waiting);
        let stored = blocks.saturating_add(self.row_bytes);
        gauges.set(self.pages_changed, waiting, stored, self.segment_bytes);
    }

    /// Runs a statement that changes rows; gives how many.
    pub(crate) fn run(&self, statement: Statement, params: impl Params) -> Result<usize> {
        Ok(self.reads.prepare(statement)?.execute(params)?)
    }
}

impl<'s> Transaction<'s> {
    pub(crate) fn new(store: &'s Store, writer: MutexGuard<'s, Writer>) -> Self {
        let transaction = Self {
            store,
            writer,
            changes: 0,
        };
        // What the last holder met may show only now; whoever asks `has_failed` shall know. (3)
        let _ = transaction.check_open();
        transaction
    }

    /// (3): fails the store if SQLite has given up the transaction that it believes to be open.
    fn check_open(&self) -> Result<()> {
        if self.writer.open && self.writer.reads.connection.is_autocommit() {
            self.store.shared.fail();
        }
        self.store.shared.writable()
    }

    /// Runs `change` inside the transaction, beginning one if there is none. `bytes` is what it stores. (1)
    pub(crate) fn change<T>(
        &mut self,
        bytes: usize,
        change: impl FnOnce(&mut Writer) -> Result<T>,
    ) -> Result<T> {
        self.check_open()?;
        if !self.writer.open {
            // Nothing acknowledged is lost if this fails, so it fails alone.
            self.writer.run(Statement::Begin, [])?;
            self.writer.open = true;
        }
        self.changes += 1;
        self.writer.pages_changed += 2 + (bytes / PAGE_BYTES) as u64;
        let result = change(&mut self.writer).and_then(|given| {
            self.writer.bound_estimate()?;
            Ok(given)
        });
        let result = self.writer.reads.noting(result);
        if let Err(error) = &result
            && !error.is_callers()
        {
            self.store.shared.fail();
        }
        self.publish();
        result
    }

    /// Lets those who do not hold the writer see how much there is to commit.
    pub(crate) fn publish(&self) {
        self.writer.publish(&self.store.shared.gauges);
    }

    // ---- numbers

    /// A number for a new inode; never given before.
    ///
    /// # Errors
    /// `Error::Invalid` if all have been given.
    pub fn next_inode(&mut self) -> Result<InodeId> {
        let number = self.writer.numbers.next_inode;
        check_inode_number(number)?;
        self.writer.numbers.next_inode += 1;
        Ok(InodeId(number))
    }

    /// A cookie for a new entry; above all given before.
    pub fn next_cookie(&mut self) -> u64 {
        let cookie = self.writer.numbers.next_cookie;
        self.writer.numbers.next_cookie += 1;
        cookie
    }

    /// How many inodes there are. Costs nothing.
    pub fn inode_count(&self) -> Result<u64> {
        Ok(self.writer.numbers.inodes)
    }

    /// Sealed bytes of all waiting blocks. Costs nothing.
    pub fn waiting_bytes(&self) -> Result<u64> {
        Ok(self.writer.numbers.waiting_bytes)
    }

    /// How many commits the store has seen. Costs nothing.
    pub fn commits(&self) -> Result<u64> {
        Ok(self.writer.numbers.commits)
    }

    // ---- inodes

    /// Stores `inode`, new or changed.
    pub fn put_inode(&mut self, inode: &Inode) -> Result<()> {
        check_inode(inode)?;
        self.change(inode.target.len(), |writer| {
            writer.mark(inode.id, ChangedItem::Node);
            if inode.id.0 <= writer.greatest_inode
                && put_columns(&mut writer.reads.prepare(Statement::InodeUpdate)?, inode)? == 1
            {
                return Ok(());
            }
            put_columns(&mut writer.reads.prepare(Statement::InodeInsert)?, inode)?;
            writer.greatest_inode = writer.greatest_inode.max(inode.id.0);
            writer.numbers.inodes += 1;
            Ok(())
        })
    }

    /// Removes the row of an inode, if there is one, with the hashes of its content; its entries, attributes and extents
    /// are the caller's matter.
    pub fn remove_inode(&mut self, id: InodeId) -> Result<()> {
        self.change(0, |writer| {
            writer.mark(id, ChangedItem::Node);
            let removed = writer.run(Statement::InodeRemove, [key(id.0)])? as u64;
            writer.run(Statement::HashRemove, [key(id.0)])?;
            writer.numbers.inodes = writer.numbers.inodes.saturating_sub(removed);
            Ok(())
        })
    }

    // ---- entries

    /// Adds `entry` to `parent`.
    ///
    /// # Errors
    /// `Error::EntryExists` if the name is taken.
    pub fn insert_entry(&mut self, parent: InodeId, entry: &Entry) -> Result<()> {
        check_name(&entry.name)?;
        check_numbers(&[parent.0, entry.inode.0, entry.cookie])?;
        self.change(entry.name.len(), |writer| {
            let params = (
                key(parent.0),
                &entry.name[..],
                key(entry.inode.0),
                entry.kind as u8,
                key(entry.cookie),
            );
            match writer.run(Statement::EntryInsert, params)? {
                1 => {
                    writer.mark(entry.inode, ChangedItem::Node);
                    Ok(())
                }
                _ => Err(Error::EntryExists),
            }
        })
    }

    /// Lets an existing entry name another inode; its cookie stays. Gives whether there was one.
    pub fn replace_entry(
        &mut self,
        parent: InodeId,
        name: &[u8],
        inode: InodeId,
        kind: NodeKind,
    ) -> Result<bool> {
        check_numbers(&[inode.0])?;
        self.change(name.len(), |writer| {
            let was = writer.bound_before(parent, name)?;
            writer.mark(parent, ChangedItem::Name(name.to_vec(), was));
            writer.mark(inode, ChangedItem::Node);
            let params = (key(parent.0), name, key(inode.0), kind as u8);
            Ok(writer.run(Statement::EntryReplace, params)? == 1)
        })
    }

    /// Removes an entry; gives whether there was one.
    pub fn remove_entry(&mut self, parent: InodeId, name: &[u8]) -> Result<bool> {
        self.change(0, |writer| {
            let was = writer
                .reads
                .one(Statement::EntryRemove, (key(parent.0), name), |row| {
                    Ok(InodeId(whole(row, 0)?))
                })?;
            if let Some(was) = was {
                writer.name_removed(parent, name, was);
            }
            Ok(was.is_some())
        })
    }

    // ---- extended attributes

    /// Stores an extended attribute, new or changed.
    pub fn put_xattr(&mut self, inode: InodeId, name: &[u8], value: &[u8]) -> Result<()> {
        check_name(name)?;
        check_numbers(&[inode.0])?;
        check_len(
            value.len(),
            VALUE_BYTES_MAX,
            "the value of an attribute is too long",
        )?;
        self.change(value.len(), |writer| {
            writer.mark(inode, ChangedItem::Node);
            writer.run(Statement::XattrPut, (key(inode.0), name, mark(value)))?;
            Ok(())
        })
    }

    /// Removes an extended attribute; gives whether there was one.
    pub fn remove_xattr(&mut self, inode: InodeId, name: &[u8]) -> Result<bool> {
        self.change(0, |writer| {
            writer.mark(inode, ChangedItem::Node);
            Ok(writer.run(Statement::XattrRemove, (key(inode.0), name))? == 1)
        })
    }

    /// Removes all extended attributes of an inode.
    pub fn remove_all_xattrs(&mut self, inode: InodeId) -> Result<()> {
        self.change(0, |writer| {
            writer.run(Statement::XattrRemoveAll, [key(inode.0)])?;
            Ok(())
        })
    }

    // ---- extents

    /// Stores the extents that start in `region` in place of those there were; none removes the row.
    ///
    /// # Errors
    /// `Error::Invalid` unless they are sorted, apart, each inside one cell and block, and of this region.
    pub fn put_region(&mut self, inode: InodeId, region: u64, extents: &[Extent]) -> Result<()> {
        let data = regions::encode(region, extents).map_err(|error| Error::Invalid(error.0))?;
        check_numbers(&[inode.0])?;
        self.change(data.len(), |writer| {
            writer.mark(inode, ChangedItem::Region(region));
            if data.is_empty() {
                writer.run(Statement::RegionRemove, [key(inode.0), key(region)])?;
            } else {
                writer.run(
                    Statement::RegionPut,
                    (key(inode.0), key(region), mark(&data)),
                )?;
            }
            Ok(())
        })
    }

    // ---- the rest

    /// Stores a setting, new or changed.
    ///
    /// # Errors
    /// `Error::Invalid` for the settings `counters` and `history`, which are the store's own.
    pub fn put_setting(&mut self, name: &str, value: &[u8]) -> Result<()> {
        if name == numbers::SETTING || name == history::SETTING {
            return Err(Error::Invalid("this setting is the store's own"));
        }
        check_len(
            value.len(),
            VALUE_BYTES_MAX,
            "the value of a setting is too long",
        )?;
        self.change(value.len(), |writer| {
            writer.run(Statement::SettingPut, (name, mark(value)))?;
            Ok(())
        })
    }

    // ---- committing

    /// Whether there is something to commit.
    #[must_use]
    pub fn is_dirty(&self) -> bool {
        self.writer.open
    }

    /// Estimates the pages that a commit would write; too high rather than too low. Costs nothing.
    #[must_use]
    pub fn dirty_pages(&self) -> u64 {
        self.writer.pages_changed
    }

    /// Ends the transaction: everything changed so far is in the log, though not yet durable.
    ///
    /// Gives the count of commits this store has ever seen; without changes, that of the last one. Drop the
    /// guard, then call `Store::sync_log` to make it durable.
    ///
    /// # Errors
    /// The disk's: then the changes are lost and the store is `Error::Failed`.
    pub fn commit(&mut self) -> Result<u64> {
        if !self.writer.open {
            return Ok(self.writer.numbers.commits);
        }
        self.change(0, |writer| {
            writer.flush_growth()?;
            writer.flush_marks()?;
            let numbers = Numbers {
                commits: writer.numbers.commits + 1,
                ..writer.numbers
            };
            writer.run(
                Statement::SettingPut,
                (numbers::SETTING, mark(&numbers.encode())),
            )?;
            writer.row_bytes = writer.count_row_bytes()?;
            writer.run(Statement::Commit, [])?;
            writer.numbers = numbers;
            writer.open = false;
            Ok(())
        })?;
        self.writer.pages_changed = 0;
        self.writer.recount_at = RECOUNT_PAGES;
        self.publish();
        Ok(self.writer.numbers.commits)
    }
}

impl Writer {
    /// Every change counts as pages of its own; no transaction changes more pages than there are.
    fn bound_estimate(&mut self) -> Result<()> {
        if self.pages_changed >= self.recount_at {
            self.pages_changed = self.pages_changed.min(self.reads.page_count()?);
            self.recount_at = self.pages_changed + RECOUNT_PAGES;
        }
        Ok(())
    }

    /// Writes down what segments gained and lost. (2)
    fn flush_growth(&mut self) -> Result<()> {
        for (segment, growth) in std::mem::take(&mut self.growth) {
            let params = (segment.0, growth.live_bytes, growth.total_bytes);
            if self.run(Statement::SegmentGrow, params)? != 1 {
                return Err(Error::Damaged(
                    "the stored live bytes of a segment are invalid",
                ));
            }
        }
        Ok(())
    }
}

/// # Errors
/// `Error::Invalid` for a number that SQLite cannot keep in order.
pub(crate) fn check_numbers(numbers: &[u64]) -> Result<()> {
    if numbers
        .iter()
        .all(|&number| number <= i64::MAX.cast_unsigned())
    {
        Ok(())
    } else {
        Err(Error::Invalid("a number has its top bit set"))
    }
}

/// # Errors
/// `Error::Invalid` if `next` is behind the last number of a device: that is the first of another, which nobody uses.
pub(crate) fn check_inode_number(next: u64) -> Result<()> {
    if next.is_multiple_of(INODE_NUMBERS_MAX) {
        return Err(Error::Invalid("no inode number is left"));
    }
    check_numbers(&[next])
}

/// # Errors
/// `Error::Invalid`, saying `what`, if `len` is above `len_max`.
pub(crate) fn check_len(len: usize, len_max: usize, what: &'static str) -> Result<()> {
    if len <= len_max {
        Ok(())
    } else {
        Err(Error::Invalid(what))
    }
}

fn check_name(name: &[u8]) -> Result<()> {
    if name.is_empty() {
        Err(Error::Invalid("a name is empty"))
    } else {
        check_len(name.len(), NAME_BYTES_MAX, "a name is too long")
    }
}

fn check_inode(inode: &Inode) -> Result<()> {
    check_numbers(&[
        inode.id.0,
        inode.size,
        inode.allocated,
        inode.content_version,
        inode.parent.0,
        inode.reserved,
    ])?;
    check_len(
        inode.target.len(),
        TARGET_BYTES_MAX,
        "a symlink target is too long",
    )
}

/// Runs a statement that stores an inode; gives how many rows it changed.
fn put_columns(prepared: &mut Prepared<'_>, inode: &Inode) -> Result<usize> {
    let target = if inode.target.is_empty() {
        None
    } else {
        Some(mark(&inode.target))
    };
    Ok(prepared.execute(params![
        key(inode.id.0),
        inode.birth_id.cast_signed(),
        inode.kind as u8,
        inode.mode,
        inode.uid,
        inode.gid,
        inode.rdev.cast_signed(),
        inode.nlink,
        key(inode.size),
        key(inode.allocated),
        inode.atime.0,
        inode.mtime.0,
        inode.ctime.0,
        inode.btime.0,
        key(inode.content_version),
        key(inode.parent.0),
        key(inode.reserved),
        target,
    ])?)
}
