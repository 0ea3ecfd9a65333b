//! Placeholder.
#![allow(missing_docs)]
#[derive(Debug, thiserror::Error)]
pub enum Error { #[error("io {0}")] Io(#[from] std::io::Error) }
