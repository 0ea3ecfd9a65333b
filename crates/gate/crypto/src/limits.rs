//! Every bound of this crate, in one place.

/// Below this many clear bytes in one call, blocks are sealed on the calling thread.
///
/// Waking an idle worker costs about as much as sealing this much.
pub const SEAL_ALL_PARALLEL_BYTES_MIN: usize = 128 * 1024;

/// The most worker threads one pool starts, whatever is asked for.
pub const POOL_THREADS_MAX: usize = 256;
