//! The provider over `ed25519-dalek`: it computes the signatures in every build.

use super::version::of_crate;
use super::{Algorithm, Ed25519, Implementation, Provider};
use ed25519_dalek::{Signature, Signer as _, SigningKey, Verifier as _, VerifyingKey};

/// The provider.
pub(super) struct Dalek;

impl Provider for Dalek {
    fn name(&self) -> &'static str {
        "dalek"
    }

    fn library(&self) -> String {
        of_crate("ed25519-dalek")
    }

    fn implementation(&self, algorithm: Algorithm) -> Option<Implementation> {
        (algorithm == Algorithm::Ed25519).then_some(Implementation::Ed25519(&Self))
    }
}

impl Ed25519 for Dalek {
    fn public_key(&self, seed: &[u8; 32]) -> [u8; 32] {
        SigningKey::from_bytes(seed).verifying_key().to_bytes()
    }

    fn sign(&self, seed: &[u8; 32], message: &[u8]) -> [u8; 64] {
        SigningKey::from_bytes(seed).sign(message).to_bytes()
    }

    fn verify(&self, public_key: &[u8; 32], message: &[u8], signature: &[u8; 64]) -> bool {
        let signature = Signature::from_bytes(signature);
        VerifyingKey::from_bytes(public_key)
            .is_ok_and(|key| key.verify(message, &signature).is_ok())
    }
}
