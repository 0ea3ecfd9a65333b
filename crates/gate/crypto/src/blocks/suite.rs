//! Derives a block's id from its content, and from that id the key and nonces that seal the block.
//!
//! Takes   kind, compartment (the part of the vault that the keys are for), salt and clear bytes; the keys of the vault
//! Gives   the `BlockId`, and from it a `BlockSecret` that is used for one plaintext only
//! Never   encrypts; never stores a nonce, counts one up or draws one at random
//! Spec    spec/2-block.md, [2.1] to [2.17]
//!
//! Invariants
//!  (1) Two plaintexts, or one plaintext in two contexts, never share a `BlockSecret`.            [2.12] [2.14]
//!  (2) Within a block no two chunks share a nonce, and only the last is flagged.                        [2.17]

use crate::keys::{BlockKey, KEY_BYTES};
use crate::providers::{Blake3, NONCE_BYTES_MAX, Nonce};
use strongroom_format::{BlockId, Kind, SuiteId};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// Bytes of the nonce of `suite`.
#[must_use]
pub const fn nonce_bytes(suite: SuiteId) -> usize {
    match suite {
        SuiteId::Aes256GcmBlake3 | SuiteId::ChaCha20Poly1305Blake3 => 12,
        SuiteId::Aegis256Blake3 => 32,
    }
}

/// Bytes of a context: label 12, format 2, kind 2, compartment 16, salt 32.
const CONTEXT_BYTES: usize = 64;

/// Bytes of a salt in a context; all zero for what has none.
pub const SALT_BYTES: usize = 32;

/// What every context begins with.
const LABEL: &[u8; 12] = b"strongroom\0\0";

/// The version of the format that this build writes.
const FORMAT: u16 = 1;

/// The salt of what has none.
pub(crate) const NO_SALT: [u8; SALT_BYTES] = [0; SALT_BYTES];

/// Gives the 64 bytes that stand before the plaintext when a name is computed.
fn context(kind: Kind, compartment: &[u8; 16], salt: &[u8; SALT_BYTES]) -> [u8; CONTEXT_BYTES] {
    let mut context = [0; CONTEXT_BYTES];
    context[..12].copy_from_slice(LABEL);
    context[12..14].copy_from_slice(&FORMAT.to_le_bytes());
    context[14..16].copy_from_slice(&kind.number().to_le_bytes());
    context[16..32].copy_from_slice(compartment);
    context[32..].copy_from_slice(salt);
    context
}

/// Gives the name of `clear`: a keyed hash over its context and exactly the bytes that will be encrypted.
///
/// `key`: that of the `IdKey` for a block, that of an epoch's `RecordKey` for a record.
pub(crate) fn block_id(
    blake3: &dyn Blake3,
    key: &[u8; KEY_BYTES],
    kind: Kind,
    compartment: &[u8; 16],
    salt: &[u8; SALT_BYTES],
    clear: &[u8],
) -> BlockId {
    let mut id = BlockId([0; 32]);
    let context = context(kind, compartment, salt);
    blake3.keyed(key, &[&context, clear], &mut id.0);
    id
}

/// Whether a chunk is the last of its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChunkPlace {
    /// Others follow.
    Inner = 0,
    /// None follows.
    Last = 1,
}

/// The key and base nonce of one block.
#[derive(Zeroize, ZeroizeOnDrop)]
pub(crate) struct BlockSecret {
    key: [u8; KEY_BYTES],
    /// As many bytes as the suite's nonce has, and zeros behind them.
    base: [u8; NONCE_BYTES_MAX],
    nonce_bytes: usize,
}

impl BlockSecret {
    /// The secret of the block that `id` names, under `suite` and the epoch of `key`.
    pub(crate) fn of(blake3: &dyn Blake3, key: &BlockKey, suite: SuiteId, id: &BlockId) -> Self {
        let nonce_bytes = nonce_bytes(suite);
        let mut stream = Zeroizing::new([0; KEY_BYTES + NONCE_BYTES_MAX]);
        let stream = &mut stream[..KEY_BYTES + nonce_bytes];
        blake3.keyed(key.bytes(), &[&suite.number().to_le_bytes(), &id.0], stream);
        let mut secret = Self {
            key: [0; KEY_BYTES],
            base: [0; NONCE_BYTES_MAX],
            nonce_bytes,
        };
        secret.key.copy_from_slice(&stream[..KEY_BYTES]);
        secret.base[..nonce_bytes].copy_from_slice(&stream[KEY_BYTES..]);
        secret
    }

