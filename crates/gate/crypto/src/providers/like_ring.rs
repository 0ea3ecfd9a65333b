//! A provider over a library with the interface of `ring`. aws-lc-rs has it too, except for the function that opens a chunk.
//!
//! Takes   the provider's type and name, the library's crate and package, and its way to open a chunk
//! Gives   the provider

/// Defines `$provider`. `$open` gives a `Result`, from a key, a nonce, a chunk and its tag.
macro_rules! like_ring {
    ($provider:ident, $name:literal, $library:ident, $package:literal, $open:expr) => {
        use crate::limits::KEY_BYTES;
        use crate::providers::version::of_crate;
        use crate::providers::{
            Aead, Algorithm, ChunkKey, Ed25519, Implementation, Nonce, Provider, Refused,
        };
        use strongroom_format::limits::TAG_BYTES;
        use $library::aead::{self, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, UnboundKey};
        use $library::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};

        /// The provider.
        pub(super) struct $provider;

        impl Provider for $provider {
            fn name(&self) -> &'static str {
                $name
            }

            fn library(&self) -> String {
                of_crate($package)
            }

            fn implementation(&self, algorithm: Algorithm) -> Option<Implementation> {
                static AES: Cipher = Cipher(&AES_256_GCM);
                static CHACHA: Cipher = Cipher(&CHACHA20_POLY1305);
                Some(match algorithm {
                    Algorithm::Aes256Gcm => Implementation::Aead(&AES),
                    Algorithm::ChaCha20Poly1305 => Implementation::Aead(&CHACHA),
                    Algorithm::Ed25519 => Implementation::Ed25519(&Self),
                    Algorithm::Aegis256 | Algorithm::Blake3 | Algorithm::Argon2id => return None,
                })
            }
        }

        struct Cipher(&'static aead::Algorithm);

        impl Aead for Cipher {
            fn with_key(&self, key: &[u8; KEY_BYTES], work: &mut dyn FnMut(&dyn ChunkKey)) {
                let key =
                    UnboundKey::new(self.0, key).expect("both algorithms take keys of 32 bytes");
                work(&Key(LessSafeKey::new(key)));
            }
        }

        struct Key(LessSafeKey);

        impl ChunkKey for Key {
            fn seal(&self, nonce: &Nonce, chunk: &mut [u8]) -> [u8; TAG_BYTES] {
                let nonce = aead::Nonce::assume_unique_for_key(*nonce.first());
                let tag = self
                    .0
                    .seal_in_place_separate_tag(nonce, Aad::empty(), chunk)
                    .expect("a chunk is far below the 64 GiB of the algorithm");
                let tag = tag.as_ref().try_into();
                tag.expect("both algorithms give tags of 16 bytes")
            }

            fn open(
                &self,
                nonce: &Nonce,
                chunk: &mut [u8],
                tag: &[u8; TAG_BYTES],
            ) -> Result<(), Refused> {
                let nonce = aead::Nonce::assume_unique_for_key(*nonce.first());
                let opened: Result<(), $library::error::Unspecified> =
                    $open(&self.0, nonce, chunk, tag);
                opened.map_err(|_| Refused)
            }
        }

        /// The key pair of `seed`.
        fn pair(seed: &[u8; 32]) -> Ed25519KeyPair {
            Ed25519KeyPair::from_seed_unchecked(seed).expect("a seed is any 32 bytes")
        }

        impl Ed25519 for $provider {
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
    };
}

pub(super) use like_ring;
