//! The libraries that compute the algorithms in this run: they are values, and never part of the format.
//!
//! Takes   keys, nonces and bytes from the rest of this crate
//! Gives   the output of the algorithm, the same bytes from every provider
//! Never   chooses a key or a nonce, keeps one, or reveals in the bytes which library computed them
//! Spec    spec/2-block.md, [2.18] [2.19]; docs/providers.md
//!
//! To add a provider, write one file here that implements `Provider`, and one line in `catalog.rs`. The self-test, the
//! tests of `tests/providers.rs` and `strongroom tune` then include it by themselves.
//!
//! Invariants
//!  (1) All providers give the same bytes: what one provider seals, every other opens.                                [2.19]
//!  (2) A provider computes for a vault only after it gave the known answers of `self_test.rs` in this process.

mod algorithm;
#[cfg(feature = "aws-lc")]
mod aws_lc;
mod blake3_portable;
mod blake3_simd;
pub(crate) mod catalog;
mod choice;
mod chosen;
mod dalek;
mod error;
#[cfg(all(
    feature = "graviola",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod graviola;
#[cfg(feature = "libaegis")]
mod libaegis;
mod like_ring;
#[cfg(feature = "openssl")]
mod openssl;
mod preferences;
mod provider;
pub mod registry;
mod ring;
mod rustcrypto;
mod self_test;
mod version;
pub(crate) mod work;

pub use algorithm::Algorithm;
pub use choice::{Choice, SizeClass};
pub use chosen::Chosen;
pub use error::{PreferenceError, ProviderError};
pub use preferences::Preferences;
pub use provider::{
    Aead, Argon2id, Argon2idCost, Blake3, ChunkKey, Ed25519, Implementation, NONCE_BYTES_MAX,
    NoMemory, Nonce, Provider, Refused,
};
pub use registry::{
    Offer, State, choice, libraries, preferred, providers_of, ready, set_choice, set_preferred,
};
pub use work::Work;
