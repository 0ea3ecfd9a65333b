//! Reads one state of the vault in several calls, while others write.
//!
//! Takes   a snapshot, or a request to make a temporary one, which lasts as long as it is read
//! Gives   the reading calls of `Vault`, with paths in that state
//! Never   changes anything, or reads outside of that state: a symlink that leads out of it is refused

use strongroom_filesystem::{
    self as filesystem, Attributes, HISTORY_NAME, InodeId, is_in_snapshot,
};
use strongroom_history::{NewRevision, RevisionId};

use crate::path::{Links, VaultPath, join};
use crate::request::history::RevisionInfo;
use crate::{Directory, Error, File, FileOptions, Result, Vault, Walk};

/// One state of the vault, to be read. Cheap to clone.
///
/// The files and listings that it gives stay of that state as well. An absolute symlink, or one that leads above the root, means the
/// living tree and is refused (`File(InvalidArgument)`); so is `..` in a path. `Revision` is the error when somebody removed the
/// state meanwhile.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let place = tempfile::tempdir()?;
/// # let folder = place.path().join("vault");
/// # use strongroom::{CreateOptions, Vault};
/// # let vault = Vault::create(&folder, CreateOptions::new())?.vault;
/// vault.write("/orders", "17 18")?;
/// vault.write("/sum", "35")?;
/// let state = vault.snapshot()?;
/// vault.write("/orders", "17 18 19")?;
/// assert_eq!((state.read("/orders")?, state.read("/sum")?), (b"17 18".to_vec(), b"35".to_vec()));
/// # drop(state);
/// # vault.close()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Snapshot {
    vault: Vault,
    id: RevisionId,
    /// Its root, below `.history`.
    top: Vec<u8>,
    /// Of a state that was taken for this.
    _own: Option<std::sync::Arc<Own>>,
}

/// A state that goes when nobody reads it any more.
struct Own {
    vault: Vault,
    id: RevisionId,
}

impl Drop for Own {
    fn drop(&mut self) {
        // A push may have taken it for its head: the next merge with that remote needs it.
        match self.vault.let_go_revision(self.id) {
            Ok(true) => {}
            Ok(false) => log::debug!("a temporary snapshot was pushed, and stays"),
            Err(error) => log::warn!("a temporary snapshot could not be removed: {error}"),
        }
    }
}

impl Vault {
    /// The state of now, to be read in as many calls as it takes, while others write. Taking it costs what changed since the newest
    /// snapshot; writers wait for a moment only. It goes when the last clone is dropped.
    ///
    /// After a crash, or if it was pushed to a remote, it stays as a snapshot without a message. A schedule removes it if its rule is about
    /// those too.
    ///
    /// # Errors
    /// `File(ReadOnly)` if the vault is open for reading only: read an earlier state then, by `at`; `File(NoSpace)`.
    pub fn snapshot(&self) -> Result<Snapshot> {
        let mut new = NewRevision {
            only_if_changed: true,
            ..NewRevision::default()
        };
        let taken = match self.take_revision(&new)? {
            Some(taken) => taken,
            None => {
                if let Some(newest) = self.revisions()?.pop()
                    && self.stays_as_now(&newest)
                {
                    return Ok(self.state(newest.id, None));
                }
                // Another reader's, which goes with that reader, or has gone already.
                new.only_if_changed = false;
                let taken = self.take_revision(&new)?;
                taken.ok_or_else(|| Error::Revision("no snapshot was taken".into()))?
            }
        };
        let own = Own {
            vault: self.clone(),
            id: taken.id,
        };
        Ok(self.state(taken.id, Some(own)))
    }

    /// Whether a snapshot was not taken only to be read, and is the state of now: what was that a moment ago may have gone, and then an older
    /// one is the newest.
    fn stays_as_now(&self, one: &RevisionInfo) -> bool {
        if one.message.is_empty() && one.tags.is_empty() {
            return false;
        }
        let found = self.differences(one.id, None::<RevisionId>, "/", |_| Err(Error::Changed));
        found.is_ok()
    }

    /// A snapshot, to be read. `selector`: as `strongroom log --help` lists them: a tag `t:…`, a date `d:…`, the beginning of an id.
    ///
    /// # Errors
    /// As `select_revision`.
    pub fn at(&self, selector: &str) -> Result<Snapshot> {
        let id = self.select_revision(selector)?.id;
        Ok(self.state(id, None))
    }

    fn state(&self, id: RevisionId, own: Option<Own>) -> Snapshot {
        let history = join(b"/", HISTORY_NAME);
        Snapshot {
            vault: self.clone(),
            id,
            top: join(&history, id.to_string().as_bytes()),
            _own: own.map(std::sync::Arc::new),
        }
    }
}

