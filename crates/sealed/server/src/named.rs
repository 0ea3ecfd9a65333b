//! Reads the meaning of an object's name, as spec/11-sync.md, 11.1 defines it.
//!
//! Takes   a name
//! Gives   the number of a publication; the hash that the bytes must have
//! Never   refuses a name: `ledger.rs` refuses malformed names of publications

use strongroom_remote::ObjectName;

/// Digits of the number of a publication, at least.
const NUMBER_DIGITS: usize = 16;

/// Digits of a whole hash, and of the part of one that the name of a record has.
const HASH_DIGITS: usize = 64;
const RECORD_DIGITS: usize = 16;

/// What the name of an object says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// It is the publication of that number.
    Publication(u64),
    /// It lies among the publications, and is none.
    NoPublication,
    /// BLAKE3 of its bytes begins with these hexadecimal digits.
    Hash(String),
    /// Nothing.
    Other,
}

impl Named {
    pub(crate) fn of(name: &ObjectName) -> Self {
        let (kind, last) = name.split();
        let behind_dash = || last.rsplit_once('-').map_or("", |(_, hash)| hash);
        let hash = match kind {
            Some("publications") => {
                return publication(last).map_or(Self::NoPublication, Self::Publication);
            }
            Some("segments") => (last, HASH_DIGITS),
            Some("headers") => (behind_dash(), HASH_DIGITS),
            Some("revisions") => (behind_dash(), RECORD_DIGITS),
            _ => return Self::Other,
        };
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        match hash.0.len() == hash.1 && hash.0.bytes().all(is_digit) {
            true => Self::Hash(hash.0.to_owned()),
            false => Self::Other,
        }
    }

    /// Whether an object of that name may have bytes with that hash.
    pub(crate) fn admits(&self, hash: &blake3::Hash) -> bool {
        match self {
            Self::Hash(digits) => hash.to_hex().starts_with(digits.as_str()),
            _ => true,
        }
    }
}

/// The number that `last` spells in the one way that counts.
fn publication(last: &str) -> Option<u64> {
    let number: u64 = last.parse().ok()?;
    (number > 0 && format!("{number:0NUMBER_DIGITS$}") == last).then_some(number)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    #[test]
    fn a_name_says_what_the_page_on_remotes_says() {
        let hash = blake3::hash(b"bytes");
        let (hex, other) = (hash.to_hex(), blake3::hash(b"other"));
        let of = |name: String| Named::of(&ObjectName::new(name).unwrap());
        for name in [
            format!("segments/{hex}"),
            format!("headers/0000000000000002-{hex}"),
            format!("revisions/{}.3-{}", "0".repeat(64), &hex[..16]),
        ] {
            let named = of(name.clone());
            assert!(named.admits(&hash) && !named.admits(&other), "{name}");
        }
        assert_eq!(of("segments/7".into()), Named::Other);
        assert_eq!(of("needs/aa.0000000000000001".into()), Named::Other);
        assert_eq!(of("strongroom.json".into()), Named::Other);
        let number = of("publications/0000000000000012".into());
        assert_eq!(number, Named::Publication(12));
        for bad in [
            "12",
            "00000000000000012",
            "0000000000000000",
            "000000000000001a",
            "99999999999999999999",
        ] {
            assert_eq!(
                of(format!("publications/{bad}")),
                Named::NoPublication,
                "{bad}"
            );
        }
    }
}
