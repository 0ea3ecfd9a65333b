//! Walks `spec/vectors/block`. We seal content to the same bytes as an independent implementation, and open them. We
//! refuse its faulty vectors, for the stated reason.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::Range;
use strongroom_crypto::providers::{Algorithm, Chosen, Preferences, State, providers_of};
use strongroom_crypto::{BlockSealer, EpochKey, IdKey, OpenError, Random, RandomError};
use strongroom_format::limits::{CHUNK_BYTES, TAG_BYTES};
use strongroom_format::{BlockId, Epoch, Kind, SuiteId};

/// How many files there are. A vector that is added or lost must be counted here.
const VECTOR_COUNT: usize = 92;

/// One file, as its operation needs it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, tag = "operation", rename_all = "snake_case")]
enum Vector {
    /// Seals and opens: both ways byte for byte.
    Block(Block),
    /// Only opens.
    Open(Block),
    /// Chunks of an honest block put in another order, given by their numbers.
    Arranged(Block),
    /// A record, both ways.
    Record(Record),
    /// A record, only opened.
    OpenRecord(Record),
    /// BLAKE3 alone.
    Blake3(Hashes),
}

/// What every sealed thing says of its keys and its fate.
#[derive(Deserialize)]
struct Common {
    spec: String,
    why: String,
    expect: String,
    suite: u16,
    kind: u16,
    compartment: String,
    id_key: String,
    epochs: Vec<EpochEntry>,
    epoch: u32,
    /// The providers that are forced.
    #[serde(skip)]
    wished: Preferences,
}

#[derive(Deserialize)]
struct EpochEntry {
    epoch: u32,
    key: String,
}

#[derive(Deserialize)]
struct Block {
    #[serde(flatten)]
    common: Common,
    clear: Option<String>,
    clear_pattern: Option<usize>,
    id: String,
    clear_len: usize,
    sealed: Option<String>,
    sealed_blake3: Option<String>,
    chunks: Option<Vec<usize>>,
}

#[derive(Deserialize)]
struct Record {
    #[serde(flatten)]
    common: Common,
    clear: Option<String>,
    salt: Option<String>,
    record: String,
}

#[derive(Deserialize)]
struct Hashes {
    spec: String,
    why: String,
    expect: String,
    key: String,
    context: String,
    cases: Vec<HashCase>,
}

#[derive(Deserialize)]
struct HashCase {
    length: usize,
    hash: String,
    keyed_xof_44: String,
    derived: String,
}

/// Gives the salt that a vector was made with, as if it had been drawn.
struct Drawn([u8; 32]);

impl Random for Drawn {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), RandomError> {
        bytes.copy_from_slice(&self.0);
        Ok(())
    }
}

fn unhex(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2), "an odd count of digits");
    let pair = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal digits");
    (0..text.len()).step_by(2).map(pair).collect()
}

fn bytes<const N: usize>(text: &str) -> [u8; N] {
    unhex(text)
        .try_into()
        .expect("the length that the specification says")
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|index| (index % 251) as u8).collect()
}

impl Common {
    fn sealer(&self) -> BlockSealer {
        let suite = SuiteId::from_number(self.suite).expect("a suite that we know");
        let key =
            |entry: &EpochEntry| (Epoch(entry.epoch), EpochKey::from_bytes(bytes(&entry.key)));
        let id_key = IdKey::from_bytes(bytes(&self.id_key));
        BlockSealer::new(
            suite,
            bytes(&self.compartment),
            id_key,
            self.epochs.iter().map(key).collect(),
        )
        .with_chosen(Chosen::by(suite, &self.wished).expect("every suite has a provider"))
    }

    fn kind(&self) -> Kind {
        Kind::from_number(self.kind).expect("a kind that we know")
    }

