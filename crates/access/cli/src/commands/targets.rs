//! Refuses a target if copying to it would destroy something: the copy that the same command made of another source, a
//! local device or pipe that the user named, or the vault itself.
//!
//! Takes   the target of each source, and the source
//! Gives   nothing, or a refusal
//! Never   refuses a source that is given twice (its copies are equal), or a target that is an earlier copy of the same
//!         source

use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use strongroom::filesystem::{Attributes, NodeKind};

use super::local::attributes_of;
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
    let parent = target.parent().filter(|one| !one.as_os_str().is_empty());
    let there = fs::canonicalize(target);
    let there = there.or_else(|_| fs::canonicalize(parent.unwrap_or(Path::new("."))));
    let there = there.unwrap_or_default();
    let mut all = there.ancestors();
    all.try_for_each(|one| check_not_vault(one, vault))
}
