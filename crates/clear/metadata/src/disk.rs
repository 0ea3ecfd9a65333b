//! The state of a store's files: counts, the reserve of disk space, and the observer of the disk.
//!
//! Takes   an operation that the SQLite layer in `vfs` is about to carry out on a file
//! Gives   permission for it, and the counts
//! Never   opens the database, its log or its index: only the file handles of `vfs` touch them
//! Spec    spec/4-metadata.md, 4.8 and 4.9
//!
//! Invariants
//!  (1) After a failed sync nothing is written into the database file: pages that the disk may have dropped must not be
//!      copied into it as if they were sound.                                                 [4.8.4]

use std::ffi::c_int;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use libsqlite3_sys as ffi;
use parking_lot::Mutex;
use rustix::fs::{FallocateFlags, fallocate};
use strongroom_folder::{Folder, Purpose, is_full};

/// The database file in a vault folder.
pub const DATABASE_FILE: &str = "metadata.db";

/// The reserve file in a vault folder.
pub const RESERVE_FILE: &str = "reserve";

/// Which file of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// `metadata.db`.
    Database,
    /// `metadata.db-wal`.
    Log,
    /// `metadata.db-journal`: only while a database is created.
    Journal,
    /// `metadata.db-tree`: the leaves of the page tree.
    Tree,
}

impl FileKind {
    /// The kind of file that SQLite's open flags ask for; `None` for everything that could hold a plaintext page.
    pub(crate) fn of(flags: c_int) -> Option<Self> {
        match flags {
            flags if flags & ffi::SQLITE_OPEN_MAIN_DB != 0 => Some(Self::Database),
            flags if flags & ffi::SQLITE_OPEN_WAL != 0 => Some(Self::Log),
            flags if flags & ffi::SQLITE_OPEN_MAIN_JOURNAL != 0 => Some(Self::Journal),
            _ => None,
        }
    }
}

/// Something that is about to be done with a file. All bytes are ciphertext or frame headers.
#[derive(Clone, Copy, Debug)]
pub enum DiskEvent<'a> {
    /// Bytes are read.
    Read {
        /// Which file.
        file: FileKind,
        /// How many.
        len: u64,
    },
    /// Bytes go to an offset.
    Write {
        /// Which file.
        file: FileKind,
        /// First byte.
        offset: u64,
        /// What goes there.
        bytes: &'a [u8],
    },
    /// Everything written to the file so far is to become durable.
    Sync {
        /// Which file.
        file: FileKind,
    },
    /// The file gets this length.
    Truncate {
        /// Which file.
        file: FileKind,
        /// Bytes.
        len: u64,
    },
}

/// How a disk fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFault {
    /// As `ENOSPC`: the reserve is given up and the operation is tried once more.
    NoSpace,
    /// As `EIO`.
    Failure,
}

/// Who is asked before every use of a file: tests and the simulator.
pub trait DiskObserver: Send + Sync {
    /// Called on the thread that reads or makes the change, before it; a fault is given to SQLite in its place.
    ///
    /// # Errors
    /// The fault to inject.
    fn before(&self, event: &DiskEvent<'_>) -> Result<(), DiskFault>;
}

/// What happened to one file since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileCounts {
    /// Calls that read.
    pub reads: u64,
    /// Bytes they asked for.
    pub bytes_read: u64,
    /// Calls that wrote.
    pub writes: u64,
    /// Bytes they wrote.
    pub bytes: u64,
    /// Calls that synced.
    pub syncs: u64,
}

/// What happened to the files of a store since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskCounts {
    /// `metadata.db`.
    pub database: FileCounts,
    /// `metadata.db-wal`.
    pub log: FileCounts,
    /// `metadata.db-tree`.
    pub tree: FileCounts,
}

#[derive(Default)]
struct Tally {
    reads: AtomicU64,
    bytes_read: AtomicU64,
    writes: AtomicU64,
    bytes: AtomicU64,
    syncs: AtomicU64,
}

