//! Which replica files are accepted and which are refused.

use super::*;
use crate::keyring::genesis::create;
use crate::keyring::slot::{NewKey, NewSlot};
use crate::random::SystemRandom;
use crate::secrets::key_file::KeyFile;
use strongroom_format::SuiteId;

fn keyring() -> Keyring {
    let key = NewKey::KeyFile(KeyFile::random(&SystemRandom).unwrap());
    let slot = NewSlot {
        label: String::new(),
        key,
    };
    create(&[slot], SuiteId::Aes256GcmBlake3, &SystemRandom, 0)
        .unwrap()
        .keyring
}

#[test]
fn a_replica_comes_back_with_its_device_and_its_key() {
    let keyring = keyring();
    let replica = keyring.new_replica(&SystemRandom).unwrap();
    let opened = keyring
        .open_replica(&keyring.seal_replica(&replica, &SystemRandom).unwrap())
        .unwrap();
    assert_eq!(opened.instance(), replica.instance());
    assert_eq!(opened.device(), keyring.device().unwrap());
    assert_eq!(
        opened.metadata_key().bytes(),
        replica.metadata_key().bytes()
    );
    assert_eq!(opened.epoch(), Epoch(0));
}

#[test]
fn a_replica_of_another_vault_does_not_open() {
    let (mine, other) = (keyring(), keyring());
    let bytes = other
        .seal_replica(&other.new_replica(&SystemRandom).unwrap(), &SystemRandom)
        .unwrap();
    assert_eq!(
        mine.open_replica(&bytes).unwrap_err(),
        UnlockError::ReplicaForged
    );
    let mut file = ReplicaFile::decode(&bytes).unwrap();
    file.vault = mine.vault_id();
    assert_eq!(
        mine.open_replica(&file.encode()).unwrap_err(),
        UnlockError::ReplicaForged
    );
}

#[test]
fn an_edited_replica_file_does_not_open() {
    let keyring = keyring();
    let replica = keyring.new_replica(&SystemRandom).unwrap();
    let file =
        ReplicaFile::decode(&keyring.seal_replica(&replica, &SystemRandom).unwrap()).unwrap();
    let forged = |file: ReplicaFile| {
        assert_eq!(
            keyring.open_replica(&file.encode()).unwrap_err(),
            UnlockError::ReplicaForged
        );
    };
    for place in 0..file.sealed.len() {
        let mut edited = file.clone();
        edited.sealed[place] ^= 2;
        forged(edited);
        let mut cut = file.clone();
        cut.sealed.truncate(place);
        forged(cut);
    }
    forged(ReplicaFile {
        instance: InstanceId([1; 16]),
        ..file.clone()
    });
    forged(ReplicaFile {
        epoch: Epoch(1),
        ..file
    });
}

/// A record of this vault with the right kind and the wrong length, as only a member could make it.
#[test]
fn a_sealed_part_of_another_length_does_not_open() {
    let keyring = keyring();
    for len in [0, CLEAR_BYTES_ONE, CLEAR_BYTES - 1, CLEAR_BYTES + 1] {
        let sealed = keyring
            .block_sealer()
            .seal_record(&SystemRandom, Kind::ReplicaKey, &vec![0; len])
            .unwrap();
        let file = ReplicaFile {
            format: ReplicaFormat::Two,
            vault: keyring.vault_id(),
            instance: InstanceId([0; 16]),
            epoch: Epoch(0),
            sealed,
        };
        assert_eq!(
            keyring.open_replica(&file.encode()).unwrap_err(),
            UnlockError::ReplicaForged
        );
    }
}

#[test]
fn a_replica_sealed_before_a_rotation_opens_and_shows_that_it_is_behind() {
    let keyring = keyring();
    let replica = keyring.new_replica(&SystemRandom).unwrap();
    let bytes = keyring.seal_replica(&replica, &SystemRandom).unwrap();
    let next = keyring.begin_epoch(&SystemRandom).unwrap().keyring;
    let opened = next.open_replica(&bytes).unwrap();
    assert!(opened.epoch() < next.epoch());
    let again = next
        .open_replica(&next.seal_replica(&opened, &SystemRandom).unwrap())
        .unwrap();
    assert_eq!(
        (again.epoch(), again.instance()),
        (next.epoch(), replica.instance())
    );
    // The keys of the old epoch alone do not open what was re-sealed.
    let new_bytes = next.seal_replica(&opened, &SystemRandom).unwrap();
    assert_eq!(
        keyring.open_replica(&new_bytes).unwrap_err(),
        UnlockError::ReplicaForged
    );
}

#[test]
fn debug_shows_public_names_only() {
    let replica = keyring().new_replica(&SystemRandom).unwrap();
    assert_eq!(format!("{:?}", replica.metadata_key()), "MetadataKey(..)");
    let key = strongroom_format::hex::encode(replica.metadata_key().bytes());
    let seed = strongroom_format::hex::encode(replica.device.seed().as_slice());
    let shown = format!("{replica:?}");
    assert!(!shown.contains(&key[..16]) && !shown.contains(&seed[..16]));
}

