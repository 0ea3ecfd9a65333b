//! Turns the header of a vault into the form for remotes, which nobody can try passphrases against, and back.
//!
//! Takes   a keyring
//! Gives   the bytes of its header in either form
//! Never   gives remotes the data of a passphrase slot unsealed, unless the header allows it
//! Spec    spec/1-keys.md, [1.7.6] to [1.7.10]
//!
//! Invariants
//!  (1) Converting either form gives exactly the bytes of the other, whichever key holder converts it.          [1.7.8]

use crate::keyring::error::{KeyError, UnlockError};
use crate::keyring::unlock::check_argon2;
use crate::keyring::{Keyring, header_mac};
use strongroom_format::Kind;

impl Keyring {
    /// The header in the form that remotes get. (1)
    ///
    /// # Errors
    /// `Format` if it is longer than a header may be.
    pub fn remote_header(&self) -> Result<Vec<u8>, KeyError> {
        let Some(clear) = self.header.to_withhold() else {
            return self.header_bytes();
        };
        let sealer = self.block_sealer();
        let sealed = sealer.seal_equal_record(Kind::WithheldSlots, &clear);
        let form = self.header.for_remotes(sealed);
        Ok(form.encode(|covered| header_mac(self.newest_key(), covered))?)
    }

    /// This keyring with what its header withholds put back, once the MAC over the header was found right.
    pub(crate) fn with_withheld(mut self) -> Result<Self, UnlockError> {
        let Some(sealed) = &self.header.withheld else {
            return Ok(self);
        };
        let sealer = self.block_sealer();
        let opened = sealer.open_record(self.epoch(), Kind::WithheldSlots, sealed);
        let clear = opened.map_err(|_| UnlockError::WithheldForged)?;
        let header = self.header.clone().with_withheld(&clear);
        self.header = header.map_err(|_| UnlockError::WithheldForged)?;
        check_argon2(&self.header)?;
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyring::Changed;
    use crate::keyring::genesis::create;
    use crate::keyring::slot::{NewKey, NewSlot, Secret};
    use crate::keyring::unlock::{unlock, unlock_at_remote};
    use crate::random::SystemRandom;
    use crate::secrets::key_file::KeyFile;
    use crate::secrets::passphrase::{Argon2Cost, Passphrase};
    use strongroom_format::{Epoch, Header, Lock, SlotKind, SuiteId};

    fn passphrase(text: &str) -> Passphrase {
        Passphrase::new(text.as_bytes()).unwrap()
    }

    fn new_passphrase(text: &str) -> NewSlot {
        NewSlot {
            label: text.to_owned(),
            key: NewKey::Passphrase(passphrase(text), Argon2Cost::CHEAP),
        }
    }

    /// A vault with two passphrases and a key file.
    fn vault() -> (Changed, Secret) {
        let key_file = KeyFile::random(&SystemRandom).unwrap();
        let slots = [
            new_passphrase("one"),
            NewSlot {
                label: "file".to_owned(),
                key: NewKey::KeyFile(key_file.clone()),
            },
            new_passphrase("two"),
        ];
        let suite = SuiteId::ChaCha20Poly1305Blake3;
        let made = create(&slots, suite, &SystemRandom, 1).unwrap();
        (made, Secret::KeyFile(key_file))
    }

    /// The form of `keyring` with something else withheld, by somebody who has the keys.
    fn forged(keyring: &Keyring, sealed: Vec<u8>) -> Vec<u8> {
        let form = keyring.header.for_remotes(sealed);
        form.encode(|covered| header_mac(keyring.newest_key(), covered))
            .unwrap()
    }

    /// SECURITY.md, claim 24.
    #[test]
    fn remotes_get_no_byte_of_what_a_passphrase_is_tried_against_and_members_get_all_back() {
        let (made, secret) = vault();
        let remote = made.keyring.remote_header().unwrap();
        let text = String::from_utf8(remote.clone()).unwrap();
        let whole = Header::decode(&made.header).unwrap().header;
        for slot in &whole.slots {
            if let Lock::Passphrase(argon2) = &slot.lock {
                assert!(!text.contains(&strongroom_format::hex::encode(&argon2.salt)));
                let form = Header::decode(&remote).unwrap().header;
                let withheld = form.withheld.unwrap();
                for part in [&argon2.salt[..], &slot.sealed[..32], &slot.sealed[64..96]] {
                    assert!(withheld.windows(part.len()).all(|window| window != part));
                }
            }
        }
        assert!(!text.contains("argon2"));
        let opened = unlock_at_remote(&remote, &secret).unwrap();
        assert_eq!(opened.header_bytes().unwrap(), made.header);
        assert_eq!(opened.remote_header().unwrap(), remote);
        let followed = made.keyring.follow_at_remote(&remote).unwrap();
        assert_eq!(followed.header_bytes().unwrap(), made.header);
        // What a passphrase opens again is what it opened before.
        let back = opened.header_bytes().unwrap();
        unlock(&back, &Secret::Passphrase(passphrase("two")), None).unwrap();
    }

    /// Goal: a passphrase that was changed elsewhere works here too, and never before this device is there.
    #[test]
    fn a_changed_passphrase_comes_back_out_of_the_form_for_remotes() {
        let (made, _) = vault();
        let slot = made.keyring.slots()[0].id;
        let new = passphrase("changed");
        let changed = made
            .keyring
            .change_passphrase(slot, new.clone(), Argon2Cost::CHEAP, &SystemRandom, 2)
            .unwrap();
        let remote = changed.keyring.remote_header().unwrap();
        let other = unlock(&made.header, &Secret::Passphrase(passphrase("two")), None).unwrap();
        let followed = other.follow_at_remote(&remote).unwrap();
        assert_eq!(followed.header_bytes().unwrap(), changed.header);
        unlock(&changed.header, &Secret::Passphrase(new), None).unwrap();
    }

    #[test]
    fn a_passphrase_opens_no_form_for_remotes_and_hears_what_does() {
        let (made, _) = vault();
        let remote = made.keyring.remote_header().unwrap();
        let error = unlock_at_remote(&remote, &Secret::Passphrase(passphrase("one"))).unwrap_err();
        let others = vec![SlotKind::KeyFile];
        assert_eq!(error, UnlockError::PassphrasesWithheld { others });
        assert!(error.to_string().contains("a key file"), "{error}");
        let only = create(
            &[new_passphrase("one")],
            made.keyring.suite(),
            &SystemRandom,
            1,
        )
        .unwrap();
        let remote = only.keyring.remote_header().unwrap();
        let error = unlock_at_remote(&remote, &Secret::Passphrase(passphrase("one"))).unwrap_err();
        assert!(error.to_string().contains("device add"), "{error}");
    }

    /// Goal: no form for remotes takes the place of what the passphrases of this folder open.
    #[test]
    fn the_form_for_remotes_is_no_header_of_a_folder() {
        let (made, secret) = vault();
        let remote = made.keyring.remote_header().unwrap();
        let refused = UnlockError::FormForRemotes;
        assert_eq!(unlock(&remote, &secret, None).unwrap_err(), refused);
        assert_eq!(made.keyring.follow(&remote).unwrap_err(), refused);
        let by_device = made.keyring.follow_as(&remote, None);
        assert_eq!(by_device.unwrap_err(), refused);
    }

    #[test]
    fn a_guessable_header_has_one_form_and_the_mac_covers_that_it_says_so() {
        let (made, secret) = vault();
        let guessable = made.keyring.set_guessable(true).unwrap();
        assert!(guessable.keyring.is_guessable());
        let remote = guessable.keyring.remote_header().unwrap();
        assert_eq!(remote, guessable.header);
        unlock_at_remote(&remote, &Secret::Passphrase(passphrase("one"))).unwrap();
        // Every change of keys keeps it.
        let later = guessable.keyring.begin_epoch(&SystemRandom).unwrap();
        assert!(later.keyring.is_guessable());
        let again = later.keyring.set_guessable(false).unwrap().keyring;
        assert_ne!(
            again.remote_header().unwrap(),
            again.header_bytes().unwrap()
        );
        let mut header = Header::decode(&made.header).unwrap().header;
        let mac = Header::decode(&made.header).unwrap().mac;
        header.guessable_changes = 1;
        let edited = header.encode(|_| mac).unwrap();
        let opened = unlock(&edited, &secret, None);
        assert_eq!(opened.unwrap_err(), UnlockError::HeaderEdited);
    }

    /// Goal: whoever was removed cannot say that remotes get something to guess at, with the keys that it had.
    /// SECURITY.md, claims 2 and 24.
    #[test]
    fn what_another_header_says_of_guessing_counts_if_it_is_newer_and_of_the_newest_keys() {
        let (made, _) = vault();
        let first = made.keyring;
        let said = first.set_guessable(true).unwrap();
        let merged = |keyring: &Keyring, header: &[u8]| keyring.with_newer_in(header).unwrap();
        let forgot = first.forget_epochs_before(Epoch(0)).unwrap().keyring;
        let taken = merged(&forgot, &said.header).unwrap();
        assert!(taken.keyring.is_guessable());
        assert_eq!(taken.keyring.generation(), forgot.generation() + 1);
        assert!(
            merged(&taken.keyring, &said.header).is_none(),
            "it is known"
        );
        assert!(merged(&said.keyring, &made.header).is_none(), "it is older");
        let back = said.keyring.set_guessable(false).unwrap();
        let form = back.keyring.remote_header().unwrap();
        assert!(!merged(&said.keyring, &form).unwrap().keyring.is_guessable());
        assert!(merged(&back.keyring, &said.header).is_none());
        // Of earlier keys, as those of somebody who was removed.
        let later = first.begin_epoch(&SystemRandom).unwrap().keyring;
        assert!(merged(&later, &said.header).is_none());
        // Without keys.
        let mut stored = Header::decode(&made.header).unwrap();
        stored.header.guessable_changes = 9;
        let edited = stored.header.encode(|_| stored.mac).unwrap();
        assert!(merged(&first, &edited).is_none());
        assert!(merged(&first, b"no header").is_none());
        // A later header does not take back what this one says.
        let added = later.set_guessable(true).unwrap().keyring;
        let both = later.with_newer_of(&added).unwrap().unwrap();
        assert!(both.keyring.is_guessable());
        assert!(added.with_newer_of(&later).unwrap().is_none());
    }

    /// Goal: whoever said something of guessing twice is not ahead of another device that changed keys once.
    #[test]
    fn a_header_with_more_records_is_later_at_a_remote_whatever_its_generation() {
        let (made, _) = vault();
        let first = made.keyring;
        let twice = first.set_guessable(true).unwrap().keyring;
        let twice = twice.set_guessable(false).unwrap().keyring;
        let other = first
            .add_slot(&new_passphrase("three"), &SystemRandom, 2)
            .unwrap();
        assert!(other.keyring.generation() < twice.generation());
        let form = other.keyring.remote_header().unwrap();
        let followed = twice.follow_at_remote(&form).unwrap();
        let merged = followed.with_newer_of(&twice).unwrap().unwrap().keyring;
        assert_eq!(merged.generation(), twice.generation() + 1);
        assert!(merged.includes(&other.keyring) && !merged.is_guessable());
        // In a folder it is an older one, and one with no more records is older anywhere.
        let older = UnlockError::GenerationBehind {
            seen: twice.generation(),
            found: other.keyring.generation(),
        };
        assert_eq!(twice.follow(&other.header).unwrap_err(), older);
        let before = first.remote_header().unwrap();
        assert!(matches!(
            twice.follow_at_remote(&before),
            Err(UnlockError::GenerationBehind { .. })
        ));
    }

    /// Method: each is sealed right and has a MAC that fits, as only a member can make it.
    /// SECURITY.md, claim 24.
    #[test]
    fn what_is_withheld_of_other_slots_epochs_or_kinds_is_refused() {
        let (made, secret) = vault();
        let later = made.keyring.begin_epoch(&SystemRandom).unwrap().keyring;
        let clear = later.header.to_withhold().unwrap();
        let seal = |keyring: &Keyring, kind, clear: &[u8]| {
            let sealer = keyring.block_sealer();
            sealer.seal_equal_record(kind, clear)
        };
        let kind = Kind::WithheldSlots;
        let right = seal(&later, kind, &clear);
        let opened = |sealed: Vec<u8>| unlock_at_remote(&forged(&later, sealed), &secret);
        assert!(opened(right.clone()).is_ok());
        let other = create(
            &[new_passphrase("one"), new_passphrase("two")],
            later.suite(),
            &SystemRandom,
            1,
        );
        let of_others = other.unwrap().keyring.header.to_withhold().unwrap();
        let mut cheap = later.header.clone();
        for slot in &mut cheap.slots {
            if let Lock::Passphrase(argon2) = &mut slot.lock {
                argon2.passes = 65;
            }
        }
        let wrong = [
            seal(&made.keyring, kind, &clear),
            seal(&later, Kind::Pairing, &clear),
            seal(&later, kind, &of_others),
            seal(&later, kind, &cheap.to_withhold().unwrap()),
            seal(&later, kind, b""),
            right[..right.len() - 1].to_vec(),
            Vec::new(),
        ];
        for sealed in wrong {
            assert_eq!(opened(sealed).unwrap_err(), UnlockError::WithheldForged);
        }
        // Without the keys it is the MAC that does not fit.
        let stored = Header::decode(&later.remote_header().unwrap()).unwrap();
        let mut header = stored.header;
        let withheld = header.withheld.as_mut().unwrap();
        withheld[70] ^= 1;
        let edited = header.encode(|_| stored.mac).unwrap();
        let error = unlock_at_remote(&edited, &secret).unwrap_err();
        assert_eq!(error, UnlockError::HeaderEdited);
        assert_eq!(later.epoch(), Epoch(1));
    }
}
