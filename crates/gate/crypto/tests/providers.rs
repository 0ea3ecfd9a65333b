//! The rules for every pair of providers of an algorithm, and for each alone: the same bytes, the known answers, and no
//! altered input is opened. The providers come from the registry, so a new one is tested automatically.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use serde::Deserialize;
use strongroom_crypto::providers::{
    Aead, Algorithm, Argon2idCost, Chosen, Implementation, Nonce, Preferences, State, providers_of,
};
use strongroom_crypto::{BlockSealer, EpochKey, IdKey, OpenError};
use strongroom_format::{Epoch, Kind, SuiteId, hex};

const AEADS: [Algorithm; 3] = [
    Algorithm::Aes256Gcm,
    Algorithm::ChaCha20Poly1305,
    Algorithm::Aegis256,
];

/// Name and implementation of each provider of `algorithm` that can run here.
fn each(algorithm: Algorithm) -> Vec<(&'static str, Implementation)> {
    let offers = providers_of(algorithm);
    for offer in &offers {
        assert_ne!(
            offer.state,
            State::Failed,
            "{algorithm}: {:?}",
            offer.provider
        );
    }
    let ready = offers.iter().filter(|offer| offer.state == State::Ready);
    let implementation = |of: &dyn strongroom_crypto::providers::Provider| {
        of.implementation(algorithm)
            .expect("a provider is listed for what it has")
    };
    let each: Vec<_> = ready
        .map(|offer| (offer.provider.name(), implementation(offer.provider)))
        .collect();
    assert!(!each.is_empty(), "{algorithm} has a provider");
    each
}

fn aeads(algorithm: Algorithm) -> Vec<(&'static str, &'static dyn Aead)> {
    let each = each(algorithm).into_iter();
    each.map(|(name, implementation)| match implementation {
        Implementation::Aead(aead) => (name, aead),
        _ => panic!("{algorithm} of {name} is an AEAD"),
    })
    .collect()
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|index| (index % 251) as u8).collect()
}

fn sealed(aead: &dyn Aead, key: &[u8; 32], nonce: &Nonce, clear: &[u8]) -> (Vec<u8>, [u8; 16]) {
    let (mut text, mut tag) = (clear.to_vec(), [0; 16]);
    aead.with_key(key, &mut |key| tag = key.seal(nonce, &mut text));
    (text, tag)
}

fn opened(
    aead: &dyn Aead,
    key: &[u8; 32],
    nonce: &Nonce,
    text: &[u8],
    tag: &[u8; 16],
) -> Option<Vec<u8>> {
    let (mut text, mut opens) = (text.to_vec(), false);
    aead.with_key(key, &mut |key| {
        opens = key.open(nonce, &mut text, tag).is_ok()
    });
    opens.then_some(text)
}

#[test]
fn this_build_has_every_provider() {
    let names = |algorithm| -> Vec<_> {
        providers_of(algorithm)
            .iter()
            .map(|offer| offer.provider.name())
            .collect()
    };
    if cfg!(all(feature = "every-provider", target_arch = "x86_64")) {
        let five = ["ring", "aws-lc", "graviola", "rustcrypto", "openssl"];
        assert_eq!(names(Algorithm::Aes256Gcm), five);
        assert_eq!(names(Algorithm::ChaCha20Poly1305), five);
        assert_eq!(names(Algorithm::Aegis256), ["libaegis"]);
        assert_eq!(names(Algorithm::Argon2id), ["rustcrypto", "openssl"]);
        let signers = ["dalek", "ring", "aws-lc", "graviola", "openssl"];
        assert_eq!(names(Algorithm::Ed25519), signers);
    }
    assert_eq!(names(Algorithm::Blake3), ["simd", "portable"]);
    assert_eq!(Algorithm::ALL.len(), 6);
}

/// Goal: what one seals each other opens, byte for byte. Method: every pair, at lengths around each border of blocks and vector
/// widths; one prepared key for all chunks, as a sealer uses it.
#[test]
fn what_one_provider_seals_each_other_seals_alike_and_opens() {
    let lengths = [
        0, 1, 15, 16, 17, 63, 64, 65, 127, 128, 129, 255, 257, 1000, 4096, 16_383, 16_384,
    ];
    for algorithm in AEADS {
        let all = aeads(algorithm);
        for (sealer, sealing) in &all {
            for (opener, opening) in &all {
                let key: [u8; 32] = pattern(32).try_into().unwrap();
                sealing.with_key(&key, &mut |seals| {
                    opening.with_key(&key, &mut |opens| {
                        for (number, len) in lengths.iter().enumerate() {
                            let nonce = Nonce([number as u8; 32]);
                            let clear = pattern(*len);
                            let (mut one, mut other) = (clear.clone(), clear.clone());
                            let tag = seals.seal(&nonce, &mut one);
                            let why = format!("{algorithm}: {sealer} to {opener}, {len} bytes");
                            assert_eq!(opens.seal(&nonce, &mut other), tag, "{why}");
                            assert_eq!(one, other, "{why}");
                            assert!(opens.open(&nonce, &mut one, &tag).is_ok(), "{why}");
                            assert_eq!(one, clear, "{why}");
                        }
                    });
                });
            }
        }
    }
}

