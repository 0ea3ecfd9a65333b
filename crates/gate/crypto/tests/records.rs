//! The guarantees of records: equal records look different, and opening proves everything.

use strongroom_crypto::record::{RECORD_HEAD_BYTES, record_len};
use strongroom_crypto::{
    BlockSealer, EpochKey, IdKey, OpenError, Random, RandomError, SystemRandom,
};
use strongroom_format::limits::{CHUNK_BYTES, SEALED_RECORD_CLEAR_BYTES_MAX};
use strongroom_format::{Epoch, Kind, SuiteId};

const EPOCH: Epoch = Epoch(0);

/// A source that is stuck at one byte.
struct Stuck(u8);

impl Random for Stuck {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), RandomError> {
        bytes.fill(self.0);
        Ok(())
    }
}

/// A source that fails.
struct Dead;

impl Random for Dead {
    fn fill(&self, _: &mut [u8]) -> Result<(), RandomError> {
        Err(RandomError)
    }
}

fn sealer(suite: SuiteId) -> BlockSealer {
    BlockSealer::new(
        suite,
        [0; 16],
        IdKey::from_bytes([1; 32]),
        vec![(EPOCH, EpochKey::from_bytes([2; 32]))],
    )
}

#[test]
fn what_was_sealed_opens_at_every_length_near_a_border() {
    for suite in SuiteId::ALL {
        let sealer = sealer(*suite);
        for len in [
            0,
            1,
            80,
            CHUNK_BYTES - 1,
            CHUNK_BYTES,
            CHUNK_BYTES + 1,
            SEALED_RECORD_CLEAR_BYTES_MAX,
        ] {
            let clear: Vec<u8> = (0..len).map(|index| (index % 251) as u8).collect();
            let record = sealer
                .seal_record(&SystemRandom, Kind::BatchIndex, &clear)
                .unwrap();
            assert_eq!(record.len(), record_len(len));
            assert_eq!(
                *sealer
                    .open_record(EPOCH, Kind::BatchIndex, &record)
                    .unwrap(),
                clear
            );
        }
    }
}

#[test]
fn equal_contents_give_records_with_nothing_in_common() {
    let sealer = sealer(SuiteId::Aes256GcmBlake3);
    let first = sealer
        .seal_record(&SystemRandom, Kind::ReplicaKey, b"the same content")
        .unwrap();
    let second = sealer
        .seal_record(&SystemRandom, Kind::ReplicaKey, b"the same content")
        .unwrap();
    for (first, second) in first.chunks(32).zip(second.chunks(32)) {
        assert_ne!(first, second);
    }
}

/// Different contents under one salt have different names, and so different keys.
/// SECURITY.md, claim 2.
#[test]
fn a_stuck_generator_shows_only_equality() {
    let sealer = sealer(SuiteId::Aes256GcmBlake3);
    let seal = |clear: &[u8]| {
        sealer
            .seal_record(&Stuck(7), Kind::BatchIndex, clear)
            .unwrap()
    };
    assert_eq!(seal(b"content one"), seal(b"content one"));
    let (one, two) = (seal(b"content one"), seal(b"content two"));
    let difference = |left: &[u8], right: &[u8]| -> Vec<u8> {
        left.iter().zip(right).map(|(l, r)| l ^ r).collect()
    };
    let sealed = RECORD_HEAD_BYTES..RECORD_HEAD_BYTES + 11;
    assert_ne!(
        difference(&one[sealed.clone()], &two[sealed]),
        difference(b"content one", b"content two")
    );
}

#[test]
fn a_dead_generator_seals_nothing() {
    assert_eq!(
        sealer(SuiteId::Aes256GcmBlake3).seal_record(&Dead, Kind::BatchIndex, b"content"),
        Err(RandomError)
    );
}

#[test]
fn a_flip_of_any_single_bit_is_noticed() {
    for suite in SuiteId::ALL {
        let sealer = sealer(*suite);
        let record = sealer
            .seal_record(&SystemRandom, Kind::BatchIndex, b"a small record")
            .unwrap();
        for bit in 0..record.len() * 8 {
            let mut altered = record.clone();
            altered[bit / 8] ^= 1 << (bit % 8);
            let result = sealer.open_record(EPOCH, Kind::BatchIndex, &altered);
            assert_eq!(
                result,
                Err(OpenError::Tampered {
                    kind: Kind::BatchIndex
                }),
                "bit {bit}"
            );
        }
    }
}

#[test]
fn no_truncation_or_extension_opens() {
    let sealer = sealer(SuiteId::Aes256GcmBlake3);
    let record = sealer
        .seal_record(&SystemRandom, Kind::BatchIndex, &[5; 100])
        .unwrap();
    for len in 0..record.len() {
        assert!(
            sealer
                .open_record(EPOCH, Kind::BatchIndex, &record[..len])
                .is_err(),
            "{len}"
        );
    }
    let mut longer = record;
    for _ in 0..40 {
        longer.push(0);
        assert!(
            sealer
                .open_record(EPOCH, Kind::BatchIndex, &longer)
                .is_err()
        );
    }
}

#[test]
fn a_record_longer_than_any_is_refused() {
    let sealer = sealer(SuiteId::Aes256GcmBlake3);
    let clear_len = SEALED_RECORD_CLEAR_BYTES_MAX + 1;
    let result = sealer.open_record(EPOCH, Kind::BatchIndex, &vec![0; record_len(clear_len)]);
    assert_eq!(
        result,
        Err(OpenError::TooLong {
            kind: Kind::BatchIndex,
            clear_len
        })
    );
}

#[test]
fn another_kind_compartment_epoch_or_suite_opens_nothing() {
    let right = sealer(SuiteId::Aes256GcmBlake3);
    let record = right
        .seal_record(&SystemRandom, Kind::BatchIndex, b"content")
        .unwrap();
    assert!(
        right
            .open_record(EPOCH, Kind::SegmentTable, &record)
            .is_err()
    );
    assert!(
        right
            .open_record(Epoch(1), Kind::BatchIndex, &record)
            .is_err()
    );
    assert!(
        sealer(SuiteId::ChaCha20Poly1305Blake3)
            .open_record(EPOCH, Kind::BatchIndex, &record)
            .is_err()
    );
    let elsewhere = BlockSealer::new(
        SuiteId::Aes256GcmBlake3,
        [9; 16],
        IdKey::from_bytes([1; 32]),
        vec![(EPOCH, EpochKey::from_bytes([2; 32]))],
    );
    assert!(
        elsewhere
            .open_record(EPOCH, Kind::BatchIndex, &record)
            .is_err()
    );
}

#[test]
fn a_record_does_not_prove_true_as_a_block_of_its_name() {
    let sealer = sealer(SuiteId::Aes256GcmBlake3);
    let record = sealer
        .seal_record(&SystemRandom, Kind::Data, b"content")
        .unwrap();
    let (head, sealed) = record.split_at(RECORD_HEAD_BYTES);
    let id = strongroom_format::BlockId(head[32..].try_into().unwrap());
    assert!(sealer.open(EPOCH, Kind::Data, &id, 7, sealed).is_err());
}
