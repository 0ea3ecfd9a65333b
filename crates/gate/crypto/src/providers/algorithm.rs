//! The algorithms that have providers, by their standard names.

use strongroom_format::SuiteId;

/// An algorithm that has providers, by its standard name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Algorithm {
    /// Seals the chunks of suite 1, and every key slot.
    Aes256Gcm,
    /// Seals the chunks of suite 2 (RFC 8439).
    ChaCha20Poly1305,
    /// Seals the chunks of suite 3.
    Aegis256,
    /// Names blocks and derives keys.
    Blake3,
    /// Makes the key of a slot from a passphrase (RFC 9106).
    Argon2id,
    /// Signs membership and revisions (RFC 8032).
    Ed25519,
}

impl Algorithm {
    /// Every algorithm, in the order in which they are shown.
    pub const ALL: &'static [Self] = &[
        Self::Aes256Gcm,
        Self::ChaCha20Poly1305,
        Self::Aegis256,
        Self::Blake3,
        Self::Argon2id,
        Self::Ed25519,
    ];

    /// The standard name, which preferences and tables use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aes256Gcm => "AES-256-GCM",
            Self::ChaCha20Poly1305 => "ChaCha20-Poly1305",
            Self::Aegis256 => "AEGIS-256",
            Self::Blake3 => "BLAKE3",
            Self::Argon2id => "Argon2id",
            Self::Ed25519 => "Ed25519",
        }
    }

    /// The algorithm of that name, in whatever case; `None` if there is none.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|algorithm| algorithm.name().eq_ignore_ascii_case(name))
    }

    /// What encrypts the chunks of `suite`.
    #[must_use]
    pub const fn aead_of(suite: SuiteId) -> Self {
        match suite {
            SuiteId::Aes256GcmBlake3 => Self::Aes256Gcm,
            SuiteId::ChaCha20Poly1305Blake3 => Self::ChaCha20Poly1305,
            SuiteId::Aegis256Blake3 => Self::Aegis256,
        }
    }
}

impl std::fmt::Display for Algorithm {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name())
    }
}
