//! The bounds of this crate, except those that one file alone uses: they are at the head of that file.

/// Bytes of every secret key.
pub const KEY_BYTES: usize = 32;

/// Below this many clear bytes in one call, blocks are sealed on the calling thread, unless a measurement found otherwise.
///
/// An estimate of what waking an idle worker costs; `benches/seal.rs` prints both sides of it, and an idle machine
/// has yet to settle the number.
pub const SEAL_ALL_PARALLEL_BYTES_MIN: usize = 128 * 1024;

/// The most worker threads one pool starts, whatever is asked for.
pub const POOL_THREADS_MAX: usize = 256;

/// The longest passphrase, in bytes of UTF-8 after normalisation.
pub const PASSPHRASE_BYTES_MAX: usize = 1024;

/// The longest text taken for an identity file, key file or recovery code, in bytes. An RSA key of 16384 bits fits.
pub const SECRET_TEXT_BYTES_MAX: usize = 32 * 1024;

/// The most memory that calibration chooses by itself, in KiB; a user who wants more says so.
pub const ARGON2_CALIBRATED_MEMORY_KIB_MAX: u32 = 1024 * 1024;

/// The most memory that one slot gets for a passphrase unless more was allowed, in KiB: no calibrated slot needs more, so
/// only who made a slot that does has to say so, and who is given a hostile header keeps the machine.
pub const ARGON2_UNASKED_MEMORY_KIB_MAX: u32 = ARGON2_CALIBRATED_MEMORY_KIB_MAX;

/// The most work, memory in KiB times passes, that all slots together get for a passphrase unless more was allowed. About
/// half a minute of a slow processor.
pub const ARGON2_UNASKED_WORK_KIB_MAX: u64 = 32 * 1024 * 1024;

/// What one try at a passphrase should cost on the machine that makes the slot.
pub const ARGON2_TARGET: std::time::Duration = std::time::Duration::from_secs(1);

/// The highest generation of a header with so many membership records: 2^32 for each. Whoever raises it to the end leaves room for
/// every change that makes a record.                                                                        [1.7.5]
pub(crate) const fn generation_max(records: usize) -> u64 {
    (records as u64).saturating_mul(1 << 32)
}
