//! Changes which keys open a vault: adds, replaces and removes key slots and devices, and begins epochs.
//!
//! Takes   an unlocked keyring and the change to make
//! Gives   the next header's bytes and the keyring that belongs to it; the old keyring stays as it is
//! Never   gives a key to a removed member, or leaves a vault that nobody can unlock
//! Spec    spec/1-keys.md, sections 1.4 and 1.5
//!
//! Invariants
//!  (1) A removed slot or device loses its grants, and gets no key of the epoch that begins.  [1.4.8]
//!  (2) Every change raises the generation.                                                   [1.7.5]
//!  (3) A person who could open a slot could also open the replica file of this copy and sign as its device. So every
//!      record that removes a member also removes the signing device and adds a new one in its place.  [1.4.10]
//!  (4) A member whose public key is broken, so that no keys can be granted to it, does not prevent a change of keys.
//!      It is removed together with the next member that is removed.                                    [1.5.7]

use crate::keyring::error::KeyError;
use crate::keyring::slot::{NewKey, NewSlot};
use crate::keyring::unlock::ReadHeader;
use crate::keyring::{Changed, Keyring};
use crate::keys::EpochKey;
use crate::limits::generation_max;
use crate::membership::grant::{GrantError, can_be_granted, grant_to_nobody};
use crate::membership::handover::hand_over;
use crate::membership::principal::Principal;
use crate::random::Random;
use crate::secrets::passphrase::{Argon2Cost, Passphrase};
use std::collections::BTreeSet;
use strongroom_format::limits::{CHANGES_MAX, DEVICES_MAX, RECORDS_MAX, SLOTS_MAX};
use strongroom_format::{Change, Epoch, Header, PrincipalId, Role, Slot, SlotId, hex};

impl Keyring {
    /// Adds a key slot. It opens everything that this keyring opens; no epoch begins.
    ///
    /// # Errors
    /// `NotADevice`, `TooMany`, or what making a slot can give.
    pub fn add_slot(
        &self,
        slot: &NewSlot,
        random: &dyn Random,
        now_s: u64,
    ) -> Result<Changed, KeyError> {
        self.require_device()?;
        self.require_room(Role::Slot, SLOTS_MAX)?;
        let principal = Principal::random(random)?;
        let made = slot.make(&principal, self.vault_id(), random, now_s)?;
        let mut next = self.clone();
        next.header.slots.push(made);
        next.finish(vec![add(Role::Slot, &principal)], None, random)
    }

    /// Removes a key slot: its principal is retired and an epoch begins, so what is sealed from now on is closed to it.
    ///
    /// # Errors
    /// `NotADevice`, `NoSuchSlot`, or `LastSlot`.
    pub fn remove_slot(&self, slot: SlotId, random: &dyn Random) -> Result<Changed, KeyError> {
        self.require_device()?;
        let removed = self.slot(slot)?.principal;
        if self.membership.count_of(Role::Slot) == 1 || self.header.slots.len() == 1 {
            return Err(KeyError::LastSlot);
        }
        let mut next = self.clone();
        next.header.slots.retain(|other| other.id != slot);
        next.replacing_the_device(vec![Change::Retire { principal: removed }], random)
    }

    /// Puts a new slot in the place of another: the old principal is retired and an epoch begins.
    ///
    /// The new slot has an id of its own. `list_slots` shows it where the old one stood.
    ///
    /// # Errors
    /// `NotADevice`, `NoSuchSlot`, or what making a slot can give.
    pub fn replace_slot(
        &self,
        old: SlotId,
        new: &NewSlot,
        random: &dyn Random,
        now_s: u64,
    ) -> Result<Changed, KeyError> {
        self.require_device()?;
        let retired = self.slot(old)?.principal;
        let principal = Principal::random(random)?;
        let made = new.make(&principal, self.vault_id(), random, now_s)?;
        let mut next = self.clone();
        for slot in next.header.slots.iter_mut().filter(|slot| slot.id == old) {
            *slot = made.clone();
        }
        if next.unlocked_by().is_some_and(|id| id == old) {
            next.unlocked_by = Some((made.id, made.lock.kind()));
        }
        // Retired first, so that a vault with as many slots as it may have can change one.
        let changes = vec![
            Change::Retire { principal: retired },
            add(Role::Slot, &principal),
        ];
        next.replacing_the_device(changes, random)
    }

