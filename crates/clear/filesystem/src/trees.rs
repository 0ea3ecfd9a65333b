//! Blocks of trees: stores and opens them, and frees them once nothing refers to them any more.

pub(crate) mod cached;
pub(crate) mod engine;
pub(crate) mod give_back;
