//! The public API of a vault: the same calls whether this process owns it or another does.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use strongroom_filesystem::{
    self as filesystem, Attributes, Filesystem, InodeId, NodeKind, RenameMode, SetAttributes,
};

use crate::directory::Directory;
use crate::file::{File, FileOptions};
use crate::inbox_looks::InboxLooks;
use crate::join::{Joining, SecretSource};
use crate::limits::PUSH_PAGE;
use crate::observer::{Observer, Subscription};
use crate::owner::client::{Client, Unanswered};
use crate::owner::is_changing;
use crate::owner::port::Port;
use crate::path::{Links, VaultPath};
use crate::remote_turn::RemoteTurns;
use crate::request::frame::{ByteBuffer, Bytes};
use crate::request::{Access, Opening, Request, Response};
use crate::waits::Waits;
use crate::{Error, OpenOptions, Result, Secret};

/// An open vault. Cheap to clone; usable from many threads.
///
/// Paths are text, bytes or `std::path::Path`, begin with `/` and are resolved as POSIX does, `..` and symlinks included.
/// The superuser's rights apply: who opens a vault may do everything in it. New nodes belong to the user of the
/// process.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let place = tempfile::tempdir()?;
/// # let folder = place.path().join("vault");
/// use strongroom::{CreateOptions, OpenOptions, Secret, Vault};
///
/// let created = Vault::create(&folder, CreateOptions::new())?;
/// created.vault.write("/hello.txt", "hello")?;
/// created.vault.close()?;
///
/// let secret = Secret::RecoveryCode(created.recovery_code);
/// let vault = Vault::open(&folder, secret, OpenOptions::default())?;
/// assert_eq!(vault.read("/hello.txt")?, b"hello");
/// vault.close()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Vault {
    pub(crate) shared: Arc<Shared>,
}

/// What all clones of a `Vault` share.
pub(crate) struct Shared {
    pub(crate) port: RwLock<Port>,
    pub(crate) joining: Joining,
    /// Counts what files write, so that it is known whether all of it is durable.
    pub(crate) writes: AtomicU64,
    /// One is taken while something moves to or from a remote: a session pushes to one at a time.
    pub(crate) remote_turns: Arc<RemoteTurns>,
    /// How many objects a publication names at most.
    pub(crate) push_page: AtomicU64,
    /// What pulls from remotes left until others have ended their pushes.
    pub(crate) waits: Mutex<HashMap<u64, Waits>>,
    /// What was looked at of inboxes, and said.
    pub(crate) inbox: Mutex<InboxLooks>,
    /// Held by the one that waits for a lock at another process.
    pub(crate) lock_turn: Mutex<()>,
    /// Held by the one that makes a backup: the owner keeps the state of one for each session.
    pub(crate) backup_turn: Mutex<()>,
    /// Owners that have gone: what they acknowledged may be lost.
    gone: Mutex<Vec<Arc<Client>>>,
    /// Why not everything was durable when this process left the vault to another, until `close` has said it.
    pub(crate) unsaid: Mutex<Option<Error>>,
    /// Held by the one that closes the vault.
    close_turn: Mutex<()>,
}

impl Shared {
    /// Keeps in mind what an owner acknowledged that has gone.
    fn note_gone(&self, port: Port) {
        if let Port::Client(client) = port {
            self.gone.lock().push(client);
        }
    }

    /// Says so, once, if an owner has gone with changes that it had acknowledged and no sync had covered.
    ///
    /// # Errors
    /// `OwnerGone`.
    pub(crate) fn check_no_loss(&self) -> Result<()> {
        let mut gone = self.gone.lock();
        // Each is asked: a loss is not said again.
        let lossy = gone.iter().filter(|client| client.takes_unsynced()).count();
        // Another thread may have an answer of one of them, and not have noted it yet.
        gone.retain(|client| Arc::strong_count(client) > 1);
        match lossy {
            0 => Ok(()),
            _ => Err(Error::OwnerGone),
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Port::Client(client) = self.port.get_mut() {
            // Nobody is left to tell; who wants to know calls `close`.
            let _ = client.finish();
        }
    }
}

impl std::fmt::Debug for Vault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vault")
            .field("is_owner", &self.is_owner())
            .finish_non_exhaustive()
    }
}

