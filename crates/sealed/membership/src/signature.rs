//! Verifies Ed25519 signatures so that all verifiers agree.
//!
//! Takes   a public key, a message, a signature, and a library that verifies
//! Gives   whether the holder of the key signed the message
//! Never   accepts a signature or key that some libraries accept and others refuse
//! Spec    spec/1-keys.md, [1.4.6]

use ed25519_dalek::{Signature, Verifier as _, VerifyingKey};
use strongroom_format::RecordId;

/// Whether a signature (the last) over a message is by the holder of a public key (the first): a library, which need not be strict.
pub type Verify<'v> = &'v dyn Fn(&[u8; 32], &[u8], &[u8; 64]) -> bool;

/// What every membership signature begins with.
const RECORD_LABEL: &[u8] = b"strongroom format 1 2026-11-21 membership signature";

/// What the author of the record of that id signs.
#[must_use]
pub fn signed_record(record: RecordId) -> Vec<u8> {
    [RECORD_LABEL, &record.0].concat()
}

/// What `ed25519-dalek` says, for who has no choice of providers.
#[must_use]
pub fn by_dalek(public_key: &[u8; 32], message: &[u8], signature: &[u8; 64]) -> bool {
    let signature = Signature::from_bytes(signature);
    VerifyingKey::from_bytes(public_key).is_ok_and(|key| key.verify(message, &signature).is_ok())
}

/// Verifies with `verify`, after what libraries differ in was refused: public keys and R of small order, and points in a
/// second encoding. That S has one encoding is checked by all of them.                               [1.4.6]
#[must_use]
pub fn verify_strict(
    verify: Verify<'_>,
    public_key: &[u8; 32],
    message: &[u8],
    signature: &[u8; 64],
) -> bool {
    let (r, _) = signature
        .split_first_chunk::<32>()
        .expect("a signature is R and S, 32 bytes each");
    is_strict_point(public_key) && is_strict_point(r) && verify(public_key, message, signature)
}

/// Whether `bytes` are the one encoding of a point that is not of small order.
fn is_strict_point(bytes: &[u8; 32]) -> bool {
    // Little-endian: 2^255 - 19 and what follows it up to 2^255 - 1 are second encodings of 0 to 18; the top bit is the sign.
    let is_second = bytes[0] >= 0xed
        && bytes[1..31].iter().all(|byte| *byte == 0xff)
        && bytes[31] | 0x80 == 0xff;
    !is_second && VerifyingKey::from_bytes(bytes).is_ok_and(|point| !point.is_weak())
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::{Signer as _, SigningKey};

    use super::*;

    /// What libraries differ in is refused before they are asked: points in a second encoding.
    #[test]
    fn a_point_has_one_encoding() {
        let mut second = [0xff; 32];
        second[31] = 0x7f;
        for low in 0xed..=0xff {
            for sign in [0x7f, 0xff] {
                (second[0], second[31]) = (low, sign);
                assert!(!is_strict_point(&second), "{low:x} {sign:x}");
            }
        }
        let key = SigningKey::from_bytes(&[1; 32]);
        assert!(is_strict_point(&key.verifying_key().to_bytes()));
    }

    #[test]
    fn a_signature_is_of_one_key_over_one_message() {
        let (key, other) = (
            SigningKey::from_bytes(&[1; 32]),
            SigningKey::from_bytes(&[2; 32]),
        );
        let public = key.verifying_key().to_bytes();
        let signature = key.sign(b"message").to_bytes();
        let is_valid = |public: &[u8; 32], message: &[u8], signature: &[u8; 64]| {
            verify_strict(&by_dalek, public, message, signature)
        };
        assert!(is_valid(&public, b"message", &signature));
        assert!(!is_valid(&public, b"messagf", &signature));
        assert!(!is_valid(
            &other.verifying_key().to_bytes(),
            b"message",
            &signature
        ));
        for place in 0..64 {
            let mut altered = signature;
            altered[place] ^= 1;
            assert!(!is_valid(&public, b"message", &altered), "{place}");
        }
    }
}
