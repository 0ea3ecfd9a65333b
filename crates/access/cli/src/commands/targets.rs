//! Refuses targets that a copy would destroy: a local device or pipe that the user named.
//!
//! Takes   a target and its source
//! Gives   nothing, or a refusal
//! Never   refuses a target that is a copy of the same source from before

use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};

use strongroom::filesystem::{Attributes, NodeKind};

use super::local::attributes_of;
use crate::terminal::exit_code::ExitCode;
use crate::terminal::failure::{About, Failure, Result};
use crate::terminal::printable::show_path;

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
