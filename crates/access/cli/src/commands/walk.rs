//! Walks a tree in a vault, however deep it is and however large its directories are.
//!
//! Takes   a vault and a path
//! Gives   each node once, and each directory twice: before and after its content
//! Never   recurses or follows a symlink. Never holds more per level than `SORTED_ENTRIES_MAX` entries of a directory
//!         and one page. Never walks in circles: a directory has one name, and a second name is reported and skipped

use std::collections::HashSet;

use strongroom::filesystem::{Attributes, InodeId, NodeKind, is_in_snapshot};
use strongroom::{DirectoryEntry, Error, Links, Vault};

use crate::arguments::location::join;
use crate::terminal::exit_code::ExitCode;
use crate::terminal::failure::Failure;
use crate::terminal::printable::show;

/// Directories up to this many entries are shown in order of their names; larger ones as they come.
const SORTED_ENTRIES_MAX: usize = 100_000;

pub(crate) type Entries =
    std::iter::Peekable<Box<dyn Iterator<Item = strongroom::Result<DirectoryEntry>>>>;

/// Where a walk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// A directory, before what is in it.
    Enter,
    /// The same, after it.
    Leave,
    /// Anything else.
    Node,
    /// A directory that this walk was in before, and does not go into again.
    Again,
}

/// One step of a walk.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) at: At,
    pub(crate) path: Vec<u8>,
    pub(crate) attributes: Attributes,
    /// 0 for where the walk began.
    pub(crate) depth: usize,
    /// Whether it is the last of its directory.
    pub(crate) last: bool,
}

/// A walk under way.
pub(crate) struct Walk {
    vault: Vault,
    first: Option<Step>,
    levels: Vec<(Step, Entries)>,
    depth_max: usize,
    /// Directories of now that it was in; of a snapshot, whose blocks cannot name themselves, those it is in.
    seen: HashSet<InodeId>,
}

impl Step {
    /// What is to be said of a directory that is met a second time.
    pub(crate) fn again(&self) -> Failure {
        Failure::new(
            ExitCode::Damaged,
            "left out: this directory was already visited under another name. Either it was moved meanwhile, or directories are damaged: \
             run `strongroom verify`",
        )
        .about(show(&self.path))
    }
}

/// The entries of a directory; sorted by name unless there are very many.
pub(crate) fn entries(vault: &Vault, path: &[u8]) -> strongroom::Result<Entries> {
    let mut directory = vault.list(path)?;
    let mut first = Vec::new();
    for entry in directory.by_ref().take(SORTED_ENTRIES_MAX) {
        first.push(entry?);
    }
    if first.len() < SORTED_ENTRIES_MAX {
        first.sort_by(|one, two| one.name.cmp(&two.name));
    }
    let all: Box<dyn Iterator<Item = _>> = Box::new(first.into_iter().map(Ok).chain(directory));
    Ok(all.peekable())
}

impl Walk {
    /// Begins at `path`, whose last symlink is not followed.
    pub(crate) fn new(vault: &Vault, path: &[u8], depth_max: usize) -> strongroom::Result<Self> {
        let attributes = vault.attributes(path, Links::Stay)?;
        let at = if attributes.kind == NodeKind::Directory {
            At::Enter
        } else {
            At::Node
        };
        let first = Step {
            at,
            path: path.to_vec(),
            attributes,
            depth: 0,
            last: true,
        };
        Ok(Self {
            vault: vault.clone(),
            first: Some(first),
            levels: Vec::new(),
            depth_max,
            seen: HashSet::new(),
        })
    }

    /// Goes into a directory that was just given.
    fn enter(&mut self, step: &Step) -> strongroom::Result<()> {
        let entries: Entries = if step.depth < self.depth_max {
            entries(&self.vault, &step.path)?
        } else {
            let none: Box<dyn Iterator<Item = _>> = Box::new(std::iter::empty());
            none.peekable()
        };
        self.seen.insert(step.attributes.inode);
        self.levels.push((step.clone(), entries));
        Ok(())
    }

    /// Does not go into the directory that was just given, and does not leave it either.
    pub(crate) fn pass_by(&mut self, step: &Step) {
        if step.at == At::Enter {
            self.levels.pop();
            if is_in_snapshot(step.attributes.inode) {
                self.seen.remove(&step.attributes.inode);
            }
        }
    }

    fn advance(&mut self) -> strongroom::Result<Option<Step>> {
        if let Some(first) = self.first.take() {
            if first.at == At::Enter {
                self.enter(&first)?;
            }
            return Ok(Some(first));
        }
        loop {
            let Some((directory, entries)) = self.levels.last_mut() else {
                return Ok(None);
            };
            let Some(entry) = entries.next() else {
                let leave = Step {
                    at: At::Leave,
                    ..directory.clone()
                };
                if is_in_snapshot(leave.attributes.inode) {
                    self.seen.remove(&leave.attributes.inode);
                }
                self.levels.pop();
                return Ok(Some(leave));
            };
            let DirectoryEntry { name, attributes } = entry?;
            let at = if attributes.kind == NodeKind::Directory {
                At::Enter
            } else {
                At::Node
            };
            let (path, depth) = (join(&directory.path, &name), directory.depth + 1);
            let step = Step {
                at,
                path,
                attributes,
                depth,
                last: entries.peek().is_none(),
            };
            if at == At::Node {
                return Ok(Some(step));
            }
            if self.seen.contains(&step.attributes.inode) {
                return Ok(Some(Step {
                    at: At::Again,
                    ..step
                }));
            }
            match self.enter(&step) {
                Ok(()) => return Ok(Some(step)),
                // Removed by somebody else meanwhile: as if it had not been seen.
                Err(Error::File(strongroom::filesystem::Error::NotFound)) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Iterator for Walk {
    type Item = strongroom::Result<Step>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.advance();
        if step.is_err() {
            // What follows would be incomplete without saying so.
            self.levels.clear();
        }
        step.transpose()
    }
}
