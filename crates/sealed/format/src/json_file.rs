//! Turns a JSON object into a file that shows accidental damage, and back.
//!
//! Takes   a serialisable object, or the bytes of a file
//! Gives   a file for an object, an object for bytes. The file stays readable JSON and ends with a checksum of
//!         everything before it
//! Never   proves the author: the checksum has no key
//! Spec    spec/1-keys.md, section 1.7
//!
//! Invariants
//!  (1) The checksum line is the last member and has a fixed length, so it is found from the end. [1.7.2]
//!  (2) A file longer than `max` is refused, and not parsed.                                      [1.7.1]

use crate::error::printable;
use crate::{FormatError, hex};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// The format of a file that has had only one.
pub const FORMAT: u64 = 1;
const CHECKSUM_START: &str = "  \"checksum\": \"";
const CHECKSUM_END: &str = "\"\n}\n";
const DIGITS: usize = 64;

/// `value` as pretty JSON without its closing brace, ready for further members.
pub(crate) fn open_object(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(value)
        .expect("(json) holds: the objects of this crate have text keys and no failing serializer");
    bytes.truncate(bytes.len() - "\n}".len());
    bytes.extend_from_slice(b",\n");
    bytes
}

/// Appends one member whose value is 32 bytes in hexadecimal.
pub(crate) fn push_member(bytes: &mut Vec<u8>, name: &str, value: &[u8; 32]) {
    bytes.extend_from_slice(format!("  \"{name}\": \"{}\",\n", hex::encode(value)).as_bytes());
}

/// Closes the object with the checksum of everything so far.
pub(crate) fn close_object(mut bytes: Vec<u8>) -> Vec<u8> {
    let checksum = blake3::hash(&bytes);
    bytes.extend_from_slice(CHECKSUM_START.as_bytes());
    bytes.extend_from_slice(hex::encode(checksum.as_bytes()).as_bytes());
    bytes.extend_from_slice(CHECKSUM_END.as_bytes());
    bytes
}

/// The bytes that the checksum covers, once length, checksum and format number are found right.
pub(crate) fn checked<'a>(
    what: &'static str,
    bytes: &'a [u8],
    max: usize,
) -> Result<&'a [u8], FormatError> {
    checked_format(what, bytes, max, FORMAT).map(|(covered, _)| covered)
}

/// The same for a file of which formats up to `newest` are read, with the format that it has.
pub(crate) fn checked_format<'a>(
    what: &'static str,
    bytes: &'a [u8],
    max: usize,
    newest: u64,
) -> Result<(&'a [u8], u64), FormatError> {
    if bytes.len() > max {
        return Err(FormatError::TooLong {
            what,
            len: bytes.len() as u64,
            max: max as u64,
        });
    }
    let is_known = |format: u64| (FORMAT..=newest).contains(&format);
    let unknown = |found| {
        Err(FormatError::UnknownFormat {
            what,
            found,
            known: newest,
        })
    };
    match (split(bytes), probe(bytes)) {
        (Some((covered, sum)), Some(found)) if blake3::hash(covered) == sum => {
            match is_known(found) {
                true => Ok((covered, found)),
                false => unknown(found),
            }
        }
        // A future format may end in another way, but its number can be read; one bad byte here must not look like it.
        (None, Some(found)) if !is_known(found) => unknown(found),
        _ => Err(FormatError::Damaged { what }),
    }
}

/// The object in `bytes`, every field known and of its type.
pub(crate) fn parse<T: DeserializeOwned>(
    what: &'static str,
    bytes: &[u8],
) -> Result<T, FormatError> {
    serde_json::from_slice(bytes).map_err(|error| FormatError::Field {
        what,
        why: printable(&error.to_string()),
    })
}

fn split(bytes: &[u8]) -> Option<(&[u8], blake3::Hash)> {
    let bytes = bytes.strip_suffix(CHECKSUM_END.as_bytes())?;
    let (bytes, digits) = bytes.split_at_checked(bytes.len().checked_sub(DIGITS)?)?;
    let sum = hex::decode::<32>(std::str::from_utf8(digits).ok()?)?;
    Some((
        bytes.strip_suffix(CHECKSUM_START.as_bytes())?,
        blake3::Hash::from_bytes(sum),
    ))
}

fn probe(bytes: &[u8]) -> Option<u64> {
    /// Only the version, whatever else is there.
    #[derive(Deserialize)]
    struct Probe {
        format: u64,
    }
    serde_json::from_slice(bytes)
        .ok()
        .map(|Probe { format }| format)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Thing {
        format: u64,
        name: &'static str,
    }

    fn file(format: u64) -> Vec<u8> {
        close_object(open_object(&Thing { format, name: "x" }))
    }

    #[test]
    fn the_file_is_json_and_its_checksum_covers_what_is_before_it() {
        let bytes = file(FORMAT);
        let value: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(value["name"], "x");
        let covered = checked("thing", &bytes, 1000).unwrap();
        assert_eq!(
            value["checksum"],
            hex::encode(blake3::hash(covered).as_bytes())
        );
    }

    /// Damage of the version digit too: it must not be taken for a file of the future.
    #[test]
    fn every_flipped_bit_and_every_cut_is_damage() {
        let bytes = file(FORMAT);
        for place in 0..bytes.len() {
            assert_eq!(
                checked("thing", &bytes[..place], 1000),
                Err(FormatError::Damaged { what: "thing" }),
                "{place}"
            );
            for bit in 0..8 {
                let mut bytes = bytes.clone();
                bytes[place] ^= 1 << bit;
                assert_eq!(
                    checked("thing", &bytes, 1000),
                    Err(FormatError::Damaged { what: "thing" }),
                    "{place}"
                );
            }
        }
    }

    #[test]
    fn another_format_is_named_whether_or_not_it_ends_like_ours() {
        let unknown = Err(FormatError::UnknownFormat {
            what: "thing",
            found: 7,
            known: FORMAT,
        });
        assert_eq!(checked("thing", &file(7), 1000), unknown);
        assert_eq!(
            checked("thing", b"{\"format\": 7, \"other\": [1, {}]}", 1000),
            unknown
        );
    }

    #[test]
    fn a_long_file_is_refused_by_its_length() {
        assert_eq!(
            checked("thing", &[b' '; 11], 10),
            Err(FormatError::TooLong {
                what: "thing",
                len: 11,
                max: 10
            })
        );
    }
}
