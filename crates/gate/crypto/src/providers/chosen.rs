//! Holds the providers that one sealer uses, so that they are not chosen again for each block.
//!
//! Takes   a suite, and preferences
//! Gives   the preferred AEADs for encryption and for decryption, for each size class, and the preferred BLAKE3
//! Never   changes: later preferences apply to sealers made later

use super::catalog::implementation;
use super::registry::{self, environment};
use super::{
    Aead, Algorithm, Blake3, Implementation, Preferences, Provider, ProviderError, SizeClass, Work,
};
use strongroom_format::SuiteId;

/// The providers chosen for one suite. Cheap to copy.
#[derive(Clone, Copy)]
pub struct Chosen {
    suite: SuiteId,
    encrypt: [(&'static dyn Provider, &'static dyn Aead); SizeClass::ALL.len()],
    decrypt: [(&'static dyn Provider, &'static dyn Aead); SizeClass::ALL.len()],
    blake3: [(&'static dyn Provider, &'static dyn Blake3); SizeClass::ALL.len()],
    inline_below_bytes: usize,
}

impl Chosen {
    /// What is preferred for `suite` now.
    ///
    /// # Errors
    /// `ProviderError` if the environment asks for what is not there, or no provider works.
    pub fn now(suite: SuiteId) -> Result<Self, ProviderError> {
        Self::by(suite, environment()?)
    }

    /// What is preferred for `suite`, with `wished` in the place of the environment.
    ///
    /// # Errors
    /// `ProviderError::NoProvider` if no provider works.
    pub fn by(suite: SuiteId, wished: &Preferences) -> Result<Self, ProviderError> {
        let algorithm = Algorithm::aead_of(suite);
        let aead = |work, class| {
            let provider = registry::preferred_by(algorithm, work, class, wished)?;
            match implementation(provider, algorithm) {
                Implementation::Aead(aead) => Ok((provider, aead)),
                _ => unreachable!("(2) of the registry holds: it is an AEAD"),
            }
        };
        let blake3 = |class| {
            let provider = registry::preferred_by(Algorithm::Blake3, Work::Hash, class, wished)?;
            match implementation(provider, Algorithm::Blake3) {
                Implementation::Blake3(blake3) => Ok((provider, blake3)),
                _ => unreachable!("(2) of the registry holds: it is BLAKE3"),
            }
        };
        let [small, middle, large] = SizeClass::ALL;
        Ok(Self {
            suite,
            encrypt: [
                aead(Work::Encrypt, small)?,
                aead(Work::Encrypt, middle)?,
                aead(Work::Encrypt, large)?,
            ],
            decrypt: [
                aead(Work::Decrypt, small)?,
                aead(Work::Decrypt, middle)?,
                aead(Work::Decrypt, large)?,
            ],
            blake3: [blake3(small)?, blake3(middle)?, blake3(large)?],
            inline_below_bytes: registry::choice().inline_below_bytes,
        })
    }

    /// The suite it computes.
    #[must_use]
    pub const fn suite(&self) -> SuiteId {
        self.suite
    }

    /// Below this many clear bytes in one call, blocks are sealed on the calling thread.
    #[must_use]
    pub const fn inline_below_bytes(&self) -> usize {
        self.inline_below_bytes
    }

    /// The same with another border between inline and pooled sealing, for measurements.
    #[must_use]
    pub const fn with_inline_below_bytes(mut self, bytes: usize) -> Self {
        self.inline_below_bytes = bytes;
        self
    }

    /// Who does what, per size class: encrypts, decrypts, hashes.
    #[must_use]
    pub fn providers(&self) -> Vec<(Algorithm, Work, SizeClass, &'static dyn Provider)> {
        let aead = Algorithm::aead_of(self.suite);
        let names = |of: &[(&'static dyn Provider, &'static dyn Aead)]| -> Vec<_> {
            of.iter().map(|(by, _)| *by).collect()
        };
        let hash = self.blake3.iter().map(|(by, _)| *by).collect();
        [
            (aead, Work::Encrypt, names(&self.encrypt)),
            (aead, Work::Decrypt, names(&self.decrypt)),
            (Algorithm::Blake3, Work::Hash, hash),
        ]
        .into_iter()
        .flat_map(|(algorithm, work, by)| {
            let classes = SizeClass::ALL.into_iter().zip(by);
            classes.map(move |(class, by)| (algorithm, work, class, by))
        })
        .collect()
    }

    /// The AEAD that encrypts content of `len` bytes.
    pub(crate) const fn encrypt(&self, len: usize) -> &'static dyn Aead {
        self.encrypt[SizeClass::of(len) as usize].1
    }

    /// The AEAD that decrypts content of `len` bytes.
    pub(crate) const fn decrypt(&self, len: usize) -> &'static dyn Aead {
        self.decrypt[SizeClass::of(len) as usize].1
    }

    /// The BLAKE3 for content of `len` bytes.
    pub(crate) const fn blake3(&self, len: usize) -> &'static dyn Blake3 {
        self.blake3[SizeClass::of(len) as usize].1
    }
}