    /// Asserts that `opened` is what the vector says: the content, or the error it names.
    fn check<C: AsRef<[u8]>>(
        &self,
        file: &str,
        opened: Result<C, OpenError>,
        clear: Option<&[u8]>,
    ) {
        let why = format!("{file} [{}]: {}", self.spec, self.why);
        match opened {
            Ok(content) => {
                assert_eq!(self.expect, "ok", "{why}");
                assert_eq!(
                    content.as_ref(),
                    clear.expect("what opens has its content beside it"),
                    "{why}"
                );
            }
            Err(error) => assert_eq!(word(error), self.expect, "{why}"),
        }
    }
}

fn word(error: OpenError) -> &'static str {
    match error {
        OpenError::Tampered { .. } => "tampered",
        OpenError::WrongLength { .. } => "wrong-length",
        OpenError::TooLong { .. } => "too-long",
        OpenError::UnknownEpoch { .. } => "unknown-epoch",
        _ => "another",
    }
}

impl Block {
    fn clear(&self) -> Option<Vec<u8>> {
        self.clear
            .as_deref()
            .map(unhex)
            .or(self.clear_pattern.map(pattern))
    }

    fn open(&self, file: &str, sealed: &[u8]) {
        let id = BlockId(bytes(&self.id));
        let epoch = Epoch(self.common.epoch);
        let opened =
            self.common
                .sealer()
                .open(epoch, self.common.kind(), &id, self.clear_len, sealed);
        self.common.check(file, opened, self.clear().as_deref());
    }

    fn seal_and_open(&self, file: &str) {
        let clear = self
            .clear()
            .expect("what is sealed has its content beside it");
        let sealer = self.common.sealer();
        assert_eq!(
            sealer.epoch().0,
            self.common.epoch,
            "{file}: the newest epoch seals"
        );
        let block = sealer.seal(self.common.kind(), &clear);
        assert_eq!(block.id.0, bytes(&self.id), "{file}: the name");
        assert_eq!(block.clear_len as usize, self.clear_len, "{file}");
        match (&self.sealed, &self.sealed_blake3) {
            (Some(sealed), None) => {
                assert_eq!(block.bytes, unhex(sealed), "{file}: the sealed bytes")
            }
            (None, Some(hash)) => assert_eq!(
                blake3::hash(&block.bytes).as_bytes(),
                &bytes(hash),
                "{file}: their hash"
            ),
            _ => panic!("{file}: sealed bytes or their hash, one of the two"),
        }
        self.open(file, &block.bytes);
    }

    /// Makes the faulty bytes from an honest seal, and asserts by hash that they are the vector's.
    fn open_arranged(&self, file: &str) {
        let clear = self.clear().expect("the content of the honest block");
        let honest = self.common.sealer().seal(self.common.kind(), &clear);
        let span = |number: &usize| -> Range<usize> {
            let from = number * (CHUNK_BYTES + TAG_BYTES);
            from..honest.bytes.len().min(from + CHUNK_BYTES + TAG_BYTES)
        };
        let order = self.chunks.as_ref().expect("an order of chunks");
        let sealed: Vec<u8> = order
            .iter()
            .flat_map(|number| honest.bytes[span(number)].to_vec())
            .collect();
        let hash = self
            .sealed_blake3
            .as_deref()
            .expect("a hash of the sealed bytes");
        assert_eq!(
            blake3::hash(&sealed).as_bytes(),
            &bytes(hash),
            "{file}: the arranged bytes"
        );
        self.open(file, &sealed);
    }
}

impl Record {
    fn open(&self, file: &str) {
        let epoch = Epoch(self.common.epoch);
        let opened =
            self.common
                .sealer()
                .open_record(epoch, self.common.kind(), &unhex(&self.record));
        self.common.check(
            file,
            opened.map(|clear| clear.to_vec()),
            self.clear.as_deref().map(unhex).as_deref(),
        );
    }

