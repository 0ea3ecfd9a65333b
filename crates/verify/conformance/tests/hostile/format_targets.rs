//! The decoders of `format` and of the rows of extents.

use std::path::PathBuf;

use strongroom_format::index::{
    IndexEntry, decode_contents, decode_index, encode_contents, encode_index,
};
use strongroom_format::intent::{Intent, IntentLogId, IntentVersion, encode_header, encode_record};
use strongroom_format::limits::{
    BLOCK_BYTES_MAX, HEADER_BYTES_MAX, KEM_PUBLIC_BYTES, REPLICA_BYTES_MAX,
};
use strongroom_format::membership::Record;
use strongroom_format::pairing::{Admission, Newcomer};
use strongroom_format::publication::{
    Publication, PublicationId, PublishedRevision, PublishedSegment, RemoteId, SignedPublication,
};
use strongroom_format::segment::{
    BATCH_HEADER_BYTES, BatchHeader, BatchLengths, BatchSize, FIRST_BATCH_OFFSET, FOOTER_BYTES,
    Footer, SEGMENT_HEADER_BYTES, SegmentHeader, SegmentVersion, batch_len, checksum, ending_len,
    scan,
};
use strongroom_format::{
    Argon2Parameters, BlockId, Epoch, Header, InstanceId, Lock, PrincipalId, PublicKeys, RecordId,
    ReplicaFile, ReplicaFormat, SegmentId, Slot, SlotId, SuiteId, VaultId,
};
use strongroom_metadata::{BlockNumber, Extent, REGION_BYTES, regions};

use crate::target::Target;

pub(crate) fn all() -> Vec<Target> {
    vec![
        span(),
        Target::new(
            "segment-header",
            vec![segment()[..4096].to_vec()],
            |bytes| {
                SegmentHeader::decode(bytes).is_ok_and(|header| {
                    assert_eq!(SegmentHeader::decode(bytes), Ok(header));
                    true
                })
            },
        )
        .repair(|bytes| repair_segment_header(bytes)),
        Target::new(
            "batch-header",
            vec![segment()[4096..8192].to_vec()],
            |bytes| {
                BatchHeader::decode(bytes).is_ok_and(|header| {
                    assert_eq!(header.encode(), bytes[..BATCH_HEADER_BYTES]);
                    // Any two lengths of 32 bits must be added without overflow.
                    match header.size {
                        BatchSize::Told(said) => {
                            let sum = u64::from(said.blocks_len) + u64::from(said.index_len);
                            header.batch_len() >= sum
                        }
                        BatchSize::Sectors(said) => header.batch_len() == u64::from(said) * 4096,
                    }
                })
            },
        )
        .repair(|bytes| seal_checksum(bytes, 0)),
        footer(),
        Target::new(
            "segment-scan",
            vec![segment(), segment()[..12_288].to_vec()],
            scanned,
        )
        .repair(|bytes| repair_segment(bytes))
        .cost(4),
        index(),
        contents(),
        intent(),
        intent_log(),
        header(),
        withheld(),
        replica(),
        membership(),
        publication(),
        pairing_request(),
        region(),
    ]
}

/// The arithmetic of blocks takes any three numbers.
fn span() -> Target {
    let seed = [65_536_u64, 100, 40_000].map(u64::to_le_bytes).concat();
    Target::new("block-span", vec![seed], |bytes| {
        let number = |at: usize| {
            let field = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>);
            field.map(|field| usize::try_from(u64::from_le_bytes(*field)).unwrap_or(usize::MAX))
        };
        let (Some(len), Some(start), Some(end)) = (number(0), number(8), number(16)) else {
            return false;
        };
        let span = strongroom_format::chunk_span(len, start..end);
        assert!(span.start <= span.end && span.end <= strongroom_format::span::sealed_len(len));
        if let Some(clear) = strongroom_format::span::clear_len(len) {
            assert_eq!(strongroom_format::span::sealed_len(clear), len);
        }
        true
    })
}

