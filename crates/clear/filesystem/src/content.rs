//! What is known of nodes in memory: attributes, content that is not stored yet, extents.

pub(crate) mod extents;
pub(crate) mod holes;
pub(crate) mod node;
pub(crate) mod overlay;
pub(crate) mod region_cache;
pub(crate) mod reservation;
