//! What a history of kept states needs of the file system, and what the file system asks of one.
//!
//! Takes   a history that the vault joins
//! Gives   barriers, transactions and blocks to it; its nodes to callers, its counts to the check
//! Never   knows what a kept tree looks like
//! Spec    spec/6-history.md
//!
//! Invariants
//!  (1) A barrier is a commit of everything acknowledged before; nothing else happens until it has passed.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use strongroom_crypto::{BlockSealer, OpenError};
use strongroom_format::{BlockId, Epoch, Kind, Location, SealedBlock};
use strongroom_metadata::{BlockNumber, InodeId, Place, Reader, Transaction};
use strongroom_segments::Part;

use crate::blocks::equal_blocks::replace_unproven;
use crate::blocks::place::{Placed, Placement};
use crate::core::Core;
use crate::drain::drain_all;
use crate::limits::DIRTY_PAGES_MAX;
use crate::upkeep::epoch::Sealing;
use crate::{Attributes, Error, Filesystem, KeptExtent, ListedEntry, Listing, Result};

/// How often a block is looked up anew because it was moved meanwhile.
const ATTEMPTS: usize = 4;

/// Steps of giving back between two looks at other work.
const STEPS_AT_ONCE: usize = 32;

/// A history of kept states, as the file system sees it.
pub trait History: Send + Sync {
    /// Gives back a bounded part of what nothing names any more; gives whether more is left.
    ///
    /// # Errors
    /// Of the stores.
    fn give_back(&self, engine: Engine<'_>) -> Result<bool>;

    /// How often kept trees name each block, and how many of their blocks cannot be read.
    ///
    /// # Errors
    /// Of the stores.
    fn references(
        &self,
        engine: Engine<'_>,
        reader: &Reader<'_>,
    ) -> Result<(HashMap<BlockNumber, u32>, u64)>;

    // ---- nodes of kept states: their numbers have the top bit set

    /// The directory of kept states; takes a reference.
    ///
    /// # Errors
    /// Of the stores.
    fn top(&self, engine: Engine<'_>) -> Result<Attributes>;

    /// Finds `name` in `parent`; takes a reference.
    ///
    /// # Errors
    /// `NotFound`, `Stale`; of the stores.
    fn lookup(&self, engine: Engine<'_>, parent: InodeId, name: &[u8]) -> Result<Attributes>;

    /// What `stat` tells of a node that somebody refers to.
    ///
    /// # Errors
    /// `Stale`.
    fn attributes(&self, engine: Engine<'_>, inode: InodeId) -> Result<Attributes>;

    /// The directory that holds a directory.
    ///
    /// # Errors
    /// `Stale`, `NotADirectory`.
    fn parent(&self, inode: InodeId) -> Result<InodeId>;

    /// Entries behind a cookie, with references or attributes as `listing` asks.
    ///
    /// # Errors
    /// `Stale`, `NotADirectory`; of the stores.
    fn list(
        &self,
        engine: Engine<'_>,
        inode: InodeId,
        after: u64,
        limit: usize,
        listing: Listing,
    ) -> Result<Vec<ListedEntry>>;

    /// The target of a symlink.
    ///
    /// # Errors
    /// `Stale`, `InvalidArgument`.
    fn read_link(&self, inode: InodeId) -> Result<Vec<u8>>;

    /// Names and values of extended attributes.
    ///
    /// # Errors
    /// `Stale`; of the stores.
    fn xattrs(&self, engine: Engine<'_>, inode: InodeId) -> Result<Vec<(Vec<u8>, Vec<u8>)>>;

    /// Up to `limit` extents of a file that touch `from..to`, in order.
    ///
    /// # Errors
    /// `Stale`; of the stores.
    fn extents(
        &self,
        engine: Engine<'_>,
        inode: InodeId,
        from: u64,
        to: u64,
        limit: usize,
    ) -> Result<Vec<KeptExtent>>;

    /// Takes one more reference.
    fn retain(&self, inode: InodeId);

    /// Gives references back.
    fn forget(&self, inode: InodeId, count: u64);
}

/// The file system, as a history sees it.
#[derive(Clone, Copy)]
pub struct Engine<'a> {
    core: &'a Core,
}

impl std::fmt::Debug for Engine<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Engine").finish_non_exhaustive()
    }
}

impl Filesystem {
    /// Joins a history. Once; later ones are not taken.
    pub fn attach_history(&self, history: Arc<dyn History>) {
        // A second one would be a mistake of the joining code, and has no effect.
        let _ = self.core.history.set(history);
    }

    /// What a history works with.
    #[must_use]
    pub fn engine(&self) -> Engine<'_> {
        Engine { core: &self.core }
    }
}

/// Lets the history give back what nothing names any more, for a while; gives whether more is left.
pub(crate) fn give_back(core: &Core) -> Result<bool> {
    let Some(history) = core.history.get() else {
        return Ok(false);
    };
    for _ in 0..STEPS_AT_ONCE {
        if !history.give_back(Engine { core })? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Lets the history give back all that nothing names any more.
pub(crate) fn give_all_back(core: &Core) -> Result<()> {
    let Some(history) = core.history.get() else {
        return Ok(());
    };
    while history.give_back(Engine { core })? {}
    Ok(())
}

/// Keeps every block where it is counted until it is dropped.
pub struct Held<'a> {
    core: &'a Core,
}

impl std::fmt::Debug for Held<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Held").finish_non_exhaustive()
    }
}

