//! The key file: 256 random bits as one line of text, to be kept on another medium.
//!
//! Takes   random bytes, or the content of a file
//! Gives   a `KeyFile`, and the content to write
//! Never   accepts an arbitrary file: a file that was not made from random bits could be guessed
//! Spec    spec/1-keys.md, section 1.6

use crate::locked::Locked;
use crate::random::{Random, RandomError};
use crate::secrets::printed_secret::{PrintedSecretError, print, read};
use zeroize::Zeroizing;

/// Bytes of a key file's secret.
const KEY_FILE_BYTES: usize = 32;
/// What the line begins with, so that the file explains itself.
const PREFIX: &str = "strongroom-key-file-1:";
/// What it began with for vaults of format 0, whose secrets are printed with another checksum.
const EARLIER_PREFIX: &str = "strongroom-key-file-0:";

/// The secret of a key file. Wiped when dropped, never shown but by `text`.
#[derive(Clone)]
pub struct KeyFile(Locked<KEY_FILE_BYTES>);

/// Caller: this is not the content of a key file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFileError {
    /// It does not begin as key files do.
    #[error("this is not a Strongroom key file; `strongroom key add` makes one")]
    NotOne,
    /// It opens a vault that this version does not read.
    #[error("this key file was made for a vault of format 0; use it with the version that made it")]
    Earlier,
    /// It begins rightly, but is damaged.
    #[error("the key file is damaged: {0}")]
    Damaged(#[from] PrintedSecretError),
}

impl std::fmt::Debug for KeyFile {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("KeyFile(..)")
    }
}

impl KeyFile {
    /// A new secret.
    ///
    /// # Errors
    /// `RandomError` if the source fails.
    pub fn random(random: &dyn Random) -> Result<Self, RandomError> {
        Locked::filled(|bytes| random.fill(bytes)).map(Self)
    }

    /// The secret in the content of a key file.
    ///
    /// # Errors
    /// `KeyFileError` if it is another file, or damaged.
    pub fn parse(content: &[u8]) -> Result<Self, KeyFileError> {
        let text = std::str::from_utf8(content).map_err(|_| KeyFileError::NotOne)?;
        let text = text.trim_start();
        if text.starts_with(EARLIER_PREFIX) {
            return Err(KeyFileError::Earlier);
        }
        let text = text.strip_prefix(PREFIX).ok_or(KeyFileError::NotOne)?;
        Ok(Self(read(text)?))
    }

    /// The content to write, with its line end.
    #[must_use]
    pub fn text(&self) -> Zeroizing<String> {
        let secret = print(self.bytes());
        let mut text = Zeroizing::new(String::with_capacity(PREFIX.len() + secret.len() + 1));
        text.push_str(PREFIX);
        text.push_str(&secret);
        text.push('\n');
        text
    }

    /// The bits.
    pub(crate) fn bytes(&self) -> &[u8; KEY_FILE_BYTES] {
        self.0.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SystemRandom;

    #[test]
    fn a_key_file_comes_back_from_its_content() {
        let key_file = KeyFile::random(&SystemRandom).unwrap();
        assert_eq!(
            KeyFile::parse(key_file.text().as_bytes()).unwrap().bytes(),
            key_file.bytes()
        );
    }

    #[test]
    fn other_files_and_damaged_ones_are_told_apart() {
        let text = KeyFile::random(&SystemRandom).unwrap().text();
        assert_eq!(KeyFile::parse(b"").unwrap_err(), KeyFileError::NotOne);
        assert_eq!(
            KeyFile::parse(b"\xff\xfe").unwrap_err(),
            KeyFileError::NotOne
        );
        assert_eq!(
            KeyFile::parse(&text.as_bytes()[1..]).unwrap_err(),
            KeyFileError::NotOne
        );
        for len in PREFIX.len()..text.len() - 1 {
            assert!(
                matches!(
                    KeyFile::parse(&text.as_bytes()[..len]),
                    Err(KeyFileError::Damaged(_))
                ),
                "{len}"
            );
        }
    }

    #[test]
    fn a_key_file_of_the_format_before_is_told_from_damage() {
        let text = KeyFile::random(&SystemRandom).unwrap().text();
        let earlier = text.replacen(PREFIX, EARLIER_PREFIX, 1);
        assert_eq!(
            KeyFile::parse(earlier.as_bytes()).unwrap_err(),
            KeyFileError::Earlier
        );
    }

    #[test]
    fn debug_shows_no_character() {
        assert_eq!(
            format!("{:?}", KeyFile::random(&SystemRandom).unwrap()),
            "KeyFile(..)"
        );
    }
}
