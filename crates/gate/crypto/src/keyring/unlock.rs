//! Opens a vault's keys with its header and a user's secret, and trusts nothing before it is checked.
//!
//! Takes   the exact bytes of `vault.json`, a secret, and the newest generation seen before
//! Gives   a `Keyring`, or an error that says which check failed
//! Never   writes, or distinguishes a wrong secret from a slot that was tampered with, because that is impossible
//! Spec    spec/1-keys.md, section 1.9
//!
//! Order of the checks; each is needed, and none relies on a later one:
//!  (1) length, checksum, format, every field and bound         damaged, or no header          [1.9.1]
//!      and whether this build and processor compute its suite  no provider
//!  (2) genesis hash = vault id; each record follows            forged membership              [1.9.2]
//!  (3) a slot opens, its payload names this vault              wrong secret, foreign slot     [1.9.3]
//!  (4) the slot is a member, added as a slot                   removed slot restored          [1.9.4]
//!  (5) the newest epoch's grant opens and matches              forged grant                   [1.9.5]
//!  (6) MAC of the exact bytes under the newest epoch           edited header                  [1.9.6]
//!  (7) slots and members match, and each has every key         a member is locked out         [1.9.9]
//!  (8) generation not below the last one seen                  older header restored          [1.9.7]

use crate::keyring::error::UnlockError;
use crate::keyring::slot::{Secret, open};
use crate::keyring::{Keyring, header_mac};
use crate::limits::generation_max;
use crate::membership::Membership;
use crate::membership::grant::EpochKeys;
use crate::membership::principal::Principal;
use crate::providers::ready;
use crate::secrets::passphrase::Argon2Cost;
use std::collections::{BTreeMap, BTreeSet};
use strongroom_format::{Epoch, Grant, Header, Lock, Role, Slot, SlotId, SlotKind, StoredHeader};
use subtle::ConstantTimeEq as _;

/// Opens the keys of the vault whose `vault.json` is `header`, with `secret`.
///
/// Tries every slot of the secret's kind, so it takes as long as their Argon2id together: at most
/// `ARGON2_UNASKED_WORK_KIB_MAX`, in at most `ARGON2_UNASKED_MEMORY_KIB_MAX` of memory; what `Passphrase::allow_memory`
/// says, and `ARGON2_WORK_KIB_MAX`, where that was called. `last_seen_generation`: if it is kept inside the vault, give `None` here and call
/// `Keyring::check_generation` as soon as it can be read.
///
/// # Errors
/// Every variant of `UnlockError` but `ReplicaForged`.
pub fn unlock(
    header: &[u8],
    secret: &Secret,
    last_seen_generation: Option<u64>,
) -> Result<Keyring, UnlockError> {
    let keyring = ReadHeader::of_vault(header)?.unlock(secret)?;
    keyring.check_generation(last_seen_generation.unwrap_or(0))?;
    Ok(keyring)
}

/// The same of a header that a remote has, in either form. What is put in the place of `vault.json` is `Keyring::header_bytes` of the
/// result.                                                                                                              [1.7.10]
///
/// # Errors
/// As `unlock`; `PassphrasesWithheld` for a passphrase, `WithheldForged`.
pub fn unlock_at_remote(header: &[u8], secret: &Secret) -> Result<Keyring, UnlockError> {
    ReadHeader::new(header)?.unlock(secret)
}

/// A header that passed the checks that need no secret: (1) and (2).
pub(crate) struct ReadHeader<'a> {
    pub(crate) values: Header,
    pub(crate) membership: Membership,
    mac: [u8; 32],
    covered: &'a [u8],
}

impl<'a> ReadHeader<'a> {
    /// Of a `vault.json`: what is withheld from remotes is in it.                                            [1.7.10]
    pub(crate) fn of_vault(header: &'a [u8]) -> Result<Self, UnlockError> {
        let read = Self::new(header)?;
        match read.values.withheld {
            None => Ok(read),
            Some(_) => Err(UnlockError::FormForRemotes),
        }
    }