    /// Changes the passphrase of a slot and keeps its label. Who kept an old header and the old passphrase keeps what
    /// was sealed before, and gets nothing that is sealed from now on.
    ///
    /// # Errors
    /// As `replace_slot`.
    pub fn change_passphrase(
        &self,
        slot: SlotId,
        passphrase: Passphrase,
        cost: Argon2Cost,
        random: &dyn Random,
        now_s: u64,
    ) -> Result<Changed, KeyError> {
        let label = self.slot(slot)?.label.clone();
        self.replace_slot(
            slot,
            &NewSlot {
                label,
                key: NewKey::Passphrase(passphrase, cost),
            },
            random,
            now_s,
        )
    }

    /// Adds a new device and acts as it from then on. A key slot alone may do this.
    ///
    /// # Errors
    /// `TooMany`, or `Random`.
    pub fn add_device(&self, random: &dyn Random) -> Result<Changed, KeyError> {
        self.require_room(Role::Device, DEVICES_MAX)?;
        let device = Principal::random(random)?;
        let mut changed = self
            .clone()
            .finish(vec![add(Role::Device, &device)], None, random)?;
        changed.keyring.signer = device;
        Ok(changed)
    }

    /// Revokes a device: it is retired and an epoch begins. A device that revokes itself goes on as a new one.
    ///
    /// # Errors
    /// `NotADevice`, `NoSuchDevice`, or `LastSlot` if no slot can hold keys.
    pub fn revoke_device(
        &self,
        device: PrincipalId,
        random: &dyn Random,
    ) -> Result<Changed, KeyError> {
        self.require_device()?;
        if !self.membership.is(device, Role::Device) {
            return Err(KeyError::NoSuchDevice);
        }
        self.clone()
            .replacing_the_device(vec![Change::Retire { principal: device }], random)
    }

    /// Begins an epoch without removing anybody.
    ///
    /// # Errors
    /// `NotADevice`, or what `Random` and the size of the header can give.
    pub fn begin_epoch(&self, random: &dyn Random) -> Result<Changed, KeyError> {
        self.require_device()?;
        self.clone()
            .finish(Vec::new(), Some(EpochKey::random(random)?), random)
    }

    /// Begins an epoch and puts a new device in the place of this one: whoever once had its secrets is out.
    ///
    /// # Errors
    /// As `begin_epoch`.
    pub fn replace_device(&self, random: &dyn Random) -> Result<Changed, KeyError> {
        self.require_device()?;
        self.clone().replacing_the_device(Vec::new(), random)
    }

    /// Forgets the keys of every epoch before `first`, here and in the header. What is still sealed under them is lost.
    ///
    /// Call it when everything was re-sealed; the header gets shorter. The newest epoch is always kept.
    ///
    /// # Errors
    /// `NotADevice` or `Exhausted`.
    pub fn forget_epochs_before(&self, first: Epoch) -> Result<Changed, KeyError> {
        self.require_device()?;
        let first = first.min(self.epoch());
        let mut next = self.clone();
        next.epochs.retain(|epoch, _| *epoch >= first);
        next.header.grants.retain(|grant| grant.epoch >= first);
        next.raise_generation()?;
        next.into_changed()
    }

