//! What a replica file may and may not be.

use super::*;
use crate::genesis::create;
use crate::key_file::KeyFile;
use crate::random::SystemRandom;
use crate::slot::{NewKey, NewSlot};
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
    for len in [0, CLEAR_BYTES - 1, CLEAR_BYTES + 1] {
        let sealed = keyring
            .block_sealer()
            .seal_record(&SystemRandom, Kind::ReplicaKey, &vec![0; len])
            .unwrap();
        let file = ReplicaFile {
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
    // Who knows the old epoch only cannot open what was sealed anew.
    let new_bytes = next.seal_replica(&opened, &SystemRandom).unwrap();
    assert_eq!(
        keyring.open_replica(&new_bytes).unwrap_err(),
        UnlockError::ReplicaForged
    );
}

#[test]
fn a_metadata_key_is_160_digits_in_quotes() {
    let mut bytes = [0xab; METADATA_KEY_BYTES];
    bytes[79] = 0x0f;
    let key = MetadataKey(Locked::copy_of(&bytes));
    let expected = format!("x'{}0f'", "ab".repeat(79));
    assert_eq!(*key.to_sqlcipher_raw_key(), expected);
    assert_eq!(key.to_sqlcipher_raw_key().len(), 163);
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
