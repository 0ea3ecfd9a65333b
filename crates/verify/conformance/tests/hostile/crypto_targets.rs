//! The inputs that the crate `crypto` opens: sealed blocks and records, headers with a secret, and the secrets themselves.
//!
//! Passphrase slots are left to unit tests: one execution would take a second for Argon2id.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use strongroom_conformance::hostile::Chance;
use strongroom_crypto::compression::content_of;
use strongroom_crypto::{
    AgeIdentity, AgeRecipient, BlockSealer, Compression, DepositInfo, DepositSealer, EpochKey,
    IdKey, KeyFile, Keyring, NewKey, NewSlot, Passphrase, Random, RandomError, RecoveryCode,
    Secret, create, unlock, unlock_at_remote,
};
use strongroom_format::deposit::{AddressId, DepositId, InboxAddress};
use strongroom_format::limits::{
    BLOCK_BYTES_MAX, ENVELOPE_BYTES, HEADER_BYTES_MAX, REPLICA_BYTES_MAX,
};
use strongroom_format::{BlockId, Epoch, Kind, SuiteId};

use crate::format_targets::{headers, key_file, recovery_code_of_all, repair_json};
use crate::target::Target;

/// Made for these tests alone; it opens nothing else.
const SSH_PUBLIC: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFbcG6n+9SDJJw9QB5ytQJwjCjGiVVmgSJ84stMBZmwK test";
/// Its private half.
const SSH_KEY: &str = "\
-----BEGIN OPENSSH PRIVATE KEY-----
b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW
QyNTUxOQAAACBW3Bup/vUgyScPUAecrUCcIwoxolVZoEifOLLTAWZsCgAAAIiSiN6kkoje
pAAAAAtzc2gtZWQyNTUxOQAAACBW3Bup/vUgyScPUAecrUCcIwoxolVZoEifOLLTAWZsCg
AAAEChl0TdTKHRYrYmMaRWVNX4xGvlu7r8is8aSHn6XHJpIFbcG6n+9SDJJw9QB5ytQJwj
CjGiVVmgSJ84stMBZmwKAAAABHRlc3QB
-----END OPENSSH PRIVATE KEY-----
";

/// The header of a vault that it opens; a file, because sealing to a recipient asks the system for randomness.
const IDENTITY_HEADER: &[u8] = include_bytes!("identity-vault.json");

/// Makes the same keys every time, so that an execution is the same bytes every time.
#[derive(Default)]
struct Counting(AtomicU64);

impl Random for Counting {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), RandomError> {
        for byte in bytes {
            *byte = Chance::new(self.0.fetch_add(1, Ordering::Relaxed))
                .next()
                .to_le_bytes()[0];
        }
        Ok(())
    }
}

pub(crate) fn all() -> Vec<Target> {
    vec![
        open(),
        open_range(),
        compressed_content(),
        record(),
        unlock_with_key_file(),
        unlock_at_a_remote(),
        unlock_with_identity(),
        open_replica(),
        address_of_inbox(),
        deposit(),
        Target::new("key-file-text", vec![key_file().into_bytes()], |bytes| {
            KeyFile::parse(bytes).is_ok()
        })
        .bound(|len| 4 * len + 16 * 1024),
        recovery_code(),
        Target::new("passphrase", vec!["Zoë's \u{1f511}".into()], |bytes| {
            Passphrase::new(bytes).is_ok()
        })
        // Normalising may make a character of two bytes out of each one, in buffers of characters.
        .bound(|len| 32 * len + 16 * 1024),
        Target::new("age-identity", vec![SSH_KEY.into()], |bytes| {
            AgeIdentity::parse(bytes, None).is_ok()
        })
        .bound(|len| 16 * len + 64 * 1024)
        .cost(4),
        Target::new("age-recipient", vec![SSH_PUBLIC.into()], |bytes| {
            std::str::from_utf8(bytes).is_ok_and(|text| AgeRecipient::parse(text).is_ok())
        })
        .bound(|len| 16 * len + 64 * 1024),
    ]
}

fn sealer() -> BlockSealer {
    let keys = vec![
        (Epoch(0), EpochKey::from_bytes([3; 32])),
        (Epoch(1), EpochKey::from_bytes([5; 32])),
    ];
    BlockSealer::new(
        SuiteId::Aes256GcmBlake3,
        [0; 16],
        IdKey::from_bytes([4; 32]),
        keys,
    )
}

