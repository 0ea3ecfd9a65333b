//! What is allowed, and what it leaves of a row: pure functions.

pub(crate) mod attributes;
pub(crate) mod name;
pub(crate) mod permission;
pub(crate) mod xattrs;