fn footer() -> Target {
    let seed = segment();
    let len = seed.len();
    let seeds = vec![seed[len - 4096..].to_vec()];
    Target::new("segment-footer", seeds, move |bytes| {
        Footer::decode(bytes, len as u64)
            .is_ok_and(|footer| footer.encode() == bytes[bytes.len() - FOOTER_BYTES..])
    })
    .repair(|bytes| repair_footer(bytes))
}

fn index() -> Target {
    Target::new(
        "batch-index",
        vec![encode_index(&entries(40)), encode_index(&[])],
        |bytes| {
            decode_index(bytes).is_ok_and(|found| {
                assert_eq!(encode_index(&found), bytes);
                true
            })
        },
    )
    .bound(|len| 3 * len + 4096)
}

fn contents() -> Target {
    let seed = encode_contents(&[
        (4160, entries(9)),
        (200_064, Vec::new()),
        (300_096, entries(3)),
    ]);
    Target::new("segment-contents", vec![seed, Vec::new()], |bytes| {
        decode_contents(bytes).is_ok_and(|found| {
            // Zeros may follow, and nothing else.
            let mut again = encode_contents(&found);
            again.resize(bytes.len(), 0);
            assert_eq!(again, bytes);
            true
        })
    })
    // An empty index takes 8 bytes and becomes a vector's head of 32; a growing list exists twice for a moment.
    .bound(|len| 16 * len + 4096)
}

fn intent() -> Target {
    let intent = |pieces| Intent {
        number: 3,
        acknowledged: 2,
        inode: 5,
        birth_id: 6,
        base: 7,
        version: 9,
        mtime: 10,
        ctime: 11,
        pieces,
    };
    let pieces = vec![(0, vec![1; 100]), (70_000, vec![2; 4096])];
    let seeds = vec![intent(pieces).encode(), intent(Vec::new()).encode()];
    Target::new("intent", seeds, |bytes| {
        Intent::decode(IntentVersion::Sectors, bytes).is_ok_and(|found| {
            let mut again = found.encode();
            again.resize(bytes.len(), 0);
            assert_eq!(again, bytes);
            true
        })
    })
    // The heads of 64 pieces at most.
    .bound(|len| 2 * len + 4096)
}

fn intent_log() -> Target {
    let id = IntentLogId([7; 16]);
    let mut seed = encode_header(id, 4 * 4096);
    for sequence in 3..6 {
        seed.extend(encode_record(id, sequence, Epoch(1), &[9; 4096 - 64]));
    }
    Target::new("intent-log", vec![seed], |bytes| {
        strongroom_format::intent::scan(bytes).is_ok_and(|found| {
            let sectors = found
                .records
                .iter()
                .map(|one| (one.sealed.len() + 64) / 4096);
            assert!((sectors.sum::<usize>() + 1) * 4096 <= bytes.len());
            true
        })
    })
    .repair(|bytes| {
        seal_checksum(bytes, 0);
        let sealed = bytes.get(4160..8192).map(|sealed| checksum(&[sealed]));
        if let (Some(sum), Some(field)) = (sealed, bytes.get_mut(4136..4140)) {
            field.copy_from_slice(&sum.to_le_bytes());
        }
        seal_checksum(bytes, 4096);
    })
    .bound(|len| 2 * len + 4096)
}

fn header() -> Target {
    Target::new("vault-header", headers(), |bytes| {
        Header::decode(bytes).is_ok_and(|stored| {
            assert!(stored.covered_bytes < bytes.len());
            true
        })
    })
    .repair(repair_json)
    .bound(|len| 4 * len.min(HEADER_BYTES_MAX) + 64 * 1024)
    .cost(10)
}

