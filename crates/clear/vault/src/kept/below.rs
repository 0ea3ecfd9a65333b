//! What a history stands on: the file system's engine, with the nodes of trees that were opened lately.
//!
//! Takes   an engine and a cache of blocks
//! Gives   what crate `history` asks of the file system below it
//! Never   knows a revision

use std::sync::Arc;

use strongroom_crypto::BlockSealer;
use strongroom_filesystem as filesystem;
use strongroom_format::{BlockId, Epoch, Kind, SealedBlock};
use strongroom_history::{self as history, Engine};
use strongroom_metadata::{BlockNumber, Reader, Transaction};

use crate::kept::nodes::BlockCache;
use crate::{Error, Result};

/// Longer blocks of trees are values, and opened each time.
const CACHED_BYTES_MAX: usize = 16 * 1024;

/// The file system below a history, and the nodes of trees that were opened lately.
#[derive(Clone, Copy)]
pub(crate) struct Below<'a>(pub(crate) filesystem::Engine<'a>, pub(crate) &'a BlockCache);

impl Engine for Below<'_> {
    type Error = Error;

    fn sealer(&self) -> BlockSealer {
        self.0.sealer()
    }

    fn open(&self, kind: Kind, id: &BlockId) -> Result<Vec<u8>> {
        if let Some(known) = self.1.lock().get(id) {
            return Ok(known.as_ref().clone());
        }
        let opened = self.0.open(kind, id)?;
        let opened = opened.ok_or(history::Error::MissingBlock)?;
        if opened.len() <= CACHED_BYTES_MAX {
            self.1.lock().put(*id, Arc::new(opened.clone()));
        }
        Ok(opened)
    }

    fn reader(&self) -> Result<Reader<'_>> {
        Ok(self.0.reader()?)
    }

    fn change<T>(&self, work: impl FnOnce(&mut Transaction<'_>) -> Result<T>) -> Result<T> {
        self.0.change(work)
    }

    fn store(
        &self,
        epoch: Epoch,
        blocks: Vec<SealedBlock>,
        note: impl FnMut(&mut Transaction<'_>, usize, BlockNumber, bool) -> Result<()>,
    ) -> Result<()> {
        self.0.store(epoch, blocks, note)
    }

    fn barrier<S, T>(
        &self,
        work: impl FnOnce(&mut Transaction<'_>) -> Result<S>,
        then: impl FnOnce() -> Result<T>,
    ) -> Result<(S, T)> {
        self.0.barrier(work, then)
    }

    fn settle(&self, last: BlockNumber) -> Result<()> {
        Ok(self.0.settle(last)?)
    }

    fn commit(&self) -> Result<()> {
        Ok(self.0.commit()?)
    }

    fn commit_if_large(&self) -> Result<()> {
        Ok(self.0.commit_if_large()?)
    }
}

/// An error as the file system has it.
pub(crate) fn below(error: Error) -> filesystem::Error {
    match error {
        Error::File(error) => error,
        _ => filesystem::Error::DamagedHistory,
    }
}