    /// The AEAD key.
    pub(crate) const fn key(&self) -> &[u8; KEY_BYTES] {
        &self.key
    }

    /// The nonce of chunk `number`, counted from 0: the base with number and flag put over it.
    pub(crate) fn nonce(&self, number: usize, place: ChunkPlace) -> Nonce {
        let mut nonce = self.base;
        for (byte, mask) in nonce.iter_mut().zip((number as u64).to_le_bytes()) {
            *byte ^= mask;
        }
        nonce[self.nonce_bytes - 1] ^= place as u8;
        Nonce(nonce)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers::registry::blake3;
    use std::collections::HashSet;
    use strongroom_format::limits::{CHUNK_BYTES, SEALED_RECORD_CLEAR_BYTES_MAX};

    #[test]
    fn a_context_lays_its_fields_out_as_the_specification_says() {
        let context = context(Kind::BatchIndex, &[0xc0; 16], &[0x5a; 32]);
        assert_eq!(&context[..16], b"strongroom\0\0\x01\0\x04\0");
        assert_eq!(context[16..32], [0xc0; 16]);
        assert_eq!(context[32..], [0x5a; 32]);
    }

    #[test]
    fn no_two_chunks_of_the_longest_record_share_a_nonce() {
        let secret = BlockSecret {
            key: [1; 32],
            base: [0xff; NONCE_BYTES_MAX],
            nonce_bytes: 12,
        };
        let chunks = SEALED_RECORD_CLEAR_BYTES_MAX / CHUNK_BYTES;
        let nonces: HashSet<_> = (0..chunks)
            .flat_map(|number| {
                [
                    secret.nonce(number, ChunkPlace::Inner),
                    secret.nonce(number, ChunkPlace::Last),
                ]
            })
            .collect();
        assert_eq!(nonces.len(), 2 * chunks);
    }

    #[test]
    fn kind_compartment_salt_key_and_content_each_change_the_name() {
        let key = |byte| [byte; 32];
        let names = [
            block_id(
                blake3(),
                &key(1),
                Kind::Data,
                &[2; 16],
                &NO_SALT,
                b"content",
            ),
            block_id(
                blake3(),
                &key(9),
                Kind::Data,
                &[2; 16],
                &NO_SALT,
                b"content",
            ),
            block_id(
                blake3(),
                &key(1),
                Kind::Slot,
                &[2; 16],
                &NO_SALT,
                b"content",
            ),
            block_id(
                blake3(),
                &key(1),
                Kind::Data,
                &[9; 16],
                &NO_SALT,
                b"content",
            ),
            block_id(
                blake3(),
                &key(1),
                Kind::Data,
                &[2; 16],
                &[9; 32],
                b"content",
            ),
            block_id(
                blake3(),
                &key(1),
                Kind::Data,
                &[2; 16],
                &NO_SALT,
                b"Content",
            ),
        ];
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
    }

    #[test]
    fn epoch_key_suite_and_name_each_change_the_secret() {
        let key = |byte| BlockKey::from_bytes([byte; 32]);
        let secrets = [
            BlockSecret::of(
                blake3(),
                &key(1),
                SuiteId::Aes256GcmBlake3,
                &BlockId([1; 32]),
            ),
            BlockSecret::of(
                blake3(),
                &key(2),
                SuiteId::Aes256GcmBlake3,
                &BlockId([1; 32]),
            ),
            BlockSecret::of(
                blake3(),
                &key(1),
                SuiteId::ChaCha20Poly1305Blake3,
                &BlockId([1; 32]),
            ),
            BlockSecret::of(
                blake3(),
                &key(1),
                SuiteId::Aes256GcmBlake3,
                &BlockId([2; 32]),
            ),
        ];
        assert_eq!(
            secrets
                .iter()
                .map(|secret| secret.key)
                .collect::<HashSet<_>>()
                .len(),
            4
        );
        assert_eq!(
            secrets
                .iter()
                .map(|secret| secret.base)
                .collect::<HashSet<_>>()
                .len(),
            4
        );
    }
}