/// Files of format 1 do not say when the metadata key was drawn; they are read, and stay what they are until it is known.
#[test]
fn a_replica_of_format_1_is_read_and_gets_format_2_with_its_next_metadata_key() {
    let keyring = keyring();
    let mut replica = keyring.new_replica(&SystemRandom).unwrap();
    assert_eq!(replica.metadata_key_epoch(), Some(Epoch(0)));
    replica.metadata_key_epoch = None;
    let bytes = keyring.seal_replica(&replica, &SystemRandom).unwrap();
    assert_eq!(
        ReplicaFile::decode(&bytes).unwrap().format,
        ReplicaFormat::One
    );
    let opened = keyring.open_replica(&bytes).unwrap();
    assert_eq!(opened.metadata_key_epoch(), None);
    assert_eq!(opened.device(), replica.device());
    let next = keyring.replace_device(&SystemRandom).unwrap().keyring;
    let key = MetadataKey::random(&SystemRandom).unwrap();
    let renewed = opened.with_metadata_key(key.clone(), next.epoch());
    let bytes = next.seal_replica(&renewed, &SystemRandom).unwrap();
    let opened = next.open_replica(&bytes).unwrap();
    assert_eq!(opened.metadata_key_epoch(), Some(Epoch(1)));
    assert_eq!(opened.metadata_key().bytes(), key.bytes());
}

/// Goal: nobody can make the key of a database seem younger than it is. Method: who has the keys of an epoch seals a file under it
/// that names a later one, or that one, for the metadata key.
/// Failed before: the number was taken as it stood, so the file with a later one was opened.
#[test]
fn a_metadata_key_of_a_later_epoch_than_that_of_its_file_is_forged() {
    let first = keyring();
    let second = first.begin_epoch(&SystemRandom).unwrap().keyring;
    let replica = first.new_replica(&SystemRandom).unwrap();
    let drawn_in = |epoch| {
        let key = replica.metadata_key().clone();
        let replica = replica.clone().with_metadata_key(key, Epoch(epoch));
        first.seal_replica(&replica, &SystemRandom).unwrap()
    };
    for keyring in [&first, &second] {
        for later in [1, 2, u32::MAX] {
            let opened = keyring.open_replica(&drawn_in(later));
            assert_eq!(opened.unwrap_err(), UnlockError::ReplicaForged, "{later}");
        }
        let opened = keyring.open_replica(&drawn_in(0)).unwrap();
        assert_eq!(opened.metadata_key_epoch(), Some(Epoch(0)));
        // What is sealed again later keeps the number, and opens.
        let again = second.seal_replica(&opened, &SystemRandom).unwrap();
        let again = second.open_replica(&again).unwrap();
        assert_eq!(
            (again.metadata_key_epoch(), again.epoch()),
            (Some(Epoch(0)), Epoch(1))
        );
    }
}

/// The number in clear does not decide what the sealed bytes are.
#[test]
fn a_replica_file_dressed_as_another_format_does_not_open() {
    let keyring = keyring();
    let mut replica = keyring.new_replica(&SystemRandom).unwrap();
    for (epoch, other) in [
        (Some(Epoch(0)), ReplicaFormat::One),
        (None, ReplicaFormat::Two),
    ] {
        replica.metadata_key_epoch = epoch;
        let bytes = keyring.seal_replica(&replica, &SystemRandom).unwrap();
        let mut file = ReplicaFile::decode(&bytes).unwrap();
        file.format = other;
        assert_eq!(
            keyring.open_replica(&file.encode()).unwrap_err(),
            UnlockError::ReplicaForged
        );
    }
}

/// What a slot's holder opens is the replica file with the device in it: after the removal that device signs nothing.
/// Failed before: the device stayed a member.
#[test]
fn the_device_goes_with_the_slot_and_the_new_one_is_handed_to_who_acted_as_it() {
    let files = [0; 2].map(|_| KeyFile::random(&SystemRandom).unwrap());
    let slots = files.map(|file| NewSlot {
        label: String::new(),
        key: NewKey::KeyFile(file),
    });
    let made = create(&slots, SuiteId::Aes256GcmBlake3, &SystemRandom, 0).unwrap();
    let owner = made.keyring;
    let old = owner.new_replica(&SystemRandom).unwrap();
    let ids: Vec<_> = owner.slots().iter().map(|slot| slot.id).collect();
    let other = NewSlot {
        label: String::new(),
        key: NewKey::KeyFile(KeyFile::random(&SystemRandom).unwrap()),
    };
    for changed in [
        owner.remove_slot(ids[1], &SystemRandom),
        owner.replace_slot(ids[1], &other, &SystemRandom, 1),
        owner.revoke_device(old.device(), &SystemRandom),
        owner.replace_device(&SystemRandom),
    ] {
        let changed = changed.unwrap();
        let devices: Vec<_> = changed.keyring.devices().collect();
        assert_eq!(devices, [changed.keyring.device().unwrap()]);
        assert_ne!(devices[0], old.device());
        assert_eq!(changed.keyring.seen().sequence, 1, "one record did it");
        assert_eq!(
            owner.follow(&changed.header).unwrap_err(),
            UnlockError::DeviceRemoved
        );
        let handover = changed.handover.as_deref();
        let followed = owner.follow_as(&changed.header, handover).unwrap();
        assert_eq!(followed.device(), changed.keyring.device());
        let replica = followed.replica_of_device(&old);
        assert_eq!(
            (replica.device(), replica.instance()),
            (devices[0], old.instance())
        );
        let mut again = changed.keyring.clone();
        assert_eq!(again.act_as(&old), Err(UnlockError::DeviceRemoved));
        // Adding needs no new device, and nothing is handed over.
        let added = changed.keyring.add_slot(&other, &SystemRandom, 1).unwrap();
        assert_eq!(added.keyring.device(), changed.keyring.device());
        assert!(added.handover.is_none());
        let forged = changed.keyring.follow_as(&added.header, handover);
        assert_eq!(forged.unwrap_err(), UnlockError::HandoverForged);
    }
}
