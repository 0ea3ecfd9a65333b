//! Placeholder.
#![allow(missing_docs)]
pub mod rows;
pub use rows::*;
#[derive(Debug, thiserror::Error)]
pub enum Error { #[error("io {0}")] Io(#[from] std::io::Error) }
