//! `cp` and `mv` inside a vault: content is shared and never copied.

use strongroom::filesystem::{
    Attributes, Error as FileError, NodeKind, RenameMode, SetAttributes, SetTime,
};
use strongroom::{Error, FileOptions, Links, Vault};

use super::placing::{directory_of, has_parent, is_directory, place};
use super::targets::Targets;
use crate::arguments::copy::Transfer;
use crate::arguments::location::{Location, join, last_name};
use crate::commands::opening::{Intent, same_vault, with};
use crate::commands::walk::{At, Step, Walk};
use crate::terminal::failure::{About, Failure, Failures, Result};
use crate::terminal::printable::show;

/// Copies.
pub(crate) fn copy(arguments: &Transfer) -> Result<()> {
    each(arguments, |vault, source, target, mode| {
        if is_inside(target, &source.path) {
            return Err(Failure::usage(format!(
                "{}: a directory cannot be copied into itself",
                show(target)
            )));
        }
        let mut failures = Failures::default();
        for step in Walk::new(vault, &source.path, usize::MAX)? {
            let step = step?;
            if step.at == At::Again {
                failures.note(Err(step.again()));
                continue;
            }
            let relative = step
                .path
                .strip_prefix(source.path.as_slice())
                .unwrap_or_default();
            let relative = relative.strip_prefix(b"/").unwrap_or(relative);
            let to = if relative.is_empty() {
                target.to_vec()
            } else {
                join(target, relative)
            };
            failures.note(copy_step(vault, &step, &to, mode).about(show(&step.path)));
        }
        failures.end()
    })
}

/// Moves.
pub(crate) fn rename(arguments: &Transfer) -> Result<()> {
    each(arguments, |vault, source, target, mode| {
        Ok(vault.rename(&source.path, target, mode)?)
    })
}

/// Runs `work` for each source with the path it shall have.
fn each(
    arguments: &Transfer,
    mut work: impl FnMut(&Vault, &Location, &[u8], RenameMode) -> Result<()>,
) -> Result<()> {
    let (sources, target) = arguments.places()?;
    let vault = same_vault(sources.iter().chain([&target]))?;
    let mode = if arguments.no_replace {
        RenameMode::NoReplace
    } else {
        RenameMode::Replace
    };
        let mut targets = Targets::default();
    with(vault, &arguments.secret, Intent::ChangeFiles, |vault| {
        let into = is_directory(vault, &target)?;
        if sources.len() > 1 && !into {
            return Err(Failure::usage(format!(
                "{}: several files can be copied or moved only into an existing directory",
                target.shown()
            )));
        }
        if !into {
            has_parent(vault, &target)?;
        }
        let mut failures = Failures::default();
        for source in &sources {
            let target = match last_name(&source.path) {
                Some(name) if into => join(&target.path, name),
                _ => target.path.clone(),
            };
            let result = targets.take(&target, &source.path);
            let result = result.and_then(|()| work(vault, source, &target, mode));
            failures.note(result.about(source.shown()));
        }
        failures.end()
    })
}

/// Whether `path` is `directory` or lies in it, as far as names tell.
fn is_inside(path: &[u8], directory: &[u8]) -> bool {
    let names = |path: &[u8]| -> Vec<Vec<u8>> {
        path.split(|byte| *byte == b'/')
            .filter(|name| !name.is_empty() && *name != b".")
            .map(<[u8]>::to_vec)
            .collect()
    };
    names(path).starts_with(&names(directory))
}

fn copy_step(vault: &Vault, step: &Step, to: &[u8], mode: RenameMode) -> Result<()> {
    match (step.at, step.attributes.kind) {
        (At::Again, _) => Err(step.again()),
        (At::Enter, _) => match vault.make_directory(to, 0o700) {
            Ok(_) => Ok(()),
            Err(Error::File(FileError::Exists))
                if vault.attributes(to, Links::Follow)?.kind == NodeKind::Directory =>
            {
                Ok(())
            }
            Err(error) => Err(error.into()),
        },
        (At::Leave, _) => Ok(vault
            .set_attributes(to, Links::Follow, &same(&step.attributes))
            .map(drop)?),
        (At::Node, NodeKind::File) => {
            let source = vault.open_file(&step.path, FileOptions::new().read())?;
            let copy = vault.unnamed_file(directory_of(to), step.attributes.mode)?;
            let mut offset = 0;
            loop {
                let count = source.copy_range(offset, &copy, offset, u64::MAX >> 1)?;
                if count == 0 {
                    break;
                }
                offset += count;
            }
            copy.set_len(source.attributes()?.size)?;
            copy.set_attributes(&same(&step.attributes))?;
            place(vault, to, mode, |name| vault.name_file(&copy, name))
        }
        (At::Node, NodeKind::Symlink) => {
            let target = vault.read_link(&step.path)?;
            place(vault, to, mode, |name| {
                vault.make_symlink(&target, name).map(drop)
            })
        }
        (At::Node, kind) => {
            let (permissions, rdev) = (step.attributes.mode, step.attributes.rdev);
            place(vault, to, mode, |name| {
                vault.make_node(name, kind, permissions, rdev).map(drop)
            })
        }
    }
}

fn same(attributes: &Attributes) -> SetAttributes {
    SetAttributes {
        mode: Some(attributes.mode),
        uid: Some(attributes.uid),
        gid: Some(attributes.gid),
        atime: Some(SetTime::At(attributes.atime)),
        mtime: Some(SetTime::At(attributes.mtime)),
        size: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_inside_a_directory_by_whole_names() {
        assert!(is_inside(b"/a/b", b"/a"));
        assert!(is_inside(b"/a", b"/a/"));
        assert!(is_inside(b"/x", b"/"));
        assert!(!is_inside(b"/ab", b"/a"));
    }
}
