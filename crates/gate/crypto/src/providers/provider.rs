//! The interface of providers: one trait for each kind of algorithm.
//!
//! Takes   keys, nonces and bytes
//! Gives   the output of the algorithm
//! Never   computes anything: the file of each library does

use super::Algorithm;
use crate::limits::KEY_BYTES;
use strongroom_format::limits::TAG_BYTES;

/// The longest nonce of any suite, in bytes.
pub const NONCE_BYTES_MAX: usize = 32;

/// A library that computes some of the algorithms.
pub trait Provider: Send + Sync {
    /// The name that people write and `strongroom tune` shows: lower-case, no `=` and no comma.
    fn name(&self) -> &'static str;

    /// The library and its version, for tables and for telling whether a measurement is still of this library.
    fn library(&self) -> String;

    /// What the processor or the build lacks, if nothing of this provider can run here.
    fn missing(&self) -> Option<&'static str> {
        None
    }

    /// Its implementation of `algorithm`; `None` if it has none.
    fn implementation(&self, algorithm: Algorithm) -> Option<Implementation>;
}

impl std::fmt::Debug for dyn Provider {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Provider({})", self.name())
    }
}

/// How one provider computes one algorithm.
#[derive(Clone, Copy)]
pub enum Implementation {
    /// Of `Aes256Gcm`, `ChaCha20Poly1305` or `Aegis256`.
    Aead(&'static dyn Aead),
    /// Of `Blake3`.
    Blake3(&'static dyn Blake3),
    /// Of `Argon2id`.
    Argon2id(&'static dyn Argon2id),
    /// Of `Ed25519`.
    Ed25519(&'static dyn Ed25519),
}

/// A tag did not fit its chunk. Says nothing more, so that nobody learns more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

/// The nonce of one chunk: an algorithm takes the first bytes, as many as it has; the rest is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Nonce(pub [u8; NONCE_BYTES_MAX]);

impl Nonce {
    /// The first `N` bytes, at most `NONCE_BYTES_MAX`.
    #[must_use]
    pub fn first<const N: usize>(&self) -> &[u8; N] {
        const { assert!(N <= NONCE_BYTES_MAX) };
        self.0
            .first_chunk()
            .expect("N was compared when this was compiled")
    }
}

/// Authenticated encryption of chunks. The associated data is empty: all that could be in it is in the key.
pub trait Aead: Send + Sync {
    /// Prepares `key` and calls `work` with it exactly once, before it returns.
    ///
    /// A call rather than a return value, so that one prepared key needs no allocation.
    fn with_key(&self, key: &[u8; KEY_BYTES], work: &mut dyn FnMut(&dyn ChunkKey));
}

/// A prepared key of an `Aead`.
pub trait ChunkKey {
    /// Encrypts `chunk` in place and gives its tag.
    fn seal(&self, nonce: &Nonce, chunk: &mut [u8]) -> [u8; TAG_BYTES];

    /// Decrypts `chunk` in place.
    ///
    /// # Errors
    /// `Refused` if `tag` does not fit; then `chunk` holds nothing of use.
    fn open(&self, nonce: &Nonce, chunk: &mut [u8], tag: &[u8; TAG_BYTES]) -> Result<(), Refused>;
}

/// BLAKE3 in the three modes of [2.11].
pub trait Blake3: Send + Sync {
    /// The hash of `bytes`.
    fn hash(&self, bytes: &[u8]) -> [u8; 32];

    /// The keyed hash of `parts`, one after the other, as long as `out`.
    fn keyed(&self, key: &[u8; KEY_BYTES], parts: &[&[u8]], out: &mut [u8]);

    /// The key that `derive_key` makes of `parts`, one after the other, for `context`.
    fn derive_key(&self, context: &str, parts: &[&[u8]]) -> [u8; KEY_BYTES];
}

/// What one run of Argon2id takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argon2idCost {
    /// Memory in KiB, at least 8 times the lanes.
    pub memory_kib: u32,
    /// Passes over the memory, at least 1.
    pub passes: u32,
    /// Lanes, at least 1.
    pub lanes: u32,
}

/// The memory that a run needs is not free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMemory;

/// Argon2id (RFC 9106), version 0x13, without key and associated data.
pub trait Argon2id: Send + Sync {
    /// Stretches `secret` with `salt` (8 to 64 bytes) into `out`; wipes the memory it used.
    ///
    /// # Errors
    /// `NoMemory` if the memory could not be had; then `out` is as it was.
    fn stretch(
        &self,
        secret: &[u8],
        salt: &[u8],
        cost: Argon2idCost,
        out: &mut [u8; 32],
    ) -> Result<(), NoMemory>;
}

/// Ed25519 (RFC 8032). `principal.rs` adds what strict verification asks beyond it.
pub trait Ed25519: Send + Sync {
    /// The public key of `seed`.
    fn public_key(&self, seed: &[u8; 32]) -> [u8; 32];

    /// The signature over `message`, always the same.
    fn sign(&self, seed: &[u8; 32], message: &[u8]) -> [u8; 64];

    /// Whether `signature` over `message` is by the holder of `public_key`, without cofactor.
    fn verify(&self, public_key: &[u8; 32], message: &[u8], signature: &[u8; 64]) -> bool;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_algorithm_is_found_by_its_name_in_any_case() {
        for algorithm in Algorithm::ALL {
            let name = algorithm.name();
            assert_eq!(Algorithm::from_name(name), Some(*algorithm));
            assert_eq!(Algorithm::from_name(&name.to_lowercase()), Some(*algorithm));
        }
        assert_eq!(Algorithm::from_name("AES-128-GCM"), None);
    }
}
