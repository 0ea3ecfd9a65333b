//! Requests about hashes of contents, and their answers.
//!
//! Takes   the calls of the public API
//! Gives   values that are sent with `request.rs`, under its protocol version
//! Never   carries content, or an answer too long for one message: the client asks again for the rest

use serde::{Deserialize, Serialize};
use strongroom_filesystem::InodeId;
use strongroom_format::hex;

use crate::request::failure::Failure;

/// Everything that can be asked about names of contents. `algorithm` by its number.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum HashRequest {
    /// The hashes of these files, as far as so many bytes go; at most `HASH_FILES_MAX`.
    Files {
        inodes: Vec<u64>,
        algorithm: u8,
        bytes_max: u64,
    },
    /// Files behind `after` whose hash is not stored.
    Missing { after: u64, algorithm: u8 },
    /// Files behind `after` whose hash is not above `last`.
    Named {
        algorithm: u8,
        after: ([u8; 32], u64),
        last: [u8; 32],
    },
    /// Paths of files whose hashes the client was just told.
    Paths { files: Vec<(u64, [u8; 32])> },
    /// Files of at least `size_min` bytes that have the same content as another, whose hash is behind `after`.
    Equal {
        algorithm: u8,
        after: Option<[u8; 32]>,
        size_min: u64,
    },
}

/// What came of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum HashedFields {
    Whole(HashedContent),
    Unfinished,
    Changing,
    /// With a path of the file, if it has one.
    Failed(Failure, Option<Vec<u8>>),
}

/// A content that was hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HashedContent {
    /// Its hash.
    pub hash: ContentHash,
    /// Its length.
    pub size: u64,
    /// Whether the hash is stored; a vault that is read-only or full stores none.
    pub stored: bool,
}

/// The hash of a whole content, as `b3sum` or `sha256sum` gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ContentHash(pub [u8; 32]);

impl std::fmt::Display for ContentHash {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&hex::encode(&self.0))
    }
}

/// A file that was found by its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedContent {
    /// The file.
    pub inode: InodeId,
    /// The hash of its content.
    pub hash: ContentHash,
    /// Its length.
    pub size: u64,
    /// How many names it has.
    pub nlink: u32,
    /// Its paths, from the root; fewer than it has names if those are thousands.
    pub paths: Vec<Vec<u8>>,
}

impl NamedContent {
    /// About what it takes on its way, in bytes.
    pub(crate) fn len_on_its_way(&self) -> usize {
        self.paths.iter().map(|path| path.len() + 8).sum::<usize>() + 64
    }
}

/// Files with the same content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EqualContents {
    /// They, at least two; many are cut off.
    pub files: Vec<NamedContent>,
    /// How many were cut off.
    pub more: u64,
    /// Sealed bytes that would come back if all of those listed shared the blocks of the first; 0: they do.
    pub extra_bytes: u64,
}
