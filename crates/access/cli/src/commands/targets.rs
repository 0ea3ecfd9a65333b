//! Refuses a target if copying to it would destroy something: the copy that the same command made of another source, a
//! local device or pipe that the user named, or the vault itself. Refuses a copy into itself by way of a mount.
//!
//! Takes   the target of each source, and the source
//! Gives   nothing, or a refusal
//! Never   refuses a source that is given twice (its copies are equal), or a target that is an earlier copy of the same
//!         source

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use strongroom::filesystem::{Attributes, InodeId, NodeKind};
use strongroom::{Links, Vault};

use super::local::attributes_of;
use crate::arguments::location::Location;
use crate::terminal::exit_code::ExitCode;
use crate::terminal::failure::{About, Failure, Result};
use crate::terminal::printable::{show, show_path};

/// The targets of one command so far, each with its source.
#[derive(Debug, Default)]
pub(super) struct Targets(HashMap<Vec<u8>, Vec<u8>>);

impl Targets {
    /// Reserves `target` for `source`.
    ///
    /// # Errors
    /// `Exists` if it is the target of another source.
    pub(super) fn take(&mut self, target: &[u8], source: &[u8]) -> Result<()> {
        let first = self.0.entry(target.to_vec());
        if first.or_insert_with(|| source.to_vec()) == source {
            return Ok(());
        }
        let message = format!(
            "another source of this command has the same target, {}; this one was left out: use a second command, with another target",
            show(target)
        );
        Err(Failure::new(ExitCode::Exists, message))
    }

    /// The names in `directory` that are targets, or lead to one: --delete leaves what the same command copies from another source.
    pub(super) fn names_in(&self, directory: &[u8]) -> Vec<&[u8]> {
        let names = self.0.keys().filter_map(|target| {
            let rest = target.strip_prefix(directory)?;
            let rest = match directory.ends_with(b"/") {
                true => rest,
                false => rest.strip_prefix(b"/")?,
            };
            rest.split(|byte| *byte == b'/').next()
        });
        names.filter(|name| !name.is_empty()).collect()
    }
}

/// The devices of the mounts of a vault here. Through such a mount a local path leads into the vault.
pub(super) struct OwnMounts {
    devices: Vec<u64>,
    /// The directory of the vault that is copied into.
    target: Option<InodeId>,
}

impl OwnMounts {
    pub(super) fn of(vault: &Vault) -> Self {
        let attachments = vault
            .information()
            .map_or_else(|_| Vec::new(), |found| found.attachments);
        let devices = attachments.iter().filter_map(|one| {
            let found = fs::metadata(OsStr::from_bytes(&one.mount_point)).ok()?;
            // Only the root of a vault has this number: else the mount is not there, or not for this process.
            (InodeId(found.ino()) == InodeId::ROOT).then(|| found.dev())
        });
        Self {
            devices: devices.collect(),
            target: None,
        }
    }

    fn shows(&self, local: &Metadata, inode: InodeId) -> bool {
        self.devices.contains(&local.dev()) && InodeId(local.ino()) == inode
    }

    /// From now on `path` of the vault is the directory that is copied into.
    pub(super) fn note_target(&mut self, vault: &Vault, path: &[u8]) -> Result<()> {
        if !self.devices.is_empty() {
            self.target = Some(vault.attributes(path, Links::Follow)?.inode);
        }
        Ok(())
    }

    /// Refuses a local directory that is the one that is copied into, seen through a mount: the copy would go on into itself.
    pub(super) fn check_no_target(&self, local: &Metadata) -> Result<()> {
        match self.target {
            Some(target) if self.shows(local, target) => Err(into_itself()),
            _ => Ok(()),
        }
    }

    /// Refuses a local target that lies in the directory `source`, seen through a mount.
    pub(super) fn check_not_inside(
        &self,
        vault: &Vault,
        target: &Path,
        source: &Location,
    ) -> Result<()> {
        if self.devices.is_empty() {
            return Ok(());
        }
        let top = vault.attributes(&source.path, Links::Stay)?;
        let is_top = |one: &Path| fs::metadata(one).is_ok_and(|one| self.shows(&one, top.inode));
        match top.kind == NodeKind::Directory && real(target).ancestors().any(is_top) {
            true => Err(into_itself().about(show_path(target))),
            false => Ok(()),
        }
    }
}

fn into_itself() -> Failure {
    Failure::usage(
        "a directory cannot be copied into itself, and here a mount of the vault leads to the target of the copy; it was left out",
    )
}

/// Refuses a target that the user named and that a copy of `source` would destroy: a device, a pipe, a link to one or to nothing.
pub(super) fn check_named(target: &Path, source: &Attributes) -> Result<PathBuf> {
    let is_replaced = |there: &Metadata| match there.file_type() {
        kind if kind.is_file() => true,
        kind if kind.is_symlink() && source.kind != NodeKind::Symlink => target.is_file(),
        // A copy of the same, from before.
        _ => {
            attributes_of(there).is_some_and(|it| (it.kind, it.rdev) == (source.kind, source.rdev))
        }
    };
    if fs::symlink_metadata(target).is_ok_and(|there| !is_replaced(&there)) {
        let message = "is there, and is neither a regular file nor a directory; choose another target (\"-\" is standard output)";
        return Err(Failure::new(ExitCode::Exists, message)).about(show_path(target));
    }
    Ok(target.to_owned())
}

/// Refuses a directory that is the folder `vault`: a copy would replace files of the vault, and --delete would remove them.
pub(super) fn check_not_vault(directory: &Path, vault: &Path) -> Result<()> {
    let (Ok(there), Ok(vault)) = (fs::metadata(directory), fs::metadata(vault)) else {
        return Ok(());
    };
    if (there.dev(), there.ino()) != (vault.dev(), vault.ino()) {
        return Ok(());
    }
    let message = "the target lies in the folder of the vault itself; choose another one";
    Err(Failure::usage(message)).about(show_path(directory))
}

/// The same of a target that the user named, which may lie deeper.
pub(super) fn check_outside(target: &Path, vault: &Path) -> Result<()> {
    let there = real(target);
    let mut all = there.ancestors();
    all.try_for_each(|one| check_not_vault(one, vault))
}

/// Where `target` is, or where it will be made; empty if that cannot be told.
fn real(target: &Path) -> PathBuf {
    let parent = target.parent().filter(|one| !one.as_os_str().is_empty());
    let there = fs::canonicalize(target);
    let there = there.or_else(|_| fs::canonicalize(parent.unwrap_or(Path::new("."))));
    there.unwrap_or_default()
}
