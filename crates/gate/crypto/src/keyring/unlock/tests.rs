//! The life of a vault's keys, and every way in which a header can be wrong.
//!
//! Method for tampering: decode the header, change one field, sign and grant as far as the attacker could, and encode
//! the header with a matching checksum. An attacker without keys cannot make the MAC, so it is left unchanged.

use super::*;
use crate::keyring::Changed;
use crate::keyring::error::KeyError;
use crate::keyring::genesis::create;
use crate::keyring::slot::{NewKey, NewSlot};
use crate::limits::{ARGON2_UNASKED_MEMORY_KIB_MAX, ARGON2_UNASKED_WORK_KIB_MAX};
use crate::membership::Forged;
use crate::random::SystemRandom;
use crate::secrets::age_key::{AgeIdentity, AgeRecipient};
use crate::secrets::key_file::KeyFile;
use crate::secrets::passphrase::{OutOfMemory, Passphrase};
use crate::secrets::recovery_code::RecoveryCode;
use age::secrecy::ExposeSecret as _;
use strongroom_format::limits::{ARGON2_PASSES_MAX, GRANT_BYTES};
use strongroom_format::{Change, FormatError, Kind, PublicKeys, SlotId, SlotKind, SuiteId};

const SUITE: SuiteId = SuiteId::Aes256GcmBlake3;

fn passphrase(text: &str) -> Passphrase {
    Passphrase::new(text.as_bytes()).unwrap()
}

fn secret(text: &str) -> Secret {
    Secret::Passphrase(passphrase(text))
}

fn new_passphrase(text: &str) -> NewSlot {
    NewSlot {
        label: text.to_owned(),
        key: NewKey::Passphrase(passphrase(text), Argon2Cost::CHEAP),
    }
}

/// A vault with the passphrase "one" and a recovery code.
fn vault() -> (Changed, RecoveryCode) {
    let code = RecoveryCode::random(&SystemRandom).unwrap();
    let recovery = NewSlot {
        label: "printed".to_owned(),
        key: NewKey::RecoveryCode(code.clone()),
    };
    (
        create(
            &[new_passphrase("one"), recovery],
            SUITE,
            &SystemRandom,
            1_700_000_000,
        )
        .unwrap(),
        code,
    )
}

fn slot_id(keyring: &Keyring, label: &str) -> SlotId {
    keyring
        .slots()
        .iter()
        .find(|slot| slot.label == label)
        .unwrap()
        .id
}

/// `header` after `edit`, with the MAC it had.
fn edited(header: &[u8], edit: impl FnOnce(&mut Header)) -> Vec<u8> {
    let stored = Header::decode(header).unwrap();
    let mut values = stored.header;
    edit(&mut values);
    values.encode(|_| stored.mac).unwrap()
}

fn error(header: &[u8], text: &str) -> UnlockError {
    unlock(header, &secret(text), None).unwrap_err()
}

/// Whether `reader` opens what `writer` seals now.
fn reads(reader: &Keyring, writer: &Keyring) -> bool {
    let sealed = writer.block_sealer().seal(Kind::Data, b"text");
    let epoch = writer.epoch();
    reader
        .block_sealer()
        .open(epoch, Kind::Data, &sealed.id, 4, &sealed.bytes)
        .is_ok_and(|clear| clear == b"text")
}

#[test]
fn each_secret_of_a_new_vault_gives_the_same_keys() {
    let (made, code) = vault();
    for secret in [secret("one"), Secret::RecoveryCode(code)] {
        let keyring = unlock(&made.header, &secret, None).unwrap();
        assert_eq!(keyring.vault_id(), made.keyring.vault_id());
        assert_eq!(
            (keyring.generation(), keyring.epoch(), keyring.suite()),
            (1, Epoch(0), SUITE)
        );
        assert_eq!(keyring.slots().len(), 2);
        assert!(reads(&keyring, &made.keyring) && reads(&made.keyring, &keyring));
        assert!(!keyring.needs_fingerprint_check());
    }
}

#[test]
fn two_vaults_made_alike_share_nothing() {
    let (one, two) = (vault().0.keyring, vault().0.keyring);
    assert_ne!(one.vault_id(), two.vault_id());
    assert_ne!(one.fingerprint(), two.fingerprint());
    assert!(!reads(&one, &two));
    let (one, two) = (
        one.block_sealer().seal(Kind::Data, b"x"),
        two.block_sealer().seal(Kind::Data, b"x"),
    );
    assert_ne!(one.id, two.id);
}

#[test]
fn a_vault_without_a_slot_or_with_too_many_is_not_made() {
    assert_eq!(
        create(&[], SUITE, &SystemRandom, 0).unwrap_err(),
        KeyError::LastSlot
    );
    let key = NewKey::KeyFile(KeyFile::random(&SystemRandom).unwrap());
    let many = vec![
        NewSlot {
            label: String::new(),
            key
        };
        65
    ];
    assert_eq!(
        create(&many, SUITE, &SystemRandom, 0).unwrap_err(),
        KeyError::TooMany
    );
}

