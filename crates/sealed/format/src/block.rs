//! Ids and places of sealed blocks.

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
    /// AEGIS-256 and BLAKE3: faster where there are AES instructions; not every build computes it.
    Aegis256Blake3 = 3,
}

impl SuiteId {
    /// Every suite that this format has. Each build computes the first two; whether it does the third, the gate says.
    pub const ALL: &'static [Self] = &[
        Self::Aes256GcmBlake3,
        Self::ChaCha20Poly1305Blake3,
        Self::Aegis256Blake3,
    ];

    /// The number that stands for it in the format.
    #[must_use]
    pub const fn number(self) -> u16 {
        self as u16
    }

    /// The suite that `number` stands for; `None` if this build does not know it.
    #[must_use]
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|suite| suite.number() == number)
    }
}

/// What a sealed thing is; part of its context, so that one kind never proves true as another.
///
/// The numbers are those of spec/2-block.md, which also lists those kept for kinds to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Kind {
    /// File content.
    Data = 1,
    /// A node of the tree of a revision, or a long value beside one.
    TreeNode = 2,
    /// A node of the extents of a large file.
    ExtentList = 3,
    /// The index at the end of a batch in a segment.
    BatchIndex = 4,
    /// A signed state of the whole tree.
    Revision = 5,
    /// What a push added to a remote.
    Publication = 6,
    /// The payload of a key slot.
    Slot = 8,
    /// The metadata key of one replica.
    ReplicaKey = 9,
    /// The table of contents at the end of a finished segment.
    SegmentTable = 10,
    /// File content, compressed.
    CompressedData = 11,
    /// A node of the tree of a revision, or a long value beside one, compressed.
    CompressedTreeNode = 12,
    /// A node of the extents of a large file, compressed.
    CompressedExtentList = 13,
    /// What was written to a file, until the database has it.
    Intent = 14,
    /// The lengths of a batch in a segment.
    BatchLengths = 15,
    /// Where a verification was stopped.
    VerifyState = 16,
    /// What one of two devices says to the other that is being let in.
    Pairing = 17,
    /// What passphrase slots take, withheld from remotes.
    WithheldSlots = 18,
    /// A piece of what somebody deposited in an inbox.
    Deposit = 19,
}

impl Kind {
    /// Every kind that this build knows.
    pub const ALL: &'static [Self] = &[
        Self::Data,
        Self::TreeNode,
        Self::ExtentList,
        Self::BatchIndex,
        Self::Revision,
        Self::Publication,
        Self::Slot,
        Self::ReplicaKey,
        Self::SegmentTable,
        Self::CompressedData,
        Self::CompressedTreeNode,
        Self::CompressedExtentList,
        Self::Intent,
        Self::BatchLengths,
        Self::VerifyState,
        Self::Pairing,
        Self::WithheldSlots,
        Self::Deposit,
    ];

    /// The number that stands for it in the format.
    #[must_use]
    pub const fn number(self) -> u16 {
        self as u16
    }

    /// The kind that `number` stands for; `None` if this build does not know it.
    #[must_use]
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|kind| kind.number() == number)
    }

    /// What it holds for those who need not know whether it was compressed.
    #[must_use]
    pub const fn plain(self) -> Self {
        match self {
            Self::CompressedData => Self::Data,
            Self::CompressedTreeNode => Self::TreeNode,
            Self::CompressedExtentList => Self::ExtentList,
            other => other,
        }
    }

    /// The kind of the same content compressed; `None` if what this kind holds is never compressed, or is already.
    #[must_use]
    pub const fn compressed(self) -> Option<Self> {
        match self {
            Self::Data => Some(Self::CompressedData),
            Self::TreeNode => Some(Self::CompressedTreeNode),
            Self::ExtentList => Some(Self::CompressedExtentList),
            _ => None,
        }
    }

    /// Whether what is sealed is compressed: then it opens as a whole or not at all.
    #[must_use]
    pub const fn is_compressed(self) -> bool {
        self.number() != self.plain().number()
    }

    /// Whether it is content of a file, compressed or not.
    #[must_use]
    pub const fn is_data(self) -> bool {
        matches!(self.plain(), Self::Data)
    }
}

/// A sealed block: its name and its bytes, chunk after chunk, each with its tag.
#[derive(Clone, Debug)]
pub struct SealedBlock {
    /// The keyed hash that names it.
    pub id: BlockId,
    /// What it was sealed as.
    pub kind: Kind,
    /// Length in bytes of what was sealed: after compression, where there is any.
    pub clear_len: u32,
    /// `sealed_len(clear_len)` bytes.
    pub bytes: Vec<u8>,
}

/// What is known of a sealed block beside its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHead {
    /// The keyed hash that names it.
    pub id: BlockId,
    /// What it was sealed as.
    pub kind: Kind,
    /// Length in bytes of what was sealed: after compression, where there is any.
    pub clear_len: u32,
}

impl SealedBlock {
    /// All but its bytes.
    #[must_use]
    pub const fn head(&self) -> BlockHead {
        BlockHead {
            id: self.id,
            kind: self.kind,
            clear_len: self.clear_len,
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_and_suite_comes_back_from_its_number_alone() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_number(kind.number()), Some(*kind));
        }
        for suite in SuiteId::ALL {
            assert_eq!(SuiteId::from_number(suite.number()), Some(*suite));
        }
    }

    #[test]
    fn compressing_changes_the_kind_and_nothing_else_about_it() {
        for kind in Kind::ALL {
            match kind.compressed() {
                Some(compressed) => {
                    assert_eq!(compressed.plain(), *kind);
                    assert!(compressed.is_compressed() && !kind.is_compressed());
                    assert_eq!(compressed.is_data(), kind.is_data());
                    assert_eq!(compressed.compressed(), None);
                }
                None => assert_eq!(kind.is_compressed(), kind.plain() != *kind),
            }
        }
    }

    #[test]
    fn numbers_nobody_was_given_are_unknown() {
        let known_kinds = (0..=u16::MAX)
            .filter(|number| Kind::from_number(*number).is_some())
            .count();
        let known_suites = (0..=u16::MAX)
            .filter(|number| SuiteId::from_number(*number).is_some())
            .count();
        assert_eq!(
            (known_kinds, known_suites),
            (Kind::ALL.len(), SuiteId::ALL.len())
        );
        assert_eq!(Kind::from_number(0), None);
        assert_eq!(SuiteId::from_number(4), None);
    }
}
