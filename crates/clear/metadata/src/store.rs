//! An open metadata database: its writing connection, its readers and its log.
//!
//! Takes   the vault folder and the metadata key
//! Gives   `Transaction`s on the one writing connection, and `Reader`s at the same time
//! Never   opens a file of the database except through `vfs`, or lets a page reach the disk unencrypted
//! Spec    spec/4-metadata.md
//!
//! Invariants
//!  (1) After a failed change, commit or sync, nothing more is changed until the store is opened again.    [4.7.5]
//!  (2) Locks are taken in this order: the checkpointer, then the writing connection.

mod blocks;
pub(crate) mod checkpoint;
pub(crate) mod connect;
pub(crate) mod copy;
mod files;
mod gauges;
mod hashes;
mod history;
mod holes;
pub(crate) mod options;
pub(crate) mod reader;
pub(crate) mod rekey;
mod remotes;
mod reservations;
pub(crate) mod savepoint;
mod shared;
pub(crate) mod transaction;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, RwLock};
use rustix::fs::OFlags;
use strongroom_folder::{Folder, Purpose};

use crate::disk::{DATABASE_FILE, DiskCounts, RESERVE_FILE};
use crate::error::{Error, Result};
use crate::limits::{KEY_BYTES, PAGE_BYTES};
use crate::pages::Pages;
use crate::pages::tree_file::TREE_FILE;
use crate::store::checkpoint::Checkpointer;
use crate::store::connect::Access;
use crate::store::files::{BESIDE, Files, check_files};
use crate::store::gauges::Gauges;
use crate::store::options::{MissingTree, Options};
use crate::store::reader::{Pool, Reader};
use crate::store::shared::Shared;
use crate::store::transaction::{Transaction, Writer};
use crate::tables::migrations;
use crate::tables::sql::{Statement, StatementCounts};
use crate::vfs;

/// An open metadata database. Shared between threads by reference; dropping it loses what is not committed.
pub struct Store {
    // Dropped in this order: the writer's log file must be the last to close, and the names stay known till then.
    pub(crate) pool: Pool,
    pub(crate) checkpointer: Mutex<Checkpointer>,
    pub(crate) writer: Mutex<Writer>,
    pub(crate) shared: Shared,
}

/// What a store did since it was opened. For tests and reports; counts do not drift as times do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// What happened to its files.
    pub disk: DiskCounts,
    /// How many statements ran, on all connections.
    pub statements: u64,
    /// How many transactions were committed.
    pub commits: u64,
    /// How many checkpoints ran.
    pub checkpoints: u64,
    /// The most changes that were made in one hold of the writer: how long others wait for it at worst.
    pub hold_changes_max: u64,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Store")
            .field("access", &self.shared.access)
            .finish_non_exhaustive()
    }
}

impl Store {
    /// Makes the database of a new vault in `folder`, durable on return.
    ///
    /// # Errors
    /// `Error::AlreadyThere`; the disk's: then what was begun is removed again.
    pub fn create(folder: &Path, key: &[u8; KEY_BYTES], options: Options) -> Result<Self> {
        let held = Folder::open(folder)?;
        match held.create_with(DATABASE_FILE, OFlags::empty()) {
            Err(strongroom_folder::Error::Io(error))
                if error.kind() == io::ErrorKind::AlreadyExists =>
            {
                return Err(Error::AlreadyThere);
            }
            made => drop(made?),
        }
        let created = Pages::make(&held, key)
            .and_then(|pages| Self::begin(folder, key, options, Access::ReadWrite, Some(pages)))
            .and_then(|store| {
                migrations::migrate(&store.writer.lock().reads.connection)?;
                store.checkpoint_now()?;
                store.shared.made();
                held.sync()?;
                Ok(store)
            });
        if created.is_err() {
            let beside = BESIDE.map(|ending| format!("{DATABASE_FILE}{ending}"));
            let fixed = [DATABASE_FILE, TREE_FILE, RESERVE_FILE];
            for name in fixed.into_iter().chain(beside.iter().map(String::as_str)) {
                // What cannot be removed is reported by the error that brought us here.
                let _ = held.remove(name);
            }
        }
        created
    }

