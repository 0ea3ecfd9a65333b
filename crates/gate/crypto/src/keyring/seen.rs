//! Remembers the newest header that a copy of a vault has seen, so that no older or different one replaces it.
//!
//! Takes   a keyring, or the remembered bytes
//! Gives   bytes for a keyring, the remembered facts for bytes; and whether a header continues the one that was seen
//! Never   trusts a number alone: a removed member can write any generation into an old header
//! Spec    spec/1-keys.md, [1.9.7]

use crate::keyring::Keyring;
use crate::keyring::error::UnlockError;
use strongroom_format::{Epoch, RecordId};

/// Bytes of it in the metadata: place of the newest record 8, its id 32, epoch 4, generation 8.
const SEEN_BYTES: usize = 52;

/// The newest header that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The place of its newest membership record in the chain, from 0.
    pub sequence: u64,
    /// The id of that record.
    pub head: RecordId,
    /// Its newest epoch.
    pub epoch: Epoch,
    /// Its generation.
    pub generation: u64,
}

impl Seen {
    /// The bytes that are kept.
    #[must_use]
    pub fn encode(&self) -> [u8; SEEN_BYTES] {
        let mut bytes = [0; SEEN_BYTES];
        bytes[..8].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[8..40].copy_from_slice(&self.head.0);
        bytes[40..44].copy_from_slice(&self.epoch.0.to_le_bytes());
        bytes[44..].copy_from_slice(&self.generation.to_le_bytes());
        bytes
    }

    /// What `bytes` say; `None` if they are of another length.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (sequence, rest) = bytes.split_first_chunk()?;
        let (head, rest) = rest.split_first_chunk()?;
        let (epoch, rest) = rest.split_first_chunk()?;
        Some(Self {
            sequence: u64::from_le_bytes(*sequence),
            head: RecordId(*head),
            epoch: Epoch(u32::from_le_bytes(*epoch)),
            generation: u64::from_le_bytes(rest.try_into().ok()?),
        })
    }
}

impl Keyring {
    /// What is to be kept of this header.
    #[must_use]
    pub fn seen(&self) -> Seen {
        Seen {
            sequence: (self.header.records.len() as u64).saturating_sub(1),
            head: self.membership.head(),
            epoch: self.epoch(),
            generation: self.generation(),
        }
    }

    /// Checks that this header is the one that was seen before, or goes on from it.
    ///
    /// # Errors
    /// `GenerationBehind`, or `HeadMissing` if its chain lacks the record that was seen.
    pub fn check_seen(&self, seen: &Seen) -> Result<(), UnlockError> {
        self.check_generation(seen.generation)?;
        let record = usize::try_from(seen.sequence)
            .ok()
            .and_then(|at| self.header.records.get(at));
        if record.is_none_or(|record| record.id != seen.head) || self.epoch() < seen.epoch {
            return Err(UnlockError::HeadMissing {
                record: seen.sequence,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyring::genesis::create;
    use crate::keyring::slot::{NewKey, NewSlot};
    use crate::random::SystemRandom;
    use crate::secrets::key_file::KeyFile;
    use strongroom_format::SuiteId;

    fn keyring() -> Keyring {
        let slots = [0; 2].map(|_| NewSlot {
            label: String::new(),
            key: NewKey::KeyFile(KeyFile::random(&SystemRandom).unwrap()),
        });
        let created = create(&slots, SuiteId::Aes256GcmBlake3, &SystemRandom, 0);
        created.unwrap().keyring
    }

    #[test]
    fn what_was_kept_comes_back_and_other_lengths_are_nothing() {
        let seen = keyring().seen();
        let bytes = seen.encode();
        assert_eq!(Seen::decode(&bytes), Some(seen));
        for len in 0..SEEN_BYTES {
            assert_eq!(Seen::decode(&bytes[..len]), None);
        }
        assert_eq!(Seen::decode(&[0; SEEN_BYTES + 1]), None);
    }

    /// A number is no proof: any generation can be written into an old header, or into a fork of it.
    /// Failed before: the generation was all that was compared.
    /// SECURITY.md, claim 10.
    #[test]
    fn a_header_without_the_record_that_was_seen_is_refused_whatever_its_generation() {
        let old = keyring();
        let slot = old.slots()[1].id;
        let now = old.remove_slot(slot, &SystemRandom).unwrap().keyring;
        let seen = now.seen();
        now.check_seen(&seen).unwrap();
        now.begin_epoch(&SystemRandom)
            .unwrap()
            .keyring
            .check_seen(&seen)
            .unwrap();
        let behind = UnlockError::GenerationBehind { seen: 2, found: 1 };
        assert_eq!(old.check_seen(&seen), Err(behind));
        let missing = Err(UnlockError::HeadMissing { record: 1 });
        let mut raised = old.clone();
        raised.header.generation = 1000;
        assert_eq!(raised.check_seen(&seen), missing, "the old header");
        let mut fork = old.begin_epoch(&SystemRandom).unwrap().keyring;
        fork.header.generation = 1000;
        assert_eq!(fork.check_seen(&seen), missing, "a fork as long");
        fork = fork.begin_epoch(&SystemRandom).unwrap().keyring;
        assert_eq!(fork.check_seen(&seen), missing, "a longer one");
    }
}
