//! The provider over `libaegis`, by the author of AEGIS's specification. It uses AES instructions if the processor has
//! them, and never lookup tables.

use super::version::of_crate;
use super::{Aead, Algorithm, ChunkKey, Implementation, Nonce, Provider, Refused};
use crate::limits::KEY_BYTES;
use aegis::aegis256::Aegis256;
use strongroom_format::limits::TAG_BYTES;
use zeroize::Zeroizing;

/// The provider.
pub(super) struct Libaegis;

impl Provider for Libaegis {
    fn name(&self) -> &'static str {
        "libaegis"
    }

    fn library(&self) -> String {
        of_crate("aegis")
    }

    fn implementation(&self, algorithm: Algorithm) -> Option<Implementation> {
        (algorithm == Algorithm::Aegis256).then_some(Implementation::Aead(&Self))
    }
}

impl Aead for Libaegis {
    fn with_key(&self, key: &[u8; KEY_BYTES], work: &mut dyn FnMut(&dyn ChunkKey)) {
        work(&LibaegisKey(Zeroizing::new(*key)));
    }
}

/// AEGIS prepares key and nonce together, so there is nothing to prepare but a copy.
struct LibaegisKey(Zeroizing<[u8; KEY_BYTES]>);

impl ChunkKey for LibaegisKey {
    fn seal(&self, nonce: &Nonce, chunk: &mut [u8]) -> [u8; TAG_BYTES] {
        Aegis256::<TAG_BYTES>::new(&self.0, nonce.first()).encrypt_in_place(chunk, &[])
    }

    fn open(&self, nonce: &Nonce, chunk: &mut [u8], tag: &[u8; TAG_BYTES]) -> Result<(), Refused> {
        Aegis256::<TAG_BYTES>::new(&self.0, nonce.first())
            .decrypt_in_place(chunk, tag, &[])
            .map_err(|_| Refused)
    }
}
