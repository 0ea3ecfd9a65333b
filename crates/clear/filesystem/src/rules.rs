//! The rules: whether an operation is allowed, and how it changes a row. All functions are pure.

pub(crate) mod attributes;
pub(crate) mod name;
pub(crate) mod permission;
pub(crate) mod xattrs;