    fn seal_and_open(&self, file: &str) {
        let clear = unhex(
            self.clear
                .as_deref()
                .expect("what is sealed has its content beside it"),
        );
        let salt = Drawn(bytes(self.salt.as_deref().expect("a salt")));
        let record = self
            .common
            .sealer()
            .seal_record(&salt, self.common.kind(), &clear)
            .expect("a salt is drawn");
        assert_eq!(record, unhex(&self.record), "{file}: the sealed bytes");
        self.open(file);
    }
}

impl Hashes {
    fn check(&self, file: &str) {
        assert_eq!(self.expect, "ok");
        for case in &self.cases {
            let why = format!(
                "{file} [{}]: {}, {} bytes",
                self.spec, self.why, case.length
            );
            let content = pattern(case.length);
            assert_eq!(
                blake3::hash(&content).as_bytes(),
                &bytes(&case.hash),
                "{why}"
            );
            let mut stream = [0; 44];
            blake3::Hasher::new_keyed(&bytes(&self.key))
                .update(&content)
                .finalize_xof()
                .fill(&mut stream);
            assert_eq!(stream, bytes::<44>(&case.keyed_xof_44), "{why}");
            assert_eq!(
                blake3::derive_key(&self.context, &content),
                bytes(&case.derived),
                "{why}"
            );
        }
    }
}

impl Vector {
    fn common(&mut self) -> Option<&mut Common> {
        match self {
            Self::Block(block) | Self::Open(block) | Self::Arranged(block) => {
                Some(&mut block.common)
            }
            Self::Record(record) | Self::OpenRecord(record) => Some(&mut record.common),
            Self::Blake3(_) => None,
        }
    }

    fn expect(&mut self) -> String {
        match self {
            Self::Blake3(hashes) => hashes.expect.clone(),
            _ => self.common().expect("all but hashes").expect.clone(),
        }
    }

    fn run(&self, file: &str) {
        match self {
            Self::Block(block) => block.seal_and_open(file),
            Self::Open(block) => {
                block.open(file, &unhex(block.sealed.as_deref().expect("sealed bytes")))
            }
            Self::Arranged(block) => block.open_arranged(file),
            Self::Record(record) => record.seal_and_open(file),
            Self::OpenRecord(record) => record.open(file),
            Self::Blake3(hashes) => hashes.check(file),
        }
    }
}

/// Runs every vector with the providers that `wished` forces, and gives how many there were.
fn walk(wished: &Preferences) -> usize {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../spec/vectors/block");
    let mut outcomes = BTreeMap::<String, usize>::new();
    for entry in std::fs::read_dir(folder).expect("the vectors are checked in") {
        let path = entry.expect("the folder can be listed").path();
        let name = path.file_name().expect("entries have names");
        let file = format!("{} [{wished}]", name.to_string_lossy());
        let text = std::fs::read_to_string(&path).expect("a vector can be read");
        let vector = serde_json::from_str(&text);
        let mut vector: Vector = vector.unwrap_or_else(|error| panic!("{file}: {error}"));
        *outcomes.entry(vector.expect()).or_default() += 1;
        if let Some(common) = vector.common() {
            common.wished = wished.clone();
        }
        vector.run(&file);
    }
    outcomes.values().sum()
}

#[test]
fn every_block_vector_does_what_it_says() {
    assert_eq!(walk(&Preferences::default()), VECTOR_COUNT);
}

/// Each provider of each algorithm that seals, and the others as they are by default.
#[test]
fn every_block_vector_does_what_it_says_with_each_provider_forced() {
    let sealing = [
        Algorithm::Aes256Gcm,
        Algorithm::ChaCha20Poly1305,
        Algorithm::Aegis256,
        Algorithm::Blake3,
    ];
    let mut forced = 0;
    for algorithm in sealing {
        let offers = providers_of(algorithm);
        for offer in offers.iter().filter(|offer| offer.state == State::Ready) {
            let mut wished = Preferences::default();
            wished
                .put(algorithm, offer.provider.name())
                .expect("it was just listed");
            assert_eq!(walk(&wished), VECTOR_COUNT);
            forced += 1;
        }
    }
    assert!(forced >= 6, "{forced}");
}
