//! Names and attributes of nodes.

pub(crate) mod attributes;
pub(crate) mod list;
pub(crate) mod namespace;
pub(crate) mod rename;
pub(crate) mod scene;
pub(crate) mod xattr;
