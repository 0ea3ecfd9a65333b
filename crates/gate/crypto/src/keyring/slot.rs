//! Seals a principal's seed as the payload of a key slot, and opens it with the slot's secret. A principal is a device or a slot.
//!
//! Takes   a seed and the vault id, and a user's secret: a passphrase, code, file or key
//! Gives   the sealed payload; or the seed and vault id again
//! Never   distinguishes a wrong secret from a changed payload, because that is impossible
//! Spec    spec/1-keys.md, section 1.6
//!
//! Invariants
//!  (1) Opening recomputes the payload's id under a key from the same secret, so that no two secrets open one
//!      payload.                                                                                        [1.6.3]
//!  (2) The payload holds the vault id, so that a slot copied from another vault is noticed.                    [1.6.2]

use crate::blocks::block_sealer::BlockSealer;
use crate::keyring::error::KeyError;
use crate::keys::{EpochKey, IdKey, Purpose, derive};
use crate::locked::Locked;
use crate::membership::principal::{Principal, SEED_BYTES};
use crate::random::Random;
use crate::secrets::age_key::{AgeIdentity, AgeRecipient};
use crate::secrets::key_file::KeyFile;
use crate::secrets::passphrase::{Argon2Cost, OutOfMemory, Passphrase};
use crate::secrets::recovery_code::RecoveryCode;
use strongroom_format::header::check_label;
use strongroom_format::{Epoch, Kind, Lock, Slot, SlotId, SlotKind, SuiteId, VaultId};
use zeroize::Zeroizing;

/// Bytes of a payload: seed and vault id.
const PAYLOAD_BYTES: usize = SEED_BYTES + 32;

/// A key slot to be made.
#[derive(Clone, Debug)]
pub struct NewSlot {
    /// What the person calls it. Public, at most `LABEL_BYTES_MAX` bytes, no control characters.
    pub label: String,
    /// What will open it.
    pub key: NewKey,
}

/// What will open a key slot.
#[derive(Clone, Debug)]
pub enum NewKey {
    /// A passphrase, at a cost from `Argon2Cost::calibrate`.
    Passphrase(Passphrase, Argon2Cost),
    /// A recovery code, to be printed.
    RecoveryCode(RecoveryCode),
    /// A key file, to be written to another medium.
    KeyFile(KeyFile),
    /// An age or SSH public key. Not post-quantum.
    Recipient(AgeRecipient),
}

/// What a person gives to unlock a vault.
#[derive(Clone, Debug)]
pub enum Secret {
    /// A passphrase.
    Passphrase(Passphrase),
    /// A recovery code.
    RecoveryCode(RecoveryCode),
    /// A key file.
    KeyFile(KeyFile),
    /// Age identities or an SSH private key.
    Identity(AgeIdentity),
}

impl Secret {
    /// The kind of slot that this can open.
    #[must_use]
    pub const fn kind(&self) -> SlotKind {
        match self {
            Self::Passphrase(_) => SlotKind::Passphrase,
            Self::RecoveryCode(_) => SlotKind::RecoveryCode,
            Self::KeyFile(_) => SlotKind::KeyFile,
            Self::Identity(identity) => identity.kind(),
        }
    }
}

/// What a slot's payload held.
pub(crate) struct Payload {
    /// The slot's principal.
    pub(crate) principal: Principal,
    /// The vault it was made for.
    pub(crate) vault: VaultId,
}

impl NewSlot {
    /// The slot of `principal` in the vault.
    pub(crate) fn make(
        &self,
        principal: &Principal,
        vault: VaultId,
        random: &dyn Random,
        now_s: u64,
    ) -> Result<Slot, KeyError> {
        check_label(&self.label)?;
        let mut id = SlotId([0; 8]);
        random.fill(&mut id.0)?;
        let mut clear = Zeroizing::new([0; PAYLOAD_BYTES]);
        clear[..SEED_BYTES].copy_from_slice(principal.seed());
        clear[SEED_BYTES..].copy_from_slice(&vault.0);
        let (lock, sealed) = self.key.seal(clear.as_slice(), random)?;
        Ok(Slot {
            id,
            label: self.label.clone(),
            created_s: now_s,
            principal: principal.id(),
            lock,
            sealed,
        })
    }
}

