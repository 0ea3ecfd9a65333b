//! Caches of revisions and their trees.
//!
//! Takes   the keys that sign and prove revisions
//! Gives   proven revisions, opened blocks of trees, and the nodes of snapshots in use
//! Never   reads the store
//!
//! Invariants
//!  (1) One revision is taken or removed at a time.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;
use parking_lot::Mutex;
use strongroom_crypto::RevisionSigner;
use strongroom_format::BlockId;
use strongroom_history::{self as history, Revision};

use crate::Result;
use crate::core::snapshot_nodes::SnapshotNodes;

/// Blocks that are kept open.
const CACHED_BLOCKS: NonZeroUsize = NonZeroUsize::new(512).expect("512 is not 0");

/// Opened blocks of trees, by name.
pub(crate) struct BlockCache(pub(crate) Mutex<LruCache<BlockId, Arc<Vec<u8>>>>);

impl Default for BlockCache {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(CACHED_BLOCKS)))
    }
}

impl BlockCache {
    /// Forgets all of them.
    pub(crate) fn clear(&self) {
        self.0.lock().clear();
    }
}

/// How far giving back has come. In memory: the work itself is in the rows.
#[derive(Debug, Default)]
pub(crate) struct GiveBack {
    pub(crate) after: u64,
    /// Whether this pass gave something back: what that named may be released behind us.
    pub(crate) gave: bool,
}

/// The history of one open file system.
pub(crate) struct History {
    pub(crate) signer: Mutex<RevisionSigner>,
    /// (1)
    pub(crate) turn: Mutex<()>,
    pub(crate) giving_back: Mutex<GiveBack>,
    pub(crate) nodes: SnapshotNodes,
    pub(crate) blocks: BlockCache,
    /// Revisions that have proven themselves.
    pub(crate) proven: Mutex<HashMap<[u8; 32], Arc<Revision>>>,
}

impl History {
    pub(crate) fn new(signer: RevisionSigner) -> Self {
        Self {
            signer: Mutex::new(signer),
            turn: Mutex::default(),
            giving_back: Mutex::default(),
            nodes: SnapshotNodes::default(),
            blocks: BlockCache::default(),
            proven: Mutex::default(),
        }
    }

    /// The revision of a row, if it proves itself.
    pub(crate) fn prove(&self, id: &[u8; 32], body: &[u8]) -> Result<Revision> {
        let revision = Revision::decode(body, &self.signer.lock())?;
        if revision.id.0 == *id {
            Ok(revision)
        } else {
            Err(history::Error::Forged.into())
        }
    }
}
