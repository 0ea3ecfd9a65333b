//! Whether new content is compressed before it is sealed.
//!
//! Takes   a choice
//! Gives   the same choice at every later opening; sealers that carry it out
//! Never   touches what is sealed already
//! Spec    spec/4-metadata.md, 4.6

use std::sync::atomic::Ordering;

use strongroom_crypto::{BlockSealer, Compression};
use strongroom_metadata::Reads;

use crate::core::Core;
use crate::{Error, Filesystem, Result};

/// The setting that holds the choice: its name; no bytes for none.
const COMPRESSION: &str = "compression";

/// `sealer` with the choice that the last run left.
///
/// # Errors
/// Of the store; damage if the setting is not as written.
pub(crate) fn resume(reads: &Reads, sealer: BlockSealer) -> Result<BlockSealer> {
    let value = reads.setting(COMPRESSION)?.unwrap_or_default();
    if value.is_empty() {
        return Ok(sealer);
    }
    let name = std::str::from_utf8(&value).ok();
    match name.and_then(Compression::of_name) {
        Some(compression) => Ok(sealer.with_compression(compression)),
        None => Err(Error::Metadata(strongroom_metadata::Error::Damaged(
            "the compression is not as written",
        ))),
    }
}

impl Core {
    /// Takes a new choice into the transaction and into memory, in one step.
    fn put_compression(&self, compression: Compression) -> Result<u64> {
        let _gate = self.mutate()?;
        let mut writer = self.store.lock();
        writer.put_setting(COMPRESSION, compression.name().as_bytes())?;
        self.sealers.compress(compression);
        self.changed();
        Ok(self.changes.load(Ordering::Acquire))
    }
}

impl Filesystem {
    /// Whether new content and new nodes of trees are compressed.
    #[must_use]
    pub fn compression(&self) -> Compression {
        self.core.sealers.newest().compression()
    }

    /// Compresses new content and new nodes of trees from now on, or stops to, for this and every later opening; durable
    /// on return. What is sealed already stays as it is.
    ///
    /// # Errors
    /// `ReadOnly`; of the store.
    pub fn set_compression(&self, compression: Compression) -> Result<()> {
        let covered = self.core.put_compression(compression)?;
        crate::commit::commit_covering(&self.core, covered)
    }
}