impl Tally {
    fn add(&self, counts: &FileCounts) {
        self.reads.fetch_add(counts.reads, Ordering::Relaxed);
        self.bytes_read
            .fetch_add(counts.bytes_read, Ordering::Relaxed);
        self.writes.fetch_add(counts.writes, Ordering::Relaxed);
        self.bytes.fetch_add(counts.bytes, Ordering::Relaxed);
        self.syncs.fetch_add(counts.syncs, Ordering::Relaxed);
    }

    fn read(&self) -> FileCounts {
        FileCounts {
            reads: self.reads.load(Ordering::Relaxed),
            bytes_read: self.bytes_read.load(Ordering::Relaxed),
            writes: self.writes.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            syncs: self.syncs.load(Ordering::Relaxed),
        }
    }
}

/// The disk under one store, watched.
pub(crate) struct Disk {
    tallies: [Tally; 4],
    log_len: AtomicU64,
    sync_failed: AtomicBool,
    observer: Option<Arc<dyn DiskObserver>>,
    reserve: Reserve,
}

impl Disk {
    pub(crate) fn new(observer: Option<Arc<dyn DiskObserver>>, reserve: Reserve) -> Self {
        Self {
            tallies: Default::default(),
            log_len: AtomicU64::new(0),
            sync_failed: AtomicBool::new(false),
            observer,
            reserve,
        }
    }

    pub(crate) fn counts(&self) -> DiskCounts {
        DiskCounts {
            database: self.tallies[FileKind::Database as usize].read(),
            log: self.tallies[FileKind::Log as usize].read(),
            tree: self.tallies[FileKind::Tree as usize].read(),
        }
    }

    /// Carries on the counts of `before`, whose files these take the place of.
    pub(crate) fn go_on_counting(&self, before: &Self) {
        for (mine, theirs) in self.tallies.iter().zip(&before.tallies) {
            mine.add(&theirs.read());
        }
    }

    /// Bytes of the log that hold frames not restarted over.
    pub(crate) fn log_len(&self) -> u64 {
        self.log_len.load(Ordering::Relaxed)
    }

    pub(crate) fn set_log_len(&self, len: u64) {
        self.log_len.store(len, Ordering::Relaxed);
    }

    pub(crate) fn sync_failed(&self) -> bool {
        self.sync_failed.load(Ordering::Acquire)
    }

    pub(crate) fn set_sync_failed(&self) {
        self.sync_failed.store(true, Ordering::Release);
    }

    pub(crate) fn reserve(&self) -> &Reserve {
        &self.reserve
    }

    /// Counts `event` and asks the observer.
    pub(crate) fn before(&self, event: &DiskEvent<'_>) -> Result<(), DiskFault> {
        match *event {
            DiskEvent::Read { file, len } => {
                let tally = &self.tallies[file as usize];
                tally.reads.fetch_add(1, Ordering::Relaxed);
                tally.bytes_read.fetch_add(len, Ordering::Relaxed);
            }
            DiskEvent::Write {
                file,
                offset,
                bytes,
            } => {
                if file == FileKind::Database && self.sync_failed() {
                    return Err(DiskFault::Failure); // (1)
                }
                let tally = &self.tallies[file as usize];
                tally.writes.fetch_add(1, Ordering::Relaxed);
                tally.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                if file == FileKind::Log {
                    self.set_log_len(offset + bytes.len() as u64);
                }
            }
            DiskEvent::Sync { file } => {
                self.tallies[file as usize]
                    .syncs
                    .fetch_add(1, Ordering::Relaxed);
            }
            DiskEvent::Truncate { file, len } => {
                if file == FileKind::Log {
                    self.set_log_len(len);
                }
            }
        }
        self.observer
            .as_ref()
            .map_or(Ok(()), |observer| observer.before(event))
    }
}

/// A preallocated file whose space is given to a commit that finds the disk full.
pub(crate) struct Reserve {
    folder: Folder,
    name: &'static str,
    bytes: u64,
    intact: AtomicBool,
    /// How often the space was given to the disk.
    releases: AtomicU64,
    change: Mutex<()>,
}

