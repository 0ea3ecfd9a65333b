//! The operations with which revisions are taken and freed: barriers, transactions and blocks of trees.
//!
//! Takes   the shared state of an open file system
//! Gives   moments at which everything is committed; changes of rows; stored and opened blocks
//! Never   knows the form of a tree
//! Spec    spec/6-history.md
//!
//! Invariants
//!  (1) A barrier commits everything acknowledged before it, and blocks all mutations until it ends.

use strongroom_crypto::{BlockSealer, OpenError};
use strongroom_format::{BlockId, Epoch, Kind, SealedBlock, SegmentId};
use strongroom_history::{self as history, Blocks};
use strongroom_metadata::{Block, BlockNumber, Place, Reader, Transaction};
use strongroom_segments::{Part, SealedBytes, SegmentStore};

use crate::blocks::away::bring_back;
use crate::blocks::equal_blocks::number_of;
use crate::blocks::moving::part_of;
use crate::blocks::place::Placement;
use crate::commit::commits::{barrier, commit_all, commit_if_large};
use crate::core::Core;
use crate::core::sealers::Sealing;
use crate::drain::drains::drain_all;
use crate::{Error, Filesystem, LOST_SEGMENT, Result};

/// How often a block is looked up again because it was moved meanwhile.
const ATTEMPTS: usize = 4;

