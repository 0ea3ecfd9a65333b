//! What is allowed, and what it leaves of a row: pure functions, and the table of advisory locks.

pub(crate) mod attributes;
pub(crate) mod locks;
pub(crate) mod name;
pub(crate) mod permission;
pub(crate) mod xattrs;
