//! Holds the keys of an unlocked vault, and gives each part of the program the keys it needs.
//!
//! Takes   a header and the keys that genesis.rs, unlock.rs or change.rs made or verified
//! Gives   sealers, public facts about the vault, and the bytes of its header
//! Never   shows a key, or uses data that is not verified
//! Spec    spec/1-keys.md
//!
//! Invariants
//!  (1) Header, membership and keys agree: the keyring has the keys of the chain's newest epoch.
//!  (2) The header's MAC is made under the newest epoch.                                    [1.7.3]

mod change;
pub(crate) mod error;
mod follow;
pub(crate) mod genesis;
pub(crate) mod login;
pub(crate) mod members;
pub(crate) mod newcomer;
mod remote_form;
pub(crate) mod replica;
pub(crate) mod revision;
pub(crate) mod seen;
pub(crate) mod slot;
pub(crate) mod unlock;

use crate::blocks::block_sealer::BlockSealer;
use crate::fingerprint::Fingerprint;
use crate::keyring::error::{KeyError, UnlockError};
use crate::keys::{EpochKey, IdKey, Purpose, derive};
use crate::membership::Membership;
use crate::membership::grant::EpochKeys;
use crate::membership::principal::Principal;
use crate::providers::registry::blake3;
use std::collections::BTreeMap;
use strongroom_format::{
    Change, Epoch, Header, PrincipalId, Record, RecordId, Role, Slot, SlotId, SlotKind, SuiteId,
    VaultId,
};
use zeroize::Zeroizing;

/// The keys of an unlocked vault. Wiped when dropped, never shown.
///
/// A value: what changes keys gives a new keyring beside the new header and leaves this one as it is, so that a
/// header that could not be written changes nothing.
#[derive(Clone)]
pub struct Keyring {
    pub(crate) header: Header,
    pub(crate) membership: Membership,
    pub(crate) epochs: BTreeMap<Epoch, EpochKey>,
    pub(crate) id_key: IdKey,
    /// Who signs changes: the slot that unlocked, or a device of this vault.
    pub(crate) signer: Principal,
    pub(crate) unlocked_by: Option<(SlotId, SlotKind)>,
}

/// A changed vault: write `header` first; use `keyring` once that is durable.
#[derive(Debug)]
pub struct Changed {
    /// The new content of `vault.json`.
    pub header: Vec<u8>,
    /// The keys that belong to it.
    pub keyring: Keyring,
    /// If the device was replaced: its secrets, for the process that acts as the one before (`Keyring::follow_as`), and
    /// for that process only. Never store it.
    pub handover: Option<Vec<u8>>,
}

/// What everybody may know about a key slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotInfo {
    /// Its name.
    pub id: SlotId,
    /// What opens it.
    pub kind: SlotKind,
    /// What the person called it.
    pub label: String,
    /// When it was made, in seconds since 1970. Advisory.
    pub created_s: u64,
}

impl From<&Slot> for SlotInfo {
    fn from(slot: &Slot) -> Self {
        Self {
            id: slot.id,
            kind: slot.lock.kind(),
            label: slot.label.clone(),
            created_s: slot.created_s,
        }
    }
}

/// The key slots in `header`, the content of a `vault.json`, without unlocking it: nothing proves them.
///
/// # Errors
/// `UnlockError::Damaged` or `UnlockError::Format`.
pub fn list_slots(header: &[u8]) -> Result<Vec<SlotInfo>, UnlockError> {
    Ok(Header::decode(header)?
        .header
        .slots
        .iter()
        .map(SlotInfo::from)
        .collect())
}

impl std::fmt::Debug for Keyring {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "Keyring({}, generation {}, ..)",
            self.fingerprint(),
            self.generation()
        )
    }
}

impl Keyring {
    /// The vault's name: the hash of its genesis record.
    #[must_use]
    pub const fn vault_id(&self) -> VaultId {
        self.header.vault
    }