    /// Lets remotes have what passphrase slots take, too, or not any more. What was there was seen.
    ///
    /// # Errors
    /// `NotADevice` or `Exhausted`.
    pub fn set_guessable(&self, guessable: bool) -> Result<Changed, KeyError> {
        let changes = self.header.guessable_changes;
        let changed = u64::from(self.is_guessable() != guessable);
        let changes = changes.checked_add(changed).ok_or(KeyError::Exhausted)?;
        self.with_guessable_changes(changes)
    }

    /// A header with what `other`, to which this one goes on, says newer of that, and of a later generation than both; `None` if it says
    /// nothing newer and is of no later generation.                                                          [1.7.11]
    ///
    /// No record says it, so it is brought into headers in which another device changed keys meanwhile.
    ///
    /// # Errors
    /// As `set_guessable`.
    pub fn with_newer_of(&self, other: &Self) -> Result<Option<Changed>, KeyError> {
        self.with_newer(&other.header)
    }

    /// The same of a header that goes no further than this one, and of which a member has made the MAC with the newest keys: whoever was
    /// removed may have older ones.                                                                        [1.7.11]
    ///
    /// # Errors
    /// As `set_guessable`.
    pub fn with_newer_in(&self, header: &[u8]) -> Result<Option<Changed>, KeyError> {
        match ReadHeader::new(header) {
            Ok(read) if self.goes_on_from(&read.values.records) && read.has_mac_of(self) => {
                self.with_newer(&read.values)
            }
            _ => Ok(None),
        }
    }

    fn with_newer(&self, other: &Header) -> Result<Option<Changed>, KeyError> {
        let (changes, generation) = (other.guessable_changes, other.generation);
        if changes <= self.header.guessable_changes && generation <= self.generation() {
            return Ok(None);
        }
        let mut later = self.clone();
        later.header.generation = generation.max(self.generation());
        let changes = changes.max(self.header.guessable_changes);
        later.with_guessable_changes(changes).map(Some)
    }

    fn with_guessable_changes(&self, changes: u64) -> Result<Changed, KeyError> {
        self.require_device()?;
        let mut next = self.clone();
        next.header.guessable_changes = changes;
        next.raise_generation()?;
        next.into_changed()
    }

    /// Grants every epoch that is here to every member that lacks it.
    pub(crate) fn grant_what_is_missing(&mut self, random: &dyn Random) -> Result<(), KeyError> {
        let granted: BTreeSet<_> = self
            .header
            .grants
            .iter()
            .map(|grant| (grant.epoch, grant.principal))
            .collect();
        let mut grants = Vec::new();
        for (epoch, epoch_key) in &self.epochs {
            for (id, member) in self.membership.active() {
                if granted.contains(&(*epoch, *id)) {
                    continue;
                }
                let keys = self.epoch_keys(epoch_key);
                let grant = keys.grant(self.vault_id(), *epoch, &member.keys, random);
                grants.push(match grant {
                    Err(GrantError::PublicKey) => grant_to_nobody(*epoch, *id, random)?, // (4)
                    grant => grant?,
                });
            }
        }
        self.header.grants.extend(grants);
        Ok(())
    }

    /// Makes `changes` in a record that begins an epoch, and puts a new device in the place of the one that signs it.  (3)
    ///
    /// # Errors
    /// `LastSlot` if no slot is left that can hold keys.
    fn replacing_the_device(
        mut self,
        mut changes: Vec<Change>,
        random: &dyn Random,
    ) -> Result<Changed, KeyError> {
        let (acting, next) = (self.signer.clone(), Principal::random(random)?);
        let goes = Change::Retire {
            principal: acting.id(),
        };
        if !changes.contains(&goes) {
            changes.push(goes);
        }
        // Retired first, so that a vault with as many devices as it may have can replace one.
        changes.push(add(Role::Device, &next));
        let changes = self.retire_the_broken(changes); // (4)
        let is_usable = |slot: &Slot| {
            // One that is no member yet is added by this record.
            let member = self.membership.active().get(&slot.principal);
            member.is_none_or(|member| can_be_granted(&member.keys))
        };
        if !self.header.slots.iter().any(is_usable) {
            return Err(KeyError::LastSlot);
        }
        let handover = hand_over(self.vault_id(), &acting, &next, random)?;
        let mut changed = self.finish(changes, Some(EpochKey::random(random)?), random)?;
        changed.keyring.signer = next;
        changed.handover = Some(handover);
        Ok(changed)
    }

