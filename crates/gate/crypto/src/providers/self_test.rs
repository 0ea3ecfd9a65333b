//! Checks a provider against known answers before it is used.
//!
//! Takes   a provider, and an algorithm that it claims to have
//! Gives   whether it computed every known answer
//! Never   panics on a wrong answer, or takes longer than a few milliseconds
//!
//! The answers come from implementations that share no code with any provider: `tools/vectors/algorithms.py` computes
//! them, and `spec/vectors/algorithm` has more of them for the tests. The lengths are chosen to run the short, the odd
//! and the widest path of the libraries' vector code.

use super::{
    Aead, Algorithm, Argon2id, Argon2idCost, Blake3, Ed25519, Implementation, Nonce, Provider,
};
use strongroom_format::hex;

/// The key of every known answer that has one: the bytes 0x80 to 0x9f.
const KEY: [u8; 32] = rising(0x80);

/// The nonce of every known answer that has one: the bytes from 0x20 up.
const NONCE: Nonce = Nonce(rising(0x20));

const AES_256_GCM: &[(usize, &str)] = &[
    (0, "f9c5ed706b64b8ba16a96bd2f56b7ce9"),
    (1, "c09246ae04e2291c068eec89e5030965"),
    (100, "b9cd008796418cf09cd91919c1270846"),
    (4097, "5a532874078c7c2558e9e76c39f9aa0a"),
    (16384, "4963a4f7ca3052b84ba56ecf90d95469"),
];

const CHACHA20_POLY1305: &[(usize, &str)] = &[
    (0, "60f8638fc73b299bb9231a816df35021"),
    (1, "f88a9b5d2f1feab50503dcbc1b45e303"),
    (100, "4fe58754a43e29fd61d52003babb7d51"),
    (4097, "a9e3872cf657d930532a0a929b8da097"),
    (16384, "f3bcc1c01dd9a09d01040a2d061dcc56"),
];

const AEGIS_256: &[(usize, &str)] = &[
    (0, "9ee5e6a7b7ba9b9a328c607ad33e9cdb"),
    (1, "ed83921bdbe7ae1a80ba2b481ac3f4a3"),
    (100, "aca04e80366adcc4300e5a3a88b48489"),
    (4097, "aeaec8b34dae6d63d8199513111c684a"),
    (16384, "6844b8214ff214d38670c5a6cac0712c"),
];

/// The first 32 bytes of the keyed hash and those that follow, for each length.
const BLAKE3_KEYED: &[(usize, &str, &str)] = &[
    (
        0,
        "adf5253d5752487d4d14dc6e98f8edf4163e8a2b6b0b0f35215ea842ac30fcbc",
        "22303ca0370b37ce36c37d6117e03b64e9ea4b0bae8966de022ff080f1e89e0b",
    ),
    (
        1,
        "7cf6fde08768d65f6558d6c00b37d9c2cc197e5069e693dd22333dba62d350e1",
        "0ca45bc50fc99f2990d224a5264bde4f26c45be422d0558042c4dc61b45ba685",
    ),
    (
        1025,
        "d915e81f7f71273fd37fe8e0e9f578e306a9754a79e47a541c38c41190e11b83",
        "34c1ef71d8e741b3055b83a0f066cfa62e220b0a4abfdb649c236ffeb807ed6e",
    ),
    (
        65600,
        "08343af93f28e9fd1d1decbf6d770a257db79ee75a2a29b5c49a6f7d2b661717",
        "0f3ae4b174da04806c937367006cedac2e7f7ad34bed7a4ba8580fa560e8fbdd",
    ),
];

const BLAKE3_HASH_1025: &str = "d00278ae47eb27b34faecf67b4fe263f82d5412916c1ffd97c8cb7fb814b8444";
const BLAKE3_CONTEXT: &str = "strongroom provider self-test";
const BLAKE3_DERIVED_64: &str = "acd818af2e2516bf634d5ff2ad68f98e490859ebab99ed9acebcf27e368059d7";

/// Of `password` and `somesalt`, 2 passes over 256 KiB, per count of lanes.
const ARGON2ID: &[(u32, &str)] = &[
    (
        1,
        "9dfeb910e80bad0311fee20f9c0e2b12c17987b4cac90c2ef54d5b3021c68bfe",
    ),
    (
        2,
        "6d093c501fd5999645e0ea3bf620d7b8be7fd2db59c20d9fff9539da2bf57037",
    ),
];

const ED25519_PUBLIC: &str = "cd14b37f956e953194ff7fb73b3d81dcc561d61a7538094b7c3e1a643ee5f3aa";

