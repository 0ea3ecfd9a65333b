//! The settings of a vault: each is stored in the database of this copy, and holds until it is changed.
//!
//! Takes   a choice
//! Gives   the same choice at every later opening
//! Never   changes content that is stored already
//! Spec    spec/4-metadata.md, 4.6

use strongroom_crypto::Compression;

use crate::request::{Request, WholeRequest};
use crate::{Error, Result, Vault};

impl Vault {
    /// How many bytes the vault may take; `None` if only the disk bounds it.
    ///
    /// # Errors
    /// `OwnerGone`.
    pub fn quota(&self) -> Result<Option<u64>> {
        self.ask_for(&Request::Whole(WholeRequest::Quota))
    }

    /// Bounds the bytes that the vault may take, sealed content and the rows of its database, for this and every later
    /// opening; durable on return. Below what it takes already, it can only shrink: removing always works.
    ///
    /// # Errors
    /// `ReadOnly`.
    pub fn set_quota(&self, bytes: Option<u64>) -> Result<()> {
        self.ask_for(&Request::Whole(WholeRequest::SetQuota { bytes }))
    }

    /// Whether what is new is compressed before it is sealed.
    ///
    /// # Errors
    /// `OwnerGone`.
    pub fn compression(&self) -> Result<Compression> {
        let name = self.information()?.compression;
        Compression::of_name(&name).ok_or(Error::Protocol("a compression of another version"))
    }

    /// Compresses what is new from now on, or stops to, for this and every later opening; durable on return. What is
    /// stored already stays as it is, and readable.
    ///
    /// The length of what was compressed tells something of its content to whoever sees the files of the vault.
    ///
    /// # Errors
    /// `ReadOnly`.
    pub fn set_compression(&self, compression: Compression) -> Result<()> {
        self.ask_for(&Request::Whole(WholeRequest::SetCompression(compression)))
    }
}