    fn unlock(self, secret: &Secret) -> Result<Keyring, UnlockError> {
        let (slot, signer) = open_slot(&self.values, &self.membership, secret)?;
        let unlocked_by = Some((slot.id, slot.lock.kind()));
        self.open(signer, unlocked_by)
    }

    /// In either form.
    pub(crate) fn new(header: &'a [u8]) -> Result<Self, UnlockError> {
        let StoredHeader {
            header: values,
            mac,
            covered_bytes,
        } = Header::decode(header)?;
        ready(values.suite)?;
        check_argon2(&values)?;
        let membership = Membership::verify(&values.records)?;
        if membership.vault() != values.vault {
            return Err(UnlockError::ForeignMembership);
        }
        let found = values.generation;
        if found > generation_max(values.records.len()) {
            return Err(UnlockError::GenerationBeyond { found });
        }
        Ok(Self {
            values,
            membership,
            mac,
            covered: &header[..covered_bytes],
        })
    }

    /// Whether its newest epoch is that of `keyring`, and (6) holds under it.
    pub(crate) fn has_mac_of(&self, keyring: &Keyring) -> bool {
        let expected = header_mac(keyring.newest_key(), self.covered);
        self.values.vault == keyring.vault_id()
            && self.membership.epoch() == keyring.epoch()
            && bool::from(expected.ct_eq(&self.mac))
    }

    /// (7): nobody is left outside.
    fn check_members(&self) -> Result<(), UnlockError> {
        let slots = &self.values.slots;
        for slot in slots {
            if !self.membership.is(slot.principal, Role::Slot) {
                return Err(UnlockError::SlotNotMember { slot: slot.id });
            }
        }
        let with_slot: BTreeSet<_> = slots.iter().map(|slot| slot.principal).collect();
        let grants = &self.values.grants;
        let granted: BTreeSet<_> = grants
            .iter()
            .map(|grant| (grant.epoch, grant.principal))
            .collect();
        let epochs: BTreeSet<_> = grants.iter().map(|grant| grant.epoch).collect();
        for (id, member) in self.membership.active() {
            if member.role == Role::Slot && !with_slot.contains(id) {
                return Err(UnlockError::SlotMissing);
            }
            for epoch in &epochs {
                if !granted.contains(&(*epoch, *id)) {
                    return Err(UnlockError::GrantMissing { epoch: *epoch });
                }
            }
        }
        Ok(())
    }

    /// The keyring of `signer`, once (5) to (7) hold.
    pub(crate) fn open(
        self,
        signer: Principal,
        unlocked_by: Option<(SlotId, SlotKind)>,
    ) -> Result<Keyring, UnlockError> {
        let (epochs, newest) = open_grants(&self.values, &self.membership, &signer)?;
        let expected = header_mac(&newest.epoch_key, self.covered);
        if !bool::from(expected.ct_eq(&self.mac)) {
            return Err(UnlockError::HeaderEdited);
        }
        self.check_members()?;
        let epochs = epochs
            .into_iter()
            .map(|(epoch, keys)| (epoch, keys.epoch_key))
            .collect();
        let keyring = Keyring {
            header: self.values,
            membership: self.membership,
            epochs,
            id_key: newest.id_key,
            signer,
            unlocked_by,
        };
        keyring.with_withheld()
    }
}

/// Refuses a cost below the floor too: whoever could lower it could make the person's next passphrase cheap to guess.
pub(crate) fn check_argon2(header: &Header) -> Result<(), UnlockError> {
    for slot in &header.slots {
        if let Lock::Passphrase(parameters) = &slot.lock {
            Argon2Cost::of(parameters)?;
        }
    }
    Ok(())
}

