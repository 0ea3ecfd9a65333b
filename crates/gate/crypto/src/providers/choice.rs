//! The choice of providers as a value: which provider computes which algorithm, up to which size sealing
//! stays on the calling thread, and how many threads share the rest.
//!
//! Takes   the result of a measurement, or nothing
//! Gives   a `Choice`, for `registry::set_choice`
//! Never   measures: the code that fills a `Choice` does

use super::catalog::provider_named;
use super::{Algorithm, PreferenceError, Provider, Work};
use crate::limits::SEAL_ALL_PARALLEL_BYTES_MIN;
use std::collections::BTreeMap;

/// How much one call computes over; what is fastest differs between small and large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SizeClass {
    /// Around 4 KiB: small files, tails, nodes of trees.
    Kib4,
    /// Around 64 KiB: a whole block.
    Kib64,
    /// Around 1 MiB: the longest records, and hashes over more.
    Mib1,
}

impl SizeClass {
    /// Every class, smallest first.
    pub const ALL: [Self; 3] = [Self::Kib4, Self::Kib64, Self::Mib1];

    /// The size it is measured at, in bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::Kib4 => 4 * 1024,
            Self::Kib64 => 64 * 1024,
            Self::Mib1 => 1024 * 1024,
        }
    }

    /// The least length of this class: borders lie in the geometric middle between the measured sizes.
    #[must_use]
    pub const fn from_bytes(self) -> usize {
        match self {
            Self::Kib4 => 0,
            Self::Kib64 => 16 * 1024,
            Self::Mib1 => 256 * 1024,
        }
    }

    /// The class of `len` bytes.
    #[must_use]
    pub const fn of(len: usize) -> Self {
        if len < Self::Kib64.from_bytes() {
            Self::Kib4
        } else if len < Self::Mib1.from_bytes() {
            Self::Kib64
        } else {
            Self::Mib1
        }
    }
}

/// What is preferred on this machine when nobody wishes otherwise.
#[derive(Clone, Debug)]
pub struct Choice {
    providers: BTreeMap<(Algorithm, Work, SizeClass), &'static dyn Provider>,
    /// Below this many clear bytes in one call, blocks are sealed on the calling thread.
    pub inline_below_bytes: usize,
    /// Threads that seal at once, the caller's included; `None` for one per core.
    pub threads: Option<usize>,
}

impl Default for Choice {
    /// No provider is named, so the first in the registry's order that works is taken.
    fn default() -> Self {
        Self {
            providers: BTreeMap::new(),
            inline_below_bytes: SEAL_ALL_PARALLEL_BYTES_MIN,
            threads: None,
        }
    }
}

impl Choice {
    /// The provider that does `work` of `algorithm` for `class`, if one is named.
    #[must_use]
    pub fn get(
        &self,
        algorithm: Algorithm,
        work: Work,
        class: SizeClass,
    ) -> Option<&'static dyn Provider> {
        self.providers.get(&(algorithm, work, class)).copied()
    }

    /// Names the provider that does `work` of `algorithm` for `class`.
    ///
    /// # Errors
    /// `UnknownProvider` if this build has none of that name for `algorithm`.
    pub fn put(
        &mut self,
        algorithm: Algorithm,
        work: Work,
        class: SizeClass,
        provider: &str,
    ) -> Result<(), PreferenceError> {
        let provider = provider_named(algorithm, provider)?;
        self.providers.insert((algorithm, work, class), provider);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_holds_the_size_it_is_measured_at() {
        for class in SizeClass::ALL {
            assert_eq!(SizeClass::of(class.bytes()), class);
            assert_eq!(SizeClass::of(class.from_bytes()), class);
        }
        assert_eq!(SizeClass::of(0), SizeClass::Kib4);
        assert_eq!(SizeClass::of(usize::MAX), SizeClass::Mib1);
    }

    #[test]
    fn a_provider_is_named_for_one_work_and_class_only() {
        let mut choice = Choice::default();
        let aes = Algorithm::Aes256Gcm;
        choice
            .put(aes, Work::Encrypt, SizeClass::Kib4, "ring")
            .unwrap();
        assert!(choice.get(aes, Work::Encrypt, SizeClass::Kib4).is_some());
        assert!(choice.get(aes, Work::Encrypt, SizeClass::Kib64).is_none());
        assert!(choice.get(aes, Work::Decrypt, SizeClass::Kib4).is_none());
        assert!(
            choice
                .put(aes, Work::Encrypt, SizeClass::Kib4, "dalek")
                .is_err()
        );
    }
}