#[test]
fn a_wrong_secret_is_no_damage_and_damage_is_no_wrong_secret() {
    let (made, _) = vault();
    assert_eq!(
        error(&made.header, "two"),
        UnlockError::WrongSecret {
            kind: SlotKind::Passphrase
        }
    );
    let other = Secret::RecoveryCode(RecoveryCode::random(&SystemRandom).unwrap());
    assert_eq!(
        unlock(&made.header, &other, None).unwrap_err(),
        UnlockError::WrongSecret {
            kind: SlotKind::RecoveryCode
        }
    );
    for place in (0..made.header.len()).step_by(97) {
        let mut damaged = made.header.clone();
        damaged[place] ^= 4;
        assert_eq!(
            error(&damaged, "one"),
            UnlockError::Damaged {
                what: "vault header"
            }
        );
        assert_eq!(
            error(&made.header[..place], "one"),
            UnlockError::Damaged {
                what: "vault header"
            }
        );
    }
}

#[test]
fn a_wrong_secret_says_that_tampering_looks_the_same() {
    let text = UnlockError::WrongSecret {
        kind: SlotKind::Passphrase,
    }
    .to_string();
    assert!(
        text.contains("if somebody altered the key slot, the message would be the same"),
        "{text}"
    );
}

#[test]
fn a_kind_that_the_vault_has_not_is_named() {
    let file = Secret::KeyFile(KeyFile::random(&SystemRandom).unwrap());
    let error = unlock(&vault().0.header, &file, None).unwrap_err();
    assert_eq!(
        error,
        UnlockError::NoSlotOfThatKind {
            kind: SlotKind::KeyFile
        }
    );
}

#[test]
fn unknown_formats_flags_and_suites_are_named() {
    let text = String::from_utf8(vault().0.header).unwrap();
    let (body, _) = text.rsplit_once("  \"checksum\"").unwrap();
    for (from, to, expected) in [
        ("\"format\": 1", "\"format\": 2", "format 2"),
        ("\"flags\": []", "\"flags\": [\"wormhole\"]", "wormhole"),
        ("\"suite\": 1", "\"suite\": 9", "suite 9"),
        (
            "\"generation\"",
            "\"colour\": 1,\n  \"generation\"",
            "`colour`",
        ),
    ] {
        let body = body.replacen(from, to, 1);
        let sum = blake3::hash(body.as_bytes()).to_hex();
        let header = format!("{body}  \"checksum\": \"{sum}\"\n}}\n");
        match error(header.as_bytes(), "one") {
            UnlockError::Format(error) => assert!(error.to_string().contains(expected), "{error}"),
            other => panic!("{to}: {other:?}"),
        }
    }
}

