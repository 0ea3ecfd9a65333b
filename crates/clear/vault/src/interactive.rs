//! Transactions that read before they decide: they read, gather changes, and make all of the changes or none.
//!
//! Takes   reads, and the changes that follow from them
//! Gives   all changes made, if nothing that was read has changed since; an error if something has
//! Never   holds a lock, or makes anybody wait, before the commit
//!
//! Invariants
//!  (1) The commit requires that everything that was read, or was found missing, is unchanged.

use std::collections::BTreeMap;

use strongroom_filesystem::{self as filesystem, Attributes, Durability, RenameMode};

use crate::path::{Links, VaultPath};
use crate::{Error, FileOptions, Operation, Result, Vault};

/// A transaction that was begun; see `Vault::begin`. Dropping it is rolling back.
pub struct Transaction {
    vault: Vault,
    /// What was read, by path. (1)
    reads: BTreeMap<(Vec<u8>, Follows), Seen>,
    operations: Vec<Operation>,
    /// What `operations` change.
    changed: Vec<Vec<u8>>,
}

/// Whether a symlink at the end was followed.
type Follows = bool;

/// What was at a path.
#[derive(Clone, PartialEq, Eq)]
enum Seen {
    Nothing,
    Node(Attributes),
}

impl Vault {
    /// Begins a transaction that reads before it decides what to change.
    ///
    /// Reads see what is in the vault now. Changes are gathered, and nobody sees them before `commit`, not even this transaction: to
    /// read what it is about to change, read first. Nobody waits for it and nothing is locked; instead `commit` fails with `Changed`
    /// if anything that was read, or was found missing, is another by then, and nothing has happened: begin again. The bounds are
    /// those of `Vault::transaction`; each path that was read counts as an operation.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let place = tempfile::tempdir()?;
    /// # let folder = place.path().join("vault");
    /// # use strongroom::{CreateOptions, Error, Vault};
    /// # let vault = Vault::create(&folder, CreateOptions::new())?.vault;
    /// use strongroom::filesystem::Durability;
    ///
    /// vault.write("/number", "41")?;
    /// loop {
    ///     let mut transaction = vault.begin();
    ///     let number: u64 = transaction.read_to_string("/number")?.parse()?;
    ///     transaction.write("/number", (number + 1).to_string());
    ///     transaction.write("/log", format!("was {number}"));
    ///     match transaction.commit(Durability::OnReturn) {
    ///         Err(Error::Changed) => continue, // somebody else was faster
    ///         committed => break committed?,
    ///     }
    /// }
    /// assert_eq!(vault.read("/number")?, b"42");
    /// # vault.close()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn begin(&self) -> Transaction {
        Transaction {
            vault: self.clone(),
            reads: BTreeMap::new(),
            operations: Vec::new(),
            changed: Vec::new(),
        }
    }
}

impl Transaction {
    // ---- reads

    /// What `stat` shows of the node at `path`.
    ///
    /// # Errors
    /// As `Vault::attributes`; `Changed` if it is another than this transaction read before; `InvalidArgument` if this transaction
    /// changes something at, above or below `path`. True of every read.
    pub fn attributes(&mut self, path: impl VaultPath, links: Links) -> Result<Attributes> {
        let path = path.path_bytes();
        self.check_unchanged(path)?;
        match self.vault.attributes(path, links) {
            Ok(node) => {
                self.note(path, links == Links::Follow, Seen::Node(node.clone()))?;
                Ok(node)
            }
            Err(error) => Err(self.missing(path, error)),
        }
    }