    /// Opens the database in `folder` for writing, and brings it up to date.
    ///
    /// What a crash left in the log is moved into the database first. The caller sees to it that no other
    /// process has it open for writing.
    ///
    /// # Errors
    /// `Error::Missing`, `Error::WrongKey`, `Error::NewerVersion`, `Error::Damaged`; the disk's.
    pub fn open(folder: &Path, key: &[u8; KEY_BYTES], options: Options) -> Result<Self> {
        let held = Folder::open(folder)?;
        check_files(&held)?;
        if options.missing_tree == MissingTree::Made && held.check_file(TREE_FILE)?.is_none() {
            Self::make_tree(folder, key, &options)?;
        }
        let pages = Pages::load(&held, key, true)?;
        let store = Self::begin(folder, key, options, Access::ReadWrite, Some(pages))?;
        let version = migrations::version(&store.writer.lock().reads.connection)?;
        if version == 0 {
            return Err(Error::Damaged("the database is empty"));
        }
        migrations::migrate(&store.writer.lock().reads.connection)?;
        // A log left by a crash may be readable from memory only: this makes it durable for certain.
        store.checkpoint_now()?;
        store.load()?;
        Ok(store)
    }

    /// Takes over what an older version left in the log, and makes the page tree of what the database holds then.
    fn make_tree(folder: &Path, key: &[u8; KEY_BYTES], options: &Options) -> Result<()> {
        let store = Self::begin(folder, key, options.clone(), Access::ReadWrite, None)?;
        if migrations::version(&store.writer.lock().reads.connection)? == 0 {
            return Err(Error::Damaged("the database is empty"));
        }
        store.checkpoint_now()?;
        drop(store);
        Pages::adopt(&Folder::open(folder)?, key)
    }

    /// Opens the database in `folder` for reading; every change is refused.
    ///
    /// Works on media that cannot be written too; a log that was left behind is read as well. The caller sees to it that nobody
    /// writes meanwhile.
    ///
    /// # Errors
    /// As `open`; `Error::OlderVersion` if the schema is not up to date.
    pub fn open_read_only(folder: &Path, key: &[u8; KEY_BYTES], options: Options) -> Result<Self> {
        let writable = rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_ok();
        let access = if writable {
            Access::ReadOnly
        } else {
            Access::Frozen
        };
        Self::open_for_reading(folder, key, options, access)
    }

    pub(crate) fn open_for_reading(
        folder: &Path,
        key: &[u8; KEY_BYTES],
        options: Options,
        access: Access,
    ) -> Result<Self> {
        let held = Folder::open(folder)?;
        check_files(&held)?;
        let pages = match options.missing_tree {
            MissingTree::Made if held.check_file(TREE_FILE)?.is_none() => None,
            _ => Some(Pages::load(&held, key, false)?),
        };
        let store = Self::begin(folder, key, options, access, pages)?;
        match migrations::version(&store.writer.lock().reads.connection)? {
            0 => return Err(Error::Damaged("the database is empty")),
            found if found < migrations::SCHEMA_VERSION => {
                return Err(Error::OlderVersion { found });
            }
            _ => {}
        }
        store.load()?;
        Ok(store)
    }

    /// Opens the writer's connection, checks the key, and sets up the rest; reads no table.
    fn begin(
        folder: &Path,
        key: &[u8; KEY_BYTES],
        options: Options,
        access: Access,
        pages: Option<Pages>,
    ) -> Result<Self> {
        let held = Folder::open(folder)?;
        let files = Files::new(folder, &held, key, &options, access, pages)?;
        let shared = Shared {
            files: RwLock::new(Arc::new(files)),
            path: folder.to_owned(),
            folder: held,
            access,
            counts: Arc::new(StatementCounts::new()),
            gauges: Gauges::default(),
            failed: AtomicBool::new(false),
            options,
        };
        let reads = shared.connect(shared.options.cache_bytes)?;
        // A full disk is no reason not to open: `reserve_intact` tells.
        match shared
            .files()
            .disk()
            .reserve()
            .restore()
            .map_err(Error::from)
        {
            Ok(()) | Err(Error::NoSpace) => {}
            Err(error) => return Err(error),
        }
        Ok(Self {
            pool: Pool::default(),
            checkpointer: Mutex::new(Checkpointer::default()),
            writer: Mutex::new(Writer::new(reads)),
            shared,
        })
    }

