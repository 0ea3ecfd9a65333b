//! The recovery code: 160 random bits that are printed once, and open the vault when every other secret is lost.
//!
//! Takes   random bytes, or the text that a person typed
//! Gives   a `RecoveryCode`, and its text
//! Never   shows the code in `Debug`
//! Spec    spec/1-keys.md, section 1.6

use crate::locked::Locked;
use crate::random::{Random, RandomError};
use crate::secrets::printed_secret::{PrintedSecretError, print, read};
use zeroize::Zeroizing;

/// Bytes of a recovery code: 160 bits cannot be guessed, so no Argon2 is needed.
const RECOVERY_CODE_BYTES: usize = 20;

/// A recovery code. Wiped when dropped, never shown but by `text`.
#[derive(Clone)]
pub struct RecoveryCode(Locked<RECOVERY_CODE_BYTES>);

impl std::fmt::Debug for RecoveryCode {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("RecoveryCode(..)")
    }
}

impl RecoveryCode {
    /// A new code.
    ///
    /// # Errors
    /// `RandomError` if the source fails.
    pub fn random(random: &dyn Random) -> Result<Self, RandomError> {
        Locked::filled(|bytes| random.fill(bytes)).map(Self)
    }

    /// The code that `text` spells, in either case, with or without dashes and spaces.
    ///
    /// # Errors
    /// `PrintedSecretError` naming what is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, PrintedSecretError> {
        read(text).map(Self)
    }

    /// Nine groups of four characters, to be printed.
    #[must_use]
    pub fn text(&self) -> Zeroizing<String> {
        print(self.bytes())
    }

    /// The bits.
    pub(crate) fn bytes(&self) -> &[u8; RECOVERY_CODE_BYTES] {
        self.0.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SystemRandom;

    #[test]
    fn a_code_comes_back_from_its_text() {
        let code = RecoveryCode::random(&SystemRandom).unwrap();
        assert_eq!(
            RecoveryCode::parse(&code.text()).unwrap().bytes(),
            code.bytes()
        );
        assert_eq!(code.text().split('-').count(), 9);
    }

    #[test]
    fn debug_shows_no_character() {
        assert_eq!(
            format!("{:?}", RecoveryCode::random(&SystemRandom).unwrap()),
            "RecoveryCode(..)"
        );
    }
}