    /// Whether something is at `path`; a dangling symlink is not.
    ///
    /// # Errors
    /// As `attributes`.
    pub fn exists(&mut self, path: impl VaultPath) -> Result<bool> {
        match self.attributes(path, Links::Follow) {
            Ok(_) => Ok(true),
            Err(Error::File(filesystem::Error::NotFound)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The whole content of a file.
    ///
    /// # Errors
    /// As `Vault::read` and `attributes`; `Changed` if somebody writes to it meanwhile.
    pub fn read(&mut self, path: impl VaultPath) -> Result<Vec<u8>> {
        let path = path.path_bytes();
        self.check_unchanged(path)?;
        let file = match self.vault.open_file(path, FileOptions::new().read()) {
            Ok(file) => file,
            Err(error) => return Err(self.missing(path, error)),
        };
        let before = file.attributes()?;
        let content = file.read_whole()?;
        if marks(&file.attributes()?) != marks(&before) {
            return Err(Error::Changed);
        }
        self.note(path, true, Seen::Node(before))?;
        Ok(content)
    }

    /// The whole content of a file that is text.
    ///
    /// # Errors
    /// As `read`; `NotText` if it is not UTF-8.
    pub fn read_to_string(&mut self, path: impl VaultPath) -> Result<String> {
        String::from_utf8(self.read(path)?).map_err(|_| Error::NotText)
    }

    /// The names in a directory, sorted. That the same names are there is required, not that their nodes stay as they are.
    ///
    /// # Errors
    /// As `Vault::list` and `attributes`; `Changed` if somebody makes or removes a name meanwhile.
    pub fn names(&mut self, path: impl VaultPath) -> Result<Vec<Vec<u8>>> {
        let path = path.path_bytes();
        let before = self.attributes(path, Links::Follow)?;
        let listed = self.vault.list(path)?.map(|entry| Ok(entry?.name));
        let mut names: Vec<Vec<u8>> = listed.collect::<Result<_>>()?;
        if marks(&self.vault.attributes(path, Links::Follow)?) != marks(&before) {
            return Err(Error::Changed);
        }
        names.sort_unstable();
        Ok(names)
    }

    // ---- changes: what is wrong with one, `commit` says

    /// Makes a file, or replaces the content of the one that is there.
    pub fn write(&mut self, path: impl VaultPath, content: impl AsRef<[u8]>) -> &mut Self {
        self.add(Operation::WriteFile {
            path: path.path_bytes().to_vec(),
            mode: 0o644,
            content: content.as_ref().to_vec(),
        })
    }

    /// Makes a directory.
    pub fn make_directory(&mut self, path: impl VaultPath, mode: u32) -> &mut Self {
        let path = path.path_bytes().to_vec();
        self.add(Operation::MakeDirectory { path, mode })
    }

    /// Moves a name.
    pub fn rename(
        &mut self,
        path: impl VaultPath,
        new_path: impl VaultPath,
        mode: RenameMode,
    ) -> &mut Self {
        self.add(Operation::Rename {
            path: path.path_bytes().to_vec(),
            new_path: new_path.path_bytes().to_vec(),
            mode,
        })
    }

    /// Removes the name of anything but a directory.
    pub fn remove_file(&mut self, path: impl VaultPath) -> &mut Self {
        let path = path.path_bytes().to_vec();
        self.add(Operation::RemoveFile { path })
    }

    /// Adds any other operation.
    pub fn add(&mut self, operation: Operation) -> &mut Self {
        let paths = operation.paths();
        self.changed.extend(paths.into_iter().map(<[u8]>::to_vec));
        self.operations.push(operation);
        self
    }

    // ---- the end

    /// Carries out the changes, all or none, if nothing that was read is another by now.
    ///
    /// # Errors
    /// `Changed` if something is; begin again. Else as `Vault::transaction`, the index counted from the first change.
    pub fn commit(self, durability: Durability) -> Result<()> {
        let reads = self.reads.into_iter();
        let mut operations: Vec<Operation> = reads
            .map(|((path, follows), seen)| {
                let links = match follows {
                    true => Links::Follow,
                    false => Links::Stay,
                };
                match seen {
                    Seen::Nothing => Operation::RequireMissing { path, links },
                    Seen::Node(seen) => Operation::RequireUnchanged { path, links, seen },
                }
            })
            .collect();
        let required = operations.len();
        operations.extend(self.operations);
        match self.vault.transaction(&operations, durability) {
            // Also what is gone, or there, or in the way by now.
            Err(Error::Operation { index, .. }) if index < required => Err(Error::Changed),
            Err(Error::Operation { index, error }) => Err(Error::Operation {
                index: index - required,
                error,
            }),
            result => result,
        }
    }

    /// Ends the transaction without a change, as dropping it does.
    pub fn roll_back(self) {}

    /// Refuses to read what this transaction changes: it would see the state before.
    fn check_unchanged(&self, path: &[u8]) -> Result<()> {
        let is_below = |path: &[u8], above: &[u8]| {
            let rest = path.strip_prefix(above);
            rest.is_some_and(|rest| rest.is_empty() || above.ends_with(b"/") || rest[0] == b'/')
        };
        // A change in a directory changes the directory, and one that is moved takes with it what lies below.
        let touches = |changed: &Vec<u8>| is_below(path, changed) || is_below(changed, path);
        match self.changed.iter().any(touches) {
            true => Err(Error::File(filesystem::Error::InvalidArgument(
                "in a transaction, read a path before you change it".into(),
            ))),
            false => Ok(()),
        }
    }

    /// Notes that nothing was at `path`, if that is what `error` says.
    fn missing(&mut self, path: &[u8], error: Error) -> Error {
        if !matches!(error, Error::File(filesystem::Error::NotFound)) {
            return error;
        }
        let noted = match self.vault.attributes(path, Links::Stay) {
            // A symlink that points to nothing: both are required.
            Ok(symlink) => self
                .note(path, false, Seen::Node(symlink))
                .and_then(|()| self.note(path, true, Seen::Nothing)),
            Err(_) => self.note(path, false, Seen::Nothing),
        };
        match noted {
            Ok(()) => error,
            Err(changed) => changed,
        }
    }

    /// (1)
    fn note(&mut self, path: &[u8], follows: Follows, seen: Seen) -> Result<()> {
        let same = |before: &Seen| match (before, &seen) {
            (Seen::Node(before), Seen::Node(now)) => marks(before) == marks(now),
            (before, now) => before == now,
        };
        match self.reads.get(&(path.to_vec(), follows)) {
            Some(before) if !same(before) => Err(Error::Changed),
            Some(_) => Ok(()),
            None => {
                self.reads.insert((path.to_vec(), follows), seen);
                Ok(())
            }
        }
    }
}

/// What every change of a node changes.
fn marks(
    node: &Attributes,
) -> (
    filesystem::InodeId,
    u64,
    filesystem::Timestamp,
    filesystem::Timestamp,
) {
    (node.inode, node.size, node.mtime, node.ctime)
}
