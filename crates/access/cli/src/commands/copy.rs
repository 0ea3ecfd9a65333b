//! `cp` and `mv` inside a vault: content is shared; it is copied only if some program keeps writing to the file meanwhile.
//!
//! A copy keeps owner, mode, times, extended attributes, and hard links between files that one command copies.
//! `put` keeps the same if root runs it.

use strongroom::filesystem::{
    Attributes, Error as FileError, InodeId, NodeKind, RenameMode, SetAttributes, SetTime,
    XattrMode,
};
use strongroom::{Error, File, FileOptions, Links, Vault};

use super::keep::LinkTable;
use super::placing::{directory_of, has_parent, is_directory, place, place_dressed, place_link};
use super::targets::Targets;
use crate::arguments::copy::Transfer;
use crate::arguments::location::{Location, join, last_name};
use crate::commands::opening::{Intent, same_vault, with};
use crate::commands::walk::{At, Step, Walk};
use crate::terminal::failure::{About, Failure, Failures, Result};
use crate::terminal::printable::show;

/// Copies.
pub(crate) fn copy(arguments: &Transfer) -> Result<()> {
    let mut links = LinkTable::new();
    each(arguments, |vault, source, target, mode| {
        if is_inside(target, &source.path) || leads_inside(vault, target, &source.path) {
            return Err(Failure::usage(format!(
                "{}: a directory cannot be copied into itself",
                show(target)
            )));
        }
        let links = &mut links;
        Copying { vault, mode, links }.tree(&source.path, target)
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
        let mut targets = Targets::default();
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

/// Whether `target` lies in the directory `source`, by whatever links and `..` the path leads there: the copy would go on into itself.
fn leads_inside(vault: &Vault, target: &[u8], source: &[u8]) -> bool {
    let directory = |path: &[u8], links| {
        let found = vault.attributes(path, links).ok();
        found.filter(|found| found.kind == NodeKind::Directory)
    };
    // An error is reported by the copy itself, which meets it too.
    let Some(top) = directory(source, Links::Stay) else {
        return false;
    };
    let mut path = match directory(target, Links::Follow) {
        Some(_) => target.to_vec(),
        None => directory_of(target).to_vec(),
    };
    let mut below = None;
    while let Some(found) = directory(&path, Links::Follow) {
        if found.inode == top.inode {
            return true;
        }
        if below.replace(found.inode) == Some(found.inode) {
            // The root is its own parent.
            return false;
        }
        path = join(&path, b"..");
    }
    false
}

/// A copy under way.
struct Copying<'a> {
    vault: &'a Vault,
    mode: RenameMode,
    /// Of files with several names: where the copy is, and its inode.
    links: &'a mut LinkTable<InodeId, (Vec<u8>, InodeId)>,
}

impl Copying<'_> {
    fn tree(&mut self, source: &[u8], target: &[u8]) -> Result<()> {
        let mut failures = Failures::default();
        let mut walk = Walk::new(self.vault, source, usize::MAX)?;
        while let Some(step) = walk.next() {
            let step = step?;
            if step.at == At::Again {
                failures.note(Err(step.again()));
                continue;
            }
            let relative = step.path.strip_prefix(source).unwrap_or_default();
            let relative = relative.strip_prefix(b"/").unwrap_or(relative);
            let to = if relative.is_empty() {
                target.to_vec()
            } else {
                join(target, relative)
            };
            let done = self.step(&step, &to);
            if done.is_err() {
                // Its target is no directory: nothing is copied below it, and it must not get the attributes of a directory.
                walk.pass_by(&step);
            }
            failures.note(done.about(show(&step.path)));
        }
        failures.end()
    }

    fn step(&mut self, step: &Step, to: &[u8]) -> Result<()> {
        match step.at {
            At::Again => Err(step.again()),
            At::Enter => self.enter(to),
            At::Leave => {
                let xattrs = self.xattrs_of(step)?;
                self.dress(step, &xattrs, to, Links::Follow)
            }
            At::Node => self.node(step, to),
        }
    }

    /// Makes a directory, or takes the one that is there.
    fn enter(&self, to: &[u8]) -> Result<()> {
        match self.vault.make_directory(to, 0o700) {
            Ok(_) => Ok(()),
            Err(Error::File(FileError::Exists))
                if self.vault.attributes(to, Links::Follow)?.kind == NodeKind::Directory =>
            {
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    fn node(&mut self, step: &Step, to: &[u8]) -> Result<()> {
        let Attributes {
            kind, nlink, inode, ..
        } = step.attributes;
        if nlink > 1
            && let Some(copy) = self.links.take(&inode)
            && place_link(self.vault, &copy, to, self.mode)?
        {
            return Ok(());
        }
        let made = match kind {
            NodeKind::File => self.file(step, to)?,
            NodeKind::Symlink => {
                let target = self.vault.read_link(&step.path)?;
                self.small(step, to, |vault, name| vault.make_symlink(&target, name))?
            }
            kind => {
                let (mode, rdev) = (step.attributes.mode, step.attributes.rdev);
                self.small(step, to, |vault, name| {
                    vault.make_node(name, kind, mode, rdev)
                })?
            }
        };
        self.links.put(inode, (to.to_vec(), made), u64::from(nlink));
        Ok(())
    }

    fn file(&self, step: &Step, to: &[u8]) -> Result<InodeId> {
        let (vault, options) = (self.vault, FileOptions::new().read());
        let source = vault.open_file(&step.path, options)?;
        let copy = vault.unnamed_file(directory_of(to), step.attributes.mode)?;
        let copied = copy_content(&source, &copy)?;
        end_content(&source, &copy, copied)?;
        let inode = copy.set_attributes(&same(&step.attributes))?.inode;
        let xattrs = self.xattrs_of(step)?;
        if xattrs.is_empty() {
            place(vault, to, self.mode, |name| vault.name_file(&copy, name))?;
        } else {
            place_dressed(vault, to, self.mode, |beside| {
                vault.name_file(&copy, beside)?;
                self.dress(step, &xattrs, beside, Links::Stay)
            })?;
        }
        Ok(inode)
    }

    /// Makes what has no content, with all that belongs to it, and names it.
    fn small(
        &self,
        step: &Step,
        to: &[u8],
        make: impl FnOnce(&Vault, &[u8]) -> strongroom::Result<Attributes>,
    ) -> Result<InodeId> {
        let xattrs = self.xattrs_of(step)?;
        let mut inode = None;
        place_dressed(self.vault, to, self.mode, |beside| {
            inode = Some(make(self.vault, beside)?.inode);
            self.dress(step, &xattrs, beside, Links::Stay)
        })?;
        inode.ok_or_else(|| Error::File(FileError::Stale).into())
    }

    /// All extended attributes, as the copy is in the same vault.
    fn xattrs_of(&self, step: &Step) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut xattrs = Vec::new();
        for name in self.vault.xattrs(&step.path, Links::Stay)? {
            match self.vault.xattr(&step.path, Links::Stay, &name) {
                Ok(value) => xattrs.push((name, value)),
                // Removed meanwhile.
                Err(Error::File(FileError::NoAttribute)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(xattrs)
    }

    /// Gives the copy at `path` the attributes of the node; the owner first, as a change of it takes capabilities.
    fn dress(
        &self,
        step: &Step,
        xattrs: &[(Vec<u8>, Vec<u8>)],
        path: &[u8],
        links: Links,
    ) -> Result<()> {
        self.vault
            .set_attributes(path, links, &same(&step.attributes))?;
        for (name, value) in xattrs {
            self.vault
                .set_xattr(path, links, name, value, XattrMode::Set)?;
        }
        Ok(())
    }
}

/// Copies from the beginning to the end of `source`; gives how many bytes.
fn copy_content(source: &File, copy: &File) -> Result<u64> {
    let mut copied = 0;
    loop {
        let count = source.copy_range(copied, copy, copied, u64::MAX >> 1)?;
        if count == 0 {
            return Ok(copied);
        }
        copied += count;
    }
}

/// Ends a copy where its source ends, if the source became shorter meanwhile. Bytes that were appended to it meanwhile would be zeros in the copy.
fn end_content(source: &File, copy: &File, copied: u64) -> Result<()> {
    Ok(copy.set_len(source.attributes()?.size.min(copied))?)
}

fn same(attributes: &Attributes) -> SetAttributes {
    SetAttributes {
        mode: (attributes.kind != NodeKind::Symlink).then_some(attributes.mode),
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

    /// Goal: a copy has no zeros in place of what another program appends to the source meanwhile. Method: it appends between the two steps of
    /// the copy. Failed before: the copy became as long as the source was by then.
    #[test]
    fn what_is_appended_to_a_file_while_it_is_copied_is_not_zeros_in_the_copy() {
        let place = tempfile::tempdir().unwrap();
        let created =
            Vault::create(place.path().join("v"), strongroom::CreateOptions::new()).unwrap();
        let vault = created.vault;
        let (source, copy) = (
            vault.unnamed_file(b"/", 0o600).unwrap(),
            vault.unnamed_file(b"/", 0o600).unwrap(),
        );
        source.write_all_at(b"first", 0).unwrap();
        let copied = copy_content(&source, &copy).unwrap();
        source.write_all_at(b"later", 5).unwrap();
        end_content(&source, &copy, copied).unwrap();
        assert_eq!(copy.attributes().unwrap().size, 5);
        // It became shorter.
        source.set_len(2).unwrap();
        end_content(&source, &copy, copied).unwrap();
        assert_eq!(copy.attributes().unwrap().size, 2);
        drop((source, copy));
        vault.close().unwrap();
    }

    #[test]
    fn a_path_is_inside_a_directory_by_whole_names() {
        assert!(is_inside(b"/a/b", b"/a"));
        assert!(is_inside(b"/a", b"/a/"));
        assert!(is_inside(b"/x", b"/"));
        assert!(!is_inside(b"/ab", b"/a"));
    }
}
