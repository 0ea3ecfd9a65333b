//! The trait through which the history gets opened blocks from the file system above it.

use strongroom_format::{BlockId, Kind};

use crate::error::Error;

/// Blocks of trees, of which some may be lost.
pub trait Blocks {
    /// Why nothing could be said about a block.
    type Error: From<Error> + From<strongroom_metadata::Error>;

    /// The content of the block of that name, fully proven; `None` if it is lost.
    ///
    /// # Errors
    /// Those of the stores. Whether damage is one of them the implementation says.
    fn open(&self, kind: Kind, id: &BlockId) -> Result<Option<Vec<u8>>, Self::Error>;

    /// The same for a block that has to be there.
    ///
    /// # Errors
    /// As `open`; `Error::MissingBlock`.
    fn need(&self, kind: Kind, id: &BlockId) -> Result<Vec<u8>, Self::Error> {
        let opened = self.open(kind, id)?;
        Ok(opened.ok_or(Error::MissingBlock)?)
    }
}
