//! Chooses the keys that seal: always those of the newest epoch. A new epoch may begin during other operations.
//!
//! Takes   the sealer of a new epoch, which also has the keys of all earlier epochs
//! Gives   one sealer for each piece of work, used from the sealing of its blocks until their rows are written
//! Never   seals anything under an older epoch once `begin_epoch` has returned
//!
//! Invariants
//!  (1) Sealed blocks, their segment and their rows belong to one epoch: all three come from one `Sealing`.
//!  (2) No epoch begins while a `Sealing` is held. A thread holds at most one.

use std::ops::Deref;

use parking_lot::{RwLock, RwLockReadGuard};
use strongroom_crypto::{BlockSealer, Compression};

/// The sealer of now.
pub(crate) struct Sealers {
    newest: RwLock<BlockSealer>,
    /// Shared by those who seal; exclusive while an epoch begins.                                              (2)
    working: RwLock<()>,
}

/// A sealer to seal with, and the promise that no epoch begins until this is dropped.
pub(crate) struct Sealing<'a> {
    sealer: BlockSealer,
    _working: RwLockReadGuard<'a, ()>,
}

impl Deref for Sealing<'_> {
    type Target = BlockSealer;

    fn deref(&self) -> &BlockSealer {
        &self.sealer
    }
}

impl Sealers {
    pub(crate) fn new(sealer: BlockSealer) -> Self {
        Self {
            newest: RwLock::new(sealer),
            working: RwLock::default(),
        }
    }

    /// To open with. Waits for nobody's work.
    pub(crate) fn newest(&self) -> BlockSealer {
        self.newest.read().clone()
    }

    /// Makes `sealer` the one of now; waits for those who seal.
    pub(crate) fn replace(&self, sealer: BlockSealer) {
        self.begin_epoch(sealer, |_| ());
    }

    /// The same, and calls `alone` with the one of before while nobody seals.
    pub(crate) fn begin_epoch<T>(
        &self,
        sealer: BlockSealer,
        alone: impl FnOnce(&BlockSealer) -> T,
    ) -> T {
        let _alone = self.working.write(); // (2)
        alone(&self.put(sealer))
    }

    /// Puts `sealer` in place of the one of now, which it gives; whether content is compressed stays.
    fn put(&self, sealer: BlockSealer) -> BlockSealer {
        let mut newest = self.newest.write();
        let compression = newest.compression();
        std::mem::replace(&mut newest, sealer.with_compression(compression))
    }

    /// Lets each operation that begins to seal from now on compress, or not.
    pub(crate) fn compress(&self, compression: Compression) {
        let mut newest = self.newest.write();
        *newest = newest.clone().with_compression(compression);
    }

    /// To seal with. Its place in the order of locks is in `core.rs`.
    pub(crate) fn sealing(&self) -> Sealing<'_> {
        let working = self.working.read();
        Sealing {
            sealer: self.newest(),
            _working: working,
        }
    }
}