/// Every bit of ciphertext, tag, key and of the nonce's own bytes; one byte less and one more.
#[test]
fn no_provider_opens_what_was_altered() {
    for algorithm in AEADS {
        for (name, aead) in aeads(algorithm) {
            let key: [u8; 32] = pattern(32).try_into().unwrap();
            let nonce = Nonce([7; 32]);
            let nonce_bytes = if algorithm == Algorithm::Aegis256 {
                32
            } else {
                12
            };
            for len in [0, 1, 16, 47] {
                let (text, tag) = sealed(aead, &key, &nonce, &pattern(len));
                assert!(opened(aead, &key, &nonce, &text, &tag).is_some());
                let flipped = |bytes: &[u8], bit: usize| {
                    let mut bytes = bytes.to_vec();
                    bytes[bit / 8] ^= 1 << (bit % 8);
                    bytes
                };
                let why = format!("{algorithm} by {name}, {len} bytes");
                for bit in 0..8 * len {
                    let text = flipped(&text, bit);
                    assert_eq!(
                        opened(aead, &key, &nonce, &text, &tag),
                        None,
                        "{why}: text, bit {bit}"
                    );
                }
                for bit in 0..128 {
                    let tag = flipped(&tag, bit).try_into().unwrap();
                    assert_eq!(
                        opened(aead, &key, &nonce, &text, &tag),
                        None,
                        "{why}: tag, bit {bit}"
                    );
                }
                for bit in 0..256 {
                    let key = flipped(&key, bit).try_into().unwrap();
                    assert_eq!(
                        opened(aead, &key, &nonce, &text, &tag),
                        None,
                        "{why}: key, bit {bit}"
                    );
                }
                for bit in 0..8 * nonce_bytes {
                    let nonce = Nonce(flipped(&nonce.0, bit).try_into().unwrap());
                    assert_eq!(
                        opened(aead, &key, &nonce, &text, &tag),
                        None,
                        "{why}: nonce, bit {bit}"
                    );
                }
                if let Some((_, short)) = text.split_last() {
                    assert_eq!(
                        opened(aead, &key, &nonce, short, &tag),
                        None,
                        "{why}: short"
                    );
                }
                let long = [&text[..], &[0]].concat();
                assert_eq!(opened(aead, &key, &nonce, &long, &tag), None, "{why}: long");
            }
        }
    }
}

/// A prepared key is not spoiled by a refusal: the next chunk opens.
#[test]
fn a_key_goes_on_after_a_refusal() {
    for algorithm in AEADS {
        for (name, aead) in aeads(algorithm) {
            aead.with_key(&[3; 32], &mut |key| {
                let nonce = Nonce([1; 32]);
                let mut text = pattern(100);
                let tag = key.seal(&nonce, &mut text);
                for _ in 0..2 {
                    assert!(
                        key.open(&nonce, &mut text.clone(), &[0; 16]).is_err(),
                        "{name}"
                    );
                    let mut text = text.clone();
                    assert!(key.open(&nonce, &mut text, &tag).is_ok(), "{name}");
                    assert_eq!(text, pattern(100), "{name}");
                }
            });
        }
    }
}

fn sealer(suite: SuiteId, wished: &str) -> BlockSealer {
    let epochs = vec![(Epoch(0), EpochKey::from_bytes([2; 32]))];
    let chosen = Chosen::by(suite, &wished.parse::<Preferences>().unwrap()).unwrap();
    BlockSealer::new(suite, [0; 16], IdKey::from_bytes([1; 32]), epochs).with_chosen(chosen)
}

/// Goal: the same for whole blocks, whose names and keys come from BLAKE3's providers. Method: each provider of the AEAD with
/// each of BLAKE3, sealing and opening what the first of them sealed; sizes of every class of choice.
#[test]
fn blocks_are_the_same_whoever_computes_them() {
    for suite in SuiteId::ALL {
        let aead = Algorithm::aead_of(*suite);
        let pairs = || {
            let by = each(Algorithm::Blake3)
                .into_iter()
                .map(|(blake3, _)| blake3);
            by.flat_map(|blake3| {
                let by = each(aead).into_iter();
                by.map(move |(name, _)| format!("{aead}={name},BLAKE3={blake3}"))
            })
        };
        for len in [0, 100, 5000, 65_536] {
            let clear = pattern(len);
            let first = sealer(*suite, "").seal(Kind::Data, &clear);
            for wished in pairs() {
                let sealer = sealer(*suite, &wished);
                assert!(
                    sealer
                        .chosen()
                        .providers()
                        .iter()
                        .all(|(algorithm, _, _, provider)| {
                            wished.contains(&format!("{algorithm}={}", provider.name()))
                        })
                );
                let block = sealer.seal(Kind::Data, &clear);
                assert_eq!(
                    (&block.id, &block.bytes),
                    (&first.id, &first.bytes),
                    "{wished}"
                );
                let open = |bytes: &[u8]| sealer.open(Epoch(0), Kind::Data, &first.id, len, bytes);
                assert_eq!(open(&first.bytes).unwrap(), clear, "{wished}");
                let mut altered = first.bytes.clone();
                *altered.last_mut().unwrap() ^= 1;
                let tampered = OpenError::Tampered { kind: Kind::Data };
                assert_eq!(open(&altered), Err(tampered), "{wished}");
            }
        }
    }
}

