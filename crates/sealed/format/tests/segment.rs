//! The bytes of segments: compared with vectors of another implementation, truncated at every place, and hostile.

use std::fs;
use std::path::PathBuf;

use strongroom_format::limits::{SECTOR_BYTES, SEGMENT_BYTES_MAX};
use strongroom_format::segment::{
    BATCH_HEADER_BYTES, Batch, BatchHeader, BatchLengths, BatchSize, FIRST_BATCH_OFFSET, Footer,
    SEALED_LENGTHS_BYTES, SaidLengths, ScanTail, SegmentFormatError, SegmentHeader, SegmentVersion,
    checksum, ending_len, scan,
};
use strongroom_format::survey::survey;
use strongroom_format::{Epoch, SegmentId, SuiteId};

/// How many files `spec/vectors/segment` holds: a vector that is not found is not run.
const VECTORS: usize = 49;

/// One vector: bytes, and what they are.
#[derive(Default)]
struct Vector {
    bytes: Vec<u8>,
    expect: String,
    batches: Option<usize>,
    end: Option<u64>,
}

fn parse(text: &str) -> Vector {
    let mut vector = Vector::default();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (word, rest) = line.split_once(' ').expect("a word and a value");
        match word {
            "len" => vector.bytes = vec![0; rest.parse().expect("a length")],
            "at" => {
                let (offset, hex) = rest.split_once(' ').expect("an offset and bytes");
                let offset: usize = offset.parse().expect("an offset");
                for (at, pair) in hex.as_bytes().chunks(2).enumerate() {
                    let pair = std::str::from_utf8(pair).expect("hexadecimal");
                    vector.bytes[offset + at] = u8::from_str_radix(pair, 16).expect("hexadecimal");
                }
            }
            "expect" => vector.expect = rest.to_owned(),
            "batches" => vector.batches = Some(rest.parse().expect("a count")),
            "end" => vector.end = Some(rest.parse().expect("an offset")),
            other => panic!("unknown word {other}"),
        }
    }
    vector
}

#[test]
fn every_vector_is_told_what_it_is() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../spec/vectors/segment");
    let mut run = 0;
    for entry in fs::read_dir(folder).expect("the vectors are there") {
        let path = entry.expect("listed").path();
        if path.extension().is_none_or(|extension| extension != "txt") {
            continue;
        }
        let vector = parse(&fs::read_to_string(&path).expect("read"));
        let (told, batches, end) = match scan(&vector.bytes) {
            Err(error) => (format!("error {error:?}"), None, None),
            Ok(found) => {
                let tail = match found.tail {
                    ScanTail::Finished(_) => "finished".to_owned(),
                    ScanTail::Open => "open".to_owned(),
                    ScanTail::Torn(reason) => format!("torn {reason:?}"),
                };
                (tail, Some(found.batches.len()), Some(found.end))
            }
        };
        assert_eq!(
            (told, batches, end),
            (vector.expect, vector.batches, vector.end),
            "{}",
            path.display()
        );
        run += 1;
    }
    assert_eq!(run, VECTORS);
}

/// Of version 0, which is read for ever.
const HEADER: SegmentHeader = SegmentHeader {
    version: SegmentVersion::Told,
    suite: SuiteId::Aes256GcmBlake3,
    epoch: Epoch(7),
    id: SegmentId([0xa5; 16]),
};

fn told(batch: &Batch<'_>) -> BatchLengths {
    match batch.payload.lengths() {
        Some(SaidLengths::Told(lengths)) => lengths,
        other => panic!("{other:?}"),
    }
}

fn blocks<'a>(batch: &Batch<'a>) -> &'a [u8] {
    batch.payload.blocks(&told(batch)).expect("inside")
}

fn index<'a>(batch: &Batch<'a>) -> &'a [u8] {
    batch.payload.sealed_index(&told(batch)).expect("inside")
}