/// What a header withholds from remotes, once its record was opened.
fn withheld() -> Target {
    let headers = headers();
    let header = |at: usize| Header::decode(&headers[at]).unwrap().header;
    let (whole, form) = (header(0), header(2));
    let seed = whole.to_withhold().unwrap();
    Target::new("withheld-slots", vec![seed], move |bytes| {
        form.clone().with_withheld(bytes).is_ok_and(|whole| {
            assert_eq!(whole.to_withhold().unwrap(), bytes);
            true
        })
    })
    .bound(|len| 2 * len + 128 * 1024)
}

fn replica() -> Target {
    let seed = ReplicaFile {
        format: ReplicaFormat::Two,
        vault: VaultId([1; 32]),
        instance: InstanceId([2; 16]),
        epoch: Epoch(3),
        sealed: vec![4; 200],
    };
    Target::new("replica-file", vec![seed.encode()], |bytes| {
        ReplicaFile::decode(bytes).is_ok()
    })
    .repair(repair_json)
    .bound(|len| 4 * len.min(REPLICA_BYTES_MAX) + 16 * 1024)
}

fn membership() -> Target {
    let records: Vec<_> = headers()
        .iter()
        .flat_map(|header| Header::decode(header).unwrap().header.records)
        .map(|record| record.encode())
        .collect();
    assert!(records.len() > 2, "the seeds hold later records too");
    Target::new("membership-record", records, |bytes| {
        Record::decode(bytes).is_ok_and(|record| {
            // Only the canonical bytes are accepted.
            assert_eq!(record.encode(), bytes);
            true
        })
    })
    // Public keys in boxes of their own, and the record encoded again beside them.
    .bound(|len| 8 * len + 16 * 1024)
}

fn pairing_request() -> Target {
    let keys = |byte| PublicKeys {
        signing: [byte; 32],
        kem: Box::new([byte; KEM_PUBLIC_BYTES]),
    };
    let argon2 = Argon2Parameters {
        memory_kib: 1 << 20,
        passes: 3,
        lanes: 4,
        salt: [6; 16],
    };
    let seed = |lock| {
        let newcomer = Newcomer {
            vault: VaultId([1; 32]),
            device: keys(2),
            slot_keys: keys(3),
            slot: Slot {
                id: SlotId([4; 8]),
                label: "laptop".to_owned(),
                created_s: 1_800_000_000,
                principal: keys(3).id(),
                lock,
                sealed: vec![5; 200],
            },
        };
        newcomer.encode()
    };
    let admitted = Admission::Admitted {
        generation: 7,
        publication: 300,
    };
    let seeds = vec![
        seed(Lock::Passphrase(argon2)),
        seed(Lock::KeyFile),
        admitted.encode(),
    ];
    Target::new("pairing-message", seeds, |bytes| {
        let request = Newcomer::decode(bytes).map(|request| {
            assert_eq!(request.encode(), bytes);
            assert_eq!(request.fingerprint().len(), 24);
        });
        let answer = Admission::decode(bytes).map(|answer| assert_eq!(answer.encode(), bytes));
        request.is_ok() || answer.is_ok()
    })
}

fn publication() -> Target {
    let seeds: Vec<_> = [1_u8, 40]
        .map(|count| {
            let numbers = 1..=count;
            let hashes: Vec<_> = numbers.clone().map(|number| [number; 32]).collect();
            let body = Publication {
                vault: VaultId([1; 32]),
                remote: RemoteId([2; 16]),
                number: 300,
                link: PublicationId([3; 32]),
                device: PrincipalId([4; 32]),
                sequence: 7,
                base: 12,
                time: -1_000,
                membership_head: RecordId([5; 32]),
                header: (9, [6; 32]),
                head: [7; 32],
                revisions: numbers
                    .clone()
                    .map(|number| PublishedRevision {
                        id: [7; 32],
                        hash: [number; 32],
                        epoch: Epoch(1),
                    })
                    .collect(),
                retired_revisions: hashes.clone(),
                segments: numbers
                    .map(|number| PublishedSegment {
                        hash: [number; 32],
                        id: SegmentId([number; 16]),
                        len: 1 << 24,
                        epoch: Epoch(1),
                    })
                    .collect(),
                retired_segments: hashes,
            };
            let signed = SignedPublication {
                id: body.id(),
                body,
                signature: [14; 64],
            };
            [signed.encode(), vec![0; 500]].concat()
        })
        .into();
    Target::new("publication", seeds, |bytes| {
        SignedPublication::decode(bytes).is_ok_and(|signed| {
            // Only the canonical bytes are accepted, and zeros.
            let encoded = signed.encode();
            assert!(bytes.starts_with(&encoded));
            assert!(bytes[encoded.len()..].iter().all(|byte| *byte == 0));
            true
        })
    })
    .bound(|len| 12 * len + 16 * 1024)
}

