//! Switches, without a secret, from the keys in use to the keys of a later header of the same vault.
//!
//! Takes   a keyring, and the exact bytes of a header that another keyring holder made from it
//! Gives   the keyring of that header, for the same device or slot, or for the device in a handover
//! Never   writes; never accepts a header that locks out a member
//! Spec    spec/1-keys.md, section 1.9
//!
//! Makes the checks of unlocking, but opens no slot. Makes one more check:
//!  (1) the membership chain continues the one in use, and the generation does not fall; only the header of a remote may
//!      have a lower generation, if it has more records.                                                      [1.7.11]

use crate::keyring::Keyring;
use crate::keyring::error::UnlockError;
use crate::keyring::unlock::ReadHeader;
use crate::keys::EpochKey;
use crate::membership::handover::take_over;
use crate::membership::principal::Principal;
use strongroom_format::{Change, Record, Role};

impl Keyring {
    /// The keyring of `header`, a later or the same header of this vault.
    ///
    /// `unlocked_by` of the result is `None` if the slot that unlocked this one is there no more.
    ///
    /// # Errors
    /// `Diverged` or `GenerationBehind` if it is not a later one; `DeviceRemoved` if the principal that this keyring
    /// acts as is retired; else as `unlock`.
    pub fn follow(&self, header: &[u8]) -> Result<Self, UnlockError> {
        self.follow_by(ReadHeader::of_vault(header)?, self.signer.clone(), false)
    }

    /// The same of a header that a remote has, in either form; with more records it may be of a lower generation. What is put in the place
    /// of `vault.json` is `Keyring::header_bytes` of the result, once `with_newer_of` has nothing to add.      [1.7.10], [1.7.11]
    ///
    /// # Errors
    /// As `follow`; `WithheldForged`.
    pub fn follow_at_remote(&self, header: &[u8]) -> Result<Self, UnlockError> {
        self.follow_by(ReadHeader::new(header)?, self.signer.clone(), true)
    }

    /// The same as the device in `handover`, if there is one: the header may retire the device that this keyring acts as.
    ///
    /// # Errors
    /// `HandoverForged` if it does not open, or the device in it is no member; else as `follow`.
    pub fn follow_as(&self, header: &[u8], handover: Option<&[u8]>) -> Result<Self, UnlockError> {
        let Some(handover) = handover else {
            return self.follow(header);
        };
        let device = take_over(self.vault_id(), &self.signer, handover);
        let read = ReadHeader::of_vault(header)?;
        match self.follow_by(read, device.ok_or(UnlockError::HandoverForged)?, false) {
            Err(UnlockError::DeviceRemoved) => Err(UnlockError::HandoverForged),
            followed => followed,
        }
    }

    fn follow_by(
        &self,
        read: ReadHeader<'_>,
        signer: Principal,
        is_at_remote: bool,
    ) -> Result<Self, UnlockError> {
        if read.values.vault != self.vault_id() || read.values.suite != self.suite() {
            return Err(UnlockError::Diverged);
        }
        let (seen, found) = (self.generation(), read.values.generation);
        // Another device knew nothing of what raised the generation here; with more records its header is the later one.    [1.7.11]
        let goes_further = read.values.records.len() > self.header.records.len();
        if found < seen && !(is_at_remote && goes_further) {
            return Err(UnlockError::GenerationBehind { seen, found }); // (1)
        }
        if !read.values.records.starts_with(&self.header.records) {
            return Err(UnlockError::Diverged); // (1)
        }
        if !read.membership.active().contains_key(&signer.id()) {
            return Err(UnlockError::DeviceRemoved);
        }
        let unlocked_by = self.unlocked_by.filter(|(id, _)| {
            let principal = |slots: &[strongroom_format::Slot]| {
                let slot = slots.iter().find(|slot| slot.id == *id);
                slot.map(|slot| slot.principal)
            };
            let before = principal(&self.header.slots);
            before.is_some() && before == principal(&read.values.slots)
        });
        read.open(signer, unlocked_by)
    }

    /// Whether `header`, which goes on from this one, retires the device that this keyring acts as, and that device did so itself: another
    /// copy of it changed keys, and what took its place ([1.4.10]) is a member. A device that another one removed is not replaced.
    #[must_use]
    pub fn is_replaced_in(&self, header: &[u8]) -> bool {
        let Ok(read) = ReadHeader::new(header) else {
            return false;
        };
        let records = &read.values.records;
        if read.values.vault != self.vault_id() || !records.starts_with(&self.header.records) {
            return false;
        }
        let mut device = self.signer.id();
        for record in &records[self.header.records.len()..] {
            let changes = &record.body.changes;
            if !changes.contains(&Change::Retire { principal: device }) {
                continue;
            }
            let next = changes.iter().find_map(|change| match change {
                Change::Add {
                    role: Role::Device,
                    keys,
                } => Some(keys.id()),
                _ => None,
            });
            match next.filter(|_| record.body.author == device) {
                Some(next) => device = next,
                None => return false,
            }
        }
        device != self.signer.id() && read.membership.is(device, Role::Device)
    }

