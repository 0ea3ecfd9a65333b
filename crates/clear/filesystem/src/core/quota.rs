//! The quota: how many bytes the vault may take, however much the disk has free.
//!
//! Takes   a bound in bytes, or none
//! Gives   the same bound at every later opening; `Core::admit` refuses whatever would exceed it
//! Never   refuses a removal: only operations that make the vault grow are refused
//! Spec    spec/4-metadata.md, 4.6
//!
//! `Store::stored_bytes` is what counts: referenced sealed content (equal blocks once) and the rows of the database.
//! Bytes that overwrite stored ones need space of their own until the drain replaces the old ones. So a vault at its
//! quota refuses overwrites too.

use std::sync::atomic::{AtomicU64, Ordering};

use strongroom_metadata::{Reads, Transaction};

use crate::{Error, Result};

/// The setting that holds the bound: 8 bytes, little-endian; no bytes for no bound.
const QUOTA: &str = "quota";

/// Stands for no bound.
const NONE: u64 = u64::MAX;

/// The bound of a vault.
pub(crate) struct Quota(AtomicU64);

impl Quota {
    /// As the last run left it.
    ///
    /// # Errors
    /// Of the store; damage if the setting is not as written.
    pub(crate) fn load(reads: &Reads) -> Result<Self> {
        let value = reads.setting(QUOTA)?.unwrap_or_default();
        if value.is_empty() {
            return Ok(Self(AtomicU64::new(NONE)));
        }
        let bytes = <[u8; 8]>::try_from(value).map_err(|_| {
            Error::Metadata(strongroom_metadata::Error::Damaged(
                "the stored quota is invalid",
            ))
        })?;
        Ok(Self(AtomicU64::new(u64::from_le_bytes(bytes))))
    }

    /// The bound, if there is one.
    pub(crate) fn bytes(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Acquire)).filter(|bytes| *bytes != NONE)
    }

    /// Takes a new bound into the transaction and into memory, in one step.
    pub(crate) fn put(&self, writer: &mut Transaction<'_>, bytes: Option<u64>) -> Result<()> {
        let encoded = bytes.map(u64::to_le_bytes);
        let encoded = encoded.as_ref().map_or(&[][..], |bytes| bytes);
        writer.put_setting(QUOTA, encoded)?;
        self.0.store(bytes.unwrap_or(NONE), Ordering::Release);
        Ok(())
    }
}
