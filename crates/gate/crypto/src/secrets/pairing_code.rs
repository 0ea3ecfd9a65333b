//! The code that lets a new device into a vault: digits that a person reads on one device and types on the other within minutes.
//!
//! Takes   random bytes, or the text that a person typed
//! Gives   a `PairingCode`, its text, and its public part
//! Never   shows the code in `Debug`
//! Spec    spec/11-sync.md, section 11.7
//!
//! It has digits only: every keyboard has them, every language can read them aloud, and nobody has to spell a word.

use crate::locked::Locked;
use crate::random::{Random, RandomError};
use zeroize::Zeroizing;

/// Digits that say where the two devices meet. They are public.
const PLACE_DIGITS: usize = 3;

/// Digits that nobody else knows: one guess of theirs is right once in 100 million.
const SECRET_DIGITS: usize = 8;

/// All of them.
const DIGITS: usize = PLACE_DIGITS + SECRET_DIGITS;

/// Caller: what was typed is no pairing code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a pairing code has {DIGITS} digits, as in 123-4567-8901; `strongroom device add` on the other device shows it"
)]
pub struct PairingCodeError;

/// A pairing code. Wiped when dropped, never shown but by `text`.
#[derive(Clone)]
pub struct PairingCode(Locked<DIGITS>);

impl std::fmt::Debug for PairingCode {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("PairingCode(..)")
    }
}

impl PairingCode {
    /// A new code.
    ///
    /// # Errors
    /// `RandomError` if the source fails.
    pub fn random(random: &dyn Random) -> Result<Self, RandomError> {
        let mut drawn = Zeroizing::new([0; 16]);
        random.fill(drawn.as_mut_slice())?;
        // 2^128 is so much more than 10^11 that no code is more likely than another.
        let mut number = u128::from_le_bytes(*drawn);
        Locked::filled(|digits: &mut [u8; DIGITS]| {
            for digit in digits {
                *digit = b'0' + (number % 10) as u8;
                number /= 10;
            }
            Ok(())
        })
        .map(Self)
    }

    /// The code that `text` spells, with or without dashes and spaces.
    ///
    /// # Errors
    /// `PairingCodeError`.
    pub fn parse(text: &str) -> Result<Self, PairingCodeError> {
        let is_between = |one: &char| one.is_whitespace() || *one == '-';
        let mut typed = text.chars().filter(|one| !is_between(one));
        let code = Locked::filled(|digits: &mut [u8; DIGITS]| {
            for digit in digits {
                let found = typed.next().filter(char::is_ascii_digit);
                *digit = found.ok_or(PairingCodeError)? as u8;
            }
            Ok(())
        })?;
        match typed.next() {
            None => Ok(Self(code)),
            Some(_) => Err(PairingCodeError),
        }
    }

    /// Three groups of digits, to be shown.
    #[must_use]
    pub fn text(&self) -> Zeroizing<String> {
        let digits = std::str::from_utf8(self.digits()).expect("digits are ASCII");
        let (place, secret) = digits.split_at(PLACE_DIGITS);
        let (first, second) = secret.split_at(SECRET_DIGITS / 2);
        Zeroizing::new(format!("{place}-{first}-{second}"))
    }

    /// Where the two devices meet at the remote: the first digits. Public.
    #[must_use]
    pub fn place(&self) -> &str {
        std::str::from_utf8(&self.digits()[..PLACE_DIGITS]).expect("digits are ASCII")
    }

    /// All digits, as they are agreed on.
    pub(crate) fn digits(&self) -> &[u8; DIGITS] {
        self.0.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SystemRandom;

    #[test]
    fn a_code_comes_back_however_it_is_typed() {
        let code = PairingCode::random(&SystemRandom).unwrap();
        let text = code.text();
        assert_eq!(text.len(), DIGITS + 2);
        assert!(text.starts_with(&format!("{}-", code.place())));
        for typed in [
            text.to_string(),
            text.replace('-', ""),
            text.replace('-', " "),
            format!(" {}\n", *text),
        ] {
            assert_eq!(PairingCode::parse(&typed).unwrap().digits(), code.digits());
        }
    }

    #[test]
    fn what_is_no_code_is_refused() {
        for bad in [
            "",
            "123-4567-890",
            "123-4567-89012",
            "123-4567-890a",
            "١٢٣-4567-8901",
        ] {
            assert!(PairingCode::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn debug_shows_no_digit() {
        let code = PairingCode::random(&SystemRandom).unwrap();
        assert_eq!(format!("{code:?}"), "PairingCode(..)");
    }
}
