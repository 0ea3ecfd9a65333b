//! Names and places of sealed blocks.

/// The name of a block: a keyed hash of its context and content. 32 bytes, meaningless without the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId(pub [u8; 32]);

/// The name of a vault: the hash of its genesis record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VaultId(pub [u8; 32]);

/// The random name of a segment file, chosen when it is begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SegmentId(pub [u8; 16]);

/// Which generation of keys sealed something; counts up from 0 at each rotation or removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Epoch(pub u32);

/// The algorithms that a vault's bytes use. Part of the format, unlike the provider that computes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum SuiteId {
    /// AES-256-GCM and BLAKE3. The default.
    Aes256GcmBlake3 = 1,
    /// ChaCha20-Poly1305 and BLAKE3, for processors without AES instructions.
    ChaCha20Poly1305Blake3 = 2,
}

/// What a sealed thing is; part of its context, so that one kind never opens as another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Kind {
    /// File content.
    Data = 1,
    /// The index at the end of a batch in a segment.
    BatchIndex = 4,
    /// The metadata key of one replica.
    ReplicaKey = 9,
    /// The payload of a key slot.
    Slot = 8,
}

/// A sealed block: its name and its bytes, chunk after chunk, each with its tag.
#[derive(Clone, Debug)]
pub struct SealedBlock {
    /// The keyed hash that names it.
    pub id: BlockId,
    /// Length in bytes of the content that was sealed.
    pub clear_len: u32,
    /// `sealed_len(clear_len)` bytes.
    pub bytes: Vec<u8>,
}

/// Where the sealed bytes of a block lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Location {
    /// The segment file.
    pub segment: SegmentId,
    /// First byte, counted from the beginning of the file.
    pub offset: u32,
    /// Count of sealed bytes.
    pub len: u32,
}
