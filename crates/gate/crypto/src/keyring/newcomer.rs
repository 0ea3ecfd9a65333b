//! Makes the keys of a new device, and lets a new device into the vault.
//!
//! Takes   the secret that will open the new device's copy; or the request of a new device
//! Gives   the device's secrets and its request; or the header in which it is a member, with a key slot of its own
//! Never   sends a secret: the request is public, and the new device gets the keys of the vault as grants
//! Spec    spec/11-sync.md, section 11.7; spec/1-keys.md, sections 1.4 and 1.5
//!
//! Invariants
//!  (1) Whatever a new device sent, everyone who could open the old header can open the new one.               [11.7.7]

use crate::keyring::error::{KeyError, UnlockError};
use crate::keyring::slot::NewSlot;
use crate::keyring::unlock::ReadHeader;
use crate::keyring::{Changed, Keyring};
use crate::membership::grant::can_be_granted;
use crate::membership::principal::Principal;
use crate::providers::ready;
use crate::random::Random;
use crate::secrets::passphrase::Argon2Cost;
use strongroom_format::header::check_label;
use strongroom_format::limits::{DEVICES_MAX, SLOTS_MAX};
use strongroom_format::pairing::Newcomer;
use strongroom_format::{Change, Lock, Role, SuiteId, VaultId};

/// A device that is no member yet, with its secrets.
#[derive(Debug)]
pub struct NewDeviceKeys {
    device: Principal,
    newcomer: Newcomer,
}

impl NewDeviceKeys {
    /// A new device for that vault, with a slot of its own. Takes as long as its Argon2id.
    ///
    /// # Errors
    /// `Provider`, and what making a slot can give.
    pub fn make(
        slot: &NewSlot,
        vault: VaultId,
        random: &dyn Random,
        now_s: u64,
    ) -> Result<Self, KeyError> {
        // The suite of key slots; that of the vault is asked for when its header is read.
        ready(SuiteId::Aes256GcmBlake3)?;
        let (device, principal) = (Principal::random(random)?, Principal::random(random)?);
        let made = slot.make(&principal, vault, random, now_s)?;
        let newcomer = Newcomer {
            vault,
            device: device.keys().clone(),
            slot_keys: principal.keys().clone(),
            slot: made,
        };
        Ok(Self { device, newcomer })
    }

    /// The keys of the vault whose header, of a remote and in either form, says that this device was let in; acts as it. Its own secret
    /// opens that header once it is in a folder.
    ///
    /// # Errors
    /// `DeviceRemoved` if it was not let in, or was removed; `SlotNotMember` if its slot is not there as it was made; else as `unlock`.
    pub fn unlock_at_remote(&self, header: &[u8]) -> Result<Keyring, UnlockError> {
        let read = ReadHeader::new(header)?;
        if !read.membership.is(self.device.id(), Role::Device) {
            return Err(UnlockError::DeviceRemoved);
        }
        let keyring = read.open(self.device.clone(), None)?;
        let slot = &self.newcomer.slot;
        match keyring.header.slots.contains(slot) {
            true => Ok(keyring),
            false => Err(UnlockError::SlotNotMember { slot: slot.id }),
        }
    }

    /// What it sends to the device that lets it in.
    #[must_use]
    pub const fn newcomer(&self) -> &Newcomer {
        &self.newcomer
    }
}