impl Reserve {
    /// The file `name` in `folder`; `bytes` 0 keeps nothing back.
    ///
    /// # Errors
    /// `Odd` if it is anything but a file of this folder; those of the disk.
    pub(crate) fn new(
        folder: Folder,
        name: &'static str,
        bytes: u64,
    ) -> strongroom_folder::Result<Self> {
        let mut allocated = 0;
        if folder.check_file(name)?.is_some() {
            let found = folder.open_file(name, Purpose::Read)?.metadata()?;
            allocated = found.blocks().saturating_mul(512).min(found.len());
        }
        Ok(Self {
            folder,
            name,
            bytes,
            intact: AtomicBool::new(allocated >= bytes),
            releases: AtomicU64::new(0),
            change: Mutex::new(()),
        })
    }

    pub(crate) fn intact(&self) -> bool {
        self.intact.load(Ordering::Acquire)
    }

    /// How often the space was given to the disk: to be asked before a write, for `release` after it.
    pub(crate) fn releases(&self) -> u64 {
        self.releases.load(Ordering::Acquire)
    }

    /// Gives the space to the disk, for a write that began when it had been given `before` times; whether there is room that the write
    /// did not find. A commit and a checkpoint meet a full disk at once: what one of them gave serves the other too.
    pub(crate) fn release(&self, before: u64) -> bool {
        let _change = self.change.lock();
        if self.releases() != before {
            return true;
        }
        if self.bytes == 0 || !self.intact() {
            return false;
        }
        self.intact.store(false, Ordering::Release);
        let file = self.folder.open_file(self.name, Purpose::Write);
        let is_given = file.is_ok_and(|file| file.set_len(0).is_ok());
        if is_given {
            self.releases.fetch_add(1, Ordering::AcqRel);
        }
        is_given
    }

    /// Keeps the space back again.
    pub(crate) fn restore(&self) -> io::Result<()> {
        let _change = self.change.lock();
        if self.intact() {
            return Ok(());
        }
        let file = self.folder.open_or_create(self.name)?;
        file.set_len(0)?;
        if let Err(error) = allocate(&file, self.bytes) {
            file.set_len(0)?;
            return Err(error);
        }
        self.intact.store(true, Ordering::Release);
        Ok(())
    }
}

/// Gives `file` blocks for `bytes` bytes: by the system call, or where that is unknown by writing.
fn allocate(mut file: &File, bytes: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, bytes) {
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
            io::copy(&mut io::Read::take(io::repeat(0), bytes), &mut file)?;
            Ok(())
        }
        other => Ok(other?),
    }
}

/// The result code that stands for an injected fault.
pub(crate) const fn fault_code(fault: DiskFault, failure: c_int) -> c_int {
    match fault {
        DiskFault::NoSpace => ffi::SQLITE_FULL,
        DiskFault::Failure => failure,
    }
}

/// What an injected fault is to code that uses files without SQLite.
pub(crate) fn fault_error(fault: DiskFault) -> io::Error {
    match fault {
        DiskFault::NoSpace => io::ErrorKind::StorageFull.into(),
        DiskFault::Failure => io::Error::other("the disk failed"),
    }
}

/// Whether `result`, just given by a write of the system, means that the disk or a quota is full.
fn means_full(result: c_int) -> bool {
    result == ffi::SQLITE_FULL
        || (matches!(result, ffi::SQLITE_IOERR_WRITE | ffi::SQLITE_IOERR_SHMSIZE)
            && is_full(&io::Error::last_os_error()))
}

/// Runs `attempt`; if the disk is full and the reserve is there, frees it and runs `attempt` once more.
pub(crate) fn with_reserve(disk: &Disk, mut attempt: impl FnMut() -> c_int) -> c_int {
    let releases = disk.reserve().releases();
    let result = attempt();
    if means_full(result) && disk.reserve().release(releases) {
        attempt()
    } else {
        result
    }
}
