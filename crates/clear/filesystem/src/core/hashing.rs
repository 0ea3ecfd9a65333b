//! Unfinished hashes of file contents, and how far each has come.
//!
//! Takes   hashes that were begun and not finished
//! Gives   an unfinished hash back, if it is of the same content version
//! Never   keeps more than a bounded number

use parking_lot::Mutex;
use strongroom_crypto::{ContentHasher, HashAlgorithm};
use strongroom_metadata::InodeId;

/// Large files whose hashes are begun and not finished, over all callers; with more, the oldest begins again.
const UNFINISHED_MAX: usize = 64;

/// Hashes that are begun.
#[derive(Default)]
pub(crate) struct Hashing {
    /// Oldest first.
    unfinished: Mutex<Vec<HalfHashed>>,
}

/// A content of which a part is hashed.
pub(crate) struct HalfHashed {
    pub(crate) inode: InodeId,
    pub(crate) algorithm: HashAlgorithm,
    pub(crate) version: u64,
    pub(crate) size: u64,
    pub(crate) offset: u64,
    pub(crate) hasher: ContentHasher,
}

impl Hashing {
    /// What is begun of this content, if it is.
    pub(crate) fn take(
        &self,
        inode: InodeId,
        algorithm: HashAlgorithm,
        version: u64,
    ) -> Option<HalfHashed> {
        let mut unfinished = self.unfinished.lock();
        let place = unfinished
            .iter()
            .position(|one| one.inode == inode && one.algorithm == algorithm)?;
        // One of another version is of no use any more.
        Some(unfinished.remove(place)).filter(|one| one.version == version)
    }

    pub(crate) fn put_back(&self, content: HalfHashed) {
        let mut unfinished = self.unfinished.lock();
        if unfinished.len() >= UNFINISHED_MAX {
            unfinished.remove(0);
        }
        unfinished.push(content);
    }
}
