//! What the history asks of the file system below it.

use strongroom_crypto::BlockSealer;
use strongroom_format::{BlockId, Epoch, Kind, SealedBlock};
use strongroom_metadata::{BlockNumber, Reader, Transaction};

use crate::error::Error;

/// The file system below, as the history needs it. The vault joins the two.
pub trait Engine {
    /// Why something failed.
    type Error: From<Error> + From<strongroom_metadata::Error>;

    /// What seals and names nodes now.
    fn sealer(&self) -> BlockSealer;

    /// The content of the block of that name, fully proven.
    ///
    /// # Errors
    /// `Error::MissingBlock` if there is none, `Error::Damaged` if it does not open.
    fn open(&self, kind: Kind, id: &BlockId) -> Result<Vec<u8>, Self::Error>;

    /// A connection that reads what was committed.
    ///
    /// # Errors
    /// The store's.
    fn reader(&self) -> Result<Reader<'_>, Self::Error>;

    /// Runs `work` in the open transaction, as a change of its own. After an error nothing of this run is committed
    /// any more: `work` must not begin what it may refuse.
    ///
    /// # Errors
    /// Those of `work`.
    fn change<T>(
        &self,
        work: impl FnOnce(&mut Transaction<'_>) -> Result<T, Self::Error>,
    ) -> Result<T, Self::Error>;

    /// Stores `blocks`, sealed under `epoch`, each at a place of its own, and runs `note` for each in the same transaction, in order, with
    /// its number and whether it is new. A new block has no references.
    ///
    /// # Errors
    /// Those of the disk; nothing is noted then.
    fn store(
        &self,
        epoch: Epoch,
        blocks: Vec<SealedBlock>,
        note: impl FnMut(&mut Transaction<'_>, usize, BlockNumber, bool) -> Result<(), Self::Error>,
    ) -> Result<(), Self::Error>;

    /// Stands at a moment: everything acknowledged before is committed together with `work`, nothing else happens
    /// until `then` has returned.
    ///
    /// # Errors
    /// Those of both, and of committing.
    fn barrier<S, T>(
        &self,
        work: impl FnOnce(&mut Transaction<'_>) -> Result<S, Self::Error>,
        then: impl FnOnce() -> Result<T, Self::Error>,
    ) -> Result<(S, T), Self::Error>;

    /// Moves the blocks that the database carries, up to `last`, to where they do not need it.
    ///
    /// # Errors
    /// The disk's.
    fn settle(&self, last: BlockNumber) -> Result<(), Self::Error>;

    /// Commits what was changed, durably.
    ///
    /// # Errors
    /// The disk's.
    fn commit(&self) -> Result<(), Self::Error>;

    /// Commits if the open transaction has grown to its bound.
    ///
    /// # Errors
    /// The disk's.
    fn commit_if_large(&self) -> Result<(), Self::Error>;
}
