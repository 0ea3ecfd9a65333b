//! What can be asked about names of contents, and what is answered.
//!
//! Takes   the calls of the public API
//! Gives   values that travel with `request.rs`, under its version
//! Never   carries content, or more than a frame holds: who asks goes on where an answer ended

use serde::{Deserialize, Serialize};

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

/// The answers.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum HashResponse {
    /// One for each file, and how many bytes were read.
    Files {
        files: Vec<HashedFields>,
        bytes: u64,
    },
    /// Files and their lengths.
    Missing(Vec<(u64, u64)>),
    /// A page of files, and where the next begins.
    Named {
        files: Vec<NamedFields>,
        next: Option<([u8; 32], u64)>,
    },
    Equal {
        groups: Vec<EqualFields>,
        next: Option<[u8; 32]>,
    },
}

/// What came of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum HashedFields {
    Whole {
        hash: [u8; 32],
        size: u64,
        stored: bool,
    },
    Unfinished,
    Changing,
    /// With a path of the file, if it has one.
    Failed(Failure, Option<Vec<u8>>),
}

/// A file that was found by its hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NamedFields {
    pub(crate) inode: u64,
    pub(crate) hash: [u8; 32],
    pub(crate) size: u64,
    pub(crate) nlink: u32,
    /// At most `HASH_NAMES_MAX` of them.
    pub(crate) paths: Vec<Vec<u8>>,
}

impl NamedFields {
    /// About what it takes on its way, in bytes.
    pub(crate) fn len(&self) -> usize {
        self.paths.iter().map(|path| path.len() + 8).sum::<usize>() + 64
    }
}

/// Files with the same content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EqualFields {
    pub(crate) files: Vec<NamedFields>,
    /// How many more there are.
    pub(crate) more: u64,
    pub(crate) extra_bytes: u64,
}
