//! Decides what this process is to a vault: its owner, or a client of its owner.
//!
//! Takes   a vault folder, and a function that gets its secret
//! Gives   a port, to which requests are sent; or a clear error if the owner cannot be reached
//! Never   holds the lock while a person is asked for a secret
//!
//! Invariants
//!  (1) If two processes race for a vault, one becomes its owner and the other its client. A process that fails to get the lock
//!      tries the socket again, and so on, until one of the two works or `OWNER_WAIT` has passed.
//!  (2) The owner drops the function that asks for the secret. A client keeps it, because it may have to take over.
//!  (3) A process that handed the vault over on request keeps only its keys. So it can come back if the other process never takes
//!      the vault, or takes it and later leaves.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use strongroom_crypto::Keyring;

use crate::folder::Folder;
use crate::folder::owner_lock::{Attempt, OwnerLock};
use crate::keyring::unlocked::Way;
use crate::open::{self, IfOwned, OpenOptions};
use crate::owner::client::{Client, Unanswered};
use crate::owner::port::Port;
use crate::request::{Access, Information, Request, Successor, WholeRequest};
use crate::retry::{OWNER_WAIT, Retry};
use crate::{Error, Result, Secret, seen};

/// How long who left a vault waits for the one who asked for it, before it comes back.
const SUCCESSOR_WAIT: Duration = Duration::from_secs(3);

/// Gives the secret of a vault when, and only if, this process has to open it by itself.
pub type SecretSource = Arc<dyn Fn() -> Result<Secret> + Send + Sync>;

/// What is needed to find a vault's owner, or become it.
pub(crate) struct Joining {
    pub(crate) folder: Folder,
    pub(crate) access: Access,
    pub(crate) options: OpenOptions,
    /// For a client.                                                                                          (2)
    pub(crate) secret: Mutex<Option<SecretSource>>,
    /// For one that owned the vault and left it to another.                                                    (3)
    left: Mutex<Option<Left>>,
}

/// The way back of a process that left a vault to another.
#[derive(Clone)]
struct Left {
    keyring: Keyring,
    /// Whether the other one may still be on its way.
    is_awaited: bool,
}

impl Joining {
    /// # Errors
    /// If the working directory, which a relative path begins at, is not there any more.
    pub(crate) fn new(
        folder: &Path,
        options: OpenOptions,
        secret: Option<SecretSource>,
    ) -> Result<Self> {
        Ok(Self {
            folder: Folder::new(folder).absolute()?,
            access: options.access,
            options,
            secret: Mutex::new(secret),
            left: Mutex::new(None),
        })
    }

    /// Keeps the way back, for a process that leaves the vault to another.                                     (3)
    pub(crate) fn keep_for_return(&self, keyring: Keyring) {
        *self.left.lock() = Some(Left {
            keyring,
            is_awaited: true,
        });
    }

    /// Asks the owner to make way, if there is one and it can be asked.
    fn ask_to_make_way(&self) {
        let asked = Client::connect(&self.folder, self.access, Successor::HasSecret);
        if let Ok(Some(owner)) = asked {
            // An older owner does not know the question; it stays.
            let _ = owner.ask(&Request::MakeWay);
        }
    }

    /// Says early that there is no vault, before anybody is asked for a secret.
    fn check_header(&self) -> Result<()> {
        let finished = self.folder.check_finished();
        match finished.and_then(|()| self.folder.header()) {
            Err(error @ (Error::InterruptedCreate | Error::InterruptedClone)) => {
                match OwnerLock::attempt(&self.folder)? {
                    Attempt::HeldByAnother => Err(Error::BeingCreated),
                    _ => Err(error),
                }
            }
            Err(error) => Err(error),
            Ok(_) if self.access == Access::ReadWrite => self.folder.check_is_no_backup(),
            Ok(_) => Ok(()),
        }
    }

    /// Becomes the owner.
    ///
    /// # Errors
    /// `InUse` if another process is.
    pub(crate) fn own(&self, secret: &Secret) -> Result<Port> {
        self.check_header()?;
        // An owner that is just closing, or someone who only looks, goes within moments.
        let mut retry = Retry::new(self.options.patience);
        loop {
            if let Some(port) = self.attempt(Way::Secret(secret))? {
                return Ok(port);
            }
            if self.options.if_owned == IfOwned::AskedToLeave && retry.is_slow() {
                self.ask_to_make_way();
            }
            if !retry.wait() {
                return Err(Error::InUse);
            }
        }
    }

    /// Waits until nobody owns the vault.
    ///
    /// # Errors
    /// `InUse` if somebody still does after `patience`.
    pub(crate) fn wait_until_free(&self, patience: Duration) -> Result<()> {
        self.check_header()?;
        let mut retry = Retry::new(patience);
        while let Attempt::HeldByAnother = OwnerLock::attempt(&self.folder)? {
            if retry.is_slow() {
                self.ask_to_make_way();
            }
            if !retry.wait() {
                return Err(Error::InUse);
            }
        }
        Ok(())
    }

