//! Turns random bits into text that can be printed, read aloud and typed again, and back.
//!
//! Takes   `N` secret bytes, or the text that a person typed
//! Gives   groups of letters and digits with a checksum; or the bytes, or the character that is wrong
//! Never   shows the bytes in any other form; it wipes every copy that it makes
//! Spec    spec/1-keys.md, section 1.6
//!
//! Invariants
//!  (1) The alphabet has no I, L, O or U; typed I and L count as 1, O as 0, in upper or lower case.  [1.6.9]
//!  (2) A mistyped character is found, except in one case in a million (20 bits).               [1.6.10]

use crate::keys::{Purpose, derive};
use crate::limits::SECRET_TEXT_BYTES_MAX;
use crate::locked::Locked;
use zeroize::Zeroizing;

const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const CHECKSUM_CHARACTERS: usize = 4;
const GROUP_CHARACTERS: usize = 4;

/// Caller: what was typed is not the secret that was printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrintedSecretError {
    /// Too few or too many characters.
    #[error(
        "{found} characters were given, {expected} are needed; look for a missing or doubled group"
    )]
    Length {
        /// Letters and digits found.
        found: usize,
        /// Letters and digits of this kind of secret.
        expected: usize,
    },
    /// A character that is never printed.
    #[error(
        "character {position} is not used in such codes; type the letters and digits as they are printed"
    )]
    Character {
        /// Counted from 1, without spaces and dashes.
        position: usize,
    },
    /// Every character could be, but not together.
    #[error("the checksum does not match; at least one character is mistyped")]
    Checksum,
}

/// Letters and digits of a secret of `bytes` bytes, its checksum included.
const fn characters(bytes: usize) -> usize {
    (bytes * 8).div_ceil(5) + CHECKSUM_CHARACTERS
}

/// The text to print, in groups joined by dashes.
pub(crate) fn print<const N: usize>(secret: &[u8; N]) -> Zeroizing<String> {
    let digits = with_checksum(secret);
    let mut text = Zeroizing::new(String::with_capacity(digits.len() * 2));
    for (place, &digit) in digits.iter().enumerate() {
        if place > 0 && place % GROUP_CHARACTERS == 0 {
            text.push('-');
        }
        text.push(char::from(ALPHABET[usize::from(digit)]));
    }
    text
}

/// The secret that `text` spells; spaces, line ends and dashes do not matter.
pub(crate) fn read<const N: usize>(text: &str) -> Result<Locked<N>, PrintedSecretError> {
    let expected = characters(N);
    if text.len() > SECRET_TEXT_BYTES_MAX {
        return Err(PrintedSecretError::Length {
            found: text.len(),
            expected,
        });
    }
    let mut digits = Zeroizing::new(Vec::with_capacity(expected));
    let mut found = 0;
    for character in text.chars().filter(|c| !c.is_whitespace() && *c != '-') {
        found += 1;
        let digit = digit(character).ok_or(PrintedSecretError::Character { position: found })?;
        if found <= expected {
            digits.push(digit);
        }
    }
    if found != expected {
        return Err(PrintedSecretError::Length { found, expected });
    }
    Locked::filled(|secret: &mut [u8; N]| {
        for (place, bit) in bits(&digits).take(N * 8).enumerate() {
            secret[place / 8] |= bit << (7 - place % 8);
        }
        // Compared as a whole, so that spare bits must be zero and one secret has one spelling.
        if *with_checksum(secret.as_slice()) == *digits {
            Ok(())
        } else {
            Err(PrintedSecretError::Checksum)
        }
    })
}