fn region() -> Target {
    const REGION: u64 = 5;
    let extents: Vec<_> = (0..60)
        .map(|n| Extent {
            start: REGION * REGION_BYTES + n * 65_536,
            len: if n % 3 == 0 { 100 } else { 65_536 },
            block: BlockNumber(1_000_000 + n * n * 7),
            block_offset: u32::from(n % 3 == 0) * 4096,
        })
        .collect();
    let seeds = vec![regions::encode(REGION, &extents).unwrap(), Vec::new()];
    Target::new("metadata-region", seeds, |bytes| {
        // A region at the end of all numbers too.
        assert!(regions::decode(u64::MAX / REGION_BYTES + 1, bytes).is_err());
        regions::decode(REGION, bytes).is_ok_and(|found| {
            assert!(
                found
                    .iter()
                    .all(|extent| extent.len as usize <= BLOCK_BYTES_MAX)
            );
            let again = regions::encode(REGION, &found).unwrap();
            assert_eq!(regions::decode(REGION, &again), Ok(found));
            true
        })
    })
    // Bytes reserved for a row of extents of least length, and the row encoded again beside it.
    .bound(|len| 24 * len + 4096)
}

fn scanned(bytes: &[u8]) -> bool {
    scan(bytes).is_ok_and(|found| {
        assert!(found.end >= FIRST_BATCH_OFFSET && found.end <= bytes.len().max(4096) as u64);
        assert!(!found.batches.is_empty() || found.end == FIRST_BATCH_OFFSET);
        true
    })
}

fn entries(count: u8) -> Vec<IndexEntry> {
    let entry = |n| IndexEntry {
        id: BlockId([n; 32]),
        kind: 1,
        clear_len: 65_536 >> (n % 17),
    };
    (0..count).map(entry).collect()
}

/// A finished segment of three batches.
pub(crate) fn segment() -> Vec<u8> {
    let header = SegmentHeader {
        version: SegmentVersion::Told,
        suite: SuiteId::Aes256GcmBlake3,
        epoch: Epoch(2),
        id: SegmentId([6; 16]),
    };
    let mut bytes = header.encode().to_vec();
    bytes.resize(4096, 0);
    let mut previous = header.chain();
    for number in 0..3_u32 {
        let payload = vec![number as u8 + 1; 3000 + 900 * number as usize];
        let batch = BatchHeader {
            segment: header.id,
            number,
            size: BatchSize::Told(BatchLengths {
                count: 2,
                blocks_len: payload.len() as u32 - 90,
                index_len: 90,
            }),
            payload_checksum: checksum(&[&payload]),
            previous,
        };
        let end = bytes.len() + batch.batch_len() as usize;
        bytes.extend_from_slice(&batch.encode());
        bytes.extend_from_slice(&payload);
        bytes.resize(end, 0);
        previous = batch.chain();
    }
    let contents = [9; 333];
    let footer = Footer {
        header,
        contents_offset: bytes.len() as u32,
        contents_len: contents.len() as u32,
        contents_checksum: checksum(&[&contents]),
        batches: 3,
        previous,
    };
    let end = bytes.len() + ending_len(contents.len() as u64) as usize;
    bytes.extend_from_slice(&contents);
    bytes.resize(end - FOOTER_BYTES, 0);
    bytes.extend_from_slice(&footer.encode());
    bytes
}

