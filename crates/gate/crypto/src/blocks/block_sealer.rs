//! Combines suite, compartment (the part of a vault that the keys are for), keys and provider into the one value that
//! seals and opens.
//!
//! Takes   the keys of an unlocked vault
//! Gives   a `BlockSealer`, cheap to clone and usable from every thread
//! Never   shows a key, or changes a clone that other code holds
//! Spec    spec/2-block.md
//!
//! Invariants
//!  (1) There is at least one epoch. Epoch numbers rise, and no number occurs twice. The last epoch seals.
//!  (2) Nothing is sealed by a provider that did not pass its self-test.

use crate::blocks::compression::Compression;
use crate::keys::{BlockKey, EpochKey, IdKey, RecordKey};
use crate::providers::Chosen;
use std::sync::Arc;
use strongroom_format::{Epoch, SuiteId};

/// Seals clear bytes and opens sealed ones, for one compartment of one vault.
///
/// A value: `add_epoch` changes this one and no clone of it. So code that seals and notes the epoch
/// beside the result uses one clone for both, and the two agree whatever happens elsewhere.
#[derive(Clone)]
pub struct BlockSealer {
    parts: Arc<Parts>,
    compression: Compression,
}

#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) suite: SuiteId,
    pub(crate) compartment: [u8; 16],
    pub(crate) id_key: IdKey,
    /// The oldest epoch of which a tag alone proves enough.
    tags_suffice_from: Epoch,
    epochs: Vec<EpochSecrets>,
    pub(crate) chosen: Chosen,
}

/// What is derived from the key of one epoch.
#[derive(Clone)]
pub(crate) struct EpochSecrets {
    pub(crate) epoch: Epoch,
    pub(crate) block: BlockKey,
    pub(crate) record: RecordKey,
}

impl BlockSealer {
    /// A sealer for `compartment` (16 zero bytes for the vault's own root) that seals under the newest of `epochs`.
    ///
    /// # Panics
    /// If `epochs` is empty or names one epoch twice: the caller's keyring is broken. If no provider computes `suite`:
    /// `unlock` and `create` have asked `providers::ready` before; so does a caller that needs no keyring.
    #[must_use]
    pub fn new(
        suite: SuiteId,
        compartment: [u8; 16],
        id_key: IdKey,
        epochs: Vec<(Epoch, EpochKey)>,
    ) -> Self {
        let chosen = Chosen::now(suite)
            .unwrap_or_else(|error| panic!("(2) holds: `providers::ready` was asked: {error}"));
        Self::computed_by(chosen, compartment, id_key, epochs)
    }

    /// The same for the suite of `chosen`, which computes whatever is preferred.
    ///
    /// # Panics
    /// If `epochs` is empty or names one epoch twice.
    pub(crate) fn computed_by(
        chosen: Chosen,
        compartment: [u8; 16],
        id_key: IdKey,
        epochs: Vec<(Epoch, EpochKey)>,
    ) -> Self {
        assert!(
            !epochs.is_empty(),
            "(1) holds: a keyring has at least one epoch"
        );
        let mut parts = Parts {
            suite: chosen.suite(),
            compartment,
            id_key,
            tags_suffice_from: Epoch(0),
            epochs: Vec::new(),
            chosen,
        };
        for (epoch, key) in &epochs {
            parts.insert(*epoch, key);
        }
        Self {
            parts: Arc::new(parts),
            compression: Compression::None,
        }
    }

    /// The same sealer making the full proof of every block of an epoch before `epoch`, also where a part is read: somebody
    /// who is no member any more knows the keys of those epochs.    [2.23]
    #[must_use]
    pub fn proving_fully_before(mut self, epoch: Epoch) -> Self {
        Arc::make_mut(&mut self.parts).tags_suffice_from = epoch;
        self
    }

    /// Whether every opening of a block of `epoch` makes the full proof, and so opens all of the block or nothing.
    #[must_use]
    pub fn proves_fully(&self, epoch: Epoch) -> bool {
        epoch < self.parts.tags_suffice_from
    }

    /// The same sealer naming records by the id key: that of a key slot, whose id key names nothing else.    [1.6.3]
    pub(crate) fn naming_records_by_the_id_key(mut self) -> Self {
        let parts = Arc::make_mut(&mut self.parts);
        for secrets in &mut parts.epochs {
            secrets.record = RecordKey::from_bytes(*parts.id_key.bytes());
        }
        self
    }

