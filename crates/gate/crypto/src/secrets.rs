//! The secrets of users that open a key slot: passphrases, printed codes, key files, age and SSH keys.
//!
//! Takes   the text that a person typed, or the content of a file
//! Gives   a secret of its own type, wiped when dropped
//! Never   shows it, or opens a slot with it: `keyring/slot.rs` does
//! Spec    spec/1-keys.md, section 1.6

pub(crate) mod age_key;
pub(crate) mod key_file;
pub(crate) mod pairing_code;
pub(crate) mod passphrase;
pub(crate) mod printed_secret;
pub(crate) mod recovery_code;
