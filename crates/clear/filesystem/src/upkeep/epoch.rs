//! Which keys seal: those of the newest epoch, which may begin while everybody works.
//!
//! Takes   the sealer of a new epoch, which knows the keys of all earlier ones too
//! Gives   one sealer for each piece of work, from the sealing of its blocks until their rows are written
//! Never   seals anything under an older epoch once `begin_epoch` has returned
//!
//! Invariants
//!  (1) What is sealed, the segment that it goes to and the rows about it are of one epoch: all three come from one
//!      `Sealing`.
//!  (2) No epoch begins while a `Sealing` is held. One thread holds one at a time.
//!  (3) A segment that the new epoch finds unfinished is ended under its own.                            [3.8]

use std::ops::Deref;
use std::sync::atomic::Ordering;

use parking_lot::{RwLock, RwLockReadGuard};
use strongroom_crypto::{BlockSealer, Compression};
use strongroom_format::SegmentId;

use crate::commit::commit_covering;
use crate::core::{Core, Work};
use crate::upkeep::space::{end_segment, note_finished};
use crate::{Filesystem, Result};

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
        let _alone = self.working.write();
        self.put(sealer);
    }

    /// Puts `sealer` in place of the one of now, which it gives; whether content is compressed stays.
    fn put(&self, sealer: BlockSealer) -> BlockSealer {
        let mut newest = self.newest.write();
        let compression = newest.compression();
        std::mem::replace(&mut newest, sealer.with_compression(compression))
    }

    /// Lets whoever begins to seal from now on compress, or not.
    pub(crate) fn compress(&self, compression: Compression) {
        let mut newest = self.newest.write();
        *newest = newest.clone().with_compression(compression);
    }

    /// To seal with. Where this stands in the order of locks says `core.rs`.
    pub(crate) fn sealing(&self) -> Sealing<'_> {
        let working = self.working.read();
        Sealing {
            sealer: self.newest(),
            _working: working,
        }
    }
}

impl Filesystem {
    /// Seals with `sealer` from now on: nothing is sealed under an older epoch after the return.
    ///
    /// `sealer`: knows every epoch that this file system has blocks of, and its newest is not older than the one in
    /// use. Waits for those who seal at this moment, and for the end of the open segment.
    ///
    /// # Errors
    /// The new epoch has begun nevertheless; what could not be finished is finished later.
    pub fn begin_epoch(&self, sealer: BlockSealer) -> Result<()> {
        let core = &self.core;
        let mut ended = Vec::new();
        {
            let _alone = core.sealers.working.write(); // (2)
            let older = core.sealers.put(sealer);
            if !core.options.read_only {
                let _doing = core.options.doing(Work::Rollover);
                for id in unfinished(core) {
                    // One that cannot be ended now, as on a full disk, is ended later, without contents.
                    if let Ok(Some(sequence)) = end_segment(core, &older, id) {
                        ended.push((id, sequence));
                    }
                }
            }
        }
        let noted = ended
            .into_iter()
            .try_for_each(|(id, sequence)| note_finished(core, id, sequence));
        if core.options.read_only {
            return noted;
        }
        noted.and(crate::commit::intents::end_older(
            core,
            core.sealers.newest().epoch(),
        ))
    }

    /// Whether anything can be changed now.
    ///
    /// # Errors
    /// `ReadOnly`, or `Failed` after a sync or commit that failed.
    pub fn check_writable(&self) -> Result<()> {
        self.core.mutate().map(drop)
    }

    /// A fact that `keep_setting` kept.
    ///
    /// # Errors
    /// Of the store.
    pub fn setting(&self, name: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.core.store.lock().setting(name)?)
    }

    /// Keeps a fact of the vault's in the metadata; durable on return, with all that was acknowledged before.
    ///
    /// # Errors
    /// `ReadOnly`, `Failed`, or of the stores.
    pub fn keep_setting(&self, name: &str, value: &[u8]) -> Result<()> {
        let core = &self.core;
        {
            let _gate = core.mutate()?;
            core.store.lock().put_setting(name, value)?;
            core.changed();
        }
        commit_covering(core, core.changes.load(Ordering::Acquire))
    }
}

/// Segments that are of the epoch in use and have no end yet.
fn unfinished(core: &Core) -> Vec<SegmentId> {
    let mut segments: Vec<_> = core.space.contents.lock().keys().copied().collect();
    let open = core.segments.open_segment();
    segments.extend(open.filter(|open| !segments.contains(open)));
    segments
}
