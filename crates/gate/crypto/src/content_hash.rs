//! The hash of a file's content, the same as other programs compute.
//!
//! Takes   clear bytes, part by part
//! Gives   the hash that `b3sum` or `sha256sum` computes for them
//! Never   uses a key: the hash is for people who compare, and never part of the format
//!
//! The providers of [2.19] cannot hash in parts. So each algorithm here uses one library, and no provider.

use sha2::Digest as _;

/// How contents are named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum HashAlgorithm {
    /// BLAKE3, unkeyed, 32 bytes.
    #[default]
    Blake3 = 1,
    /// SHA-256 (FIPS 180-4).
    Sha256 = 2,
}

impl HashAlgorithm {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Blake3, Self::Sha256];

    /// The number by which it is stored.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The algorithm of that number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.number() == number)
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Blake3 => "BLAKE3",
            Self::Sha256 => "SHA-256",
        }
    }
}

/// A content on its way to its name.
#[derive(Clone)]
pub struct ContentHasher(State);

#[derive(Clone)]
enum State {
    Blake3(Box<blake3::Hasher>),
    Sha256(sha2::Sha256),
}

impl std::fmt::Debug for ContentHasher {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ContentHasher")
            .finish_non_exhaustive()
    }
}

impl ContentHasher {
    /// Before the first byte.
    #[must_use]
    pub fn new(algorithm: HashAlgorithm) -> Self {
        Self(match algorithm {
            HashAlgorithm::Blake3 => State::Blake3(Box::default()),
            HashAlgorithm::Sha256 => State::Sha256(sha2::Sha256::new()),
        })
    }

    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            State::Blake3(hasher) => {
                hasher.update(bytes);
            }
            State::Sha256(hasher) => hasher.update(bytes),
        }
    }

    /// The name of all bytes taken.
    #[must_use]
    pub fn finish(self) -> [u8; 32] {
        match self.0 {
            State::Blake3(hasher) => *hasher.finalize().as_bytes(),
            State::Sha256(hasher) => hasher.finalize().into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: [u8; 32]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// What `b3sum` and `sha256sum` print for nothing, and for "abc".
    #[test]
    fn names_are_those_that_other_programs_give_however_the_content_is_cut() {
        for (algorithm, content, name) in [
            (
                HashAlgorithm::Blake3,
                "",
                "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262",
            ),
            (
                HashAlgorithm::Blake3,
                "abc",
                "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85",
            ),
            (
                HashAlgorithm::Sha256,
                "",
                "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            ),
            (
                HashAlgorithm::Sha256,
                "abc",
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            ),
        ] {
            let mut whole = ContentHasher::new(algorithm);
            whole.update(content.as_bytes());
            assert_eq!(hex(whole.finish()), name);
            let mut cut = ContentHasher::new(algorithm);
            content.bytes().for_each(|byte| cut.update(&[byte]));
            assert_eq!(hex(cut.finish()), name);
        }
    }

    #[test]
    fn an_algorithm_is_found_by_its_number() {
        for algorithm in HashAlgorithm::ALL {
            assert_eq!(
                HashAlgorithm::from_number(algorithm.number()),
                Some(algorithm)
            );
        }
        assert_eq!(HashAlgorithm::from_number(0), None);
    }
}
