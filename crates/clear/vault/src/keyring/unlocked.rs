//! The keys of a vault whose secret was correct, before anything uses them.
//!
//! Takes   a vault folder, and a secret or keys that this process had before
//! Gives   its keys and its replica file; the parts of the folder that depend on them
//! Never   judges whether the folder is the newest state of the vault
//! Spec    spec/1-keys.md, section 1.9
//!
//! Invariants
//!  (1) The replica file is sealed under the newest epoch.

use std::sync::Arc;

use strongroom_crypto::{Keyring, Replica, Secret, SystemRandom};
use strongroom_metadata::Store;

use crate::folder::Folder;
use crate::keyring::metadata_key;
use crate::keyring::own_replica::{self, Files};
use crate::own_login::OwnLogin;
use crate::{Error, Result};

/// What opens a vault.
#[derive(Clone, Copy)]
pub(crate) enum Way<'a> {
    /// A secret of one of its slots.
    Secret(&'a Secret),
    /// The keys that this process had when it owned the vault.
    Keys(&'a Keyring),
}

/// Keys and facts of a vault whose secret was right.
pub(crate) struct Unlocked {
    pub(crate) keyring: Keyring,
    pub(crate) replica: Replica,
    /// The places of membership records that nobody here made.
    pub(crate) unknown: Vec<u64>,
    /// Acts as the slot that the secret opened: kept while this copy may have to become a new device that only a slot can add. [11.10.4]
    pub(crate) slot: Option<Keyring>,
    /// What logs in at servers with these keys.
    pub(crate) login: Arc<OwnLogin>,
}

impl Unlocked {
    /// Keys that were just made.
    pub(crate) fn made(keyring: Keyring, replica: Replica) -> Self {
        Self {
            login: OwnLogin::of(&keyring),
            keyring,
            replica,
            unknown: Vec::new(),
            slot: None,
        }
    }

    /// Unlocks `folder` with `secret`; reads only.
    #[cfg(test)]
    pub(crate) fn new(folder: &Folder, secret: &Secret) -> Result<Self> {
        Self::by(folder, Way::Secret(secret))
    }

    /// Unlocks `folder`; reads only.
    pub(crate) fn by(folder: &Folder, way: Way<'_>) -> Result<Self> {
        let files = Files::read(folder)?;
        let mut keyring = match way {
            Way::Secret(secret) => files.unlock(secret)?,
            // A rotation meanwhile brought keys that only a secret opens.
            Way::Keys(keyring) => keyring
                .follow(&files.header)
                .map_err(|_| Error::OwnerGone)?,
        };
        let slot = matches!(way, Way::Secret(_)).then(|| keyring.clone());
        let replica = files.replica_of(&mut keyring)?;
        Ok(Self {
            slot,
            ..Self::made(keyring, replica)
        })
    }

    /// Lets the keys that are in use now log in.
    pub(crate) fn renew_login(&self) {
        self.login.set(&self.keyring, self.slot.as_ref());
    }

    /// Re-seals the replica file if keys changed since, and finishes a change that was cut off.              (1)
    pub(crate) fn refresh_replica(&mut self, folder: &Folder) -> Result<()> {
        self.replica = own_replica::settle(folder, &self.keyring, &self.replica)?;
        Ok(())
    }

    /// Gives the database a new key if an epoch began since its own was drawn.
    pub(crate) fn renew_metadata_key(&mut self, folder: &Folder, store: &Store) -> Result<()> {
        let renewed = metadata_key::renew(folder, &self.keyring, &self.replica, |rekey| {
            Ok(store.rekey(rekey)?)
        })?;
        if let Some(renewed) = renewed {
            self.replica = renewed;
        }
        Ok(())
    }

    /// The replica file for `keyring`, if the one there is of another epoch or device.                          (1)
    pub(crate) fn resealed_replica(&self, keyring: &Keyring) -> Result<Option<Vec<u8>>> {
        let replica = keyring.replica_of_device(&self.replica);
        if replica.epoch() == keyring.epoch() && replica.device() == self.replica.device() {
            return Ok(None);
        }
        Ok(Some(keyring.seal_replica(&replica, &SystemRandom)?))
    }
}