    /// This keyring, with the keys of earlier epochs that `other`, of which it is a later one, has and its header forgot.
    #[must_use]
    pub fn with_epochs_of(mut self, other: &Self) -> Self {
        for (epoch, key) in &other.epochs {
            let _: &mut EpochKey = self.epochs.entry(*epoch).or_insert_with(|| key.clone());
        }
        self
    }

    /// Whether every change of membership that `other` knows is in this keyring too.
    #[must_use]
    pub fn includes(&self, other: &Self) -> bool {
        self.goes_on_from(&other.header.records)
    }

    /// Whether this header has more records than those.
    #[must_use]
    pub fn goes_beyond(&self, records: &[Record]) -> bool {
        self.header.records.len() > records.len()
    }

    /// The same of the changes of membership that a header of this vault has.
    #[must_use]
    pub fn goes_on_from(&self, records: &[Record]) -> bool {
        self.header.records.starts_with(records)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyring::Changed;
    use crate::keyring::genesis::create;
    use crate::keyring::slot::{NewKey, NewSlot, Secret};
    use crate::keyring::unlock::unlock;
    use crate::random::SystemRandom;
    use crate::secrets::recovery_code::RecoveryCode;
    use strongroom_format::{Header, SlotId, SuiteId};

    fn new_slot(label: &str) -> (NewSlot, Secret) {
        let code = RecoveryCode::random(&SystemRandom).unwrap();
        let slot = NewSlot {
            label: label.to_owned(),
            key: NewKey::RecoveryCode(code.clone()),
        };
        (slot, Secret::RecoveryCode(code))
    }

    /// A vault with two slots, and the secret of the first.
    fn vault() -> (Changed, Secret) {
        let (one, secret) = new_slot("one");
        let slots = [one, new_slot("two").0];
        let suite = SuiteId::Aes256GcmBlake3;
        (create(&slots, suite, &SystemRandom, 1).unwrap(), secret)
    }

    fn id(keyring: &Keyring, label: &str) -> SlotId {
        let slots = keyring.slots();
        slots.iter().find(|slot| slot.label == label).unwrap().id
    }

    /// `changed` with its header altered by somebody who has the keys.
    fn altered(changed: &Changed, alter: impl FnOnce(&mut Header)) -> Vec<u8> {
        let mut keyring = changed.keyring.clone();
        alter(&mut keyring.header);
        keyring.header_bytes().unwrap()
    }

    #[test]
    fn a_device_follows_an_added_and_a_removed_slot_without_any_secret() {
        let (first, _) = vault();
        let device = first.keyring;
        let added = device
            .add_slot(&new_slot("three").0, &SystemRandom, 2)
            .unwrap();
        let followed = device.follow(&added.header).unwrap();
        assert_eq!(followed.epoch(), device.epoch(), "adding begins no epoch");
        assert_eq!(followed.slots().len(), 3);
        let removed = added
            .keyring
            .remove_slot(id(&device, "two"), &SystemRandom)
            .unwrap();
        let handover = removed.handover.as_deref();
        let followed = device.follow_as(&removed.header, handover).unwrap();
        assert_eq!(followed.epoch(), removed.keyring.epoch());
        assert_eq!(followed.epochs().count(), 2, "older blocks stay readable");
        assert!(followed.includes(&added.keyring) && !device.includes(&added.keyring));
    }

    #[test]
    fn whose_slot_is_removed_or_replaced_is_no_longer_unlocked_by_it() {
        let (first, secret) = vault();
        let device = first.keyring.clone();
        let mut opened = unlock(&first.header, &secret, None).unwrap();
        opened.signer = device.signer.clone();
        let one = opened.unlocked_by().unwrap();
        let added = device
            .add_slot(&new_slot("three").0, &SystemRandom, 2)
            .unwrap();
        assert_eq!(
            opened.follow(&added.header).unwrap().unlocked_by(),
            Some(one)
        );
        let removed = device.remove_slot(one, &SystemRandom).unwrap();
        let follow = |changed: &Changed| {
            let handover = changed.handover.as_deref();
            opened.follow_as(&changed.header, handover).unwrap()
        };
        assert_eq!(follow(&removed).unlocked_by(), None);
        let replaced = device
            .replace_slot(one, &new_slot("new").0, &SystemRandom, 2)
            .unwrap();
        assert_eq!(follow(&replaced).unlocked_by(), None);
    }

    #[test]
    fn a_header_that_branches_off_or_is_older_or_of_another_vault_is_not_followed() {
        let (first, _) = vault();
        let device = first.keyring.clone();
        let one = device.add_slot(&new_slot("a").0, &SystemRandom, 2).unwrap();
        let other = device.add_slot(&new_slot("b").0, &SystemRandom, 2).unwrap();
        let not_followed = |header: &[u8]| one.keyring.follow(header).unwrap_err();
        assert_eq!(not_followed(&other.header), UnlockError::Diverged);
        assert_eq!(not_followed(&vault().0.header), UnlockError::Diverged);
        let behind = UnlockError::GenerationBehind { seen: 2, found: 1 };
        assert_eq!(not_followed(&first.header), behind);
        let same_chain = altered(&one, |header| header.generation = 1);
        assert_eq!(not_followed(&same_chain), behind);
        let same = one.keyring.follow(&one.header).unwrap();
        assert_eq!(same.generation(), one.keyring.generation());
    }

    /// Whoever has the keys can make a header with a MAC that fits; it must not take the vault from its people.
    #[test]
    fn a_header_that_leaves_a_member_without_slot_or_key_is_not_followed() {
        let (first, _) = vault();
        let device = first.keyring;
        let added = device
            .add_slot(&new_slot("three").0, &SystemRandom, 2)
            .unwrap();
        let slot = id(&device, "two");
        let without_slot = altered(&added, |header| header.slots.retain(|s| s.id != slot));
        assert_eq!(
            device.follow(&without_slot).unwrap_err(),
            UnlockError::SlotMissing
        );
        let last = added.keyring.header.slots[2].principal;
        let without_grant = altered(&added, |header| {
            header.grants.retain(|grant| grant.principal != last);
        });
        assert!(matches!(
            device.follow(&without_grant).unwrap_err(),
            UnlockError::GrantMissing { .. }
        ));
        let removed = added.keyring.remove_slot(slot, &SystemRandom).unwrap();
        let old = device.header.slots.iter().find(|s| s.id == slot).unwrap();
        let put_back = altered(&removed, |header| header.slots.push(old.clone()));
        assert_eq!(
            device
                .follow_as(&put_back, removed.handover.as_deref())
                .unwrap_err(),
            UnlockError::SlotNotMember { slot }
        );
    }

    /// Goal: a copy tells whether the device that it acts as changed keys elsewhere, or was removed, also after what took its place.
    #[test]
    fn a_device_that_changed_keys_itself_is_replaced_and_one_that_another_removed_is_not() {
        let (first, _) = vault();
        let device = first.keyring;
        let other = device.add_device(&SystemRandom).unwrap().keyring;
        assert!(!device.is_replaced_in(&first.header) && !device.is_replaced_in(b"no header"));
        let device = device.follow(&other.header_bytes().unwrap()).unwrap();
        let once = device.replace_device(&SystemRandom).unwrap();
        let twice = once.keyring.replace_device(&SystemRandom).unwrap();
        assert!(device.is_replaced_in(&once.header) && device.is_replaced_in(&twice.header));
        assert!(!other.is_replaced_in(&twice.header), "it is a member still");
        let removed = other.revoke_device(device.device().unwrap(), &SystemRandom);
        assert!(!device.is_replaced_in(&removed.unwrap().header));
        let other = other.follow(&once.header).unwrap();
        let removed = other.revoke_device(once.keyring.device().unwrap(), &SystemRandom);
        assert!(!device.is_replaced_in(&removed.unwrap().header));
    }

    /// Goal: what a copy has under keys that all others forgot is not lost when a slot adds it as a new device.
    #[test]
    fn keys_that_a_header_forgot_come_back_with_a_device_that_has_them() {
        let (first, secret) = vault();
        let device = first.keyring;
        let by_slot = unlock(&first.header, &secret, None).unwrap();
        let now = device.replace_device(&SystemRandom).unwrap().keyring;
        let now = now.forget_epochs_before(now.epoch()).unwrap();
        let followed = by_slot.follow(&now.header).unwrap();
        assert_eq!(followed.epochs().count(), 1);
        let added = followed.with_epochs_of(&device).add_device(&SystemRandom);
        let added = added.unwrap();
        assert_eq!(added.keyring.epochs().count(), 2);
        assert_eq!(
            now.keyring.follow(&added.header).unwrap().epochs().count(),
            2
        );
        assert_eq!(
            unlock(&added.header, &secret, None)
                .unwrap()
                .epochs()
                .count(),
            2
        );
    }

    #[test]
    fn a_revoked_device_cannot_follow() {
        let (first, _) = vault();
        let device = first.keyring;
        let second = device.add_device(&SystemRandom).unwrap().keyring;
        let own = device.device().unwrap();
        let revoked = second.revoke_device(own, &SystemRandom).unwrap();
        assert_eq!(
            device.follow(&revoked.header).unwrap_err(),
            UnlockError::DeviceRemoved
        );
    }
}
