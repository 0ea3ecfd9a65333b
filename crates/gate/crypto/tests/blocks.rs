//! The guarantees of sealing, tested through the public interface: everything sealed opens, and nothing else does.

use proptest::prelude::*;
use std::collections::HashSet;
use strongroom_crypto::{BlockSealer, EpochKey, IdKey, OpenError, Pool};
use strongroom_format::limits::{BLOCK_BYTES_MAX, CHUNK_BYTES, TAG_BYTES, sealed_len};
use strongroom_format::span::chunk_count;
use strongroom_format::{BlockId, Epoch, Kind, SealedBlock, SuiteId, chunk_span};

/// Epoch of `sealer`.
const EPOCH: Epoch = Epoch(3);

/// Every length near a border of the format.
const LENGTHS: &[usize] = &[
    0,
    1,
    15,
    16,
    17,
    63,
    64,
    65,
    960,
    961,
    1024,
    CHUNK_BYTES - 1,
    CHUNK_BYTES,
    CHUNK_BYTES + 1,
    2 * CHUNK_BYTES - 1,
    2 * CHUNK_BYTES,
    2 * CHUNK_BYTES + 1,
    16_384,
    BLOCK_BYTES_MAX - CHUNK_BYTES,
    BLOCK_BYTES_MAX - CHUNK_BYTES + 1,
    BLOCK_BYTES_MAX - 1,
    BLOCK_BYTES_MAX,
];

fn sealer_with(suite: SuiteId, compartment: u8, id_key: u8, epochs: &[(u32, u8)]) -> BlockSealer {
    let epochs = epochs
        .iter()
        .map(|(epoch, byte)| (Epoch(*epoch), EpochKey::from_bytes([*byte; 32])))
        .collect();
    BlockSealer::new(
        suite,
        [compartment; 16],
        IdKey::from_bytes([id_key; 32]),
        epochs,
    )
}

fn sealer(suite: SuiteId) -> BlockSealer {
    sealer_with(suite, 0, 1, &[(EPOCH.0, 2)])
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|index| (index % 251) as u8).collect()
}

fn open(sealer: &BlockSealer, block: &SealedBlock) -> Result<Vec<u8>, OpenError> {
    sealer.open(
        EPOCH,
        Kind::Data,
        &block.id,
        block.clear_len as usize,
        &block.bytes,
    )
}

/// Opens `range`, out of exactly the sealed bytes that cover it.
fn open_range(
    sealer: &BlockSealer,
    block: &SealedBlock,
    range: std::ops::Range<usize>,
) -> Result<Vec<u8>, OpenError> {
    let clear_len = block.clear_len as usize;
    let mut out = vec![0xee; range.len()];
    let sealed = &block.bytes[chunk_span(clear_len, range.clone())];
    sealer
        .open_range(
            EPOCH,
            Kind::Data,
            &block.id,
            clear_len,
            range,
            sealed,
            &mut out,
        )
        .map(|()| out)
}

fn assert_tampered<T: std::fmt::Debug>(result: Result<T, OpenError>, what: &str) {
    assert!(
        matches!(result, Err(OpenError::Tampered { kind: Kind::Data })),
        "{what}: {result:?}"
    );
}

#[test]
fn what_was_sealed_opens_at_every_length_near_a_border() {
    for suite in SuiteId::ALL {
        let sealer = sealer(*suite);
        for len in LENGTHS {
            let clear = pattern(*len);
            let block = sealer.seal(Kind::Data, &clear);
            assert_eq!(block.clear_len as usize, *len);
            assert_eq!(block.bytes.len(), sealed_len(*len));
            assert_eq!(open(&sealer, &block).unwrap(), clear);
            assert_eq!(open_range(&sealer, &block, 0..*len).unwrap(), clear);
            assert!(sealer.verify_id(Kind::Data, &block.id, &clear));
        }
    }
}

/// SECURITY.md, claim 2.
#[test]
fn sealing_again_gives_the_same_bytes() {
    let sealer = sealer(SuiteId::Aes256GcmBlake3);
    let (first, second) = (
        sealer.seal(Kind::Data, b"content"),
        sealer.seal(Kind::Data, b"content"),
    );
    assert_eq!((first.id, first.bytes), (second.id, second.bytes));
}