impl Vault {
    /// Opens the vault in `folder` with `secret` and owns it.
    ///
    /// Takes about a second if `secret` is a passphrase.
    ///
    /// # Errors
    /// `InUse` if another process owns it; `WrongSecret`, `NotAVault`, `Damaged`, `UnknownFormat`, `GenerationBehind`.
    pub fn open(folder: impl AsRef<Path>, secret: Secret, options: OpenOptions) -> Result<Self> {
        // An owner never needs it again: whoever owns a vault has no owner whom it could succeed.
        let joining = Joining::new(folder.as_ref(), options, None)?;
        Ok(Self::new(joining.own(&secret)?, joining))
    }

    /// Uses the vault in `folder` through the process that owns it, or owns it with the secret that `source` gives.
    ///
    /// `source` is called only if nobody owns the vault now, or when its owner leaves later and this process takes over.
    /// It is dropped as soon as this process owns the vault.
    ///
    /// # Errors
    /// As `open`, but `OwnerUnreachable` if an owner does not answer.
    pub fn open_or_connect(
        folder: impl AsRef<Path>,
        source: SecretSource,
        options: OpenOptions,
    ) -> Result<Self> {
        let joining = Joining::new(folder.as_ref(), options, Some(source))?;
        Ok(Self::new(joining.own_or_connect()?, joining))
    }

    /// Waits until no process owns the vault in `folder`, at most for `patience`. A program that has it open, and no file in
    /// it, is asked to go on through the next owner, which has that `access`. A push does not end for an owner that only reads.
    ///
    /// # Errors
    /// `InUse` if one still has; `NotAVault`, `NoLocks`.
    pub fn wait_until_free(
        folder: impl AsRef<Path>,
        access: Access,
        patience: Duration,
    ) -> Result<()> {
        let options = OpenOptions {
            access,
            ..OpenOptions::default()
        };
        Joining::new(folder.as_ref(), options, None)?.wait_until_free(patience)
    }

    /// Asks a process that only holds the vault in `folder` open for others to let go of it. True if it does: then wait with
    /// `wait_until_free`.
    ///
    /// # Errors
    /// Those of `connect_if_owned`.
    pub fn let_go(folder: impl AsRef<Path>) -> Result<bool> {
        let mut options = OpenOptions::read_only();
        // Nothing of the vault is used.
        options.trust.seen = crate::SeenRecords::Nowhere;
        let Some(vault) = Self::connect_if_owned(folder, options)? else {
            return Ok(false);
        };
        match vault.ask_for(&Request::MakeWay) {
            // It went before it was asked.
            Err(Error::OwnerGone) => Ok(false),
            answer => answer,
        }
    }

    /// Uses the vault in `folder` through the process that owns it; `None` if nobody does.
    ///
    /// # Errors
    /// `NotAVault`, `InterruptedCreate`, `OwnerUnreachable`.
    pub fn connect_if_owned(
        folder: impl AsRef<Path>,
        options: OpenOptions,
    ) -> Result<Option<Self>> {
        let joining = Joining::new(folder.as_ref(), options, None)?;
        Ok(joining.connect()?.map(|port| Self::new(port, joining)))
    }

    pub(crate) fn new(port: Port, joining: Joining) -> Self {
        let shared = Arc::new(Shared {
            port: RwLock::new(port),
            joining,
            writes: AtomicU64::default(),
            remote_turns: Arc::default(),
            push_page: AtomicU64::new(PUSH_PAGE as u64),
            waits: Mutex::default(),
            inbox: Mutex::default(),
            lock_turn: Mutex::default(),
            backup_turn: Mutex::default(),
            gone: Mutex::default(),
            unsaid: Mutex::default(),
            close_turn: Mutex::default(),
        });
        shared.can_leave(&shared.port.read());
        Self { shared }
    }

