//! Seals and opens small records that must not even reveal whether two of them are equal.
//!
//! Takes   clear bytes, and 32 random bytes for the salt
//! Gives   salt ‖ id ‖ sealed chunks, and back
//! Never   trusts the id stored with the record: it is recomputed on every open
//! Spec    spec/2-block.md, [2.24] to [2.27]
//!
//! Invariants
//!  (1) If the random generator is broken, or if a record has no random salt (kind 18), outsiders learn at most that two records
//!      are equal.                                                                                              [2.25]
//!  (2) A guess at a record's content can be compared with its id only with the epoch's key.        [2.24]

use crate::blocks::block_sealer::BlockSealer;
use crate::blocks::open::{OpenError, open_chunks};
use crate::blocks::seal::seal_chunks;
use crate::blocks::suite::{BlockSecret, SALT_BYTES, block_id};
use crate::random::{Random, RandomError};
use strongroom_format::limits::{SEALED_RECORD_CLEAR_BYTES_MAX, SECTOR_BYTES};
use strongroom_format::span::{self, clear_len, sealed_len};
use strongroom_format::{BlockId, Epoch, Kind};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// Bytes of a record before its sealed chunks: salt and name.
pub const RECORD_HEAD_BYTES: usize = SALT_BYTES + 32;

/// Length in bytes of a record sealed from `clear_len` bytes.
#[must_use]
pub const fn record_len(clear_len: usize) -> usize {
    RECORD_HEAD_BYTES.saturating_add(sealed_len(clear_len))
}

/// How long content of `clear_len` bytes is made by zeros at its end, before it is sealed, so that the record and `beside` other bytes
/// fill whole sectors.
///
/// The fewest sectors that can be filled: some counts cannot, because no content seals to that length. Depends on `clear_len`
/// by the sectors alone.
#[must_use]
pub const fn padded_len(clear_len: usize, beside: usize) -> usize {
    let fixed = beside + RECORD_HEAD_BYTES;
    let mut whole = (fixed + sealed_len(clear_len)).next_multiple_of(SECTOR_BYTES);
    loop {
        if let Some(padded) = span::clear_len(whole - fixed) {
            return padded;
        }
        whole += SECTOR_BYTES;
    }
}

impl BlockSealer {
    /// Seals `clear`, at most `SEALED_RECORD_CLEAR_BYTES_MAX` bytes, under the newest epoch and a fresh salt.
    ///
    /// Gives `record_len(clear.len())` bytes.
    ///
    /// # Errors
    /// `RandomError` if `random` fails; then nothing was sealed.
    ///
    /// # Panics
    /// If `clear` is longer: the caller bounds what it writes.
    pub fn seal_record(
        &self,
        random: &dyn Random,
        kind: Kind,
        clear: &[u8],
    ) -> Result<Vec<u8>, RandomError> {
        let mut salt = [0; SALT_BYTES];
        random.fill(&mut salt)?;
        Ok(self.seal_salted(salt, kind, clear))
    }

    /// The same without a salt: whoever has the keys seals equal content to equal bytes, and whoever sees two records sees whether they
    /// are equal. For kinds of which every device must make the same bytes.                                        [2.25]
    ///
    /// # Panics
    /// As `seal_record`.
    #[must_use]
    pub fn seal_equal_record(&self, kind: Kind, clear: &[u8]) -> Vec<u8> {
        self.seal_salted([0; SALT_BYTES], kind, clear)
    }

    fn seal_salted(&self, salt: [u8; SALT_BYTES], kind: Kind, clear: &[u8]) -> Vec<u8> {
        assert!(
            clear.len() <= SEALED_RECORD_CLEAR_BYTES_MAX,
            "a record is bounded before it is sealed"
        );
        let parts = self.parts();
        let secrets = parts.newest();
        let blake3 = parts.chosen.blake3(clear.len());
        let id = block_id(
            blake3,
            secrets.record.bytes(),
            kind,
            &parts.compartment,
            &salt,
            clear,
        );
        let mut record = vec![0; record_len(clear.len())];
        record[..SALT_BYTES].copy_from_slice(&salt);
        record[SALT_BYTES..RECORD_HEAD_BYTES].copy_from_slice(&id.0);
        seal_chunks(
            parts,
            &BlockSecret::of(blake3, &secrets.block, parts.suite, &id),
            clear,
            &mut record[RECORD_HEAD_BYTES..],
        );
        record
    }