    /// Reads what the last commit left into memory.
    fn load(&self) -> Result<()> {
        let mut writer = self.writer.lock();
        writer.load()?;
        writer.publish(&self.shared.gauges);
        Ok(())
    }

    /// Waits for the writing connection.
    ///
    /// The transaction stays open when the guard is dropped, until a later guard commits it. Never take a
    /// second guard on the same thread.
    pub fn lock(&self) -> Transaction<'_> {
        Transaction::new(self, self.writer.lock())
    }

    /// A connection that sees what is committed; waits if all `READERS_MAX` are taken, so take one at a time: a debug build checks that.
    ///
    /// # Errors
    /// The disk's.
    pub fn reader(&self) -> Result<Reader<'_>> {
        self.pool.take(&self.shared)
    }

    /// Whether this thread took a reader and has not returned it.
    #[must_use]
    pub fn is_read_here(&self) -> bool {
        self.pool.is_lent_here()
    }

    /// Waits until everybody who reads now has come to an end; others may read meanwhile. Hold no reader, and not the writer.
    pub fn wait_for_readers(&self) {
        self.pool.wait_for_those_lent();
    }

    /// Makes every commit so far durable. Holds no connection: others work on meanwhile.
    ///
    /// # Errors
    /// The disk's: then the store is `Error::Failed` from now on, since what reached the disk is unknown.
    pub fn sync_log(&self) -> Result<()> {
        self.shared.writable()?;
        match vfs::sync_log(&self.shared.files().database) {
            libsqlite3_sys::SQLITE_OK => Ok(()),
            code => {
                Err(rusqlite::Error::SqliteFailure(libsqlite3_sys::Error::new(code), None).into())
            }
        }
    }

    /// Whether changes are refused because an earlier one failed.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.shared.failed.load(Ordering::Acquire) || self.shared.files().disk().sync_failed()
    }

    /// Whether the space for a last commit is still kept back. If not, accept only what frees space.
    #[must_use]
    pub fn reserve_intact(&self) -> bool {
        self.shared.files().disk().reserve().intact()
    }

    /// Tries to keep space back again.
    ///
    /// # Errors
    /// `Error::NoSpace` if there is not enough yet; the disk's.
    pub fn restore_reserve(&self) -> Result<()> {
        Ok(self.shared.files().disk().reserve().restore()?)
    }

    /// One value that stands for every page of the newest commit, durable or not; `None` for a database without a page tree.
    #[must_use]
    pub fn root(&self) -> Option<[u8; 32]> {
        let files = self.shared.files();
        files.database.pages.as_ref().map(|pages| pages.root().root)
    }

    /// Bytes of the log that a checkpoint has not taken over.
    #[must_use]
    pub fn log_bytes(&self) -> u64 {
        self.shared.files().disk().log_len()
    }

    /// Estimates the pages that a commit would write; too high rather than too low. Waits for nobody.
    #[must_use]
    pub fn dirty_pages(&self) -> u64 {
        self.shared.gauges.dirty_pages.load(Ordering::Relaxed)
    }

    /// Sealed bytes of all waiting blocks, committed or not. Waits for nobody.
    #[must_use]
    pub fn waiting_bytes(&self) -> u64 {
        self.shared.gauges.waiting_bytes.load(Ordering::Relaxed)
    }

    /// Bytes that the vault takes: sealed blocks that something names, and the rows of the database. Waits for
    /// nobody.
    ///
    /// Blocks count as they come and go, committed or not; other rows as of the last commit. What has no use any
    /// more does not count, though the disk may still hold it: waste of segments, free pages, the log.
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        self.shared.gauges.stored_bytes.load(Ordering::Relaxed)
    }

    /// Sealed bytes that blocks in segments have, and sealed bytes that no block has any more and whose segments are still
    /// there; with what is not committed yet. Waits for nobody.
    #[must_use]
    pub fn segment_bytes(&self) -> (u64, u64) {
        let gauges = &self.shared.gauges;
        let live = gauges.live_bytes.load(Ordering::Relaxed);
        let total = gauges.total_bytes.load(Ordering::Relaxed);
        (live, total.saturating_sub(live))
    }

    /// What the store did since it was opened.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let counts = &self.shared.counts;
        Counters {
            disk: self.shared.files().disk().counts(),
            statements: counts.total(),
            commits: counts.of(Statement::Commit),
            checkpoints: counts.of(Statement::CheckpointPassive)
                + counts.of(Statement::CheckpointRestart)
                + counts.of(Statement::CheckpointTruncate),
            hold_changes_max: self.shared.gauges.hold_changes_max.load(Ordering::Relaxed),
        }
    }

    /// What is wrong with what was committed: every page's seal, every tree, every kept count.
    ///
    /// Empty if sound; at most `limits::PROBLEMS_MAX` lines, without a name or content of the vault. Reads
    /// every page.
    ///
    /// # Errors
    /// The disk's; damage that can be described is in the list instead.
    pub fn integrity_check(&self) -> Result<Vec<String>> {
        self.reader()?.snapshot()?.integrity_check()
    }

    /// What there is to do about the database as a file. Reads every page, unless it is longer than they are.
    ///
    /// # Errors
    /// As `integrity_check`.
    pub fn state_of_file(&self) -> Result<FileState> {
        let reader = self.reader()?;
        let snapshot = reader.snapshot()?;
        let is_longer = snapshot.surplus()?.is_some();
        let problems = snapshot.integrity_check()?.len();
        Ok(match (is_longer, problems) {
            (false, 0) => FileState::Sound,
            // The surplus is one of the problems.
            (true, 1) => FileState::Longer,
            _ => FileState::Damaged,
        })
    }

    /// Cuts off what there is of the database file behind its last page, durably. Nobody else has the database open.
    ///
    /// # Errors
    /// As `open`.
    pub fn cut_to_pages(folder: &Path, key: &[u8; KEY_BYTES], options: Options) -> Result<()> {
        // All of the log is in the file then, so that its pages end where the newest commit says.
        let store = Self::open(folder, key, options)?;
        let end = store.reader()?.snapshot()?.page_count()?;
        let end = end.saturating_mul(PAGE_BYTES as u64);
        store.finish()?;
        let file = Folder::open(folder)?.open_file(DATABASE_FILE, Purpose::Write)?;
        if file.metadata()?.len() > end {
            file.set_len(end)?;
            file.sync_all()?;
        }
        Ok(())
    }
}

