//! Walks a whole tree.
//!
//! Takes   a directory
//! Gives   everything below it, sorted; a directory before its contents
//! Never   follows a symlink, or holds more than `WALK_ENTRIES_MAX` entries in memory
//!
//! It gathers the first entries of a directory in the order of names, up to the limit. When these are used up, it reads the
//! directory again for the names after the last one. When all directories together hold too many entries, the outermost directory
//! drops its entries: they are read again when the walk comes back to it.

use std::collections::BTreeMap;

use strongroom_filesystem::{self as filesystem, Attributes, InodeId, NodeKind};

use crate::limits::WALK_ENTRIES_MAX;
use crate::path::{Links, VaultPath, join};
use crate::{Error, Result, Vault};

/// How often a directory is read when an owner goes meanwhile.
const READS_MAX: usize = 4;

/// What a walk met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalkEntry {
    /// Its path: that of the directory that was given, and the names below it.
    pub path: Vec<u8>,
    /// How many names below that directory: 1 for what lies in it.
    pub depth: usize,
    /// What `stat` shows of the node, of a symlink itself.
    pub attributes: Attributes,
}

/// Everything below a directory; see `Vault::walk`.
pub struct Walk {
    vault: Vault,
    levels: Vec<Level>,
    entries_max: usize,
    /// How much of each path is not shown.
    prefix: usize,
}

/// A directory on the way down.
struct Level {
    path: Vec<u8>,
    inode: InodeId,
    /// The next ones, sorted.
    entries: BTreeMap<Vec<u8>, Attributes>,
    /// The last one given.
    last: Option<Vec<u8>>,
    /// Nothing comes behind `entries`.
    is_end: bool,
}

impl Level {
    fn new(path: Vec<u8>, inode: InodeId) -> Self {
        Self {
            path,
            inode,
            entries: BTreeMap::new(),
            last: None,
            is_end: false,
        }
    }

    /// Gathers the entries behind the last one given.
    ///
    /// # Errors
    /// Those of `list`; `Changed` if another directory is there now.
    fn read(&mut self, vault: &Vault, entries_max: usize) -> Result<()> {
        let (directory, inode) = vault.list_node(&self.path)?;
        if inode != self.inode {
            return Err(Error::Changed);
        }
        self.is_end = true;
        for entry in directory {
            let entry = entry?;
            if self.last.as_ref().is_some_and(|last| entry.name <= *last) {
                continue;
            }
            self.entries.insert(entry.name, entry.attributes);
            if self.entries.len() > entries_max {
                self.entries.pop_last();
                self.is_end = false;
            }
        }
        Ok(())
    }
}

impl Vault {
    /// Everything below the directory `path`, sorted by name (byte by byte), a directory before what lies in it.
    ///
    /// Symlinks are given and not followed, but for one at the end of `path`. Takes memory for at most
    /// `WALK_ENTRIES_MAX` entries, however large the tree is. What others make, move or remove meanwhile may or may not be met; for one
    /// state of the whole tree walk through a `Snapshot`. After an error the walk goes on behind the directory that it is about.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let place = tempfile::tempdir()?;
    /// # let folder = place.path().join("vault");
    /// # use strongroom::{CreateOptions, Vault};
    /// # let vault = Vault::create(&folder, CreateOptions::new())?.vault;
    /// vault.create_dir_all("/photos/2026", 0o755)?;
    /// vault.write("/photos/2026/a.jpg", "…")?;
    /// vault.write("/photos/list", "a.jpg")?;
    /// let met: Result<Vec<_>, _> = vault.walk("/photos")?.map(|entry| entry.map(|entry| entry.path)).collect();
    /// assert_eq!(met?, [&b"/photos/2026"[..], b"/photos/2026/a.jpg", b"/photos/list"]);
    /// # vault.close()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `NotFound`, `NotADirectory`.
    pub fn walk(&self, path: impl VaultPath) -> Result<Walk> {
        let node = self.attributes(path.path_bytes(), Links::Follow)?;
        if node.kind != NodeKind::Directory {
            return Err(Error::File(filesystem::Error::NotADirectory));
        }
        Ok(Walk {
            vault: self.clone(),
            levels: vec![Level::new(path.path_bytes().to_vec(), node.inode)],
            entries_max: WALK_ENTRIES_MAX,
            prefix: 0,
        })
    }
}

impl Walk {
    /// The same, with the first `len` bytes of each path left out.
    pub(crate) fn without_prefix(mut self, len: usize) -> Self {
        self.prefix = len;
        self
    }

    /// Reads on in the innermost directory; the outer ones make room.
    fn read(&mut self) -> Result<()> {
        let Some((level, outer)) = self.levels.split_last_mut() else {
            return Ok(());
        };
        let mut attempts = 1;
        while let Err(error) = level.read(&self.vault, self.entries_max) {
            // The next owner lists it from the start; what was gathered already is met again.
            if !matches!(error, Error::OwnerGone) || attempts == READS_MAX {
                return Err(error);
            }
            attempts += 1;
        }
        let mut held = level.entries.len();
        // The outermost is needed last.
        for level in outer.iter_mut().rev() {
            held += level.entries.len();
            if held > self.entries_max && !level.entries.is_empty() {
                held -= level.entries.len();
                level.entries.clear();
                level.is_end = false;
            }
        }
        Ok(())
    }
}

impl Iterator for Walk {
    type Item = Result<WalkEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let depth = self.levels.len();
            let level = self.levels.last_mut()?;
            if let Some((name, attributes)) = level.entries.pop_first() {
                let path = join(&level.path, &name);
                level.last = Some(name);
                if attributes.kind == NodeKind::Directory {
                    self.levels.push(Level::new(path.clone(), attributes.inode));
                }
                let path = path[self.prefix..].to_vec();
                return Some(Ok(WalkEntry {
                    path,
                    depth,
                    attributes,
                }));
            }
            if level.is_end {
                self.levels.pop();
                continue;
            }
            match self.read() {
                Ok(()) => {}
                // The directory that was met is there no more.
                Err(
                    Error::Changed
                    | Error::File(filesystem::Error::NotFound | filesystem::Error::NotADirectory),
                ) => drop(self.levels.pop()),
                Err(error) => {
                    self.levels.pop();
                    return Some(Err(error));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CreateOptions;

    /// Three entries may be held; directories of five are read several times, and the outer one gives its entries up.
    #[test]
    fn a_walk_that_may_hold_little_meets_everything_once_and_in_order() {
        let place = tempfile::tempdir().unwrap();
        let vault = Vault::create(place.path().join("vault"), CreateOptions::new());
        let vault = vault.unwrap().vault;
        let mut made = Vec::new();
        for outer in ["e", "a", "d", "b", "c"] {
            vault.make_directory(format!("/{outer}"), 0o755).unwrap();
            made.push(format!("/{outer}"));
            for inner in ["4", "1", "5", "2", "3"] {
                let path = format!("/{outer}/{inner}");
                vault.write(&path, "").unwrap();
                made.push(path);
            }
        }
        made.sort();
        for entries_max in [1, 3, 5, 100] {
            let mut walk = vault.walk("/").unwrap();
            walk.entries_max = entries_max;
            let mut met = Vec::new();
            while let Some(entry) = walk.next() {
                met.push(String::from_utf8(entry.unwrap().path).unwrap());
                let held: usize = walk.levels.iter().map(|level| level.entries.len()).sum();
                assert!(held <= entries_max, "{held} of {entries_max}");
            }
            assert_eq!(met, made, "{entries_max}");
        }
        vault.close().unwrap();
    }
}