#[test]
fn sealed_bytes_show_nothing_of_the_content() {
    let clear = pattern(BLOCK_BYTES_MAX);
    let block = sealer(SuiteId::Aes256GcmBlake3).seal(Kind::Data, &clear);
    for window in clear[..64].windows(8) {
        assert!(!block.bytes.windows(8).any(|sealed| sealed == window));
    }
}

#[test]
fn equal_chunks_of_a_block_do_not_look_equal() {
    let block = sealer(SuiteId::Aes256GcmBlake3).seal(Kind::Data, &[0; BLOCK_BYTES_MAX]);
    let chunks: HashSet<_> = block.bytes.chunks(CHUNK_BYTES + TAG_BYTES).collect();
    assert_eq!(chunks.len(), chunk_count(BLOCK_BYTES_MAX));
}

/// SECURITY.md, claim 1.
#[test]
fn a_flip_of_any_single_bit_is_noticed() {
    for suite in SuiteId::ALL {
        let sealer = sealer(*suite);
        let clear = pattern(100);
        let block = sealer.seal(Kind::Data, &clear);
        for bit in 0..block.bytes.len() * 8 {
            let mut altered = block.clone();
            altered.bytes[bit / 8] ^= 1 << (bit % 8);
            assert_tampered(open(&sealer, &altered), "sealed bit");
            assert_tampered(open_range(&sealer, &altered, 0..100), "sealed bit, by tag");
            assert_tampered(
                open_range(&sealer, &altered, 40..50),
                "sealed bit, part of a chunk",
            );
        }
        for bit in 0..256 {
            let mut altered = block.clone();
            altered.id.0[bit / 8] ^= 1 << (bit % 8);
            assert_tampered(open(&sealer, &altered), "bit of the name");
            assert_tampered(
                open_range(&sealer, &altered, 0..100),
                "bit of the name, by tag",
            );
            assert!(!sealer.verify_id(Kind::Data, &altered.id, &clear));
        }
    }
}

#[test]
fn no_truncation_opens_even_when_the_length_was_adjusted_to_it() {
    let sealer = sealer(SuiteId::Aes256GcmBlake3);
    let block = sealer.seal(Kind::Data, &pattern(CHUNK_BYTES + 40));
    for len in 0..block.bytes.len() {
        let sealed = &block.bytes[..len];
        let honest = sealer.open(EPOCH, Kind::Data, &block.id, CHUNK_BYTES + 40, sealed);
        assert!(
            matches!(honest, Err(OpenError::WrongLength { .. })),
            "{len}: {honest:?}"
        );
        if let Some(clear_len) = strongroom_format::span::clear_len(len) {
            assert_tampered(
                sealer.open(EPOCH, Kind::Data, &block.id, clear_len, sealed),
                "adjusted length",
            );
            let mut out = vec![0; clear_len];
            let by_tag = sealer.open_range(
                EPOCH,
                Kind::Data,
                &block.id,
                clear_len,
                0..clear_len,
                sealed,
                &mut out,
            );
            // No bytes at all span no chunk: an empty range proves nothing and gives nothing.
            assert!(clear_len == 0 || by_tag.is_err(), "{len}");
        }
    }
}

#[test]
fn a_block_cut_at_a_chunk_border_does_not_open() {
    let sealer = sealer(SuiteId::Aes256GcmBlake3);
    let mut block = sealer.seal(Kind::Data, &pattern(3 * CHUNK_BYTES));
    block.bytes.truncate(2 * (CHUNK_BYTES + TAG_BYTES));
    block.clear_len = 2 * CHUNK_BYTES as u32;
    assert_tampered(open(&sealer, &block), "cut");
    assert_tampered(
        open_range(&sealer, &block, 0..2 * CHUNK_BYTES),
        "cut, by tag",
    );
    assert_tampered(
        open_range(&sealer, &block, CHUNK_BYTES..CHUNK_BYTES + 1),
        "cut, its new last chunk",
    );
}

#[test]
fn chunks_of_a_block_cannot_change_places() {
    let sealer = sealer(SuiteId::Aes256GcmBlake3);
    let block = sealer.seal(Kind::Data, &pattern(BLOCK_BYTES_MAX));
    let chunk = CHUNK_BYTES + TAG_BYTES;
    let last = chunk_count(BLOCK_BYTES_MAX) - 1;
    for (first, second) in [(0, 1), (0, last), (1, 2), (last - 1, last)] {
        let mut swapped = block.clone();
        let (left, right) = swapped.bytes.split_at_mut(second * chunk);
        left[first * chunk..(first + 1) * chunk].swap_with_slice(&mut right[..chunk]);
        assert_tampered(open(&sealer, &swapped), "swapped");
        assert_tampered(
            open_range(
                &sealer,
                &swapped,
                first * CHUNK_BYTES..first * CHUNK_BYTES + 1,
            ),
            "by tag",
        );
    }
}