    /// What a person compares to know that this is the vault and no look-alike.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(self.vault_id())
    }

    /// Whether a person must compare the fingerprint before this vault is trusted.
    ///
    /// True after unlocking with an age or SSH key: everybody who has the public key can make such a vault.
    #[must_use]
    pub fn needs_fingerprint_check(&self) -> bool {
        matches!(self.unlocked_by, Some((_, SlotKind::Age | SlotKind::Ssh)))
    }

    /// The count of changes of the header.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.header.generation
    }

    /// Checks the header against the newest generation seen before, once that can be read.
    ///
    /// # Errors
    /// `UnlockError::GenerationBehind` if this header is an older one.
    pub const fn check_generation(&self, seen: u64) -> Result<(), UnlockError> {
        let found = self.generation();
        if found < seen {
            Err(UnlockError::GenerationBehind { seen, found })
        } else {
            Ok(())
        }
    }

    /// What new blocks are sealed with.
    #[must_use]
    pub const fn suite(&self) -> SuiteId {
        self.header.suite
    }

    /// The newest epoch.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.membership.epoch()
    }

    /// Every epoch whose keys are here, oldest first.
    pub fn epochs(&self) -> impl Iterator<Item = Epoch> {
        self.epochs.keys().copied()
    }

    /// The key of `epoch`, for `BlockSealer::add_epoch`; `None` if it is not here.
    #[must_use]
    pub fn epoch_key(&self, epoch: Epoch) -> Option<&EpochKey> {
        self.epochs.get(&epoch)
    }

    /// A sealer for the vault's own root compartment, with every epoch's key.
    #[must_use]
    pub fn block_sealer(&self) -> BlockSealer {
        let epochs = self
            .epochs
            .iter()
            .map(|(epoch, key)| (*epoch, key.clone()))
            .collect();
        BlockSealer::new(self.suite(), [0; 16], self.id_key.clone(), epochs)
            .proving_fully_before(self.membership.unknown_to_retired_from())
    }

    /// Whether remotes get what passphrase slots take, too.
    #[must_use]
    pub const fn is_guessable(&self) -> bool {
        self.header.is_guessable()
    }

    /// The key slots, as the verified header lists them.
    #[must_use]
    pub fn slots(&self) -> Vec<SlotInfo> {
        self.header.slots.iter().map(SlotInfo::from).collect()
    }

    /// The slot that unlocked this vault; `None` for one just created.
    #[must_use]
    pub fn unlocked_by(&self) -> Option<SlotId> {
        self.unlocked_by.map(|(slot, _)| slot)
    }

    /// The devices that are members, in no order that means anything.
    pub fn devices(&self) -> impl Iterator<Item = PrincipalId> {
        let devices = self
            .membership
            .active()
            .iter()
            .filter(|(_, member)| member.role == Role::Device);
        devices.map(|(id, _)| *id)
    }

    /// The device that this keyring acts as; `None` if only a key slot unlocked it.
    #[must_use]
    pub fn device(&self) -> Option<PrincipalId> {
        Some(self.signer.id()).filter(|id| self.membership.is(*id, Role::Device))
    }

    /// The newest membership record that does more than add devices. Without a later one nobody is a member again, and no key is back in
    /// use.                                                                                                    [9.1]
    #[must_use]
    pub fn newest_change(&self) -> RecordId {
        let adds_devices = |record: &Record| {
            let mut changes = record.body.changes.iter();
            changes.all(|change| {
                matches!(
                    change,
                    Change::Add {
                        role: Role::Device,
                        ..
                    }
                )
            })
        };
        let mut records = self.header.records.iter().rev();
        let found = records.find(|record| !adds_devices(record));
        found.expect("the genesis begins an epoch").id
    }

    /// Whether the chain of this vault contains the membership record `id`.
    #[must_use]
    pub fn has_record(&self, id: RecordId) -> bool {
        self.header.records.iter().any(|record| record.id == id)
    }

    /// The content of `vault.json` for this keyring.
    ///
    /// # Errors
    /// `KeyError::Format` if it is longer than a header may be.
    pub fn header_bytes(&self) -> Result<Vec<u8>, KeyError> {
        let mac = |covered: &[u8]| header_mac(self.newest_key(), covered);
        Ok(self.header.encode(mac)?)
    }

    pub(crate) fn newest_key(&self) -> &EpochKey {
        self.epochs
            .get(&self.epoch())
            .expect("(1) holds: the newest epoch's key is here")
    }

    /// This keyring with its header's bytes.
    pub(crate) fn into_changed(self) -> Result<Changed, KeyError> {
        Ok(Changed {
            header: self.header_bytes()?,
            keyring: self,
            handover: None,
        })
    }

    /// The keys of `epoch` as a grant carries them.
    pub(crate) fn epoch_keys(&self, epoch_key: &EpochKey) -> EpochKeys {
        EpochKeys {
            epoch_key: epoch_key.clone(),
            id_key: self.id_key.clone(),
        }
    }
}

/// The MAC over the bytes of a header, under the epoch of `epoch_key`.
pub(crate) fn header_mac(epoch_key: &EpochKey, covered: &[u8]) -> [u8; 32] {
    let key = Zeroizing::new(derive(Purpose::HeaderMac, epoch_key.bytes()));
    let mut mac = [0; 32];
    blake3().keyed(&key, &[covered], &mut mac);
    mac
}