/// SECURITY.md, claim 4.
#[test]
fn argon2_outside_floor_and_ceiling_is_refused_before_it_is_run() {
    let (made, _) = vault();
    let with = |change: &dyn Fn(&mut strongroom_format::Argon2Parameters)| {
        let stored = Header::decode(&made.header).unwrap();
        let mut values = stored.header;
        for slot in &mut values.slots {
            if let Lock::Passphrase(parameters) = &mut slot.lock {
                change(parameters);
            }
        }
        values.encode(|_| stored.mac)
    };
    // Whoever edits a header is not bound by our encoder, but the decoder has the same ceilings (format crate's tests).
    assert!(matches!(
        with(&|p| p.memory_kib = u32::MAX),
        Err(FormatError::Argon2OutOfRange { .. })
    ));
    assert!(matches!(
        with(&|p| p.passes = 65),
        Err(FormatError::Argon2OutOfRange { .. })
    ));
    let cheaper = with(&|p| p.memory_kib = 63).unwrap();
    match error(&cheaper, "one") {
        UnlockError::Format(FormatError::Argon2OutOfRange {
            parameter,
            found: 63,
            min: 64,
            ..
        }) => {
            assert_eq!(parameter, "memory_kib");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn editing_any_value_of_a_header_is_found() {
    let (made, code) = vault();
    type Edit = (&'static str, Box<dyn Fn(&mut Header)>);
    let edits: Vec<Edit> = vec![
        ("generation", Box::new(|header| header.generation += 1)),
        (
            "suite",
            Box::new(|header| header.suite = SuiteId::ChaCha20Poly1305Blake3),
        ),
        ("label", Box::new(|header| header.slots[0].label.push('x'))),
        ("created", Box::new(|header| header.slots[0].created_s += 1)),
        ("slot id", Box::new(|header| header.slots[0].id.0[0] ^= 1)),
        (
            "slot principal",
            Box::new(|header| header.slots[1].principal.0[0] ^= 1),
        ),
        (
            "slot removed",
            Box::new(|header| drop(header.slots.remove(0))),
        ),
        ("slots swapped", Box::new(|header| header.slots.swap(0, 1))),
        (
            "grant removed",
            Box::new(|header| drop(header.grants.pop())),
        ),
    ];
    for (name, edit) in edits {
        let header = edited(&made.header, edit);
        let found = unlock(&header, &Secret::RecoveryCode(code.clone()), None).unwrap_err();
        let expected = matches!(found, UnlockError::HeaderEdited)
            || (name == "grant removed" && found == UnlockError::GrantMissing { epoch: Epoch(0) });
        assert!(expected, "{name}: {found:?}");
    }
}

#[test]
fn membership_forged_dropped_reordered_or_foreign_is_named_with_its_record() {
    let (made, _) = vault();
    let two = made
        .keyring
        .add_slot(&new_passphrase("two"), &SystemRandom, 0)
        .unwrap();
    let three = two
        .keyring
        .add_slot(&new_passphrase("three"), &SystemRandom, 0)
        .unwrap();
    let foreign = vault()
        .0
        .keyring
        .add_slot(&new_passphrase("x"), &SystemRandom, 0)
        .unwrap()
        .keyring
        .header
        .records;

    let why = "does not follow the record before it";
    let dropped = edited(&three.header, |header| drop(header.records.remove(1)));
    assert_eq!(
        error(&dropped, "one"),
        UnlockError::Forged(Forged { record: 1, why })
    );
    let reordered = edited(&three.header, |header| header.records.swap(1, 2));
    assert_eq!(
        error(&reordered, "one"),
        UnlockError::Forged(Forged { record: 1, why })
    );
    let mixed = edited(&three.header, |header| {
        header.records[2] = foreign[1].clone()
    });
    assert_eq!(
        error(&mixed, "one"),
        UnlockError::Forged(Forged { record: 2, why })
    );
    let signed = edited(&three.header, |header| header.records[2].signature[0] ^= 1);
    let why = "has a wrong signature";
    assert_eq!(
        error(&signed, "one"),
        UnlockError::Forged(Forged { record: 2, why })
    );
    let replaced = edited(&three.header, |header| header.records = foreign.clone());
    assert_eq!(error(&replaced, "one"), UnlockError::ForeignMembership);
    // Cut at its end, the chain is valid; the MAC shows it.
    let cut = edited(&three.header, |header| drop(header.records.pop()));
    assert_eq!(error(&cut, "one"), UnlockError::HeaderEdited);
    let none = edited(&three.header, |header| header.records.clear());
    assert_eq!(
        error(&none, "one"),
        UnlockError::Forged(Forged {
            record: 0,
            why: "is missing"
        })
    );
}

/// Somebody who has written a vault of his own puts its slot, with a passphrase he knows the person uses, into ours.
#[test]
fn a_slot_of_another_vault_is_foreign() {
    let (made, foreign) = (vault().0, vault().0);
    let theirs = Header::decode(&foreign.header).unwrap().header.slots[0].clone();
    let id = theirs.id;
    let header = edited(&made.header, |header| header.slots[0] = theirs);
    assert_eq!(error(&header, "one"), UnlockError::ForeignSlot { slot: id });
}

#[test]
fn a_removed_slot_opens_neither_the_new_header_nor_what_is_sealed_later() {
    let (made, code) = vault();
    let with_two = made
        .keyring
        .add_slot(&new_passphrase("two"), &SystemRandom, 0)
        .unwrap();
    let two = slot_id(&with_two.keyring, "two");
    let old = unlock(&with_two.header, &secret("two"), None).unwrap();
    let removed = with_two.keyring.remove_slot(two, &SystemRandom).unwrap();

    assert_eq!(removed.keyring.epoch(), Epoch(1));
    assert_eq!(
        error(&removed.header, "two"),
        UnlockError::WrongSecret {
            kind: SlotKind::Passphrase
        }
    );
    assert!(
        !reads(&old, &removed.keyring),
        "the next epoch is closed to it"
    );
    assert!(
        reads(&removed.keyring, &old),
        "the members still read what was sealed before"
    );
    for secret in [secret("one"), Secret::RecoveryCode(code)] {
        assert!(reads(
            &unlock(&removed.header, &secret, None).unwrap(),
            &removed.keyring
        ));
    }

    // Put back into the newest header, with all its old grants, the slot is known as retired.
    let stored = Header::decode(&with_two.header).unwrap().header;
    let put_back = edited(&removed.header, |header| {
        header.slots.push(
            stored
                .slots
                .iter()
                .find(|slot| slot.id == two)
                .unwrap()
                .clone(),
        );
        header.grants.extend(
            stored
                .grants
                .iter()
                .filter(|grant| grant.principal == old.signer.id())
                .cloned(),
        );
    });
    assert_eq!(
        error(&put_back, "two"),
        UnlockError::SlotNotMember { slot: two }
    );
    // And no grant of any epoch is left for it.
    let now = Header::decode(&removed.header).unwrap().header;
    assert!(
        now.grants
            .iter()
            .all(|grant| grant.principal != old.signer.id())
    );
}

/// [2.23]: a tag proves enough where everyone who knows the epoch's key is a member still.
#[test]
fn what_somebody_knows_the_keys_of_who_was_retired_is_proven_fully() {
    let (made, _) = vault();
    let begun = made.keyring.begin_epoch(&SystemRandom).unwrap();
    assert!(!begun.keyring.block_sealer().proves_fully(Epoch(0)));
    let slot = slot_id(&begun.keyring, "one");
    let cost = Argon2Cost::CHEAP;
    let changed = begun
        .keyring
        .change_passphrase(slot, passphrase("new"), cost, &SystemRandom, 9)
        .unwrap();
    let later = changed.keyring.begin_epoch(&SystemRandom).unwrap();
    let unlocked = unlock(&later.header, &secret("new"), None).unwrap();
    for keyring in [&changed.keyring, &later.keyring, &unlocked] {
        let sealer = keyring.block_sealer();
        let fully = [0, 1, 2, 3].map(|epoch| sealer.proves_fully(Epoch(epoch)));
        assert_eq!(fully, [true, true, false, false]);
    }
}

#[test]
fn an_older_header_put_back_is_found_by_its_generation() {
    let (made, _) = vault();
    let two = made
        .keyring
        .add_slot(&new_passphrase("two"), &SystemRandom, 0)
        .unwrap();
    let removed = two
        .keyring
        .remove_slot(slot_id(&two.keyring, "two"), &SystemRandom)
        .unwrap();
    assert_eq!(removed.keyring.generation(), 3);
    let behind = unlock(&two.header, &secret("two"), Some(3)).unwrap_err();
    assert_eq!(behind, UnlockError::GenerationBehind { seen: 3, found: 2 });
    assert!(unlock(&removed.header, &secret("one"), Some(3)).is_ok());
    assert!(unlock(&removed.header, &secret("one"), Some(2)).is_ok());
    let late = unlock(&two.header, &secret("two"), None)
        .unwrap()
        .check_generation(3);
    assert_eq!(
        late,
        Err(UnlockError::GenerationBehind { seen: 3, found: 2 })
    );
}

#[test]
fn after_a_change_the_old_passphrase_opens_the_old_header_only() {
    let (made, code) = vault();
    let slot = slot_id(&made.keyring, "one");
    let changed = made
        .keyring
        .change_passphrase(slot, passphrase("new"), Argon2Cost::CHEAP, &SystemRandom, 9)
        .unwrap();
    assert_eq!(
        error(&changed.header, "one"),
        UnlockError::WrongSecret {
            kind: SlotKind::Passphrase
        }
    );
    let keyring = unlock(&changed.header, &secret("new"), Some(2)).unwrap();
    assert!(reads(&keyring, &changed.keyring) && reads(&keyring, &made.keyring));
    assert!(unlock(&changed.header, &Secret::RecoveryCode(code), None).is_ok());
    let old = unlock(&made.header, &secret("one"), None).unwrap();
    assert!(!reads(&old, &changed.keyring));
    let slots = changed.keyring.slots();
    assert_eq!(
        (slots.len(), slots[0].label.as_str(), slots[0].created_s),
        (2, "one", 9)
    );
    assert_ne!(slots[0].id, slot);
}

/// The attacker knows all public keys, so he can grant an epoch key of his own; and he kept an old epoch's keys.
#[test]
fn a_grant_of_an_unknown_key_is_forged() {
    let (made, _) = vault();
    let rotated = made.keyring.begin_epoch(&SystemRandom).unwrap();
    let reader = unlock(&rotated.header, &secret("one"), None).unwrap();
    for (epoch, old_key) in [
        (1, made.keyring.newest_key().clone()),
        (0, rotated.keyring.newest_key().clone()),
    ] {
        let keys = made.keyring.epoch_keys(&old_key);
        let to = reader.signer.keys();
        let grant = keys
            .grant(reader.vault_id(), Epoch(epoch), to, &SystemRandom)
            .unwrap();
        let header = edited(&rotated.header, |header| {
            header
                .grants
                .retain(|other| (other.epoch, other.principal) != (grant.epoch, grant.principal));
            header.grants.push(grant);
        });
        assert_eq!(
            error(&header, "one"),
            UnlockError::GrantForged {
                epoch: Epoch(epoch)
            }
        );
    }
    let beyond = edited(&rotated.header, |header| {
        let mut grant = header
            .grants
            .iter()
            .find(|grant| grant.principal == reader.signer.id())
            .unwrap()
            .clone();
        grant.epoch = Epoch(2);
        header.grants.push(grant);
    });
    assert_eq!(
        error(&beyond, "one"),
        UnlockError::GrantForged { epoch: Epoch(2) }
    );
}

/// Somebody who was removed keeps the old epoch's keys, so he can make a MAC under the old epoch.
#[test]
fn a_mac_under_an_older_epoch_does_not_count() {
    let (made, _) = vault();
    let rotated = made.keyring.begin_epoch(&SystemRandom).unwrap();
    let values = Header::decode(&rotated.header).unwrap().header;
    let header = values
        .encode(|covered| header_mac(made.keyring.newest_key(), covered))
        .unwrap();
    assert_eq!(error(&header, "one"), UnlockError::HeaderEdited);
    // With the right key, but over other bytes of the same values (a space more), it does not count either.
    let text =
        String::from_utf8(rotated.header)
            .unwrap()
            .replacen("\"flags\": []", "\"flags\":  []", 1);
    let (body, _) = text.rsplit_once("  \"checksum\"").unwrap();
    let respaced = format!(
        "{body}  \"checksum\": \"{}\"\n}}\n",
        blake3::hash(body.as_bytes()).to_hex()
    );
    assert_eq!(error(respaced.as_bytes(), "one"), UnlockError::HeaderEdited);
}

#[test]
fn a_slot_alone_adds_a_device_and_the_device_does_the_rest() {
    let (made, _) = vault();
    let mut by_slot = unlock(&made.header, &secret("one"), None).unwrap();
    assert_eq!(by_slot.device(), None);
    let one = slot_id(&by_slot, "one");
    assert_eq!(
        by_slot
            .add_slot(&new_passphrase("x"), &SystemRandom, 0)
            .unwrap_err(),
        KeyError::NotADevice
    );
    assert_eq!(
        by_slot.remove_slot(one, &SystemRandom).unwrap_err(),
        KeyError::NotADevice
    );
    assert_eq!(
        by_slot
            .replace_slot(one, &new_passphrase("x"), &SystemRandom, 0)
            .unwrap_err(),
        KeyError::NotADevice
    );
    assert_eq!(
        by_slot.begin_epoch(&SystemRandom).unwrap_err(),
        KeyError::NotADevice
    );
    assert_eq!(
        by_slot.forget_epochs_before(Epoch(0)).unwrap_err(),
        KeyError::NotADevice
    );
    assert_eq!(
        by_slot.new_replica(&SystemRandom).unwrap_err(),
        KeyError::NotADevice
    );

    let cloned = by_slot.add_device(&SystemRandom).unwrap();
    assert_eq!(cloned.keyring.devices().count(), 2);
    let replica = cloned.keyring.new_replica(&SystemRandom).unwrap();
    let bytes = cloned
        .keyring
        .seal_replica(&replica, &SystemRandom)
        .unwrap();
    // The other device's replica needs no change; this one's is opened again after the next unlock.
    assert_eq!(
        by_slot.act_as(&replica).unwrap_err(),
        UnlockError::DeviceRemoved
    );
    let mut again = unlock(&cloned.header, &secret("one"), None).unwrap();
    let replica = again.open_replica(&bytes).unwrap();
    again.act_as(&replica).unwrap();
    let more = again
        .add_slot(&new_passphrase("two"), &SystemRandom, 0)
        .unwrap();
    assert!(reads(
        &unlock(&more.header, &secret("two"), None).unwrap(),
        &made.keyring
    ));
}

#[test]
fn a_revoked_device_signs_nothing_and_reads_nothing_new() {
    let (made, _) = vault();
    let first = made.keyring.device().unwrap();
    let second = made.keyring.add_device(&SystemRandom).unwrap().keyring;
    let lost = second.new_replica(&SystemRandom).unwrap();
    let mut by_first = second.clone();
    by_first.signer = made.keyring.signer.clone();
    let revoked = by_first
        .revoke_device(lost.device(), &SystemRandom)
        .unwrap();
    let now = revoked.keyring.device().unwrap();
    assert_eq!(revoked.keyring.devices().collect::<Vec<_>>(), [now]);
    assert_ne!(now, first, "who revokes is a new device too");
    assert!(!reads(&second, &revoked.keyring));
    let mut keyring = revoked.keyring;
    assert_eq!(keyring.act_as(&lost), Err(UnlockError::DeviceRemoved));
    assert_eq!(
        keyring
            .revoke_device(lost.device(), &SystemRandom)
            .unwrap_err(),
        KeyError::NoSuchDevice
    );
    // A device that revokes itself goes on as a new one.
    let last = keyring.revoke_device(now, &SystemRandom).unwrap().keyring;
    assert_eq!(last.devices().collect::<Vec<_>>(), [last.device().unwrap()]);
    assert_ne!(last.device().unwrap(), now);
}

#[test]
fn the_last_slot_and_unknown_slots_are_not_removed() {
    let (made, _) = vault();
    let one = made
        .keyring
        .remove_slot(slot_id(&made.keyring, "one"), &SystemRandom)
        .unwrap()
        .keyring;
    let printed = slot_id(&one, "printed");
    assert_eq!(
        one.remove_slot(printed, &SystemRandom).unwrap_err(),
        KeyError::LastSlot
    );
    let slot = SlotId([0; 8]);
    assert_eq!(
        one.remove_slot(slot, &SystemRandom).unwrap_err(),
        KeyError::NoSuchSlot { slot }
    );
    let replaced = one
        .replace_slot(printed, &new_passphrase("only"), &SystemRandom, 0)
        .unwrap();
    assert!(unlock(&replaced.header, &secret("only"), None).is_ok());
}

#[test]
fn a_full_vault_takes_no_slot_more_but_can_change_one() {
    let key = NewKey::KeyFile(KeyFile::random(&SystemRandom).unwrap());
    let slots = vec![
        NewSlot {
            label: String::new(),
            key: key.clone()
        };
        64
    ];
    let full = create(&slots, SUITE, &SystemRandom, 0).unwrap().keyring;
    let one_more = NewSlot {
        label: String::new(),
        key,
    };
    assert_eq!(
        full.add_slot(&one_more, &SystemRandom, 0).unwrap_err(),
        KeyError::TooMany
    );
    let slot = full.slots()[7].id;
    assert_eq!(
        full.replace_slot(slot, &one_more, &SystemRandom, 0)
            .unwrap()
            .keyring
            .slots()
            .len(),
        64
    );
}

#[test]
fn a_failed_change_leaves_the_keyring_as_it_was() {
    struct Dead;
    impl crate::random::Random for Dead {
        fn fill(&self, _: &mut [u8]) -> Result<(), crate::random::RandomError> {
            Err(crate::random::RandomError)
        }
    }
    let (made, _) = vault();
    let slot = slot_id(&made.keyring, "one");
    assert!(matches!(
        made.keyring.remove_slot(slot, &Dead),
        Err(KeyError::Random(_))
    ));
    assert!(matches!(
        made.keyring.add_slot(&new_passphrase("x"), &Dead, 0),
        Err(KeyError::Random(_))
    ));
    assert_eq!(made.keyring.header_bytes().unwrap(), made.header);
    assert!(matches!(
        create(&[new_passphrase("x")], SUITE, &Dead, 0),
        Err(KeyError::Random(_))
    ));
}

#[test]
fn forgotten_epochs_are_gone_from_header_and_keyring() {
    let (made, _) = vault();
    let second = made.keyring.begin_epoch(&SystemRandom).unwrap().keyring;
    let third = second.begin_epoch(&SystemRandom).unwrap();
    assert_eq!(
        third.keyring.epochs().collect::<Vec<_>>(),
        [Epoch(0), Epoch(1), Epoch(2)]
    );
    let short = third.keyring.forget_epochs_before(Epoch(1)).unwrap();
    assert!(short.header.len() < third.header.len());
    let keyring = unlock(&short.header, &secret("one"), Some(4)).unwrap();
    assert_eq!(keyring.epochs().collect::<Vec<_>>(), [Epoch(1), Epoch(2)]);
    assert!(reads(&keyring, &second) && !reads(&keyring, &made.keyring));
    // The newest is never forgotten.
    let newest = short
        .keyring
        .forget_epochs_before(Epoch(u32::MAX))
        .unwrap()
        .keyring;
    assert_eq!(newest.epochs().collect::<Vec<_>>(), [Epoch(2)]);
}

#[test]
fn age_slots_open_and_ask_for_the_fingerprint() {
    let age = age::x25519::Identity::generate();
    let recipient = AgeRecipient::parse(&age.to_public().to_string()).unwrap();
    let identity = AgeIdentity::parse(age.to_string().expose_secret().as_bytes(), None).unwrap();
    let slot = NewSlot {
        label: "age".to_owned(),
        key: NewKey::Recipient(recipient),
    };
    let (made, _) = vault();
    let with_age = made.keyring.add_slot(&slot, &SystemRandom, 0).unwrap();
    let keyring = unlock(&with_age.header, &Secret::Identity(identity.clone()), None).unwrap();
    assert!(keyring.needs_fingerprint_check() && reads(&keyring, &made.keyring));

    // Whoever has the public key makes a vault of his own that opens just so; only the fingerprint differs.
    let look_alike = create(&[slot], SUITE, &SystemRandom, 0).unwrap();
    let fooled = unlock(&look_alike.header, &Secret::Identity(identity), None).unwrap();
    assert!(fooled.needs_fingerprint_check());
    assert_ne!(fooled.fingerprint(), keyring.fingerprint());
}

#[test]
fn listing_needs_no_secret_and_tells_none() {
    let (made, _) = vault();
    let slots = crate::keyring::list_slots(&made.header).unwrap();
    assert_eq!(slots, made.keyring.slots());
    let shown: Vec<_> = slots
        .iter()
        .map(|slot| (slot.kind, slot.label.as_str(), slot.created_s))
        .collect();
    let time = 1_700_000_000;
    assert_eq!(
        shown,
        [
            (SlotKind::Passphrase, "one", time),
            (SlotKind::RecoveryCode, "printed", time)
        ]
    );
}

#[test]
fn debug_of_a_keyring_shows_public_values_only() {
    let keyring = vault().0.keyring;
    assert_eq!(
        format!("{keyring:?}"),
        format!("Keyring({}, generation 1, ..)", keyring.fingerprint())
    );
}

/// Failed before: a wrong passphrase ran every slot that a header could name, 4 GiB and a minute of work.
#[test]
fn a_slot_above_the_memory_that_is_given_unasked_is_not_tried() {
    let (made, _) = vault();
    let slots = |memory_kib: u32, passes: u32| {
        edited(&made.header, |values| {
            for slot in &mut values.slots {
                if let Lock::Passphrase(parameters) = &mut slot.lock {
                    (parameters.memory_kib, parameters.passes) = (memory_kib, passes);
                }
            }
        })
    };
    let above = ARGON2_UNASKED_MEMORY_KIB_MAX + 1;
    let started = std::time::Instant::now();
    let refused = error(&slots(above, 3), "one");
    assert!(started.elapsed() < std::time::Duration::from_secs(5));
    assert!(
        matches!(refused, UnlockError::CostNotAllowed { memory_kib, passes: 3, .. } if memory_kib == above),
        "{refused:?}"
    );
    assert!(
        refused.to_string().contains("--allow-memory 1025M"),
        "{refused}"
    );
    // Within the memory, and more work than is given.
    let passes = ARGON2_PASSES_MAX;
    let memory_kib = u32::try_from(ARGON2_UNASKED_WORK_KIB_MAX / u64::from(passes)).unwrap() + 1;
    let one_slot = edited(&slots(64, 1), |values| {
        for slot in &mut values.slots {
            if let Lock::Passphrase(parameters) = &mut slot.lock {
                (parameters.memory_kib, parameters.passes) = (memory_kib, passes);
                break;
            }
        }
    });
    let refused = error(&one_slot, "one");
    assert!(
        matches!(refused, UnlockError::CostNotAllowed { .. }),
        "{refused:?}"
    );
}

/// SECURITY.md, claim 17.
#[test]
fn what_was_allowed_is_tried_and_what_a_slot_needs_beyond_it_is_not() {
    let allows = |allowed: Option<u32>, memory_kib: u32, passes: u32, before: u64| {
        let one = passphrase("one");
        let one = match allowed {
            Some(kib) => one.allow_memory(kib),
            None => one,
        };
        let parameters = strongroom_format::Argon2Parameters {
            memory_kib,
            passes,
            lanes: 1,
            salt: [0; 16],
        };
        one.allows(&parameters, before)
    };
    let gib = 1024 * 1024;
    assert!(allows(None, gib, 3, 0) && !allows(None, gib + 1, 1, 0));
    assert!(allows(None, gib, 32, 0) && !allows(None, gib, 32, 1));
    assert!(allows(Some(2 * gib), 2 * gib, 64, 1 << 40));
    assert!(!allows(Some(2 * gib), 2 * gib + 1, 1, 0));
    // Less than what is given unasked is no bound.
    assert!(allows(Some(1), gib, 1, 0));
}

#[test]
fn a_slot_that_wants_too_much_does_not_lock_out_who_has_another() {
    let slots = [new_passphrase("one"), new_passphrase("two")];
    let made = create(&slots, SUITE, &SystemRandom, 5).unwrap();
    let header = edited(&made.header, |values| {
        for slot in &mut values.slots {
            if let Lock::Passphrase(parameters) = &mut slot.lock
                && slot.label == "one"
            {
                parameters.memory_kib = ARGON2_UNASKED_MEMORY_KIB_MAX + 1;
            }
        }
    });
    // That the header was edited is found behind the slot: so the slot was tried, and opened.
    assert_eq!(error(&header, "two"), UnlockError::HeaderEdited);
    for text in ["one", "wrong"] {
        let refused = error(&header, text);
        assert!(
            matches!(refused, UnlockError::CostNotAllowed { .. }),
            "{refused:?}"
        );
    }
}

#[test]
fn memory_that_is_not_there_is_an_error_of_its_own() {
    let error = UnlockError::from(OutOfMemory { memory_kib: 4096 });
    assert_eq!(
        error,
        UnlockError::OutOfMemory(OutOfMemory { memory_kib: 4096 })
    );
    assert!(error.to_string().contains("4096 KiB"));
}

/// Whoever begins an epoch and leaves somebody without its keys is found when that one opens the vault, not when he reads.
/// Failed before: only the newest epoch's grant was asked for, and none of the device's own.
#[test]
fn a_grant_of_an_epoch_in_use_that_is_missing_or_noise_is_an_error_by_name() {
    let (made, _) = vault();
    let replica = made.keyring.new_replica(&SystemRandom).unwrap();
    let rotated = made.keyring.begin_epoch(&SystemRandom).unwrap();
    let device = replica.device();
    let slot = made.keyring.header.slots[0].principal;
    let altered = |alter: &dyn Fn(&mut Header)| {
        let mut keyring = rotated.keyring.clone();
        alter(&mut keyring.header);
        keyring.header_bytes().unwrap()
    };
    let open = |header: &[u8]| {
        let mut keyring = unlock(header, &secret("one"), None)?;
        keyring.act_as(&replica)?;
        made.keyring.follow(header).map(drop)
    };
    open(&rotated.header).unwrap();
    for epoch in [Epoch(0), Epoch(1)] {
        for principal in [slot, device] {
            let dropped = altered(&|header| {
                header
                    .grants
                    .retain(|grant| (grant.epoch, grant.principal) != (epoch, principal));
            });
            assert_eq!(open(&dropped), Err(UnlockError::GrantMissing { epoch }));
            let noise = altered(&|header| {
                for grant in &mut header.grants {
                    if (grant.epoch, grant.principal) == (epoch, principal) {
                        *grant.bytes = [7; 1200];
                    }
                }
            });
            assert_eq!(open(&noise), Err(UnlockError::GrantForged { epoch }));
        }
    }
}

/// Goal: who has the keys cannot make a header that opens and in which no key can be changed any more. Method: a header with a MAC that
/// fits, altered in each way.
/// Failed before: it was opened, and every change from it was refused when it was to be stored, or panicked while it was made.
#[test]
fn a_header_in_which_keys_could_not_be_changed_is_not_opened() {
    let (made, code) = vault();
    let printed = slot_id(&made.keyring, "printed");
    let device = made.keyring.device().unwrap();
    let one = made.keyring.header.slots[0].principal;
    let altered = |alter: &dyn Fn(&mut Header)| {
        let mut keyring = made.keyring.clone();
        alter(&mut keyring.header);
        keyring
    };
    let not_member = UnlockError::SlotNotMember { slot: printed };
    let beyond = |found| UnlockError::GenerationBeyond { found };
    type Alter<'a> = (&'a dyn Fn(&mut Header), UnlockError);
    let cases: [Alter<'_>; 6] = [
        (
            &|header| header.slots[1].principal.0[0] ^= 1,
            not_member.clone(),
        ),
        (&|header| header.slots[1].principal = device, not_member),
        (
            &|header| header.slots[1].principal = one,
            UnlockError::SlotMissing,
        ),
        (&|header| drop(header.slots.pop()), UnlockError::SlotMissing),
        (&|header| header.generation = u64::MAX, beyond(u64::MAX)),
        (
            &|header| header.generation = (1 << 32) + 1,
            beyond((1 << 32) + 1),
        ),
    ];
    for (alter, expected) in cases {
        let keyring = altered(alter);
        let header = keyring.header_bytes().unwrap();
        assert_eq!(error(&header, "one"), expected);
        assert_eq!(made.keyring.follow(&header).unwrap_err(), expected);
        // Nor does a change from it panic.
        drop(keyring.remove_slot(printed, &SystemRandom));
    }
    let stranger = altered(&|header| header.slots[1].principal.0[0] ^= 1);
    let removed = stranger.remove_slot(printed, &SystemRandom);
    assert!(matches!(removed, Err(KeyError::Record(_))), "{removed:?}");
    // The highest that opens leaves room for every change that makes a record.
    let last = altered(&|header| header.generation = 1 << 32);
    let last = last.header_bytes().unwrap();
    unlock(&last, &Secret::RecoveryCode(code), None).unwrap();
    let last = made.keyring.follow(&last).unwrap();
    let changed = last.remove_slot(printed, &SystemRandom).unwrap();
    unlock(&changed.header, &secret("one"), None).unwrap();
    let changed = last.set_guessable(true).map(drop);
    assert_eq!(changed.unwrap_err(), KeyError::Exhausted);
}

/// `keyring` with more members, whose public keys are none: whoever has the keys of the vault can make such a header.
fn with_broken_members(keyring: &Keyring, role: Role, count: u64) -> Keyring {
    let mut next = keyring.clone();
    let broken = (0..count).map(|_| {
        let mut keys = Principal::random(&SystemRandom).unwrap().keys().clone();
        keys.kem.fill(0xff);
        keys
    });
    let broken: Vec<_> = broken.collect();
    for some in broken.chunks(50) {
        let add = |keys: &PublicKeys| Change::Add {
            role,
            keys: keys.clone(),
        };
        let changes = some.iter().map(add).collect();
        let record = next.membership.next(changes, &next.signer);
        next.membership.apply(&record).unwrap();
        next.header.records.push(record);
    }
    for (number, keys) in (0..).zip(&broken) {
        let noise = |epoch: &Epoch| Grant {
            epoch: *epoch,
            principal: keys.id(),
            bytes: Box::new([7; GRANT_BYTES]),
        };
        next.header.grants.extend(next.epochs.keys().map(noise));
        if role == Role::Slot {
            next.header.slots.push(Slot {
                id: SlotId(u64::to_le_bytes(number)),
                label: String::new(),
                created_s: 0,
                principal: keys.id(),
                lock: Lock::KeyFile,
                sealed: vec![7; 144],
            });
        }
    }
    next.header.generation += 1;
    next
}

/// Goal: no member can make itself and all others unremovable. Method: a header with members whose public keys are none, noise for their
/// grants, and the right MAC; a few, and more than one record retires. Then keys are changed in each way that begins an epoch.
/// Failed before: nothing could be granted to the broken members, so every such change failed, the removal of each of them because of the
/// others.
/// SECURITY.md, claim 5.
#[test]
fn members_with_broken_public_keys_keep_nobody_from_being_removed() {
    for (role, count, left) in [
        (Role::Device, 2, 0),
        (Role::Slot, 2, 0),
        (Role::Device, 100, 38),
    ] {
        let (made, _) = vault();
        let owner = with_broken_members(&made.keyring, role, count);
        let header = owner.header_bytes().unwrap();
        let members = |header: &[u8]| {
            let opened = unlock(header, &secret("one"), None).unwrap();
            opened.members()
        };
        let known: Vec<_> = made.keyring.members().iter().map(|one| one.id).collect();
        let all = members(&header);
        let broken = all.iter().find(|one| !known.contains(&one.id)).unwrap();
        let printed = slot_id(&owner, "printed");
        let removed = owner.remove_slot(printed, &SystemRandom).unwrap();
        assert!(!reads(&owner, &removed.keyring));
        // The device and the passphrase.
        assert_eq!(members(&removed.header).len(), 2 + left);
        let next = removed.keyring.replace_device(&SystemRandom).unwrap();
        assert_eq!(members(&next.header).len(), 2);
        if (role, count) == (Role::Device, 2) {
            let revoked = owner.revoke_device(broken.id, &SystemRandom).unwrap();
            assert_eq!(members(&revoked.header).len(), 3);
            // Nobody is retired.
            let begun = owner.begin_epoch(&SystemRandom).unwrap();
            assert_eq!(members(&begun.header).len(), 5);
        }
    }
}

/// Goal: a slot that nobody can open does not count as the one that a vault needs. Method: beside the only slot there are two whose public
/// keys are none.
/// Failed before: nothing could be removed at all.
#[test]
fn a_slot_with_a_broken_public_key_is_not_the_one_that_is_left() {
    let (made, _) = vault();
    let printed = slot_id(&made.keyring, "printed");
    let alone = made.keyring.remove_slot(printed, &SystemRandom).unwrap();
    let owner = with_broken_members(&alone.keyring, Role::Slot, 2);
    let one = slot_id(&owner, "one");
    let removed = owner.remove_slot(one, &SystemRandom);
    assert_eq!(removed.unwrap_err(), KeyError::LastSlot);
    let replaced = owner.replace_slot(one, &new_passphrase("two"), &SystemRandom, 0);
    let replaced = unlock(&replaced.unwrap().header, &secret("two"), None).unwrap();
    assert_eq!(replaced.slots().len(), 1);
}
