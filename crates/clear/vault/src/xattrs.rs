//! Extended attributes in the public API.

use strongroom_filesystem::XattrMode;

use crate::path::{Links, VaultPath};
use crate::request::Request;
use crate::request::frame::{ByteBuffer, Bytes};
use crate::{Result, Vault};

impl Vault {
    /// The value of an extended attribute.
    ///
    /// # Errors
    /// `NoAttribute`.
    pub fn xattr(
        &self,
        path: impl VaultPath,
        links: Links,
        name: impl AsRef<[u8]>,
    ) -> Result<Vec<u8>> {
        let (path, name) = (Bytes(path.path_bytes()), Bytes(name.as_ref()));
        let value: ByteBuffer = self.ask_for(&Request::Xattr { path, links, name })?;
        Ok(value.0)
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// `Exists`, `NoAttribute` as `mode` says; `ValueTooLarge`.
    pub fn set_xattr(
        &self,
        path: impl VaultPath,
        links: Links,
        name: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        mode: XattrMode,
    ) -> Result<()> {
        let (path, name, value) = (
            Bytes(path.path_bytes()),
            Bytes(name.as_ref()),
            Bytes(value.as_ref()),
        );
        self.ask_for(&Request::SetXattr {
            path,
            links,
            name,
            value,
            mode,
        })
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// `NoAttribute`.
    pub fn remove_xattr(
        &self,
        path: impl VaultPath,
        links: Links,
        name: impl AsRef<[u8]>,
    ) -> Result<()> {
        let (path, name) = (Bytes(path.path_bytes()), Bytes(name.as_ref()));
        self.ask_for(&Request::RemoveXattr { path, links, name })
    }

    /// The names of all extended attributes.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn xattrs(&self, path: impl VaultPath, links: Links) -> Result<Vec<Vec<u8>>> {
        let path = Bytes(path.path_bytes());
        let names: Vec<ByteBuffer> = self.ask_for(&Request::Xattrs { path, links })?;
        Ok(names.into_iter().map(|name| name.0).collect())
    }
}
