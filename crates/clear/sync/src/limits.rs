//! The bounds of this crate, except those that one file alone uses: they are at the head of that file.

use strongroom_format::limits::{PUBLICATION_BYTES_MAX, SEGMENT_BYTES_MAX};

/// The longest object that is a publication, in bytes: with its signature, made up to sectors, sealed.
pub const PUBLICATION_OBJECT_BYTES_MAX: u64 = PUBLICATION_BYTES_MAX as u64 + 64 * 1024;

/// The longest object that is a segment, in bytes.
pub const SEGMENT_OBJECT_BYTES_MAX: u64 = SEGMENT_BYTES_MAX;

/// The longest object that is the record of a revision, in bytes.
pub const REVISION_OBJECT_BYTES_MAX: u64 = 128 * 1024;

/// The longest marker, in bytes.
pub const MARKER_BYTES_MAX: u64 = 4096;

/// What is read of an object of a pairing, in bytes: a request with a slot as long as any, and its seal.
pub const PAIRING_OBJECT_BYTES_MAX: u64 = 16 * 1024;

/// An offer to pair that is older is removed by the next device that makes one, in seconds: much longer than any is good for.
pub const PAIRING_STALE_S: u64 = 60 * 60;