    /// `changes`, and before them the retirement of members to whom nothing can be granted, as many as one record has room for; their
    /// slots are removed.                                                                                  (4)
    fn retire_the_broken(&mut self, changes: Vec<Change>) -> Vec<Change> {
        let retire = |principal| Change::Retire { principal };
        let begins = 1;
        let room = CHANGES_MAX.saturating_sub(changes.len() + begins);
        let members = self.membership.active().iter();
        let broken = members.filter(|(_, member)| !can_be_granted(&member.keys));
        let broken = broken.map(|(id, _)| *id);
        let broken = broken.filter(|id| !changes.contains(&retire(*id)));
        let broken: Vec<PrincipalId> = broken.take(room).collect();
        for id in &broken {
            log::warn!(
                "member {} has a broken public key and can hold no keys: it is removed too",
                hex::encode(&id.0[..8])
            );
        }
        let slots = &mut self.header.slots;
        slots.retain(|slot| !broken.contains(&slot.principal));
        broken.into_iter().map(retire).chain(changes).collect()
    }

    /// Signs `changes` as the next record, beginning an epoch if a key for it is given, and makes the next header.
    pub(crate) fn finish(
        mut self,
        mut changes: Vec<Change>,
        epoch_key: Option<EpochKey>,
        random: &dyn Random,
    ) -> Result<Changed, KeyError> {
        if self.header.records.len() >= RECORDS_MAX {
            return Err(KeyError::Exhausted);
        }
        if let Some(epoch_key) = epoch_key {
            let epoch = Epoch(self.epoch().0.checked_add(1).ok_or(KeyError::Exhausted)?);
            let commitment = self
                .epoch_keys(&epoch_key)
                .commitment(self.membership.nonce(), epoch);
            changes.push(Change::Begin { epoch, commitment });
            self.epochs.insert(epoch, epoch_key);
        }
        let record = self.membership.next(changes, &self.signer);
        self.membership
            .apply(&record)
            .map_err(|forged| KeyError::Record(forged.why))?;
        self.header.records.push(record);
        let active = self.membership.active();
        self.header
            .grants
            .retain(|grant| active.contains_key(&grant.principal));
        self.grant_what_is_missing(random)?;
        self.raise_generation()?;
        self.into_changed()
    }

    fn raise_generation(&mut self) -> Result<(), KeyError> {
        self.header.generation = self
            .header
            .generation
            .checked_add(1)
            .filter(|next| *next <= generation_max(self.header.records.len()))
            .ok_or(KeyError::Exhausted)?;
        Ok(())
    }

    fn slot(&self, slot: SlotId) -> Result<&Slot, KeyError> {
        self.header
            .slots
            .iter()
            .find(|other| other.id == slot)
            .ok_or(KeyError::NoSuchSlot { slot })
    }

    pub(crate) fn require_device(&self) -> Result<(), KeyError> {
        self.device().map(|_| ()).ok_or(KeyError::NotADevice)
    }

    /// Room for one more, and a signer that is still a member at all.
    pub(crate) fn require_room(&self, role: Role, max: usize) -> Result<(), KeyError> {
        if !self.membership.active().contains_key(&self.signer.id()) {
            return Err(KeyError::NotADevice);
        }
        if self.membership.count_of(role) >= max {
            Err(KeyError::TooMany)
        } else {
            Ok(())
        }
    }
}

fn add(role: Role, principal: &Principal) -> Change {
    Change::Add {
        role,
        keys: principal.keys().clone(),
    }
}
