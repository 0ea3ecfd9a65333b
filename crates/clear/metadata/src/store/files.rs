//! The files of one database under one key: checks them before SQLite opens them, and says how SQLite reaches them.
//!
//! Takes   the vault folder, the key, and the tree of pages that the files must match
//! Gives   the URI and the key with which every connection is made
//! Never   opens a file of the database
//! Spec    spec/4-metadata.md, 4.1 and 4.8.2; spec/10-folder.md

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use strongroom_folder::Folder;

use crate::disk::{DATABASE_FILE, Disk, RESERVE_FILE, Reserve};
use crate::error::{Error, Result};
use crate::limits::{KEY_BYTES, PAGE_BYTES};
use crate::pages::Pages;
use crate::store::connect::{Access, Key};
use crate::store::options::Options;
use crate::vfs;
use crate::vfs::database::Database;
use crate::vfs::registration::Registration;

/// What lies beside the database while it is in use, by the endings of their names.
pub(crate) const BESIDE: [&str; 3] = ["-wal", "-shm", "-journal"];

/// The files of a store under one key.
pub(crate) struct Files {
    pub(crate) uri: String,
    pub(crate) key: Key,
    pub(crate) database: Arc<Database>,
    _registration: Registration,
    /// The URI leads through it.
    _folder: Folder,
}

impl Files {
    /// Those in `folder`, to which `path` leads, whose pages are `pages`.
    pub(crate) fn new(
        path: &Path,
        folder: &Folder,
        key: &[u8; KEY_BYTES],
        options: &Options,
        access: Access,
        pages: Option<Pages>,
    ) -> Result<Self> {
        let has_log = check_files(folder)?;
        // SQLite opens by path. One through the descriptor leads to the folder that was checked.
        let database = match folder.reach() {
            Some(reach) => reach.join(DATABASE_FILE),
            None => std::path::absolute(path)?.join(DATABASE_FILE),
        };
        let reserve_bytes = match access {
            Access::ReadWrite => options.reserve_bytes,
            Access::ReadOnly | Access::Frozen => 0,
        };
        let reserve = Reserve::new(folder.try_clone()?, RESERVE_FILE, reserve_bytes)?;
        let observer = options.observer.clone();
        let is_frozen = access == Access::Frozen;
        let disk = Disk::new(observer, reserve);
        let served = Arc::new(Database::new(disk, is_frozen, pages));
        if !vfs::is_registered() {
            return Err(Error::Refused(0));
        }
        let registration = Registration::new(&served);
        Ok(Self {
            uri: uri(&database, &registration, access, has_log),
            key: Key::new(key),
            database: served,
            _registration: registration,
            _folder: folder.try_clone()?,
        })
    }

    pub(crate) fn disk(&self) -> &Disk {
        &self.database.disk
    }
}

/// The database as a URI: SQLite's own path rules would trip over some names.
fn uri(path: &Path, registration: &Registration, access: Access, has_log: bool) -> String {
    let mut uri = String::from("file:");
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => {
                uri.push(char::from(byte))
            }
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri.push('?');
    uri.push_str(&registration.parameter());
    if access == Access::Frozen && !has_log {
        // Without a log the database is whole by itself; SQLite then asks for no log file.
        uri.push_str("&immutable=1");
    }
    uri
}

/// Looks at the files of the database before SQLite opens them; gives whether there is a log with content.
///
/// # Errors
/// `Error::Missing`; `Error::Odd` if one is no regular file with one name.
pub(crate) fn check_files(folder: &Folder) -> Result<bool> {
    let Some(len) = folder.check_file(DATABASE_FILE)? else {
        return Err(Error::Missing);
    };
    let mut has_log = false;
    for ending in BESIDE {
        let len = folder.check_file(&format!("{DATABASE_FILE}{ending}"))?;
        has_log |= ending == "-wal" && len.is_some_and(|len| len > 0);
    }
    // The first page is there before there is a log; of such a file SQLite says that the disk failed.
    if has_log && len < PAGE_BYTES as u64 {
        return Err(Error::Damaged("the file is shorter than a page"));
    }
    Ok(has_log)
}
