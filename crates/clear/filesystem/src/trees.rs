//! Blocks of trees: stored, opened, and given back when nothing names them any more.

pub(crate) mod cached;
pub(crate) mod engine;
pub(crate) mod give_back;
