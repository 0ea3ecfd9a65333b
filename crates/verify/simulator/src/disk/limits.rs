//! The capacity of the simulated disk, and the size of its pieces.

/// The unit that survives or does not, in bytes.
pub const PAGE_BYTES: usize = 4096;

/// What a disk writes in one piece, in bytes; a torn page is torn between two of these.
pub const SECTOR_BYTES: usize = 512;

/// What the simulated disk holds, in bytes.
pub const CAPACITY_BYTES: u64 = 8 << 30;
