//! Every provider of this build.
//!
//! Takes   an algorithm, or a name
//! Gives   the providers that have it
//! Never   checks whether a provider works here: registry.rs does

use super::blake3_portable::Blake3Portable;
use super::blake3_simd::Blake3Simd;
use super::dalek::Dalek;
use super::ring::Ring;
use super::rustcrypto::RustCrypto;
use super::{Algorithm, Implementation, PreferenceError, Provider};

/// Every provider of this build. Where no wish and no measurement says otherwise, the first that works is taken.
static PROVIDERS: &[&dyn Provider] = &[
    &Blake3Simd,
    &Dalek,
    &Ring,
    #[cfg(feature = "aws-lc")]
    &super::aws_lc::AwsLc,
    #[cfg(all(
        feature = "graviola",
        any(target_arch = "x86_64", target_arch = "aarch64")
    ))]
    &super::graviola::Graviola,
    &RustCrypto,
    #[cfg(feature = "openssl")]
    &super::openssl::OpenSsl,
    #[cfg(feature = "libaegis")]
    &super::libaegis::Libaegis,
    &Blake3Portable,
];

/// Every provider of this build.
pub fn all() -> impl Iterator<Item = &'static dyn Provider> {
    PROVIDERS.iter().copied()
}

/// Every library that providers of this build compute with, with its version. Runs no self-test.
#[must_use]
pub fn libraries() -> Vec<String> {
    let mut libraries: Vec<String> = all().map(Provider::library).collect();
    libraries.sort();
    libraries.dedup();
    libraries
}

/// The provider of `algorithm` with that name, in whatever case.
pub(crate) fn provider_named(
    algorithm: Algorithm,
    name: &str,
) -> Result<&'static dyn Provider, PreferenceError> {
    of(algorithm)
        .find(|provider| provider.name().eq_ignore_ascii_case(name))
        .ok_or_else(|| PreferenceError::UnknownProvider {
            algorithm,
            name: name.chars().take(64).collect(),
            known: of(algorithm).map(Provider::name).collect(),
        })
}

/// What `provider`, one of those `of` gives, does for `algorithm`.
pub(crate) fn implementation(provider: &dyn Provider, algorithm: Algorithm) -> Implementation {
    provider
        .implementation(algorithm)
        .expect("only providers that have the algorithm are listed for it")
}

/// Every provider of this build that has `algorithm`, in the order of the catalog.
pub(super) fn of(algorithm: Algorithm) -> impl Iterator<Item = &'static dyn Provider> {
    let has = move |provider: &&dyn Provider| provider.implementation(algorithm).is_some();
    all().filter(has)
}