#[test]
fn a_chunk_of_another_block_does_not_fit_in() {
    let sealer = sealer(SuiteId::Aes256GcmBlake3);
    let mut block = sealer.seal(Kind::Data, &pattern(2 * CHUNK_BYTES));
    let mut other_clear = pattern(2 * CHUNK_BYTES);
    other_clear[2 * CHUNK_BYTES - 1] ^= 1;
    let other = sealer.seal(Kind::Data, &other_clear);
    let chunk = CHUNK_BYTES + TAG_BYTES;
    block.bytes[..chunk].copy_from_slice(&other.bytes[..chunk]);
    assert_tampered(open(&sealer, &block), "foreign chunk");
    assert_tampered(
        open_range(&sealer, &block, 0..CHUNK_BYTES),
        "foreign chunk, by tag",
    );
}

#[test]
fn another_kind_compartment_or_id_key_does_not_prove_true() {
    let right = sealer(SuiteId::Aes256GcmBlake3);
    let block = right.seal(Kind::Data, b"content");
    let as_index = right.open(EPOCH, Kind::BatchIndex, &block.id, 7, &block.bytes);
    assert!(matches!(
        as_index,
        Err(OpenError::Tampered {
            kind: Kind::BatchIndex
        })
    ));
    assert!(!right.verify_id(Kind::BatchIndex, &block.id, b"content"));
    for wrong in [
        sealer_with(SuiteId::Aes256GcmBlake3, 9, 1, &[(EPOCH.0, 2)]),
        sealer_with(SuiteId::Aes256GcmBlake3, 0, 9, &[(EPOCH.0, 2)]),
    ] {
        assert_tampered(open(&wrong, &block), "compartment or id key");
        assert!(!wrong.verify_id(Kind::Data, &block.id, b"content"));
    }
}

#[test]
fn another_epoch_key_or_suite_opens_nothing() {
    for suite in SuiteId::ALL {
        let block = sealer(*suite).seal(Kind::Data, b"content");
        let wrong_key = sealer_with(*suite, 0, 1, &[(EPOCH.0, 9)]);
        assert_tampered(open(&wrong_key, &block), "epoch key");
        assert_tampered(open_range(&wrong_key, &block, 0..7), "epoch key, by tag");
        for other in SuiteId::ALL.iter().filter(|other| *other != suite) {
            assert_tampered(open(&sealer(*other), &block), "suite");
            assert_tampered(open_range(&sealer(*other), &block, 0..7), "suite, by tag");
        }
    }
}

#[test]
fn an_epoch_without_a_key_is_named() {
    let sealer = sealer(SuiteId::Aes256GcmBlake3);
    let block = sealer.seal(Kind::Data, b"content");
    let unknown = OpenError::UnknownEpoch { epoch: Epoch(4) };
    assert_eq!(
        sealer.open(Epoch(4), Kind::Data, &block.id, 7, &block.bytes),
        Err(unknown)
    );
    let mut out = [0; 7];
    assert_eq!(
        sealer.open_range(
            Epoch(4),
            Kind::Data,
            &block.id,
            7,
            0..7,
            &block.bytes,
            &mut out
        ),
        Err(unknown)
    );
}

#[test]
fn a_new_epoch_keeps_names_changes_bytes_and_old_blocks_still_open() {
    let mut sealer = sealer(SuiteId::Aes256GcmBlake3);
    let old = sealer.seal(Kind::Data, b"content");
    sealer.add_epoch(Epoch(4), &EpochKey::from_bytes([7; 32]));
    let new = sealer.seal(Kind::Data, b"content");
    assert_eq!(old.id, new.id);
    assert_ne!(old.bytes, new.bytes);
    assert_eq!(open(&sealer, &old).unwrap(), b"content");
    assert_eq!(
        sealer
            .open(Epoch(4), Kind::Data, &new.id, 7, &new.bytes)
            .unwrap(),
        b"content"
    );
    assert_tampered(
        sealer.open(Epoch(4), Kind::Data, &old.id, 7, &old.bytes),
        "old bytes as the new epoch's",
    );
}