/// Over the 100 bytes of the pattern, with the key as seed.
const ED25519_SIGNATURE: [&str; 2] = [
    "46123da751d7db684fb1dde30b64526c9108dbfeb954d4230beeaaa4a618461e",
    "ac4c9c1abd4615b74d635f8a564c62ed31183440ab3b565fe490c03f388c200e",
];

/// Whether `provider` gives every known answer of `algorithm`.
pub(super) fn passes(provider: &dyn Provider, algorithm: Algorithm) -> bool {
    if made_to_fail(provider, algorithm) {
        return false;
    }
    match (algorithm, provider.implementation(algorithm)) {
        (Algorithm::Aes256Gcm, Some(Implementation::Aead(aead))) => seals(aead, AES_256_GCM),
        (Algorithm::ChaCha20Poly1305, Some(Implementation::Aead(aead))) => {
            seals(aead, CHACHA20_POLY1305)
        }
        (Algorithm::Aegis256, Some(Implementation::Aead(aead))) => seals(aead, AEGIS_256),
        (Algorithm::Blake3, Some(Implementation::Blake3(blake3))) => names(blake3),
        (Algorithm::Argon2id, Some(Implementation::Argon2id(argon2id))) => stretches(argon2id),
        (Algorithm::Ed25519, Some(Implementation::Ed25519(ed25519))) => signs(ed25519),
        _ => false,
    }
}

const fn rising(from: u8) -> [u8; 32] {
    let mut bytes = [0; 32];
    let mut index = 0;
    while index < 32 {
        bytes[index] = from + index as u8;
        index += 1;
    }
    bytes
}

/// Byte i is i mod 251.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|index| (index % 251) as u8).collect()
}

/// The tag stands for the ciphertext, which it is computed over; opening gives the pattern back, and no altered tag opens.
fn seals(aead: &dyn Aead, known: &[(usize, &str)]) -> bool {
    let mut right = true;
    aead.with_key(&KEY, &mut |key| {
        for (len, tag) in known {
            let clear = pattern(*len);
            let mut text = clear.clone();
            let found = key.seal(&NONCE, &mut text);
            let sealed = text.clone();
            let opens = key.open(&NONCE, &mut text, &found).is_ok() && text == clear;
            let mut altered = found;
            altered[15] ^= 0x80;
            let refuses = key.open(&NONCE, &mut sealed.clone(), &altered).is_err();
            right &= hex::encode(&found) == *tag && opens && refuses;
        }
    });
    right
}

fn names(blake3: &dyn Blake3) -> bool {
    let keyed = BLAKE3_KEYED.iter().all(|(len, first, rest)| {
        let content = pattern(*len);
        let (one, other) = content.split_at(len / 3);
        let mut out = [0; 64];
        blake3.keyed(&KEY, &[one, other], &mut out);
        hex::encode(&out) == [*first, *rest].concat()
    });
    let content = pattern(1025);
    let derived = blake3.derive_key(BLAKE3_CONTEXT, &[&content[..5], &content[5..64]]);
    keyed
        && hex::encode(&blake3.hash(&content)) == BLAKE3_HASH_1025
        && hex::encode(&derived) == BLAKE3_DERIVED_64
}

fn stretches(argon2id: &dyn Argon2id) -> bool {
    ARGON2ID.iter().all(|(lanes, known)| {
        let cost = Argon2idCost {
            memory_kib: 256,
            passes: 2,
            lanes: *lanes,
        };
        let mut out = [0; 32];
        let stretched = argon2id.stretch(b"password", b"somesalt", cost, &mut out);
        stretched.is_ok() && hex::encode(&out) == *known
    })
}

fn signs(ed25519: &dyn Ed25519) -> bool {
    let message = pattern(100);
    let public_key = ed25519.public_key(&KEY);
    let signature = ed25519.sign(&KEY, &message);
    let mut altered = signature;
    altered[0] ^= 1;
    hex::encode(&public_key) == ED25519_PUBLIC
        && hex::encode(&signature) == ED25519_SIGNATURE.concat()
        && ed25519.verify(&public_key, &message, &signature)
        && !ed25519.verify(&public_key, &message, &altered)
}

/// Whether the test switch names this provider: `STRONGROOM_FAIL_SELF_TEST=ring,BLAKE3=simd`, for all its algorithms or one.
#[cfg(any(test, feature = "fail-self-test"))]
fn made_to_fail(provider: &dyn Provider, algorithm: Algorithm) -> bool {
    let named = std::env::var("STRONGROOM_FAIL_SELF_TEST").unwrap_or_default();
    named.split(',').any(|part| match part.split_once('=') {
        Some((of, name)) => of == algorithm.name() && name == provider.name(),
        None => part == provider.name(),
    })
}

/// A product has no such switch.
#[cfg(not(any(test, feature = "fail-self-test")))]
const fn made_to_fail(_: &dyn Provider, _: Algorithm) -> bool {
    false
}
