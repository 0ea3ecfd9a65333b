//! The bounds of the format, except those that one file alone uses: they are at the head of that file.

pub use crate::span::sealed_len;

/// The most plaintext one sealed block holds, in bytes. Also the grid that file content is cut on.
pub const BLOCK_BYTES_MAX: usize = 64 * 1024;

/// Plaintext bytes per AEAD chunk inside a block: what a read must open at least.
pub const CHUNK_BYTES: usize = 4 * 1024;

/// Bytes of one AEAD tag.
pub const TAG_BYTES: usize = 16;

/// The longest sealed block, in bytes: a full block and a tag for each of its chunks.
pub const SEALED_BYTES_MAX: usize = sealed_len(BLOCK_BYTES_MAX);

/// A segment is finished before it grows past this, in bytes.
pub const SEGMENT_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Batches begin and end on this boundary, in bytes, so that a torn write touches no older batch.
pub const SECTOR_BYTES: usize = 4096;

/// The most plaintext one sealed record holds, in bytes: the table of a full segment of 160-byte blocks.
pub const SEALED_RECORD_CLEAR_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The length of an intent log in bytes. It has it from the beginning, so that a record changes content only.
pub const INTENT_LOG_BYTES: usize = 4 * 1024 * 1024;

/// The most ranges of a file that one intent has. Together they hold at most `BLOCK_BYTES_MAX` bytes.
pub const INTENT_PIECES_MAX: usize = 64;

/// The longest sealed intent, in bytes: what 17 sectors hold behind the head of a record.
pub const INTENT_SEALED_BYTES_MAX: usize = 17 * SECTOR_BYTES - 64;

/// The longest `vault.json`, in bytes; a longer one is refused before it is parsed.
pub const HEADER_BYTES_MAX: usize = 1024 * 1024;

/// The longest `replica.json`, in bytes.
pub const REPLICA_BYTES_MAX: usize = 16 * 1024;

/// The most membership records in one header.
pub const RECORDS_MAX: usize = 4096;

/// The longest membership record, in bytes: a genesis with a device and every slot it may have.
pub const RECORD_BYTES_MAX: usize = 128 * 1024;

/// The most changes in one membership record: a device, the slots of a full header, and an epoch.
pub const CHANGES_MAX: usize = SLOTS_MAX + 2;

/// The most key slots in one header.
pub const SLOTS_MAX: usize = 64;

/// The most revisions, segments or hashes of one list of a publication; a push that has more makes several.
pub const PUBLISHED_MAX: usize = 8192;

/// The longest publication, in bytes: its four lists, full.
pub const PUBLICATION_BYTES_MAX: usize = 2 * 1024 * 1024;

/// The most devices that are members at one time.
pub const DEVICES_MAX: usize = 256;

/// The longest label of a key slot, in bytes of UTF-8.
pub const LABEL_BYTES_MAX: usize = 128;

/// The longest sealed payload of a key slot, in bytes; an age file to one recipient is below 2 KiB.
pub const SLOT_SEALED_BYTES_MAX: usize = 8 * 1024;

/// The longest record of what a header withholds from remotes, in bytes: the payloads of all slots that it may have.
pub const WITHHELD_BYTES_MAX: usize = 576 * 1024;

/// The most grants in one header.
pub const GRANTS_MAX: usize = 1024;

/// Bytes of the HPKE encapsulation in a grant (X-Wing ciphertext).
pub const GRANT_ENCAPSULATED_BYTES: usize = 1120;

/// Bytes of one grant: the encapsulation, epoch key and block-id key, tag.
pub const GRANT_BYTES: usize = GRANT_ENCAPSULATED_BYTES + 32 + 32 + TAG_BYTES;

/// Bytes of an X-Wing public key.
pub const KEM_PUBLIC_BYTES: usize = 1216;

/// Least Argon2id memory of a passphrase slot, in KiB.
pub const ARGON2_MEMORY_KIB_MIN: u32 = 64 * 1024;

/// Most Argon2id memory of a passphrase slot, in KiB; a hostile header cannot ask for more.
pub const ARGON2_MEMORY_KIB_MAX: u32 = 4 * 1024 * 1024;

/// Least Argon2id passes of a passphrase slot.
pub const ARGON2_PASSES_MIN: u32 = 3;

/// Most Argon2id passes of a passphrase slot.
pub const ARGON2_PASSES_MAX: u32 = 64;

/// Most Argon2id lanes of a passphrase slot.
pub const ARGON2_LANES_MAX: u32 = 16;

/// Most Argon2id work, memory in KiB times passes, of all passphrase slots of a header together.
///
/// About a minute of a slow processor: a hostile header cannot hold an opener longer.
pub const ARGON2_WORK_KIB_MAX: u64 = 64 * 1024 * 1024;

/// Bytes of the envelope of a deposit: one sector, whatever is in it.
pub const ENVELOPE_BYTES: usize = SECTOR_BYTES;

/// Bytes of content in each piece of a deposit but the last.
pub const DEPOSIT_PIECE_BYTES: usize = 1024 * 1024;

/// The longest deposit, in bytes of content: as much as one transaction of a vault takes in.
pub const DEPOSIT_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// The longest name of a deposit, in bytes; whoever takes it in cuts it to what a directory can have.
pub const DEPOSIT_NAME_BYTES_MAX: usize = 1024;

/// What a depositor says of who they are, in bytes of UTF-8, at most.
pub const DEPOSITOR_BYTES_MAX: usize = 128;
