//! Changes who can unlock a vault.
//!
//! Takes   a vault folder that no process has open, and a secret
//! Gives   the header with a key slot more, fewer or changed
//! Never   changes keys beside a running file system: what is sealed after the change is sealed under its keys
//!
//! Invariants
//!  (1) Order: header, then replica file, then the generation in the metadata. A cut anywhere leaves a vault that the
//!      next opening finishes.

use std::path::Path;

use strongroom_crypto::{
    Changed, KeyError, NewKey, NewSlot, Passphrase, Secret, SlotInfo, SystemRandom, UnlockError,
};
use strongroom_format::SlotId;

use crate::create::passphrase_cost;
use crate::folder::{Folder, HEADER, REPLICA};
use crate::join::{OWNER_WAIT, Retry};
use crate::open::{Unlocked, now_s, write_generation};
use crate::owner_lock::{Attempt, OwnerLock};
use crate::request::Access;
use crate::{Error, Result};

/// The keys of a vault, held alone: nobody can open the vault until this is dropped.
pub struct Keys {
    folder: Folder,
    unlocked: Unlocked,
    store: strongroom_metadata::Store,
    _lock: OwnerLock,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys").finish_non_exhaustive()
    }
}

/// What everybody may know about the key slots of the vault in `folder`: nobody vouches for it.
///
/// # Errors
/// `NotAVault`, `Damaged`, `UnknownFormat`.
pub fn list_slots(folder: impl AsRef<Path>) -> Result<Vec<SlotInfo>> {
    Ok(strongroom_crypto::list_slots(
        &Folder::new(folder.as_ref()).header()?,
    )?)
}

impl Keys {
    /// Unlocks the keys of the vault in `folder` with `secret`. Waits a few seconds for a process that has it open.
    ///
    /// # Errors
    /// `InUse` if a process keeps it open; `WrongSecret`, and what opening a vault can give.
    pub fn open(folder: impl AsRef<Path>, secret: &Secret) -> Result<Self> {
        let folder = Folder::new(folder.as_ref());
        folder.header()?;
        let mut retry = Retry::new(OWNER_WAIT);
        let lock = loop {
            match OwnerLock::attempt(&folder)? {
                Attempt::Taken(lock) => break lock,
                Attempt::HeldByAnother if retry.wait() => {}
                Attempt::HeldByAnother => return Err(Error::InUse),
                Attempt::NotWritable(source) => {
                    return Err(Error::Io {
                        what: "changing the vault folder",
                        source,
                    });
                }
            }
        };
        let unlocked = Unlocked::new(&folder, secret)?;
        let store = unlocked.store(&folder, Access::ReadWrite)?;
        let mut keys = Self {
            folder,
            unlocked,
            store,
            _lock: lock,
        };
        keys.finish_earlier_change()?;
        Ok(keys)
    }

    /// The key slots, vouched for.
    #[must_use]
    pub fn slots(&self) -> Vec<SlotInfo> {
        self.unlocked.keyring.slots()
    }

    /// The slot that the secret opened.
    #[must_use]
    pub fn unlocked_by(&self) -> Option<SlotId> {
        self.unlocked.keyring.unlocked_by()
    }

    /// Adds a key slot; `label` is public.
    ///
    /// # Errors
    /// `Keys` says why: too many slots, a label that deceives.
    pub fn add(&mut self, label: &str, key: AddKey) -> Result<()> {
        let key = match key {
            AddKey::Passphrase(passphrase) => NewKey::Passphrase(passphrase, passphrase_cost()?),
            AddKey::Other(key) => key,
        };
        let slot = NewSlot {
            label: label.to_owned(),
            key,
        };
        let changed = self
            .unlocked
            .keyring
            .add_slot(&slot, &SystemRandom, now_s())?;
        self.install(changed)
    }

    /// Removes a key slot: what is stored from now on it can never open.
    ///
    /// # Errors
    /// `Keys` says why: no such slot, or the last one.
    pub fn remove(&mut self, slot: SlotId) -> Result<()> {
        let changed = self.unlocked.keyring.remove_slot(slot, &SystemRandom)?;
        self.install(changed)
    }

    /// Replaces the passphrase of `slot`: what is stored from now on the old one can never open.
    ///
    /// # Errors
    /// `Keys` says why: no such slot, or none with a passphrase.
    pub fn change_passphrase(&mut self, slot: SlotId, passphrase: Passphrase) -> Result<()> {
        let cost = passphrase_cost()?;
        let changed = self.unlocked.keyring.change_passphrase(
            slot,
            passphrase,
            cost,
            &SystemRandom,
            now_s(),
        )?;
        self.install(changed)
    }

    /// Writes a change.                                                                                       (1)
    fn install(&mut self, changed: Changed) -> Result<()> {
        let Changed { header, keyring } = changed;
        self.folder.replace(HEADER, &header)?;
        self.unlocked.keyring = keyring;
        self.finish_earlier_change()?;
        write_generation(&self.store, self.unlocked.keyring.generation())
    }

    /// Seals the replica file under the newest epoch, if it is not.
    fn finish_earlier_change(&mut self) -> Result<()> {
        let Unlocked { keyring, replica } = &mut self.unlocked;
        if replica.epoch() == keyring.epoch() {
            return Ok(());
        }
        let sealed = keyring.seal_replica(replica, &SystemRandom)?;
        self.folder.replace(REPLICA, &sealed)?;
        *replica = keyring.open_replica(&sealed)?;
        Ok(())
    }
}

/// A key to add. A passphrase's cost is measured here.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AddKey {
    /// A passphrase.
    Passphrase(Passphrase),
    /// Anything else.
    Other(NewKey),
}

impl From<UnlockError> for Error {
    fn from(error: UnlockError) -> Self {
        let damaged = |what| Self::Damaged {
            what,
            why: error.to_string(),
        };
        match &error {
            UnlockError::WrongSecret { .. } | UnlockError::NoSlotOfThatKind { .. } => {
                Self::WrongSecret(error.to_string())
            }
            UnlockError::Format(_) => Self::UnknownFormat(error.to_string()),
            UnlockError::GenerationBehind { seen, found } => Self::GenerationBehind {
                seen: *seen,
                found: *found,
            },
            UnlockError::OutOfMemory(_) => Self::Keys(error.to_string()),
            UnlockError::ReplicaForged => damaged(REPLICA),
            _ => damaged(HEADER),
        }
    }
}

impl From<KeyError> for Error {
    fn from(error: KeyError) -> Self {
        Self::Keys(error.to_string())
    }
}

impl From<strongroom_crypto::RandomError> for Error {
    fn from(error: strongroom_crypto::RandomError) -> Self {
        Self::Keys(error.to_string())
    }
}

impl From<strongroom_metadata::Error> for Error {
    fn from(error: strongroom_metadata::Error) -> Self {
        strongroom_filesystem::Error::from(error).into()
    }
}
