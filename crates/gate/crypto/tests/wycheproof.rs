//! Tests every provider with the Wycheproof vectors, for every algorithm that has some. (Ed25519: `principal.rs`, where
//! verification is made strict.)
//!
//! Only vectors with keys, nonces and tags of our lengths and without associated data are used: a `ChunkKey` accepts
//! nothing else. The counts are asserted, so that a filter that drops every vector cannot pass. The invalid vectors of
//! ChaCha20-Poly1305 all have associated data, so each bit of each valid tag is also flipped here.

use strongroom_crypto::providers::{
    Aead, Algorithm, Implementation, Nonce, Provider, State, providers_of,
};
use wycheproof::aead;

/// What each usable provider of `algorithm` implements.
fn each(algorithm: Algorithm) -> Vec<(&'static dyn Provider, Implementation)> {
    let offers = providers_of(algorithm);
    let ready = offers.iter().filter(|offer| offer.state == State::Ready);
    let each: Vec<_> = ready
        .filter_map(|offer| Some((offer.provider, offer.provider.implementation(algorithm)?)))
        .collect();
    assert!(!each.is_empty(), "{algorithm} has a provider");
    each
}

/// Runs the vectors of `name`, and gives how many were valid and how many invalid.
fn run(who: &str, aead: &dyn Aead, nonce_bits: usize, name: aead::TestName) -> (usize, usize) {
    let (mut valid, mut invalid) = (0, 0);
    let set = aead::TestSet::load(name).expect("the vectors are compiled in");
    for group in set.test_groups {
        if (group.key_size, group.nonce_size, group.tag_size) != (256, nonce_bits, 128) {
            continue;
        }
        for test in group.tests.iter().filter(|test| test.aad.is_empty()) {
            let why = format!("{who}, {}: {}", test.tc_id, test.comment);
            let key = test.key[..].try_into().expect("the group says 256 bits");
            let mut nonce = Nonce([0; 32]);
            nonce.0[..nonce_bits / 8].copy_from_slice(&test.nonce);
            let tag = test.tag[..].try_into().expect("the group says 128 bits");
            aead.with_key(key, &mut |key| {
                let mut text = test.ct.to_vec();
                let opened = key.open(&nonce, &mut text, tag);
                if test.result.must_fail() {
                    assert!(opened.is_err(), "{why}");
                    invalid += 1;
                    return;
                }
                assert!(opened.is_ok() && text == test.pt[..], "{why}");
                let sealed_tag = key.seal(&nonce, &mut text);
                assert!(text == test.ct[..] && sealed_tag == *tag, "{why}");
                for bit in 0..128 {
                    let (mut text, mut altered) = (test.ct.to_vec(), *tag);
                    altered[bit / 8] ^= 1 << (bit % 8);
                    let opened = key.open(&nonce, &mut text, &altered);
                    assert!(opened.is_err(), "{why}: tag bit {bit}");
                }
                valid += 1;
            });
        }
    }
    (valid, invalid)
}

fn all_agree(
    algorithm: Algorithm,
    nonce_bits: usize,
    name: fn() -> aead::TestName,
    counts: (usize, usize),
) {
    for (provider, implementation) in each(algorithm) {
        let Implementation::Aead(aead) = implementation else {
            panic!("{algorithm} of {} is an AEAD", provider.name());
        };
        let found = run(provider.name(), aead, nonce_bits, name());
        assert_eq!(found, counts, "{}", provider.name());
    }
}

#[test]
fn every_provider_agrees_on_aes_256_gcm() {
    all_agree(
        Algorithm::Aes256Gcm,
        96,
        || aead::TestName::AesGcm,
        (21, 27),
    );
}

#[test]
fn every_provider_agrees_on_chacha20_poly1305() {
    let name = || aead::TestName::ChaCha20Poly1305;
    all_agree(Algorithm::ChaCha20Poly1305, 96, name, (45, 0));
}

#[test]
#[cfg(feature = "libaegis")]
fn every_provider_agrees_on_aegis_256() {
    all_agree(
        Algorithm::Aegis256,
        256,
        || aead::TestName::Aegis256,
        (177, 109),
    );
}
