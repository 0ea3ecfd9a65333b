//! Creates a vault folder with a metadata database, and rows to put into it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use strongroom_format::limits::sealed_len;
use strongroom_format::{BlockId, SegmentId};
use strongroom_metadata::{
    DiskEvent, DiskFault, DiskObserver, Entry, FileKind, Inode, InodeId, MissingTree, NodeKind,
    Options, Store, Timestamp,
};

pub(crate) const KEY: [u8; 80] = [0x5a; 80];

/// A folder that is removed when dropped.
pub(crate) struct Folder(tempfile::TempDir);

/// What a database is made of.
pub(crate) const FILES: [&str; 3] = ["metadata.db", "metadata.db-wal", "metadata.db-tree"];

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// The folder as a kill now would leave it: database, log and page tree.
    pub(crate) fn copy(&self) -> Self {
        let copy = Self::new();
        for name in FILES {
            if self.file(name).exists() {
                fs::copy(self.file(name), copy.file(name)).unwrap();
            }
        }
        copy
    }

    pub(crate) fn create(&self) -> Store {
        Store::create(self.path(), &KEY, small_options()).unwrap()
    }

    pub(crate) fn open(&self) -> Store {
        Store::open(self.path(), &KEY, small_options()).unwrap()
    }
}

/// Without a large reserve, so that tests stay fast.
pub(crate) fn small_options() -> Options {
    Options {
        reserve_bytes: 64 * 1024,
        ..Options::default()
    }
}

/// Makes the closed database in `folder` one of before there were page trees. Gives how such a one is opened.
pub(crate) fn without_tree(folder: &Folder) -> Options {
    fs::remove_file(folder.file("metadata.db-tree")).unwrap();
    Options {
        missing_tree: MissingTree::Made,
        ..small_options()
    }
}

pub(crate) fn inode(id: u64, kind: NodeKind) -> Inode {
    Inode {
        id: InodeId(id),
        birth_id: u64::MAX - id,
        kind,
        mode: 0o4755,
        uid: u32::MAX,
        gid: 7,
        rdev: u64::MAX,
        nlink: 1,
        size: 123_456_789_012,
        allocated: 4096,
        atime: Timestamp(-1),
        mtime: Timestamp(i64::MIN),
        ctime: Timestamp(i64::MAX),
        btime: Timestamp(0),
        content_version: 3,
        parent: InodeId(if kind == NodeKind::Directory { 1 } else { 0 }),
        target: if kind == NodeKind::Symlink {
            b"../elsewhere".to_vec()
        } else {
            Vec::new()
        },
        reserved: 8192,
    }
}

pub(crate) fn entry(name: &str, inode: u64, cookie: u64) -> Entry {
    Entry {
        name: name.as_bytes().to_vec(),
        inode: InodeId(inode),
        kind: NodeKind::File,
        cookie,
    }
}

pub(crate) fn block_id(seed: u64) -> BlockId {
    let mut id = [0xb1; 32];
    id[..8].copy_from_slice(&seed.to_be_bytes());
    BlockId(id)
}

pub(crate) fn segment_id(seed: u8) -> SegmentId {
    SegmentId([seed; 16])
}

pub(crate) fn sealed(clear_len: u32) -> Vec<u8> {
    vec![0xee; sealed_len(clear_len as usize)]
}

/// Puts one file with a name into the root, in the open transaction.
pub(crate) fn create_file(store: &Store, name: &str) -> InodeId {
    let mut transaction = store.lock();
    let id = transaction.next_inode().unwrap();
    let cookie = transaction.next_cookie();
    transaction.put_inode(&inode(id.0, NodeKind::File)).unwrap();
    transaction
        .insert_entry(InodeId::ROOT, &entry(name, id.0, cookie))
        .unwrap();
    id
}

/// The names in the root, in listing order.
pub(crate) fn names(store: &Store) -> Vec<String> {
    let listed = store.lock().entries(InodeId::ROOT, 0, usize::MAX).unwrap();
    listed
        .into_iter()
        .map(|entry| String::from_utf8(entry.name).unwrap())
        .collect()
}

/// What to fail, counted from when it is armed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Read,
    Write,
    Sync,
}

/// Fails the nth write or sync of any file, and perhaps all after it; records nothing else.
#[derive(Default)]
pub(crate) struct Faults {
    plan: Mutex<Option<Plan>>,
    seen: AtomicU64,
    pub(crate) log_syncs: AtomicU64,
}

#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) target: Target,
    pub(crate) nth: u64,
    pub(crate) fault: DiskFault,
    pub(crate) lasting: bool,
}

impl Faults {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    pub(crate) fn arm(&self, plan: Plan) {
        self.seen.store(0, Ordering::SeqCst);
        *self.plan.lock() = Some(plan);
    }

    pub(crate) fn disarm(&self) {
        *self.plan.lock() = None;
    }

    /// How many of the targeted operations came since `arm`.
    pub(crate) fn seen(&self) -> u64 {
        self.seen.load(Ordering::SeqCst)
    }
}

impl DiskObserver for Faults {
    fn before(&self, event: &DiskEvent<'_>) -> Result<(), DiskFault> {
        if matches!(
            event,
            DiskEvent::Sync {
                file: FileKind::Log
            }
        ) {
            self.log_syncs.fetch_add(1, Ordering::SeqCst);
        }
        let Some(plan) = *self.plan.lock() else {
            return Ok(());
        };
        let hit = match event {
            DiskEvent::Write { .. } => plan.target == Target::Write,
            DiskEvent::Sync { .. } => plan.target == Target::Sync,
            DiskEvent::Read { .. } => plan.target == Target::Read,
            DiskEvent::Truncate { .. } => false,
        };
        if !hit {
            return Ok(());
        }
        let count = self.seen.fetch_add(1, Ordering::SeqCst) + 1;
        if count == plan.nth || (plan.lasting && count > plan.nth) {
            Err(plan.fault)
        } else {
            Ok(())
        }
    }
}
