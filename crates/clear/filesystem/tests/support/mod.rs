//! A file system in a temporary folder, with users, and a clock that advances each time it is read.
//!
//! Dropping a `Lab` checks the vault, so every test ends in a sound one.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::ops::Deref;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use strongroom_crypto::{
    BlockSealer, EpochKey, IdKey, Random, RandomError, RevisionSigner, SystemRandom,
};
use strongroom_filesystem::{
    Attributes, Background, Caller, Checks, Clock, Disk, Error, Filesystem, InodeId, Listing,
    NewNode, NodeKind, Options, Parts, Result, SetAttributes, Timestamp, Watcher,
};
use strongroom_format::{Epoch, SegmentId, SuiteId, VaultId};
use strongroom_segments::{SegmentStore, StoreOptions};

/// The root directory.
pub(crate) const ROOT: InodeId = InodeId::ROOT;

const METADATA_KEY: [u8; 80] = [7; 80];

/// A clock that never shows a time twice, so that a test sees which operation set which.
#[derive(Default)]
struct Ticks(AtomicI64);

impl Clock for Ticks {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.fetch_add(1_000, Ordering::Relaxed) + 1_000)
    }
}

/// A disk that is full when told so, or as full as the vault folder makes it.
#[derive(Default)]
struct Gauge {
    full: AtomicBool,
    /// Bytes of the disk; 0 for more than anybody can fill.
    size: AtomicU64,
    folder: Mutex<PathBuf>,
}

impl Disk for Gauge {
    fn space(&self) -> Option<(u64, u64)> {
        if self.full.load(Ordering::Relaxed) {
            return Some((1 << 41, 0));
        }
        match self.size.load(Ordering::Relaxed) {
            0 => Some((1 << 41, 1 << 40)),
            size => {
                let folder = self.folder.lock().expect("nobody panics with it");
                Some((size, size.saturating_sub(allocated(&folder))))
            }
        }
    }
}

/// Randomness that can be held back, and with it whoever asks for it.
#[derive(Default)]
struct Held {
    /// How many questions pass before one waits; `None`: all do.
    passes: Mutex<Option<u64>>,
    changed: Condvar,
}

impl Random for Held {
    fn fill(&self, bytes: &mut [u8]) -> std::result::Result<(), RandomError> {
        let mut passes = self.passes.lock().expect("nobody panics with it");
        if let Some(left) = passes.as_mut().filter(|left| **left > 0) {
            *left -= 1;
            self.changed.notify_all();
        } else {
            let wait = self.changed.wait_while(passes, |passes| passes.is_some());
            passes = wait.expect("nobody panics with it");
        }
        drop(passes);
        SystemRandom.fill(bytes)
    }
}

/// What the files below `folder` take on the disk. One that goes meanwhile takes nothing.
pub(crate) fn allocated(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let of = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => allocated(&entry.path()),
        Ok(meta) => meta.blocks() * 512,
        Err(_) => 0,
    };
    entries.filter_map(|entry| Some(of(entry.ok()?))).sum()
}

/// One vault, used as its `Filesystem`.
pub(crate) struct Lab {
    // Gone for a moment only, between closing and opening again.
    open: Option<Filesystem>,
    clock: Arc<Ticks>,
    disk: Arc<Gauge>,
    random: Arc<Held>,
    /// The oldest epoch with keys, and the newest.
    oldest: AtomicU32,
    epoch: AtomicU32,
    log_bytes: Option<usize>,
    folder: tempfile::TempDir,
}

impl Deref for Lab {
    type Target = Filesystem;

    fn deref(&self) -> &Filesystem {
        self.open
            .as_ref()
            .expect("open between two calls of a test")
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Some(open) = self.open.take().filter(|_| !std::thread::panicking()) {
            let report = open.check().expect("the check runs");
            assert_eq!(
                report.problems,
                Vec::<String>::new(),
                "the test left a damaged vault"
            );
        }
    }
}

fn options() -> Options {
    Options {
        background: Background::Manual,
        threads: Some(2),
        ..Options::default()
    }
}