/// The digits of `secret`, most significant bit first, filled up with zeros, and those of its checksum.
fn with_checksum(secret: &[u8]) -> Zeroizing<Vec<u8>> {
    let sum = Zeroizing::new(derive(Purpose::PrintedChecksum, secret));
    let mut digits = Zeroizing::new(Vec::with_capacity(characters(secret.len())));
    digits.extend(
        (0..characters(secret.len()) - CHECKSUM_CHARACTERS).map(|place| five_bits(secret, place)),
    );
    digits.extend((0..CHECKSUM_CHARACTERS).map(|place| five_bits(sum.as_slice(), place)));
    digits
}

fn five_bits(bytes: &[u8], place: usize) -> u8 {
    (place * 5..place * 5 + 5).fold(0, |digit, bit| {
        let byte = bytes.get(bit / 8).copied().unwrap_or(0);
        digit << 1 | byte >> (7 - bit % 8) & 1
    })
}

fn bits(digits: &[u8]) -> impl Iterator<Item = u8> {
    digits
        .iter()
        .flat_map(|digit| (0..5).rev().map(move |bit| digit >> bit & 1))
}

fn digit(character: char) -> Option<u8> {
    let character = match character.to_ascii_uppercase() {
        'I' | 'L' => '1',
        'O' => '0',
        other => other,
    };
    let place = ALPHABET
        .iter()
        .position(|&known| char::from(known) == character)?;
    u8::try_from(place).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_comes_back_however_it_is_typed() {
        let secret: [u8; 20] = std::array::from_fn(|place| u8::try_from(place * 13).unwrap());
        let text = print(&secret);
        assert_eq!(text.len(), 36 + 8);
        assert_eq!(*read::<20>(&text).unwrap().bytes(), secret);
        assert_eq!(
            *read::<20>(&text.to_lowercase().replace('-', " \n"))
                .unwrap()
                .bytes(),
            secret
        );
        assert_eq!(
            *read::<20>(&text.replace('0', "o").replace('1', "l"))
                .unwrap()
                .bytes(),
            secret
        );
        let key = [0xa5; 32];
        assert_eq!(*read::<32>(&print(&key)).unwrap().bytes(), key);
    }

    #[test]
    fn every_single_wrong_character_is_found() {
        let text = print(&[0x5a; 20]).replace('-', "");
        for place in 0..text.len() {
            for wrong in ALPHABET.iter().map(|&c| char::from(c)) {
                let mut typed: Vec<char> = text.chars().collect();
                if typed[place] != wrong {
                    typed[place] = wrong;
                    let typed: String = typed.into_iter().collect();
                    assert_eq!(
                        read::<20>(&typed).unwrap_err(),
                        PrintedSecretError::Checksum
                    );
                }
            }
        }
    }

    #[test]
    fn two_characters_that_changed_places_are_found() {
        let secret: [u8; 20] = std::array::from_fn(|place| u8::try_from(place * 29 % 256).unwrap());
        let text: Vec<char> = print(&secret).replace('-', "").chars().collect();
        for place in 1..text.len() {
            let mut typed = text.clone();
            typed.swap(place - 1, place);
            let typed: String = typed.into_iter().collect();
            let same = text[place - 1] == text[place];
            assert_eq!(read::<20>(&typed).is_ok(), same, "{place}");
        }
    }

    #[test]
    fn errors_say_what_to_look_for() {
        let text = print(&[1; 20]);
        let expected = 36;
        assert_eq!(
            read::<20>(&text[..text.len() - 5]).unwrap_err(),
            PrintedSecretError::Length {
                found: 32,
                expected
            }
        );
        assert_eq!(
            read::<20>(&text.repeat(100)).unwrap_err(),
            PrintedSecretError::Length {
                found: 3600,
                expected
            }
        );
        assert_eq!(
            read::<20>("").unwrap_err(),
            PrintedSecretError::Length { found: 0, expected }
        );
        assert_eq!(
            read::<20>("0000-0U").unwrap_err(),
            PrintedSecretError::Character { position: 6 }
        );
        assert_eq!(
            read::<20>("é").unwrap_err(),
            PrintedSecretError::Character { position: 1 }
        );
    }
}
