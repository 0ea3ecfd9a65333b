//! Every bound of this crate.

use strongroom_format::limits::{PUBLICATION_BYTES_MAX, SEGMENT_BYTES_MAX};

/// The longest object that is a publication, in bytes: with its signature, made up to sectors, sealed.
pub const PUBLICATION_OBJECT_BYTES_MAX: u64 = PUBLICATION_BYTES_MAX as u64 + 64 * 1024;

/// The longest object that is a segment, in bytes.
pub const SEGMENT_OBJECT_BYTES_MAX: u64 = SEGMENT_BYTES_MAX;

/// The longest object that is the record of a revision, in bytes.
pub const REVISION_OBJECT_BYTES_MAX: u64 = 128 * 1024;

/// The longest marker, in bytes.
pub const MARKER_BYTES_MAX: u64 = 4096;
