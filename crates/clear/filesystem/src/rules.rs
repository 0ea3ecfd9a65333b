//! What is allowed, and how it changes a row: pure functions.

pub(crate) mod attributes;
pub(crate) mod name;
pub(crate) mod permission;
pub(crate) mod xattrs;
