//! Extended attributes in the public API.

use strongroom_filesystem::XattrMode;

use crate::owner::port::unexpected;
use crate::path::{Links, VaultPath};
use crate::request::frame::Bytes;
use crate::request::{Request, Response};
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
        match self.ask(&Request::Xattr {
            path: Bytes(path.path_bytes()),
            links,
            name: Bytes(name.as_ref()),
        })? {
            (_, Response::Data(value)) => Ok(value.0),
            _ => Err(unexpected()),
        }
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
        self.ask_done(&Request::SetXattr {
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
        self.ask_done(&Request::RemoveXattr { path, links, name })
    }

    /// The names of all extended attributes.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn xattrs(&self, path: impl VaultPath, links: Links) -> Result<Vec<Vec<u8>>> {
        match self.ask(&Request::Xattrs {
            path: Bytes(path.path_bytes()),
            links,
        })? {
            (_, Response::Names(names)) => Ok(names.into_iter().map(|name| name.0).collect()),
            _ => Err(unexpected()),
        }
    }
}