    /// Connects to the owner; `None` if there is none.
    pub(crate) fn connect(&self) -> Result<Option<Port>> {
        self.check_header()?;
        let mut retry = Retry::new(OWNER_WAIT);
        loop {
            if let Some(client) = self.client()? {
                return Ok(Some(client));
            }
            match OwnerLock::attempt(&self.folder) {
                Ok(Attempt::HeldByAnother) => {}
                Ok(Attempt::Taken(_) | Attempt::NotWritable(_)) | Err(Error::NoLocks) => {
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
            if !retry.wait() {
                return Err(Error::OwnerUnreachable);
            }
        }
    }

    /// Connects to the owner, or becomes it.                                                                  (1)
    pub(crate) fn own_or_connect(&self) -> Result<Port> {
        let left = self.left.lock().clone();
        let source = self.secret.lock().clone();
        let joined = match (left, source) {
            (Some(left), _) => self.come_back(&left)?,
            (None, Some(source)) => self.own_or_connect_with(&source)?,
            (None, None) => return self.connect()?.ok_or(Error::OwnerGone),
        };
        match joined {
            Port::Owner(_) => {
                self.secret.lock().take(); // (2)
                self.left.lock().take();
            }
            _ => {
                if let Some(left) = self.left.lock().as_mut() {
                    left.is_awaited = false;
                }
            }
        }
        Ok(joined)
    }

    /// Connects to the one whom the vault was left to, or owns it again.                                        (3)
    fn come_back(&self, left: &Left) -> Result<Port> {
        let mut retry = Retry::new(OWNER_WAIT);
        let awaited_until = Instant::now() + SUCCESSOR_WAIT;
        loop {
            if let Some(port) = self.client()? {
                return Ok(port);
            }
            let is_awaited = left.is_awaited && Instant::now() < awaited_until;
            if !is_awaited && let Some(port) = self.attempt(Way::Keys(&left.keyring))? {
                return Ok(port);
            }
            if !retry.wait() {
                return Err(Error::OwnerUnreachable);
            }
        }
    }

    fn own_or_connect_with(&self, source: &SecretSource) -> Result<Port> {
        let mut secret = None;
        let mut retry = Retry::new(OWNER_WAIT);
        loop {
            match &secret {
                None => match self.connect()? {
                    Some(port) => return Ok(port),
                    // A person may take minutes to answer: others get their chance meanwhile.
                    None => {
                        secret = Some(source()?);
                        retry = Retry::new(OWNER_WAIT);
                        continue;
                    }
                },
                Some(secret) => {
                    if let Some(port) = self.attempt(Way::Secret(secret))? {
                        return Ok(port);
                    }
                    if let Some(port) = self.client()? {
                        return Ok(port);
                    }
                }
            }
            if !retry.wait() {
                return Err(Error::OwnerUnreachable);
            }
        }
    }

    fn client(&self) -> Result<Option<Port>> {
        let comes_back = self.left.lock().is_some();
        let successor = if comes_back || self.secret.lock().is_some() {
            Successor::HasSecret
        } else {
            Successor::HasNone
        };
        let Some(client) = Client::connect(&self.folder, self.access, successor)? else {
            return Ok(None);
        };
        // The owner may have been asked to open a vault that nobody means here: the path may lead elsewhere since.
        match client.ask(&Request::Whole(WholeRequest::Information)) {
            Ok(response) => {
                let found = Information::try_from(response)?;
                seen::check_owned(&self.folder, &found.fingerprint, &self.options.trust)?;
                Ok(Some(Port::Client(Arc::new(client))))
            }
            Err(Unanswered::NotDone | Unanswered::Unknown) => Ok(None),
            Err(Unanswered::Failed(error)) => Err(error),
        }
    }

    /// Takes the lock and opens; `None` if another has the lock.
    fn attempt(&self, way: Way<'_>) -> Result<Option<Port>> {
        let lock = match OwnerLock::attempt(&self.folder) {
            Ok(Attempt::Taken(lock)) => Some(lock),
            Ok(Attempt::HeldByAnother) => return Ok(None),
            Ok(Attempt::NotWritable(_)) | Err(Error::NoLocks)
                if self.access == Access::ReadOnly =>
            {
                None
            }
            Ok(Attempt::NotWritable(source)) => {
                return Err(Error::Io {
                    what: "opening the vault for writing (try reading only)",
                    source,
                });
            }
            Err(error) => return Err(error),
        };
        let owner = open::open(&self.folder, lock, way, self.access, &self.options)?;
        Ok(Some(Port::Owner(Arc::new(owner))))
    }
}
