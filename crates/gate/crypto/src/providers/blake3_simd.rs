//! The provider over the `blake3` library, with whichever vector instructions it finds at run time.
//!
//! The library hashes up to 16 chunks of 1 KiB at once if they are contiguous. For the id of a block, 64 bytes of context
//! are hashed before the content. They shift all chunks, and the library would then hash runs of 1, 1, 2, 4, 8 and so on.
//! It is faster to copy context and block into one buffer first: 4.6 instead of 3.5 GB/s, from memory and with AVX-512.

use super::version::of_crate;
use super::{Algorithm, Blake3, Implementation, Provider};
use crate::limits::KEY_BYTES;
use crate::wiped_stack::wiping_behind;
use blake3::{CHUNK_LEN, Hasher};
use std::cell::RefCell;
use strongroom_format::limits::BLOCK_BYTES_MAX;
use zeroize::Zeroizing;

/// Parts that are longer together are hashed one after the other. Room for a block and what stands before it.
const GATHERED_BYTES_MAX: usize = BLOCK_BYTES_MAX + CHUNK_LEN;

thread_local! {
    /// The memory of one thread, used again from block to block.
    static GATHERED: RefCell<Zeroizing<Vec<u8>>> = RefCell::default();
}

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
        wiping_behind(|| keyed(key, parts, out));
    }

    fn derive_key(&self, context: &str, parts: &[&[u8]]) -> [u8; KEY_BYTES] {
        wiping_behind(|| {
            let mut hasher = Hasher::new_derive_key(context);
            parts.iter().for_each(|part| {
                hasher.update(part);
            });
            *hasher.finalize().as_bytes()
        })
    }
}

/// Its hasher is wiped with the frame that it lies in: to wipe it by itself costs as much as hashing 4 KiB.
fn keyed(key: &[u8; KEY_BYTES], parts: &[&[u8]], out: &mut [u8]) {
    let mut hasher = Hasher::new_keyed(key);
    let len: usize = parts.iter().map(|part| part.len()).sum();
    // Within one chunk there is nothing to do side by side.
    let gathers = parts.len() > 1 && len > CHUNK_LEN && len <= GATHERED_BYTES_MAX;
    let hash_gathered = |gathered: &RefCell<Zeroizing<Vec<u8>>>| {
        let gathered = &mut *gathered.borrow_mut();
        gathered.clear();
        // At once, so that no copy is left where a growing one was.
        gathered.reserve_exact(GATHERED_BYTES_MAX);
        parts
            .iter()
            .for_each(|part| gathered.extend_from_slice(part));
        hasher.update(gathered);
    };
    // A thread that is ending has no memory of its own any more.
    if !gathers || GATHERED.try_with(hash_gathered).is_err() {
        parts.iter().for_each(|part| {
            hasher.update(part);
        });
    }
    hasher.finalize_xof().fill(out);
}

#[cfg(test)]
mod tests {
    use super::super::blake3_portable::Blake3Portable;
    use super::*;

    #[test]
    fn parts_give_the_same_hash_whether_they_are_gathered_or_not() {
        let key = [7; KEY_BYTES];
        let bytes: Vec<u8> = (0..GATHERED_BYTES_MAX + 1)
            .map(|at| (at % 251) as u8)
            .collect();
        let most = GATHERED_BYTES_MAX;
        for len in [64, 1023, 1024, 1025, 5064, 65_600, most - 1, most, most + 1] {
            for cut in [0, 64, len] {
                let parts = [&bytes[..cut], &bytes[cut..len]];
                let (mut ours, mut plain) = ([0; 48], [0; 48]);
                Blake3Simd.keyed(&key, &parts, &mut ours);
                Blake3Portable.keyed(&key, &parts, &mut plain);
                assert_eq!(ours, plain, "{len} bytes cut at {cut}");
            }
        }
    }
}
