//! Hashes of whole contents.

pub(crate) mod content_hash;
pub(crate) mod equal_contents;
