//! What taking and giving back revisions needs of the file system: barriers, transactions and blocks of trees.
//!
//! Takes   the shared state of an open file system
//! Gives   moments at which everything is committed, changes of rows, stored and opened blocks
//! Never   knows what a tree looks like
//! Spec    spec/6-history.md
//!
//! Invariants
//!  (1) A barrier is a commit of everything acknowledged before; nothing else happens until it has passed.

use std::sync::atomic::Ordering;

use strongroom_crypto::{BlockSealer, OpenError};
use strongroom_format::{BlockId, Epoch, Kind, SealedBlock};
use strongroom_history::{self as history, Blocks};
use strongroom_metadata::{Block, BlockNumber, Place, Reader, Transaction};
use strongroom_segments::Part;

use crate::blocks::equal_blocks::replace_unproven;
use crate::blocks::place::{Placed, Placement};
use crate::core::Core;
use crate::drain::drain_all;
use crate::drain::moving::part_of;
use crate::limits::DIRTY_PAGES_MAX;
use crate::upkeep::epoch::Sealing;
use crate::{Error, Filesystem, Result};

/// How often a block is looked up again because it was moved meanwhile.
const ATTEMPTS: usize = 4;

/// The file system, as its history sees it.
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
    /// What a history works with.
    #[must_use]
    pub fn engine(&self) -> Engine<'_> {
        Engine { core: &self.core }
    }
}

impl Blocks for Engine<'_> {
    type Error = Error;

    /// From the disk, past everything that is kept in memory. Damage is a loss.
    fn open(&self, kind: Kind, id: &BlockId) -> Result<Option<Vec<u8>>> {
        match Engine::open(self, kind, id) {
            Err(Error::DamagedHistory) => Ok(None),
            opened => opened,
        }
    }
}

/// Keeps every block where it is counted until it is dropped.
pub struct HeldBlocks<'a> {
    core: &'a Core,
}

impl std::fmt::Debug for HeldBlocks<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("HeldBlocks").finish_non_exhaustive()
    }
}

/// Holds the blocks: what a snapshot of the rows names can be read as long as this is kept.
pub(crate) fn hold(core: &Core) -> HeldBlocks<'_> {
    core.store.lock().hold();
    HeldBlocks { core }
}

impl Drop for HeldBlocks<'_> {
    fn drop(&mut self) {
        self.core.store.lock().let_go();
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
    pub fn hold(&self) -> HeldBlocks<'a> {
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
            let Some((block, sealed)) = self.find(id)? else {
                return Ok(None);
            };
            let bytes = match sealed {
                Sealed::Carried(bytes) => bytes,
                Sealed::At(part) => match self.core.segments.read_many(&[part]).pop() {
                    Some(Ok(bytes)) => bytes.as_ref().to_vec(),
                    // It was moved since it was looked up.
                    Some(Err(strongroom_segments::Error::Missing(_))) => continue,
                    // That says nothing about the block.
                    Some(Err(error)) if error.is_shortage() => return Err(error.into()),
                    _ => break,
                },
            };
            let clear_len = block.clear_len as usize;
            let sealer = self.core.sealers.newest();
            match sealer.open(block.epoch, block.kind, id, clear_len, &bytes) {
                // A row that says another kind than whoever names the block is damage.
                Ok(_) if block.kind.plain() != kind.plain() => {}
                Ok(clear) => return Ok(Some(clear)),
                // It was sealed again since it was looked up, and the old keys are gone.
                Err(OpenError::UnknownEpoch { .. }) => continue,
                Err(_) => {}
            }
            self.core.space.suspect_block(block.number);
            break;
        }
        Err(Error::DamagedHistory)
    }

    fn find(&self, id: &BlockId) -> Result<Option<(Block, Sealed)>> {
        let mut writer = self.core.store.lock();
        let Some(number) = writer.block_by_id(id)? else {
            return Ok(None);
        };
        let block = writer.block(number)?.ok_or(Error::DamagedHistory)?;
        let sealed = match block.place {
            Place::Waiting => writer.waiting(number)?.map(Sealed::Carried),
            Place::Segment(segment, _) => {
                let id = writer.segment_id(segment)?;
                id.and_then(|id| part_of(id, &block)).map(Sealed::At)
            }
        };
        Ok(Some((block, sealed.ok_or(Error::DamagedHistory)?)))
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

    /// Stores blocks of trees, all of them sealed under `epoch`, in one transaction. A new one takes a reference of each block
    /// that `names` has for it, and has none itself; an equal one that is there counts what it names already.
    ///
    /// # Errors
    /// Those of the disk, then nothing is noted; `MissingBlock` if a name is of no block.
    pub fn store(
        &self,
        epoch: Epoch,
        blocks: Vec<SealedBlock>,
        names: &[Vec<BlockId>],
    ) -> Result<()> {
        let core = self.core;
        let _gate = core.mutate()?;
        let sealing = core.sealers.sealing();
        let blocks = under_newest_epoch(&sealing, epoch, blocks)?;
        let mut placement = Placement::appended(core, &sealing, blocks)?;
        let mut writer = core.store.lock();
        if core.failed.load(Ordering::Acquire) {
            return Err(Error::Failed);
        }
        let mut install = || -> Result<()> {
            placement.note_segments(core, &mut writer)?;
            for (index, placed) in placement.take_blocks().enumerate() {
                if !is_new(core, &mut writer, &placed)? {
                    continue;
                }
                for name in names.get(index).into_iter().flatten() {
                    let number = writer.block_by_id(name)?;
                    let number = number.ok_or(history::Error::MissingBlock)?;
                    writer.change_references(number, 1)?;
                }
            }
            Ok(())
        };
        let done = core.fail_on_error(install());
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
    /// In the database.
    Carried(Vec<u8>),
    At(Part),
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

/// Gives a block of a tree its row, without references, unless an equal block has one; gives whether it is new.
fn is_new(core: &Core, writer: &mut Transaction<'_>, placed: &Placed) -> Result<bool> {
    if let Some(number) = writer.block_by_id(&placed.id)? {
        replace_unproven(core, writer, number, placed)?;
        return Ok(false);
    }
    let (place, waiting) = placed.row();
    writer.insert_block_of(
        placed.kind,
        &placed.id,
        placed.clear_len,
        placed.epoch,
        0,
        place,
        waiting,
    )?;
    Ok(true)
}
