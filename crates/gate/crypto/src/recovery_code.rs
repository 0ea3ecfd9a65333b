//! The recovery code: 160 random bits that are printed once and open the vault when all else is forgotten.
//!
//! Takes   random bytes, or what a person typed
//! Gives   a `RecoveryCode`, and its text
//! Never   shows the code in `Debug`
//! Spec    spec/1-keys.md, section 1.6

use crate::printed_secret::{PrintedSecretError, print, read};
use crate::random::{Random, RandomError};
use zeroize::Zeroizing;

/// Bytes of a recovery code: 160 bits cannot be guessed, so no Argon2 is needed.
const RECOVERY_CODE_BYTES: usize = 20;

/// A recovery code. Wiped when dropped, never shown but by `text`.
#[derive(Clone)]
pub struct RecoveryCode(Zeroizing<[u8; RECOVERY_CODE_BYTES]>);

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
        let mut bytes = Zeroizing::new([0; RECOVERY_CODE_BYTES]);
        random.fill(bytes.as_mut_slice())?;
        Ok(Self(bytes))
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
        print(&self.0)
    }

    /// The bits.
    pub(crate) const fn bytes(&self) -> &Zeroizing<[u8; RECOVERY_CODE_BYTES]> {
        &self.0
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
