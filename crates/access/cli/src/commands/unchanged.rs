//! Decides whether a copy already equals its source, so that it need not be copied again.
//!
//! Takes   the attributes of both sides, and where symbolic links lead; also their content, but only if the user asked for that
//! Gives   yes or no
//! Never   opens a file unless content is to be compared; content that cannot be read counts as different, so it is stored again

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::OFlags;
use strongroom::filesystem::{Attributes, Error as FileError, NodeKind, SetAttributes, SetTime};
use strongroom::{Error, FileOptions, Links, Vault};

use super::local::{fill_at, open};
use crate::arguments::copy::Copying;
use crate::terminal::failure::Result;

/// Larger directories are not listed ahead; what is in them is asked for one by one.
const LISTED_MAX: usize = 100_000;

/// What a vault has in a directory that is copied into.
pub(super) enum There {
    /// Nothing: it was just made.
    Nothing,
    Listed(HashMap<Vec<u8>, Attributes>),
    /// Too much to be listed ahead.
    Much,
}

impl There {
    /// Of the directory `path`.
    pub(super) fn list(vault: &Vault, path: &[u8]) -> Result<Self> {
        let mut listed = HashMap::new();
        for entry in vault.list(path)? {
            let entry = entry?;
            if listed.len() == LISTED_MAX {
                return Ok(Self::Much);
            }
            listed.insert(entry.name, entry.attributes);
        }
        Ok(Self::Listed(listed))
    }

    /// What has the name `name`, whose path is `path`.
    pub(super) fn node(
        &self,
        vault: &Vault,
        name: &[u8],
        path: &[u8],
    ) -> Result<Option<Attributes>> {
        match self {
            Self::Nothing => Ok(None),
            Self::Listed(listed) => Ok(listed.get(name).cloned()),
            Self::Much => node_at(vault, path),
        }
    }
}

/// What is at `path`, if anything is.
pub(super) fn node_at(vault: &Vault, path: &[u8]) -> Result<Option<Attributes>> {
    match vault.attributes(path, Links::Stay) {
        Ok(there) => Ok(Some(there)),
        Err(Error::File(FileError::NotFound)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether what is there differs in what is to be set. Times of access change by reading, and do not count.
pub(super) fn differs(there: &Attributes, set: &SetAttributes) -> bool {
    let other_time = |now, wanted: &Option<SetTime>| match wanted {
        Some(SetTime::At(time)) => now != *time,
        Some(SetTime::Now) => true,
        None => false,
    };
    set.mode.is_some_and(|mode| mode != there.mode)
        || set.uid.is_some_and(|uid| uid != there.uid)
        || set.gid.is_some_and(|gid| gid != there.gid)
        || other_time(there.mtime, &set.mtime)
}

/// Whether both nodes look the same: kind, size, time, device. Then neither need be opened.
fn looks_same(source: &Attributes, copy: &Attributes) -> bool {
    // Nobody sees from outside whether a name that became a file of its own is one again.
    let is_shared = |node: &Attributes| node.nlink > 1 && node.kind != NodeKind::Directory;
    let is_device = matches!(source.kind, NodeKind::CharDevice | NodeKind::BlockDevice);
    let is_sized = matches!(source.kind, NodeKind::File | NodeKind::Symlink);
    source.kind == copy.kind
        && source.mtime == copy.mtime
        && (!is_sized || source.size == copy.size)
        && (!is_device || source.rdev == copy.rdev)
        && (is_shared(source) || !is_shared(copy))
}

/// Whether the copy of a node is as the node. `in_vault`, `local`: where the two are.
///
/// Opens nothing but, with --checksum, files of the same size.
pub(super) fn is_unchanged(
    vault: &Vault,
    in_vault: &[u8],
    local: &Path,
    (source, copy): (&Attributes, &Attributes),
    (copying, part): (&Copying, &mut [u8]),
) -> Result<bool> {
    if source.kind == NodeKind::Symlink && looks_same(source, copy) {
        let target = fs::read_link(local)?;
        return Ok(vault.read_link(in_vault)? == target.as_os_str().as_bytes());
    }
    if !copying.checksum || source.kind != NodeKind::File {
        return Ok(looks_same(source, copy));
    }
    let dated = Attributes {
        mtime: copy.mtime,
        ..source.clone()
    };
    if !looks_same(&dated, copy) {
        return Ok(false);
    }
    // Should a pipe have taken the name meanwhile, opening it must not wait for a writer.
    let file = open(local, OFlags::NOFOLLOW | OFlags::NONBLOCK)?;
    same_content(vault, in_vault, &file, part)
}

/// Whether the content of the file `path` of a vault is that of a local file. What cannot be read in the vault is not.
fn same_content(vault: &Vault, path: &[u8], local: &File, part: &mut [u8]) -> Result<bool> {
    let file = vault.open_file(path, FileOptions::new().read())?;
    let mut other = vec![0; part.len()];
    let mut at = 0;
    loop {
        crate::terminal::interrupt::check()?;
        let count = fill_at(local, part, at)?;
        let there = match file.read_at(&mut other, at) {
            Ok(there) => there,
            Err(Error::File(
                FileError::Damaged { .. } | FileError::Erased { .. } | FileError::LostAtRemote(_),
            )) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        if part[..count] != other[..there] {
            return Ok(false);
        }
        if count < part.len() {
            return Ok(true);
        }
        at += count as u64;
    }
}