/// Whoever holds the epoch key can seal another content under a name that exists; only `open` notices.
#[test]
fn a_name_that_does_not_belong_to_its_content_is_noticed_by_the_full_proof_only() {
    let honest = sealer(SuiteId::Aes256GcmBlake3);
    let forger = sealer_with(SuiteId::Aes256GcmBlake3, 0, 9, &[(EPOCH.0, 2)]);
    let forged = forger.seal(Kind::Data, b"forged!");
    assert_tampered(open(&honest, &forged), "a name made with another id key");
    assert_eq!(open_range(&honest, &forged, 0..7).unwrap(), b"forged!");
    assert!(!honest.verify_id(Kind::Data, &forged.id, b"forged!"));
}

#[test]
fn a_range_that_fails_leaves_only_zeros() {
    let sealer = sealer(SuiteId::Aes256GcmBlake3);
    let block = sealer.seal(Kind::Data, &[0xaa; 2 * CHUNK_BYTES]);
    let mut sealed = block.bytes.clone();
    *sealed.last_mut().unwrap() ^= 1;
    let mut out = vec![0xee; 2 * CHUNK_BYTES];
    let result = sealer.open_range(
        EPOCH,
        Kind::Data,
        &block.id,
        2 * CHUNK_BYTES,
        0..2 * CHUNK_BYTES,
        &sealed,
        &mut out,
    );
    assert_tampered(result, "second chunk");
    assert!(
        out.iter().all(|byte| *byte == 0),
        "the first chunk was good, and still is not given"
    );
}

#[test]
fn damage_in_one_chunk_leaves_the_others_readable() {
    let sealer = sealer(SuiteId::Aes256GcmBlake3);
    let clear = pattern(BLOCK_BYTES_MAX);
    let mut block = sealer.seal(Kind::Data, &clear);
    block.bytes[CHUNK_BYTES + TAG_BYTES + 5] ^= 1;
    assert_eq!(
        open_range(&sealer, &block, 0..CHUNK_BYTES).unwrap(),
        clear[..CHUNK_BYTES]
    );
    assert_eq!(
        open_range(&sealer, &block, 2 * CHUNK_BYTES..BLOCK_BYTES_MAX).unwrap(),
        clear[2 * CHUNK_BYTES..]
    );
    assert_tampered(
        open_range(&sealer, &block, CHUNK_BYTES - 1..CHUNK_BYTES + 1),
        "the damaged one",
    );
}

#[test]
fn impossible_lengths_and_ranges_are_refused_before_anything_is_allocated() {
    let sealer = sealer(SuiteId::Aes256GcmBlake3);
    let id = BlockId([0; 32]);
    for clear_len in [BLOCK_BYTES_MAX + 1, usize::MAX] {
        let result = sealer.open(EPOCH, Kind::Data, &id, clear_len, &[]);
        assert_eq!(
            result,
            Err(OpenError::TooLong {
                kind: Kind::Data,
                clear_len
            })
        );
        let result = sealer.open_range(EPOCH, Kind::Data, &id, clear_len, 0..0, &[], &mut []);
        assert_eq!(
            result,
            Err(OpenError::TooLong {
                kind: Kind::Data,
                clear_len
            })
        );
    }
    for (start, end) in [(0, 101), (100, 101), (usize::MAX - 1, usize::MAX)] {
        let mut out = vec![0; end - start];
        let result = sealer.open_range(EPOCH, Kind::Data, &id, 100, start..end, &[], &mut out);
        assert_eq!(
            result,
            Err(OpenError::RangeOutside {
                start,
                end,
                clear_len: 100
            })
        );
    }
    #[expect(clippy::reversed_empty_ranges, reason = "the point of the test")]
    let result = sealer.open_range(EPOCH, Kind::Data, &id, 100, 5..3, &[], &mut []);
    assert_eq!(
        result,
        Err(OpenError::RangeOutside {
            start: 5,
            end: 3,
            clear_len: 100
        })
    );
}