/// The file system, as its history sees it.
#[derive(Clone, Copy, Debug)]
pub struct Engine<'a> {
    core: &'a Core,
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
#[derive(Debug)]
pub struct HeldBlocks<'a> {
    core: &'a Core,
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

    /// Brings the file of a segment back that is away; gives whether it was.
    ///
    /// # Errors
    /// `OnlyAtRemote`, `LostAtRemote`, `NoSpace`; of the stores.
    pub fn bring_back(&self, id: SegmentId) -> Result<bool> {
        bring_back(self.core, id)
    }

    /// What seals now.
    #[must_use]
    pub fn sealer(&self) -> BlockSealer {
        self.core.blocks.sealers.newest()
    }

    /// A connection that reads what was committed.
    ///
    /// # Errors
    /// Of the store.
    pub fn reader(&self) -> Result<Reader<'a>> {
        Ok(self.core.store.reader()?)
    }

    /// The whole content of the block of that name, fully proven, as the disk has it now; `None` if there is none. Whether it
    /// was compressed its row says, not `kind`.
    ///
    /// # Errors
    /// `DamagedHistory` if it does not open.
    pub fn open(&self, kind: Kind, id: &BlockId) -> Result<Option<Vec<u8>>> {
        for _ in 0..ATTEMPTS {
            match self.open_once(kind, id, SegmentStore::read_many)? {
                Opened::Moved => {}
                Opened::Whole(clear) => return Ok(Some(clear)),
                Opened::Nowhere => return Ok(None),
                Opened::Damaged(number) => {
                    self.core.blocks.suspect_block(number);
                    break;
                }
            }
        }
        Err(Error::DamagedHistory)
    }

    /// The same for a block whose neighbours are wanted next: they are fetched with it, or it was fetched with one of them.
    /// Only the disk itself says that a block is damaged.
    pub(crate) fn open_near(&self, kind: Kind, id: &BlockId) -> Result<Option<Vec<u8>>> {
        match self.open_once(kind, id, SegmentStore::read_near)? {
            Opened::Whole(clear) => Ok(Some(clear)),
            Opened::Nowhere => Ok(None),
            Opened::Moved | Opened::Damaged(_) => self.open(kind, id),
        }
    }

    fn open_once(
        &self,
        kind: Kind,
        id: &BlockId,
        read: impl FnOnce(&SegmentStore, &[Part]) -> Vec<strongroom_segments::Result<SealedBytes>>,
    ) -> Result<Opened> {
        let Some((block, sealed)) = self.find(id)? else {
            return Ok(Opened::Nowhere);
        };
        let clear_len = block.clear_len as usize;
        let sealer = self.core.blocks.sealers.newest();
        let open = |bytes: &[u8]| sealer.open(block.epoch, block.kind, id, clear_len, bytes);
        let opened = match sealed {
            Sealed::Carried(bytes) => open(&bytes),
            Sealed::At(part) => match read(&self.core.blocks.segments, &[part]).pop() {
                Some(Ok(bytes)) => open(&bytes),
                Some(Err(strongroom_segments::Error::Missing(_))) => return Ok(Opened::Moved),
                // That says nothing about the block.
                Some(Err(error)) if error.is_shortage() => return Err(error.into()),
                _ => return Ok(Opened::Damaged(block.number)),
            },
        };
        Ok(match opened {
            // A row that says another kind than whoever names the block is damage.
            Ok(clear) if block.kind.plain() == kind.plain() => Opened::Whole(clear),
            // It was sealed again since it was looked up, and the old keys are gone.
            Err(OpenError::UnknownEpoch { .. }) => Opened::Moved,
            _ => Opened::Damaged(block.number),
        })
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
        core.durability.check()?;
        let done = work(&mut writer);
        if done.is_err() {
            core.durability.fail();
        }
        if writer.is_dirty() {
            core.changed();
        }
        done
    }

    /// Stores blocks of trees, all of them sealed under `epoch`, in one transaction. A new one takes a reference of each block
    /// that `names` has for it, and has none itself; an equal one that is there counts what it names already, but for one that was lost
    /// before anybody knew that it was a node: it does so from now on.
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
        let sealing = core.blocks.sealers.sealing();
        let blocks = under_newest_epoch(&sealing, epoch, blocks)?;
        let mut placement = Placement::appended(core, &sealing, blocks)?;
        let mut writer = core.store.lock();
        core.durability.check()?;
        let mut install = || -> Result<()> {
            placement.note_segments(core, &mut writer)?;
            let has_lost = writer.segment_by_id(&LOST_SEGMENT)?.is_some();
            for (index, placed) in placement.take_blocks().enumerate() {
                let is_node = has_lost && !placed.kind.is_data();
                let was_content = is_node && is_content(&writer, &placed.id)?;
                // A row without references, unless an equal block has one.
                let (_, is_new) = number_of(core, &mut writer, &placed, 0)?;
                let is_found_out = was_content && !is_content(&writer, &placed.id)?;
                if !is_new && !is_found_out {
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
        let done = core.durability.fail_on_error(install());
        core.changed();
        done
    }

    /// (1)
    pub(crate) fn barrier<S, T, E: From<Error>>(
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
        let _alone = barrier(core)?;
        core.durability.check()?;
        let worked = {
            let mut writer = core.store.lock();
            let worked = work(&mut writer);
            if worked.is_err() {
                core.durability.fail();
            }
            core.changed();
            worked?
        };
        self.commit()?;
        Ok((worked, then()?))
    }

    /// Commits what was changed, durably.
    ///
    /// # Errors
    /// As `Filesystem::sync`.
    pub fn commit(&self) -> Result<()> {
        commit_all(self.core)
    }

    /// Commits if the open transaction has grown to its bound.
    pub(crate) fn commit_if_large(&self) -> Result<()> {
        commit_if_large(self.core)
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

/// Whether a block has a row, and that says that it is of content.
fn is_content(writer: &Transaction<'_>, id: &BlockId) -> Result<bool> {
    let Some(number) = writer.block_by_id(id)? else {
        return Ok(false);
    };
    let block = writer.block(number)?;
    Ok(block.is_some_and(|block| block.kind.is_data()))
}

/// What came of opening a block.
enum Opened {
    Whole(Vec<u8>),
    /// No block has that name.
    Nowhere,
    /// It is elsewhere since it was looked up.
    Moved,
    Damaged(BlockNumber),
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
