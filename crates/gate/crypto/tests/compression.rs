//! The guarantees of sealing with compression: everything sealed opens, also in part, and nothing else does.

use proptest::prelude::*;
use strongroom_crypto::{BlockSealer, Compression, EpochKey, IdKey, OpenError, Pool};
use strongroom_format::limits::{BLOCK_BYTES_MAX, sealed_len};
use strongroom_format::{Epoch, Kind, SealedBlock, SuiteId};

const OLD: Epoch = Epoch(0);
const NEW: Epoch = Epoch(1);

fn sealer(epochs: &[Epoch], compression: Compression) -> BlockSealer {
    let key = |epoch: &Epoch| (*epoch, EpochKey::from_bytes([epoch.0 as u8 + 7; 32]));
    BlockSealer::new(
        SuiteId::Aes256GcmBlake3,
        [0; 16],
        IdKey::from_bytes([1; 32]),
        epochs.iter().map(key).collect(),
    )
    .with_compression(compression)
}

/// Lines that differ a little.
fn text(len: usize) -> Vec<u8> {
    let line = |n: usize| format!("{n} of many lines, {}\n", n * n % 89);
    (0..).flat_map(|n| line(n).into_bytes()).take(len).collect()
}

fn noise(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    blake3::Hasher::new().finalize_xof().fill(&mut bytes);
    bytes
}

fn open(sealer: &BlockSealer, epoch: Epoch, block: &SealedBlock) -> Result<Vec<u8>, OpenError> {
    let len = block.clear_len as usize;
    sealer.open(epoch, block.kind, &block.id, len, &block.bytes)
}

#[test]
fn content_that_gets_shorter_is_sealed_shorter_and_comes_back_as_each_kind() {
    let sealer = sealer(&[OLD], Compression::Zstd);
    for kind in [Kind::Data, Kind::TreeNode, Kind::ExtentList] {
        for len in [256, 4096, 20_000, BLOCK_BYTES_MAX] {
            let block = sealer.seal(kind, &text(len));
            assert_eq!(Some(block.kind), kind.compressed());
            assert!(block.clear_len as usize <= len - len / 8);
            assert_eq!(block.bytes.len(), sealed_len(block.clear_len as usize));
            assert_eq!(open(&sealer, OLD, &block), Ok(text(len)));
        }
    }
}

#[test]
fn a_block_is_the_same_wherever_it_is_sealed_and_asks_once_for_room() {
    for compression in Compression::ALL {
        let sealer = sealer(&[OLD], compression);
        for clear in [Vec::new(), text(300), noise(4097), text(BLOCK_BYTES_MAX)] {
            let block = sealer.seal(Kind::Data, &clear);
            let (mut asked, mut bytes) = (Vec::new(), vec![0xAA; block.bytes.len() + 1]);
            let (room, behind) = bytes.split_at_mut(block.bytes.len());
            let head = sealer.seal_into(Kind::Data, &clear, |id, len| {
                asked.push((*id, len));
                Some(room)
            });
            assert_eq!((head, behind), (block.head(), &mut [0xAA][..]));
            assert_eq!(asked, [(block.id, block.clear_len as usize)]);
            assert!(bytes[..block.bytes.len()] == block.bytes);
            let named = sealer.seal_into(Kind::Data, &clear, |_, _| None);
            assert_eq!(named, block.head(), "without room");
        }
    }
}

#[test]
#[should_panic(expected = "room for a tag per chunk")]
fn room_of_another_length_is_refused() {
    let mut room = [0; 100];
    let _ =
        sealer(&[OLD], Compression::None).seal_into(Kind::Data, b"clear", |_, _| Some(&mut room));
}

#[test]
fn what_does_not_get_shorter_is_the_block_that_it_would_be_without_compression() {
    let (with, without) = (
        sealer(&[OLD], Compression::Zstd),
        sealer(&[OLD], Compression::None),
    );
    for clear in [Vec::new(), text(255), noise(256), noise(BLOCK_BYTES_MAX)] {
        let (one, other) = (
            with.seal(Kind::Data, &clear),
            without.seal(Kind::Data, &clear),
        );
        assert_eq!(one.kind, Kind::Data);
        assert_eq!((one.id, one.bytes), (other.id, other.bytes));
    }
}

#[test]
fn records_are_never_compressed() {
    let sealer = sealer(&[OLD], Compression::Zstd);
    let random = strongroom_crypto::SystemRandom;
    let record = sealer.seal_record(&random, Kind::BatchIndex, &text(5000));
    let record = record.expect("the system gives random bytes");
    assert_eq!(record.len(), strongroom_crypto::record::record_len(5000));
}

