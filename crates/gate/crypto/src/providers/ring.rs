//! The provider over the `ring` library: BoringSSL's assembly, in every build.

use super::version::of_crate;
use super::{
    Aead, Algorithm, ChunkKey, Ed25519, HmacSha256, Implementation, Nonce, Provider, Refused,
    Sha256,
};
use crate::limits::KEY_BYTES;
use ring::aead::{self, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Tag, UnboundKey};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use ring::{digest, hmac};
use strongroom_format::limits::TAG_BYTES;

/// The provider.
pub(super) struct Ring;

impl Provider for Ring {
    fn name(&self) -> &'static str {
        "ring"
    }

    fn library(&self) -> String {
        of_crate("ring")
    }

    fn implementation(&self, algorithm: Algorithm) -> Option<Implementation> {
        static AES: RingAead = RingAead(&AES_256_GCM);
        static CHACHA: RingAead = RingAead(&CHACHA20_POLY1305);
        Some(match algorithm {
            Algorithm::Aes256Gcm => Implementation::Aead(&AES),
            Algorithm::ChaCha20Poly1305 => Implementation::Aead(&CHACHA),
            Algorithm::Sha256 => Implementation::Sha256(&Self),
            Algorithm::HmacSha256 => Implementation::HmacSha256(&Self),
            Algorithm::Ed25519 => Implementation::Ed25519(&Self),
            Algorithm::Aegis256 | Algorithm::Blake3 | Algorithm::Argon2id => return None,
        })
    }
}

struct RingAead(&'static aead::Algorithm);

impl Aead for RingAead {
    fn with_key(&self, key: &[u8; KEY_BYTES], work: &mut dyn FnMut(&dyn ChunkKey)) {
        let key = UnboundKey::new(self.0, key).expect("both algorithms take keys of 32 bytes");
        work(&RingKey(LessSafeKey::new(key)));
    }
}

struct RingKey(LessSafeKey);

impl ChunkKey for RingKey {
    fn seal(&self, nonce: &Nonce, chunk: &mut [u8]) -> [u8; TAG_BYTES] {
        let nonce = aead::Nonce::assume_unique_for_key(*nonce.first());
        let tag = self
            .0
            .seal_in_place_separate_tag(nonce, Aad::empty(), chunk)
            .expect("a chunk is far below the 64 GiB of the algorithm");
        tag.as_ref()
            .try_into()
            .expect("both algorithms give tags of 16 bytes")
    }

    fn open(&self, nonce: &Nonce, chunk: &mut [u8], tag: &[u8; TAG_BYTES]) -> Result<(), Refused> {
        let nonce = aead::Nonce::assume_unique_for_key(*nonce.first());
        self.0
            .open_in_place_separate_tag(nonce, Aad::empty(), Tag::from(*tag), chunk, 0..)
            .map(|_| ())
            .map_err(|_| Refused)
    }
}

impl Sha256 for Ring {
    fn hash(&self, bytes: &[u8]) -> [u8; 32] {
        let hash = digest::digest(&digest::SHA256, bytes);
        hash.as_ref().try_into().expect("SHA-256 gives 32 bytes")
    }
}

impl HmacSha256 for Ring {
    fn code(&self, key: &[u8], bytes: &[u8]) -> [u8; 32] {
        let code = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), bytes);
        code.as_ref().try_into().expect("SHA-256 gives 32 bytes")
    }
}

/// The key pair of `seed`.
fn pair(seed: &[u8; 32]) -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(seed).expect("a seed is any 32 bytes")
}

impl Ed25519 for Ring {
    fn public_key(&self, seed: &[u8; 32]) -> [u8; 32] {
        let pair = pair(seed);
        let key = pair.public_key().as_ref();
        key.try_into().expect("a public key has 32 bytes")
    }

    fn sign(&self, seed: &[u8; 32], message: &[u8]) -> [u8; 64] {
        let signature = pair(seed).sign(message);
        let signature = signature.as_ref();
        signature.try_into().expect("a signature has 64 bytes")
    }

    fn verify(&self, public_key: &[u8; 32], message: &[u8], signature: &[u8; 64]) -> bool {
        UnparsedPublicKey::new(&ED25519, public_key)
            .verify(message, signature)
            .is_ok()
    }
}