/// A finished file of version 1, of batches of so many sectors.
fn in_sectors(batches: &[usize], contents_sectors: usize) -> Vec<u8> {
    let header = SegmentHeader {
        version: SegmentVersion::Sectors,
        ..HEADER
    };
    let mut bytes = header.encode().to_vec();
    bytes.resize(SECTOR_BYTES, 0);
    let mut previous = header.chain();
    for (number, sectors) in batches.iter().enumerate() {
        let payload = vec![number as u8 + 1; sectors * SECTOR_BYTES - BATCH_HEADER_BYTES];
        let batch = BatchHeader {
            segment: header.id,
            number: number as u32,
            size: BatchSize::Sectors(*sectors as u32),
            payload_checksum: checksum(&[&payload]),
            previous,
        };
        previous = batch.chain();
        bytes.extend_from_slice(&batch.encode());
        bytes.extend_from_slice(&payload);
    }
    let contents = vec![9; contents_sectors * SECTOR_BYTES - 64];
    let footer = Footer {
        header,
        contents_offset: bytes.len() as u32,
        contents_len: contents.len() as u32,
        contents_checksum: checksum(&[&contents]),
        batches: batches.len() as u32,
        previous,
    };
    bytes.extend_from_slice(&contents);
    bytes.extend_from_slice(&footer.encode());
    bytes
}

#[test]
fn a_file_of_version_1_tells_its_sectors_and_no_length() {
    let bytes = in_sectors(&[1, 3, 2], 2);
    let found = scan(&bytes).expect("a segment");
    let offsets: Vec<u32> = found.batches.iter().map(|batch| batch.offset).collect();
    assert_eq!(offsets, [4096, 8192, 20480]);
    let contents = vec![9; 2 * SECTOR_BYTES - 64];
    assert_eq!(found.tail, ScanTail::Finished(&contents[..]));
    for (batch, sectors) in found.batches.iter().zip([1, 3, 2]) {
        assert_eq!(batch.header.batch_len(), sectors * SECTOR_BYTES as u64);
        let Some(SaidLengths::Sealed(sealed)) = batch.payload.lengths() else {
            panic!("its lengths are sealed")
        };
        assert_eq!(sealed.len(), SEALED_LENGTHS_BYTES);
        let beyond = BatchLengths {
            count: 1,
            blocks_len: u32::MAX,
            index_len: u32::MAX,
        };
        assert_eq!(batch.payload.blocks(&beyond), None);
        assert_eq!(batch.payload.sealed_index(&beyond), None);
    }
}

/// Goal: from version 1 on no byte of a batch or an ending is outside of a checksum.
#[test]
fn an_altered_byte_of_a_file_of_version_1_is_found_wherever_it_is() {
    let whole = in_sectors(&[1, 2], 1);
    for at in SECTOR_BYTES..whole.len() {
        let mut altered = whole.clone();
        altered[at] ^= 0x10;
        let found = scan(&altered).expect("a segment");
        let finished = matches!(found.tail, ScanTail::Finished(_));
        assert!(!finished, "byte {at}");
        let kept = usize::from(at >= 2 * SECTOR_BYTES) + usize::from(at >= 4 * SECTOR_BYTES);
        assert_eq!(found.batches.len(), kept, "byte {at}");
    }
}

/// Builds files as a writer does.
struct Builder {
    bytes: Vec<u8>,
    batches: u32,
    chain: u32,
}

impl Builder {
    fn new() -> Self {
        let mut bytes = HEADER.encode().to_vec();
        bytes.resize(SECTOR_BYTES, 0);
        Self {
            bytes,
            batches: 0,
            chain: HEADER.chain(),
        }
    }

    fn header_for(&self, blocks: &[u8], index: &[u8]) -> BatchHeader {
        BatchHeader {
            segment: HEADER.id,
            number: self.batches,
            size: BatchSize::Told(BatchLengths {
                count: 1,
                blocks_len: blocks.len() as u32,
                index_len: index.len() as u32,
            }),
            payload_checksum: checksum(&[blocks, index]),
            previous: self.chain,
        }
    }

    fn batch(mut self, blocks: &[u8], index: &[u8]) -> Self {
        let header = self.header_for(blocks, index);
        for part in [&header.encode()[..], blocks, index] {
            self.bytes.extend_from_slice(part);
        }
        self.bytes
            .resize(self.bytes.len().next_multiple_of(SECTOR_BYTES), 0);
        self.batches += 1;
        self.chain = header.chain();
        self
    }

    fn finish(self, contents: &[u8]) -> Vec<u8> {
        let footer = Footer {
            header: HEADER,
            contents_offset: self.bytes.len() as u32,
            contents_len: contents.len() as u32,
            contents_checksum: checksum(&[contents]),
            batches: self.batches,
            previous: self.chain,
        };
        let mut bytes = self.bytes;
        let end = bytes.len() + ending_len(contents.len() as u64) as usize;
        bytes.extend_from_slice(contents);
        bytes.resize(end - 64, 0);
        bytes.extend_from_slice(&footer.encode());
        bytes
    }
}