    /// Opens a record and recomputes its name: the full proof. What it held is wiped when dropped.
    ///
    /// Allocates less than `record.len()` bytes.
    ///
    /// # Errors
    /// `UnknownEpoch`, `TooLong`, or `Tampered` for everything else, a wrong length too.
    pub fn open_record(
        &self,
        epoch: Epoch,
        kind: Kind,
        record: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, OpenError> {
        let tampered = OpenError::Tampered { kind };
        let (salt, rest) = record.split_first_chunk::<SALT_BYTES>().ok_or(tampered)?;
        let (id, sealed) = rest.split_first_chunk::<32>().ok_or(tampered)?;
        let clear_len = clear_len(sealed.len()).ok_or(tampered)?;
        if clear_len > SEALED_RECORD_CLEAR_BYTES_MAX {
            return Err(OpenError::TooLong { kind, clear_len });
        }
        let parts = self.parts();
        let secrets = parts
            .secrets(epoch)
            .ok_or(OpenError::UnknownEpoch { epoch })?;
        let blake3 = parts.chosen.blake3(clear_len);
        let secret = BlockSecret::of(blake3, &secrets.block, parts.suite, &BlockId(*id));
        let clear = Zeroizing::new(open_chunks(parts, &secret, kind, clear_len, sealed)?);
        let named_by = |key| {
            let found = block_id(blake3, key, kind, &parts.compartment, salt, &clear);
            bool::from(found.0.ct_eq(id))
        };
        // Earlier versions named records by the key that names blocks.    [2.34]
        if named_by(secrets.record.bytes()) || named_by(parts.id_key.bytes()) {
            Ok(clear)
        } else {
            Err(tampered)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{EpochKey, IdKey, RecordKey};
    use crate::providers::registry::blake3;
    use crate::random::SystemRandom;
    use strongroom_format::SuiteId;

    /// Goal: the name beside a record confirms a guess of what it holds only to the keys of its epoch, so never to who has
    /// the id key and the keys of earlier epochs.
    /// Failed before: the name was made by the id key, which stays for the life of a vault.
    /// SECURITY.md, claim 5.
    #[test]
    fn a_name_confirms_a_guess_only_to_the_keys_of_its_epoch() {
        let (id_key, key) = (IdKey::from_bytes([1; 32]), |byte| {
            EpochKey::from_bytes([byte; 32])
        });
        let epochs = vec![(Epoch(0), key(2)), (Epoch(1), key(3))];
        let sealer = BlockSealer::new(SuiteId::Aes256GcmBlake3, [0; 16], id_key.clone(), epochs);
        let guess = b"PIN: 4711";
        let record = sealer
            .seal_record(&SystemRandom, Kind::Intent, guess)
            .unwrap();
        let (salt, name) = record[..RECORD_HEAD_BYTES].split_first_chunk().unwrap();
        let confirms =
            |key: &[u8; 32]| block_id(blake3(), key, Kind::Intent, &[0; 16], salt, guess).0 == name;
        assert!(confirms(RecordKey::of(&key(3)).bytes()));
        for known in [
            id_key.bytes(),
            RecordKey::of(&key(2)).bytes(),
            key(2).bytes(),
        ] {
            assert!(!confirms(known));
        }
    }

    /// Goal: what is padded fills sectors, holds what it pads, and never gets shorter as that gets longer.
    #[test]
    fn padded_content_fills_whole_sectors_whatever_its_length() {
        for beside in [0, 64] {
            let mut last = 0;
            for clear_len in (0..9000).chain((9000..1_100_000).step_by(101)) {
                let padded = padded_len(clear_len, beside);
                assert!(padded >= clear_len && padded >= last);
                assert_eq!(
                    (beside + record_len(padded)) % SECTOR_BYTES,
                    0,
                    "{clear_len}"
                );
                let needed = (beside + record_len(clear_len)).div_ceil(SECTOR_BYTES);
                let taken = (beside + record_len(padded)) / SECTOR_BYTES;
                assert!(taken - needed <= usize::from(taken > 240), "{clear_len}");
                last = padded;
            }
        }
    }
}
