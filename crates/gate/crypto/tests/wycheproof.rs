//! Every provider against the Wycheproof vectors of the AEADs of suites 1 and 2.
//!
//! Only vectors with keys, nonces and tags of our lengths and without associated data: nothing else can be said
//! to a `ChunkKey`. The counts are asserted, so that a filter that lets nothing through cannot pass. The invalid
//! vectors of ChaCha20-Poly1305 all have associated data; so each bit of each valid tag is also flipped here.

use strongroom_crypto::provider::{Provider, Ring};
use strongroom_format::SuiteId;
use wycheproof::aead::{TestName, TestSet};

/// Runs the vectors of `name`, and gives how many were valid and how many invalid.
fn run(provider: &dyn Provider, suite: SuiteId, name: TestName) -> (usize, usize) {
    let (mut valid, mut invalid) = (0, 0);
    let set = TestSet::load(name).expect("the vectors are compiled in");
    for group in set.test_groups {
        if (group.key_size, group.nonce_size, group.tag_size) != (256, 96, 128) {
            continue;
        }
        for test in group.tests.iter().filter(|test| test.aad.is_empty()) {
            let key = test.key[..].try_into().expect("the group says 256 bits");
            let nonce = test.nonce[..].try_into().expect("the group says 96 bits");
            let tag = test.tag[..].try_into().expect("the group says 128 bits");
            provider.with_key(suite, key, &mut |key| {
                let mut text = test.ct.to_vec();
                let opened = key.open(nonce, &mut text, tag);
                if test.result.must_fail() {
                    assert!(opened.is_err(), "{}: {}", test.tc_id, test.comment);
                    invalid += 1;
                    return;
                }
                assert!(
                    opened.is_ok() && text == test.pt[..],
                    "{}: {}",
                    test.tc_id,
                    test.comment
                );
                let sealed_tag = key.seal(nonce, &mut text);
                assert!(
                    text == test.ct[..] && sealed_tag == tag,
                    "{}: {}",
                    test.tc_id,
                    test.comment
                );
                for bit in 0..128 {
                    let (mut text, mut altered) = (test.ct.to_vec(), tag);
                    altered[bit / 8] ^= 1 << (bit % 8);
                    assert!(
                        key.open(nonce, &mut text, altered).is_err(),
                        "{}: tag bit {bit}",
                        test.tc_id
                    );
                }
                valid += 1;
            });
        }
    }
    (valid, invalid)
}

#[test]
fn ring_agrees_on_aes_256_gcm() {
    assert_eq!(
        run(&Ring, SuiteId::Aes256GcmBlake3, TestName::AesGcm),
        (21, 27)
    );
}

#[test]
fn ring_agrees_on_chacha20_poly1305() {
    assert_eq!(
        run(
            &Ring,
            SuiteId::ChaCha20Poly1305Blake3,
            TestName::ChaCha20Poly1305
        ),
        (45, 0)
    );
}
