//! The provider over the `blake3` library, with whichever vector instructions it finds at run time.

use super::version::of_crate;
use super::{Algorithm, Blake3, Implementation, Provider};
use crate::keys::KEY_BYTES;
use blake3::Hasher;
use zeroize::Zeroizing;

/// The provider.
pub(super) struct Blake3Simd;

impl Provider for Blake3Simd {
    fn name(&self) -> &'static str {
        "simd"
    }

    fn library(&self) -> String {
        of_crate("blake3")
    }

    fn implementation(&self, algorithm: Algorithm) -> Option<Implementation> {
        (algorithm == Algorithm::Blake3).then_some(Implementation::Blake3(&Self))
    }
}

impl Blake3 for Blake3Simd {
    fn hash(&self, bytes: &[u8]) -> [u8; 32] {
        *blake3::hash(bytes).as_bytes()
    }

    fn keyed(&self, key: &[u8; KEY_BYTES], parts: &[&[u8]], out: &mut [u8]) {
        let mut hasher = Zeroizing::new(Hasher::new_keyed(key));
        parts.iter().for_each(|part| {
            hasher.update(part);
        });
        Zeroizing::new(hasher.finalize_xof()).fill(out);
    }

    fn derive_key(&self, context: &str, parts: &[&[u8]]) -> [u8; KEY_BYTES] {
        let mut hasher = Zeroizing::new(Hasher::new_derive_key(context));
        parts.iter().for_each(|part| {
            hasher.update(part);
        });
        *hasher.finalize().as_bytes()
    }
}