#[test]
fn a_range_takes_exactly_the_sealed_bytes_of_its_chunks() {
    let sealer = sealer(SuiteId::Aes256GcmBlake3);
    let block = sealer.seal(Kind::Data, &pattern(BLOCK_BYTES_MAX));
    let mut out = [0; 10];
    let chunk = CHUNK_BYTES + TAG_BYTES;
    for found in [0, TAG_BYTES, chunk - 1, chunk + 1, block.bytes.len()] {
        let result = sealer.open_range(
            EPOCH,
            Kind::Data,
            &block.id,
            BLOCK_BYTES_MAX,
            5..15,
            &block.bytes[..found],
            &mut out,
        );
        assert_eq!(
            result,
            Err(OpenError::WrongLength {
                kind: Kind::Data,
                expected: chunk,
                found
            })
        );
    }
}

#[test]
#[should_panic(expected = "content is cut into blocks")]
fn sealing_more_than_a_block_is_a_bug() {
    let _ = sealer(SuiteId::Aes256GcmBlake3).seal(Kind::Data, &[0; BLOCK_BYTES_MAX + 1]);
}

#[test]
fn many_blocks_seal_to_the_same_bytes_as_one_by_one_and_give_their_buffers_back() {
    let pool = Pool::new(2);
    let sealer = sealer(SuiteId::Aes256GcmBlake3);
    for count in [0, 1, 3, 100] {
        let clear: Vec<Vec<u8>> = (0..count).map(|number| pattern(number * 97)).collect();
        let big: Vec<Vec<u8>> = (0..count)
            .map(|number| pattern(BLOCK_BYTES_MAX - number))
            .collect();
        for buffers in [clear, big] {
            let sealed = sealer.seal_all(&pool, Kind::Data, buffers.clone());
            assert_eq!(sealed.len(), count);
            for ((block, buffer), original) in sealed.into_iter().zip(buffers) {
                let alone = sealer.seal(Kind::Data, &original);
                assert_eq!(
                    (block.id, block.clear_len, block.bytes),
                    (alone.id, alone.clear_len, alone.bytes)
                );
                assert_eq!(buffer, original);
            }
        }
    }
}

/// SECURITY.md, claim 7.
#[test]
fn errors_tell_lengths_and_numbers_but_no_content() {
    let sealer = sealer(SuiteId::Aes256GcmBlake3);
    let block = sealer.seal(Kind::Data, b"content");
    let error = sealer
        .open(EPOCH, Kind::BatchIndex, &block.id, 7, &block.bytes)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "sealed data (BatchIndex) does not open: it was damaged, altered or swapped; run `strongroom verify`"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_range_opens_to_that_part_of_the_content(
        len in 0..=BLOCK_BYTES_MAX, from in 0..=BLOCK_BYTES_MAX, to in 0..=BLOCK_BYTES_MAX, chacha: bool,
    ) {
        let suite = if chacha { SuiteId::ChaCha20Poly1305Blake3 } else { SuiteId::Aes256GcmBlake3 };
        let (from, to) = (from.min(to).min(len), to.max(from).min(len));
        let sealer = sealer(suite);
        let clear = pattern(len);
        let block = sealer.seal(Kind::Data, &clear);
        prop_assert_eq!(open_range(&sealer, &block, from..to).unwrap(), &clear[from..to]);
    }

    #[test]
    fn hostile_bytes_neither_open_nor_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..600), id: [u8; 32], clear_len: usize, from: usize, part in 0..64_usize,
    ) {
        let sealer = sealer(SuiteId::Aes256GcmBlake3);
        prop_assert!(sealer.open(EPOCH, Kind::Data, &BlockId(id), clear_len, &bytes).is_err());
        let fitting = strongroom_format::span::clear_len(bytes.len());
        if let Some(clear_len) = fitting {
            prop_assert!(sealer.open(EPOCH, Kind::Data, &BlockId(id), clear_len, &bytes).is_err());
        }
        let mut out = vec![0; part.max(1)];
        let range = from.saturating_sub(out.len())..from.saturating_sub(out.len()) + out.len();
        let opened = sealer.open_range(EPOCH, Kind::Data, &BlockId(id), clear_len, range, &bytes, &mut out);
        prop_assert!(opened.is_err());
    }

    #[test]
    fn distinct_contents_have_distinct_names(first: Vec<u8>, second: Vec<u8>) {
        let sealer = sealer(SuiteId::Aes256GcmBlake3);
        let same = sealer.seal(Kind::Data, &first).id == sealer.seal(Kind::Data, &second).id;
        prop_assert_eq!(same, first == second);
    }
}