#[test]
fn a_pool_gives_the_same_blocks_as_one_thread() {
    let sealer = sealer(&[OLD], Compression::Zstd);
    let clear: Vec<Vec<u8>> = (0..64).map(|n| text(BLOCK_BYTES_MAX - n * 100)).collect();
    let blocks = sealer.seal_all(&Pool::new(3), Kind::Data, clear);
    for (block, clear) in blocks {
        let alone = sealer.seal(Kind::Data, &clear);
        assert_eq!(
            (block.id, block.kind, block.bytes),
            (alone.id, alone.kind, alone.bytes)
        );
    }
}

#[test]
fn sealing_anew_under_other_keys_keeps_the_name_without_compressing_again() {
    let (old, new) = (
        sealer(&[OLD], Compression::Zstd),
        sealer(&[OLD, NEW], Compression::None),
    );
    let block = old.seal(Kind::Data, &text(30_000));
    let len = block.clear_len as usize;
    let exactly = new.open_exactly(OLD, block.kind, &block.id, len, &block.bytes);
    let again = new.seal_exactly(block.kind, &exactly.expect("it opens"));
    assert_eq!(
        (again.id, again.kind, again.clear_len),
        (block.id, block.kind, block.clear_len)
    );
    assert_ne!(again.bytes, block.bytes);
    assert_eq!(open(&new, NEW, &again), Ok(text(30_000)));
}

#[test]
fn one_kind_does_not_open_as_another() {
    let sealer = sealer(&[OLD], Compression::Zstd);
    let block = sealer.seal(Kind::Data, &text(3000));
    for kind in Kind::ALL.iter().filter(|kind| **kind != block.kind) {
        let as_other = SealedBlock {
            kind: *kind,
            ..block.clone()
        };
        let refused = Err(OpenError::Tampered { kind: *kind });
        assert_eq!(open(&sealer, OLD, &as_other), refused);
    }
}

#[test]
fn a_frame_that_somebody_with_the_keys_made_hostile_is_refused_like_damage() {
    let sealer = sealer(&[OLD], Compression::Zstd);
    let good = sealer.seal(Kind::Data, &text(9000));
    let len = good.clear_len as usize;
    let frame = sealer.open_exactly(OLD, good.kind, &good.id, len, &good.bytes);
    let frame = frame.expect("it opens");
    let longer = [&frame[..], &[0]].concat();
    let hostile = [
        &frame[..len - 1],
        &longer,
        &[],
        b"no frame at all",
        &noise(5000),
    ];
    for bytes in hostile {
        let block = sealer.seal_exactly(Kind::CompressedData, bytes);
        let refused = OpenError::Tampered { kind: block.kind };
        assert_eq!(open(&sealer, OLD, &block), Err(refused));
        let len = block.clear_len as usize;
        let mut out = [1; 10];
        let opened = sealer.open_range(
            OLD,
            block.kind,
            &block.id,
            len,
            0..10,
            &block.bytes,
            &mut out,
        );
        assert_eq!((opened, out), (Err(refused), [0; 10]));
    }
}

#[test]
fn a_damaged_byte_anywhere_closes_the_whole_block() {
    let sealer = sealer(&[OLD], Compression::Zstd);
    let block = sealer.seal(Kind::Data, &text(BLOCK_BYTES_MAX));
    let len = block.clear_len as usize;
    for index in (0..block.bytes.len()).step_by(97) {
        let mut damaged = block.bytes.clone();
        damaged[index] ^= 1;
        let mut out = vec![1; 100];
        let range = BLOCK_BYTES_MAX - 100..BLOCK_BYTES_MAX;
        let opened = sealer.open_range(OLD, block.kind, &block.id, len, range, &damaged, &mut out);
        assert_eq!(opened, Err(OpenError::Tampered { kind: block.kind }));
        assert_eq!(out, [0; 100]);
    }
}

proptest! {
    #[test]
    fn each_range_is_what_it_is_of_the_content(
        len in 256..=BLOCK_BYTES_MAX,
        from in 0..=BLOCK_BYTES_MAX,
        to in 0..=BLOCK_BYTES_MAX + 10,
        is_text in any::<bool>(),
    ) {
        let sealer = sealer(&[OLD], Compression::Zstd);
        let clear = if is_text { text(len) } else { noise(len) };
        let block = sealer.seal(Kind::Data, &clear);
        let (from, to) = (from.min(to), to.max(from));
        let clear_len = block.clear_len as usize;
        let mut out = vec![1; to - from];
        let span = sealer.sealed_span(OLD, block.kind, clear_len, from..to);
        let sealed = &block.bytes[span];
        let opened =
            sealer.open_range(OLD, block.kind, &block.id, clear_len, from..to, sealed, &mut out);
        match clear.get(from..to) {
            Some(part) => {
                prop_assert_eq!(opened, Ok(()));
                prop_assert_eq!(&out[..], part);
            }
            None => {
                let outside = OpenError::RangeOutside { start: from, end: to, clear_len: len };
                prop_assert_eq!(opened, Err(outside));
                prop_assert!(out.iter().all(|byte| *byte == 0));
            }
        }
    }
}
