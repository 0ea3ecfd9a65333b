//! Calls for a directory with all directories above it, or with everything below it.
//!
//! Takes   a path
//! Gives   depending on the call: the path with all its directories, created; the path and everything below it, removed; or whether
//!         the path exists
//! Never   follows a symlink below a directory that is removed

use strongroom_filesystem::{self as filesystem, NodeKind};

use crate::path::{Links, VaultPath};
use crate::request::Request;
use crate::request::frame::Bytes;
use crate::{Error, Result, Vault};

impl Vault {
    /// Whether something is at `path`; a dangling symlink is not. As `std::fs::exists`.
    ///
    /// # Errors
    /// Those of `attributes` but `NotFound`.
    pub fn exists(&self, path: impl VaultPath) -> Result<bool> {
        match self.attributes(path, Links::Follow) {
            Ok(_) => Ok(true),
            Err(Error::File(filesystem::Error::NotFound)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Makes a directory and all that are missing on the way to it, each with `mode`. One that is there is left as it is.
    ///
    /// # Errors
    /// `NotADirectory` or `Exists` if something else is on the way; then those before it may have been made.
    pub fn create_dir_all(&self, path: impl VaultPath, mode: u32) -> Result<()> {
        let path = path.path_bytes();
        // Where names end, the whole path last.
        let ends: Vec<usize> = (1..=path.len())
            .filter(|end| path.get(*end).is_none_or(|next| *next == b'/'))
            .collect();
        // From the end, so that it costs one request where little is missing.
        let mut missing = ends.len();
        while missing > 0 {
            match self.make_or_find(&path[..ends[missing - 1]], mode) {
                Err(Error::File(filesystem::Error::NotFound)) if missing > 1 => missing -= 1,
                made => {
                    made?;
                    break;
                }
            }
        }
        for end in &ends[missing..] {
            self.make_or_find(&path[..*end], mode)?;
        }
        Ok(())
    }

    fn make_or_find(&self, path: &[u8], mode: u32) -> Result<()> {
        let made = match self.make_directory(path, mode) {
            Ok(_) => return Ok(()),
            Err(Error::File(filesystem::Error::NotFound)) => {
                return Err(Error::File(filesystem::Error::NotFound));
            }
            Err(error) => error,
        };
        // It exists, or its path ends in no name, as `/`, `/a/.` and `/a/..` do.
        match self.attributes(path, Links::Follow) {
            Ok(node) if node.kind == NodeKind::Directory => Ok(()),
            _ => Err(made),
        }
    }

    /// Removes a directory and all below it; symlinks are removed, not followed. Not atomic: whoever looks meanwhile, and
    /// a power cut, may find a part.
    ///
    /// # Errors
    /// `NotADirectory` also for a symlink to one; `NotFound`; `InvalidArgument` for the root.
    pub fn remove_dir_all(&self, path: impl VaultPath) -> Result<()> {
        let path = Bytes(path.path_bytes());
        let mut begun = false;
        loop {
            match self.ask_for(&Request::RemoveTree { path }) {
                Ok(true) => return Ok(()),
                Ok(false) => begun = true,
                // Somebody else removed the rest.
                Err(Error::File(filesystem::Error::NotFound)) if begun => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}