impl NewKey {
    fn seal(&self, clear: &[u8], random: &dyn Random) -> Result<(Lock, Vec<u8>), KeyError> {
        match self {
            Self::Passphrase(passphrase, cost) => {
                let mut salt = [0; 16];
                random.fill(&mut salt)?;
                let parameters = cost.with_salt(salt);
                let key = passphrase_key(passphrase, &Lock::Passphrase(parameters.clone()))?
                    .expect("(lock) holds: this lock is of a passphrase");
                Ok((
                    Lock::Passphrase(parameters),
                    sealer(&key).seal_record(random, Kind::Slot, clear)?,
                ))
            }
            Self::RecoveryCode(code) => {
                let key =
                    Zeroizing::new(derive(Purpose::SlotRecoveryCode, code.bytes().as_slice()));
                Ok((
                    Lock::RecoveryCode,
                    sealer(&key).seal_record(random, Kind::Slot, clear)?,
                ))
            }
            Self::KeyFile(key_file) => {
                let key = Zeroizing::new(derive(Purpose::SlotKeyFile, key_file.bytes().as_slice()));
                Ok((
                    Lock::KeyFile,
                    sealer(&key).seal_record(random, Kind::Slot, clear)?,
                ))
            }
            Self::Recipient(recipient) => {
                let lock = if recipient.kind() == SlotKind::Ssh {
                    Lock::Ssh
                } else {
                    Lock::Age
                };
                Ok((lock, recipient.seal(clear)?))
            }
        }
    }
}

/// The payload of `slot`, if `secret` opens it; `Ok(None)` if it does not, or the slot is of another kind.
pub(crate) fn open(slot: &Slot, secret: &Secret) -> Result<Option<Payload>, OutOfMemory> {
    let clear = match secret {
        Secret::Passphrase(passphrase) => match passphrase_key(passphrase, &slot.lock)? {
            Some(key) => open_record(&key, &slot.sealed),
            None => None,
        },
        Secret::RecoveryCode(code) => {
            let key = Zeroizing::new(derive(Purpose::SlotRecoveryCode, code.bytes().as_slice()));
            open_record(&key, &slot.sealed)
        }
        Secret::KeyFile(key_file) => {
            let key = Zeroizing::new(derive(Purpose::SlotKeyFile, key_file.bytes().as_slice()));
            open_record(&key, &slot.sealed)
        }
        Secret::Identity(identity) => identity.open(&slot.sealed),
    };
    Ok(clear.map(|clear| {
        let (seed, rest) = clear
            .split_first_chunk()
            .expect("a payload is longer than a seed");
        let mut vault = VaultId([0; 32]);
        vault.0.copy_from_slice(rest);
        Payload {
            principal: Principal::from_seed(Locked::copy_of(seed)),
            vault,
        }
    }))
}

fn passphrase_key(
    passphrase: &Passphrase,
    lock: &Lock,
) -> Result<Option<Zeroizing<[u8; 32]>>, OutOfMemory> {
    let Lock::Passphrase(parameters) = lock else {
        return Ok(None);
    };
    let stretched = passphrase.stretch(parameters)?;
    Ok(Some(Zeroizing::new(derive(
        Purpose::SlotPassphrase,
        stretched.as_slice(),
    ))))
}

/// Seals one payload under keys of its slot. The suite is fixed, because a slot outlives a change of the vault's suite;
/// the compartment is empty, because the vault id is in the payload, where its mismatch has a name.
fn sealer(key: &Zeroizing<[u8; 32]>) -> BlockSealer {
    let sealing = EpochKey::from_bytes(derive(Purpose::SlotSealing, key.as_slice()));
    let naming = IdKey::from_bytes(derive(Purpose::SlotNaming, key.as_slice()));
    BlockSealer::new(
        SuiteId::Aes256GcmBlake3,
        [0; 16],
        naming,
        vec![(Epoch(0), sealing)],
    )
    .naming_records_by_the_id_key()
}