/// The key of `epoch`.
pub(crate) fn epoch_key_bytes(epoch: u32) -> [u8; 32] {
    [3 + epoch.to_le_bytes()[0]; 32]
}

/// The keys of every epoch from 0 to `newest`.
pub(crate) fn sealer(newest: u32) -> BlockSealer {
    sealer_from(0, newest)
}

/// The keys of every epoch from `oldest` to `newest`.
fn sealer_from(oldest: u32, newest: u32) -> BlockSealer {
    let key = |epoch| EpochKey::from_bytes(epoch_key_bytes(epoch));
    let keys = (oldest..=newest).map(|epoch| (Epoch(epoch), key(epoch)));
    BlockSealer::new(
        SuiteId::Aes256GcmBlake3,
        [0; 16],
        IdKey::from_bytes([4; 32]),
        keys.collect(),
    )
}

fn parts(
    folder: &tempfile::TempDir,
    clock: &Arc<Ticks>,
    disk: &Arc<Gauge>,
    random: &Arc<Held>,
    (oldest, epoch): (u32, u32),
    options: Options,
) -> Parts {
    let path = folder.path();
    let metadata = || strongroom_metadata::Options {
        reserve_bytes: 0,
        ..Default::default()
    };
    let store = match strongroom_metadata::Store::create(path, &METADATA_KEY, metadata()) {
        Err(strongroom_metadata::Error::AlreadyThere) => {
            strongroom_metadata::Store::open(path, &METADATA_KEY, metadata())
        }
        created => created,
    };
    let session = strongroom_segments::random_name()
        .expect("the system has randomness")
        .0;
    let session: [u8; 8] = session[..8].try_into().expect("half of a name");
    let mut segment_options = StoreOptions::new(SuiteId::Aes256GcmBlake3);
    segment_options.names = Box::new(move || {
        let mut name = strongroom_segments::random_name()?.0;
        name[..8].copy_from_slice(&session);
        Ok(SegmentId(name))
    });
    Parts {
        store: store.expect("the metadata opens"),
        segments: SegmentStore::open(&path.join("segments"), segment_options)
            .expect("the segments open"),
        sealer: sealer_from(oldest, epoch),
        signer: RevisionSigner::from_seed([5; 32], VaultId([6; 32])),
        clock: Arc::clone(clock) as Arc<dyn Clock>,
        disk: Arc::clone(disk) as Arc<dyn Disk>,
        random: Arc::clone(random) as Arc<dyn Random>,
        session,
        intents: Some(path.to_path_buf()),
        source: None,
        options,
    }
}

