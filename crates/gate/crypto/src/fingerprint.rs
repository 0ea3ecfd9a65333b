//! Turns a vault id into text that two people can compare aloud.
//!
//! Takes   a vault id
//! Gives   ten groups of four hexadecimal digits: its first 160 bits
//! Never   hides anything: the fingerprint is public
//! Spec    spec/1-keys.md, section 1.4

use strongroom_format::{VaultId, hex};

/// Bytes of the vault id that are shown. To make another vault with the same ones takes 2^160 tries.
const FINGERPRINT_BYTES: usize = 20;

/// What tells this vault from a look-alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; FINGERPRINT_BYTES]);

impl Fingerprint {
    /// The fingerprint of the vault of that id.
    #[must_use]
    pub fn of(vault: VaultId) -> Self {
        Self(std::array::from_fn(|place| vault.0[place]))
    }

    /// The fingerprint that `text` spells, in either case, with or without dashes and spaces; `None` if it is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut digits = String::new();
        // One digit more than there may be is enough to know.
        for character in text
            .chars()
            .filter(|c| !c.is_whitespace() && *c != '-')
            .take(2 * FINGERPRINT_BYTES + 1)
        {
            digits.push(character.to_ascii_lowercase());
        }
        hex::decode(&digits).map(Self)
    }
}

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (place, pair) in self.0.chunks_exact(2).enumerate() {
            write!(
                formatter,
                "{}{}",
                if place == 0 { "" } else { "-" },
                hex::encode(pair)
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_comes_back_however_it_is_typed() {
        let fingerprint = Fingerprint::of(VaultId([0xa7; 32]));
        let text = fingerprint.to_string();
        assert_eq!(text, ["a7a7"; 10].join("-"));
        assert_eq!(Fingerprint::parse(&text), Some(fingerprint));
        assert_eq!(
            Fingerprint::parse(&text.to_uppercase().replace('-', " ")),
            Some(fingerprint)
        );
    }

    #[test]
    fn a_part_of_a_fingerprint_is_none() {
        let text = Fingerprint::of(VaultId([0xa7; 32])).to_string();
        for wrong in [&text[1..], &format!("{text}a"), &"x".repeat(40), ""] {
            assert_eq!(Fingerprint::parse(wrong), None);
        }
    }
}
