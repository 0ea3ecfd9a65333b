//! The key table: every secret key of a vault, and the keys that may be derived from it.
//!
//! Takes   random bytes, or bytes from a grant or slot
//! Gives   keys of separate types, each for one purpose
//! Never   shows a key: `Debug` prints the type's name only, and memory is wiped when a key is dropped
//! Spec    spec/1-keys.md, spec/2-block.md
//!
//! Invariants
//!  (1) Each purpose has one context string of its own; only `Purpose` makes them.         [2.10]

pub use crate::limits::KEY_BYTES;

use crate::locked::Locked;
use crate::providers::registry::blake3;
use crate::random::{Random, RandomError};
use zeroize::Zeroize;

/// Makes `Purpose`, its context strings and the list of all of them from one table, so that none can be left out.
macro_rules! purposes {
    ($($(#[doc = $doc:literal])+ $name:ident = $context:literal,)+) => {
        /// What a derived key is for: the one table of contexts for BLAKE3 `derive_key`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Purpose {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Purpose {
            /// The context string of this purpose, part of the format.
            pub(crate) const fn context(self) -> &'static str {
                match self {
                    $(Self::$name => $context,)+
                }
            }

            /// Every purpose there is.
            #[cfg(test)]
            pub(crate) const ALL: &'static [Self] = &[$(Self::$name,)+];
        }
    };
}

purposes! {
    /// From an epoch key: the key that gives each block its own key and base nonce.
    BlockSealing = "strongroom format 1 2026-11-21 block sealing",
    /// From an epoch key: the key that names the records of the epoch.
    RecordNaming = "strongroom format 1 2026-11-21 record naming",
    /// From an epoch's keys: the public value that fixes them in the membership chain.
    EpochCommitment = "strongroom format 1 2026-11-21 epoch commitment",
    /// From an epoch key: the key of the MAC over the bytes of the header.
    HeaderMac = "strongroom format 1 2026-11-21 header mac",
    /// From a principal's seed: its Ed25519 secret key.
    PrincipalSigning = "strongroom format 1 2026-11-21 principal ed25519",
    /// From a principal's seed: its X-Wing decapsulation key.
    PrincipalKem = "strongroom format 1 2026-11-21 principal x-wing",
    /// From what Argon2id made of a passphrase: the key of one slot.
    SlotPassphrase = "strongroom format 1 2026-11-21 slot passphrase",
    /// From the bits of a recovery code: the key of its slot.
    SlotRecoveryCode = "strongroom format 1 2026-11-21 slot recovery code",
    /// From the bits of a key file: the key of its slot.
    SlotKeyFile = "strongroom format 1 2026-11-21 slot key file",
    /// From the key of a slot: what seals its payload.
    SlotSealing = "strongroom format 1 2026-11-21 slot sealing",
    /// From the key of a slot: what names, and so commits to, its payload.
    SlotNaming = "strongroom format 1 2026-11-21 slot naming",
    /// From a printed secret: the bits that detect a mistyped one.
    PrintedChecksum = "strongroom format 1 2026-11-21 printed secret checksum",
    /// From what two devices that pair agreed on: what seals the request of the new one.
    PairingRequest = "strongroom format 1 2026-11-25 pairing request",
    /// From the same: what seals the answer of the old one.
    PairingAnswer = "strongroom format 1 2026-11-25 pairing answer",
    /// From an epoch key and the id of an address: the X-Wing decapsulation key of that address of the inbox.
    InboxKem = "strongroom format 1 2026-11-27 inbox x-wing",
}

/// Derives the key for `purpose` from `secret`, which must not be guessable.
pub(crate) fn derive(purpose: Purpose, secret: &[u8]) -> [u8; KEY_BYTES] {
    blake3().derive_key(purpose.context(), &[secret])
}

/// Makes a newtype of a secret key that lies in locked memory, is wiped on drop and never shown.
macro_rules! secret_key {
    ($(#[doc = $doc:literal])+ $name:ident) => {
        $(#[doc = $doc])+
        #[derive(Clone)]
        pub struct $name(Locked<KEY_BYTES>);

        impl $name {
            /// Takes over bytes that a grant, a slot or a test gave.
            #[must_use]
            pub fn from_bytes(mut bytes: [u8; KEY_BYTES]) -> Self {
                let key = Self(Locked::copy_of(&bytes));
                bytes.zeroize();
                key
            }

            /// A new key from `random`.
            ///
            /// # Errors
            /// `RandomError` if the source fails.
            pub fn random(random: &dyn Random) -> Result<Self, RandomError> {
                Locked::filled(|bytes| random.fill(bytes)).map(Self)
            }

            /// The key itself. Only this crate sees it.
            pub(crate) fn bytes(&self) -> &[u8; KEY_BYTES] {
                self.0.bytes()
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(concat!(stringify!($name), "(..)"))
            }
        }
    };
}

secret_key! {
    /// The random key of one epoch. Nothing is sealed with it directly: see `Purpose` for what is derived.
    EpochKey
}

secret_key! {
    /// The key that names blocks. The same for the life of a vault and granted with every epoch,
    /// so that re-sealing changes no name.
    IdKey
}

secret_key! {
    /// Derived from an epoch key: gives each block its own key and base nonce, and nothing else.
    BlockKey
}

secret_key! {
    /// Names the records of one epoch. The keys of other epochs do not compute a name, so the one that
    /// lies in clear beside a record confirms no guess of what it holds.
    RecordKey
}

impl RecordKey {
    /// The record key of the epoch that `epoch_key` belongs to.
    pub(crate) fn of(epoch_key: &EpochKey) -> Self {
        Self::from_bytes(derive(Purpose::RecordNaming, epoch_key.bytes()))
    }
}

impl BlockKey {
    /// The block key of the epoch that `epoch_key` belongs to.
    #[must_use]
    pub fn of(epoch_key: &EpochKey) -> Self {
        Self::from_bytes(derive(Purpose::BlockSealing, epoch_key.bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SystemRandom;
    use std::collections::HashSet;

    #[test]
    fn no_two_purposes_share_a_context() {
        let contexts: HashSet<_> = Purpose::ALL
            .iter()
            .map(|purpose| purpose.context())
            .collect();
        assert_eq!(contexts.len(), Purpose::ALL.len());
        assert!(
            contexts
                .iter()
                .all(|context| context.starts_with("strongroom format 1 "))
        );
    }

    #[test]
    fn debug_shows_no_byte_of_a_key() {
        assert_eq!(
            format!("{:?}", EpochKey::from_bytes([0xab; 32])),
            "EpochKey(..)"
        );
        assert_eq!(format!("{:?}", IdKey::from_bytes([0xab; 32])), "IdKey(..)");
        let block_key = BlockKey::of(&EpochKey::from_bytes([0xab; 32]));
        assert_eq!(format!("{block_key:?}"), "BlockKey(..)");
    }

    #[test]
    fn a_random_key_holds_what_the_source_gave() {
        let first = EpochKey::random(&SystemRandom).unwrap();
        let second = EpochKey::random(&SystemRandom).unwrap();
        assert_ne!(first.bytes(), second.bytes());
        assert_ne!(first.bytes(), &[0; 32]);
    }

    #[test]
    fn a_failing_source_makes_no_key() {
        struct Dead;
        impl Random for Dead {
            fn fill(&self, _: &mut [u8]) -> Result<(), RandomError> {
                Err(RandomError)
            }
        }
        assert!(EpochKey::random(&Dead).is_err());
    }
}
