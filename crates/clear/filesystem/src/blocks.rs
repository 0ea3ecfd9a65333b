//! Seals content into blocks, stores the blocks, and reads them back.

pub(crate) mod away;
pub(crate) mod equal_blocks;
pub(crate) mod erased;
pub(crate) mod fetch;
pub(crate) mod moving;
pub(crate) mod place;
pub(crate) mod proof;
pub(crate) mod sessions;
pub(crate) mod stream;