/// What an index and a segment say of a block: epoch 4, clear length 4, first byte 4, count 4, id 32, sealed bytes.
fn block_seeds() -> Vec<Vec<u8>> {
    let seed = |len: u32| {
        let block = sealer().seal(Kind::Data, &vec![8; len as usize]);
        let mut bytes = [1, len, 0, len].map(u32::to_le_bytes).concat();
        bytes.extend_from_slice(&block.id.0);
        bytes.extend_from_slice(&block.bytes);
        bytes
    };
    vec![seed(0), seed(100), seed(20_000), seed(65_536)]
}

/// The parts of such bytes.
fn block_parts(bytes: &[u8]) -> Option<([u32; 4], BlockId, &[u8])> {
    let (numbers, rest) = bytes.split_first_chunk::<16>()?;
    let (id, sealed) = rest.split_first_chunk::<32>()?;
    let number = |at: usize| u32::from_le_bytes(*numbers[at..].first_chunk().expect("4 of 16"));
    Some((
        [number(0), number(4), number(8), number(12)],
        BlockId(*id),
        sealed,
    ))
}

fn open() -> Target {
    let sealer = sealer();
    Target::new("block-open", block_seeds(), move |bytes| {
        let Some(([epoch, len, ..], id, sealed)) = block_parts(bytes) else {
            return false;
        };
        let opened = sealer.open(Epoch(epoch), Kind::Data, &id, len as usize, sealed);
        opened.is_ok_and(|clear| {
            assert_eq!(sealer.seal(Kind::Data, &clear).id, id);
            true
        })
    })
    // The content, and where it was accepted, the block sealed again.
    .bound(|len| 3 * len + 4096)
    .cost(4)
}

/// A vault whose keys are the same every time.
fn vault_of_deposits() -> Keyring {
    let random = Counting::default();
    let slot = NewSlot {
        label: "file".to_owned(),
        key: NewKey::KeyFile(KeyFile::random(&random).expect("it counts")),
    };
    let made = create(&[slot], SuiteId::Aes256GcmBlake3, &random, 1);
    made.expect("a vault of one slot").keyring
}

fn address_of_inbox() -> Target {
    let address = vault_of_deposits().inbox_address(AddressId([7; 16]));
    Target::new("inbox-address", vec![address.encode()], |bytes| {
        InboxAddress::decode(bytes).is_ok_and(|address| {
            assert_eq!(address.encode(), bytes);
            true
        })
    })
}

/// An envelope, and the first piece of its deposit behind it.
fn deposit() -> Target {
    let (keyring, random) = (vault_of_deposits(), Counting::default());
    let (address, id) = (AddressId([7; 16]), DepositId([8; 16]));
    let info = DepositInfo {
        name: b"letter".to_vec(),
        sender: "a friend".to_owned(),
        size: 700,
        modified_ns: 1,
    };
    let sealer = DepositSealer::begin(&random).expect("it counts");
    let to = keyring.inbox_address(address);
    let mut seed = sealer
        .seal_envelope(&to, id, &info, &random)
        .expect("what is within the bounds is sealed");
    seed.extend(sealer.seal_piece(0, &[9; 700], &random).expect("it counts"));
    Target::new("deposit", vec![seed], move |bytes| {
        let at = bytes.len().min(ENVELOPE_BYTES);
        let (envelope, piece) = bytes.split_at(at);
        let opened = keyring.open_deposit(id, envelope);
        opened.is_ok_and(|opened| opened.open_piece(0, piece).is_ok())
    })
    // Keys of X-Wing are derived for each: a matrix of some kilobytes.
    .bound(|len| 4 * len + 256 * 1024)
    .cost(16)
}

fn open_range() -> Target {
    let sealer = sealer();
    Target::new("block-open-range", block_seeds(), move |bytes| {
        let Some(([epoch, len, start, count], id, sealed)) = block_parts(bytes) else {
            return false;
        };
        // The reader chooses the range; what a segment says of the block is hostile.
        let count = count as usize % (BLOCK_BYTES_MAX + 1);
        let start = start as usize % (BLOCK_BYTES_MAX + 1);
        let range = start..start + count;
        let span = strongroom_format::chunk_span(len as usize, range.clone());
        let sealed = sealed.get(span).unwrap_or(sealed);
        let mut out = vec![1; count];
        let opened = sealer.open_range(
            Epoch(epoch),
            Kind::Data,
            &id,
            len as usize,
            range,
            sealed,
            &mut out,
        );
        assert!(opened.is_ok() || out.iter().all(|byte| *byte == 0));
        opened.is_ok()
    })
    .bound(|_| 2 * BLOCK_BYTES_MAX)
    .cost(4)
}