/// Makes the checksum of the record of 64 bytes at `at` right.
fn seal_checksum(bytes: &mut [u8], at: usize) {
    if let Some(record) = bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<64>) {
        let sum = checksum(&[&record[..60]]);
        record[60..].copy_from_slice(&sum.to_le_bytes());
    }
}

fn repair_segment_header(bytes: &mut [u8]) {
    seal_checksum(bytes, 0);
}

fn repair_footer(bytes: &mut [u8]) {
    if let Some(at) = bytes.len().checked_sub(FOOTER_BYTES) {
        seal_checksum(bytes, at);
    }
}

/// Makes every checksum and every link of the chain right, batch after batch as far as lengths allow.
fn repair_segment(bytes: &mut [u8]) {
    seal_checksum(bytes, 0);
    if bytes.len() < SEGMENT_HEADER_BYTES {
        return;
    }
    let mut previous: [u8; 4] = *bytes[60..].first_chunk().unwrap();
    let mut at = 4096;
    while bytes
        .get(at..at + 8)
        .is_some_and(|magic| magic == b"SRbatch\0")
        && bytes.len() - at >= BATCH_HEADER_BYTES
    {
        let field =
            |bytes: &[u8], at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().unwrap());
        let (blocks, index) = (
            field(bytes, at + 32) as usize,
            field(bytes, at + 36) as usize,
        );
        if let Some(payload) = bytes.get(at + 64..at + 64 + blocks + index) {
            let sum = checksum(&[payload]);
            bytes[at + 40..at + 44].copy_from_slice(&sum.to_le_bytes());
        }
        bytes[at + 44..at + 48].copy_from_slice(&previous);
        seal_checksum(bytes, at);
        previous = *bytes[at + 60..].first_chunk().unwrap();
        at += usize::try_from(batch_len(blocks as u64, index as u64)).unwrap();
    }
    repair_footer(bytes);
}

/// Makes the last line of a JSON file the checksum of what is before it.
pub(crate) fn repair_json(bytes: &mut Vec<u8>) {
    const START: &[u8] = b"  \"checksum\": \"";
    let at = bytes
        .windows(START.len())
        .rposition(|window| window == START);
    if let Some(at) = at {
        bytes.truncate(at);
        let sum = blake3::hash(bytes).to_hex();
        bytes.extend_from_slice(START);
        bytes.extend_from_slice(sum.as_bytes());
        bytes.extend_from_slice(b"\"\n}\n");
    }
}

fn vectors() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../spec/vectors/keys")
}

fn json(name: &str) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(vectors().join(name)).unwrap()).unwrap()
}

/// Headers of an independent writer: of three epochs, with one more slot, and in the form that remotes get.
pub(crate) fn headers() -> Vec<Vec<u8>> {
    let lines = |value: &serde_json::Value| -> Vec<String> {
        let lines = value.as_array().unwrap().iter();
        lines
            .map(|line| line.as_str().unwrap().to_owned())
            .collect()
    };
    let base = lines(&json("base.json")["lines"]);
    let mut other = base.clone();
    for edit in json("ok-key-file.json")["edits"].as_array().unwrap() {
        let at = |index: usize| usize::try_from(edit[index].as_u64().unwrap()).unwrap();
        other.splice(at(0)..at(0) + at(1), lines(&edit[2]));
    }
    let form = lines(&json("../remote-form/base.json")["lines"]);
    [base, other, form]
        .map(|lines| lines.join("\n").into_bytes())
        .to_vec()
}

/// The recovery code that opens each of them.
pub(crate) fn recovery_code_of_all() -> String {
    let case = json("ok-recovery-code.json");
    case["secret"]["text"].as_str().unwrap().to_owned()
}

/// The text of the key file that opens the second header.
pub(crate) fn key_file() -> String {
    let case = json("ok-key-file.json");
    case["secret"]["text"].as_str().unwrap().to_owned()
}
