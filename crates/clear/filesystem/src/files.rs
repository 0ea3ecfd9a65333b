//! Operations on the content of a file.

pub(crate) mod copy;
pub(crate) mod read;
pub(crate) mod seek;
pub(crate) mod write;
