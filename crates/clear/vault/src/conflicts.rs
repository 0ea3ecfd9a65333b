//! Conflict copies: lists them, and carries out a choice of the content to keep.
//!
//! Takes   an open vault; the path of a copy, and a choice
//! Gives   each copy with the file that it was made of; one transaction that carries out the choice
//! Never   removes the only content that is left, or treats a name that no merge gives as a conflict name
//! Spec    spec/11-sync.md, [11.6.3] and [11.6.12]
//!
//! Invariants
//!  (1) If either file changed after the caller looked at it, this is noticed and nothing is done.

use strongroom_filesystem::{self as filesystem, Attributes, Durability, NodeKind, RenameMode};
use strongroom_history::{ConflictName, labelled};

use crate::path::{Links, VaultPath, join};
use crate::{Error, Operation, Result, Vault};

/// Names between two reports of progress.
const REPORT_NAMES: u64 = 1024;

/// A conflict copy: what one device had where another had published something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Where the copy is.
    pub path: Vec<u8>,
    /// What `stat` shows of it.
    pub copy: Attributes,
    /// The first 8 hexadecimal digits of the device that made it, as `Vault::members` has them.
    pub device: String,
    /// When that device had it, in UTC: `YYYY-MM-DD HH.MM`.
    pub time: String,
    /// The name beside it that it was made of.
    pub beside: Vec<u8>,
    /// What `stat` shows of what has that name; `None` if nothing has it any more.
    pub published: Option<Attributes>,
}

/// Which of the two stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The copy, under the name of the published one, which goes.
    Mine,
    /// The published one; the copy goes.
    Theirs,
    /// Both; the copy gets an ordinary name beside it.
    Both,
}

impl Vault {
    /// All conflict copies in the vault, in the order of their paths. Goes over all names; `told` hears how many so far.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let place = tempfile::tempdir()?;
    /// # let folder = place.path().join("vault");
    /// use strongroom::{CreateOptions, Keep, Vault};
    ///
    /// # let vault = Vault::create(&folder, CreateOptions::new())?.vault;
    /// vault.write("/letter.txt", "what was published")?;
    /// vault.write("/letter (conflict, 5f2c9a01, 2026-11-23 14.03).txt", "what was here")?;
    /// let conflicts = vault.conflicts(&mut |_| {})?;
    /// assert_eq!(conflicts[0].beside, b"/letter.txt");
    /// let kept = vault.settle_conflict(&conflicts[0].path, Keep::Mine)?;
    /// assert_eq!((&kept[..], vault.read("/letter.txt")?), (&b"/letter.txt"[..], b"what was here".to_vec()));
    /// # vault.close()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As `walk`.
    pub fn conflicts(&self, told: &mut dyn FnMut(u64)) -> Result<Vec<Conflict>> {
        let mut found = Vec::new();
        for (entry, looked) in self.walk("/")?.zip(1_u64..) {
            let entry = entry?;
            if looked.is_multiple_of(REPORT_NAMES) {
                told(looked);
            }
            found.extend(self.conflict(&entry.path, entry.attributes)?);
        }
        Ok(found)
    }

    /// Carries out a choice; gives the path at which the copy is then, or that of the published one if the copy went. It is one
    /// transaction, durable on return.
    ///
    /// # Errors
    /// `NoConflict` if no merge gives such a name; `ConflictAlone`, `ConflictOfDirectories`; `Changed` if somebody changed one of
    /// the two meanwhile; `NotFound`.
    pub fn settle_conflict(&self, path: impl VaultPath, keep: Keep) -> Result<Vec<u8>> {
        let path = path.path_bytes();
        let copy = self.attributes(path, Links::Stay)?;
        let conflict = self.conflict(path, copy)?.ok_or(Error::NoConflict)?;
        let Some(published) = conflict.published.clone() else {
            return Err(Error::ConflictAlone);
        };
        let is_directory = |node: &Attributes| node.kind == NodeKind::Directory;
        if keep != Keep::Both && (is_directory(&conflict.copy) || is_directory(&published)) {
            return Err(Error::ConflictOfDirectories);
        }
        let unchanged = |path: &[u8], seen: &Attributes| Operation::RequireUnchanged {
            path: path.to_vec(),
            links: Links::Stay,
            seen: seen.clone(),
        };
        // (1)
        let mut operations = vec![
            unchanged(path, &conflict.copy),
            unchanged(&conflict.beside, &published),
        ];
        let rename = |new_path: &[u8], mode| Operation::Rename {
            path: path.to_vec(),
            new_path: new_path.to_vec(),
            mode,
        };
        let remove = Operation::RemoveFile {
            path: path.to_vec(),
        };
        let (kept, last) = match keep {
            // Two names of one file: renaming one over the other would leave both.
            Keep::Mine if conflict.copy.inode == published.inode => (conflict.beside, remove),
            Keep::Mine => {
                let last = rename(&conflict.beside, RenameMode::Replace);
                (conflict.beside, last)
            }
            Keep::Theirs => (conflict.beside, remove),
            Keep::Both => {
                let free = self.free_copy_name(&conflict.beside)?;
                let last = rename(&free, RenameMode::NoReplace);
                (free, last)
            }
        };
        operations.push(last);
        self.transaction(&operations, Durability::OnReturn)?;
        Ok(kept)
    }

    /// What is at `path`, if its name is one of a conflict.
    fn conflict(&self, path: &[u8], copy: Attributes) -> Result<Option<Conflict>> {
        let (directory, name) = split(path);
        let Some(said) = ConflictName::read(name) else {
            return Ok(None);
        };
        let mut of = said.of.clone();
        if said.is_cut {
            // Which of the names beside it was as long as this one before it was cut.
            for entry in self.list(directory)? {
                let entry = entry?;
                if said.is_made_of(name, &entry.name) {
                    of = entry.name;
                    break;
                }
            }
        }
        let beside = join(directory, &of);
        let published = match self.attributes(&beside, Links::Stay) {
            Ok(published) => Some(published),
            Err(Error::File(filesystem::Error::NotFound)) => None,
            Err(error) => return Err(error),
        };
        Ok(Some(Conflict {
            path: path.to_vec(),
            copy,
            device: said.device,
            time: said.time,
            beside,
            published,
        }))
    }

    /// A name beside `path` that nothing has: `name (copy).ext`, `name (copy 2).ext` and so on.
    fn free_copy_name(&self, path: &[u8]) -> Result<Vec<u8>> {
        let (directory, name) = split(path);
        for number in 1_u64.. {
            let label = match number {
                1 => " (copy)".to_owned(),
                number => format!(" (copy {number})"),
            };
            let free = join(directory, &labelled(name, label.as_bytes()));
            match self.attributes(&free, Links::Stay) {
                Ok(_) => {}
                Err(Error::File(filesystem::Error::NotFound)) => return Ok(free),
                Err(error) => return Err(error),
            }
        }
        unreachable!("a directory has fewer names than there are numbers")
    }
}

/// The directory that a path leads to, and the name in it.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    let slash = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    match slash {
        0 => (b"/", path.get(1..).unwrap_or_default()),
        slash => (&path[..slash], &path[slash + 1..]),
    }
}
