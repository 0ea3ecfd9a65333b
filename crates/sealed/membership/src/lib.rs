//! Finds out from the public part of a header who is a member of the vault, and whether a member made a signature.
//!
//! Takes   membership records; public keys, messages and signatures
//! Gives   the members, or the record that is forged; the bytes that a member signs
//! Never   has a secret key, or signs: the crate `crypto` does. A device, a server and a stranger get the same result here
//! Spec    spec/1-keys.md, section 1.4; spec/11-sync.md, section 11.11
#![forbid(unsafe_code)]

mod chain;
pub mod login;
mod signature;

pub use chain::{Chain, Forged, Member};
pub use signature::{Verify, by_dalek, signed_record, verify_strict};