    /// Whether both are clones of one opening.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    pub(crate) fn port(&self) -> Port {
        self.shared.port.read().clone()
    }

    /// Asks, and if the owner has left, becomes the owner or finds the next one.
    pub(crate) fn ask(&self, request: &Request<'_>) -> Result<(Port, Response)> {
        if self.shared.joining.access == Access::ReadOnly && request.changes() {
            return Err(Error::File(filesystem::Error::ReadOnly));
        }
        loop {
            let port = self.port();
            match port.ask(request) {
                Ok(response) => return Ok((port, response)),
                Err(Unanswered::Failed(error)) => return Err(error),
                Err(Unanswered::Unknown) => return Err(Error::OwnerGone),
                Err(Unanswered::NotDone) => self.succeed(&port)?,
            }
        }
    }

    /// Replaces the port that leads to an owner who has gone.
    pub(crate) fn succeed(&self, gone: &Port) -> Result<()> {
        let mut port = self.shared.port.write();
        if port.is_same(gone) {
            let next = self.shared.joining.own_or_connect()?;
            self.shared.note_gone(std::mem::replace(&mut *port, next));
            self.shared.can_leave(&port);
        }
        Ok(())
    }

    /// The same, for the value that the request is answered with.
    pub(crate) fn ask_for<T: TryFrom<Response, Error = Error>>(
        &self,
        request: &Request<'_>,
    ) -> Result<T> {
        self.ask(request)?.1.try_into()
    }

    // ---- content

    /// Opens a file.
    ///
    /// # Errors
    /// `NotFound`, `Exists`, `IsADirectory`; `NotSupported` for pipes, sockets and devices.
    pub fn open_file(&self, path: impl VaultPath, options: FileOptions) -> Result<File> {
        let opening = options.checked()?;
        let path = path.path_bytes();
        let answer = self.ask(&Request::Open {
            path: Bytes(path),
            opening,
        })?;
        File::new(self, answer, opening, Some(path))
    }

    /// A new file without a name in the directory `path`; gone when it is closed, unless `name_file` names it.
    ///
    /// # Errors
    /// `NotADirectory` if `path` is none.
    pub fn unnamed_file(&self, path: impl VaultPath, mode: u32) -> Result<File> {
        let answer = self.ask(&Request::OpenUnnamed {
            path: Bytes(path.path_bytes()),
            mode,
        })?;
        let opening = Opening {
            read: true,
            write: true,
            ..Opening::default()
        };
        File::new(self, answer, opening, None)
    }

    /// Gives an open file a further name: of an unnamed file, its first.
    ///
    /// # Errors
    /// `Exists` if the name is taken; `InvalidArgument` if `file` was opened through another `Vault`.
    pub fn name_file(&self, file: &File, path: impl VaultPath) -> Result<()> {
        let (port, handle) = file.at();
        if !port.is_same(&self.port()) {
            return Err(Error::File(filesystem::Error::InvalidArgument(
                "the file belongs to another vault handle".into(),
            )));
        }
        let request = Request::Name {
            handle,
            path: Bytes(path.path_bytes()),
        };
        port.ask_here(&request).map(drop)
    }

    /// The whole content of a file.
    ///
    /// # Errors
    /// As `open_file`.
    pub fn read(&self, path: impl VaultPath) -> Result<Vec<u8>> {
        self.open_file(path, FileOptions::new().read())?
            .read_whole()
    }

    /// The whole content of a file that is text.
    ///
    /// # Errors
    /// As `open_file`; `NotText` if it is not UTF-8.
    pub fn read_to_string(&self, path: impl VaultPath) -> Result<String> {
        String::from_utf8(self.read(path)?).map_err(|_| Error::NotText)
    }

    /// Makes or empties a file and writes `content`. Not atomic: `replace` is.
    ///
    /// # Errors
    /// As `open_file`, and `NoSpace`.
    pub fn write(&self, path: impl VaultPath, content: impl AsRef<[u8]>) -> Result<()> {
        let file = self.open_file(path, FileOptions::new().write().create().truncate())?;
        file.write_all_at(content.as_ref(), 0)
    }

    /// Lists a directory.
    ///
    /// # Errors
    /// `NotADirectory`, `NotFound`.
    pub fn list(&self, path: impl VaultPath) -> Result<Directory> {
        Ok(self.list_node(path.path_bytes())?.0)
    }

    /// The same with the number of the directory.
    pub(crate) fn list_node(&self, path: &[u8]) -> Result<(Directory, InodeId)> {
        let opening = Opening {
            read: true,
            directory: true,
            ..Opening::default()
        };
        let (port, response) = self.ask(&Request::Open {
            path: Bytes(path),
            opening,
        })?;
        let (handle, node): (_, Attributes) = response.try_into()?;
        let directory = Directory::new(port, handle);
        match node.kind {
            NodeKind::Directory => Ok((directory, node.inode)),
            _ => Err(Error::File(filesystem::Error::NotADirectory)),
        }
    }

    // ---- names

    /// What `stat` shows of the node at `path`.
    ///
    /// # Errors
    /// `NotFound`, `NotADirectory`, `TooManySymlinks`.
    pub fn attributes(&self, path: impl VaultPath, links: Links) -> Result<Attributes> {
        let path = Bytes(path.path_bytes());
        self.ask_for(&Request::Attributes { path, links })
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// `Exists`; `NotFound` if the directory that should hold it is missing.
    pub fn make_directory(&self, path: impl VaultPath, mode: u32) -> Result<Attributes> {
        self.make_node(path, NodeKind::Directory, mode, 0)
    }

    /// Makes a node of any kind but a symlink: an empty file, a directory, a pipe, a socket, a device.
    ///
    /// `rdev`: the device number of a device, else 0.
    ///
    /// # Errors
    /// As `make_directory`.
    pub fn make_node(
        &self,
        path: impl VaultPath,
        kind: NodeKind,
        mode: u32,
        rdev: u64,
    ) -> Result<Attributes> {
        let (path, target) = (Bytes(path.path_bytes()), Bytes(&[]));
        self.ask_for(&Request::MakeNode {
            path,
            kind,
            mode,
            rdev,
            target,
        })
    }

    /// Makes a symbolic link at `path` that points to `target`, which need not exist.
    ///
    /// # Errors
    /// As `make_directory`.
    pub fn make_symlink(&self, target: impl VaultPath, path: impl VaultPath) -> Result<Attributes> {
        let (path, target) = (Bytes(path.path_bytes()), Bytes(target.path_bytes()));
        self.ask_for(&Request::MakeNode {
            path,
            kind: NodeKind::Symlink,
            mode: 0o777,
            rdev: 0,
            target,
        })
    }

    /// Gives the node at `path`, a symlink itself included, the further name `new_path`.
    ///
    /// # Errors
    /// `Exists`; `NotPermitted` for directories.
    pub fn link(&self, path: impl VaultPath, new_path: impl VaultPath) -> Result<Attributes> {
        let (path, new_path) = (Bytes(path.path_bytes()), Bytes(new_path.path_bytes()));
        self.ask_for(&Request::Link { path, new_path })
    }

    /// Where a symlink points.
    ///
    /// # Errors
    /// `InvalidArgument` if it is none.
    pub fn read_link(&self, path: impl VaultPath) -> Result<Vec<u8>> {
        let path = Bytes(path.path_bytes());
        let target: ByteBuffer = self.ask_for(&Request::ReadLink { path })?;
        Ok(target.0)
    }

    /// Removes the name of anything but a directory.
    ///
    /// # Errors
    /// `IsADirectory`, `NotFound`.
    pub fn remove_file(&self, path: impl VaultPath) -> Result<()> {
        let path = Bytes(path.path_bytes());
        self.ask_for(&Request::RemoveFile { path })
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `NotEmpty`, `NotADirectory`, `NotFound`.
    pub fn remove_directory(&self, path: impl VaultPath) -> Result<()> {
        let path = Bytes(path.path_bytes());
        self.ask_for(&Request::RemoveDirectory { path })
    }

    /// Moves a name, atomically; see `RenameMode`.
    ///
    /// # Errors
    /// `InvalidArgument` for a directory moved into itself; `Exists`, `NotEmpty`, `IsADirectory`, `NotADirectory`.
    pub fn rename(
        &self,
        path: impl VaultPath,
        new_path: impl VaultPath,
        mode: RenameMode,
    ) -> Result<()> {
        let (path, new_path) = (Bytes(path.path_bytes()), Bytes(new_path.path_bytes()));
        self.ask_for(&Request::Rename {
            path,
            new_path,
            mode,
        })
    }

    /// Changes mode, owner, group, times or size.
    ///
    /// # Errors
    /// `NotFound`; `InvalidArgument` for the size of something that has none.
    pub fn set_attributes(
        &self,
        path: impl VaultPath,
        links: Links,
        set: &SetAttributes,
    ) -> Result<Attributes> {
        self.ask_for(&Request::SetAttributes {
            path: Bytes(path.path_bytes()),
            links,
            set: set.clone(),
        })
    }

    // ---- the owner

    /// Whether this process owns the vault.
    #[must_use]
    pub fn is_owner(&self) -> bool {
        matches!(self.port(), Port::Owner(_))
    }

    /// The vault folder: an absolute path.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.shared.joining.folder.path()
    }

    /// The file system below, for a mount; `None` if another process owns the vault.
    ///
    /// Changes made through it are not told to observers: who makes them knows them.
    #[must_use]
    pub fn filesystem(&self) -> Option<Filesystem> {
        match self.port() {
            Port::Owner(owner) => {
                owner.session.vault.lend();
                Some(owner.session.vault.filesystem.clone())
            }
            _ => None,
        }
    }

    /// Tells `observer` of every change that is made through any `Vault`, before its maker is answered.
    ///
    /// # Errors
    /// `OwnerOnly` if another process owns the vault.
    pub fn subscribe(&self, observer: Arc<dyn Observer>) -> Result<Subscription> {
        match self.port() {
            Port::Owner(owner) => {
                owner.session.vault.lend();
                Ok(owner.session.vault.observers.subscribe(observer))
            }
            Port::Client(_) | Port::Left => Err(Error::OwnerOnly("watching for changes")),
            Port::Closed => Err(Error::Closed),
        }
    }

    /// How many other processes (or openings in this one) use the vault through this owner.
    #[must_use]
    pub fn client_count(&self) -> usize {
        match self.port() {
            Port::Owner(owner) => owner.client_count(),
            _ => 0,
        }
    }

    /// Closes the vault: waits for its clients, makes everything durable, lets others own it.
    ///
    /// All clones of this `Vault` and all files opened through it fail with `Closed` from now on. Dropping the last
    /// clone does the same, but tells nobody of an error. Others can own the vault once those files are dropped too.
    ///
    /// # Errors
    /// If something could not be made durable, also when the vault was left to another process before; `OwnerGone` as `sync`.
    pub fn close(&self) -> Result<()> {
        // A second caller returns when everything is durable too; but not an observer, for whom the first one waits.
        let _turn = match is_changing() {
            true => self.shared.close_turn.try_lock(),
            false => Some(self.shared.close_turn.lock()),
        };
        // Not held while it closes: what others ask meanwhile is refused, so that their changes end.
        let port = std::mem::replace(&mut *self.shared.port.write(), Port::Closed);
        match port {
            Port::Owner(owner) => owner.close()?,
            Port::Client(client) => client.finish()?,
            Port::Left | Port::Closed => {}
        }
        self.shared.check_no_loss()?;
        let unsaid = self.shared.unsaid.lock().take();
        unsaid.map_or(Ok(()), Err)
    }
}