#[test]
fn what_was_written_is_read_back_byte_for_byte() {
    let bytes = Builder::new()
        .batch(&[1; 5000], &[2; 70])
        .batch(&[3; 16], &[])
        .finish(b"contents");
    let found = scan(&bytes).expect("a segment");
    assert_eq!(found.header, HEADER);
    let batches: Vec<_> = found
        .batches
        .iter()
        .map(|batch| (batch.offset, blocks(batch), index(batch)))
        .collect();
    assert_eq!(
        batches,
        [
            (4096, &[1; 5000][..], &[2; 70][..]),
            (12288, &[3; 16][..], &[][..])
        ]
    );
    assert_eq!(found.tail, ScanTail::Finished(b"contents"));
    assert_eq!(
        Footer::decode(&bytes[bytes.len() - 64..], bytes.len() as u64)
            .expect("a footer")
            .header,
        HEADER
    );
}

/// Goal: whatever a power cut leaves of what was written last, exactly the earlier batches are found.
#[test]
fn a_last_batch_torn_at_any_byte_is_not_found_and_the_earlier_ones_are() {
    let earlier = Builder::new()
        .batch(&[1; 100], b"first")
        .batch(&[2; 4000], b"second");
    let kept = earlier.bytes.len();
    let whole = earlier.batch(&[3; 5000], b"last").bytes;
    for torn in kept..whole.len() {
        let mut zeros = whole[..torn].to_vec();
        zeros.resize(whole.len(), 0);
        let mut altered = whole.clone();
        altered[torn] ^= 0x10;
        for bytes in [&whole[..torn], &zeros, &altered] {
            // Padding is zeros: a whole batch is what remains if nothing else was lost.
            let expected = if bytes == whole { 3 } else { 2 };
            assert_eq!(
                scan(bytes).expect("a segment").batches.len(),
                expected,
                "torn at {torn}"
            );
        }
    }
}

#[test]
fn an_ending_torn_at_any_byte_is_no_ending_and_costs_no_batch() {
    let open = Builder::new().batch(&[1; 100], b"first");
    let kept = open.bytes.len();
    let whole = open.finish(&[9; 200]);
    for torn in kept..whole.len() {
        let mut altered = whole.clone();
        altered[torn] ^= 0x10;
        for bytes in [&whole[..torn], &altered] {
            let found = scan(bytes).expect("a segment");
            assert_eq!(
                (found.batches.len(), found.end),
                (1, kept as u64),
                "torn at {torn}"
            );
            assert!(
                !matches!(found.tail, ScanTail::Finished(_)),
                "torn at {torn}"
            );
        }
    }
}

/// Goal: a batch that was written, never acknowledged and then gone over must not come back to life behind
/// the one that went over it, even if it begins exactly there.
#[test]
fn what_is_left_of_an_earlier_attempt_never_joins_the_chain() {
    let abandoned = Builder::new()
        .batch(&[1; 100], b"first")
        .batch(&[2; 100], b"gone over")
        .batch(&[3; 100], b"left");
    let mut bytes = abandoned.bytes;
    let again = Builder::new()
        .batch(&[1; 100], b"first")
        .batch(&[4; 100], b"went over")
        .bytes;
    bytes[..again.len()].copy_from_slice(&again);
    let found = scan(&bytes).expect("a segment");
    assert_eq!(found.batches.len(), 2);
    assert_eq!(index(&found.batches[1]), b"went over");
    assert!(matches!(found.tail, ScanTail::Torn(_)));
}

/// Goal: lengths with a right checksum are still not believed.
#[test]
fn no_length_reaches_beyond_the_file_whatever_it_says() {
    let lengths = [
        0,
        1,
        4031,
        4032,
        4033,
        1 << 24,
        u32::MAX - 4096,
        u32::MAX - 64,
        u32::MAX,
    ];
    for blocks_len in lengths {
        for index_len in lengths {
            let mut builder = Builder::new();
            let header = BatchHeader {
                size: BatchSize::Told(BatchLengths {
                    count: 1,
                    blocks_len,
                    index_len,
                }),
                ..builder.header_for(&[], &[])
            };
            builder.bytes.extend_from_slice(&header.encode());
            builder.bytes.resize(3 * SECTOR_BYTES, 0);
            for batch in scan(&builder.bytes).expect("a segment").batches {
                assert!(
                    blocks(&batch).len() + index(&batch).len() + BATCH_HEADER_BYTES
                        <= 2 * SECTOR_BYTES
                );
            }
        }
    }
    for contents_len in lengths {
        for contents_offset in [0, 1, 4096, 8192, u32::MAX - 4095, u32::MAX] {
            let footer = Footer {
                header: HEADER,
                contents_offset,
                contents_len,
                contents_checksum: checksum(&[]),
                batches: 0,
                previous: HEADER.chain(),
            };
            let mut bytes = Builder::new().bytes;
            bytes.resize(2 * SECTOR_BYTES - 64, 0);
            bytes.extend_from_slice(&footer.encode());
            let finished = matches!(scan(&bytes).expect("a segment").tail, ScanTail::Finished(_));
            assert_eq!(
                finished,
                (contents_offset, contents_len) == (4096, 0),
                "{contents_offset} {contents_len}"
            );
        }
    }
}