fn open_record(key: &Zeroizing<[u8; 32]>, sealed: &[u8]) -> Option<Zeroizing<[u8; PAYLOAD_BYTES]>> {
    let opened = sealer(key).open_record(Epoch(0), Kind::Slot, sealed).ok()?;
    let mut clear = Zeroizing::new([0; PAYLOAD_BYTES]);
    (opened.len() == PAYLOAD_BYTES).then(|| clear.copy_from_slice(&opened))?;
    Some(clear)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SystemRandom;

    const VAULT: VaultId = VaultId([4; 32]);

    fn passphrase(text: &str) -> Passphrase {
        Passphrase::new(text.as_bytes()).unwrap()
    }

    fn made(key: NewKey) -> (Slot, Principal) {
        let principal = Principal::random(&SystemRandom).unwrap();
        let slot = NewSlot {
            label: "a".to_owned(),
            key,
        }
        .make(&principal, VAULT, &SystemRandom, 5)
        .unwrap();
        (slot, principal)
    }

    /// One key of each kind that needs no tool, with the secret that opens it and one that does not.
    fn kinds() -> Vec<(NewKey, Secret, Secret)> {
        let code = || RecoveryCode::random(&SystemRandom).unwrap();
        let file = || KeyFile::random(&SystemRandom).unwrap();
        let (right_code, right_file) = (code(), file());
        vec![
            (
                NewKey::Passphrase(passphrase("right"), Argon2Cost::CHEAP),
                Secret::Passphrase(passphrase("right")),
                Secret::Passphrase(passphrase("wrong")),
            ),
            (
                NewKey::RecoveryCode(right_code.clone()),
                Secret::RecoveryCode(right_code),
                Secret::RecoveryCode(code()),
            ),
            (
                NewKey::KeyFile(right_file.clone()),
                Secret::KeyFile(right_file),
                Secret::KeyFile(file()),
            ),
        ]
    }

    #[test]
    fn each_kind_opens_with_its_secret_and_no_other() {
        for (key, right, wrong) in kinds() {
            let (slot, principal) = made(key);
            assert_eq!(slot.lock.kind(), right.kind());
            let payload = open(&slot, &right).unwrap().unwrap();
            assert_eq!(
                (payload.principal.id(), payload.vault),
                (principal.id(), VAULT)
            );
            assert!(open(&slot, &wrong).unwrap().is_none());
        }
    }

    #[test]
    fn a_payload_cut_or_changed_anywhere_does_not_open() {
        for (key, right, _) in kinds() {
            let (slot, _) = made(key);
            for place in 0..slot.sealed.len() {
                let mut cut = slot.clone();
                cut.sealed.truncate(place);
                assert!(open(&cut, &right).unwrap().is_none(), "{place}");
                let mut changed = slot.clone();
                changed.sealed[place] ^= 0x10;
                assert!(open(&changed, &right).unwrap().is_none(), "{place}");
            }
        }
    }

    #[test]
    fn a_secret_of_another_kind_opens_nothing() {
        let kinds = kinds();
        for (place, (key, _, _)) in kinds.iter().enumerate() {
            let (slot, _) = made(key.clone());
            for (other, (_, secret, _)) in kinds.iter().enumerate() {
                assert_eq!(open(&slot, secret).unwrap().is_some(), place == other);
            }
        }
    }

    #[test]
    fn a_label_that_deceives_makes_no_slot() {
        let principal = Principal::random(&SystemRandom).unwrap();
        let key = NewKey::KeyFile(KeyFile::random(&SystemRandom).unwrap());
        let result = NewSlot {
            label: "a\u{1b}".to_owned(),
            key,
        }
        .make(&principal, VAULT, &SystemRandom, 5);
        assert!(matches!(result, Err(KeyError::Format(_))));
    }
}
