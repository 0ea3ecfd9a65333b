//! Content becomes sealed blocks, and these find a place.

pub(crate) mod equal_blocks;
pub(crate) mod place;
pub(crate) mod stream;