fn open_slot<'a>(
    header: &'a Header,
    membership: &Membership,
    secret: &Secret,
) -> Result<(&'a Slot, Principal), UnlockError> {
    let kind = secret.kind();
    let mut failure = UnlockError::NoSlotOfThatKind { kind };
    let mut work_kib = 0;
    for slot in header.slots.iter().filter(|slot| slot.lock.kind() == kind) {
        if slot.lock == Lock::Withheld {
            return Err(UnlockError::PassphrasesWithheld {
                others: other_kinds(header),
            });
        }
        if let (Secret::Passphrase(passphrase), Lock::Passphrase(parameters)) = (secret, &slot.lock)
        {
            if !passphrase.allows(parameters, work_kib) {
                failure = UnlockError::CostNotAllowed {
                    slot: slot.id,
                    memory_kib: parameters.memory_kib,
                    passes: parameters.passes,
                };
                continue;
            }
            work_kib += parameters.work_kib();
        }
        match open(slot, secret) {
            Ok(Some(payload)) if payload.vault != header.vault => {
                return Err(UnlockError::ForeignSlot { slot: slot.id });
            }
            Ok(Some(payload)) if !membership.is(payload.principal.id(), Role::Slot) => {
                return Err(UnlockError::SlotNotMember { slot: slot.id });
            }
            Ok(Some(payload)) if payload.principal.id() != slot.principal => {
                return Err(UnlockError::HeaderEdited);
            }
            Ok(Some(payload)) => return Ok((slot, payload.principal)),
            // What was not tried may be the one.
            Ok(None) | Err(_) if matches!(failure, UnlockError::CostNotAllowed { .. }) => {}
            Ok(None) if matches!(failure, UnlockError::OutOfMemory(_)) => {}
            Ok(None) => failure = UnlockError::WrongSecret { kind },
            // Another slot of this person may ask for less.
            Err(error) => failure = UnlockError::OutOfMemory(error),
        }
    }
    Err(failure)
}

/// What opens the vault besides passphrases.
fn other_kinds(header: &Header) -> Vec<SlotKind> {
    let mut kinds = Vec::new();
    for kind in header.slots.iter().map(|slot| slot.lock.kind()) {
        if kind != SlotKind::Passphrase && !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds
}

/// The keys of every epoch granted to `principal`, and those of the newest. Older ones may have been forgotten.
pub(crate) fn open_grants(
    header: &Header,
    membership: &Membership,
    principal: &Principal,
) -> Result<(BTreeMap<Epoch, EpochKeys>, EpochKeys), UnlockError> {
    let mut epochs = BTreeMap::new();
    for grant in header
        .grants
        .iter()
        .filter(|grant| grant.principal == principal.id())
    {
        epochs.insert(grant.epoch, open_grant(grant, membership, principal)?);
    }
    let epoch = membership.epoch();
    let newest = epochs
        .get(&epoch)
        .cloned()
        .ok_or(UnlockError::GrantMissing { epoch })?;
    // What is granted to anybody is still in use, so it must be granted here too.                      [1.9.5]
    if let Some(grant) = header
        .grants
        .iter()
        .find(|grant| !epochs.contains_key(&grant.epoch))
    {
        return Err(UnlockError::GrantMissing { epoch: grant.epoch });
    }
    // The id key names blocks for the vault's life: an older epoch that carries another one is forged.
    for (epoch, keys) in &epochs {
        if !bool::from(keys.id_key.bytes().ct_eq(newest.id_key.bytes())) {
            return Err(UnlockError::GrantForged { epoch: *epoch });
        }
    }
    Ok((epochs, newest))
}

fn open_grant(
    grant: &Grant,
    membership: &Membership,
    principal: &Principal,
) -> Result<EpochKeys, UnlockError> {
    let forged = UnlockError::GrantForged { epoch: grant.epoch };
    let commitment = membership.commitment(grant.epoch).ok_or(forged.clone())?;
    EpochKeys::open(
        grant,
        principal,
        membership.vault(),
        membership.nonce(),
        commitment,
    )
    .ok_or(forged)
}

#[cfg(test)]
mod tests;
