//! Moves content from memory to storage: dirty ranges become blocks, and extents of the open transaction.

pub(crate) mod drains;
pub(crate) mod drop_regions;
pub(crate) mod edit;