impl Lab {
    /// An empty vault whose root belongs to the superuser and is open to all.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (clock, disk, random) = (Arc::default(), Arc::default(), Arc::default());
        let parts = parts(&folder, &clock, &disk, &random, (0, 0), options());
        Filesystem::format(&parts, 0, 0).expect("formats");
        let open = Some(Filesystem::open(parts).expect("opens"));
        let lab = Self {
            open,
            clock,
            disk,
            random,
            oldest: AtomicU32::new(0),
            epoch: AtomicU32::new(0),
            log_bytes: None,
            folder,
        };
        lab.chmod(ROOT, 0o777);
        lab
    }

    fn open_again(&mut self, options: Options) {
        self.open = None;
        let epochs = (
            self.oldest.load(Ordering::Relaxed),
            self.epoch.load(Ordering::Relaxed),
        );
        let parts = parts(
            &self.folder,
            &self.clock,
            &self.disk,
            &self.random,
            epochs,
            options,
        );
        self.open = Some(Filesystem::open(parts).expect("opens again"));
    }

    /// Closes and opens it.
    pub(crate) fn reopen(&mut self) {
        self.close().expect("closes");
        self.open_again(options());
    }

    /// Closes it and opens it for reading.
    pub(crate) fn reopen_read_only(&mut self) {
        self.close().expect("closes");
        self.open_again(Options {
            read_only: true,
            ..options()
        });
    }

    /// Closes it and opens it with a bound of extents in memory.
    pub(crate) fn reopen_with_extents(&mut self, extent_bytes_max: usize) {
        self.close().expect("closes");
        self.open_again(Options {
            extent_bytes_max,
            ..options()
        });
    }

    /// Closes it and opens it with an intent log of `len` bytes, which stays so after each `crash`.
    pub(crate) fn reopen_with_log(&mut self, len: usize) {
        self.close().expect("closes");
        self.log_bytes = Some(len);
        self.open_again(self.options());
    }

    fn options(&self) -> Options {
        let mut options = options();
        if let Some(len) = self.log_bytes {
            options.thresholds.intent_log_bytes = len;
        }
        options
    }

    /// Loses what no sync covered, and opens it.
    pub(crate) fn crash(&mut self) {
        self.open_again(self.options());
    }

    /// The same, and in between somebody does `meanwhile` to the folder.
    pub(crate) fn crash_while(&mut self, meanwhile: impl FnOnce(&Path)) {
        self.open = None;
        meanwhile(self.path());
        self.crash();
    }

    /// Begins the next epoch while the vault is open.
    pub(crate) fn next_epoch(&self) -> Epoch {
        let epoch = self.epoch.fetch_add(1, Ordering::Relaxed) + 1;
        let oldest = self.oldest.load(Ordering::Relaxed);
        self.begin_epoch(sealer_from(oldest, epoch))
            .expect("the epoch begins");
        Epoch(epoch)
    }

    /// Closes it, and opens it with the keys of one more epoch, which begins before anything is sealed.
    pub(crate) fn reopen_in_next_epoch(&mut self) -> Epoch {
        self.close().expect("closes");
        let epoch = self.epoch.fetch_add(1, Ordering::Relaxed) + 1;
        self.open_again(self.options());
        Epoch(epoch)
    }

    /// Takes the keys of every epoch before `first` away, for good.
    pub(crate) fn forget_epochs_before(&self, first: Epoch) {
        self.oldest.store(first.0, Ordering::Relaxed);
        let newest = self.epoch.load(Ordering::Relaxed);
        self.forget_epochs(sealer_from(first.0, newest));
    }

    /// Closes it and opens it with a thread that works in the background.
    pub(crate) fn reopen_with_thread(&mut self) {
        self.close().expect("closes");
        self.open_again(Options {
            background: Background::Thread,
            commit_interval: std::time::Duration::from_millis(5),
            ..options()
        });
    }

    /// The same, with a thread that commits only when nothing changes any more.
    pub(crate) fn reopen_to_commit_when_quiet(&mut self) {
        self.close().expect("closes");
        self.open_again(Options {
            background: Background::Thread,
            commit_interval: std::time::Duration::from_secs(100_000),
            quiet_interval: std::time::Duration::from_millis(5),
            ..options()
        });
    }

    /// Closes it, and opens it with somebody who hears of all background work.
    pub(crate) fn reopen_watched(&mut self, watcher: Arc<dyn Watcher>) {
        self.close().expect("closes");
        self.open_again(Options {
            watcher: Some(watcher),
            ..options()
        });
    }

    /// The vault folder.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Fills the disk, or frees it.
    pub(crate) fn fill_disk(&self, full: bool) {
        self.disk.full.store(full, Ordering::Relaxed);
    }

    /// Gives the disk `size` bytes, of which the vault folder takes what its files take.
    pub(crate) fn put_on_disk_of(&self, size: u64) {
        *self.disk.folder.lock().expect("nobody panics with it") = self.path().to_owned();
        self.disk.size.store(size, Ordering::Relaxed);
    }

    /// Lets `passes` questions for randomness through while `work` begins, and no more until `then` has ended, which begins after the
    /// last of them.
    pub(crate) fn hold_random_after(
        &self,
        passes: u64,
        work: impl FnOnce() + Send,
        then: impl FnOnce(),
    ) {
        let set = |passes| {
            *self.random.passes.lock().expect("nobody panics with it") = passes;
            self.random.changed.notify_all();
        };
        set(Some(passes));
        std::thread::scope(|scope| {
            scope.spawn(work);
            let left = self.random.passes.lock().expect("nobody panics with it");
            let used_up = |left: &mut Option<u64>| left.is_some_and(|left| left > 0);
            drop(self.random.changed.wait_while(left, used_up));
            // Whatever comes of it, the work ends.
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(then));
            set(None);
            done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
    }

    /// Makes a node for the superuser.
    pub(crate) fn make(
        &self,
        parent: InodeId,
        name: &str,
        kind: NodeKind,
        mode: u32,
    ) -> Attributes {
        self.make_as(&Caller::root(), parent, name, kind, mode)
            .expect("the superuser makes nodes")
    }

    /// Makes a node.
    pub(crate) fn make_as(
        &self,
        caller: &Caller,
        parent: InodeId,
        name: &str,
        kind: NodeKind,
        mode: u32,
    ) -> Result<Attributes> {
        let target = if kind == NodeKind::Symlink {
            b"target".to_vec()
        } else {
            Vec::new()
        };
        self.create(
            caller,
            parent,
            name.as_bytes(),
            &NewNode {
                kind,
                mode,
                rdev: 0,
                target,
            },
        )
    }

    /// A file of the superuser's, open to all.
    pub(crate) fn file(&self, parent: InodeId, name: &str) -> InodeId {
        self.make(parent, name, NodeKind::File, 0o666).inode
    }

    /// A directory of the superuser's, open to all.
    pub(crate) fn directory(&self, parent: InodeId, name: &str) -> InodeId {
        self.make(parent, name, NodeKind::Directory, 0o777).inode
    }

    /// What `stat` tells.
    pub(crate) fn stat(&self, inode: InodeId) -> Attributes {
        self.attributes(inode).expect("the node is there")
    }

    /// What a name names, without keeping a reference.
    pub(crate) fn find(&self, parent: InodeId, name: &str) -> Option<InodeId> {
        match self.lookup(&Caller::root(), parent, name.as_bytes()) {
            Ok(found) => {
                self.forget(found.inode, 1);
                Some(found.inode)
            }
            Err(Error::NotFound) => None,
            Err(error) => panic!("looking up {name}: {error}"),
        }
    }

    /// All names of a directory, sorted.
    pub(crate) fn names(&self, directory: InodeId) -> Vec<String> {
        let page = self
            .list(&Caller::root(), directory, 0, usize::MAX, Listing::Names)
            .expect("lists");
        let mut names: Vec<String> = page
            .into_iter()
            .map(|entry| String::from_utf8(entry.name).expect("tests use UTF-8"))
            .collect();
        names.sort();
        names
    }

    /// The first bytes of a file.
    pub(crate) fn content(&self, inode: InodeId) -> Vec<u8> {
        let mut buffer = vec![0; 4096];
        let len = self.read(inode, 0, &mut buffer).expect("reads");
        buffer.truncate(len);
        buffer
    }

    /// Sets a mode as the superuser.
    pub(crate) fn chmod(&self, inode: InodeId, mode: u32) {
        let set = SetAttributes {
            mode: Some(mode),
            ..SetAttributes::default()
        };
        self.set_attributes(&Caller::root(), inode, &set)
            .expect("the superuser sets modes");
    }

    /// Gives a node to a user and the group of the same number, and sets its mode after that.
    pub(crate) fn give(&self, inode: InodeId, id: u32, mode: u32) {
        let set = SetAttributes {
            uid: Some(id),
            gid: Some(id),
            mode: Some(mode),
            ..SetAttributes::default()
        };
        self.set_attributes(&Caller::root(), inode, &set)
            .expect("the superuser gives away");
    }
}

/// A user with a group of the same number, whose permissions the file system checks.
pub(crate) fn user(id: u32) -> Caller {
    Caller {
        uid: id,
        gid: id,
        groups: Vec::new(),
        checks: Checks::Here,
    }
}

/// The superuser, whose permissions the file system checks.
pub(crate) fn superuser() -> Caller {
    user(0)
}

/// Asserts that an operation was refused for the reason given.
macro_rules! assert_refused {
    ($result:expr, $reason:pat $(,)?) => {
        match $result {
            Err($reason) => {}
            other => panic!("expected {}, got {other:?}", stringify!($reason)),
        }
    };
}
pub(crate) use assert_refused;
