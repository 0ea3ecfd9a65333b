//! Content becomes sealed blocks, these find a place, and are found there again.

pub(crate) mod away;
pub(crate) mod equal_blocks;
pub(crate) mod erased;
pub(crate) mod fetch;
pub(crate) mod moving;
pub(crate) mod place;
pub(crate) mod proof;
pub(crate) mod sessions;
pub(crate) mod stream;
