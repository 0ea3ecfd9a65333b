//! Who computes the AEAD in this run: a value, never part of the format.
//!
//! Takes   a key, and chunks with their nonces
//! Gives   ciphertext and tag, or the plaintext once its tag is proven
//! Never   chooses a key or a nonce
//! Spec    spec/2-block.md, [2.18] [2.19]
//!
//! Invariants
//!  (1) All providers give the same bytes: what one seals each other opens.     [2.19]

use crate::keys::KEY_BYTES;
use crate::suite::NONCE_BYTES;
use ring::aead::{AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, Tag, UnboundKey};
use strongroom_format::SuiteId;
use strongroom_format::limits::TAG_BYTES;

/// A tag did not fit its chunk. Says nothing more, so that nobody learns more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

/// An implementation of the AEAD of every suite.
pub trait Provider: Send + Sync {
    /// The name that `strongroom tune` shows.
    fn name(&self) -> &'static str;

    /// Prepares `key` and calls `work` with it exactly once, before it returns.
    ///
    /// A call rather than a return value, so that one prepared key needs no allocation.
    fn with_key(&self, suite: SuiteId, key: &[u8; KEY_BYTES], work: &mut dyn FnMut(&dyn ChunkKey));
}

/// A prepared AEAD key. The associated data is empty: all that could be in it is in the key.
pub trait ChunkKey {
    /// Encrypts `chunk` in place and gives its tag.
    fn seal(&self, nonce: [u8; NONCE_BYTES], chunk: &mut [u8]) -> [u8; TAG_BYTES];

    /// Decrypts `chunk` in place.
    ///
    /// # Errors
    /// `Refused` if `tag` does not fit; then `chunk` holds nothing of use.
    fn open(
        &self,
        nonce: [u8; NONCE_BYTES],
        chunk: &mut [u8],
        tag: [u8; TAG_BYTES],
    ) -> Result<(), Refused>;
}

/// The provider over the `ring` library, which every build has.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ring;

impl Provider for Ring {
    fn name(&self) -> &'static str {
        "ring"
    }

    fn with_key(&self, suite: SuiteId, key: &[u8; KEY_BYTES], work: &mut dyn FnMut(&dyn ChunkKey)) {
        let algorithm = match suite {
            SuiteId::Aes256GcmBlake3 => &AES_256_GCM,
            SuiteId::ChaCha20Poly1305Blake3 => &CHACHA20_POLY1305,
        };
        let key = UnboundKey::new(algorithm, key).expect("both algorithms take keys of 32 bytes");
        work(&RingKey(LessSafeKey::new(key)));
    }
}

struct RingKey(LessSafeKey);

impl ChunkKey for RingKey {
    fn seal(&self, nonce: [u8; NONCE_BYTES], chunk: &mut [u8]) -> [u8; TAG_BYTES] {
        let tag = self
            .0
            .seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), Aad::empty(), chunk)
            .expect("a chunk is far below the 64 GiB of the algorithm");
        tag.as_ref()
            .try_into()
            .expect("both algorithms give tags of 16 bytes")
    }

    fn open(
        &self,
        nonce: [u8; NONCE_BYTES],
        chunk: &mut [u8],
        tag: [u8; TAG_BYTES],
    ) -> Result<(), Refused> {
        self.0
            .open_in_place_separate_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::empty(),
                Tag::from(tag),
                chunk,
                0..,
            )
            .map(|_| ())
            .map_err(|_| Refused)
    }
}