impl Snapshot {
    /// Its name among the snapshots.
    #[must_use]
    pub fn id(&self) -> RevisionId {
        self.id
    }

    /// As `Vault::attributes`.
    ///
    /// # Errors
    /// As `Vault::attributes`; see also `Snapshot`.
    pub fn attributes(&self, path: impl VaultPath, links: Links) -> Result<Attributes> {
        let path = self.below(path)?;
        self.inside(self.vault.attributes(path, links), |node| node.inode)
    }

    /// As `Vault::exists`.
    ///
    /// # Errors
    /// As `Vault::exists`; see also `Snapshot`.
    pub fn exists(&self, path: impl VaultPath) -> Result<bool> {
        match self.attributes(path, Links::Follow) {
            Ok(_) => Ok(true),
            Err(Error::File(filesystem::Error::NotFound)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Opens a file, to read it.
    ///
    /// # Errors
    /// As `Vault::open_file`; see also `Snapshot`.
    pub fn open_file(&self, path: impl VaultPath) -> Result<File> {
        let path = self.below(path)?;
        let opened = self.vault.open_file(path, FileOptions::new().read());
        self.inside(opened, File::inode)
    }

    /// The whole content of a file.
    ///
    /// # Errors
    /// As `open_file`.
    pub fn read(&self, path: impl VaultPath) -> Result<Vec<u8>> {
        self.open_file(path)?.read_whole()
    }

    /// The whole content of a file that is text.
    ///
    /// # Errors
    /// As `open_file`; `NotText` if it is not UTF-8.
    pub fn read_to_string(&self, path: impl VaultPath) -> Result<String> {
        String::from_utf8(self.read(path)?).map_err(|_| Error::NotText)
    }

    /// As `Vault::list`.
    ///
    /// # Errors
    /// As `Vault::list`; see also `Snapshot`.
    pub fn list(&self, path: impl VaultPath) -> Result<Directory> {
        let listed = self.vault.list_node(&self.below(path)?);
        Ok(self.inside(listed, |listed| listed.1)?.0)
    }

    /// As `Vault::walk`; the paths that it gives are those of `Snapshot`.
    ///
    /// # Errors
    /// As `Vault::walk`; see also `Snapshot`.
    pub fn walk(&self, path: impl VaultPath) -> Result<Walk> {
        self.attributes(path.path_bytes(), Links::Follow)?;
        let walk = self.vault.walk(self.below(path)?)?;
        Ok(walk.without_prefix(self.top.len()))
    }

    /// As `Vault::read_link`.
    ///
    /// # Errors
    /// As `Vault::read_link`; see also `Snapshot`.
    pub fn read_link(&self, path: impl VaultPath) -> Result<Vec<u8>> {
        self.attributes(path.path_bytes(), Links::Stay)?;
        self.vault.read_link(self.below(path)?)
    }

    /// As `Vault::xattr`.
    ///
    /// # Errors
    /// As `Vault::xattr`; see also `Snapshot`.
    pub fn xattr(
        &self,
        path: impl VaultPath,
        links: Links,
        name: impl AsRef<[u8]>,
    ) -> Result<Vec<u8>> {
        self.attributes(path.path_bytes(), links)?;
        self.vault.xattr(self.below(path)?, links, name)
    }

    /// As `Vault::xattrs`.
    ///
    /// # Errors
    /// As `Vault::xattrs`; see also `Snapshot`.
    pub fn xattrs(&self, path: impl VaultPath, links: Links) -> Result<Vec<Vec<u8>>> {
        self.attributes(path.path_bytes(), links)?;
        self.vault.xattrs(self.below(path)?, links)
    }

    /// Where `path` lies in the vault.
    fn below(&self, path: impl VaultPath) -> Result<Vec<u8>> {
        let path = path.path_bytes();
        let refused = if path.first() != Some(&b'/') {
            "a path must begin with /"
        } else if path.split(|byte| *byte == b'/').any(|name| name == b"..") {
            "a path in a snapshot cannot have `..`"
        } else {
            return Ok([&self.top[..], path].concat());
        };
        Err(Error::File(filesystem::Error::InvalidArgument(
            refused.into(),
        )))
    }

    /// Gives `found` if it is of a snapshot.
    fn inside<T>(&self, found: Result<T>, inode: impl Fn(&T) -> InodeId) -> Result<T> {
        match found {
            Ok(found) if is_in_snapshot(inode(&found)) => Ok(found),
            Ok(_) => Err(Error::File(filesystem::Error::InvalidArgument(
                "a symlink leads out of the snapshot".into(),
            ))),
            Err(Error::File(filesystem::Error::NotFound)) if !self.vault.exists(&self.top)? => {
                let why = format!("the snapshot {} was removed while it was read", self.id);
                Err(Error::Revision(why))
            }
            Err(error) => Err(error),
        }
    }
}