impl Keyring {
    /// Makes a new device a member, and the slot of it.
    ///
    /// # Errors
    /// `NotADevice`, `TooMany`; `Newcomer`, `BrokenPublicKey` or `Format` if what was sent cannot be of a member.
    pub fn admit(&self, newcomer: &Newcomer, random: &dyn Random) -> Result<Changed, KeyError> {
        self.require_device()?;
        self.require_room(Role::Slot, SLOTS_MAX)?;
        self.require_room(Role::Device, DEVICES_MAX)?;
        let (device, slot) = (newcomer.device.id(), &newcomer.slot);
        if newcomer.vault != self.vault_id() {
            return Err(KeyError::Newcomer("a request for another vault"));
        }
        if slot.principal != newcomer.slot_keys.id() || device == slot.principal {
            return Err(KeyError::Newcomer("keys that do not match"));
        }
        if [device, slot.principal]
            .into_iter()
            .any(|id| self.membership.has_known(id))
        {
            return Err(KeyError::Newcomer("keys of a present or former member"));
        }
        if ![&newcomer.device, &newcomer.slot_keys]
            .into_iter()
            .all(can_be_granted)
        {
            return Err(KeyError::BrokenPublicKey);
        }
        check_label(&slot.label)?;
        if let Lock::Passphrase(parameters) = &slot.lock {
            Argon2Cost::of(parameters)
                .map_err(|_| KeyError::Newcomer("a passphrase slot whose cost is not allowed"))?;
        }
        let mut next = self.clone();
        next.header.slots.push(slot.clone());
        let add = |role, keys: &strongroom_format::PublicKeys| Change::Add {
            role,
            keys: keys.clone(),
        };
        let changes = vec![
            add(Role::Slot, &newcomer.slot_keys),
            add(Role::Device, &newcomer.device),
        ];
        let changed = next.finish(changes, None, random)?;
        // (1)
        match ReadHeader::of_vault(&changed.header) {
            Ok(_) => Ok(changed),
            Err(_) => Err(KeyError::Newcomer("a key slot that is invalid in a vault")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyring::genesis::create;
    use crate::keyring::slot::{NewKey, Secret};
    use crate::keyring::unlock::unlock;
    use crate::random::SystemRandom;
    use crate::secrets::key_file::KeyFile;
    use crate::secrets::passphrase::Passphrase;
    use strongroom_format::Argon2Parameters;
    use strongroom_format::limits::{ARGON2_MEMORY_KIB_MAX, ARGON2_PASSES_MAX};

    fn key_file() -> (KeyFile, NewSlot) {
        let key_file = KeyFile::random(&SystemRandom).unwrap();
        let slot = NewSlot {
            label: "laptop".to_owned(),
            key: NewKey::KeyFile(key_file.clone()),
        };
        (key_file, slot)
    }

    fn vault() -> (KeyFile, Keyring) {
        let (key_file, slot) = key_file();
        let made = create(&[slot], SuiteId::Aes256GcmBlake3, &SystemRandom, 1).unwrap();
        (key_file, made.keyring)
    }

    fn new_device(vault: VaultId) -> (KeyFile, NewDeviceKeys) {
        let (key_file, slot) = key_file();
        let new = NewDeviceKeys::make(&slot, vault, &SystemRandom, 2).unwrap();
        (key_file, new)
    }

    #[test]
    fn who_is_let_in_opens_the_vault_with_a_key_of_its_own_and_is_a_device() {
        let (old_key, keyring) = vault();
        let (new_key, new) = new_device(keyring.vault_id());
        let changed = keyring.admit(new.newcomer(), &SystemRandom).unwrap();
        assert_eq!(changed.keyring.epoch(), keyring.epoch());
        let by_slot = unlock(&changed.header, &Secret::KeyFile(new_key), None).unwrap();
        assert_eq!(by_slot.device(), None);
        let opened = new.unlock_at_remote(&changed.header).unwrap();
        assert_eq!(opened.device(), Some(new.newcomer().device.id()));
        let replica = opened.new_replica(&SystemRandom).unwrap();
        let sealed = opened.seal_replica(&replica, &SystemRandom).unwrap();
        // From then on it is as any copy.
        let mut again = unlock(&changed.header, &Secret::KeyFile(old_key), None).unwrap();
        let replica = again.open_replica(&sealed).unwrap();
        again.act_as(&replica).unwrap();
        assert_eq!(again.device(), opened.device());
        assert!(again.slots().iter().any(|slot| slot.label == "laptop"));
    }

    #[test]
    fn who_was_not_let_in_is_no_device() {
        let (_, keyring) = vault();
        let (_, new) = new_device(keyring.vault_id());
        let header = keyring.header_bytes().unwrap();
        let opened = new.unlock_at_remote(&header);
        assert_eq!(opened.unwrap_err(), UnlockError::DeviceRemoved);
    }

    /// Goal: a device that chose a passphrase ends its clone although no passphrase opens what the remote has, and its passphrase opens
    /// the folder afterwards.
    #[test]
    fn a_new_device_with_a_passphrase_reads_the_form_for_remotes() {
        let (_, keyring) = vault();
        let text = Passphrase::new(b"chosen").unwrap();
        let slot = NewSlot {
            label: "laptop".to_owned(),
            key: NewKey::Passphrase(text.clone(), Argon2Cost::CHEAP),
        };
        let new = NewDeviceKeys::make(&slot, keyring.vault_id(), &SystemRandom, 2).unwrap();
        let changed = keyring.admit(new.newcomer(), &SystemRandom).unwrap();
        let remote = changed.keyring.remote_header().unwrap();
        assert_ne!(remote, changed.header);
        let opened = new.unlock_at_remote(&remote).unwrap();
        assert_eq!(opened.device(), Some(new.newcomer().device.id()));
        let header = opened.header_bytes().unwrap();
        assert_eq!(header, changed.header);
        unlock(&header, &Secret::Passphrase(text), None).unwrap();
        // Who lets it in cannot give it another slot of that name.
        let mut other = changed.keyring.clone();
        let last = other.header.slots.last_mut().unwrap();
        last.sealed[70] ^= 1;
        let opened = new.unlock_at_remote(&other.remote_header().unwrap());
        assert!(matches!(opened, Err(UnlockError::SlotNotMember { .. })));
    }

    /// SECURITY.md, claim 23.
    #[test]
    fn what_no_member_can_be_is_not_let_in() {
        let (_, keyring) = vault();
        let (_, new) = new_device(keyring.vault_id());
        let costly = |memory_kib, passes| {
            let argon2 = Argon2Parameters {
                memory_kib,
                passes,
                lanes: 1,
                salt: [0; 16],
            };
            Lock::Passphrase(argon2)
        };
        let refused = |change: &dyn Fn(&mut Newcomer)| {
            let mut newcomer = new.newcomer().clone();
            change(&mut newcomer);
            keyring.admit(&newcomer, &SystemRandom).unwrap_err()
        };
        refused(&|one| one.vault = VaultId([9; 32]));
        refused(&|one| one.slot.principal = one.device.id());
        refused(&|one| {
            one.slot_keys = one.device.clone();
            one.slot.principal = one.device.id();
        });
        refused(&|one| one.slot.label = "a\u{202e}b".to_owned());
        refused(&|one| one.slot.label = "a".repeat(200));
        refused(&|one| one.slot.sealed = vec![0; 9000]);
        refused(&|one| one.slot.id = keyring.slots()[0].id);
        refused(&|one| one.slot.lock = costly(8, 1));
        refused(&|one| one.slot.lock = costly(ARGON2_MEMORY_KIB_MAX, ARGON2_PASSES_MAX));
        let broken = refused(&|one| one.device.kem.fill(0xff));
        assert_eq!(broken, KeyError::BrokenPublicKey);
        let broken = refused(&|one| {
            one.slot_keys.kem.fill(0xff);
            one.slot.principal = one.slot_keys.id();
        });
        assert_eq!(broken, KeyError::BrokenPublicKey);
    }

    #[test]
    fn nobody_is_let_in_twice_or_after_removal() {
        let (_, keyring) = vault();
        let (_, new) = new_device(keyring.vault_id());
        let inside = keyring.admit(new.newcomer(), &SystemRandom).unwrap();
        let twice = inside.keyring.admit(new.newcomer(), &SystemRandom);
        let known = KeyError::Newcomer("keys of a present or former member");
        assert_eq!(twice.unwrap_err(), known);
        let device = new.newcomer().device.id();
        let removed = inside.keyring.revoke_device(device, &SystemRandom).unwrap();
        let again = removed.keyring.admit(new.newcomer(), &SystemRandom);
        assert_eq!(again.unwrap_err(), known);
    }
}