/// Holds the blocks: what a snapshot of the rows names can be read as long as this is kept.
pub(crate) fn hold(core: &Core) -> Held<'_> {
    core.store.lock().hold();
    Held { core }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.core.store.lock().let_go();
    }
}

/// What the history counts, for the check.
pub(crate) fn references(
    core: &Core,
    reader: &Reader<'_>,
) -> Result<(HashMap<BlockNumber, u32>, u64)> {
    match core.history.get() {
        Some(history) => history.references(Engine { core }, reader),
        None => Ok((HashMap::new(), 0)),
    }
}

impl<'a> Engine<'a> {
    pub(crate) fn of(core: &'a Core) -> Self {
        Self { core }
    }

    pub(crate) const fn core(&self) -> &'a Core {
        self.core
    }

    /// Keeps every block where it is counted: what rows name that are read from now on can be read until this is dropped.
    #[must_use]
    pub fn hold(&self) -> Held<'a> {
        hold(self.core)
    }

    /// What seals now.
    #[must_use]
    pub fn sealer(&self) -> BlockSealer {
        self.core.sealers.newest()
    }

    /// A connection that reads what was committed.
    ///
    /// # Errors
    /// Of the store.
    pub fn reader(&self) -> Result<Reader<'a>> {
        Ok(self.core.store.reader()?)
    }

    /// The whole content of the block of that name, fully proven; `None` if there is none. Whether it was compressed its
    /// row says, not `kind`.
    ///
    /// # Errors
    /// `DamagedHistory` if it does not open.
    pub fn open(&self, kind: Kind, id: &BlockId) -> Result<Option<Vec<u8>>> {
        for _ in 0..ATTEMPTS {
            let Some(found) = self.find(id)? else {
                return Ok(None);
            };
            let (block, sealed) = found;
            let bytes = match sealed {
                Sealed::Waiting(bytes) => bytes,
                Sealed::At(location) => {
                    let part = Part {
                        location,
                        range: 0..location.len,
                    };
                    match self.core.segments.read_many(&[part]).pop() {
                        Some(Ok(bytes)) => bytes.as_ref().to_vec(),
                        // It was moved since it was looked up.
                        Some(Err(strongroom_segments::Error::Missing(_))) => continue,
                        // That says nothing about the block.
                        Some(Err(error)) if error.is_shortage() => return Err(error.into()),
                        _ => break,
                    }
                }
            };
            let clear_len = block.clear_len as usize;
            let sealer = self.core.sealers.newest();
            match sealer.open(block.epoch, block.kind, id, clear_len, &bytes) {
                // A row that says another kind than whoever names the block is damage.
                Ok(_) if block.kind.plain() != kind.plain() => {}
                Ok(clear) => return Ok(Some(clear)),
                // It was sealed anew since it was looked up, and the old keys are gone.
                Err(OpenError::UnknownEpoch { .. }) => continue,
                Err(_) => {}
            }
            self.core.space.suspect_block(block.number);
            break;
        }
        Err(Error::DamagedHistory)
    }

    fn find(&self, id: &BlockId) -> Result<Option<(strongroom_metadata::Block, Sealed)>> {
        let writer = self.core.store.lock();
        let Some(number) = writer.block_by_id(id)? else {
            return Ok(None);
        };
        let block = writer.block(number)?.ok_or(Error::DamagedHistory)?;
        let sealed = match block.place {
            Place::Waiting => {
                Sealed::Waiting(writer.waiting(number)?.ok_or(Error::DamagedHistory)?)
            }
            Place::Segment(segment, offset) => {
                let row = writer.segment(segment)?.ok_or(Error::DamagedHistory)?;
                let len = strongroom_format::limits::sealed_len(block.clear_len as usize);
                Sealed::At(Location {
                    segment: row.id,
                    offset,
                    len: u32::try_from(len).map_err(|_| Error::DamagedHistory)?,
                })
            }
        };
        Ok(Some((block, sealed)))
    }

    /// Runs `work` in the open transaction, as a mutation. After an error nothing of this run is committed any more.
    ///
    /// # Errors
    /// Those of `work`; `ReadOnly`, `Failed`.
    pub fn change<T, E: From<Error>>(
        &self,
        work: impl FnOnce(&mut Transaction<'_>) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let core = self.core;
        let _gate = core.mutate()?;
        let mut writer = core.store.lock();
        if core.failed.load(Ordering::Acquire) {
            return Err(Error::Failed.into());
        }
        let done = work(&mut writer);
        if done.is_err() {
            core.failed.store(true, Ordering::Release);
        }
        if writer.is_dirty() {
            core.changed();
        }
        done
    }

    /// Stores blocks of trees, all of them sealed under `epoch`, and runs `note` for each in one transaction, in order:
    /// with its index, its number, and whether it is new. A new one has no references.
    ///
    /// # Errors
    /// Those of the disk, then nothing is noted; those of `note`.
    pub fn store<E: From<Error>>(
        &self,
        epoch: Epoch,
        blocks: Vec<SealedBlock>,
        mut note: impl FnMut(
            &mut Transaction<'_>,
            usize,
            BlockNumber,
            bool,
        ) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let core = self.core;
        let _gate = core.mutate()?;
        let sealing = core.sealers.sealing();
        let blocks = under_newest_epoch(&sealing, epoch, blocks)?;
        let mut placement = Placement::appended(core, &sealing, blocks)?;
        let mut writer = core.store.lock();
        if core.failed.load(Ordering::Acquire) {
            return Err(Error::Failed.into());
        }
        let mut install = || -> std::result::Result<(), E> {
            placement.note_segments(core, &mut writer)?;
            for (index, placed) in placement.take_blocks().enumerate() {
                let (number, is_new) = row_of(core, &mut writer, &placed)?;
                note(&mut writer, index, number, is_new)?;
            }
            Ok(())
        };
        let done = install();
        if done.is_err() {
            core.failed.store(true, Ordering::Release);
        }
        core.changed();
        done
    }

    /// (1)
    ///
    /// # Errors
    /// Those of both, and of committing.
    pub fn barrier<S, T, E: From<Error>>(
        &self,
        work: impl FnOnce(&mut Transaction<'_>) -> std::result::Result<S, E>,
        then: impl FnOnce() -> std::result::Result<T, E>,
    ) -> std::result::Result<(S, T), E> {
        let core = self.core;
        if core.options.read_only {
            return Err(Error::ReadOnly.into());
        }
        // Most is drained and made durable while others go on; what is left for the barrier is small.
        drain_all(core)?;
        self.commit()?;
        let _gate = core.gate.write();
        if core.failed.load(Ordering::Acquire) {
            return Err(Error::Failed.into());
        }
        drain_all(core)?;
        let worked = {
            let mut writer = core.store.lock();
            let worked = work(&mut writer);
            if worked.is_err() {
                core.failed.store(true, Ordering::Release);
            }
            core.changed();
            worked?
        };
        self.commit()?;
        Ok((worked, then()?))
    }

    /// Moves the blocks that travel in the database, up to `last`, to a segment: what a revision names must not be lost
    /// with the database.
    ///
    /// # Errors
    /// Of the stores.
    pub fn settle(&self, last: BlockNumber) -> Result<()> {
        crate::upkeep::space::settle_until(self.core, last)
    }

    /// Commits what was changed, durably.
    ///
    /// # Errors
    /// As `Filesystem::sync`.
    pub fn commit(&self) -> Result<()> {
        let target = self.core.changes.load(Ordering::Acquire);
        crate::commit::commit_covering(self.core, target)
    }

    /// Commits if the open transaction has grown to its bound.
    ///
    /// # Errors
    /// As `commit`.
    pub fn commit_if_large(&self) -> Result<()> {
        if self.core.store.dirty_pages() > DIRTY_PAGES_MAX {
            return self.commit();
        }
        Ok(())
    }

    /// Now, by the clock of the file system.
    #[must_use]
    pub fn now(&self) -> crate::Timestamp {
        self.core.now()
    }

    /// Seals a record; gives it with the epoch of its keys.
    ///
    /// # Errors
    /// `Random`.
    pub fn seal_record(&self, kind: Kind, clear: &[u8]) -> Result<(Epoch, Vec<u8>)> {
        let sealer = self.sealer();
        let record = sealer.seal_record(self.core.random.as_ref(), kind, clear)?;
        Ok((sealer.epoch(), record))
    }
}

/// Where the sealed bytes of a block are.
enum Sealed {
    Waiting(Vec<u8>),
    At(Location),
}

/// `blocks`, sealed again under their names if their keys are the newest no more: a segment has one epoch.
fn under_newest_epoch(
    sealing: &Sealing<'_>,
    epoch: Epoch,
    blocks: Vec<SealedBlock>,
) -> Result<Vec<SealedBlock>> {
    if epoch == sealing.epoch() {
        return Ok(blocks);
    }
    let again = blocks.into_iter().map(|block| {
        let clear_len = block.clear_len as usize;
        let clear = sealing.open_exactly(epoch, block.kind, &block.id, clear_len, &block.bytes);
        let clear = clear.map_err(|_| Error::DamagedHistory)?;
        Ok(sealing.seal_exactly(block.kind, &clear))
    });
    again.collect()
}

/// The row of a block of a tree: that of an equal block, or a new one without references.
fn row_of(
    core: &Core,
    writer: &mut Transaction<'_>,
    placed: &Placed,
) -> Result<(BlockNumber, bool)> {
    if let Some(number) = writer.block_by_id(&placed.id)? {
        replace_unproven(core, writer, number, placed)?;
        return Ok((number, false));
    }
    let (place, waiting) = placed.row();
    let number = writer.insert_block_of(
        placed.kind,
        &placed.id,
        placed.clear_len,
        placed.epoch,
        0,
        place,
        waiting,
    )?;
    Ok((number, true))
}