    /// The same sealer compressing what it seals, or not; what it opens stays the same.
    #[must_use]
    pub fn with_compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// Whether it compresses what it seals.
    #[must_use]
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// The same sealer computing with `chosen`; the bytes it gives stay the same.
    ///
    /// # Panics
    /// If `chosen` is for another suite.
    #[must_use]
    pub fn with_chosen(mut self, chosen: Chosen) -> Self {
        assert_eq!(chosen.suite(), self.suite(), "one suite seals");
        Arc::make_mut(&mut self.parts).chosen = chosen;
        self
    }

    /// The providers that compute.
    #[must_use]
    pub fn chosen(&self) -> Chosen {
        self.parts.chosen
    }

    /// Adds the key of one more epoch. If it is the newest, this value seals under it from now on.
    ///
    /// # Panics
    /// If the epoch is known already.
    pub fn add_epoch(&mut self, epoch: Epoch, key: &EpochKey) {
        Arc::make_mut(&mut self.parts).insert(epoch, key);
    }

    /// The epoch that seals.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.parts.newest().epoch
    }

    /// Whether there is a key to open what was sealed under `epoch`.
    #[must_use]
    pub fn has_epoch(&self, epoch: Epoch) -> bool {
        self.parts.secrets(epoch).is_some()
    }

    /// The suite that seals and opens.
    #[must_use]
    pub fn suite(&self) -> SuiteId {
        self.parts.suite
    }

    pub(crate) fn parts(&self) -> &Parts {
        &self.parts
    }
}

impl std::fmt::Debug for BlockSealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockSealer")
            .field("suite", &self.suite())
            .field("epoch", &self.epoch())
            .finish_non_exhaustive()
    }
}

impl Parts {
    fn insert(&mut self, epoch: Epoch, key: &EpochKey) {
        let secrets = EpochSecrets {
            epoch,
            block: BlockKey::of(key),
            record: RecordKey::of(key),
        };
        match self.position(epoch) {
            Ok(_) => panic!("(1) holds: epoch {} is given once", epoch.0),
            Err(position) => self.epochs.insert(position, secrets),
        }
    }

    pub(crate) fn newest(&self) -> &EpochSecrets {
        self.epochs
            .last()
            .expect("(1) holds: there is at least one epoch")
    }

    pub(crate) fn secrets(&self, epoch: Epoch) -> Option<&EpochSecrets> {
        Some(&self.epochs[self.position(epoch).ok()?])
    }

    fn position(&self, epoch: Epoch) -> Result<usize, usize> {
        self.epochs
            .binary_search_by_key(&epoch, |known| known.epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> EpochKey {
        EpochKey::from_bytes([byte; 32])
    }

    fn sealer(epochs: Vec<(Epoch, EpochKey)>) -> BlockSealer {
        BlockSealer::new(
            SuiteId::Aes256GcmBlake3,
            [0; 16],
            IdKey::from_bytes([1; 32]),
            epochs,
        )
    }

    #[test]
    fn the_newest_epoch_seals_in_whatever_order_they_are_given() {
        let mut sealer = sealer(vec![(Epoch(7), key(7)), (Epoch(3), key(3))]);
        assert_eq!(sealer.epoch(), Epoch(7));
        sealer.add_epoch(Epoch(5), &key(5));
        assert_eq!(sealer.epoch(), Epoch(7));
        sealer.add_epoch(Epoch(8), &key(8));
        assert_eq!(sealer.epoch(), Epoch(8));
    }

    #[test]
    fn adding_an_epoch_leaves_clones_as_they_were() {
        let mut sealer = sealer(vec![(Epoch(0), key(0))]);
        let clone = sealer.clone();
        sealer.add_epoch(Epoch(1), &key(1));
        assert_eq!((clone.epoch(), sealer.epoch()), (Epoch(0), Epoch(1)));
    }

    #[test]
    #[should_panic(expected = "epoch 4 is given once")]
    fn one_epoch_with_two_keys_is_a_bug() {
        let _ = sealer(vec![(Epoch(4), key(1)), (Epoch(4), key(2))]);
    }

    #[test]
    fn debug_shows_suite_and_epoch_only() {
        let shown = format!("{:?}", sealer(vec![(Epoch(4), key(0xab))]));
        assert_eq!(
            shown,
            "BlockSealer { suite: Aes256GcmBlake3, epoch: Epoch(4), .. }"
        );
    }
}