/// One file of `spec/vectors/algorithm`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vector {
    #[expect(dead_code, reason = "for people")]
    spec: String,
    #[expect(dead_code, reason = "for people")]
    why: String,
    algorithm: String,
    #[serde(default)]
    key: String,
    #[serde(default)]
    nonce: String,
    #[serde(default)]
    context: String,
    #[serde(default)]
    seed: String,
    #[serde(default)]
    public_key: String,
    cases: Vec<serde_json::Value>,
}

fn bytes<const N: usize>(digits: &str) -> [u8; N] {
    let pair = |at: usize| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap();
    assert_eq!(digits.len(), 2 * N);
    std::array::from_fn(pair)
}

fn text<'a>(case: &'a serde_json::Value, field: &str) -> &'a str {
    case[field]
        .as_str()
        .unwrap_or_else(|| panic!("{field} in {case}"))
}

fn number(case: &serde_json::Value, field: &str) -> usize {
    let number = case[field]
        .as_u64()
        .unwrap_or_else(|| panic!("{field} in {case}"));
    usize::try_from(number).unwrap()
}

impl Vector {
    fn nonce(&self) -> Nonce {
        let mut nonce = Nonce([0; 32]);
        let digits = self.nonce.as_bytes().chunks(2);
        for (byte, pair) in nonce.0.iter_mut().zip(digits) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        }
        nonce
    }

    fn check(&self, provider: &str, implementation: Implementation, case: &serde_json::Value) {
        let why = format!("{} by {provider}: {case}", self.algorithm);
        let content = || pattern(number(case, "length"));
        match implementation {
            Implementation::Aead(aead) => {
                let (key, nonce) = (bytes(&self.key), self.nonce());
                let (sealed, tag) = sealed(aead, &key, &nonce, &content());
                let hash = ring::digest::digest(&ring::digest::SHA256, &sealed);
                assert_eq!(
                    hex::encode(hash.as_ref()),
                    text(case, "ciphertext_sha256"),
                    "{why}"
                );
                assert_eq!(hex::encode(&tag), text(case, "tag"), "{why}");
                assert_eq!(
                    opened(aead, &key, &nonce, &sealed, &tag),
                    Some(content()),
                    "{why}"
                );
            }
            Implementation::Blake3(blake3) => {
                let mut stream = [0; 64];
                blake3.keyed(&bytes(&self.key), &[&content()], &mut stream);
                assert_eq!(
                    hex::encode(&blake3.hash(&content())),
                    text(case, "hash"),
                    "{why}"
                );
                assert_eq!(hex::encode(&stream), text(case, "keyed_xof_64"), "{why}");
                let derived = blake3.derive_key(&self.context, &[&content()]);
                assert_eq!(hex::encode(&derived), text(case, "derived"), "{why}");
            }
            Implementation::Argon2id(argon2id) => {
                let small = |field| u32::try_from(number(case, field)).unwrap();
                let cost = Argon2idCost {
                    memory_kib: small("memory_kib"),
                    passes: small("passes"),
                    lanes: small("lanes"),
                };
                let mut out = [0; 32];
                argon2id
                    .stretch(b"password", b"somesalt", cost, &mut out)
                    .unwrap();
                assert_eq!(hex::encode(&out), text(case, "out"), "{why}");
            }
            Implementation::Ed25519(ed25519) => {
                let (seed, public_key) = (bytes(&self.seed), bytes(&self.public_key));
                let signature = bytes::<64>(text(case, "signature"));
                assert_eq!(ed25519.public_key(&seed), public_key, "{why}");
                assert_eq!(ed25519.sign(&seed, &content()), signature, "{why}");
                assert!(ed25519.verify(&public_key, &content(), &signature), "{why}");
                let other = [&content()[..], b"x"].concat();
                assert!(!ed25519.verify(&public_key, &other, &signature), "{why}");
            }
        }
    }
}

#[test]
fn every_provider_gives_the_known_answers_of_the_specification() {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../spec/vectors/algorithm"
    );
    let mut seen = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the vectors are checked in") {
        let path = entry.unwrap().path();
        let vector: Vector = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let algorithm = Algorithm::from_name(&vector.algorithm).expect("an algorithm that we know");
        for (provider, implementation) in each(algorithm) {
            for case in &vector.cases {
                vector.check(provider, implementation, case);
            }
        }
        seen.push((algorithm, vector.cases.len()));
    }
    seen.sort();
    let counts = [28, 28, 28, 33, 5, 4];
    let expected: Vec<_> = Algorithm::ALL.iter().copied().zip(counts).collect();
    assert_eq!(seen, expected);
}
