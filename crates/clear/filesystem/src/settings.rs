//! The settings of a vault that its database keeps: a quota, a limit for this device, compression, and facts that the vault itself stores.
//!
//! Takes   a setting
//! Gives   the same setting at every later opening
//! Never   changes content that is sealed already
//! Spec    spec/4-metadata.md, 4.6

use strongroom_crypto::{BlockSealer, Compression};
use strongroom_metadata::{Reads, Transaction};

use crate::commit::commits::commit_all;
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
            "the stored compression is invalid",
        ))),
    }
}

impl Filesystem {
    /// Whether new content and new nodes of trees are compressed.
    #[must_use]
    pub fn compression(&self) -> Compression {
        self.core.blocks.sealers.newest().compression()
    }

    /// Compresses new content and new nodes of trees from now on, or stops to, for this and every later opening; durable
    /// on return. What is sealed already stays as it is.
    ///
    /// # Errors
    /// `ReadOnly`; of the store.
    pub fn set_compression(&self, compression: Compression) -> Result<()> {
        self.set(|core, writer| {
            writer.put_setting(COMPRESSION, compression.name().as_bytes())?;
            core.blocks.sealers.compress(compression);
            Ok(())
        })
    }

    /// How many bytes the vault may take; `None` if only the disk bounds it.
    #[must_use]
    pub fn quota(&self) -> Option<u64> {
        self.core.quota.bytes()
    }

    /// Bounds the bytes that the vault may take, for this and every later opening; durable on return. A bound below
    /// what it takes already is fine: then it can only shrink.
    ///
    /// # Errors
    /// `ReadOnly`; of the store.
    pub fn set_quota(&self, bytes: Option<u64>) -> Result<()> {
        self.set(|core, writer| core.quota.put(writer, bytes))
    }

    /// Sets the limit for the content that this device keeps, or removes it, for this and every later opening; durable on return. Nothing
    /// is evicted by this.
    ///
    /// # Errors
    /// `ReadOnly`; of the store.
    pub fn set_keep_at_most(&self, bytes: Option<u64>) -> Result<()> {
        self.set(|core, writer| core.keep_limit.put(writer, bytes))
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
        self.set(|_, writer| Ok(writer.put_setting(name, value)?))
    }

    /// Changes what is kept of the remotes, all of it or nothing; durable on return.
    ///
    /// # Errors
    /// `ReadOnly`, `Failed`, or of the stores.
    pub fn change_remotes<T>(
        &self,
        change: impl FnOnce(&mut Transaction<'_>) -> strongroom_metadata::Result<T>,
    ) -> Result<T> {
        let mut changed = None;
        self.set(|core, writer| {
            let done = change(writer).map_err(Error::from);
            changed = Some(core.durability.fail_on_error(done)?);
            Ok(())
        })?;
        changed.ok_or(Error::Failed)
    }

    /// Gives new inodes numbers of the device of `prefix` from now on.                                  [4.6.2]
    ///
    /// # Errors
    /// Of the store.
    pub fn begin_inodes(&self, prefix: u64) -> Result<()> {
        if self.core.store.lock().inode_prefix() == prefix {
            return Ok(());
        }
        self.set(|core, writer| {
            let given_up = writer.begin_inodes(prefix).map_err(Error::from);
            if let Some(base) = core.durability.fail_on_error(given_up)? {
                let counted = writer.change_references(base.root, -1).map_err(Error::from);
                core.durability.fail_on_error(counted)?;
            }
            Ok(())
        })
    }

    /// Takes a choice into the transaction and into memory, in one step, and makes it durable.
    pub(crate) fn set(
        &self,
        put: impl FnOnce(&Core, &mut Transaction<'_>) -> Result<()>,
    ) -> Result<()> {
        let core = &self.core;
        {
            let _gate = core.mutate()?;
            put(core, &mut core.store.lock())?;
            core.changed();
        }
        commit_all(core)
    }
}
