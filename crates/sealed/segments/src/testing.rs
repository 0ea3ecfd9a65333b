//! Shared helpers of this crate's tests: a temporary folder, and blocks that look sealed.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use strongroom_format::limits::{SECTOR_BYTES, sealed_len};
use strongroom_format::segment::{BATCH_HEADER_BYTES, FOOTER_BYTES, SEALED_LENGTHS_BYTES};
use strongroom_format::{BlockId, Epoch, Kind, SealedBlock, SegmentId, SuiteId};

use crate::{
    Appended, Batch, BatchTail, DirectIo, Recovery, Result, SegmentStore, StoreOptions, Transfer,
    name,
};

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

/// `label` with bytes that look sealed in front, so that with `beside` others they fill whole sectors.
fn filled(label: &[u8], beside: usize) -> Vec<u8> {
    let end = beside + label.len().max(SEALED_LENGTHS_BYTES);
    let mut bytes = vec![0x5a; end.next_multiple_of(SECTOR_BYTES) - beside];
    let start = bytes.len() - label.len();
    bytes[start..].copy_from_slice(label);
    bytes
}

/// What follows blocks of `blocks_len` bytes and ends with `label`, which stands for an index.
pub(crate) fn tail(label: &[u8], blocks_len: usize) -> Vec<u8> {
    filled(label, BATCH_HEADER_BYTES + blocks_len)
}

impl SegmentStore {
    /// Appends with a tail that ends with `label`.
    pub(crate) fn put(
        &self,
        epoch: Epoch,
        blocks: &[&SealedBlock],
        label: &[u8],
    ) -> Result<Appended> {
        let bytes = tail(label, blocks.iter().map(|block| block.bytes.len()).sum());
        let tail = BatchTail {
            bytes: &bytes,
            index_len: label.len(),
        };
        self.append(epoch, self.batch_of(blocks, bytes.len())?, tail)
    }

    /// The same of a batch.
    pub(crate) fn put_batch(&self, epoch: Epoch, batch: Batch, label: &[u8]) -> Result<Appended> {
        let bytes = tail(label, batch.blocks_len());
        let tail = BatchTail {
            bytes: &bytes,
            index_len: label.len(),
        };
        self.append(epoch, batch, tail)
    }

    /// Finishes with contents that end with `label`.
    pub(crate) fn end(&self, id: SegmentId, label: &[u8]) -> Result<u64> {
        self.finish(id, &filled(label, FOOTER_BYTES))
    }

    /// Recovers without keys.
    pub(crate) fn take_up(&self, id: SegmentId, committed_len: u64) -> Result<Recovery> {
        self.recover_open(id, committed_len, &|_, _| None)
    }
}

/// The ends of the tails of `scanned`, as long as `labels`.
pub(crate) fn ends<'a>(scanned: &'a crate::Scanned, labels: &[&[u8]]) -> Vec<&'a [u8]> {
    assert_eq!(scanned.batches.len(), labels.len());
    let end = |(batch, label): (&'a crate::ScannedBatch, &&[u8])| {
        &batch.sealed_lengths[SEALED_LENGTHS_BYTES - label.len()..]
    };
    scanned.batches.iter().zip(labels).map(end).collect()
}
