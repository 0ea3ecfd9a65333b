//! A separate vault for each test, and content for it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::fs;
use std::path::{Path, PathBuf};

use strongroom::{CreateOptions, KeyFile, OpenOptions, Secret, SystemRandom, Vault};

/// A folder that holds a vault, and what opens it.
pub(crate) struct Place {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) secret: Secret,
}

impl Place {
    /// The place, and the vault that was just made there.
    pub(crate) fn new() -> (Self, Vault) {
        let directory = tempfile::tempdir().unwrap();
        let key_file = KeyFile::random(&SystemRandom).unwrap();
        let options = CreateOptions::new().key_file(key_file.clone());
        let created = Vault::create(directory.path().join("vault"), options).unwrap();
        let secret = Secret::KeyFile(key_file);
        (Self { directory, secret }, created.vault)
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.directory.path().join("vault")
    }

    pub(crate) fn open(&self) -> Vault {
        self.open_with(OpenOptions::default())
    }

    pub(crate) fn open_with(&self, options: OpenOptions) -> Vault {
        Vault::open(self.folder(), self.secret.clone(), options).unwrap()
    }

    /// The segment files, longest last.
    pub(crate) fn segments(&self) -> Vec<PathBuf> {
        let mut all = Vec::new();
        for folder in fs::read_dir(self.folder().join("segments")).unwrap() {
            for file in fs::read_dir(folder.unwrap().path()).unwrap() {
                all.push(file.unwrap().path());
            }
        }
        all.sort_by_key(|path| path.metadata().unwrap().len());
        all
    }
}

/// Content of `len` bytes in which no two blocks are equal.
pub(crate) fn content(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Copies a folder with all that is in it.
pub(crate) fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_folder(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}