/// What a database is as a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileState {
    /// Every page, tree and count is as it was written.
    Sound,
    /// Nothing else is known to be wrong than that the file goes on behind its last page.
    Longer,
    /// Something is not as it was written.
    Damaged,
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::rows::InodeId;

    const KEY: [u8; KEY_BYTES] = [7; KEY_BYTES];

    fn options() -> Options {
        Options {
            reserve_bytes: 0,
            ..Options::default()
        }
    }

    /// A folder with one committed setting; in the log only, or in the database.
    fn folder(in_log: bool) -> tempfile::TempDir {
        let made = tempfile::tempdir().unwrap();
        let store = Store::create(made.path(), &KEY, options()).unwrap();
        store.lock().put_setting("where", b"here").unwrap();
        store.lock().commit().unwrap();
        let folder = tempfile::tempdir().unwrap();
        if !in_log {
            drop(store);
        }
        for name in [DATABASE_FILE, "metadata.db-wal", TREE_FILE] {
            if made.path().join(name).exists() {
                fs::copy(made.path().join(name), folder.path().join(name)).unwrap();
            }
        }
        assert_eq!(folder.path().join("metadata.db-wal").exists(), in_log);
        folder
    }

    /// `Frozen` is what read-only media get; here the folder could be written, and must not be.
    #[test]
    fn a_frozen_store_reads_database_and_log_and_leaves_every_file_alone() {
        for in_log in [false, true] {
            let folder = folder(in_log);
            let files = || {
                let mut found: Vec<_> = fs::read_dir(folder.path())
                    .unwrap()
                    .map(|file| file.unwrap().path())
                    .map(|path| (fs::read(&path).unwrap(), path))
                    .collect();
                found.sort();
                found
            };
            let before = files();
            let store =
                Store::open_for_reading(folder.path(), &KEY, options(), Access::Frozen).unwrap();
            assert_eq!(
                store.lock().setting("where").unwrap(),
                Some(b"here".to_vec())
            );
            let read = || {
                let reader = store.reader().unwrap();
                assert_eq!(reader.setting("where").unwrap(), Some(b"here".to_vec()));
                reader
            };
            let one = read();
            std::thread::scope(|scope| {
                scope.spawn(|| drop(read()));
            });
            assert!(matches!(
                store.lock().remove_inode(InodeId(1)),
                Err(Error::ReadOnly)
            ));
            drop(one);
            assert_eq!(store.integrity_check().unwrap(), [] as [String; 0]);
            assert!(
                files() == before,
                "log {in_log}: nothing is written while open"
            );
            drop(store);
            assert!(
                files() == before,
                "log {in_log}: nothing is written at the end"
            );
        }
    }

    /// Goal: what is opened while the store is open, a connection for a reader, is what was opened at first, or nothing.
    /// Failed before: names were resolved by the system, and a link in the place of the database led to another one.
    #[test]
    fn a_link_that_takes_the_name_of_a_file_of_an_open_store_is_not_followed() {
        let made = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let store = Store::create(made.path(), &KEY, options()).unwrap();
        drop(Store::create(elsewhere.path(), &KEY, options()).unwrap());
        let (here, there) = (made.path(), elsewhere.path().join(DATABASE_FILE));
        let before = fs::read(&there).unwrap();
        fs::rename(here.join(DATABASE_FILE), here.join("moved")).unwrap();
        std::os::unix::fs::symlink(&there, here.join(DATABASE_FILE)).unwrap();
        assert!(store.reader().is_err());
        assert_eq!(fs::read(&there).unwrap(), before);
        fs::remove_file(here.join(DATABASE_FILE)).unwrap();
        fs::rename(here.join("moved"), here.join(DATABASE_FILE)).unwrap();
        assert!(store.reader().is_ok());
    }

    /// Failed before: the folder was found by its path each time, so a reader met whatever had taken that.
    #[test]
    fn an_open_store_stays_in_its_folder_whatever_takes_the_path() {
        let made = tempfile::tempdir().unwrap();
        let (folder, moved) = (made.path().join("v"), made.path().join("w"));
        fs::create_dir(&folder).unwrap();
        let store = Store::create(&folder, &KEY, options()).unwrap();
        store.lock().put_setting("where", b"here").unwrap();
        store.lock().commit().unwrap();
        fs::rename(&folder, &moved).unwrap();
        let reader = store.reader().unwrap();
        assert_eq!(reader.setting("where").unwrap(), Some(b"here".to_vec()));
    }

    /// Failed before: links were followed, hard links written through, pipes waited on.
    #[test]
    fn a_strange_file_in_the_place_of_one_of_the_store_is_named() {
        let elsewhere = tempfile::tempdir().unwrap();
        let canary = elsewhere.path().join("canary");
        fs::write(&canary, "canary").unwrap();
        let reserving = Options {
            reserve_bytes: 4096,
            ..options()
        };
        for name in [
            DATABASE_FILE,
            "metadata.db-wal",
            "metadata.db-shm",
            "metadata.db-journal",
            TREE_FILE,
            RESERVE_FILE,
        ] {
            for is_hard in [false, true] {
                let folder = folder(false);
                let path = folder.path().join(name);
                let _ = fs::remove_file(&path);
                match is_hard {
                    true => fs::hard_link(&canary, &path).unwrap(),
                    false => std::os::unix::fs::symlink(&canary, &path).unwrap(),
                }
                for opened in [
                    Store::open(folder.path(), &KEY, reserving.clone()),
                    Store::open_read_only(folder.path(), &KEY, reserving.clone()),
                ] {
                    match opened.unwrap_err() {
                        Error::Odd(odd) => assert_eq!(odd.path, name),
                        other => panic!("{name}: {other}"),
                    }
                }
                assert_eq!(fs::read(&canary).unwrap(), b"canary", "{name}");
            }
        }
    }
}
