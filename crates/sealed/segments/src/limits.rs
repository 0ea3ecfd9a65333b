//! Every bound of the segment store, in one place.

/// The most bytes one batch holds: its blocks and its index together.
pub const BATCH_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The longest sealed index of one batch, in bytes.
pub const INDEX_BYTES_MAX: usize = 2 * 1024 * 1024;
