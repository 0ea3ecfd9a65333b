//! The kinds of work of an algorithm: each is measured, and has a provider chosen for it.

use super::Algorithm;
use strongroom_format::limits::BLOCK_BYTES_MAX;

/// Memory of the measured Argon2id run: enough to leave the processor's caches, little enough to be quick.
pub(crate) const STRETCH_KIB: u32 = 8 * 1024;

/// Bytes of a signed message: a membership record with its label.
const MESSAGE_BYTES: usize = 256;

/// What is done with an algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Work {
    /// A key is prepared, and the chunks of a block are copied and encrypted with it.
    Encrypt,
    /// The same, and decrypted.
    Decrypt,
    /// Bytes are hashed with a key.
    Hash,
    /// A passphrase is stretched over 8 MiB of memory, in one pass.
    Stretch,
    /// A message of 256 bytes is signed.
    Sign,
    /// A signature of such a message is verified.
    Verify,
    /// A whole block is sealed: named by its hash, its key derived, encrypted.
    Seal,
    /// A whole block is opened: decrypted, and its name computed again.
    Open,
}

impl Work {
    /// What is measured of `algorithm`.
    #[must_use]
    pub const fn of(algorithm: Algorithm) -> &'static [Self] {
        match algorithm {
            Algorithm::Aes256Gcm | Algorithm::ChaCha20Poly1305 | Algorithm::Aegis256 => {
                &[Self::Encrypt, Self::Decrypt, Self::Seal, Self::Open]
            }
            Algorithm::Blake3 => &[Self::Hash],
            Algorithm::Argon2id => &[Self::Stretch],
            Algorithm::Ed25519 => &[Self::Sign, Self::Verify],
        }
    }

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Encrypt => "encrypt",
            Self::Decrypt => "decrypt",
            Self::Hash => "hash",
            Self::Stretch => "stretch",
            Self::Sign => "sign",
            Self::Verify => "verify",
            Self::Seal => "seal",
            Self::Open => "open",
        }
    }

    /// What its speed is counted in.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Sign | Self::Verify => "per s",
            _ => "MiB/s",
        }
    }

    /// Whether it is one algorithm alone, by which its provider is chosen. The others are made of several.
    #[must_use]
    pub const fn decides(self) -> bool {
        !matches!(self, Self::Seal | Self::Open)
    }

    /// The work by which the provider of this one was chosen: itself, if it decides.
    #[must_use]
    pub const fn decided_by(self) -> Self {
        match self {
            Self::Seal => Self::Encrypt,
            Self::Open => Self::Decrypt,
            decides => decides,
        }
    }

    /// Whether it is ever done by that many threads at once: a passphrase is stretched by one.
    pub(crate) fn runs_on(self, threads: usize) -> bool {
        threads == 1 || self != Self::Stretch
    }

    /// The sizes among `sizes` that it is measured at, or the one that it always has.
    pub(crate) fn sizes(self, sizes: &[usize]) -> Vec<usize> {
        let up_to = |most: usize| sizes.iter().copied().filter(|size| *size <= most).collect();
        match self {
            Self::Encrypt | Self::Decrypt | Self::Hash => up_to(usize::MAX),
            Self::Seal | Self::Open => up_to(BLOCK_BYTES_MAX),
            Self::Stretch => vec![STRETCH_KIB as usize * 1024],
            Self::Sign | Self::Verify => vec![MESSAGE_BYTES],
        }
    }

    /// How much one operation over `bytes` is, in the unit of the speed.
    pub(crate) fn amount(self, bytes: usize) -> f64 {
        match self {
            Self::Sign | Self::Verify => 1.0,
            _ => bytes as f64 / f64::from(1 << 20),
        }
    }
}