#[test]
fn a_file_longer_than_any_segment_is_not_read_beyond_the_limit() {
    let mut builder = Builder::new();
    while builder.bytes.len() < SEGMENT_BYTES_MAX as usize + (1 << 20) {
        builder = builder.batch(&vec![5; (1 << 20) - 64], &[]);
    }
    let found = scan(&builder.bytes).expect("a segment");
    assert_eq!(
        found.batches.len(),
        15,
        "each takes one MiB, and the first sector is taken"
    );
    assert!(found.end <= SEGMENT_BYTES_MAX);
    let finished = builder.finish(b"");
    assert!(!matches!(
        scan(&finished).expect("a segment").tail,
        ScanTail::Finished(_)
    ));
}

/// Goal: a batch that leaves no room for the end of its file is none, at an opening and at a repair.
/// Method: two files of which only the second ends a sector before the longest one.
/// Failed before: the batch of the first was taken, and nothing could finish the file.
#[test]
fn a_batch_that_leaves_no_sector_for_an_ending_is_none() {
    let longest = SEGMENT_BYTES_MAX as usize;
    let mut full = in_sectors(&[1, 4094], 1);
    assert_eq!(full.len(), longest + SECTOR_BYTES);
    full.truncate(longest);
    let found = scan(&full).expect("a segment");
    assert_eq!((found.batches.len(), found.end), (1, 8192));
    assert_eq!(found.tail, ScanTail::Torn(SegmentFormatError::Length));
    let found = survey(&full, HEADER.id);
    assert_eq!((found.batches.len(), found.end), (1, 8192));
    let faults: Vec<_> = found
        .faults
        .iter()
        .map(|one| (one.start, one.end))
        .collect();
    assert_eq!(faults, [(8192, SEGMENT_BYTES_MAX)]);
    let finished = in_sectors(&[1, 4093], 1);
    assert_eq!(finished.len(), longest);
    let found = scan(&finished).expect("a segment");
    assert_eq!(found.batches.len(), 2);
    assert!(matches!(found.tail, ScanTail::Finished(_)));
    assert!(survey(&finished, HEADER.id).faults.is_empty());
}

/// Goal: nothing panics or finds what is not there. Method: bytes from a small generator, alone and
/// scattered over a whole file; 20,000 files from fixed seeds.
#[test]
fn arbitrary_bytes_never_panic_and_never_make_a_batch() {
    let whole = Builder::new()
        .batch(&[1; 100], b"first")
        .batch(&[2; 100], b"second")
        .finish(b"contents");
    let written: Vec<Vec<u8>> = scan(&whole)
        .expect("a segment")
        .batches
        .iter()
        .map(|batch| blocks(batch).to_vec())
        .collect();
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..20_000 {
        let mut bytes = whole.clone();
        for _ in 0..random() % 4 {
            let at = random() as usize % bytes.len();
            let len = (random() as usize % 80).min(bytes.len() - at);
            bytes[at..at + len].fill_with(|| random() as u8);
        }
        bytes.truncate(random() as usize % (2 * bytes.len()));
        if let Ok(found) = scan(&bytes) {
            assert!(
                found.end >= FIRST_BATCH_OFFSET
                    && found.end <= bytes.len().max(SECTOR_BYTES) as u64
            );
            for (batch, written) in found.batches.iter().zip(&written) {
                assert_eq!(blocks(batch), written.as_slice());
            }
        }
        let _ = Footer::decode(&bytes, bytes.len() as u64);
        let _ = BatchHeader::decode(&bytes);
        bytes.fill_with(|| random() as u8);
        assert!(scan(&bytes).is_err());
    }
}
