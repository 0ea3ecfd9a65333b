//! The provider over `graviola`: formally verified assembly, on processors that have all the instructions it needs.

use super::version::of_crate;
use super::{Aead, Algorithm, ChunkKey, Ed25519, Implementation, Nonce, Provider, Refused};
use crate::limits::KEY_BYTES;
use graviola::aead::{AesGcm, ChaCha20Poly1305};
use graviola::signing::eddsa::{Ed25519SigningKey, Ed25519VerifyingKey};
use strongroom_format::limits::TAG_BYTES;

/// The provider.
pub(super) struct Graviola;

impl Provider for Graviola {
    fn name(&self) -> &'static str {
        "graviola"
    }

    fn library(&self) -> String {
        of_crate("graviola")
    }

    /// The library ends the process where an instruction is missing, so it is asked before anything else.
    fn missing(&self) -> Option<&'static str> {
        let needs = if cfg!(target_arch = "x86_64") {
            "a processor with AES-NI, PCLMULQDQ, AVX2, ADX and BMI2"
        } else {
            "a processor with AES, PMULL, SHA-2 and NEON"
        };
        (!graviola::util::is_cpu_supported()).then_some(needs)
    }

    fn implementation(&self, algorithm: Algorithm) -> Option<Implementation> {
        Some(match algorithm {
            Algorithm::Aes256Gcm => Implementation::Aead(&Aes),
            Algorithm::ChaCha20Poly1305 => Implementation::Aead(&ChaCha),
            Algorithm::Ed25519 => Implementation::Ed25519(&Self),
            Algorithm::Aegis256 | Algorithm::Blake3 | Algorithm::Argon2id => return None,
        })
    }
}

struct Aes;

impl Aead for Aes {
    fn with_key(&self, key: &[u8; KEY_BYTES], work: &mut dyn FnMut(&dyn ChunkKey)) {
        work(&AesGcm::new(key));
    }
}

impl ChunkKey for AesGcm {
    fn seal(&self, nonce: &Nonce, chunk: &mut [u8]) -> [u8; TAG_BYTES] {
        let mut tag = [0; TAG_BYTES];
        self.encrypt(nonce.first(), &[], chunk, &mut tag);
        tag
    }

    fn open(&self, nonce: &Nonce, chunk: &mut [u8], tag: &[u8; TAG_BYTES]) -> Result<(), Refused> {
        self.decrypt(nonce.first(), &[], chunk, tag)
            .map_err(|_| Refused)
    }
}

struct ChaCha;

impl Aead for ChaCha {
    fn with_key(&self, key: &[u8; KEY_BYTES], work: &mut dyn FnMut(&dyn ChunkKey)) {
        work(&ChaCha20Poly1305::new(*key));
    }
}

impl ChunkKey for ChaCha20Poly1305 {
    fn seal(&self, nonce: &Nonce, chunk: &mut [u8]) -> [u8; TAG_BYTES] {
        let mut tag = [0; TAG_BYTES];
        self.encrypt(nonce.first(), &[], chunk, &mut tag);
        tag
    }

    fn open(&self, nonce: &Nonce, chunk: &mut [u8], tag: &[u8; TAG_BYTES]) -> Result<(), Refused> {
        self.decrypt(nonce.first(), &[], chunk, tag)
            .map_err(|_| Refused)
    }
}

/// The signing key of `seed`.
fn signing(seed: &[u8; 32]) -> Ed25519SigningKey {
    Ed25519SigningKey::from_bytes(seed).expect("a seed is any 32 bytes")
}

impl Ed25519 for Graviola {
    fn public_key(&self, seed: &[u8; 32]) -> [u8; 32] {
        signing(seed).public_key().as_bytes()
    }

    fn sign(&self, seed: &[u8; 32], message: &[u8]) -> [u8; 64] {
        signing(seed).sign(message)
    }

    fn verify(&self, public_key: &[u8; 32], message: &[u8], signature: &[u8; 64]) -> bool {
        Ed25519VerifyingKey::from_bytes(public_key)
            .is_ok_and(|key| key.verify(signature, message).is_ok())
    }
}