/// Frames that somebody with the keys sealed.
fn compressed_content() -> Target {
    let sealer = sealer().with_compression(Compression::Zstd);
    let seed = |len: usize| {
        let clear: Vec<u8> = (0..len).map(|at| (at / 7 % 50) as u8).collect();
        let block = sealer.seal(Kind::Data, &clear);
        assert_eq!(block.kind, Kind::CompressedData);
        let len = block.clear_len as usize;
        let frame = sealer.open_exactly(Epoch(1), block.kind, &block.id, len, &block.bytes);
        frame.unwrap()
    };
    let seeds = vec![seed(300), seed(5_000), seed(BLOCK_BYTES_MAX)];
    Target::new("compressed-content", seeds, |bytes| {
        let content = content_of(bytes);
        content.is_some_and(|content| {
            assert!((1..=BLOCK_BYTES_MAX).contains(&content.len()));
            true
        })
    })
    .bound(|_| BLOCK_BYTES_MAX + 4096)
}

fn record() -> Target {
    let sealer = sealer();
    let seeds = [0, 300, 40_000].map(|len| {
        let clear = vec![7; len];
        sealer
            .seal_record(&Counting::default(), Kind::ALL[1], &clear)
            .unwrap()
    });
    Target::new("record-open", seeds.to_vec(), move |bytes| {
        sealer.open_record(Epoch(1), Kind::ALL[1], bytes).is_ok()
    })
    .bound(|len| 2 * len + 4096)
    .cost(4)
}

fn unlock_with_key_file() -> Target {
    let secret = Secret::KeyFile(KeyFile::parse(key_file().as_bytes()).unwrap());
    Target::new("unlock-key-file", headers()[1..2].to_vec(), move |bytes| {
        unlock(bytes, &secret, None).is_ok()
    })
    .repair(repair_json)
    .bound(|len| 8 * len.min(HEADER_BYTES_MAX) + 256 * 1024)
    .cost(50)
}

fn unlock_at_a_remote() -> Target {
    let secret = Secret::RecoveryCode(RecoveryCode::parse(&recovery_code_of_all()).unwrap());
    Target::new("unlock-at-remote", headers()[2..].to_vec(), move |bytes| {
        unlock_at_remote(bytes, &secret).is_ok()
    })
    .repair(repair_json)
    .bound(|len| 8 * len.min(HEADER_BYTES_MAX) + 256 * 1024)
    .cost(50)
}

fn unlock_with_identity() -> Target {
    let secret = Secret::Identity(AgeIdentity::parse(SSH_KEY.as_bytes(), None).unwrap());
    Target::new(
        "unlock-identity",
        vec![IDENTITY_HEADER.to_vec()],
        move |bytes| unlock(bytes, &secret, None).is_ok(),
    )
    .repair(repair_json)
    .bound(|len| 8 * len.min(HEADER_BYTES_MAX) + 512 * 1024)
    .cost(50)
}

fn open_replica() -> Target {
    let slots = [NewSlot {
        label: String::new(),
        key: NewKey::KeyFile(KeyFile::random(&Counting::default()).unwrap()),
    }];
    let keyring = create(&slots, SuiteId::Aes256GcmBlake3, &Counting::default(), 0)
        .unwrap()
        .keyring;
    let replica = keyring.new_replica(&Counting::default()).unwrap();
    let seed = keyring
        .seal_replica(&replica, &Counting::default())
        .unwrap();
    let keyring = Arc::new(keyring);
    Target::new("replica-open", vec![seed], move |bytes| {
        keyring.open_replica(bytes).is_ok()
    })
    .repair(repair_json)
    .bound(|len| 8 * len.min(REPLICA_BYTES_MAX) + 64 * 1024)
    .cost(4)
}

fn recovery_code() -> Target {
    let seed = RecoveryCode::random(&Counting::default()).unwrap().text();
    Target::new("recovery-code", vec![seed.as_bytes().to_vec()], |bytes| {
        std::str::from_utf8(bytes).is_ok_and(|text| RecoveryCode::parse(text).is_ok())
    })
    .bound(|len| 4 * len + 16 * 1024)
}
