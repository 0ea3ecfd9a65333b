//! What the tests of this crate share: a folder that goes away, and blocks that look sealed.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use strongroom_format::limits::sealed_len;
use strongroom_format::{BlockId, Kind, SealedBlock, SegmentId, SuiteId};

use crate::{DirectIo, Result, SegmentStore, StoreOptions, Transfer, name};

/// A temporary folder for one store.
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    pub(crate) fn open(&self) -> SegmentStore {
        SegmentStore::open(&self.path(), StoreOptions::new(SuiteId::Aes256GcmBlake3))
            .expect("opened")
    }

    pub(crate) fn open_by(&self, transfer: Transfer) -> Result<SegmentStore> {
        let options = StoreOptions {
            direct: DirectIo::Only(transfer),
            ..StoreOptions::new(SuiteId::Aes256GcmBlake3)
        };
        SegmentStore::open(&self.path(), options)
    }

    pub(crate) fn path_of(&self, id: SegmentId) -> PathBuf {
        self.path().join(name::path(id))
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().join("segments")
    }
}

/// A block of `clear_len` bytes, different from every other.
pub(crate) fn block(clear_len: u32) -> SealedBlock {
    static SEED: AtomicU64 = AtomicU64::new(1);
    let mut state = SEED
        .fetch_add(1, Relaxed)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        | 1;
    let mut byte = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    };
    let bytes = (0..sealed_len(clear_len as usize))
        .map(|_| byte())
        .collect();
    SealedBlock {
        id: BlockId([byte(); 32]),
        kind: Kind::Data,
        clear_len,
        bytes,
    }
}

pub(crate) fn refs(blocks: &[SealedBlock]) -> Vec<&SealedBlock> {
    blocks.iter().collect()
}
